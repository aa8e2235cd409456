//! Where bytes go: into a buffer, or nowhere, to learn how many they are. Every variable part is written twice by the
//! same code, first to count and then for good, so that no length is patched and nothing is buffered in between.

use crate::properties::PropertyId;
use meridian_types::limits::STRING_BYTES_MAX;

pub(super) trait Sink {
    fn put(&mut self, bytes: &[u8]);

    #[inline]
    fn byte(&mut self, byte: u8) {
        self.put(&[byte]);
    }

    #[inline]
    fn u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    #[inline]
    fn varint(&mut self, value: usize) {
        let (bytes, len) = varint(value);
        self.put(&bytes[..len]);
    }

    #[inline]
    fn binary(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(STRING_BYTES_MAX)];
        self.u16(bytes.len() as u16);
        self.put(bytes);
    }

    #[inline]
    fn text(&mut self, text: &str) {
        self.binary(clamp(text).as_bytes());
    }

    /// The length of a block and the block itself.
    fn block(&mut self, block: &impl Block)
    where
        Self: Sized,
    {
        self.varint(block.len());
        block.write(self);
    }

    fn property_flag(&mut self, id: PropertyId, value: Option<bool>) {
        if let Some(value) = value {
            self.put(&[id as u8, u8::from(value)]);
        }
    }

    fn property_u16(&mut self, id: PropertyId, value: Option<u16>) {
        if let Some(value) = value {
            self.byte(id as u8);
            self.u16(value);
        }
    }

    fn property_u32(&mut self, id: PropertyId, value: Option<u32>) {
        if let Some(value) = value {
            self.byte(id as u8);
            self.put(&value.to_be_bytes());
        }
    }

    fn property_text(&mut self, id: PropertyId, value: Option<&str>) {
        if let Some(value) = value {
            self.byte(id as u8);
            self.text(value);
        }
    }

    fn property_binary(&mut self, id: PropertyId, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.byte(id as u8);
            self.binary(value);
        }
    }

    fn user_properties<'a>(&mut self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) {
        for (name, value) in pairs {
            self.byte(PropertyId::User as u8);
            self.text(name);
            self.text(value);
        }
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Counts what is put into it.
#[derive(Default)]
struct Counter(usize);

impl Sink for Counter {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// A part of a packet that follows its own length: the body, or the properties.
pub(super) trait Block {
    fn write(&self, sink: &mut impl Sink);

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        let mut counter = Counter::default();
        self.write(&mut counter);
        counter.0
    }
}

/// The largest variable byte integer, and so the longest body.
pub(super) const VARINT_MAX: usize = (1 << 28) - 1;

/// A variable byte integer and how many of the four bytes it takes (MQTT 5.0 §1.5.5). A larger one than there is
/// becomes the largest.
#[inline]
pub(super) fn varint(value: usize) -> ([u8; 4], usize) {
    let value = value.min(VARINT_MAX);
    let mut bytes = [0; 4];
    let (mut rest, mut len) = (value, 0);
    loop {
        bytes[len] = (rest & 0x7f) as u8;
        rest >>= 7;
        if rest == 0 {
            return (bytes, len + 1);
        }
        bytes[len] |= 0x80;
        len += 1;
    }
}

/// `text` if it fits a string's two length bytes, else as much of it as does.
#[inline]
pub(super) fn clamp(text: &str) -> &str {
    if text.len() <= STRING_BYTES_MAX { text } else { cut(text) }
}

#[cold]
fn cut(text: &str) -> &str {
    let fits = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=STRING_BYTES_MAX).rev().find(fits).expect("the beginning is a boundary");
    &text[..end]
}
