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

    /// Whether it is empty: never, since a packet has at least its fixed header.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Whether the remaining length takes no more bytes than it needs. In 5.0 a packet where it does is malformed
    /// [MQTT-1.5.5-1]; 3.1.1 does not forbid it, and there are devices that always send it in the same number of bytes.
    #[inline]
    pub const fn is_length_minimal(&self) -> bool {
        self.header_len == 2 || self.body_len >> (7 * (self.header_len - 2)) > 0
    }

    /// Looks for a packet at the start of `buf`; a packet above `limit` bytes is refused from its header alone, before
    /// its body is there. It allocates nothing and looks at five bytes at most.
    ///
    /// ```text
    /// byte 0         1 to 4 bytes                          body_len bytes
    /// type | flags   remaining length, 7 bits each, the    variable header and payload
    ///                lowest first; top bit: one more follows
    /// ```
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
                return frame.check(buf.len(), limit);
            }
        }
        Err(FrameError::BadLength)
    }

    #[inline]
    const fn check(self, available: usize, limit: usize) -> Result<Peek, FrameError> {
        if self.len() > limit {
            Err(FrameError::TooLarge { size: self.len(), limit })
        } else if available < self.len() {
            Ok(Peek::Needs(self.len()))
        } else {
            Ok(Peek::Whole(self))
        }
    }
}
