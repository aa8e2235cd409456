//! Finding packets in a stream of bytes (MQTT 5.0 §2.1).

/// One whole packet within a buffer: its first byte and where its body lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Packet type and flags.
    pub first_byte: u8,
    /// Length of the fixed header, 2 to 5.
    pub header_len: usize,
    /// Length of what follows it.
    pub body_len: usize,
}

/// Why a stream cannot be cut into packets; the connection has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The length takes more than four bytes [MQTT-1.5.5-1].
    #[error("the remaining length takes more than 4 bytes")]
    BadLength,
    /// The whole packet is larger than allowed.
    #[error("the packet of {size} bytes is larger than the {limit} allowed")]
    TooLarge {
        /// Size of the packet, header included.
        size: usize,
        /// The limit.
        limit: usize,
    },
}

/// What a look at the start of a buffer found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek {
    /// A whole packet is there.
    Whole(Frame),
    /// This many bytes are needed in all, as far as is known: at least one more than there are.
    Needs(usize),
}

impl Frame {
    /// Its length, header included.
    #[inline]
    pub const fn len(&self) -> usize {
        self.header_len + self.body_len
    }

    /// Looks for a packet at the start of `buf`; a packet above `limit` bytes is refused from its header alone.
    ///
    /// # Errors
    /// [`FrameError`] if the length is malformed or above `limit`.
    #[inline]
    pub fn peek(buf: &[u8], limit: usize) -> Result<Peek, FrameError> {
        let mut body_len = 0;
        for index in 0..4 {
            let Some(&byte) = buf.get(1 + index) else {
                return Ok(Peek::Needs(buf.len().max(1) + 1));
            };
            body_len |= usize::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                let frame = Self { first_byte: buf[0], header_len: 2 + index, body_len };
                if frame.len() > limit {
                    return Err(FrameError::TooLarge { size: frame.len(), limit });
                }
                return Ok(if buf.len() < frame.len() {
                    Peek::Needs(frame.len())
                } else {
                    Peek::Whole(frame)
                });
            }
        }
        Err(FrameError::BadLength)
    }
}
