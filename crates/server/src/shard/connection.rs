//! A connection as its event loop holds it, from accept to close.

use super::Shard;
use crate::http::Surface;
use crate::inbox::Command;
use crate::link::Link;
use crate::listener::Kind;
use crate::mqtt::Client;
use crate::node::TIMER_MILLIS_MAX;
use crate::outbox::{Framing, Outgoing};
use crate::session::Draining;
use meridian_broker::{Counter, Target, Waiter};
use meridian_mqtt::ReasonCode;
use meridian_types::Instant;
use meridian_types::memory::Held;
use meridian_ws as ws;
use mio::net::TcpStream;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// How long a publisher waits for a full target before it may send one more message: two that wait for each other
/// must not wait for ever.
const WAIT_MILLIS_MAX: u64 = 10_000;

/// One accepted connection.
pub(crate) struct Connection {
    pub(crate) link: Arc<Link>,
    pub(crate) listener: usize,
    pub(crate) stage: Stage,
    /// The start of a packet whose rest has not come. Usually empty and without memory of its own.
    pub(crate) partial: Vec<u8>,
    /// Counts it.
    pub(crate) held: Held,
    pub(crate) websocket: Option<Box<ws::Decoder>>,
    /// What came in the same read as the request that made it a WebSocket.
    pub(crate) early: Box<[u8]>,
    /// What a full socket has left over of an answer given before there was a session.
    pub(crate) unsent: Option<Box<Outgoing>>,
    /// When a byte was last read.
    pub(crate) last_heard: Instant,
    /// When CONNECT has to be there.
    pub(crate) connect_due: Instant,
    /// When its entry in the wheel counts; entries for other moments are stale.
    pub(crate) timer_due: Instant,
    /// Tells it from others that had its key before.
    pub(crate) serial: u64,
    /// Whether reading is suspended, and why.
    pub(crate) waits: Waits,
    /// Whether `partial` holds packets that were read and not handled yet.
    pub(crate) has_unhandled: bool,
    /// Whether its WebSocket is closed behind those.
    pub(crate) has_stream_ended: bool,
    /// Whether it counts where new connections are placed.
    pub(crate) is_placed: bool,
}

/// Why a connection is not read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// It is.
    No,
    /// What it publishes goes to a target that is full, and the policy is to block. Not for longer than
    /// [`WAIT_MILLIS_MAX`].
    ForTarget,
    /// It does not read what it is sent. Its keep alive goes on.
    ForItself,
}

/// How far a connection has come.
pub(crate) enum Stage {
    /// HTTP requests, or the request that turns it into a WebSocket.
    Http(Surface),
    /// Before CONNECT.
    Greeting,
    /// With a session.
    Client(Box<Client>),
}

/// Why a connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer closed, or the network did.
    Lost,
    /// DISCONNECT.
    Client,
    /// An answer was given that closes the connection, such as a refused CONNECT.
    Answered,
    /// No CONNECT came in time.
    ConnectTimeout,
    /// Nothing came for one and a half times the keep alive.
    KeepAlive,
    /// The client broke a rule.
    Protocol {
        /// The reason code to give.
        reason: ReasonCode,
        /// What and where.
        what: String,
    },
    /// The process holds as much as it may, and a packet of this client would have taken more.
    MemoryFull {
        /// What and where.
        what: String,
    },
    /// Another thread ended it.
    Told(ReasonCode),
    /// The process stops.
    Shutdown,
    /// The process stops, and the client has been told.
    Drained,
}

impl Connection {
    pub(super) fn new(
        socket: TcpStream,
        peer: SocketAddr,
        listener: usize,
        kind: Kind,
        now: Instant,
        serial: u64,
    ) -> Self {
        let stage = match kind {
            Kind::Mqtt => Stage::Greeting,
            Kind::Http(surface) => Stage::Http(surface),
        };
        Self {
            link: Arc::new(Link::new(socket, Framing::Plain, peer)),
            listener,
            stage,
            partial: Vec::new(),
            held: Held::default(),
            websocket: None,
            early: Box::default(),
            unsent: None,
            last_heard: now,
            connect_due: now,
            timer_due: now,
            serial,
            waits: Waits::No,
            has_unhandled: false,
            has_stream_ended: false,
            is_placed: true,
        }
    }

    /// Sends an answer to a peer that has no session.
    pub(crate) fn answer(&mut self, bytes: &[u8]) {
        if self.link.framing == Framing::WebSocket {
            let mut frame = Vec::new();
            ws::encode_frame(&mut frame, ws::Opcode::Binary, bytes, None);
            self.send(&frame);
        } else {
            self.send(bytes);
        }
    }

    /// Sends bytes as they are to a peer that has no session.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let mut unsent = self.unsent.take().unwrap_or_default();
        unsent.append(bytes);
        // A dead socket is noticed by the next read.
        if matches!(unsent.write_to(&self.link.socket), Ok(false)) {
            self.unsent = Some(unsent);
        }
    }
}

impl End {
    fn counter(&self, is_client: bool) -> Counter {
        match self {
            Self::ConnectTimeout => Counter::ConnectionsRefusedTimeout,
            _ if !is_client => Counter::ConnectionsRefusedConnect,
            Self::Lost => Counter::DisconnectsLost,
            Self::Client | Self::Answered => Counter::DisconnectsNormal,
            Self::KeepAlive => Counter::DisconnectsKeepAlive,
            Self::Protocol { reason: ReasonCode::PacketTooLarge, .. } => Counter::DisconnectsPacketTooLarge,
            Self::Protocol { .. } => Counter::DisconnectsProtocol,
            Self::MemoryFull { .. } => Counter::DisconnectsMemory,
            Self::Told(ReasonCode::SessionTakenOver) => Counter::DisconnectsTakenOver,
            Self::Drained | Self::Shutdown => Counter::DisconnectsShutdown,
            Self::Told(_) => Counter::DisconnectsSlow,
        }
    }

    /// The reason code and text for a DISCONNECT that says it, if the client is owed one.
    fn farewell(&self) -> Option<(ReasonCode, &str)> {
        match self {
            Self::Protocol { reason, what } => Some((*reason, what)),
            Self::MemoryFull { what } => Some((ReasonCode::QuotaExceeded, what)),
            Self::KeepAlive => {
                Some((ReasonCode::KeepAliveTimeout, "nothing heard for one and a half times the keep alive"))
            }
            Self::Shutdown => Some((ReasonCode::ServerShuttingDown, "the server is shutting down")),
            _ => None,
        }
    }
}

impl Shard {
    /// The socket takes bytes again.
    pub(super) fn on_writable(&mut self, key: usize) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if let Stage::Client(client) = &connection.stage {
            if client.session.on_writable() {
                self.turn.touch(&client.session);
            }
            return;
        }
        let Some(mut unsent) = connection.unsent.take() else { return };
        if matches!(unsent.write_to(&connection.link.socket), Ok(false)) {
            connection.unsent = Some(unsent);
        } else if connection.waits == Waits::ForItself {
            connection.waits = Waits::No;
            self.again.push(key);
        }
    }

    /// Suspends reading until one of `full` has room, or for a while.
    pub(super) fn wait_for_targets(&mut self, key: usize, full: Vec<Arc<dyn Target>>) {
        let mut is_kept = false;
        for target in full {
            is_kept |= target.when_there_is_room(self.waiter(key));
        }
        if !is_kept {
            return;
        }
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.waits = Waits::ForTarget;
        self.turn.context.counters.add(Counter::PublishersBlocked, 1);
        let deadline = self.turn.context.now.plus_millis(WAIT_MILLIS_MAX);
        if deadline < connection.timer_due {
            self.arm(key, deadline);
        }
    }

    /// Suspends reading until the client has read half of what waits for it.
    pub(super) fn wait_for_outbox(&mut self, key: usize) {
        let waiter = self.waiter(key);
        let Some(connection) = self.connections.get_mut(key) else { return };
        if let Stage::Client(client) = &connection.stage
            && client.session.when_outbox_is_low(waiter)
        {
            connection.waits = Waits::ForItself;
        }
    }

    fn waiter(&self, key: usize) -> Waiter {
        let handle = self.node.shards[self.index].clone();
        let serial = self.connections.get(key).map_or(0, |connection| connection.serial);
        let resume = Box::new(move || handle.send(Command::Resume { key, serial }));
        // Serial numbers are those of one loop.
        Waiter { id: (self.index as u64) << 48 | serial, resume }
    }

    pub(super) fn resume(&mut self, key: usize, serial: u64) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.serial == serial && connection.waits != Waits::No {
            connection.waits = Waits::No;
            connection.last_heard = self.turn.context.now;
            self.again.push(key);
        }
    }

    /// Sets the connection's only live entry in the wheel; one far off is looked at earlier, and set again.
    pub(super) fn arm(&mut self, key: usize, deadline: Instant) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if deadline == Instant::NEVER {
            connection.timer_due = deadline;
            return;
        }
        let deadline = deadline.min(self.turn.context.now.plus_millis(TIMER_MILLIS_MAX));
        connection.timer_due = deadline;
        self.wheel.add(deadline, (key, deadline));
    }

    pub(super) fn on_timer(&mut self, key: usize, deadline: Instant) {
        if key > usize::MAX - self.listeners.len() {
            self.accept(usize::MAX - key);
            return;
        }
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.timer_due != deadline {
            return;
        }
        let now = self.turn.context.now;
        if connection.waits == Waits::ForTarget {
            connection.waits = Waits::No;
            connection.last_heard = now;
            self.again.push(key);
        }
        let Stage::Client(client) = &connection.stage else {
            if now < connection.connect_due {
                let connect_due = connection.connect_due;
                // As long as it says nothing, it takes no place that a client would need to be on one loop with
                // another.
                self.set_placed(key, false);
                return self.arm(key, connect_due);
            }
            let is_page = matches!(connection.stage, Stage::Http(Surface::Full));
            return self.close(key, if is_page { End::Answered } else { End::ConnectTimeout });
        };
        if client.keep_alive_millis == 0 {
            self.arm(key, Instant::NEVER);
            return;
        }
        let silence_ends = connection.last_heard.plus_millis(client.keep_alive_millis);
        if silence_ends <= now { self.close(key, End::KeepAlive) } else { self.arm(key, silence_ends) }
    }

    /// The process stops: a client is told once it has been sent what waits for it.
    pub(super) fn begin_draining(&mut self, key: usize) {
        let Some(connection) = self.connections.get(key) else { return };
        if let Stage::Client(client) = &connection.stage
            && client.session.begin_draining(&connection.link)
        {
            self.turn.touch(&client.session);
        }
    }

    /// Tells a client that the process stops; the connection closes when its outbox is written.
    fn tell_shutdown(&mut self, key: usize) {
        let Some(connection) = self.connections.get(key) else { return };
        if let Stage::Client(client) = &connection.stage
            && let Some((reason, text)) = End::Shutdown.farewell()
            && client.say_farewell(&connection.link, reason, text)
        {
            self.turn.touch(&client.session);
        }
    }

    /// Tells the clients that nothing waits for any more, or all when it is `time_to_leave`; closes what has nothing to
    /// write. Returns whether any client is left.
    pub(super) fn sweep_drained(&mut self, time_to_leave: Instant) -> bool {
        let is_late = self.turn.context.now >= time_to_leave;
        let (mut leaving, mut drained) = (Vec::new(), Vec::new());
        for (key, connection) in &self.connections {
            match &connection.stage {
                Stage::Client(client) => match client.session.draining(&connection.link) {
                    Draining::Untold { has_queue: true } if !is_late => {}
                    Draining::Untold { .. } => leaving.push(key),
                    Draining::Writing => {}
                    Draining::Done => drained.push(key),
                },
                Stage::Greeting => drained.push(key),
                Stage::Http(_) => {}
            }
        }
        for key in leaving {
            self.tell_shutdown(key);
        }
        for key in drained {
            self.close(key, End::Drained);
        }
        self.connections.iter().any(|(_, connection)| matches!(connection.stage, Stage::Client(_)))
    }

    /// Ends a connection: says why if the client is owed that, leaves its session, publishes what that entails.
    pub(super) fn close(&mut self, key: usize, end: End) {
        let Some(connection) = self.connections.try_remove(key) else { return };
        let now = self.turn.context.now;
        let is_client = matches!(connection.stage, Stage::Client(_));
        if !matches!(connection.stage, Stage::Http(_)) || end == End::ConnectTimeout {
            // At once, not at the end of the turn: the peer may see the end and ask.
            self.node.broker.metrics.add(end.counter(is_client), 1);
        }
        if let Stage::Client(client) = &connection.stage {
            if let Some((reason, text)) = end.farewell() {
                client.say_farewell(&connection.link, reason, text);
            }
            // What it was answered in the same batch, as far as the socket takes it. If another loop has the session by
            // now, there may be more of that one's to write, which this one has then promised.
            if client.session.flush() {
                self.turn.touch(&client.session);
            }
            crate::events::disconnected(&client.session.client_id, connection.link.peer, &end);
            let ended = client.session.detach(&connection.link, now);
            self.node.client_count.fetch_sub(1, Relaxed);
            self.node.finish(&mut self.turn.context, &client.session, ended);
        } else {
            crate::events::refused(connection.link.peer, &end);
        }
        if !matches!(end, End::Client | End::Lost) {
            // Everything sent so far is delivered before the end of the stream.
            let _ = connection.link.socket.shutdown(Shutdown::Write);
        }
        self.node.forget_connection(connection.listener);
        if connection.is_placed {
            self.node.shards[self.index].connection_count().fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_an_end_is_counted_whatever_its_reason_code() {
        let what = || "why".to_owned();
        let memory_full = End::MemoryFull { what: what() };
        assert_eq!(memory_full.counter(true), Counter::DisconnectsMemory);
        assert_eq!(memory_full.counter(false), Counter::ConnectionsRefusedConnect);
        assert_eq!(memory_full.farewell(), Some((ReasonCode::QuotaExceeded, "why")));
        let broken_rule = End::Protocol { reason: ReasonCode::QuotaExceeded, what: what() };
        assert_eq!(broken_rule.counter(true), Counter::DisconnectsProtocol);
        assert_eq!(broken_rule.farewell(), memory_full.farewell());
    }
}
