//! Reading: from a socket to packets, in the loop's own buffer.

use super::{End, FLUSH_AFTER_BYTES, Shard, Stage};
use crate::http;
use crate::mqtt;
use crate::outbox::Framing;
use meridian_broker::{Counter, Target};
use meridian_mqtt::frame::Peek;
use meridian_mqtt::{Frame, FrameError, ReasonCode, Version};
use meridian_ws as ws;
use std::io::{ErrorKind, Read};
use std::sync::Arc;

/// Reads of one connection in one turn, before others get theirs.
const READS_PER_TURN: usize = 4;
/// An incomplete packet larger than this is completed in memory of its own instead of the loop's buffer.
const PARTIAL_IN_BUFFER_MAX: usize = 16 * 1024;
/// Bytes read at once into memory of its own.
const LARGE_READ_BYTES: usize = 256 * 1024;

/// The largest CONNECT accepted: all its strings at their longest, and some user properties. Strangers get no more
/// memory than this.
const CONNECT_BYTES_MAX: usize = 512 * 1024;

/// What one read brought.
enum Filled {
    /// This many bytes lie in the loop's buffer, the incomplete packet of before included.
    Buffer(usize),
    /// They were added to the connection's own memory.
    Own,
}

/// What became of HTTP bytes.
enum Http {
    /// The request is not whole yet.
    Incomplete,
    /// A request of this many bytes was answered.
    Request(usize),
    /// The connection is a WebSocket now; these bytes of MQTT came with the request.
    Upgraded(Vec<u8>),
}

impl Shard {
    /// Reads and handles what a socket has. A read that does not fill the buffer has emptied the socket, and the
    /// kernel will say when there is more; but if the peer `may_have_ended` the stream, it has said so already.
    pub(super) fn on_readable(&mut self, key: usize, may_have_ended: bool) {
        for _ in 0..READS_PER_TURN {
            let Some(connection) = self.connections.get(key) else { return };
            if connection.is_waiting {
                return;
            }
            let (filled, is_drained) = match self.fill(key) {
                Ok(Some(filled)) => filled,
                Ok(None) => return self.handle_leftover(key),
                Err(end) => return self.close(key, end),
            };
            if let Err(end) = self.handle(key, filled) {
                return self.close(key, end);
            }
            if self.turn.unflushed >= FLUSH_AFTER_BYTES {
                self.flush();
            }
            if is_drained && !may_have_ended {
                return;
            }
        }
        self.again.push(key);
    }

    /// After a wait: packets that were read before it and not yet handled.
    fn handle_leftover(&mut self, key: usize) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.partial.is_empty() {
            return;
        }
        if let Err(end) = self.handle(key, Filled::Own) {
            self.close(key, end);
        }
    }

    /// One read. `None` if there was nothing; the flag says that there is no more for now.
    fn fill(&mut self, key: usize) -> Result<Option<(Filled, bool)>, End> {
        let connection = &mut self.connections[key];
        let have = connection.partial.len();
        let link = connection.link.clone();
        let lost = || link.end_reason().map_or(End::Lost, End::Told);
        let (count, asked, filled) = if have > PARTIAL_IN_BUFFER_MAX {
            let mut limited = (&link.socket).take(LARGE_READ_BYTES as u64);
            let result = limited.read_to_end(&mut connection.partial);
            let count = connection.partial.len() - have;
            match result {
                Ok(0) => return Err(lost()),
                Err(error) if error.kind() == ErrorKind::WouldBlock && count == 0 => return Ok(None),
                Err(error) if error.kind() == ErrorKind::WouldBlock => (count, count + 1, Filled::Own),
                Err(_) => return Err(lost()),
                // Less than the limit means the end of the stream, which the next read reports.
                Ok(count) => (count, count, Filled::Own),
            }
        } else {
            self.buffer[..have].copy_from_slice(&connection.partial);
            let room = &mut self.buffer[have..];
            let asked = room.len();
            let count = loop {
                match (&link.socket).read(room) {
                    Ok(0) => return Err(lost()),
                    Ok(count) => break count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return Err(lost()),
                }
            };
            (count, asked, Filled::Buffer(have + count))
        };
        connection.last_heard = self.turn.context.now;
        self.turn.unflushed += count;
        self.turn.context.counters.add(Counter::BytesReceived, count as u64);
        let new_from = have;
        let filled = self.unframe(key, filled, new_from)?;
        Ok(Some((filled, count < asked)))
    }

    /// Takes the WebSocket frames out of what was just read.
    fn unframe(&mut self, key: usize, filled: Filled, new_from: usize) -> Result<Filled, End> {
        let connection = &mut self.connections[key];
        let Some(decoder) = &mut connection.websocket else { return Ok(filled) };
        let mut control = Vec::new();
        let mut is_closing = false;
        let on_control = |frame: ws::Control<'_>| match frame {
            ws::Control::Ping(payload) => ws::encode_frame(&mut control, ws::Opcode::Pong, payload, None),
            ws::Control::Pong(_) => {}
            ws::Control::Close(close) => {
                let code = close.map_or(ws::CloseCode::NORMAL, |close| close.code);
                ws::encode_close(&mut control, code, "", None);
                is_closing = true;
            }
        };
        let (unframed, filled) = match filled {
            Filled::Buffer(len) => {
                let unframed = decoder.unframe(&mut self.buffer[new_from..len], on_control);
                (unframed, Filled::Buffer(new_from + unframed.payload_len))
            }
            Filled::Own => {
                let unframed = decoder.unframe(&mut connection.partial[new_from..], on_control);
                connection.partial.truncate(new_from + unframed.payload_len);
                (unframed, Filled::Own)
            }
        };
        if let Err(error) = unframed.outcome {
            ws::encode_close(&mut control, error.close_code(), &error.to_string(), None);
        }
        if !control.is_empty() {
            match &connection.stage {
                Stage::Client(client) => {
                    if client.session.reply_control(&connection.link, &control) {
                        client.session.flush();
                    }
                }
                _ => {
                    let _ = std::io::Write::write(&mut &connection.link.socket, &control);
                }
            }
        }
        match unframed.outcome {
            Err(error) => Err(End::Protocol { reason: ReasonCode::ProtocolError, what: error.to_string() }),
            Ok(()) if is_closing => Err(End::Lost),
            Ok(()) => Ok(filled),
        }
    }

    /// Handles every whole packet of what was read; the rest waits in the connection's own memory.
    fn handle(&mut self, key: usize, filled: Filled) -> Result<(), End> {
        // The bytes and the connection are lent to the handler together, so they are taken out of their owner.
        let own;
        let bytes = match filled {
            Filled::Buffer(len) => &self.buffer[..len],
            Filled::Own => {
                own = std::mem::take(&mut self.connections[key].partial);
                &own[..]
            }
        };
        let connection = &mut self.connections[key];
        let mut at = 0;
        let mut early = Vec::new();
        let result = loop {
            match &connection.stage {
                Stage::Http(_) => match Self::handle_http(&self.node, connection, &bytes[at..]) {
                    Ok(Http::Incomplete) => break Ok(()),
                    Ok(Http::Request(consumed)) => at += consumed,
                    Ok(Http::Upgraded(rest)) => {
                        early = rest;
                        at = bytes.len();
                    }
                    Err(end) => break Err(end),
                },
                Stage::Greeting | Stage::Client(_) => {
                    let mut limit = self.turn.settings.config.mqtt.packet_bytes_max.0 as usize;
                    if matches!(connection.stage, Stage::Greeting) {
                        limit = limit.min(CONNECT_BYTES_MAX);
                    }
                    let frame = match Frame::peek(&bytes[at..], limit) {
                        Ok(Peek::Needs(_)) => break Ok(()),
                        Ok(Peek::Whole(frame)) => frame,
                        Err(error) => break Err(frame_error(error)),
                    };
                    if !frame.is_length_minimal() && speaks_5(connection) {
                        let what =
                            "the remaining length takes more bytes than it needs [MQTT-1.5.5-1]".to_owned();
                        break Err(End::Protocol { reason: ReasonCode::MalformedPacket, what });
                    }
                    let body = &bytes[at + frame.header_len..at + frame.len()];
                    at += frame.len();
                    if let Err(end) = mqtt::handle_packet(connection, &mut self.turn, frame.first_byte, body)
                    {
                        break Err(end);
                    }
                    if self.turn.context.has_full() {
                        break Ok(());
                    }
                }
            }
            if at == bytes.len() {
                break Ok(());
            }
        };
        mqtt::end_batch(connection, &mut self.turn);
        connection.keep(&bytes[at..]);
        if !early.is_empty() {
            connection.partial = early;
            self.again.push(key);
        }
        result?;
        self.after_batch(key);
        Ok(())
    }

    /// What the packets of a batch entail for the connection itself.
    fn after_batch(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        let Stage::Client(client) = &mut connection.stage else { return };
        if std::mem::take(&mut client.is_new) {
            let deadline = match client.keep_alive_millis {
                0 => meridian_types::Instant::NEVER,
                millis => connection.last_heard.plus_millis(millis),
            };
            self.arm(key, deadline);
            return self.after_batch(key);
        }
        let mut full = self.turn.context.take_full();
        if client.session.is_over_high_water() {
            full.push(client.session.clone() as Arc<dyn Target>);
        }
        if !full.is_empty() {
            self.wait_for_room(key, full);
        }
    }

    /// Handles one HTTP request.
    fn handle_http(
        node: &Arc<crate::node::Node>,
        connection: &mut super::Connection,
        bytes: &[u8],
    ) -> Result<Http, End> {
        let Stage::Http(surface) = connection.stage else { return Ok(Http::Incomplete) };
        let mut out = Vec::new();
        let outcome = http::respond(surface, bytes, &**node, &mut out);
        if !out.is_empty() {
            connection.answer(&out);
        }
        match outcome {
            http::Outcome::Incomplete => Ok(Http::Incomplete),
            http::Outcome::Done { consumed, keep_alive: true } => Ok(Http::Request(consumed)),
            http::Outcome::Done { .. } => Err(End::Answered),
            http::Outcome::Upgrade { consumed } => {
                connection.upgrade();
                // What follows the request is framed already.
                let mut rest = bytes[consumed..].to_vec();
                let decoder = connection.websocket.as_mut().expect("upgraded just now");
                let unframed = decoder.unframe(&mut rest, |_| {});
                rest.truncate(unframed.payload_len);
                match unframed.outcome {
                    Ok(()) => Ok(Http::Upgraded(rest)),
                    Err(error) => {
                        Err(End::Protocol { reason: ReasonCode::ProtocolError, what: error.to_string() })
                    }
                }
            }
        }
    }
}

fn speaks_5(connection: &super::Connection) -> bool {
    matches!(&connection.stage, Stage::Client(client) if client.version == Version::V5)
}

fn frame_error(error: FrameError) -> End {
    let reason = match error {
        FrameError::TooLarge { .. } => ReasonCode::PacketTooLarge,
        _ => ReasonCode::MalformedPacket,
    };
    End::Protocol { reason, what: error.to_string() }
}

impl super::Connection {
    /// Keeps what could not be handled yet.
    fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() {
            self.partial = Vec::new();
        } else {
            let mut partial = std::mem::take(&mut self.partial);
            partial.clear();
            partial.extend_from_slice(rest);
            self.partial = partial;
        }
    }

    /// From HTTP to MQTT over WebSocket.
    fn upgrade(&mut self) {
        self.websocket = Some(Box::new(ws::Decoder::new(ws::Role::Server, ws::Kinds::BinaryOnly, u64::MAX)));
        self.stage = Stage::Greeting;
        let link = Arc::get_mut(&mut self.link).expect("only its loop knows a connection without a session");
        link.framing = Framing::WebSocket;
    }
}
