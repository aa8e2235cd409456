//! One connection: its handshake, its subscriptions, what it receives and what waits to be written.

use super::packet::{self, Connect, Frame, Malformed, Version};
use super::plan::{Course, Duty, Spec};
use super::publisher::Publisher;
use super::settings::Settings;
use super::stats::{Shared, Stats};
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;

/// SUBSCRIBE packets of one connection under way at a time.
const SUBSCRIBES_UNDER_WAY: usize = 4;
/// A publisher stops filling at so many unwritten bytes.
const OUTPUT_MAX: usize = 64 * 1024;
/// Writes of a publisher in one turn, before others have theirs.
const WRITES_PER_TURN: usize = 4;
/// Reason codes from here on are errors (MQTT 5.0 §2.4).
const REASON_ERROR: u8 = 0x80;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not opened yet.
    Waiting,
    Connecting,
    AwaitingConnack,
    Subscribing,
    Ready,
    Closed,
}

/// What a worker's connections share.
pub(crate) struct Context {
    pub(crate) settings: Arc<Settings>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) course: Course,
    /// Deliveries of one message.
    pub(crate) fan: u64,
    pub(crate) stats: Stats,
    /// The measurement runs.
    pub(crate) measuring: bool,
    /// Publishers whose window may have opened, each once.
    pub(crate) eager: Vec<u32>,
    pub(crate) is_eager: Vec<bool>,
    /// What follows the stamp in every payload.
    pub(crate) padding: Vec<u8>,
}

impl Context {
    /// Has the publisher looked at before the worker sleeps.
    #[inline]
    pub(crate) fn rouse(&mut self, publisher: u32) {
        let is_eager = &mut self.is_eager[publisher as usize];
        if !*is_eager {
            *is_eager = true;
            self.eager.push(publisher);
        }
    }
}

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("the broker refused the connection with code {0:#04x}")]
    Refused(u8),
    #[error("the broker disconnected with reason {0:#04x}")]
    Disconnected(u8),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the broker closed the connection")]
    EndOfStream,
}

/// One connection to the broker.
pub(crate) struct Connection {
    pub(crate) spec: Spec,
    pub(crate) state: State,
    pub(crate) socket: Option<TcpStream>,
    pub(crate) publisher: Option<Box<Publisher>>,
    /// The socket took no more; it tells when it does.
    pub(crate) write_blocked: bool,
    pub(crate) opened_ns: u64,
    output: Vec<u8>,
    written: usize,
    /// The beginning of a packet whose end has not come.
    input: Vec<u8>,
    filters_sent: usize,
    /// When each SUBSCRIBE under way was sent.
    subscribes: VecDeque<u64>,
    packet_id: u16,
    /// The last number received from each publisher.
    numbers: Vec<u32>,
}

impl Connection {
    /// `publishers` is how many sequences to follow, 0 for none.
    pub(crate) fn new(spec: Spec, publisher: Option<Publisher>, publishers: usize) -> Self {
        let follows = matches!(spec.duty, Duty::Receive);
        Self {
            numbers: vec![0; if follows { publishers } else { 0 }],
            spec,
            state: State::Waiting,
            socket: None,
            publisher: publisher.map(Box::new),
            write_blocked: false,
            opened_ns: 0,
            output: Vec::new(),
            written: 0,
            input: Vec::new(),
            filters_sent: 0,
            subscribes: VecDeque::new(),
            packet_id: 0,
        }
    }

    /// Starts over on a socket that is being connected; CONNECT goes out once it is.
    pub(crate) fn open(&mut self, socket: TcpStream, now_ns: u64, settings: &Settings) {
        self.socket = Some(socket);
        self.state = State::Connecting;
        self.write_blocked = true;
        self.opened_ns = now_ns;
        self.output.clear();
        self.written = 0;
        self.input.clear();
        self.filters_sent = 0;
        self.subscribes.clear();
        let connect = Connect {
            version: settings.version,
            client_id: &self.spec.client_id,
            username: settings.username.as_deref(),
            password: settings.password.as_deref(),
        };
        packet::put_connect(&mut self.output, &connect);
    }

    /// Appends bytes to what is to be written.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// Whether something waits to be written and the socket may take it.
    pub(crate) fn wants_flush(&self) -> bool {
        !self.write_blocked && self.written < self.output.len()
    }

    /// Writes what the socket takes.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        while self.written < self.output.len() {
            match socket.write(&self.output[self.written..]) {
                Ok(len) => self.written += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.write_blocked = true;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.written = 0;
        self.write_blocked = false;
        Ok(())
    }

    /// Publishes what may be published now.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn publish(&mut self, now_ns: u64, context: &mut Context) -> io::Result<()> {
        for _ in 0..WRITES_PER_TURN {
            if self.state != State::Ready || self.write_blocked || self.output.len() > OUTPUT_MAX {
                break;
            }
            let Some(publisher) = &mut self.publisher else { break };
            let (room, given_up) = publisher.room(&context.settings, &context.shared, context.fan, now_ns);
            context.stats.counters.written_off += given_up;
            if room == 0 {
                break;
            }
            let stamp_ns = context.shared.now_ns();
            publisher.fill(&mut self.output, room, &context.settings, &context.padding, stamp_ns);
            context.stats.counters.published += room;
            self.flush()?;
        }
        Ok(())
    }

    /// Takes in bytes that were read at `now_ns`. Returns whether the connection became ready by them.
    ///
    /// # Errors
    /// What ends the connection.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        now_ns: u64,
        context: &mut Context,
    ) -> Result<bool, Trouble> {
        let before = self.state;
        if self.input.is_empty() {
            let used = self.packets(bytes, now_ns, context)?;
            self.input.extend_from_slice(&bytes[used..]);
        } else {
            let mut input = std::mem::take(&mut self.input);
            input.extend_from_slice(bytes);
            let used = self.packets(&input, now_ns, context)?;
            input.drain(..used);
            self.input = input;
        }
        Ok(before != State::Ready && self.state == State::Ready)
    }

    /// Handles all whole packets at the start of `bytes`; returns their length.
    fn packets(&mut self, bytes: &[u8], now_ns: u64, context: &mut Context) -> Result<usize, Trouble> {
        let version = context.settings.version;
        let measured_at = context.measuring.then_some(now_ns);
        let mut used = 0;
        while let Some(Frame { header_len, total_len }) = packet::frame(&bytes[used..])? {
            let Some(packet) = bytes[used..].get(..total_len) else { break };
            let body = &packet[header_len..];
            if packet[0] >> 4 == packet::PUBLISH {
                let delivery = packet::delivery(version, packet[0], body)?;
                match delivery.qos {
                    0 => {}
                    1 => packet::put_ack(&mut self.output, packet::PUBACK, delivery.packet_id),
                    _ => packet::put_ack(&mut self.output, packet::PUBREC, delivery.packet_id),
                }
                context.stats.counters.delivered_bytes += total_len as u64;
                let shared = &context.shared;
                let finished = context.stats.delivery(delivery.stamp, &mut self.numbers, shared, measured_at);
                if let Some(publisher) = finished {
                    context.rouse(publisher);
                }
            } else {
                self.control(packet[0], body, now_ns, context)?;
            }
            used += total_len;
        }
        if let Some(publisher) = context.stats.finish_streak(&context.shared, measured_at) {
            context.rouse(publisher);
        }
        Ok(used)
    }

    fn control(
        &mut self,
        first_byte: u8,
        body: &[u8],
        now_ns: u64,
        context: &mut Context,
    ) -> Result<(), Trouble> {
        const SHORT: Malformed = Malformed("acknowledgement without packet id");
        let reason = body.get(2).copied().filter(|_| context.settings.version == Version::V5).unwrap_or(0);
        match first_byte >> 4 {
            packet::CONNACK => self.connack(body, context)?,
            packet::SUBACK => self.suback(body, now_ns, context)?,
            packet::PUBACK | packet::PUBCOMP => {
                if reason >= REASON_ERROR {
                    self.refused(&format!("a message with {reason:#04x}"), 1, context);
                }
                self.acknowledged(packet::be16(body, 0).ok_or(SHORT)?, now_ns, context);
            }
            packet::PUBREC => {
                let packet_id = packet::be16(body, 0).ok_or(SHORT)?;
                if reason < REASON_ERROR {
                    packet::put_ack(&mut self.output, packet::PUBREL, packet_id);
                } else if let Some(publisher) = &mut self.publisher {
                    publisher.refused();
                    self.refused(&format!("a message with {reason:#04x}"), 1, context);
                }
            }
            packet::PUBREL => {
                let packet_id = packet::be16(body, 0).ok_or(SHORT)?;
                packet::put_ack(&mut self.output, packet::PUBCOMP, packet_id);
            }
            packet::DISCONNECT => return Err(Trouble::Disconnected(body.first().copied().unwrap_or(0))),
            // PINGRESP and the like mean nothing here.
            _ => {}
        }
        Ok(())
    }

    fn acknowledged(&mut self, packet_id: u16, now_ns: u64, context: &mut Context) {
        let Some(publisher) = &mut self.publisher else { return };
        let due_ns = publisher.acknowledged(packet_id);
        context.stats.counters.acknowledged += 1;
        if context.measuring {
            context.stats.ack_latency.saturating_record(now_ns.saturating_sub(due_ns));
        }
        context.rouse(publisher.id);
    }

    fn connack(&mut self, body: &[u8], context: &Context) -> Result<(), Trouble> {
        let code = *body.get(1).ok_or(Malformed("CONNACK without a code"))?;
        if code != 0 {
            return Err(Trouble::Refused(code));
        }
        if let (Version::V5, Some(publisher)) = (context.settings.version, &mut self.publisher) {
            let properties = body.get(2..).unwrap_or_default();
            if let Some((len, len_len)) = packet::varint(properties)? {
                let properties = properties.get(len_len..len_len + len).unwrap_or_default();
                if let Some(maximum) = packet::receive_maximum(properties)? {
                    publisher.limit_inflight(maximum);
                }
            }
        }
        if self.spec.filters.count() == 0 || context.course == Course::Subscriptions {
            self.state = State::Ready;
        } else {
            self.state = State::Subscribing;
            self.subscribe(context);
        }
        Ok(())
    }

    /// Sends as many SUBSCRIBE packets as may be under way.
    pub(crate) fn subscribe(&mut self, context: &Context) {
        let settings = &context.settings;
        let count = self.spec.filters.count();
        while self.filters_sent < count && self.subscribes.len() < SUBSCRIBES_UNDER_WAY {
            let end = count.min(self.filters_sent + settings.filters_per_subscribe);
            let filters: Vec<String> =
                (self.filters_sent..end).map(|index| self.spec.filters.get(index)).collect();
            self.packet_id = self.packet_id.checked_add(1).unwrap_or(1);
            let qos = settings.subscribe_qos;
            packet::put_subscribe(&mut self.output, settings.version, self.packet_id, &filters, qos);
            self.filters_sent = end;
            self.subscribes.push_back(context.shared.now_ns());
        }
    }

    fn suback(&mut self, body: &[u8], now_ns: u64, context: &mut Context) -> Result<(), Trouble> {
        let mut codes = body.get(2..).ok_or(Malformed("SUBACK without packet id"))?;
        if context.settings.version == Version::V5 {
            let (len, len_len) = packet::varint(codes)?.ok_or(Malformed("SUBACK without properties"))?;
            codes = codes.get(len_len + len..).ok_or(Malformed("SUBACK shorter than its properties"))?;
        }
        let mut refused = codes.iter().filter(|&&code| code >= REASON_ERROR).peekable();
        if let Some(code) = refused.peek().copied() {
            let what = format!("a subscription with {code:#04x}");
            self.refused(&what, refused.count() as u64, context);
        }
        context.stats.counters.subscribed += codes.len() as u64;
        if let Some(sent_ns) = self.subscribes.pop_front()
            && context.measuring
            && context.course == Course::Subscriptions
        {
            context.stats.latency.saturating_record(now_ns.saturating_sub(sent_ns));
        }
        self.subscribe(context);
        if self.subscribes.is_empty() && self.state == State::Subscribing {
            self.state = State::Ready;
        }
        Ok(())
    }

    fn refused(&self, what: &str, count: u64, context: &mut Context) {
        context.stats.counters.refused += count;
        context.shared.trouble(format!("{}: the broker refused {what}", self.spec.client_id));
    }
}
