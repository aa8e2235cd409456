//! New connections: accepted by whichever loop is awake; the first placed in pairs, the others evenly.

use super::{Connection, Shard};
use crate::inbox::Command;
use crate::listener::Kind;
use meridian_broker::Counter;
use mio::net::TcpStream;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

/// Connections accepted in one turn before others get theirs.
const ACCEPTS_PER_TURN: usize = 256;
/// A loop keeps what it accepts unless another has this many connections fewer.
const PLACEMENT_SLACK: usize = 4;
/// Connections a loop gets before the next one gets its first.
const PAIR: usize = 2;
/// How long a connection counts there before it has said anything: clients say CONNECT at once, others may never.
const SILENCE_MILLIS: u64 = 1_000;
/// How long to wait after the process ran out of open files.
const FILES_WAIT_MILLIS: u64 = 100;

impl Shard {
    pub(super) fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            match self.listeners[listener].accept() {
                Ok((socket, peer)) => self.place(socket, peer, listener),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The peer gave up while it waited, or a signal came: the next one may be fine.
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(error) => {
                    self.turn.context.counters.add(Counter::ConnectionsRefusedFiles, 1);
                    tracing::error!(
                        %error,
                        listener = self.listeners[listener].url(),
                        "cannot accept a connection; raise the limit of open files (ulimit -n)"
                    );
                    let deadline = self.turn.context.now.plus_millis(FILES_WAIT_MILLIS);
                    self.wheel.add(deadline, (usize::MAX - listener, deadline));
                    return;
                }
            }
        }
        // Edge-triggered: the kernel says nothing more about those that are left.
        self.accept_again.push(listener);
    }

    fn place(&mut self, socket: TcpStream, peer: SocketAddr, listener: usize) {
        self.turn.context.counters.add(Counter::ConnectionsAccepted, 1);
        if !self.node.may_accept(listener) {
            self.turn.context.counters.add(Counter::ConnectionsRefusedLimit, 1);
            return;
        }
        let Some(target) = self.place_on(&socket) else {
            if self.listeners[listener].kind() == Kind::Mqtt {
                self.turn.context.counters.add(Counter::ConnectionsRefusedConnect, 1);
            }
            return;
        };
        self.node.connection_count.fetch_add(1, Relaxed);
        self.node.listener_counts[listener].fetch_add(1, Relaxed);
        let shards = &self.node.shards;
        shards[target].connection_count().fetch_add(1, Relaxed);
        if target == self.index {
            self.adopt(socket, peer, listener);
        } else {
            shards[target].send(Command::Adopt { socket, peer, listener });
        }
    }

    /// The loop for a new connection. A publisher and its subscriber on one loop wake one thread for each message
    /// instead of two, so the first connections go to the loops in pairs. One that its peer has closed already, as
    /// health checks do, would part a pair: it gets none.
    fn place_on(&self, socket: &TcpStream) -> Option<usize> {
        let shards = &self.node.shards;
        if let Some(first) = shards.iter().position(|shard| shard.load() < PAIR) {
            return (!is_closed(socket)).then_some(first);
        }
        let least = (0..shards.len()).min_by_key(|&index| shards[index].load()).unwrap_or(self.index);
        let is_even = shards[self.index].load() <= shards[least].load() + PLACEMENT_SLACK;
        Some(if is_even { self.index } else { least })
    }

    /// Whether a connection of this loop counts where new ones are placed.
    pub(super) fn set_placed(&mut self, key: usize, counts: bool) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if std::mem::replace(&mut connection.is_placed, counts) != counts {
            let count = self.node.shards[self.index].connection_count();
            if counts {
                count.fetch_add(1, Relaxed)
            } else {
                count.fetch_sub(1, Relaxed)
            };
        }
    }

    pub(super) fn adopt(&mut self, mut socket: TcpStream, peer: SocketAddr, listener: usize) {
        let entry = self.connections.vacant_entry();
        let key = entry.key();
        let token = mio::Token(key + self.listeners.len());
        let interest = mio::Interest::READABLE | mio::Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut socket, token, interest) {
            tracing::error!(%error, "cannot watch a connection");
            self.node.forget_connection(listener);
            self.node.shards[self.index].connection_count().fetch_sub(1, Relaxed);
            return;
        }
        let now = self.turn.context.now;
        let timeout =
            self.turn.settings.config.listener.get(listener).map(|listener| listener.connect_timeout.0);
        let deadline = now.plus_millis(timeout.map_or(10_000, |timeout| timeout.as_millis() as u64));
        let kind = self.listeners[listener].kind();
        self.serial += 1;
        let mut connection = Connection::new(socket, peer, listener, kind, now, self.serial);
        connection.connect_due = deadline;
        connection.timer_due = deadline.min(now.plus_millis(SILENCE_MILLIS));
        self.wheel.add(connection.timer_due, (key, connection.timer_due));
        entry.insert(Box::new(connection));
        if self.time_to_leave.is_some() && kind == Kind::Mqtt {
            self.close(key, super::End::Shutdown);
        }
    }
}

/// Whether the peer has closed or reset the connection, having sent nothing.
fn is_closed(socket: &TcpStream) -> bool {
    match socket.peek(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}
