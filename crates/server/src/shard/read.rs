//! Reading: from a socket to packets, in the loop's own buffer.

use super::{Connection, End, FLUSH_AFTER_BYTES, Shard, Stage, Turn, Waits};
use crate::http;
use crate::mqtt;
use crate::node::Node;
use crate::outbox::Framing;
use meridian_broker::Counter;
use meridian_mqtt::frame::Peek;
use meridian_mqtt::{Frame, FrameError, ReasonCode, Version};
use meridian_types::Instant;
use meridian_types::memory::{self, Level};
use meridian_ws as ws;
use std::io::{ErrorKind, Read};
use std::sync::Arc;

/// Reads of one connection in one turn, before others get theirs.
const READS_PER_TURN: usize = 4;
/// An incomplete packet larger than this is completed in memory of its own instead of the loop's buffer.
const PARTIAL_IN_BUFFER_MAX: usize = 16 * 1024;
/// An incomplete packet of this size is read whatever the process's memory.
const INCOMPLETE_BYTES_SURE: usize = 64 * 1024;
/// Offers to targets that one connection's packets may cause before others get their turn.
const OFFERS_PER_BATCH: usize = 65_536;
/// Bytes read at once into memory of its own.
const LARGE_READ_BYTES: usize = 256 * 1024;

/// The largest CONNECT accepted: all its strings at their longest, and some user properties. Strangers get no more
/// memory than this.
const CONNECT_BYTES_MAX: usize = 512 * 1024;

/// The first byte of a CONNECT.
const CONNECT: u8 = 0x10;

/// Where the bytes of one read lie.
enum Filled {
    /// This many bytes lie in the loop's buffer, the incomplete packet of before included.
    Buffer(usize),
    /// They were added to the connection's own memory.
    Own,
}

/// A WebSocket frame may hold several packets: at least twice this, and twice the largest packet.
const WEBSOCKET_FRAME_BYTES_MIN: u64 = 1 << 20;

/// What one read brought.
struct Chunk {
    filled: Filled,
    /// Whether the socket is empty now.
    is_last: bool,
    /// Why the stream ends behind it, if it does.
    ending: Option<End>,
}

impl Shard {
    /// Reads and handles what a socket has. A read that does not fill the buffer has emptied the socket, and the
    /// kernel will say when there is more; but if the peer `may_have_ended` the stream, it has said so already.
    pub(super) fn on_readable(&mut self, key: usize, may_have_ended: bool) {
        let Some(connection) = self.connections.get(key) else { return };
        // Before what it has sent already, too: more that arrives does not end its wait.
        if connection.is_waiting() || connection.has_unhandled && !self.handle_or_close(key, Filled::Own) {
            return;
        }
        if self.connections.get(key).is_some_and(|connection| connection.has_stream_ended) {
            return self.close(key, End::Lost);
        }
        for _ in 0..READS_PER_TURN {
            if self.connections.get(key).is_none_or(|connection| connection.is_waiting()) {
                return;
            }
            let read = match self.fill(key) {
                Ok(Some(read)) => read,
                Ok(None) => return,
                Err(end) => return self.close(key, end),
            };
            if !self.handle_or_close(key, read.filled) {
                if let Some(connection) = self.connections.get_mut(key) {
                    // What came before the end is handled first, in another turn.
                    connection.has_stream_ended = read.ending.is_some();
                }
                return;
            }
            if let Some(end) = read.ending {
                return self.close(key, end);
            }
            if self.turn.unflushed >= FLUSH_AFTER_BYTES {
                self.flush();
            }
            if read.is_last && !may_have_ended {
                return;
            }
        }
        self.again.push(key);
    }

    /// Handles what was read. Returns whether to go on reading.
    fn handle_or_close(&mut self, key: usize, filled: Filled) -> bool {
        match self.handle(key, filled) {
            Ok(()) => !self.connections[key].has_unhandled,
            Err(end) => {
                self.close(key, end);
                false
            }
        }
    }

    /// One read. `None` if there was nothing.
    fn fill(&mut self, key: usize) -> Result<Option<Chunk>, End> {
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
        let (filled, ending) = self.unframe(key, filled, new_from);
        Ok(Some(Chunk { filled, is_last: count < asked, ending }))
    }

    /// Takes the WebSocket frames out of what was just read. Also says whether the stream ends behind it.
    fn unframe(&mut self, key: usize, filled: Filled, new_from: usize) -> (Filled, Option<End>) {
        let connection = &mut self.connections[key];
        let Some(decoder) = &mut connection.websocket else { return (filled, None) };
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
        match &connection.stage {
            _ if control.is_empty() => {}
            Stage::Client(client) => {
                self.turn.has_replied = true;
                if client.session.reply_control(&connection.link, &control) {
                    self.turn.touch(&client.session);
                }
            }
            // A stranger that does not read gets no more answers than the socket takes.
            _ if connection.unsent.is_some() => {}
            _ => connection.send(&control),
        }
        let ending = match unframed.outcome {
            Err(error) => Some(End::Protocol { reason: ReasonCode::ProtocolError, what: error.to_string() }),
            Ok(()) => is_closing.then_some(End::Lost),
        };
        (filled, ending)
    }

    /// Handles every whole packet of what was read; the rest waits in the connection's own memory.
    fn handle(&mut self, key: usize, filled: Filled) -> Result<(), End> {
        // Before a page is answered: clients may come next.
        self.count_for_placement(key);
        // The bytes and the connection are lent to the handler together, so they are taken out of their owner.
        let own = match filled {
            Filled::Own => std::mem::take(&mut self.connections[key].partial),
            Filled::Buffer(_) => Vec::new(),
        };
        let bytes = match filled {
            Filled::Own => &own[..],
            Filled::Buffer(len) => &self.buffer[..len],
        };
        let connection = &mut self.connections[key];
        connection.has_unhandled = false;
        // What timers and wills found full is nothing to this publisher.
        self.turn.context.take_full();
        self.turn.context.take_offers();
        let mut batch = Batch { at: 0, offers: 0 };
        let result = loop {
            match batch.handle_next(&self.node, connection, &mut self.turn, bytes) {
                Ok(Next::Handled) => {}
                Ok(Next::Incomplete) => break Ok(()),
                Ok(Next::Enough) => {
                    connection.has_unhandled = batch.at < bytes.len();
                    break Ok(());
                }
                Err(end) => break Err(end),
            }
        };
        let has_replies = mqtt::end_batch(connection, &mut self.turn);
        if batch.at == 0 && !own.is_empty() {
            connection.partial = own;
        } else {
            connection.keep(&bytes[batch.at..]);
        }
        connection.held.set(connection.partial.capacity());
        result?;
        self.after_batch(key, has_replies);
        Ok(())
    }

    /// What the packets of a batch entail for the connection itself.
    fn after_batch(&mut self, key: usize, has_replies: bool) {
        self.count_for_placement(key);
        let connection = &mut self.connections[key];
        match &mut connection.stage {
            Stage::Client(client) if client.is_new => {
                client.is_new = false;
                let deadline = match client.keep_alive_millis {
                    0 => Instant::NEVER,
                    millis => connection.last_heard.plus_millis(millis),
                };
                self.arm(key, deadline);
            }
            Stage::Client(_) => {}
            _ if connection.unsent.is_some() => connection.waits = Waits::ForItself,
            _ => {}
        }
        let full = self.turn.context.take_full();
        if !full.is_empty() {
            self.wait_for_targets(key, full);
        } else if has_replies
            && matches!(&self.connections[key].stage, Stage::Client(client) if client.session.is_over_high_water())
        {
            self.wait_for_outbox(key);
        }
        let connection = &self.connections[key];
        if connection.has_unhandled && connection.waits == Waits::No {
            self.again.push(key);
        }
    }

    /// Who asks for pages takes no place that a client would need to be on one loop with another.
    fn count_for_placement(&mut self, key: usize) {
        let counts = !matches!(self.connections[key].stage, Stage::Http(_));
        self.set_placed(key, counts);
    }
}

/// The packets of one read, one after the other.
struct Batch {
    /// Bytes handled.
    at: usize,
    /// Targets that were offered messages.
    offers: usize,
}

/// What became of the next packet.
enum Next {
    Handled,
    /// There is none, or not all of it.
    Incomplete,
    /// Others get their turn first, or the peer has to wait.
    Enough,
}

impl Batch {
    fn handle_next(
        &mut self,
        node: &Arc<Node>,
        connection: &mut Connection,
        turn: &mut Turn,
        bytes: &[u8],
    ) -> Result<Next, End> {
        let rest = &bytes[self.at..];
        if rest.is_empty() {
            return Ok(Next::Incomplete);
        }
        if matches!(connection.stage, Stage::Http(_)) {
            let frame_bytes_max =
                turn.settings.config.mqtt.packet_bytes_max.0.max(WEBSOCKET_FRAME_BYTES_MIN) * 2;
            return self.handle_http(node, connection, rest, frame_bytes_max);
        }
        if matches!(connection.stage, Stage::Greeting) && rest[0] != CONNECT {
            let what = "the first packet of a connection must be CONNECT".to_owned();
            return Err(End::Protocol { reason: ReasonCode::ProtocolError, what });
        }
        let limit = match &connection.stage {
            Stage::Client(client) => client.incoming_bytes_max as usize,
            _ => (turn.settings.config.mqtt.packet_bytes_max.0 as usize).min(CONNECT_BYTES_MAX),
        };
        let frame = match Frame::peek(rest, limit).map_err(frame_error)? {
            Peek::Needs(bytes) if bytes > INCOMPLETE_BYTES_SURE && memory::level() == Level::Full => {
                return Err(memory_full(bytes));
            }
            Peek::Needs(_) => return Ok(Next::Incomplete),
            Peek::Whole(frame) => frame,
        };
        if !frame.is_length_minimal() && speaks_5(connection) {
            let what = "the remaining length takes more bytes than it needs [MQTT-1.5.5-1]".to_owned();
            return Err(End::Protocol { reason: ReasonCode::MalformedPacket, what });
        }
        if connection.link.is_ended() {
            // Another connection has the session by now, or it was cut off: what is left was sent too late.
            return Err(connection.link.end_reason().map_or(End::Lost, End::Told));
        }
        self.at += frame.len();
        mqtt::handle_packet(connection, turn, frame.first_byte, &rest[frame.header_len..frame.len()])?;
        self.offers += turn.context.take_offers();
        let is_enough = turn.context.has_full() || self.offers > OFFERS_PER_BATCH;
        Ok(if is_enough { Next::Enough } else { Next::Handled })
    }

    /// Handles one HTTP request.
    fn handle_http(
        &mut self,
        node: &Arc<Node>,
        connection: &mut Connection,
        rest: &[u8],
        frame_bytes_max: u64,
    ) -> Result<Next, End> {
        let Stage::Http(surface) = connection.stage else { return Ok(Next::Incomplete) };
        let mut out = Vec::new();
        let outcome = http::respond(surface, rest, &**node, &mut out);
        if !out.is_empty() {
            connection.answer(&out);
        }
        match outcome {
            http::Outcome::Incomplete => Ok(Next::Incomplete),
            http::Outcome::Done { consumed, keep_alive } => {
                self.at += consumed;
                match keep_alive {
                    false => Err(End::Answered),
                    // A peer that does not read its answers is not given more.
                    true if connection.unsent.is_some() => Ok(Next::Enough),
                    true => Ok(Next::Handled),
                }
            }
            http::Outcome::Upgrade { consumed } => {
                self.at += rest.len();
                connection.upgrade(frame_bytes_max);
                connection.read_early(&rest[consumed..])?;
                Ok(Next::Enough)
            }
        }
    }
}

fn speaks_5(connection: &Connection) -> bool {
    matches!(&connection.stage, Stage::Client(client) if client.version == Version::V5)
}

fn memory_full(bytes: usize) -> End {
    let what = format!(
        "there is no memory for a packet of {bytes} bytes: the server holds all it may (server.memory_max)"
    );
    End::MemoryFull { what }
}

fn frame_error(error: FrameError) -> End {
    let reason = match error {
        FrameError::TooLarge { .. } => ReasonCode::PacketTooLarge,
        _ => ReasonCode::MalformedPacket,
    };
    End::Protocol { reason, what: error.to_string() }
}

impl Connection {
    /// Whether it is not to be read from. One that was ended from outside waits for nothing: its end is what there is
    /// to read.
    fn is_waiting(&self) -> bool {
        self.waits != Waits::No && !self.link.is_ended()
    }

    /// Keeps what could not be handled yet.
    fn keep(&mut self, rest: &[u8]) {
        if !self.early.is_empty() {
            self.partial = std::mem::take(&mut self.early).into_vec();
            self.has_unhandled = true;
        } else if rest.is_empty() {
            self.partial = Vec::new();
        } else {
            self.partial.clear();
            self.partial.extend_from_slice(rest);
        }
    }

    /// What follows an upgrade in the same read is framed already.
    fn read_early(&mut self, frames: &[u8]) -> Result<(), End> {
        let mut bytes = frames.to_vec();
        let Some(decoder) = &mut self.websocket else { return Ok(()) };
        let unframed = decoder.unframe(&mut bytes, |_| {});
        bytes.truncate(unframed.payload_len);
        self.early = bytes.into_boxed_slice();
        unframed
            .outcome
            .map_err(|error| End::Protocol { reason: ReasonCode::ProtocolError, what: error.to_string() })
    }

    /// From HTTP to MQTT over WebSocket.
    fn upgrade(&mut self, frame_bytes_max: u64) {
        let decoder = ws::Decoder::new(ws::Role::Server, ws::Kinds::BinaryOnly, frame_bytes_max);
        self.websocket = Some(Box::new(decoder));
        self.stage = Stage::Greeting;
        let link = Arc::get_mut(&mut self.link).expect("only its loop knows a connection without a session");
        link.framing = Framing::WebSocket;
    }
}
