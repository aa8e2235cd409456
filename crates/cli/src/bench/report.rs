//! The result of a run: a table for people, JSON for programs.

use super::measure::Measured;
use super::plan::Course;
use super::process::Sample;
use anyhow::Context as _;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};

/// Where a result goes.
#[derive(Debug)]
pub(crate) struct Output {
    /// JSON to standard output.
    json: bool,
    file: Option<PathBuf>,
}

impl Output {
    /// What `--json` says: a file besides the table, `-` for standard output instead of it, nothing for a table on a
    /// terminal and JSON into a pipe.
    pub(crate) fn chosen(json: Option<&Path>) -> Self {
        match json {
            Some(path) if path == Path::new("-") => Self { json: true, file: None },
            Some(path) => Self { json: false, file: Some(path.to_owned()) },
            None => Self { json: !std::io::stdout().is_terminal(), file: None },
        }
    }
}

/// The JSON result; every time is in the unit its name ends in.
#[derive(Debug, Serialize)]
struct Report<'a> {
    mode: &'a str,
    shape: &'a str,
    url: &'a str,
    mqtt_version: &'a str,
    qos: u8,
    size_bytes: usize,
    publishers: usize,
    subscribers: usize,
    connections: usize,
    filters: usize,
    rate_per_s: Option<f64>,
    window: Option<u64>,
    inflight: usize,
    set_up_s: f64,
    seconds: f64,
    published: u64,
    published_per_s: f64,
    delivered: u64,
    delivered_per_s: f64,
    delivered_bytes: u64,
    clients: u64,
    clients_per_s: f64,
    filters_added: u64,
    filters_per_s: f64,
    latency_us: Percentiles,
    ack_latency_us: Percentiles,
    handshake_us: Percentiles,
    server: Option<Server>,
    generator_cores: f64,
    other_cores: f64,
    loss: Loss,
    troubles: &'a [String],
}

/// A distribution, in microseconds.
#[derive(Debug, Serialize)]
struct Percentiles {
    count: u64,
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    p9999: f64,
    max: f64,
}

/// The process of the broker.
#[derive(Debug, Serialize)]
struct Server {
    pids: Vec<u32>,
    cpu_s: f64,
    system_cpu_s: f64,
    cores: f64,
    cpu_us_per_delivered: Option<f64>,
    cpu_us_per_client: Option<f64>,
    cpu_us_per_filter: Option<f64>,
    rss_before_bytes: u64,
    rss_set_up_bytes: u64,
    rss_end_bytes: u64,
    rss_peak_bytes: u64,
    bytes_per_connection: Option<f64>,
    bytes_per_filter: Option<f64>,
    threads: u64,
    written_bytes: u64,
}

/// What went wrong, over the whole run.
#[derive(Debug, Serialize)]
struct Loss {
    expected: u64,
    lost: u64,
    written_off: u64,
    gaps: u64,
    duplicates: u64,
    reordered: u64,
    foreign: u64,
    connections_failed: u64,
    connections_closed: u64,
    refused: u64,
}

impl Loss {
    fn is_none(&self) -> bool {
        self.lost
            + self.written_off
            + self.gaps
            + self.duplicates
            + self.reordered
            + self.foreign
            + self.connections_failed
            + self.connections_closed
            + self.refused
            == 0
    }
}

/// Prints or writes the result.
///
/// # Errors
/// The file cannot be written, or standard output is closed.
pub(crate) fn emit(run: &Measured, output: &Output) -> anyhow::Result<()> {
    let report = Report::of(run);
    let json = serde_json::to_string_pretty(&report).context("cannot encode the result")?;
    if let Some(path) = &output.file {
        std::fs::write(path, json.clone() + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let text = if output.json { json + "\n" } else { report.table() };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write the result")
}

impl Percentiles {
    fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| micros(histogram.value_at_quantile(quantile));
        Self {
            count: histogram.len(),
            mean: round(histogram.mean() / 1e3),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: micros(histogram.max()),
        }
    }

    fn line(&self) -> String {
        format!(
            "p50 {}  p90 {}  p99 {}  p99.9 {}  p99.99 {}  max {}",
            time(self.p50),
            time(self.p90),
            time(self.p99),
            time(self.p999),
            time(self.p9999),
            time(self.max)
        )
    }
}

impl<'a> Report<'a> {
    fn of(run: &'a Measured) -> Self {
        let settings = &run.settings;
        let per_second = |count: u64| round(count as f64 / run.seconds);
        let total = run.total;
        let set_up_filters = if run.course == Course::Subscriptions { run.counted.subscribed } else { 0 };
        let filters_per_s = match run.course {
            Course::Subscriptions => per_second(set_up_filters),
            _ if run.set_up_s > 0.0 => round(run.filters as f64 / run.set_up_s),
            _ => 0.0,
        };
        Self {
            mode: run.mode,
            shape: &run.shape,
            url: &settings.url,
            mqtt_version: settings.version.name(),
            qos: settings.qos,
            size_bytes: settings.size,
            publishers: run.publishers,
            subscribers: run.subscribers,
            connections: run.connections,
            filters: run.filters,
            rate_per_s: settings.rate,
            window: settings.window,
            inflight: settings.inflight,
            set_up_s: round(run.set_up_s),
            seconds: round(run.seconds),
            published: run.counted.published,
            published_per_s: per_second(run.counted.published),
            delivered: run.counted.delivered,
            delivered_per_s: per_second(run.counted.delivered),
            delivered_bytes: run.counted.delivered_bytes,
            clients: run.counted.visits,
            clients_per_s: per_second(run.counted.visits),
            filters_added: set_up_filters,
            filters_per_s,
            latency_us: Percentiles::of(&run.latency),
            ack_latency_us: Percentiles::of(&run.ack_latency),
            handshake_us: Percentiles::of(&run.handshake),
            server: (!settings.pids.is_empty()).then(|| Server::of(run)),
            generator_cores: round(run.generator_cpu_s / run.seconds),
            other_cores: round(run.other_cpu_s / run.seconds),
            loss: Loss {
                expected: run.expected,
                lost: (run.expected + total.duplicates).saturating_sub(total.delivered),
                written_off: total.written_off,
                gaps: total.gaps,
                duplicates: total.duplicates,
                reordered: total.reordered,
                foreign: total.foreign,
                connections_failed: total.failed,
                connections_closed: total.closed,
                refused: total.refused,
            },
            troubles: &run.troubles,
        }
    }

    fn table(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {name:<12}{value}");
        };
        row("mode", format!("{}: {}", self.mode, self.shape));
        if self.publishers > 0 {
            row("load", self.load());
        }
        if self.set_up_s > 0.0 {
            // A subscribe storm adds its filters later.
            let filters = if self.filters_added > 0 { 0 } else { self.filters };
            let what = format!("{} connections, {} filters", number(self.connections), number(filters));
            row("set-up", format!("{what} in {:.3} s; {}", self.set_up_s, self.handshake_us.line()));
        }
        row("measured", format!("{:.2} s", self.seconds));
        if self.publishers > 0 {
            let bytes_per_s = self.delivered_bytes as f64 / self.seconds;
            row("published", format!("{} msg/s", number(self.published_per_s as usize)));
            let delivered = number(self.delivered_per_s as usize);
            row("delivered", format!("{delivered} msg/s, {:.1} MB/s", bytes_per_s / 1e6));
        }
        if self.clients > 0 {
            row(
                "clients",
                format!(
                    "{} in all, {}/s",
                    number(self.clients as usize),
                    number(self.clients_per_s as usize)
                ),
            );
        }
        if self.filters_added > 0 {
            let rate = number(self.filters_per_s as usize);
            row("filters", format!("{} in all, {rate}/s", number(self.filters_added as usize)));
        }
        if self.latency_us.count > 0 {
            row("latency", self.latency_us.line());
        }
        if self.ack_latency_us.count > 0 {
            row("ack latency", self.ack_latency_us.line());
        }
        match &self.server {
            Some(server) => server.rows(&mut row),
            None => row("server", "CPU and memory unknown; give its process id by --pid".to_owned()),
        }
        row("generator", format!("{:.2} cores; others {:.2}", self.generator_cores, self.other_cores));
        row("loss", self.loss.line());
        for trouble in self.troubles {
            row("!", trouble.clone());
        }
        text
    }

    fn load(&self) -> String {
        let kind = match (self.rate_per_s, self.window) {
            (Some(rate), _) => format!("open loop, {} msg/s", number(rate as usize)),
            (None, Some(window)) => format!("closed loop, window {window}"),
            (None, None) => "as fast as the sockets take it".to_owned(),
        };
        format!("MQTT {}, QoS {}, {} B, {kind}", self.mqtt_version, self.qos, self.size_bytes)
    }
}

impl Server {
    fn of(run: &Measured) -> Self {
        let Sample { cpu_s: start_s, system_s: start_system_s, .. } = run.server.measure_start;
        let end = run.server.measure_end;
        let cpu_s = end.cpu_s - start_s;
        let micros_per = |count: u64| (count > 0).then(|| round(cpu_s * 1e6 / count as f64));
        // Of a storm, nothing stays; subscriptions of a subscribe storm come after the set-up.
        let (from, to) = match run.course {
            Course::Subscriptions => (run.server.set_up, run.server.end),
            Course::Rest => (run.server.before, run.server.end),
            Course::Messages | Course::Visits { .. } => (run.server.before, run.server.set_up),
        };
        let grown = to.rss_bytes as f64 - from.rss_bytes as f64;
        let connections_only = run.course == Course::Rest;
        let mostly_filters = run.filters >= 10 * run.connections;
        Self {
            pids: run.settings.pids.clone(),
            cpu_s: round(cpu_s),
            system_cpu_s: round(end.system_s - start_system_s),
            cores: round(cpu_s / run.seconds),
            cpu_us_per_delivered: micros_per(run.counted.delivered),
            cpu_us_per_client: micros_per(run.counted.visits),
            cpu_us_per_filter: if run.course == Course::Subscriptions {
                micros_per(run.counted.subscribed)
            } else {
                None
            },
            rss_before_bytes: run.server.before.rss_bytes,
            rss_set_up_bytes: run.server.set_up.rss_bytes,
            rss_end_bytes: run.server.end.rss_bytes,
            rss_peak_bytes: run.server.end.rss_peak_bytes,
            bytes_per_connection: connections_only.then(|| round(grown / run.connections as f64)),
            bytes_per_filter: mostly_filters.then(|| round(grown / run.filters as f64)),
            threads: end.threads,
            written_bytes: run.server.end.written_bytes - run.server.before.written_bytes,
        }
    }

    fn rows(&self, row: &mut impl FnMut(&str, String)) {
        let mut cost = format!("{:.2} cores", self.cores);
        let each = [
            (self.cpu_us_per_delivered, "delivered message"),
            (self.cpu_us_per_client, "client"),
            (self.cpu_us_per_filter, "filter"),
        ];
        for (micros, what) in each.into_iter().filter_map(|(micros, what)| Some((micros?, what))) {
            let _ = write!(cost, "; {micros:.2} us CPU per {what}");
        }
        row("server CPU", cost);
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let mut memory = format!(
            "{:.1} MiB before, {:.1} set up, {:.1} at the end",
            mib(self.rss_before_bytes),
            mib(self.rss_set_up_bytes),
            mib(self.rss_end_bytes)
        );
        for (bytes, what) in [(self.bytes_per_connection, "connection"), (self.bytes_per_filter, "filter")] {
            if let Some(bytes) = bytes {
                let _ = write!(memory, "; {bytes:.0} B per {what}");
            }
        }
        row("server RSS", memory);
    }
}

impl Loss {
    fn line(&self) -> String {
        if self.is_none() {
            return "none".to_owned();
        }
        let counts = [
            (self.lost, "lost"),
            (self.written_off, "given up on"),
            (self.gaps, "missing in sequence"),
            (self.duplicates, "twice"),
            (self.reordered, "out of order"),
            (self.foreign, "of another run"),
            (self.connections_failed, "connections failed"),
            (self.connections_closed, "connections closed by the broker"),
            (self.refused, "refused"),
        ];
        let found: Vec<String> = counts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", number(count as usize)))
            .collect();
        format!("{} (of {} expected)", found.join(", "), number(self.expected as usize))
    }
}

fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn micros(nanoseconds: u64) -> f64 {
    (nanoseconds as f64 / 100.0).round() / 10.0
}

fn time(micros: f64) -> String {
    match micros {
        us if us < 1e3 => format!("{us:.0} us"),
        us if us < 1e6 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

/// With a comma between thousands.
fn number(value: usize) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_read_easily() {
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!(number(999), "999");
        assert_eq!(time(850.0), "850 us");
        assert_eq!(time(1_250.0), "1.25 ms");
    }
}
