//! Incoming frames.

use crate::close::{CONTROL_BYTES_MAX, Close, CloseCode};
use crate::frame::{HEADER_BYTES_MAX, Opcode, mask_in_place};
use std::ops::Range;

/// Which side of a connection decodes. Clients mask what they send, servers do not (RFC 6455 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads masked frames.
    Server,
    /// Reads unmasked frames.
    Client,
}

/// Which data frames are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// Binary alone; text is refused with 1003. MQTT demands it [MQTT-6.0.0-1].
    BinaryOnly,
    /// Binary and text. Whether text is UTF-8 is for the caller to check.
    Any,
}

/// What the peer did wrong; the connection has to be closed with [`Error::close_code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A bit for an extension is set, and none was agreed (§5.2).
    #[error("a reserved bit is set in the frame's first byte {byte:#04x}, and no extension was agreed")]
    ReservedBits {
        /// The first byte.
        byte: u8,
    },
    /// An opcode that is not defined (§5.2).
    #[error("the frame has the unknown opcode {bits:#x}")]
    UnknownOpcode {
        /// The opcode.
        bits: u8,
    },
    /// A client's frame without a mask (§5.1).
    #[error("the frame is not masked, as every frame of a client must be")]
    NotMasked,
    /// A server's frame with a mask (§5.1).
    #[error("the frame is masked, as no frame of a server may be")]
    Masked,
    /// A control frame in fragments (§5.4).
    #[error("a control frame is fragmented")]
    FragmentedControl,
    /// A control frame with more than 125 bytes (§5.5).
    #[error("a control frame has more than {CONTROL_BYTES_MAX} bytes")]
    ControlTooLong,
    /// A length that has a shorter form, or the highest bit set (§5.2).
    #[error("the length {len} is not in its shortest form, or above 2^63")]
    BadLength {
        /// The length given.
        len: u64,
    },
    /// A frame above the decoder's limit.
    #[error("the frame of {len} bytes is larger than the {limit} allowed")]
    TooLarge {
        /// Length of the payload.
        len: u64,
        /// The limit.
        limit: u64,
    },
    /// A continuation without a message to go on with (§5.4).
    #[error("a continuation frame without a message before it")]
    NoMessage,
    /// A new message while a fragmented one is unfinished (§5.4).
    #[error("a new message begins within a fragmented one")]
    MessageUnfinished,
    /// Text where only binary is accepted.
    #[error("a text frame; only binary frames are accepted here")]
    Text,
    /// A Close frame of one byte, or with a code that must not travel (§7.4).
    #[error("a close frame without a valid code")]
    BadCloseCode {
        /// The code; `None` if there is but one byte of it.
        value: Option<u16>,
    },
    /// The reason of a Close frame is not UTF-8 (§5.5.1).
    #[error("the reason of a close frame is not UTF-8")]
    BadCloseReason,
}

impl Error {
    /// The code to close the connection with.
    pub const fn close_code(self) -> CloseCode {
        match self {
            Self::TooLarge { .. } => CloseCode::TOO_BIG,
            Self::Text => CloseCode::UNSUPPORTED_DATA,
            Self::BadCloseReason => CloseCode::INVALID_PAYLOAD,
            _ => CloseCode::PROTOCOL_ERROR,
        }
    }
}

/// What [`Decoder::next`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// What they were.
    pub event: Event<'a>,
}

/// Something a peer sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A piece of a message's payload.
    Data {
        /// Where it lies in the input, unmasked by now. Empty if a message ends with an empty frame.
        range: Range<usize>,
        /// [`Opcode::Binary`] or [`Opcode::Text`]: that of the message.
        kind: Opcode,
        /// Whether the message ends here.
        last: bool,
    },
    /// Ping, Pong or Close.
    Control(Control<'a>),
    /// The input is used up.
    NeedMore,
}

/// A control frame. Borrows from the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// To be answered by a pong with these bytes.
    Ping(&'a [u8]),
    /// The answer to a ping.
    Pong(&'a [u8]),
    /// The peer closes, and is owed a Close frame if none was sent. `None`: it gave no code. All that follows is
    /// ignored.
    Close(Option<Close<'a>>),
}

/// What [`Decoder::unframe`] left in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unframed {
    /// Bytes of payload, at the start of the buffer. Valid even if the frame after them is not.
    pub payload_len: usize,
    /// Whether all frames were valid.
    pub outcome: Result<(), Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// `header_len` bytes of the next header are known.
    Header,
    /// Within the payload of a frame.
    Payload,
    /// After a Close frame or an error.
    Closed,
}

/// Turns what a socket yields into payload and control frames.
///
/// It consumes everything it is given: an incomplete header, or the payload of an incomplete control frame, is kept
/// inside (at most 139 bytes, of which 125 are allocated by the first control frame with a payload), so that a
/// caller need keep no bytes between reads. Data is never copied: it is unmasked in place.
///
/// After an error the stream cannot be read any further: the caller closes the connection, and what still comes is
/// ignored.
#[derive(Debug)]
pub struct Decoder {
    frame_bytes_max: u64,
    /// Payload bytes of this frame still to come.
    remaining: u64,
    /// Payload bytes of this frame seen.
    offset: u64,
    control: Vec<u8>,
    header: [u8; HEADER_BYTES_MAX],
    header_len: u8,
    state: State,
    role: Role,
    kinds: Kinds,
    opcode: Opcode,
    /// Kind of the message that is not finished yet.
    message: Option<Opcode>,
}

impl Decoder {
    /// A decoder at the start of a connection, right after the handshake. A frame of more than `frame_bytes_max`
    /// bytes is refused from its header alone.
    pub const fn new(role: Role, kinds: Kinds, frame_bytes_max: u64) -> Self {
        Self {
            frame_bytes_max,
            remaining: 0,
            offset: 0,
            control: Vec::new(),
            header: [0; HEADER_BYTES_MAX],
            header_len: 0,
            state: State::Header,
            role,
            kinds,
            opcode: Opcode::Continuation,
            message: None,
        }
    }

    /// Whether nothing is half read: no header, no frame, no message.
    pub const fn is_idle(&self) -> bool {
        matches!(self.state, State::Header) && self.header_len == 0 && self.message.is_none()
    }

    /// Whether the peer's Close frame was seen, or an error: all that follows is ignored.
    pub const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Takes the next event from `buf`. Call it again with what it did not consume, until it says
    /// [`Event::NeedMore`]. A long frame is handed out in as many pieces as it arrives in.
    ///
    /// # Errors
    /// [`Error`] names the rule of RFC 6455 the peer broke.
    pub fn next(&mut self, buf: &mut [u8]) -> Result<Step<'_>, Error> {
        let mut consumed = 0;
        loop {
            match self.state {
                State::Closed => return Ok(Step { consumed: buf.len(), event: Event::NeedMore }),
                State::Header => {
                    match self.read_header(&buf[consumed..]) {
                        Ok(taken) => consumed += taken,
                        Err(error) => {
                            self.state = State::Closed;
                            return Err(error);
                        }
                    }
                    if self.state == State::Header {
                        return Ok(Step { consumed, event: Event::NeedMore });
                    }
                }
                State::Payload if self.opcode.is_control() => {
                    consumed += self.read_control(&buf[consumed..]);
                    let event = if self.remaining > 0 { Event::NeedMore } else { self.finish_control()? };
                    return Ok(Step { consumed, event });
                }
                State::Payload => {
                    let taken =
                        usize::try_from(self.remaining).unwrap_or(usize::MAX).min(buf.len() - consumed);
                    if taken == 0 && self.remaining > 0 {
                        return Ok(Step { consumed, event: Event::NeedMore });
                    }
                    let range = consumed..consumed + taken;
                    let (kind, last) = self.take_data(&mut buf[range.clone()]);
                    if !range.is_empty() || last {
                        let event = Event::Data { range, kind, last };
                        return Ok(Step { consumed: consumed + taken, event });
                    }
                }
            }
        }
    }

    /// Takes all frames out of `buf` at once: moves their payload together at its start, and calls `on_control` for
    /// each control frame, in order. For protocols to which message boundaries mean nothing. The whole of `buf` is
    /// used up. Cost: one move of the payload per frame but the first byte's worth of header.
    pub fn unframe(&mut self, buf: &mut [u8], mut on_control: impl FnMut(Control<'_>)) -> Unframed {
        let mut payload_len = 0;
        let mut at = 0;
        loop {
            let step = match self.next(&mut buf[at..]) {
                Ok(step) => step,
                Err(error) => return Unframed { payload_len, outcome: Err(error) },
            };
            match step.event {
                Event::Data { range, .. } => {
                    buf.copy_within(at + range.start..at + range.end, payload_len);
                    payload_len += range.len();
                }
                Event::Control(control) => on_control(control),
                Event::NeedMore => return Unframed { payload_len, outcome: Ok(()) },
            }
            at += step.consumed;
        }
    }

    /// Takes bytes into the header until it is whole and checked; says how many.
    fn read_header(&mut self, buf: &[u8]) -> Result<usize, Error> {
        for (index, &byte) in buf.iter().enumerate() {
            let at = usize::from(self.header_len);
            self.header[at] = byte;
            self.header_len += 1;
            match at {
                0 => self.check_first_byte(byte)?,
                1 => self.check_second_byte(byte)?,
                _ => {}
            }
            if at > 0 && at + 1 == self.header_size() {
                self.begin_payload()?;
                return Ok(index + 1);
            }
        }
        Ok(buf.len())
    }

    fn check_first_byte(&mut self, byte: u8) -> Result<(), Error> {
        if byte & 0x70 != 0 {
            return Err(Error::ReservedBits { byte });
        }
        let bits = byte & 0x0f;
        self.opcode = Opcode::from_bits(bits).ok_or(Error::UnknownOpcode { bits })?;
        match self.opcode {
            opcode if opcode.is_control() && byte & 0x80 == 0 => Err(Error::FragmentedControl),
            Opcode::Continuation if self.message.is_none() => Err(Error::NoMessage),
            Opcode::Text | Opcode::Binary if self.message.is_some() => Err(Error::MessageUnfinished),
            Opcode::Text if self.kinds == Kinds::BinaryOnly => Err(Error::Text),
            _ => Ok(()),
        }
    }

    fn check_second_byte(&self, byte: u8) -> Result<(), Error> {
        match (self.role, byte & 0x80 != 0) {
            (Role::Server, false) => return Err(Error::NotMasked),
            (Role::Client, true) => return Err(Error::Masked),
            _ => {}
        }
        if self.opcode.is_control() && usize::from(byte & 0x7f) > CONTROL_BYTES_MAX {
            return Err(Error::ControlTooLong);
        }
        Ok(())
    }

    /// Bytes of the header, once its second byte is known.
    fn header_size(&self) -> usize {
        let mask_len = if self.role == Role::Server { 4 } else { 0 };
        let length_len = match self.header[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        2 + length_len + mask_len
    }

    fn begin_payload(&mut self) -> Result<(), Error> {
        let field =
            |len: usize| self.header[2..2 + len].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        let (len, min, max) = match self.header[1] & 0x7f {
            126 => (field(2), 126, 0xffff),
            127 => (field(8), 0x1_0000, u64::MAX >> 1),
            short => (u64::from(short), 0, 125),
        };
        if len < min || len > max {
            return Err(Error::BadLength { len });
        }
        if len > self.frame_bytes_max && !self.opcode.is_control() {
            return Err(Error::TooLarge { len, limit: self.frame_bytes_max });
        }
        self.remaining = len;
        self.offset = 0;
        self.control.clear();
        self.state = State::Payload;
        if matches!(self.opcode, Opcode::Text | Opcode::Binary) {
            self.message = Some(self.opcode);
        }
        Ok(())
    }

    fn mask(&self) -> Option<[u8; 4]> {
        match self.role {
            Role::Client => None,
            Role::Server => self.header[..usize::from(self.header_len)].last_chunk().copied(),
        }
    }

    /// Unmasks a piece of a data frame and counts it; says the message's kind and whether it ends here.
    fn take_data(&mut self, piece: &mut [u8]) -> (Opcode, bool) {
        if let Some(mask) = self.mask() {
            mask_in_place(piece, mask, self.offset);
        }
        self.remaining -= piece.len() as u64;
        self.offset += piece.len() as u64;
        let kind = self.message.unwrap_or(Opcode::Binary);
        let frame_done = self.remaining == 0;
        let last = frame_done && self.header[0] & 0x80 != 0;
        if frame_done {
            self.begin_header();
        }
        if last {
            self.message = None;
        }
        (kind, last)
    }

    /// Keeps a piece of a control frame's payload, unmasked; says how many bytes it was.
    fn read_control(&mut self, buf: &[u8]) -> usize {
        let taken = buf.len().min(self.remaining as usize);
        let start = self.control.len();
        self.control.extend_from_slice(&buf[..taken]);
        if let Some(mask) = self.mask() {
            mask_in_place(&mut self.control[start..], mask, self.offset);
        }
        self.remaining -= taken as u64;
        self.offset += taken as u64;
        taken
    }

    fn finish_control(&mut self) -> Result<Event<'_>, Error> {
        self.begin_header();
        let control = match self.opcode {
            Opcode::Ping => Control::Ping(&self.control),
            Opcode::Pong => Control::Pong(&self.control),
            _ => {
                self.state = State::Closed;
                Control::Close(Close::parse(&self.control)?)
            }
        };
        Ok(Event::Control(control))
    }

    const fn begin_header(&mut self) {
        self.state = State::Header;
        self.header_len = 0;
    }
}

#[cfg(test)]
mod tests;
