//! Outgoing frames: headers, masks, control frames.

use crate::close::{CONTROL_BYTES_MAX, CloseCode};

/// The longest header: 2 bytes, 8 of length, 4 of mask.
pub const HEADER_BYTES_MAX: usize = 14;

/// What a frame is (RFC 6455 §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// Goes on with a fragmented message.
    Continuation = 0x0,
    /// UTF-8 text.
    Text = 0x1,
    /// Any bytes.
    Binary = 0x2,
    /// The last frame in its direction.
    Close = 0x8,
    /// To be answered by a pong with the same payload.
    Ping = 0x9,
    /// The answer to a ping, or unasked.
    Pong = 0xA,
}

impl Opcode {
    /// The opcode for the low four bits of a frame's first byte; `None` if the value is reserved.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0x0 => Some(Self::Continuation),
            0x1 => Some(Self::Text),
            0x2 => Some(Self::Binary),
            0x8 => Some(Self::Close),
            0x9 => Some(Self::Ping),
            0xA => Some(Self::Pong),
            _ => None,
        }
    }

    /// Whether it is Close, Ping or Pong.
    pub const fn is_control(self) -> bool {
        self as u8 >= 0x8
    }
}

/// The header of an unfragmented frame, ready to be written before the payload.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    bytes: [u8; HEADER_BYTES_MAX],
    len: u8,
}

impl Header {
    /// The header of a frame of `payload_len` bytes. A server passes no mask; a client passes one that its peer
    /// cannot foretell and applies it to the payload with [`mask_in_place`] (RFC 6455 §5.3). Allocates nothing.
    pub fn new(opcode: Opcode, payload_len: usize, mask: Option<[u8; 4]>) -> Self {
        let mut bytes = [0; HEADER_BYTES_MAX];
        bytes[0] = 0x80 | opcode as u8;
        let mut len = 2;
        match payload_len {
            0..=125 => bytes[1] = payload_len as u8,
            126..=0xffff => {
                bytes[1] = 126;
                bytes[2..4].copy_from_slice(&(payload_len as u16).to_be_bytes());
                len = 4;
            }
            _ => {
                bytes[1] = 127;
                bytes[2..10].copy_from_slice(&(payload_len as u64).to_be_bytes());
                len = 10;
            }
        }
        if let Some(mask) = mask {
            bytes[1] |= 0x80;
            bytes[len..len + 4].copy_from_slice(&mask);
            len += 4;
        }
        Self { bytes, len: len as u8 }
    }

    /// Its bytes: 2, 4 or 10, and 4 more if masked.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Appends the header of a frame of `payload_len` bytes; see [`Header::new`].
pub fn encode_header(out: &mut Vec<u8>, opcode: Opcode, payload_len: usize, mask: Option<[u8; 4]>) {
    out.extend_from_slice(Header::new(opcode, payload_len, mask).as_bytes());
}

/// Appends a whole frame, masked if there is a mask. One copy of the payload.
pub fn encode_frame(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], mask: Option<[u8; 4]>) {
    encode_header(out, opcode, payload.len(), mask);
    let start = out.len();
    out.extend_from_slice(payload);
    if let Some(mask) = mask {
        mask_in_place(&mut out[start..], mask, 0);
    }
}

/// Appends a Close frame. A reason that does not fit into a control frame is cut at a character.
pub fn encode_close(out: &mut Vec<u8>, code: CloseCode, reason: &str, mask: Option<[u8; 4]>) {
    let mut payload = [0; CONTROL_BYTES_MAX];
    let mut cut = reason.len().min(CONTROL_BYTES_MAX - 2);
    while !reason.is_char_boundary(cut) {
        cut -= 1;
    }
    let reason = &reason[..cut];
    payload[..2].copy_from_slice(&code.get().to_be_bytes());
    payload[2..2 + reason.len()].copy_from_slice(reason.as_bytes());
    encode_frame(out, Opcode::Close, &payload[..2 + reason.len()], mask);
}

/// Masks or unmasks `bytes`, whose first byte is number `offset` of its frame's payload (RFC 6455 §5.3).
pub fn mask_in_place(bytes: &mut [u8], mask: [u8; 4], offset: u64) {
    let mut rotated = mask;
    rotated.rotate_left((offset % 4) as usize);
    // Blocks of 16 compile to one vector operation each.
    let block: [u8; 16] = std::array::from_fn(|index| rotated[index % 4]);
    let mut chunks = bytes.chunks_exact_mut(16);
    for chunk in &mut chunks {
        for (byte, key) in chunk.iter_mut().zip(block) {
            *byte ^= key;
        }
    }
    for (byte, key) in chunks.into_remainder().iter_mut().zip(block) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_encoded_as_the_examples_of_the_rfc_say() {
        let mut out = Vec::new();
        encode_frame(&mut out, Opcode::Text, b"Hello", None);
        assert_eq!(out, b"\x81\x05Hello");
        out.clear();
        encode_frame(&mut out, Opcode::Text, b"Hello", Some([0x37, 0xfa, 0x21, 0x3d]));
        assert_eq!(out, b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
        assert_eq!(Header::new(Opcode::Binary, 256, None).as_bytes(), b"\x82\x7e\x01\x00");
        assert_eq!(
            Header::new(Opcode::Binary, 65_536, None).as_bytes(),
            b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"
        );
    }

    #[test]
    fn lengths_take_the_shortest_form() {
        for (payload_len, header_len) in [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            assert_eq!(Header::new(Opcode::Binary, payload_len, None).as_bytes().len(), header_len);
            assert_eq!(
                Header::new(Opcode::Binary, payload_len, Some([0; 4])).as_bytes().len(),
                header_len + 4
            );
        }
    }

    #[test]
    fn masking_in_pieces_equals_masking_at_once() {
        let payload: Vec<u8> = (0..100).collect();
        let mask = [1, 2, 3, 4];
        for split in 0..payload.len() {
            let mut pieces = payload.clone();
            let (head, tail) = pieces.split_at_mut(split);
            mask_in_place(head, mask, 0);
            mask_in_place(tail, mask, split as u64);
            let expected: Vec<u8> =
                payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]).collect();
            assert_eq!(pieces, expected, "split at {split}");
        }
    }

    #[test]
    fn close_reasons_are_cut_at_a_character() {
        let mut out = Vec::new();
        encode_close(&mut out, CloseCode::NORMAL, &"ä".repeat(100), None);
        assert_eq!(out.len(), 2 + 2 + 122);
        assert_eq!(std::str::from_utf8(&out[4..]).unwrap(), "ä".repeat(61));
    }
}
