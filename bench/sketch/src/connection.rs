//! One connection: what it reads, and the outbox into which other connections put its messages.

use crate::router::Router;
use parking_lot::Mutex;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

/// Bytes of one read.
const READ_LEN: usize = 64 * 1024;

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

type Touched = Vec<Arc<Connection>>;

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
    fn reply(self: &Arc<Self>, packet: &[u8], touched: &mut Touched) {
        self.outbox.lock().bytes.extend_from_slice(packet);
        self.touch(touched);
    }

    fn touch(self: &Arc<Self>, touched: &mut Touched) {
        if !self.touched.load(Ordering::Relaxed) && !self.touched.swap(true, Ordering::Relaxed) {
            touched.push(Arc::clone(self));
        }
    }

    fn flush(&self) {
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

/// Reads until the connection ends.
pub(crate) async fn serve(router: &Router, mut read_half: OwnedReadHalf, connection: &Arc<Connection>) {
    let mut buffer = vec![0; READ_LEN];
    let mut len = 0;
    let mut touched = Vec::new();
    loop {
        match read_half.read(&mut buffer[len..]).await {
            Ok(0) | Err(_) => return,
            Ok(read) => len += read,
        }
        let mut used = 0;
        while let Some((header_len, body_len)) = frame(&buffer[used..len]) {
            let body = &buffer[used + header_len..][..body_len];
            if !handle(router, connection, buffer[used], body, &mut touched) {
                return;
            }
            used += header_len + body_len;
        }
        buffer.copy_within(used..len, 0);
        len -= used;
        for target in touched.drain(..) {
            target.flush();
        }
    }
}

/// Lengths of header and body of the packet at the start, if it is whole.
fn frame(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut body_len = 0;
    for (index, byte) in bytes.iter().enumerate().skip(1).take(4) {
        body_len |= usize::from(byte & 0x7f) << (7 * (index - 1));
        if byte & 0x80 == 0 {
            let header_len = index + 1;
            return (bytes.len() >= header_len + body_len).then_some((header_len, body_len));
        }
    }
    None
}

/// Handles one packet; false if it ends the connection.
fn handle(
    router: &Router,
    connection: &Arc<Connection>,
    first_byte: u8,
    body: &[u8],
    touched: &mut Touched,
) -> bool {
    match first_byte >> 4 {
        1 => connection.reply(&[0x20, 2, 0, 0], touched),
        3 => publish(router, connection, first_byte >> 1 & 3, body, touched),
        4 => {
            connection.outbox.lock().inflight.pop();
        }
        8 => subscribe(router, connection, body, touched),
        12 => connection.reply(&[0xd0, 0], touched),
        14 => return false,
        _ => {}
    }
    true
}

fn publish(router: &Router, connection: &Arc<Connection>, qos: u8, body: &[u8], touched: &mut Touched) {
    let topic_end = 2 + be16(body);
    let payload = if qos > 0 { &body[topic_end + 2..] } else { &body[topic_end..] };
    for (target, subscribed_qos) in router.lookup(&body[2..topic_end]).iter() {
        let qos = qos.min(*subscribed_qos);
        {
            let outbox = &mut *target.outbox.lock();
            outbox.bytes.push(0x30 | qos << 1);
            put_len(&mut outbox.bytes, topic_end + if qos > 0 { 2 } else { 0 } + payload.len());
            outbox.bytes.extend_from_slice(&body[..topic_end]);
            if qos > 0 {
                outbox.packet_id = outbox.packet_id.checked_add(1).unwrap_or(1);
                outbox.inflight.push(outbox.packet_id);
                outbox.bytes.extend_from_slice(&outbox.packet_id.to_be_bytes());
            }
            outbox.bytes.extend_from_slice(payload);
        }
        target.touch(touched);
    }
    if qos == 1 {
        connection.reply(&[0x40, 2, body[topic_end], body[topic_end + 1]], touched);
    }
}

fn subscribe(router: &Router, connection: &Arc<Connection>, body: &[u8], touched: &mut Touched) {
    let mut rest = &body[2..];
    let mut codes = Vec::new();
    while !rest.is_empty() {
        let (filter, after) = rest[2..].split_at(be16(rest));
        let qos = after[0] & 3;
        router.add(filter, (Arc::clone(connection), qos));
        codes.push(qos);
        rest = &after[1..];
    }
    router.publish_changes();
    let mut suback = vec![0x90];
    put_len(&mut suback, 2 + codes.len());
    suback.extend_from_slice(&body[..2]);
    suback.extend_from_slice(&codes);
    connection.reply(&suback, touched);
}

fn be16(bytes: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([bytes[0], bytes[1]]))
}

fn put_len(out: &mut Vec<u8>, mut len: usize) {
    loop {
        let low = (len % 128) as u8;
        len /= 128;
        if len == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}
