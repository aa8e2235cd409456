//! OpenMetrics text (<https://prometheus.io/docs/specs/om/open_metrics_spec/>).

use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows. `_total` is appended to its name.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Facts in labels; the value is 1. `_info` is appended to its name.
    Info,
}

/// A value: whole, or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Counts and bytes.
    Whole(u64),
    /// Seconds and ratios.
    Real(f64),
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => value.fmt(f),
            Self::Real(value) if value.is_nan() => f.write_str("NaN"),
            Self::Real(value) if value.is_infinite() => {
                f.write_str(if *value > 0.0 { "+Inf" } else { "-Inf" })
            }
            Self::Real(value) => value.fmt(f),
        }
    }
}

/// One value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Name of the metric, such as `meridian_messages_received`, with or without the suffix of its kind.
    pub name: &'static str,
    /// What it counts, in a sentence.
    pub help: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Names and values from closed sets; never a client id or a topic.
    pub labels: Vec<(&'static str, Cow<'static, str>)>,
    /// The value.
    pub value: Number,
}

impl Sample {
    /// A counter without labels.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, kind: Kind::Counter, labels: Vec::new(), value: value.into() }
    }

    /// A gauge without labels.
    pub fn gauge(name: &'static str, help: &'static str, value: impl Into<Number>) -> Self {
        Self { name, help, kind: Kind::Gauge, labels: Vec::new(), value: value.into() }
    }

    /// Facts, such as the version.
    pub const fn info(
        name: &'static str,
        help: &'static str,
        labels: Vec<(&'static str, Cow<'static, str>)>,
    ) -> Self {
        Self { name, help, kind: Kind::Info, labels, value: Number::Whole(1) }
    }

    /// The same with one more label.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.labels.push((name, value.into()));
        self
    }

    /// The metric's name without the suffix of its kind.
    fn family(&self) -> &'static str {
        self.name.strip_suffix(self.suffix()).unwrap_or(self.name)
    }

    const fn suffix(&self) -> &'static str {
        match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge => "",
            Kind::Info => "_info",
        }
    }
}

/// Encodes samples. Those of one metric are brought together, in the order of their first appearance, as the format
/// demands. Cost: one sort of the samples.
pub fn encode(samples: &[Sample]) -> String {
    let mut rank = std::collections::HashMap::new();
    for sample in samples {
        let next = rank.len();
        rank.entry(sample.family()).or_insert(next);
    }
    let mut sorted: Vec<&Sample> = samples.iter().collect();
    sorted.sort_by_key(|sample| rank[sample.family()]);

    let mut out = String::with_capacity(samples.len() * 128);
    let mut family = "";
    for sample in sorted {
        if sample.family() != family {
            family = sample.family();
            write_family(sample, &mut out);
        }
        write_sample(sample, &mut out);
    }
    out.push_str("# EOF\n");
    out
}

fn write_family(sample: &Sample, out: &mut String) {
    let kind = match sample.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Info => "info",
    };
    let _ = write!(out, "# TYPE {0} {kind}\n# HELP {0} ", sample.family());
    write_escaped(sample.help, out);
    out.push('\n');
}

fn write_sample(sample: &Sample, out: &mut String) {
    out.push_str(sample.family());
    out.push_str(sample.suffix());
    let mut separator = '{';
    for (name, value) in &sample.labels {
        out.push(separator);
        separator = ',';
        out.push_str(name);
        out.push_str("=\"");
        write_escaped(value, out);
        out.push('"');
    }
    if !sample.labels.is_empty() {
        out.push('}');
    }
    let _ = writeln!(out, " {}", sample.value);
}

fn write_escaped(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_written_as_the_specification_says() {
        let samples = [
            Sample::counter("meridian_messages_dropped", "Messages dropped.", 3).with("reason", "queue_full"),
            Sample::gauge("meridian_connections", "Open connections.", 2),
            Sample::counter("meridian_messages_dropped_total", "Messages dropped.", 0)
                .with("reason", "expired"),
            Sample::gauge("meridian_uptime_seconds", "A \\ and\na line.", 1.5),
            Sample::info("meridian_build", "The build.", vec![("version", Cow::Borrowed("a\"b\\c\n"))]),
        ];
        let expected = "# TYPE meridian_messages_dropped counter\n\
            # HELP meridian_messages_dropped Messages dropped.\n\
            meridian_messages_dropped_total{reason=\"queue_full\"} 3\n\
            meridian_messages_dropped_total{reason=\"expired\"} 0\n\
            # TYPE meridian_connections gauge\n\
            # HELP meridian_connections Open connections.\n\
            meridian_connections 2\n\
            # TYPE meridian_uptime_seconds gauge\n\
            # HELP meridian_uptime_seconds A \\\\ and\\na line.\n\
            meridian_uptime_seconds 1.5\n\
            # TYPE meridian_build info\n\
            # HELP meridian_build The build.\n\
            meridian_build_info{version=\"a\\\"b\\\\c\\n\"} 1\n\
            # EOF\n";
        assert_eq!(encode(&samples), expected);
    }

    #[test]
    fn no_samples_are_an_empty_exposition() {
        assert_eq!(encode(&[]), "# EOF\n");
    }

    #[test]
    fn odd_numbers_have_names() {
        let text = |value: f64| Number::Real(value).to_string();
        assert_eq!(
            (text(f64::NAN), text(f64::INFINITY), text(-0.25)),
            ("NaN".into(), "+Inf".into(), "-0.25".into())
        );
    }
}
