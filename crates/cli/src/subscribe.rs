//! `meridian sub`: prints messages as they come.

use crate::client::{ClientOptions, Connection, Session, Signals, Wait, borrow, parse_qos};
use crate::failure::{Failure, chain, failed, usage};
use crate::format::{self, Format};
use meridian_mqtt::packet::{Ack, FilterRequest, Publish, RetainHandling, Subscribe, Unsubscribe};
use meridian_mqtt::{Packet, ReasonCode, Version};
use meridian_types::{Qos, SharedFilter, TopicFilter, TopicName};
use std::collections::HashSet;
use std::io::{BufWriter, StdoutLock, Write as _};
use std::time::{Duration, Instant, SystemTime};

const EXAMPLES: &str = "\
Examples:
  All sensors, topics shown:
    meridian sub -t 'sensors/#' -v
  One message, then leave; fail if none comes in 5 seconds:
    meridian sub -t reply/42 -C 1 -W 5
  For programs:
    meridian sub -t 'sensors/+/temperature' --json | jq .payload
    meridian sub -t '#' --format '%I %t %q %l %x'
  What the broker keeps, and nothing new:
    meridian sub -t 'config/#' -v --retained-only
  A share of the work, a queue while away:
    meridian sub -t '$share/workers/jobs' -q 1 -c -i worker-1
  Over WebSocket:
    meridian sub -L ws://127.0.0.1:7070/mqtt -t '#' -v

Exit codes: 0 done or interrupted, 1 the connection failed or --wait ran out before --count
messages had come, 2 the command line is wrong.";

/// How long nothing may come until `--retained-only` has seen all there is.
const RETAINED_QUIET: Duration = Duration::from_secs(1);
/// How long the server may take to answer SUBSCRIBE.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(30);
/// The first pause before connecting again; each failure doubles it.
const RECONNECT_MIN: Duration = Duration::from_secs(1);
/// The longest such pause.
const RECONNECT_MAX: Duration = Duration::from_secs(30);
/// Packet id of SUBSCRIBE and UNSUBSCRIBE; one at a time is enough.
const PACKET_ID: u16 = 1;

/// Subscribe and print messages
#[derive(clap::Args, Debug)]
#[command(after_help = format!("{}\n\n{EXAMPLES}", format::HELP), disable_help_flag = true, arg_required_else_help = true)]
pub(crate) struct SubArgs {
    /// Topic filter to subscribe to; may be given several times
    #[arg(short = 't', long = "topic", value_name = "FILTER")]
    filters: Vec<String>,
    /// Filter to unsubscribe from first, for sessions kept with -c
    #[arg(short = 'U', long = "unsubscribe", value_name = "FILTER")]
    unsubscribe: Vec<String>,
    /// Do not print messages whose topic matches this filter
    #[arg(short = 'T', long = "filter-out", value_name = "FILTER")]
    filter_out: Vec<String>,
    /// Highest QoS: 0 at most once, 1 at least once, 2 exactly once
    #[arg(short = 'q', long, value_name = "QOS", default_value = "0", value_parser = parse_qos)]
    qos: Qos,
    /// Leave after this many messages
    #[arg(short = 'C', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Leave after this many seconds
    #[arg(short = 'W', long, value_name = "SECONDS")]
    wait: Option<f64>,
    /// Print the messages the broker keeps, then leave
    #[arg(long, conflicts_with = "no_retained")]
    retained_only: bool,
    /// Do not print messages the broker kept
    #[arg(short = 'R', long)]
    no_retained: bool,
    /// Do not send what this client publishes (MQTT 5)
    #[arg(long)]
    no_local: bool,
    /// Show the retain flag as it was published (MQTT 5)
    #[arg(long)]
    retain_as_published: bool,
    /// Connect again when the connection is lost
    #[arg(long)]
    reconnect: bool,
    /// Leave once subscribed; with -c the broker then collects messages
    #[arg(short = 'E', long)]
    subscribe_only: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    client: ClientOptions,
    /// Print help
    #[arg(long, action = clap::ArgAction::HelpShort)]
    help: Option<bool>,
}

/// How messages are printed.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Output")]
struct OutputArgs {
    /// Print the topic before the payload
    #[arg(short = 'v', long, conflicts_with_all = ["json", "format"])]
    verbose: bool,
    /// Print a JSON object for each message
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Print this for each message; see below
    #[arg(short = 'F', long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Do not end each message with a new line
    #[arg(short = 'N', long)]
    no_newline: bool,
}

/// Runs the command.
pub(crate) fn run(args: &SubArgs) -> Result<(), Failure> {
    let session = args.client.session("sub")?;
    let filters = filters(args, &session)?;
    let wait = args.wait.map(Duration::try_from_secs_f64).transpose();
    let wait = wait.map_err(|_| usage("--wait: expected seconds, such as 5 or 0.5"))?;
    let signals = Signals::new().map_err(failed)?;
    let mut subscriber = Subscriber {
        connection: Connection::open(&session)?,
        args,
        format: args.output.format(),
        out: BufWriter::with_capacity(1 << 16, std::io::stdout().lock()),
        received: HashSet::new(),
        printed_count: 0,
        is_subscribed: false,
        is_done: false,
    };
    let until = wait.map(|wait| Instant::now() + wait);
    loop {
        match subscriber.serve(&filters, &session, until, &signals) {
            Err(Failure::Client(error)) if args.reconnect && error.is_lost() => {
                eprintln!("{}; connecting again", chain(&error));
                if !subscriber.reconnect(&session, until, &signals)? {
                    break;
                }
            }
            Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
            outcome => {
                let printed_count = subscriber.printed_count;
                subscriber.connection.close();
                outcome?;
                return check_count(args, printed_count, until);
            }
        }
    }
    check_count(args, subscriber.printed_count, until)
}

/// Fails if `--wait` ran out before `--count` messages came.
fn check_count(args: &SubArgs, printed_count: u64, until: Option<Instant>) -> Result<(), Failure> {
    let (Some(count), Some(until), Some(secs)) = (args.count, until, args.wait) else { return Ok(()) };
    if printed_count >= count || until > Instant::now() {
        return Ok(());
    }
    Err(failed(format!("--wait: {printed_count} of {count} messages came in {secs} s")))
}

impl OutputArgs {
    fn format(&self) -> Format {
        match &self.format {
            Some(format) => format.clone(),
            None if self.json => Format::Json,
            None if self.verbose => Format::TopicAndPayload,
            None => Format::Payload,
        }
    }
}

/// The filters to subscribe to, checked here so that a typing error is told before anything is sent.
fn filters(args: &SubArgs, session: &Session) -> Result<Vec<String>, Failure> {
    let mut filters = args.filters.clone();
    filters.extend(session.address.topic.clone());
    if filters.is_empty() && args.unsubscribe.is_empty() {
        return Err(usage("a topic filter is needed: -t 'sensors/#'"));
    }
    for filter in filters.iter().chain(&args.unsubscribe) {
        SharedFilter::parse(filter).map_err(|error| usage(format!("-t \"{filter}\": {error}")))?;
    }
    for filter in &args.filter_out {
        TopicFilter::new(filter).map_err(|error| usage(format!("-T \"{filter}\": {error}")))?;
    }
    Ok(filters)
}

struct Subscriber<'a> {
    connection: Connection,
    args: &'a SubArgs,
    format: Format,
    out: BufWriter<StdoutLock<'static>>,
    /// Packet ids of QoS 2 messages that were printed and not released yet.
    received: HashSet<u16>,
    printed_count: u64,
    is_subscribed: bool,
    is_done: bool,
}

impl Subscriber<'_> {
    fn serve(
        &mut self,
        filters: &[String],
        session: &Session,
        until: Option<Instant>,
        signals: &Signals,
    ) -> Result<(), Failure> {
        self.subscribe(filters, session, signals)?;
        self.run(until, signals)
    }

    /// Connects again, as often as it takes; false if there was an interrupt or the time was up.
    fn reconnect(
        &mut self,
        session: &Session,
        until: Option<Instant>,
        signals: &Signals,
    ) -> Result<bool, Failure> {
        let mut pause = RECONNECT_MIN;
        loop {
            let pause_end = Instant::now() + pause;
            if signals.wait(until.map_or(pause_end, |until| until.min(pause_end))).map_err(failed)? {
                return Ok(false);
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return Ok(false);
            }
            match Connection::open(session) {
                Ok(connection) => {
                    if !connection.limits().session_present {
                        self.received.clear();
                    }
                    self.connection = connection;
                    return Ok(true);
                }
                Err(error) if error.is_lost() => pause = (pause * 2).min(RECONNECT_MAX),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn subscribe(&mut self, filters: &[String], session: &Session, signals: &Signals) -> Result<(), Failure> {
        if !self.args.unsubscribe.is_empty() {
            let filters = self.args.unsubscribe.iter().map(String::as_str).collect();
            let unsubscribe = Unsubscribe { packet_id: PACKET_ID, filters, ..Unsubscribe::default() };
            self.request(&Packet::Unsubscribe(unsubscribe), &self.args.unsubscribe, signals)?;
        }
        if filters.is_empty() {
            return Ok(());
        }
        let retain_handling =
            if self.args.no_retained { RetainHandling::Never } else { RetainHandling::Always };
        let requests = filters.iter().map(|filter| FilterRequest {
            filter,
            qos: self.args.qos,
            no_local: self.args.no_local,
            retain_as_published: self.args.retain_as_published,
            retain_handling,
        });
        let subscribe = Subscribe {
            packet_id: PACKET_ID,
            subscription_id: session.properties.subscription_id,
            user_properties: borrow(&session.properties.subscribe_user),
            filters: requests.collect(),
        };
        if self.connection.version() == Version::V311 && (self.args.no_local || self.args.retain_as_published)
        {
            return Err(usage("MQTT 3.1.1 knows neither --no-local nor --retain-as-published"));
        }
        self.request(&Packet::Subscribe(subscribe), filters, signals)
    }

    /// Sends SUBSCRIBE or UNSUBSCRIBE and handles what comes until it is answered.
    fn request(&mut self, packet: &Packet<'_>, filters: &[String], signals: &Signals) -> Result<(), Failure> {
        self.connection.send(packet)?;
        self.connection.flush()?;
        self.is_subscribed = false;
        let until = Instant::now() + SUBSCRIBE_TIMEOUT;
        while !self.is_subscribed && !self.is_done {
            let ready =
                self.connection.wait(&Wait { until: Some(until), input: None, signals: Some(signals) })?;
            if ready.interrupted {
                return Err(failed("interrupted before the server answered"));
            }
            if !ready.socket {
                let secs = SUBSCRIBE_TIMEOUT.as_secs();
                return Err(failed(format!("no answer from the server to the subscription within {secs} s")));
            }
            self.take_packets(filters)?;
        }
        Ok(())
    }

    fn run(&mut self, until: Option<Instant>, signals: &Signals) -> Result<(), Failure> {
        if self.args.subscribe_only || (self.args.filters.is_empty() && !self.args.unsubscribe.is_empty()) {
            return Ok(());
        }
        while !self.is_done {
            let quiet = self.args.retained_only.then(|| Instant::now() + RETAINED_QUIET);
            let until = [until, quiet].into_iter().flatten().min();
            let ready = self.connection.wait(&Wait { until, input: None, signals: Some(signals) })?;
            if ready.interrupted || !ready.socket {
                return Ok(());
            }
            self.take_packets(&[])?;
        }
        Ok(())
    }

    /// Reads once and handles all packets that are whole. What is printed is written before it is acknowledged.
    fn take_packets(&mut self, filters: &[String]) -> Result<(), Failure> {
        self.connection.read("while subscribed")?;
        let at = SystemTime::now();
        while !self.is_done {
            let Some(packet) = self.connection.next()? else { break };
            let answer = match packet {
                Packet::Publish(publish) => {
                    let is_new = publish.qos != Qos::ExactlyOnce || self.received.insert(publish.packet_id);
                    if is_new && is_wanted(self.args, &publish) {
                        self.format.write(&publish, at, &mut self.out).map_err(Failure::output)?;
                        if !self.args.output.no_newline {
                            self.out.write_all(b"\n").map_err(Failure::output)?;
                        }
                        self.printed_count += 1;
                    }
                    self.is_done = self.args.count == Some(self.printed_count)
                        || (self.args.retained_only && !publish.retain);
                    acknowledgement(&publish)
                }
                Packet::Pubrel(ack) => {
                    self.received.remove(&ack.packet_id);
                    Some(Packet::Pubcomp(Ack { packet_id: ack.packet_id, ..Ack::default() }))
                }
                Packet::Suback(suback) => {
                    self.is_subscribed = true;
                    check_reasons(&suback.reasons, suback.reason_string, filters)?;
                    None
                }
                Packet::Unsuback(_) => {
                    self.is_subscribed = true;
                    None
                }
                _ => None,
            };
            if let Some(answer) = answer {
                self.connection.send(&answer)?;
            }
        }
        self.out.flush().map_err(Failure::output)?;
        Ok(self.connection.flush()?)
    }
}

fn is_wanted(args: &SubArgs, publish: &Publish<'_>) -> bool {
    if (args.no_retained && publish.retain && !args.retain_as_published)
        || (args.retained_only && !publish.retain)
    {
        return false;
    }
    let Ok(topic) = TopicName::new(publish.topic) else { return true };
    !args.filter_out.iter().any(|filter| TopicFilter::new(filter).is_ok_and(|filter| filter.matches(topic)))
}

fn acknowledgement(publish: &Publish<'_>) -> Option<Packet<'static>> {
    let ack = Ack { packet_id: publish.packet_id, ..Ack::default() };
    match publish.qos {
        Qos::AtMostOnce => None,
        Qos::AtLeastOnce => Some(Packet::Puback(ack)),
        Qos::ExactlyOnce => Some(Packet::Pubrec(ack)),
    }
}

/// Fails if every filter was refused, and warns if some were.
fn check_reasons(reasons: &[ReasonCode], words: Option<&str>, filters: &[String]) -> Result<(), Failure> {
    let words = words.map_or_else(String::new, |words| format!(" ({words})"));
    let refused: Vec<_> = reasons.iter().zip(filters).filter(|(reason, _)| reason.is_error()).collect();
    for (reason, filter) in &refused {
        eprintln!("error: the server refuses \"{filter}\": {}{words}", reason.name());
    }
    if refused.len() == filters.len() && !filters.is_empty() { Err(Failure::Said) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: SubArgs,
    }

    fn args(line: &str) -> SubArgs {
        Cli::parse_from(std::iter::once("sub").chain(line.split(' '))).args
    }

    #[test]
    fn what_is_not_wanted_is_not_printed() {
        let message = |topic, retain| Publish { topic, retain, ..Publish::default() };
        let all = args("-t #");
        assert!(is_wanted(&all, &message("a", true)) && is_wanted(&all, &message("a", false)));
        let out = args("-t # -T a/+ -T b");
        assert!(!is_wanted(&out, &message("a/x", false)) && is_wanted(&out, &message("a/x/y", false)));
        assert!(!is_wanted(&args("-t # -R"), &message("a", true)));
        let retained = args("-t # --retained-only");
        assert!(is_wanted(&retained, &message("a", true)) && !is_wanted(&retained, &message("a", false)));
    }

    #[test]
    fn it_fails_only_if_every_filter_is_refused() {
        let filters = ["a".to_owned(), "b".to_owned()];
        let (good, bad) = (ReasonCode::GrantedQos1, ReasonCode::NotAuthorized);
        assert!(check_reasons(&[good, bad], None, &filters).is_ok());
        assert!(check_reasons(&[bad, bad], Some("no"), &filters).is_err());
    }

    #[test]
    fn filters_are_checked_before_anything_is_sent() {
        let check = |line: &str| {
            let args = args(line);
            filters(&args, &args.client.session("sub").unwrap())
        };
        assert_eq!(check("-t a/# -t $share/g/b").unwrap(), ["a/#", "$share/g/b"]);
        assert_eq!(check("-L mqtt://h/a/b").unwrap(), ["a/b"]);
        for (line, what) in
            [("-q 1", "a topic filter is needed"), ("-t a#", "-t \"a#\""), ("-t a -T b+", "-T \"b+\"")]
        {
            let Err(Failure::Usage(text)) = check(line) else { panic!("{line}") };
            assert!(text.contains(what), "{text}");
        }
    }
}
