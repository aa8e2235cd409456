//! One connection's sending side: the outbox into which other connections put its messages.

use parking_lot::Mutex;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;

#[derive(Default)]
struct Outbox {
    bytes: Vec<u8>,
    packet_id: u16,
    inflight: Vec<u16>,
    /// The socket took no more; the writer task goes on when it does.
    blocked: bool,
    closed: bool,
}

pub(crate) struct Connection {
    write_half: OwnedWriteHalf,
    outbox: Mutex<Outbox>,
    /// Already in some reader's list of outboxes to flush.
    touched: AtomicBool,
    blocked: Notify,
}

/// Connections whose outbox is to be flushed.
pub(crate) type Touched = Vec<Arc<Connection>>;

impl Connection {
    pub(crate) fn new(write_half: OwnedWriteHalf) -> Self {
        Self { write_half, outbox: Mutex::default(), touched: AtomicBool::new(false), blocked: Notify::new() }
    }

    /// Ends the writer task.
    pub(crate) fn close(&self) {
        self.outbox.lock().closed = true;
        self.blocked.notify_one();
    }

    /// Appends a packet for the connection itself.
    pub(crate) fn reply(self: &Arc<Self>, packet: &[u8], touched: &mut Touched) {
        self.outbox.lock().bytes.extend_from_slice(packet);
        self.touch(touched);
    }

    /// Appends a message; `topic` with its length before it.
    pub(crate) fn deliver(self: &Arc<Self>, topic: &[u8], qos: u8, payload: &[u8], touched: &mut Touched) {
        {
            let outbox = &mut *self.outbox.lock();
            outbox.bytes.push(0x30 | qos << 1);
            put_len(&mut outbox.bytes, topic.len() + if qos > 0 { 2 } else { 0 } + payload.len());
            outbox.bytes.extend_from_slice(topic);
            if qos > 0 {
                outbox.packet_id = outbox.packet_id.checked_add(1).unwrap_or(1);
                outbox.inflight.push(outbox.packet_id);
                outbox.bytes.extend_from_slice(&outbox.packet_id.to_be_bytes());
            }
            outbox.bytes.extend_from_slice(payload);
        }
        self.touch(touched);
    }

    /// A message was acknowledged.
    pub(crate) fn acknowledge(&self) {
        self.outbox.lock().inflight.pop();
    }

    fn touch(self: &Arc<Self>, touched: &mut Touched) {
        if !self.touched.load(Ordering::Relaxed) && !self.touched.swap(true, Ordering::Relaxed) {
            touched.push(Arc::clone(self));
        }
    }

    pub(crate) fn flush(&self) {
        let outbox = &mut *self.outbox.lock();
        self.touched.store(false, Ordering::Relaxed);
        if outbox.blocked {
            return;
        }
        let mut done = 0;
        while done < outbox.bytes.len() {
            match self.write_half.try_write(&outbox.bytes[done..]) {
                Ok(len) => done += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    outbox.blocked = true;
                    self.blocked.notify_one();
                    break;
                }
                Err(_) => done = outbox.bytes.len(),
            }
        }
        if done == outbox.bytes.len() {
            outbox.bytes.clear();
        } else {
            outbox.bytes.drain(..done);
        }
    }
}

/// Goes on with a blocked outbox whenever the socket is writable again.
pub(crate) async fn write_when_writable(connection: Arc<Connection>) {
    loop {
        connection.blocked.notified().await;
        if connection.outbox.lock().closed || connection.write_half.writable().await.is_err() {
            return;
        }
        connection.outbox.lock().blocked = false;
        connection.flush();
    }
}

/// Appends a remaining length.
pub(crate) fn put_len(out: &mut Vec<u8>, mut len: usize) {
    loop {
        let low = (len % 128) as u8;
        len /= 128;
        if len == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}
