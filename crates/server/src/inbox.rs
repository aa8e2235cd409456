//! What other threads ask of an event loop.

use mio::Waker;
use mio::net::TcpStream;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A request to an event loop.
#[derive(Debug)]
pub(crate) enum Command {
    /// Take over a connection that was accepted elsewhere.
    Adopt {
        /// Not registered anywhere yet.
        socket: TcpStream,
        /// The other end.
        peer: SocketAddr,
        /// The number of its listener.
        listener: usize,
    },
    /// Go on reading from a connection that had to wait.
    Resume {
        /// Which.
        key: usize,
        /// Of the connection meant; another may have its key by now.
        serial: u64,
    },
    /// Drain and end.
    Stop,
}

/// How other threads reach an event loop.
#[derive(Clone)]
pub(crate) struct ShardHandle {
    inner: Arc<Inner>,
}

struct Inner {
    commands: Mutex<Vec<Command>>,
    waker: Waker,
    connection_count: AtomicUsize,
}

impl ShardHandle {
    pub(crate) fn new(waker: Waker) -> Self {
        let inner = Inner { commands: Mutex::default(), waker, connection_count: AtomicUsize::new(0) };
        Self { inner: Arc::new(inner) }
    }

    /// Leaves a command and wakes the loop. Bounded by what causes commands: accepts and waiting publishers.
    pub(crate) fn send(&self, command: Command) {
        let mut commands = self.inner.commands.lock();
        commands.push(command);
        // Whoever left the first one has woken it.
        let is_first = commands.len() == 1;
        drop(commands);
        if is_first {
            self.wake();
        }
    }

    /// Wakes the loop.
    pub(crate) fn wake(&self) {
        // Fails only if the loop is gone, and then nobody is to be woken.
        let _ = self.inner.waker.wake();
    }

    pub(crate) fn take(&self) -> Vec<Command> {
        std::mem::take(&mut self.inner.commands.lock())
    }

    /// Connections it owns, those apart that only read pages: for placing new ones.
    pub(crate) fn connection_count(&self) -> &AtomicUsize {
        &self.inner.connection_count
    }

    /// Connections it owns, as far as they count.
    pub(crate) fn load(&self) -> usize {
        self.inner.connection_count.load(Relaxed)
    }
}
