//! A cursor over the body of one packet. Error texts name the field only; callers add the packet.

use super::{DecodeError, Result};
use crate::ReasonCode;
use meridian_types::TopicName;
use meridian_types::limits::TOPIC_LEVELS_MAX;

/// What is left of a packet's body, or of its properties.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(super) const fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that is left.
    #[inline]
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes `len` bytes.
    #[inline]
    pub(super) fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            return Err(ends_within(what, len - self.rest.len()));
        };
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(ends_within(what, N - self.rest.len()));
        };
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    pub(super) fn byte(&mut self, what: &'static str) -> Result<u8> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    #[inline]
    pub(super) fn u16(&mut self, what: &'static str) -> Result<u16> {
        self.array(what).map(u16::from_be_bytes)
    }

    #[inline]
    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32> {
        self.array(what).map(u32::from_be_bytes)
    }

    /// A variable byte integer of at most four bytes, and no more than it needs [MQTT-1.5.5-1].
    #[inline]
    pub(super) fn varint(&mut self, what: &'static str) -> Result<u32> {
        let mut value = 0;
        for index in 0..4 {
            let byte = self.byte(what)?;
            value |= u32::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                if byte == 0 && index > 0 {
                    return Err(DecodeError::malformed(format!(
                        "the {what} uses more bytes than it needs: {value} in {} bytes",
                        index + 1
                    )));
                }
                return Ok(value);
            }
        }
        Err(DecodeError::malformed(format!("the {what} takes more than 4 bytes")))
    }

    /// Binary data with its length in two bytes (§1.5.6).
    #[inline]
    pub(super) fn binary(&mut self, what: &'static str) -> Result<&'a [u8]> {
        let len = self.u16(what)?;
        self.take(usize::from(len), what)
    }

    /// A UTF-8 string with its length in two bytes, well formed and without U+0000 [MQTT-1.5.4-1], [MQTT-1.5.4-2].
    /// Control characters and non-characters, which a receiver may refuse, are taken.
    pub(super) fn text(&mut self, what: &'static str) -> Result<&'a str> {
        let bytes = self.binary(what)?;
        let text = utf8(bytes, what)?;
        if bytes.contains(&0) {
            return Err(null_character(bytes, what));
        }
        Ok(text)
    }

    /// A string that must be empty or a valid topic name. Most names are found valid eight bytes at a time; what is
    /// not, [`TopicName::new`] decides.
    #[inline]
    pub(super) fn topic(&mut self, what: &'static str) -> Result<&'a str> {
        let bytes = self.binary(what)?;
        let text = utf8(bytes, what)?;
        if is_plainly_a_topic_name(bytes) || bytes.is_empty() {
            return Ok(text);
        }
        check_topic(text, what)
    }

    /// A valid topic name, so not empty.
    pub(super) fn topic_name(&mut self, what: &'static str) -> Result<&'a str> {
        let text = self.topic(what)?;
        if text.is_empty() { check_topic(text, what) } else { Ok(text) }
    }

    /// A packet identifier, which is never 0 [MQTT-2.2.1-3].
    #[inline]
    pub(super) fn packet_id(&mut self) -> Result<u16> {
        match self.u16("packet identifier")? {
            0 => Err(DecodeError::protocol("the packet identifier is 0")),
            packet_id => Ok(packet_id),
        }
    }

    /// A reason code out of those the packet may carry.
    pub(super) fn reason(&mut self, allowed: &[ReasonCode]) -> Result<ReasonCode> {
        let byte = self.byte("reason code")?;
        match ReasonCode::from_byte(byte) {
            Some(reason) if allowed.contains(&reason) => Ok(reason),
            Some(reason) => Err(DecodeError::protocol(format!(
                "reason code 0x{byte:02X} ({}) does not belong to this packet",
                reason.name()
            ))),
            None => Err(DecodeError::protocol(format!("reason code 0x{byte:02X} is not defined"))),
        }
    }

    /// Checks that nothing is left over.
    #[inline]
    pub(super) fn finish(&self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(DecodeError::malformed(format!("{} bytes follow after its end", self.rest.len())))
    }
}

#[inline]
fn utf8<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|error| {
        DecodeError::malformed(format!(
            "the {what} is not valid UTF-8 from its byte {} on",
            error.valid_up_to()
        ))
    })
}

/// Whether non-empty UTF-8 is certainly a topic name: no null character, no wildcard, and too short to have too many
/// levels. Longer names may be valid as well.
#[inline]
fn is_plainly_a_topic_name(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk::<8>() else {
        return !bytes.is_empty() && !bytes.iter().any(|byte| matches!(byte, 0 | b'+' | b'#'));
    };
    let mut forbidden = forbidden_bytes(u64::from_ne_bytes(*last));
    let (chunks, _) = bytes.as_chunks::<8>();
    for chunk in chunks {
        forbidden |= forbidden_bytes(u64::from_ne_bytes(*chunk));
    }
    forbidden == 0 && bytes.len() < TOPIC_LEVELS_MAX
}

/// Not 0 if any of the eight bytes is U+0000, `+` or `#`. The wildcards differ in one bit, 0x08. A byte `b` is 0 if
/// subtracting 1 sets its top bit, which was not set before; the lowest one found is exact, which is all that is asked.
#[inline]
const fn forbidden_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    let wildcards = (word & !(ONES * 0x08)) ^ (ONES * 0x23);
    (word.wrapping_sub(ONES) & !word | wildcards.wrapping_sub(ONES) & !wildcards) & TOPS
}

#[cold]
#[inline(never)]
fn check_topic<'a>(text: &'a str, what: &'static str) -> Result<&'a str> {
    if text.as_bytes().contains(&0) {
        return Err(null_character(text.as_bytes(), what));
    }
    match TopicName::new(text) {
        Ok(name) => Ok(name.as_str()),
        Err(error) => Err(DecodeError::new(
            ReasonCode::TopicNameInvalid,
            format!("the {what} {} is refused: {error}", quoted(text)),
        )),
    }
}

/// `text` in quotes, cut so that an error text stays short whatever a peer sends.
fn quoted(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{:?} (and {} bytes more)", &text[..end], text.len() - end),
        None => format!("{text:?}"),
    }
}

#[cold]
fn null_character(bytes: &[u8], what: &'static str) -> Box<DecodeError> {
    let place = bytes.iter().position(|&byte| byte == 0).unwrap_or_default();
    DecodeError::malformed(format!("the {what} holds a null character at its byte {place}"))
}

#[cold]
fn ends_within(what: &'static str, missing: usize) -> Box<DecodeError> {
    DecodeError::malformed(format!("ends within the {what}, {missing} bytes short"))
}
