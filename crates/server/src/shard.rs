//! Event loops: each thread runs one, and owns the connections it was given.
//!
//! A turn of the loop reads what its sockets have, handles every packet in it, and then writes to each touched
//! socket once, whichever loop owns it. Nothing is handed to another thread but new connections; a delivery is an
//! append to the subscriber's outbox and a write from here.

mod accept;
mod connection;
mod read;

pub(crate) use connection::{Connection, End, Stage, Waits};

use crate::inbox::Command;
use crate::listener::{Bound, Kind};
use crate::node::Node;
use crate::session::Acknowledgement;
use crate::settings::Settings;
use crate::{clock, outbox, session};
use meridian_broker::{Context, Counter, Target, Wheel};
use meridian_types::{Instant, memory};
use mio::{Events, Poll, Token};
use slab::Slab;
use std::sync::Arc;
use std::time::Duration;

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 1024;
/// The read buffer of a loop. A connection owns none while it has no incomplete packet.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Bytes read in one turn before what they caused is written out.
const FLUSH_AFTER_BYTES: usize = 256 * 1024;
/// Bytes a loop's route cache may take.
const ROUTE_CACHE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long a loop must have been idle before it frees pooled buffers.
const IDLE_MILLIS: u64 = 2_000;

/// How often a loop that stops looks whether its clients have taken their last messages.
const DRAIN_MILLIS: u64 = 10;

/// The token of the waker.
const WAKE: Token = Token(usize::MAX);

/// One event loop.
pub(crate) struct Shard {
    index: usize,
    node: Arc<Node>,
    poll: Poll,
    listeners: Vec<Bound>,
    connections: Slab<Box<Connection>>,
    /// Entries are connection and serial number; stale ones are ignored.
    wheel: Wheel<(usize, Instant)>,
    buffer: Vec<u8>,
    turn: Turn,
    /// Connections that may have more to read although the kernel will not say so.
    again: Vec<usize>,
    /// Listeners that may have more connections although the kernel will not say so.
    accept_again: Vec<usize>,
    /// The last serial number given to a connection.
    serial: u64,
    /// Set when the process stops: when clients are told although messages wait for them.
    time_to_leave: Option<Instant>,
}

/// What the handling of packets needs, apart from the connection itself.
pub(crate) struct Turn {
    pub(crate) node: Arc<Node>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) context: Context,
    /// Packets for the client whose packets are being handled.
    pub(crate) replies: Vec<u8>,
    /// Whether some were sent already.
    pub(crate) has_replied: bool,
    /// Its acknowledgements, applied together.
    pub(crate) acks: Vec<Acknowledgement>,
    /// Bytes read since the last flush.
    unflushed: usize,
}

impl Turn {
    /// Notes that a session has output.
    #[inline]
    pub(crate) fn touch(&mut self, session: &Arc<session::Session>) {
        self.context.touch(session.clone() as Arc<dyn Target>);
    }
}

impl Shard {
    /// A loop over `poll`, with a share in the listeners.
    pub(crate) fn new(index: usize, node: Arc<Node>, poll: Poll, listeners: Vec<Bound>) -> Self {
        let settings = node.settings();
        let turn = Turn {
            node: node.clone(),
            settings,
            context: Context::new(ROUTE_CACHE_BYTES_MAX),
            replies: Vec::new(),
            has_replied: false,
            acks: Vec::new(),
            unflushed: 0,
        };
        Self {
            index,
            node,
            poll,
            listeners,
            connections: Slab::new(),
            wheel: Wheel::default(),
            buffer: vec![0; READ_BUFFER_BYTES],
            turn,
            again: Vec::new(),
            accept_again: Vec::new(),
            serial: 0,
            time_to_leave: None,
        }
    }

    /// Runs until the process stops.
    ///
    /// # Errors
    /// What the operating system reports when it cannot be asked for events.
    pub(crate) fn run(mut self) -> std::io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut last_busy = clock::now();
        loop {
            let timeout = self.timeout(last_busy);
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != std::io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            self.turn.context.now = clock::now();
            let now = self.turn.context.now;
            if !events.is_empty() || !self.again.is_empty() {
                last_busy = now;
            } else if now.since(last_busy) >= Duration::from_millis(IDLE_MILLIS) {
                outbox::shrink_pool();
            }
            for event in &events {
                match event.token() {
                    WAKE => self.take_commands(),
                    Token(number) if number < self.listeners.len() => self.accept(number),
                    Token(number) => {
                        let key = number - self.listeners.len();
                        if event.is_writable() {
                            self.on_writable(key);
                        }
                        if event.is_readable() || event.is_read_closed() || event.is_error() {
                            let may_have_ended = event.is_read_closed() || event.is_error();
                            self.on_readable(key, may_have_ended);
                        }
                    }
                }
            }
            for listener in std::mem::take(&mut self.accept_again) {
                self.accept(listener);
            }
            for key in std::mem::take(&mut self.again) {
                self.on_readable(key, true);
            }
            self.run_timers();
            self.end_turn();
            if let Some(time_to_leave) = self.time_to_leave
                && !self.sweep_drained(time_to_leave)
                // Clients of other loops that this one has promised to write to.
                && self.turn.context.touched_count() == 0
            {
                return Ok(());
            }
        }
    }

    fn timeout(&self, last_busy: Instant) -> Option<Duration> {
        let has_more_to_write = self.turn.context.touched_count() > 0;
        if has_more_to_write || !self.again.is_empty() || !self.accept_again.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = clock::now();
        let own = self.wheel.next_wait_millis(now);
        let shared = if self.index == 0 { self.node.next_timer_millis(now) } else { None };
        // One more look a while after the last event, to free what an idle loop does not need.
        let idle = (now.since(last_busy) < Duration::from_millis(IDLE_MILLIS)).then_some(IDLE_MILLIS);
        let drain = self.time_to_leave.map(|_| DRAIN_MILLIS);
        [own, shared, drain, idle].into_iter().flatten().min().map(Duration::from_millis)
    }

    /// Writes out everything that waits and adds up what was counted.
    fn flush(&mut self) {
        self.turn.unflushed = 0;
        self.turn.context.flush();
    }

    fn end_turn(&mut self) {
        self.flush();
        let counters = &mut self.turn.context.counters;
        counters.add(Counter::BytesSent, outbox::take_bytes_sent());
        let pumped = session::take_pumped();
        counters.add(Counter::Delivered, pumped.replayed);
        counters.add(Counter::DroppedExpired, pumped.expired);
        counters.add(Counter::DroppedTooLarge, pumped.too_large);
        self.turn.context.end_turn(&self.node.broker.metrics);
        memory::settle(self.node.registry.count());
    }

    fn take_commands(&mut self) {
        self.turn.settings = self.node.settings();
        for command in self.node.shards[self.index].take() {
            match command {
                Command::Adopt { socket, peer, listener } => self.adopt(socket, peer, listener),
                Command::Resume { key, serial } => self.resume(key, serial),
                Command::Stop => self.stop(),
            }
        }
    }

    fn run_timers(&mut self) {
        let now = self.turn.context.now;
        let mut due = Vec::new();
        self.wheel.advance(now, |entry| due.push(entry));
        for (key, deadline) in due {
            self.on_timer(key, deadline);
        }
        if self.index == 0 {
            let node = self.node.clone();
            node.run_timers(&mut self.turn.context);
        }
    }

    /// Shutdown: no new connections; each client is sent what waits for it, as far as it takes that in time, and is
    /// then told and closed.
    fn stop(&mut self) {
        for bound in &mut self.listeners {
            // Health checks go on being answered: not ready any more.
            if bound.kind() == Kind::Mqtt {
                bound.close(self.poll.registry());
            }
        }
        let grace = self.turn.settings.config.server.shutdown_grace.0;
        // The last quarter is for what outboxes hold by then, and for DISCONNECT.
        let millis = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX) / 4 * 3;
        self.time_to_leave = Some(self.turn.context.now.plus_millis(millis));
        let keys: Vec<usize> = self.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.begin_draining(key);
        }
    }
}
