//! `meridian pub`: publishes one message, or a line each.

use crate::client::{ClientOptions, Connection, Session, Signals, Wait, parse_qos};
use crate::failure::{Failure, failed, usage};
use meridian_mqtt::Packet;
use meridian_mqtt::encode::{PublishHead, publish_len};
use meridian_mqtt::packet::Ack;
use meridian_types::{Properties, Qos, TopicName};
use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{Read as _, stdin};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  A message:
    meridian pub -t sensors/kitchen -m 21.5
  Kept by the broker for whoever subscribes later, and cleared again:
    meridian pub -t config/mode -m auto -r -q 1
    meridian pub -t config/mode -n -r
  A message for each line of a log:
    tail -f app.log | meridian pub -t logs/app -l
  A file, with its type:
    meridian pub -t images/door -f door.jpg -D publish content-type image/jpeg
  Over WebSocket, as a user:
    meridian pub -L ws://broker.example.com:8083/mqtt -u ann -P secret -t hello -m hi

Exit codes: 0 all messages were taken, 1 not all, 2 the command line is wrong.";

/// Unacknowledged messages in flight, unless the server takes fewer.
const INFLIGHT_MAX: u16 = 100;
/// Bytes read from standard input at a time.
const READ_BYTES: usize = 64 * 1024;
/// The longest line taken.
const LINE_BYTES_MAX: usize = meridian_types::limits::MQTT_PACKET_BYTES_MAX;

/// Publish messages
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES, disable_help_flag = true, arg_required_else_help = true)]
pub(crate) struct PubArgs {
    /// Topic to publish to
    #[arg(short = 't', long, value_name = "TOPIC")]
    topic: Option<String>,
    #[command(flatten)]
    payload: PayloadArgs,
    /// QoS: 0 at most once, 1 at least once, 2 exactly once
    #[arg(short = 'q', long, value_name = "QOS", default_value = "0", value_parser = parse_qos)]
    qos: Qos,
    /// Let the broker keep the message for later subscribers
    #[arg(short = 'r', long)]
    retain: bool,
    /// Publish the message this many times
    #[arg(long, alias = "repeat", value_name = "N", default_value_t = 1, conflicts_with = "lines")]
    count: u64,
    /// Seconds between them, such as 0.5
    #[arg(
        long,
        alias = "repeat-delay",
        value_name = "SECONDS",
        default_value_t = 0.0,
        conflicts_with = "lines"
    )]
    delay: f64,
    /// Unacknowledged messages in flight at QoS 1 and 2
    #[arg(short = 'M', long, value_name = "N", default_value_t = INFLIGHT_MAX, value_parser = clap::value_parser!(u16).range(1..))]
    max_inflight: u16,
    #[command(flatten)]
    client: ClientOptions,
    /// Print help
    #[arg(long, action = clap::ArgAction::HelpShort)]
    help: Option<bool>,
}

/// Where the payload comes from.
#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
struct PayloadArgs {
    /// This text
    #[arg(short = 'm', long, value_name = "TEXT")]
    message: Option<String>,
    /// A file
    #[arg(short = 'f', long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Standard input as one message
    #[arg(short = 's', long = "stdin-file", alias = "stdin")]
    stdin: bool,
    /// Standard input, a message for each line
    #[arg(short = 'l', long = "stdin-line", alias = "lines")]
    lines: bool,
    /// No payload; with -r it clears what the broker keeps
    #[arg(short = 'n', long = "null-message")]
    null: bool,
}

/// Runs the command.
pub(crate) fn run(args: &PubArgs) -> Result<(), Failure> {
    let session = args.client.session("pub")?;
    let topic = args.topic.as_deref().or(session.address.topic.as_deref());
    let topic = topic.ok_or_else(|| usage("a topic is needed: -t TOPIC"))?;
    TopicName::new(topic).map_err(|error| usage(format!("-t \"{topic}\": {error}")))?;
    let delay = Duration::try_from_secs_f64(args.delay)
        .map_err(|_| usage("--delay: expected seconds, such as 0.5"))?;
    let source = source(args, delay)?;
    let signals = Signals::new().map_err(failed)?;
    let connection = Connection::open(&session)?;
    let message = Message { topic, qos: args.qos, retain: args.retain, session: &session };
    let window = args.max_inflight.min(connection.limits().receive_maximum);
    let mut publisher =
        Publisher { connection, message, window, last_id: 0, inflight: HashSet::new(), refused_count: 0 };
    let outcome = publisher.run(source, &signals);
    let refused_count = publisher.refused_count;
    publisher.connection.close();
    outcome?;
    if refused_count == 0 { Ok(()) } else { Err(Failure::Said) }
}

fn source(args: &PubArgs, delay: Duration) -> Result<Source, Failure> {
    let payload = &args.payload;
    let bytes = if let Some(text) = &payload.message {
        text.clone().into_bytes()
    } else if let Some(path) = &payload.file {
        std::fs::read(path).map_err(|error| failed(format!("cannot read {}: {error}", path.display())))?
    } else if payload.stdin {
        let mut bytes = Vec::new();
        stdin()
            .read_to_end(&mut bytes)
            .map_err(|error| failed(format!("cannot read standard input: {error}")))?;
        bytes
    } else if payload.lines {
        return Lines::new().map(Source::Lines);
    } else {
        Vec::new()
    };
    Ok(Source::Repeat { payload: bytes, left: args.count, delay, due: Instant::now() })
}

/// Where payloads come from.
enum Source {
    Repeat { payload: Vec<u8>, left: u64, delay: Duration, due: Instant },
    Lines(Lines),
}

/// What a source has to offer now.
enum Offer {
    Payload(Vec<u8>),
    /// Nothing before then.
    Later(Instant),
    /// Nothing before there is more to read.
    Unread,
    End,
}

impl Source {
    fn next(&mut self, now: Instant) -> Offer {
        match self {
            Self::Repeat { left: 0, .. } => Offer::End,
            Self::Repeat { due, .. } if *due > now => Offer::Later(*due),
            Self::Repeat { payload, left, delay, due } => {
                *left -= 1;
                *due = now + *delay;
                Offer::Payload(payload.clone())
            }
            Self::Lines(lines) => lines.next(),
        }
    }

    fn input(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Lines(lines) => Some(lines.file.as_fd()),
            Self::Repeat { .. } => None,
        }
    }

    fn read(&mut self) -> Result<(), Failure> {
        match self {
            Self::Lines(lines) => lines.read(),
            Self::Repeat { .. } => Ok(()),
        }
    }
}

/// Standard input, cut into lines. Not the standard library's reader: that one cannot tell whether it has more.
struct Lines {
    file: File,
    ready: VecDeque<Vec<u8>>,
    partial: Vec<u8>,
    ended: bool,
}

impl Lines {
    fn new() -> Result<Self, Failure> {
        let file = stdin().as_fd().try_clone_to_owned().map_err(failed)?;
        Ok(Self { file: file.into(), ready: VecDeque::new(), partial: Vec::new(), ended: false })
    }

    fn next(&mut self) -> Offer {
        match self.ready.pop_front() {
            Some(line) => Offer::Payload(line),
            None if self.ended => Offer::End,
            None => Offer::Unread,
        }
    }

    fn read(&mut self) -> Result<(), Failure> {
        let mut chunk = vec![0; READ_BYTES];
        let read = match self.file.read(&mut chunk) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(()),
            result => result.map_err(|error| failed(format!("cannot read standard input: {error}")))?,
        };
        self.feed(&chunk[..read]);
        if self.partial.len() > LINE_BYTES_MAX {
            return Err(failed(format!("a line of standard input is longer than {LINE_BYTES_MAX} bytes")));
        }
        Ok(())
    }

    /// Takes what was read; nothing is the end, which also ends the last line.
    fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(&rest[..at]);
            self.ready.push_back(std::mem::take(&mut self.partial));
            rest = &rest[at + 1..];
        }
        self.partial.extend_from_slice(rest);
        if bytes.is_empty() {
            self.ended = true;
            if !self.partial.is_empty() {
                self.ready.push_back(std::mem::take(&mut self.partial));
            }
        }
    }
}

/// What all messages have in common.
struct Message<'a> {
    topic: &'a str,
    qos: Qos,
    retain: bool,
    session: &'a Session,
}

struct Publisher<'a> {
    connection: Connection,
    message: Message<'a>,
    window: u16,
    last_id: u16,
    /// Packet ids that are not acknowledged yet.
    inflight: HashSet<u16>,
    refused_count: u64,
}

impl Publisher<'_> {
    fn run(&mut self, mut source: Source, signals: &Signals) -> Result<(), Failure> {
        let properties = self.message.session.properties.publish.boxed();
        loop {
            let mut until = None;
            let mut is_unread = false;
            while self.inflight.len() < usize::from(self.window) {
                match source.next(Instant::now()) {
                    Offer::Payload(payload) => self.publish(&payload, properties.as_deref())?,
                    Offer::Later(due) => {
                        until = Some(due);
                        break;
                    }
                    Offer::Unread => {
                        is_unread = true;
                        break;
                    }
                    Offer::End if self.inflight.is_empty() => return Ok(self.connection.flush()?),
                    Offer::End => break,
                }
            }
            self.connection.flush()?;
            let input = if is_unread { source.input() } else { None };
            let ready = self.connection.wait(&Wait { until, input, signals: Some(signals) })?;
            if ready.interrupted {
                return Err(failed("interrupted"));
            }
            if ready.input {
                source.read()?;
            }
            if ready.socket {
                self.connection.read("before all messages were acknowledged")?;
                self.take_answers()?;
            }
        }
    }

    fn publish(&mut self, payload: &[u8], properties: Option<&Properties>) -> Result<(), Failure> {
        let message = &self.message;
        let packet_id = if message.qos == Qos::AtMostOnce { 0 } else { self.next_id() };
        let message = &self.message;
        let head = PublishHead {
            topic: message.topic,
            dup: false,
            qos: message.qos,
            retain: message.retain,
            packet_id,
            topic_alias: None,
            expiry_secs: message.session.properties.publish.expiry_secs,
            subscription_ids: &[],
            properties,
        };
        let (len, limit) = (
            publish_len(&head, payload.len(), self.connection.version()),
            self.connection.limits().packet_bytes_max,
        );
        if len > limit {
            return Err(failed(format!(
                "the message makes a packet of {len} bytes, the server takes {limit}"
            )));
        }
        self.connection.publish(&head, payload)?;
        if packet_id > 0 {
            self.inflight.insert(packet_id);
        }
        Ok(())
    }

    /// A packet id that is not in use; there is one, since the window is smaller than their number.
    fn next_id(&mut self) -> u16 {
        loop {
            self.last_id = self.last_id.checked_add(1).unwrap_or(1);
            if !self.inflight.contains(&self.last_id) {
                return self.last_id;
            }
        }
    }

    fn take_answers(&mut self) -> Result<(), Failure> {
        while let Some(packet) = self.connection.next()? {
            let answer = match packet {
                Packet::Puback(ack) | Packet::Pubcomp(ack) => {
                    let (id, refusal) = (ack.packet_id, refusal(&ack));
                    self.finish(id, refusal);
                    None
                }
                Packet::Pubrec(ack) if ack.reason.is_error() => {
                    let (id, refusal) = (ack.packet_id, refusal(&ack));
                    self.finish(id, refusal);
                    None
                }
                Packet::Pubrec(ack) => {
                    Some(Packet::Pubrel(Ack { packet_id: ack.packet_id, ..Ack::default() }))
                }
                // A session that is resumed may still have subscriptions; their messages are not for us to keep.
                Packet::Publish(publish) => match publish.qos {
                    Qos::AtMostOnce => None,
                    Qos::AtLeastOnce => {
                        Some(Packet::Puback(Ack { packet_id: publish.packet_id, ..Ack::default() }))
                    }
                    Qos::ExactlyOnce => {
                        Some(Packet::Pubrec(Ack { packet_id: publish.packet_id, ..Ack::default() }))
                    }
                },
                Packet::Pubrel(ack) => {
                    Some(Packet::Pubcomp(Ack { packet_id: ack.packet_id, ..Ack::default() }))
                }
                _ => None,
            };
            if let Some(answer) = answer {
                self.connection.send(&answer)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, packet_id: u16, refusal: Option<String>) {
        self.inflight.remove(&packet_id);
        if let Some(refusal) = refusal {
            eprintln!("error: the server refuses the message: {refusal}");
            self.refused_count += 1;
        }
    }
}

fn refusal(ack: &Ack<'_>) -> Option<String> {
    if !ack.reason.is_error() {
        return None;
    }
    let words = ack.reason_string.map_or_else(String::new, |words| format!(" ({words})"));
    Some(format!("{}{words}", ack.reason.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Lines {
        let file = File::open("/dev/null").unwrap();
        Lines { file, ready: VecDeque::new(), partial: Vec::new(), ended: false }
    }

    /// All lines that are ready.
    fn drain(lines: &mut Lines) -> Vec<String> {
        std::mem::take(&mut lines.ready).into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
    }

    #[test]
    fn lines_are_cut_wherever_reads_end() {
        let mut lines = lines();
        lines.feed(b"one\ntw");
        assert_eq!(drain(&mut lines), ["one"]);
        assert!(matches!(lines.next(), Offer::Unread));
        lines.feed(b"o\n\nthree");
        assert_eq!(drain(&mut lines), ["two", ""]);
        lines.feed(b"");
        assert_eq!(drain(&mut lines), ["three"]);
        assert!(matches!(lines.next(), Offer::End));
    }

    #[test]
    fn a_repeated_message_waits_between_its_copies() {
        let now = Instant::now();
        let delay = Duration::from_secs(5);
        let mut source = Source::Repeat { payload: b"x".to_vec(), left: 2, delay, due: now };
        assert!(matches!(source.next(now), Offer::Payload(payload) if payload == b"x"));
        assert!(matches!(source.next(now), Offer::Later(due) if due == now + delay));
        assert!(matches!(source.next(now + delay), Offer::Payload(_)));
        assert!(matches!(source.next(now + delay), Offer::End));
    }
}
