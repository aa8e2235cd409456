//! One connection's socket, as other threads see it.

use crate::outbox::Framing;
use meridian_mqtt::ReasonCode;
use mio::net::TcpStream;
use parking_lot::Mutex;
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

/// The socket of a connection and why it was told to end.
///
/// The event loop that owns the connection reads from it. Any thread may write to it, one at a time, under the rules
/// of [`crate::outbox::Outbox`]; any thread may end it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) socket: TcpStream,
    pub(crate) framing: Framing,
    pub(crate) peer: SocketAddr,
    is_ended: AtomicBool,
    ending: Mutex<Ending>,
}

#[derive(Debug, Default)]
struct Ending {
    reason: Option<ReasonCode>,
    farewell: Option<Vec<u8>>,
}

impl Link {
    pub(crate) fn new(socket: TcpStream, framing: Framing, peer: SocketAddr) -> Self {
        Self { socket, framing, peer, is_ended: AtomicBool::new(false), ending: Mutex::default() }
    }

    /// Ends the connection from outside: its event loop sees the socket close and finds `reason`. The first reason
    /// counts.
    pub(crate) fn end(&self, reason: ReasonCode) {
        self.ending.lock().reason.get_or_insert(reason);
        self.is_ended.store(true, Release);
        // Fails only if the peer has closed already, which ends the connection as well.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// As [`Link::end`], once the thread that is writing now is done and has sent `farewell`.
    pub(crate) fn end_after_write(&self, reason: ReasonCode, farewell: Vec<u8>) {
        let mut ending = self.ending.lock();
        ending.reason.get_or_insert(reason);
        self.is_ended.store(true, Release);
        ending.farewell = Some(farewell);
    }

    /// Called by a writer that finds the connection gone from its session: sends the farewell, if all before it was
    /// sent, and closes.
    pub(crate) fn say_farewell(&self, is_all_sent: bool) {
        let farewell = self.ending.lock().farewell.take();
        if let Some(farewell) = farewell {
            if is_all_sent {
                // Best effort: a socket that does not take a few bytes now will not be waited for.
                let _ = std::io::Write::write(&mut &self.socket, &farewell);
            }
            let _ = self.socket.shutdown(Shutdown::Both);
        }
    }

    /// Whether it was ended from outside: what it still sends does not count.
    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended.load(Acquire)
    }

    /// Why it was ended from outside, if it was.
    pub(crate) fn end_reason(&self) -> Option<ReasonCode> {
        self.ending.lock().reason
    }
}
