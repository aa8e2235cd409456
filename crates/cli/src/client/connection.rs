//! One connection: bytes in, packets out, keep alive in between.

use super::error::{BEFORE_CONNACK, Error, HTTP_ANSWER, IN_HANDSHAKE};
use super::options::Session;
use super::random::Random;
use super::{Address, Signals};
use meridian_mqtt::encode::{PublishHead, encode, encode_publish_head};
use meridian_mqtt::frame::Peek;
use meridian_mqtt::packet::{Disconnect, packet_name};
use meridian_mqtt::{Frame, Packet, ReasonCode, Version, decode};
use meridian_types::limits::MQTT_PACKET_BYTES_MAX;
use meridian_ws::handshake::ClientHandshake;
use meridian_ws::{
    CloseCode, Control, Decoder, Kinds, Opcode, Role, encode_close, encode_frame, encode_header,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

/// Bytes taken from the socket at a time.
const READ_BYTES: usize = 64 * 1024;
/// Bytes that are gathered before they are written without being asked to.
const WRITE_BYTES: usize = 64 * 1024;
/// How long a goodbye may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What to wait for besides the socket.
#[derive(Default)]
pub(crate) struct Wait<'a> {
    /// No longer than until then.
    pub(crate) until: Option<Instant>,
    /// Something to read from.
    pub(crate) input: Option<BorrowedFd<'a>>,
    /// Interrupts.
    pub(crate) signals: Option<&'a Signals>,
}

/// What came of waiting: nothing at all if the time was up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    /// The socket can be read.
    pub(crate) socket: bool,
    /// The other input can be read, or has ended.
    pub(crate) input: bool,
    /// The process was interrupted.
    pub(crate) interrupted: bool,
}

/// A connection whose CONNECT was accepted.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    framing: Option<Framing>,
    /// MQTT bytes received; those before `taken` were handed out.
    input: Vec<u8>,
    taken: usize,
    /// MQTT bytes to send.
    output: Vec<u8>,
    version: Version,
    limits: Limits,
    keep_alive: Duration,
    last_write: Instant,
    ping_sent: Option<Instant>,
    debug: bool,
}

/// What the server's CONNACK said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Unacknowledged messages it takes.
    pub(crate) receive_maximum: u16,
    /// Largest packet it takes.
    pub(crate) packet_bytes_max: usize,
    /// Whether it had a session.
    pub(crate) session_present: bool,
}

/// MQTT within WebSocket.
#[derive(Debug)]
struct Framing {
    decoder: Decoder,
    random: Random,
    /// The server's Close frame, once it came.
    closed: Option<String>,
}

impl Framing {
    fn mask(&mut self) -> [u8; 4] {
        (self.random.next() as u32).to_be_bytes()
    }
}

impl Connection {
    /// Connects and waits until the server accepts.
    pub(crate) fn open(session: &Session) -> Result<Self, Error> {
        let timeout = Duration::from_secs(session.options().connect_timeout.into());
        let connect = session.connect();
        let mut connection = Self {
            stream: connect_tcp(&session.address, timeout)?,
            framing: None,
            input: Vec::new(),
            taken: 0,
            output: Vec::new(),
            version: connect.version,
            limits: Limits {
                receive_maximum: u16::MAX,
                packet_bytes_max: MQTT_PACKET_BYTES_MAX,
                session_present: false,
            },
            keep_alive: Duration::ZERO,
            last_write: Instant::now(),
            ping_sent: None,
            debug: session.options().debug,
        };
        let deadline = Instant::now() + timeout;
        if session.is_websocket() {
            connection.open_websocket(&session.address, deadline, timeout)?;
        }
        connection.keep_alive = Duration::from_secs(connect.keep_alive_secs.into());
        connection.send(&Packet::Connect(Box::new(connect)))?;
        connection.flush()?;
        connection.read_connack(deadline, timeout)?;
        Ok(connection)
    }

    /// What the server's CONNACK said.
    pub(crate) const fn limits(&self) -> Limits {
        self.limits
    }

    /// The version spoken.
    pub(crate) const fn version(&self) -> Version {
        self.version
    }

    /// Waits until there is something to do. Sends pings meanwhile.
    pub(crate) fn wait(&mut self, wait: &Wait<'_>) -> Result<Ready, Error> {
        loop {
            self.check_keep_alive()?;
            let ping_at = (!self.keep_alive.is_zero()).then(|| match self.ping_sent {
                Some(sent) => sent + self.keep_alive,
                None => self.last_write + self.keep_alive,
            });
            let until = [wait.until, ping_at].into_iter().flatten().min();
            let ready = poll_all(&self.stream, wait, until)?;
            if ready != Ready::default() || wait.until.is_some_and(|until| Instant::now() >= until) {
                return Ok(ready);
            }
        }
    }

    /// Reads once from a socket that is ready. [`Connection::next`] then gives the packets.
    pub(crate) fn read(&mut self, when: &'static str) -> Result<(), Error> {
        self.input.drain(..self.taken);
        self.taken = 0;
        if let Some(reason) = self.framing.as_ref().and_then(|framing| framing.closed.clone()) {
            return Err(Error::Malformed(reason));
        }
        let start = self.input.len();
        self.input.resize(start + READ_BYTES, 0);
        let read = loop {
            match self.stream.read(&mut self.input[start..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.input.truncate(start + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(Error::Closed { when }),
            Ok(_) => self.unframe(start),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(Error::Closed { when }),
            Err(error) => Err(error.into()),
        }
    }

    /// The next packet that was read, if it is whole. Answers to pings are not handed out; a DISCONNECT is an error.
    pub(crate) fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        loop {
            let rest = &self.input[self.taken..];
            let Peek::Whole(frame) = Frame::peek(rest, MQTT_PACKET_BYTES_MAX)? else { return Ok(None) };
            self.taken += frame.len();
            if self.debug {
                eprintln!("<< {} ({} bytes)", packet_name(frame.first_byte), frame.len());
            }
            let body = &rest[frame.header_len..frame.len()];
            match decode::decode(self.version, frame.first_byte, body)? {
                Packet::Pingresp => self.ping_sent = None,
                Packet::Disconnect(disconnect) => {
                    let words = disconnect.reason_string.map(str::to_owned);
                    return Err(Error::Disconnected { reason: disconnect.reason, words });
                }
                packet => return Ok(Some(packet)),
            }
        }
    }

    /// Queues a packet; [`Connection::flush`] writes it.
    pub(crate) fn send(&mut self, packet: &Packet<'_>) -> Result<(), Error> {
        let start = self.output.len();
        encode(packet, self.version, &mut self.output);
        self.after_encoding(start)
    }

    /// Queues a PUBLISH; [`Connection::flush`] writes it.
    pub(crate) fn publish(&mut self, head: &PublishHead<'_>, payload: &[u8]) -> Result<(), Error> {
        let start = self.output.len();
        encode_publish_head(head, payload.len(), self.version, &mut self.output);
        self.output.extend_from_slice(payload);
        self.after_encoding(start)
    }

    /// Writes what was queued.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        if self.output.is_empty() {
            return Ok(());
        }
        let mut header = Vec::new();
        if let Some(framing) = &mut self.framing {
            let mask = framing.mask();
            encode_header(&mut header, Opcode::Binary, self.output.len(), Some(mask));
            meridian_ws::mask_in_place(&mut self.output, mask, 0);
        }
        let written = self.stream.write_all(&header).and_then(|()| self.stream.write_all(&self.output));
        self.output.clear();
        self.last_write = Instant::now();
        written.map_err(|error| self.explain(error))
    }

    /// Why the server does not read any more: it may have said so before it closed.
    fn explain(&mut self, error: io::Error) -> Error {
        if !matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
            return error.into();
        }
        loop {
            match self.read("while it was written to") {
                Err(error) => return error,
                Ok(()) => {
                    while let Some(packet) = self.next().transpose() {
                        if let Err(error) = packet {
                            return error;
                        }
                    }
                }
            }
        }
    }

    /// Says goodbye and waits a moment for the server to close, so that nothing sent is lost. Failures do not matter
    /// any more.
    pub(crate) fn close(mut self) {
        let disconnect =
            Packet::Disconnect(Disconnect { reason: ReasonCode::Success, ..Disconnect::default() });
        if self.send(&disconnect).and_then(|()| self.flush()).is_err() {
            return;
        }
        if let Some(framing) = &mut self.framing {
            let mut frame = Vec::new();
            let mask = framing.mask();
            encode_close(&mut frame, CloseCode::NORMAL, "", Some(mask));
            let _ = self.stream.write_all(&frame);
        }
        let _ = self.stream.shutdown(Shutdown::Write);
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        let mut sink = [0; 4096];
        while let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        {
            let is_open = self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(&mut sink));
            if !is_open.is_ok_and(|read| read > 0) {
                return;
            }
        }
    }

    fn after_encoding(&mut self, start: usize) -> Result<(), Error> {
        if self.debug {
            eprintln!(">> {} ({} bytes)", packet_name(self.output[start]), self.output.len() - start);
        }
        if self.output.len() < WRITE_BYTES { Ok(()) } else { self.flush() }
    }

    fn check_keep_alive(&mut self) -> Result<(), Error> {
        if self.keep_alive.is_zero() {
            return Ok(());
        }
        match self.ping_sent {
            Some(sent) if sent.elapsed() >= self.keep_alive => {
                Err(Error::Silent { secs: self.keep_alive.as_secs(), when: "to a ping" })
            }
            None if self.last_write.elapsed() >= self.keep_alive => {
                self.ping_sent = Some(Instant::now());
                self.send(&Packet::Pingreq)?;
                self.flush()
            }
            _ => Ok(()),
        }
    }

    fn open_websocket(
        &mut self,
        address: &Address,
        deadline: Instant,
        timeout: Duration,
    ) -> Result<(), Error> {
        let mut random = Random::default();
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&random.next().to_be_bytes());
        nonce[8..].copy_from_slice(&random.next().to_be_bytes());
        let handshake = ClientHandshake::new(nonce, "mqtt");
        let mut request = Vec::new();
        handshake.write_request(&address.authority(), &address.path, &mut request);
        self.stream.write_all(&request)?;
        loop {
            self.wait_for_answer(deadline, timeout, "to the WebSocket handshake")?;
            self.read(IN_HANDSHAKE)?;
            let agreed = handshake
                .check(&self.input)
                .map_err(|source| Error::WebSocket { url: address.to_string(), source })?;
            if let Some(agreed) = agreed {
                self.input.drain(..agreed.consumed);
                let decoder = Decoder::new(Role::Client, Kinds::BinaryOnly, MQTT_PACKET_BYTES_MAX as u64);
                self.framing = Some(Framing { decoder, random, closed: None });
                return self.unframe(0);
            }
        }
    }

    fn wait_for_answer(
        &mut self,
        until: Instant,
        timeout: Duration,
        when: &'static str,
    ) -> Result<(), Error> {
        let ready = self.wait(&Wait { until: Some(until), ..Wait::default() })?;
        if ready.socket { Ok(()) } else { Err(Error::Silent { secs: timeout.as_secs(), when }) }
    }

    fn read_connack(&mut self, deadline: Instant, timeout: Duration) -> Result<(), Error> {
        loop {
            self.wait_for_answer(deadline, timeout, "to CONNECT")?;
            self.read(BEFORE_CONNACK)?;
            if self.input.starts_with(b"HTTP/") {
                return Err(Error::Malformed(HTTP_ANSWER.to_owned()));
            }
            let (limits, keep_alive_secs) = match self.next()? {
                None => continue,
                Some(Packet::Connack(connack)) if connack.reason.is_error() => {
                    let words = connack.reason_string.map(str::to_owned);
                    return Err(Error::Refused { reason: connack.reason, words });
                }
                Some(Packet::Connack(connack)) => {
                    let limits = Limits {
                        receive_maximum: connack.receive_maximum.unwrap_or(u16::MAX),
                        packet_bytes_max: connack
                            .packet_bytes_max
                            .map_or(MQTT_PACKET_BYTES_MAX, |bytes| bytes as usize),
                        session_present: connack.session_present,
                    };
                    (limits, connack.server_keep_alive_secs)
                }
                Some(_) => return Err(Error::Malformed("its first packet is not CONNACK".to_owned())),
            };
            self.limits = limits;
            if let Some(secs) = keep_alive_secs {
                self.keep_alive = Duration::from_secs(secs.into());
            }
            return Ok(());
        }
    }

    /// Takes the frames off what was read from `start` on.
    fn unframe(&mut self, start: usize) -> Result<(), Error> {
        let Some(framing) = &mut self.framing else { return Ok(()) };
        let mut pongs = Vec::new();
        let Framing { decoder, random, closed } = framing;
        let unframed = decoder.unframe(&mut self.input[start..], |control| match control {
            Control::Ping(payload) => {
                let mask = (random.next() as u32).to_be_bytes();
                encode_frame(&mut pongs, Opcode::Pong, payload, Some(mask));
            }
            Control::Pong(_) => {}
            Control::Close(close) => {
                *closed = Some(close.map_or_else(
                    || "it closed the WebSocket".to_owned(),
                    |close| format!("it closed the WebSocket with {} {}", close.code, close.reason),
                ));
            }
        });
        self.input.truncate(start + unframed.payload_len);
        self.stream.write_all(&pongs)?;
        Ok(unframed.outcome?)
    }
}

fn connect_tcp(address: &Address, timeout: Duration) -> Result<TcpStream, Error> {
    let host = address.host.as_str();
    let resolved = (host, address.port).to_socket_addrs();
    let resolved = resolved.map_err(|source| Error::Resolve { host: host.to_owned(), source })?;
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for socket_address in resolved {
        match TcpStream::connect_timeout(&socket_address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(Error::Connect { url: address.to_string(), source: last })
}

fn poll_all(stream: &TcpStream, wait: &Wait<'_>, until: Option<Instant>) -> Result<Ready, Error> {
    let mut fds = vec![PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
    fds.extend(wait.signals.map(|signals| PollFd::new(signals.as_fd(), PollFlags::POLLIN)));
    fds.extend(wait.input.map(|input| PollFd::new(input, PollFlags::POLLIN)));
    let timeout = until.map_or(PollTimeout::NONE, |until| {
        // Rounded up, so that a wait of half a millisecond does not become a busy loop.
        let millis = until.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
        PollTimeout::try_from(i32::try_from(millis).unwrap_or(i32::MAX)).unwrap_or(PollTimeout::MAX)
    });
    match poll(&mut fds, timeout) {
        Ok(_) => {}
        Err(nix::errno::Errno::EINTR) => return Ok(Ready::default()),
        Err(error) => return Err(io::Error::from(error).into()),
    }
    let mut ready = fds.iter().map(|fd| fd.any().unwrap_or(false));
    let socket = ready.next().unwrap_or(false);
    let interrupted = wait.signals.is_some() && ready.next().unwrap_or(false);
    let input = wait.input.is_some() && ready.next().unwrap_or(false);
    Ok(Ready { socket, input, interrupted })
}
