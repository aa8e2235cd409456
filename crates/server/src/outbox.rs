//! Outboxes: the bytes waiting for one socket.
//!
//! Any thread may append under the session's lock; one thread at a time writes, without holding it. Small payloads
//! are copied into one run of bytes, large ones stay shared and leave by `writev`.

use bytes::Bytes;
use meridian_types::memory::Held;
use meridian_ws as ws;
use mio::net::TcpStream;
use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice, Write};

/// Slices given to one `writev` at most.
const SLICES_MAX: usize = 64;
/// A buffer larger than this is freed rather than kept for reuse.
const POOLED_BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Bytes of buffers a thread keeps for reuse.
const POOL_BYTES_MAX: usize = 8 * 1024 * 1024;

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { buffers: Vec::new(), bytes: 0 }) };
    static BYTES_SENT: Cell<u64> = const { Cell::new(0) };
}

struct Pool {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

/// Bytes this thread has written to sockets since the last call.
pub(crate) fn take_bytes_sent() -> u64 {
    BYTES_SENT.replace(0)
}

/// Frees half of the buffers this thread keeps for reuse; called while it is idle.
pub(crate) fn shrink_pool() {
    POOL.with_borrow_mut(|pool| {
        for buffer in pool.buffers.drain(..pool.buffers.len().div_ceil(2)) {
            pool.bytes -= buffer.capacity();
        }
        pool.buffers.shrink_to_fit();
    });
}

fn pooled_buffer() -> Vec<u8> {
    POOL.with_borrow_mut(|pool| {
        let buffer = pool.buffers.pop().unwrap_or_else(|| Vec::with_capacity(1024));
        pool.bytes = pool.bytes.saturating_sub(buffer.capacity());
        buffer
    })
}

fn recycle(mut buffer: Vec<u8>) {
    let capacity = buffer.capacity();
    if capacity == 0 || capacity > POOLED_BUFFER_BYTES_MAX {
        return;
    }
    buffer.clear();
    POOL.with_borrow_mut(|pool| {
        if pool.bytes + capacity <= POOL_BYTES_MAX {
            pool.bytes += capacity;
            pool.buffers.push(buffer);
        }
    });
}

/// A run of bytes with shared payloads spliced in.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// Payloads, each with the offset into `bytes` it comes before.
    shared: Vec<(usize, Bytes)>,
    /// Bytes of both.
    len: usize,
}

impl Buffer {
    #[inline]
    fn room(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes = pooled_buffer();
        }
        &mut self.bytes
    }

    /// Appends a copy and returns where it begins.
    #[inline]
    pub(crate) fn append(&mut self, bytes: &[u8]) -> usize {
        let at = self.bytes.len();
        self.room().extend_from_slice(bytes);
        self.len += bytes.len();
        at
    }

    /// Appends what `write` appends to the buffer it is given.
    pub(crate) fn append_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.bytes.len();
        write(self.room());
        self.len += self.bytes.len() - at;
    }

    /// Overwrites two bytes appended before.
    #[inline]
    pub(crate) fn patch_u16(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// Appends a payload by reference.
    pub(crate) fn append_shared(&mut self, payload: Bytes) {
        self.len += payload.len();
        self.shared.push((self.bytes.len(), payload));
    }

    /// All of it as one WebSocket frame, after `control`: frames that were to go before it.
    fn into_frame(self, control: Vec<u8>) -> Self {
        let mut bytes = control;
        bytes.reserve(self.len + 10);
        if self.len > 0 {
            ws::encode_header(&mut bytes, ws::Opcode::Binary, self.len, None);
            let mut at = 0;
            for (offset, payload) in &self.shared {
                bytes.extend_from_slice(&self.bytes[at..*offset]);
                bytes.extend_from_slice(payload);
                at = *offset;
            }
            bytes.extend_from_slice(&self.bytes[at..]);
        }
        recycle(self.bytes);
        Self { len: bytes.len(), bytes, shared: Vec::new() }
    }
}

/// A buffer on its way to a socket, and how much of it has been written.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    buffer: Buffer,
    left: usize,
    bytes_done: usize,
    shared_done: usize,
    shared_part_done: usize,
}

impl From<Buffer> for Outgoing {
    fn from(buffer: Buffer) -> Self {
        Self { left: buffer.len, buffer, ..Self::default() }
    }
}

impl Outgoing {
    /// Bytes not yet written.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Appends a copy.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.buffer.append(bytes);
        self.left += bytes.len();
    }

    /// Writes until all is written (true) or the socket takes no more (false).
    pub(crate) fn write_to(&mut self, socket: &TcpStream) -> io::Result<bool> {
        while self.left > 0 {
            let written = if self.shared_done == self.buffer.shared.len() {
                (&*socket).write(&self.buffer.bytes[self.bytes_done..])
            } else {
                self.write_slices(socket)
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    BYTES_SENT.set(BYTES_SENT.get() + count as u64);
                    self.advance(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn write_slices(&self, socket: &TcpStream) -> io::Result<usize> {
        let Buffer { bytes, shared, .. } = &self.buffer;
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        let (mut at, mut skip) = (self.bytes_done, self.shared_part_done);
        for (offset, payload) in &shared[self.shared_done..] {
            if count + 2 > SLICES_MAX {
                break;
            }
            if at < *offset {
                slices[count] = IoSlice::new(&bytes[at..*offset]);
                count += 1;
                at = *offset;
            }
            slices[count] = IoSlice::new(&payload[skip..]);
            count += 1;
            skip = 0;
        }
        if count + 1 < SLICES_MAX && at < bytes.len() {
            slices[count] = IoSlice::new(&bytes[at..]);
            count += 1;
        }
        (&*socket).write_vectored(&slices[..count])
    }

    fn advance(&mut self, mut count: usize) {
        let Buffer { bytes, shared, .. } = &self.buffer;
        self.left -= count;
        while count > 0 {
            let end = shared.get(self.shared_done).map_or(bytes.len(), |(offset, _)| *offset);
            let text = (end - self.bytes_done).min(count);
            self.bytes_done += text;
            count -= text;
            if count == 0 {
                break;
            }
            let payload = &shared[self.shared_done].1;
            let part = (payload.len() - self.shared_part_done).min(count);
            self.shared_part_done += part;
            count -= part;
            if self.shared_part_done == payload.len() {
                self.shared_done += 1;
                self.shared_part_done = 0;
            }
        }
    }
}

/// How bytes are put on the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// As they are.
    Plain,
    /// In WebSocket binary messages.
    WebSocket,
}

/// The output side of one connection, guarded by its session's lock.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    filling: Buffer,
    rare: Option<Box<Rare>>,
    writing_len: usize,
    is_writing: bool,
    is_blocked: bool,
    was_writable: bool,
    /// Counts the copied bytes that no write has emptied yet; shared payloads count by themselves.
    held: Held,
}

/// What most connections have nothing of at most times.
#[derive(Debug, Default)]
struct Rare {
    /// What a full socket left over; it goes first.
    leftover: Option<Outgoing>,
    /// WebSocket control frames, to go between messages.
    control: Vec<u8>,
}

impl Outbox {
    /// Bytes waiting, those being written included.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.filling.len + self.writing_len + self.control_len()
    }

    #[inline]
    fn control_len(&self) -> usize {
        self.rare.as_ref().map_or(0, |rare| rare.control.len())
    }

    /// Whether the socket took no more at the last write.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Whether what is appended now could be written at once.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_writing && !self.is_blocked
    }

    /// Whether some thread is writing now.
    pub(crate) fn is_writing(&self) -> bool {
        self.is_writing
    }

    /// Where to append.
    #[inline]
    pub(crate) fn filling(&mut self) -> &mut Buffer {
        &mut self.filling
    }

    /// Appends a WebSocket control frame.
    pub(crate) fn append_control(&mut self, frame: &[u8]) {
        self.rare.get_or_insert_default().control.extend_from_slice(frame);
    }

    /// Takes what is to be written next; `None` if there is nothing, or if another thread or the socket is busy.
    /// Until [`Outbox::finish`] nobody else gets anything.
    pub(crate) fn begin(&mut self, framing: Framing) -> Option<Outgoing> {
        if self.is_writing || self.is_blocked {
            self.count_held();
            return None;
        }
        let outgoing = match self.take_leftover() {
            Some(leftover) => leftover,
            None if self.filling.len == 0 && self.control_len() == 0 => return None,
            None => self.take_filled(framing).into(),
        };
        self.is_writing = true;
        self.was_writable = false;
        self.writing_len = outgoing.left();
        Some(outgoing)
    }

    fn take_leftover(&mut self) -> Option<Outgoing> {
        let rare = self.rare.as_mut()?;
        let leftover = rare.leftover.take();
        if rare.control.is_empty() {
            self.rare = None;
        }
        leftover
    }

    fn take_filled(&mut self, framing: Framing) -> Buffer {
        let filled = std::mem::take(&mut self.filling);
        match framing {
            Framing::Plain => filled,
            Framing::WebSocket => {
                let rare = self.rare.take();
                filled.into_frame(rare.map_or_else(Vec::new, |rare| rare.control))
            }
        }
    }

    /// Gives back what [`Outbox::begin`] gave, after the write. Returns whether to begin again at once.
    pub(crate) fn finish(&mut self, outgoing: Outgoing) -> bool {
        self.is_writing = false;
        self.writing_len = outgoing.left();
        if outgoing.left() == 0 {
            recycle(outgoing.buffer.bytes);
            if self.held.bytes() > 0 {
                self.count_held();
            }
            return self.filling.len > 0 || self.control_len() > 0;
        }
        self.rare.get_or_insert_default().leftover = Some(outgoing);
        self.count_held();
        // The socket may have become writable between the write and this lock: then nobody will say so again.
        self.is_blocked = !self.was_writable;
        self.was_writable
    }

    /// Called where bytes stay behind, not for each message: what one turn appends and writes is never counted.
    fn count_held(&mut self) {
        let rare = self.rare.as_ref().map_or(0, |rare| {
            rare.control.len() + rare.leftover.as_ref().map_or(0, |leftover| leftover.buffer.bytes.len())
        });
        self.held.set(self.filling.bytes.len() + rare);
    }

    /// The socket is writable again.
    pub(crate) fn unblock(&mut self) {
        self.is_blocked = false;
        self.was_writable = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn pair() -> (TcpStream, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        (TcpStream::from_std(server), client)
    }

    #[test]
    fn copied_and_shared_parts_arrive_in_order_however_little_the_socket_takes() {
        let (socket, mut client) = pair();
        let mut buffer = Buffer::default();
        let mut expected = Vec::new();
        for number in 0..3000_u32 {
            let head = number.to_be_bytes();
            let payload = vec![number as u8; number as usize % 3000];
            buffer.append(&head);
            expected.extend_from_slice(&head);
            expected.extend_from_slice(&payload);
            buffer.append_shared(payload.into());
        }
        let mut outgoing = Outgoing::from(buffer);
        assert_eq!(outgoing.left(), expected.len());
        let mut received = vec![0; expected.len()];
        let mut have = 0;
        while !outgoing.write_to(&socket).unwrap() {
            let part = (have + 77_777).min(expected.len());
            client.read_exact(&mut received[have..part]).unwrap();
            have = part;
        }
        client.read_exact(&mut received[have..]).unwrap();
        assert!(received == expected);
    }

    #[test]
    fn a_socket_that_becomes_writable_during_the_write_is_not_forgotten() {
        let mut outbox = Outbox::default();
        outbox.filling().append(b"abc");
        let outgoing = outbox.begin(Framing::Plain).unwrap();
        outbox.unblock();
        assert!(outbox.finish(outgoing), "must try again: no further event will come");
        let outgoing = outbox.begin(Framing::Plain).unwrap();
        assert!(!outbox.finish(outgoing) && outbox.is_blocked());
    }

    #[test]
    fn a_websocket_outbox_sends_control_frames_before_one_binary_message() {
        let mut outbox = Outbox::default();
        outbox.filling().append(b"ab");
        outbox.filling().append_shared(Bytes::from_static(b"cd"));
        outbox.append_control(&[0x8a, 0]);
        let outgoing = outbox.begin(Framing::WebSocket).unwrap();
        assert_eq!(outgoing.buffer.bytes, [0x8a, 0, 0x82, 4, b'a', b'b', b'c', b'd']);
    }
}
