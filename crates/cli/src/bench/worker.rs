//! The event loop of one thread: it opens its share of the connections, reads, publishes, and writes.

use super::connection::{Connection, Context, State, Trouble};
use super::packet;
use super::plan::{Course, Duty, Filters, Plan, run_id};
use super::publisher::Publisher;
use super::settings::Settings;
use super::stats::{Phase, Shared, Stats};
use super::timer::{POLL_MAX, Timer};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Protocol, Socket, Type};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// With several threads, deliveries may be counted by another one; a publisher looks for them so often.
const GLANCE_NS: u64 = 300_000;
/// All publishers are looked at so often, whatever came: one of them may have to give up waiting.
const SCAN_NS: u64 = 3_000_000;
/// A publisher of an open loop that is held up by its window is looked at again after so long.
const RETRY_NS: u64 = 200_000;
const EVENTS_MAX: usize = 512;
/// Bytes of one read.
const READ_LEN: usize = 128 * 1024;
/// Kernel buffer of a subscriber that never reads, so that it blocks soon.
const BLOCKED_BUFFER_LEN: usize = 4096;
/// Source addresses a storm takes in turn, since every client leaves its port unusable for a minute.
const STORM_ADDRESSES: u32 = 16;
/// Connections from one source address otherwise; its ports number 28,000.
const CONNECTIONS_PER_ADDRESS: usize = 20_000;
const TIMER: Token = Token(usize::MAX);
const NOWHERE: usize = usize::MAX;

/// One thread's share of a run.
pub(crate) struct Worker {
    index: usize,
    poll: Poll,
    timer: Timer,
    connections: Vec<Connection>,
    /// To be opened.
    waiting: VecDeque<usize>,
    opening: usize,
    opening_max: usize,
    /// Sockets that may hold more than was read.
    unread: Vec<usize>,
    context: Context,
    /// Connection of each publisher, or [`NOWHERE`] if another worker has it.
    by_publisher: Vec<usize>,
    /// In an open loop: who is due when.
    schedule: BinaryHeap<Reverse<(u64, usize)>>,
    begun: bool,
    scanned_ns: u64,
    visits: u64,
    addresses: u32,
    address: u32,
    scratch: Box<[u8]>,
}

impl Worker {
    /// Worker `index` of the run: it has every connection whose number leaves that rest.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub(crate) fn new(
        index: usize,
        plan: &Plan,
        settings: &Arc<Settings>,
        shared: &Arc<Shared>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let timer = Timer::new(poll.registry(), TIMER)?;
        let mut by_publisher = vec![NOWHERE; plan.publishers];
        let mut connections = Vec::new();
        for spec in plan.connections.iter().skip(index).step_by(settings.threads) {
            let publisher = match &spec.duty {
                Duty::Publish { publisher, heads, choice } => {
                    by_publisher[*publisher as usize] = connections.len();
                    Some(Publisher::new(settings, plan.publishers, *publisher, Arc::clone(heads), *choice))
                }
                _ => None,
            };
            let sequences = if plan.in_sequence { plan.publishers } else { 0 };
            connections.push(Connection::new(spec.clone(), publisher, sequences));
        }
        let loopback = matches!(settings.address.ip(), IpAddr::V4(address) if address.is_loopback());
        let wanted = match plan.course {
            Course::Visits { .. } => STORM_ADDRESSES,
            _ => 1 + (plan.connections.len() / CONNECTIONS_PER_ADDRESS) as u32,
        };
        Ok(Self {
            index,
            poll,
            timer,
            waiting: (0..connections.len()).collect(),
            connections,
            opening: 0,
            opening_max: (settings.connecting / settings.threads).max(1),
            unread: Vec::new(),
            context: Context {
                settings: Arc::clone(settings),
                shared: Arc::clone(shared),
                course: plan.course,
                fan: plan.fan,
                stats: Stats::new(),
                measuring: false,
                eager: Vec::new(),
                is_eager: vec![false; plan.publishers],
                padding: (0..settings.size - packet::STAMP_LEN).map(|i| b'a' + (i % 26) as u8).collect(),
            },
            by_publisher,
            schedule: BinaryHeap::new(),
            begun: false,
            scanned_ns: 0,
            visits: 0,
            addresses: if loopback { wanted } else { 1 },
            address: index as u32,
            scratch: vec![0; READ_LEN].into(),
        })
    }

    /// Works until the run is over, then leaves in order. Returns what was measured.
    ///
    /// # Errors
    /// The event loop itself is broken; trouble with single connections is counted instead.
    pub(crate) fn run(mut self) -> io::Result<Stats> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            let phase = self.context.shared.phase();
            if phase == Phase::End {
                break;
            }
            self.context.measuring = phase == Phase::Measure;
            self.open_waiting();
            let mut timeout = POLL_MAX;
            if matches!(phase, Phase::WarmUp | Phase::Measure) {
                timeout = self.act(phase)?;
            }
            if !self.unread.is_empty() {
                timeout = Duration::ZERO;
            }
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for index in std::mem::take(&mut self.unread) {
                self.read(index, Drained::Unknown);
            }
            for event in &events {
                if event.token() != TIMER {
                    self.handle(event);
                }
            }
            self.context.shared.post(self.index, phase, self.context.stats.counters);
        }
        for connection in &mut self.connections {
            connection.append(&packet::DISCONNECT_PACKET);
            // Best effort: the broker sees the end of the stream in any case.
            let _ = connection.flush();
        }
        Ok(self.context.stats)
    }

    fn open_waiting(&mut self) {
        while self.opening < self.opening_max {
            let Some(index) = self.waiting.pop_front() else { return };
            match self.open(index) {
                Ok(()) => self.opening += 1,
                Err(error) => self.fail(index, &error.into()),
            }
        }
    }

    fn open(&mut self, index: usize) -> io::Result<()> {
        let target = self.context.settings.address;
        let socket =
            Socket::new(Domain::for_address(target), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        socket.set_tcp_nodelay(true)?;
        if matches!(self.connections[index].spec.duty, Duty::Block) {
            socket.set_recv_buffer_size(BLOCKED_BUFFER_LEN)?;
        }
        if self.addresses > 1 {
            self.address = (self.address + 1) % self.addresses;
            let source = Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + self.address);
            socket.set_reuse_address(true)?;
            socket.bind(&SocketAddr::from((source, 0)).into())?;
        }
        match socket.connect(&target.into()) {
            Err(error) if error.raw_os_error() != Some(nix::errno::Errno::EINPROGRESS as i32) => {
                return Err(error);
            }
            _ => {}
        }
        let mut stream = TcpStream::from_std(socket.into());
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(index), interest)?;
        self.connections[index].open(stream, self.context.shared.now_ns(), &self.context.settings);
        Ok(())
    }

    fn handle(&mut self, event: &mio::event::Event) {
        let Token(index) = event.token();
        let connection = &mut self.connections[index];
        let Some(socket) = &connection.socket else { return };
        if connection.state == State::Connecting {
            match socket.take_error() {
                Ok(None) if event.is_writable() => connection.state = State::AwaitingConnack,
                Ok(None) => {}
                Ok(Some(error)) | Err(error) => return self.close(index, &error.into()),
            }
        }
        if event.is_writable() && connection.write_blocked {
            if let Err(error) = connection.flush() {
                return self.close(index, &error.into());
            }
            if let Some(publisher) = &connection.publisher {
                self.context.rouse(publisher.id);
            }
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            let drained = if event.is_read_closed() { Drained::Unknown } else { Drained::ByShortRead };
            self.read(index, drained);
        }
    }

    /// Reads once; what may remain is read on the next turn, after the others had theirs.
    fn read(&mut self, index: usize, drained: Drained) {
        let connection = &mut self.connections[index];
        let Some(socket) = &mut connection.socket else { return };
        let len = match socket.read(&mut self.scratch) {
            Ok(0) => return self.close(index, &Trouble::EndOfStream),
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == ErrorKind::Interrupted => return self.unread.push(index),
            Err(error) => return self.close(index, &error.into()),
        };
        let now_ns = self.context.shared.now_ns();
        match connection.receive(&self.scratch[..len], now_ns, &mut self.context) {
            Ok(false) => {}
            Ok(true) => self.ready(index, now_ns),
            Err(trouble) => return self.close(index, &trouble),
        }
        let connection = &mut self.connections[index];
        if connection.socket.is_none() {
            return;
        }
        if drained == Drained::Unknown || len == self.scratch.len() {
            self.unread.push(index);
        }
        if connection.wants_flush()
            && let Err(error) = connection.flush()
        {
            self.close(index, &error.into());
        }
    }

    fn ready(&mut self, index: usize, now_ns: u64) {
        self.opening = self.opening.saturating_sub(1);
        let context = &mut self.context;
        let connection = &mut self.connections[index];
        let took_ns = now_ns.saturating_sub(connection.opened_ns);
        context.stats.counters.ready += 1;
        match connection.spec.duty {
            Duty::Visit => {
                if context.measuring {
                    context.stats.latency.saturating_record(took_ns);
                }
                context.stats.counters.visits += 1;
                connection.append(&packet::DISCONNECT_PACKET);
                if let Err(error) = connection.flush() {
                    return self.close(index, &error.into());
                }
                connection.socket = None;
                self.visit_again(index);
            }
            Duty::Block => {
                context.stats.handshake.saturating_record(took_ns);
                if let Some(socket) = &mut connection.socket {
                    // Unwatched from here on; the socket stays open and fills.
                    let _ = self.poll.registry().deregister(socket);
                }
            }
            _ => context.stats.handshake.saturating_record(took_ns),
        }
    }

    fn visit_again(&mut self, index: usize) {
        if self.context.shared.phase() >= Phase::Drain {
            return;
        }
        self.visits += 1;
        let spec = &mut self.connections[index].spec;
        spec.client_id = format!("{}v{}x{}", run_id(), self.index, self.visits);
        if let Filters::One(filter) = &mut spec.filters {
            *filter = format!("{}/storm/{}/{}", self.context.settings.prefix, self.index, self.visits);
        }
        self.connections[index].state = State::Waiting;
        self.waiting.push_back(index);
    }

    /// Notes why a connection ended. Visitors come again; others stay away.
    fn close(&mut self, index: usize, trouble: &Trouble) {
        self.connections[index].socket = None;
        if self.connections[index].state == State::Ready {
            self.connections[index].state = State::Closed;
            self.context.stats.counters.closed += 1;
            self.note(index, trouble);
            return;
        }
        self.opening = self.opening.saturating_sub(1);
        self.fail(index, trouble);
        if matches!(self.connections[index].spec.duty, Duty::Visit) {
            self.visit_again(index);
        }
    }

    fn fail(&mut self, index: usize, trouble: &Trouble) {
        self.connections[index].state = State::Closed;
        self.context.stats.counters.failed += 1;
        self.note(index, trouble);
    }

    fn note(&self, index: usize, trouble: &Trouble) {
        self.context.shared.trouble(format!("{}: {trouble}", self.connections[index].spec.client_id));
    }

    /// Does what the course asks for once all connections stand; returns how long to wait for events.
    fn act(&mut self, phase: Phase) -> io::Result<Duration> {
        let now_ns = self.context.shared.now_ns();
        match self.context.course {
            Course::Messages => {}
            Course::Subscriptions if phase == Phase::Measure && !self.begun => {
                self.begun = true;
                for index in 0..self.connections.len() {
                    self.connections[index].subscribe(&self.context);
                    if let Err(error) = self.connections[index].flush() {
                        self.close(index, &error.into());
                    }
                }
                return Ok(POLL_MAX);
            }
            Course::Subscriptions | Course::Visits { .. } | Course::Rest => return Ok(POLL_MAX),
        }
        let open_loop = self.context.settings.rate.is_some();
        if !self.begun {
            self.begun = true;
            self.begin(open_loop);
        }
        if open_loop { self.publish_due(now_ns) } else { self.publish_eager(now_ns) }
    }

    fn begin(&mut self, open_loop: bool) {
        let begin_ns = self.context.shared.begin_ns();
        for (publisher, &index) in self.by_publisher.iter().enumerate() {
            if index == NOWHERE {
                continue;
            }
            let Some(state) = &mut self.connections[index].publisher else { continue };
            state.begin(begin_ns, self.by_publisher.len());
            if open_loop {
                self.schedule.push(Reverse((state.due_ns, index)));
            } else {
                self.context.rouse(publisher as u32);
            }
        }
    }

    fn publish(&mut self, index: usize, now_ns: u64) {
        if let Err(error) = self.connections[index].publish(now_ns, &mut self.context) {
            self.close(index, &error.into());
        }
    }

    /// Closed loop: those whose window may have opened.
    fn publish_eager(&mut self, now_ns: u64) -> io::Result<Duration> {
        let mut eager = std::mem::take(&mut self.context.eager);
        for &publisher in &eager {
            self.context.is_eager[publisher as usize] = false;
            let index = self.by_publisher[publisher as usize];
            if index != NOWHERE {
                self.publish(index, now_ns);
            }
        }
        eager.clear();
        if self.context.eager.is_empty() {
            self.context.eager = eager;
        }
        let many = self.context.settings.threads > 1;
        if now_ns - self.scanned_ns > if many { GLANCE_NS } else { SCAN_NS } {
            self.scanned_ns = now_ns;
            for publisher in 0..self.by_publisher.len() {
                let index = self.by_publisher[publisher];
                if index != NOWHERE {
                    self.publish(index, now_ns);
                }
            }
        }
        if many { self.timer.wake_at(now_ns + GLANCE_NS, now_ns) } else { Ok(POLL_MAX) }
    }

    /// Open loop: those whose next message is due.
    fn publish_due(&mut self, now_ns: u64) -> io::Result<Duration> {
        for publisher in self.context.eager.drain(..) {
            self.context.is_eager[publisher as usize] = false;
        }
        while let Some(&Reverse((due_ns, index))) = self.schedule.peek() {
            if due_ns > now_ns {
                return self.timer.wake_at(due_ns, self.context.shared.now_ns());
            }
            self.schedule.pop();
            self.publish(index, now_ns);
            let connection = &self.connections[index];
            if let (State::Ready, Some(publisher)) = (connection.state, &connection.publisher) {
                let held_up = publisher.due_ns <= now_ns;
                let next_ns = if held_up { now_ns + RETRY_NS } else { publisher.due_ns };
                self.schedule.push(Reverse((next_ns, index)));
            }
        }
        Ok(POLL_MAX)
    }
}

/// Whether a read shorter than the buffer has emptied the socket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drained {
    ByShortRead,
    /// The peer closed its side: read until the end shows.
    Unknown,
}
