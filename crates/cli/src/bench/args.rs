//! The command line of `meridian bench`.

use super::packet::Version;
use super::plan::{self, Plan};
use super::process;
use super::report::Output;
use super::settings::Settings;
use anyhow::Context as _;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  One publisher, one subscriber, as fast as it goes:
    meridian bench fan-out
  Every message to 100 subscribers, at QoS 1:
    meridian bench fan-out --subscribers 100 --window 50 --qos 1
  Latency at a known load:
    meridian bench fan-out --rate 5000
  100 publishers to one subscriber, 1 KiB each:
    meridian bench fan-in --publishers 100 --window 20 --size 1KiB
  A million filters, and what each costs in memory:
    meridian bench wildcard --connections 1000 --filters 1000
  10,000 clients that connect, subscribe and leave, 100 at a time:
    meridian bench connect-storm --clients 10000 --at-once 100
  What an idle connection costs:
    meridian bench idle --connections 10000
  Another broker, the result kept:
    meridian bench pairs --url mqtt://127.0.0.1:1884 --json result.json

How to read the result:
  Without --rate the load is a closed loop: a publisher has at most
  --window messages that are not yet at all their subscribers, so the
  broker runs as fast as it can and overflows nothing. Compare CPU per
  delivered message.
  With --rate it is an open loop: messages fall due at fixed times, whether
  or not the broker keeps up, and latency counts from when a message was
  due, so a stall shows in full. Compare latencies.
  CPU and memory of the server are read where it runs on this machine.";

/// Window of a closed loop.
const WINDOW: u64 = 200;

/// Load any MQTT broker and measure what comes back
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    mode: Mode,
}

/// What the connections do.
#[derive(clap::Subcommand, Debug)]
enum Mode {
    /// Publishers to topics, each topic to many subscribers
    FanOut(FanOut),
    /// Many publishers, a topic each, to few subscribers of all topics
    FanIn(FanIn),
    /// Publisher and subscriber in pairs, a topic per pair
    Pairs(Pairs),
    /// Connections with many wildcard filters each, messages to random matching topics
    Wildcard(Wildcard),
    /// Clients that connect, subscribe and leave, over and over
    ConnectStorm(ConnectStorm),
    /// Connections that all subscribe many filters at once
    SubscribeStorm(SubscribeStorm),
    /// Connections that do nothing: what does each cost in memory
    Idle(Idle),
}

/// Options of `fan-out`.
#[derive(clap::Args, Debug)]
struct FanOut {
    /// Publishers; number P publishes to topic P modulo --topics
    #[arg(short = 'P', long, default_value_t = 1, value_parser = at_least_one)]
    publishers: usize,
    /// Topics
    #[arg(long, default_value_t = 1, value_parser = at_least_one)]
    topics: usize,
    /// Subscribers of each topic
    #[arg(short = 'S', long, default_value_t = 1, value_parser = at_least_one)]
    subscribers: usize,
    /// Subscribers use the one filter PREFIX/+/c/#, which matches every topic
    #[arg(long)]
    wildcard: bool,
    /// Further subscribers, of topics nobody publishes to
    #[arg(long, default_value_t = 0, value_name = "N")]
    idle_subscribers: usize,
    /// Topics of each of those
    #[arg(long, default_value_t = 100, value_name = "K")]
    idle_topics: usize,
    /// Each of those has topics of its own, instead of all the same
    #[arg(long)]
    idle_distinct: bool,
    /// Further subscribers of the topics that never read: slow consumers at their worst
    #[arg(long, default_value_t = 0, value_name = "N")]
    blocked_subscribers: usize,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Options of `fan-in`.
#[derive(clap::Args, Debug)]
struct FanIn {
    /// Publishers
    #[arg(short = 'P', long, default_value_t = 100, value_parser = at_least_one)]
    publishers: usize,
    /// Subscribers, each of PREFIX/#
    #[arg(short = 'S', long, default_value_t = 1, value_parser = at_least_one)]
    subscribers: usize,
    /// They share one subscription: each message goes to one of them
    #[arg(long)]
    shared: bool,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Options of `pairs`.
#[derive(clap::Args, Debug)]
struct Pairs {
    /// Pairs
    #[arg(long, default_value_t = 100, value_parser = at_least_one)]
    pairs: usize,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Options of `wildcard`.
#[derive(clap::Args, Debug)]
struct Wildcard {
    /// Subscribing connections
    #[arg(short = 'C', long, default_value_t = 100, value_parser = at_least_one)]
    connections: usize,
    /// Filters of each, PREFIX/device/CONNECTION/+/NUMBER/#
    #[arg(short = 'K', long, default_value_t = 100, value_parser = at_least_one)]
    filters: usize,
    /// Publishers, each to topics taken at random
    #[arg(short = 'P', long, default_value_t = 1, value_parser = at_least_one)]
    publishers: usize,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Options of `connect-storm`.
#[derive(clap::Args, Debug)]
struct ConnectStorm {
    /// Measure until so many clients were through
    #[arg(long, default_value_t = 10_000)]
    clients: u64,
    /// So many at a time
    #[arg(long, default_value_t = 100, value_parser = at_least_one)]
    at_once: usize,
    /// They do not subscribe
    #[arg(long)]
    no_subscribe: bool,
    #[command(flatten)]
    common: CommonArgs,
}

/// Options of `subscribe-storm`.
#[derive(clap::Args, Debug)]
struct SubscribeStorm {
    /// Connections
    #[arg(short = 'C', long, default_value_t = 100, value_parser = at_least_one)]
    connections: usize,
    /// Filters of each, PREFIX/device/CONNECTION/+/NUMBER/#
    #[arg(short = 'K', long, default_value_t = 1000, value_parser = at_least_one)]
    filters: usize,
    #[command(flatten)]
    common: CommonArgs,
}

/// Options of `idle`.
#[derive(clap::Args, Debug)]
struct Idle {
    /// Connections
    #[arg(short = 'C', long, default_value_t = 1000, value_parser = at_least_one)]
    connections: usize,
    /// Each subscribes one topic of its own
    #[arg(long)]
    subscribe: bool,
    #[command(flatten)]
    common: CommonArgs,
}

/// Options of the modes that publish.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Messages")]
struct LoadArgs {
    /// QoS of messages and subscriptions
    #[arg(short, long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    /// QoS of subscriptions, if another
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=2))]
    subscribe_qos: Option<u8>,
    /// Payload: bytes, or with a unit (1KiB); at least 16, which the stamp takes
    #[arg(short, long, default_value = "16", value_parser = parse_size)]
    size: usize,
    /// Open loop: messages per second, of all publishers together
    #[arg(short, long, value_parser = parse_rate)]
    rate: Option<f64>,
    /// Messages a publisher may have that have not reached all their subscribers; 0 is no limit [default: 200, with
    /// --rate none]
    #[arg(short, long)]
    window: Option<u64>,
    /// Unacknowledged messages of a publisher at QoS 1 and 2
    #[arg(long, default_value_t = 100, value_parser = at_least_one)]
    inflight: usize,
    /// Messages in one write at most
    #[arg(long, default_value_t = 32, value_parser = at_least_one)]
    batch: usize,
}

/// Options of every mode.
#[derive(clap::Args, Debug)]
struct CommonArgs {
    /// The broker
    #[arg(long, default_value = "mqtt://127.0.0.1:1883", help_heading = "Broker")]
    url: String,
    /// Version of the protocol
    #[arg(long, value_enum, default_value_t = Version::V311, help_heading = "Broker")]
    mqtt_version: Version,
    /// User name
    #[arg(long, help_heading = "Broker")]
    username: Option<String>,
    /// Password
    #[arg(long, help_heading = "Broker")]
    password: Option<String>,
    /// First part of all topics
    #[arg(long, default_value = "bench", help_heading = "Broker")]
    prefix: String,
    /// Process of the server, whose CPU and memory are read: its id (or several, with commas), `auto` for who listens on
    /// the port, or `none`
    #[arg(long, default_value = "auto", help_heading = "Broker")]
    pid: String,
    /// Measure for so long: seconds, or with a unit (500ms, 1m)
    #[arg(short, long, default_value = "8", value_parser = parse_duration, help_heading = "Time")]
    duration: Duration,
    /// Load without measuring before that
    #[arg(long, default_value = "2", value_parser = parse_duration, help_heading = "Time")]
    warm_up: Duration,
    /// Wait for late messages until none has come for so long
    #[arg(long, default_value = "1", value_parser = parse_duration, help_heading = "Time")]
    drain: Duration,
    /// Connections in handshake at a time during the set-up
    #[arg(long, default_value_t = 200, value_parser = at_least_one, help_heading = "Generator")]
    connecting: usize,
    /// Filters in one SUBSCRIBE
    #[arg(long, default_value_t = 50, value_parser = at_least_one, help_heading = "Generator")]
    filters_per_subscribe: usize,
    /// Threads of the generator
    #[arg(long, default_value_t = 1, value_parser = at_least_one, help_heading = "Generator")]
    threads: usize,
    /// Write the result as JSON to a file, or to standard output with `-`
    #[arg(long, value_name = "FILE", help_heading = "Generator")]
    json: Option<PathBuf>,
}

impl BenchArgs {
    fn common(&self) -> &CommonArgs {
        match &self.mode {
            Mode::FanOut(args) => &args.common,
            Mode::FanIn(args) => &args.common,
            Mode::Pairs(args) => &args.common,
            Mode::Wildcard(args) => &args.common,
            Mode::ConnectStorm(args) => &args.common,
            Mode::SubscribeStorm(args) => &args.common,
            Mode::Idle(args) => &args.common,
        }
    }

    fn load(&self) -> Option<&LoadArgs> {
        match &self.mode {
            Mode::FanOut(args) => Some(&args.load),
            Mode::FanIn(args) => Some(&args.load),
            Mode::Pairs(args) => Some(&args.load),
            Mode::Wildcard(args) => Some(&args.load),
            Mode::ConnectStorm(_) | Mode::SubscribeStorm(_) | Mode::Idle(_) => None,
        }
    }

    /// Where the result goes.
    pub(crate) fn output(&self) -> Output {
        Output::chosen(self.common().json.as_deref())
    }

    /// Checks the options and resolves the address of the broker.
    ///
    /// # Errors
    /// A URL other than `mqtt://host[:port]`, a name that does not resolve, a process id that is none.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        let common = self.common();
        let load = self.load();
        let address = resolve(&common.url)?;
        let qos = load.map_or(0, |load| load.qos);
        let rate = load.and_then(|load| load.rate);
        let default_window = if rate.is_some() { None } else { Some(WINDOW) };
        let window = load.and_then(|load| load.window).or(default_window);
        Ok(Settings {
            url: common.url.clone(),
            address,
            version: common.mqtt_version,
            username: common.username.clone(),
            password: common.password.clone(),
            prefix: common.prefix.clone(),
            pids: process::chosen(&common.pid, address)?,
            duration: common.duration,
            warm_up: common.warm_up,
            drain: common.drain,
            connecting: match &self.mode {
                Mode::ConnectStorm(args) => args.at_once,
                _ => common.connecting,
            },
            filters_per_subscribe: common.filters_per_subscribe,
            threads: common.threads,
            qos,
            subscribe_qos: load.and_then(|load| load.subscribe_qos).unwrap_or(qos),
            size: load.map_or(plan::SIZE_MIN, |load| load.size),
            rate,
            window: window.filter(|&window| window > 0),
            inflight: load.map_or(1, |load| load.inflight),
            batch: load.map_or(1, |load| load.batch),
        })
    }

    /// Lays out the connections of the chosen mode.
    ///
    /// # Errors
    /// More publishers than a stamp can tell apart.
    pub(crate) fn plan(&self, settings: &Settings) -> anyhow::Result<Plan> {
        match &self.mode {
            Mode::FanOut(args) => plan::fan_out(
                settings,
                &plan::FanOut {
                    publishers: args.publishers,
                    topics: args.topics,
                    subscribers: args.subscribers,
                    wildcard: args.wildcard,
                    idle_subscribers: args.idle_subscribers,
                    idle_topics: args.idle_topics,
                    idle_distinct: args.idle_distinct,
                    blocked_subscribers: args.blocked_subscribers,
                },
            ),
            Mode::FanIn(args) => plan::fan_in(settings, args.publishers, args.subscribers, args.shared),
            Mode::Pairs(args) => plan::pairs(settings, args.pairs),
            Mode::Wildcard(args) => plan::wildcard(settings, args.connections, args.filters, args.publishers),
            Mode::ConnectStorm(args) => {
                Ok(plan::connect_storm(settings, args.clients, args.at_once, !args.no_subscribe))
            }
            Mode::SubscribeStorm(args) => Ok(plan::subscribe_storm(settings, args.connections, args.filters)),
            Mode::Idle(args) => Ok(plan::idle(settings, args.connections, args.subscribe)),
        }
    }
}

fn resolve(url: &str) -> anyhow::Result<SocketAddr> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("mqtt", url));
    anyhow::ensure!(
        scheme == "mqtt" || scheme == "tcp",
        "--url {url}: only mqtt://host:port is spoken, not {scheme}://"
    );
    let host = rest.trim_end_matches('/');
    // A colon after the last bracket is that of a port; one inside brackets belongs to an IPv6 address.
    let has_port = host.rsplit(']').next().is_some_and(|tail| tail.contains(':'));
    let with_port = if has_port { host.to_owned() } else { format!("{host}:1883") };
    with_port
        .to_socket_addrs()
        .with_context(|| format!("--url {url}: {with_port} is not an address"))?
        .next()
        .with_context(|| format!("--url {url}: {host} has no address"))
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err("not a whole number".to_owned()),
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate),
        _ => Err("must be a number above 0, in messages per second".to_owned()),
    }
}

fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" | "K" | "k" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        unit => return Err(format!("unknown unit {unit}; use B, KiB or MiB")),
    };
    let size: usize = digits.trim().parse().map_err(|_| "not a whole number of bytes".to_owned())?;
    let size = size.saturating_mul(factor);
    if size < plan::SIZE_MIN {
        return Err(format!(
            "at least {} bytes: the stamp of time, publisher and number takes them",
            plan::SIZE_MIN
        ));
    }
    if size > plan::SIZE_MAX {
        return Err(format!("at most {} bytes: an MQTT packet holds no more", plan::SIZE_MAX));
    }
    Ok(size)
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("unknown unit {unit}; use ms, s, m or h")),
    };
    let count: f64 = digits.trim().parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(count * factor).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_take_units() {
        assert_eq!(parse_size("1KiB"), Ok(1024));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5"), Ok(Duration::from_millis(1500)));
        assert!(parse_size("15").is_err());
        assert!(parse_duration("3x").is_err());
    }

    #[test]
    fn urls_default_to_port_1883_and_refuse_other_schemes() {
        assert_eq!(resolve("mqtt://127.0.0.1").expect("an address").port(), 1883);
        assert_eq!(resolve("mqtt://[::1]").expect("an address").port(), 1883);
        assert_eq!(resolve("mqtt://[::1]:7").expect("an address").port(), 7);
        assert!(resolve("ws://127.0.0.1:80").is_err());
    }
}
