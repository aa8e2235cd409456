//! A binding's key and arguments in one block of bytes: an identity to compare, and conditions to check.
//!
//! ```text
//! mode u8 │ key length │ key │ for each argument, by text: 2 × text length + 1 for a condition │ hash u32 │ text
//!
//! mode:     1 for any instead of all, 2 if names that start with x- count, 4 if there is an `x-match` that says so
//! hash:     of the name; only conditions have it
//! text:     name length │ name │ canonical value, or nothing for presence only
//! lengths:  seven bits a byte, the lowest first, with 128 added to all but the last (LEB128)
//! ```
//!
//! A message's header has a text of the same form, and it satisfies a condition if the two are equal.

use std::hash::BuildHasher;

use smallvec::SmallVec;

use super::message::Attributes;
use super::{ExchangeError, Field, HeaderValue};
use crate::sync::KeyHasher;

/// How conditions are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    All,
    Any,
}

const X_MATCH: &[u8] = b"x-match";

const ANY: u8 = 1;
const COUNTS_X: u8 = 2;
const IS_GIVEN: u8 = 4;

/// A block in the making; most are without arguments, and short.
pub(super) type BlockBuffer = SmallVec<[u8; 64]>;

/// One condition.
#[derive(Clone, Copy)]
pub(super) struct Condition<'a> {
    /// Where it is in the block.
    pub(super) at: u32,
    pub(super) name_hash: u32,
    pub(super) text: &'a [u8],
}

/// Writes a key and arguments as a block.
///
/// # Errors
/// [`ExchangeError::ArgumentsTooLarge`] if what it has besides the key would be longer than `bytes_max`.
pub(super) fn encode(
    key: &[u8],
    fields: &[Field<'_>],
    hasher: &KeyHasher,
    bytes_max: usize,
) -> Result<BlockBuffer, ExchangeError> {
    let mut block = BlockBuffer::new();
    let mode = given_mode(fields);
    block.push(mode);
    append_len(key.len(), &mut block);
    block.extend_from_slice(key);
    let head_len = block.len() - key.len();
    if fields.is_empty() {
        return Ok(block);
    }
    let mut bytes = Vec::with_capacity(128);
    let mut texts = SmallVec::<[std::ops::Range<usize>; 8]>::new();
    for &(name, value) in fields {
        if mode & IS_GIVEN != 0 && name == X_MATCH {
            continue;
        }
        let start = bytes.len();
        append_name(name, &mut bytes);
        if !matches!(value, HeaderValue::Void) {
            value.append_canonical(&mut bytes);
        }
        texts.push(start..bytes.len());
    }
    texts.sort_unstable_by(|one, other| bytes[one.clone()].cmp(&bytes[other.clone()]));
    texts.dedup_by(|one, other| bytes[one.clone()] == bytes[other.clone()]);
    // Nine bytes at most for the hash and a length that four gigabytes would have.
    let len = head_len + texts.iter().map(|text| 9 + text.len()).sum::<usize>();
    if len > bytes_max {
        return Err(ExchangeError::ArgumentsTooLarge { len, limit: bytes_max });
    }
    for text in texts {
        let text = &bytes[text];
        let name = name_of(text);
        let counts_x = mode & COUNTS_X != 0;
        let is_condition = if counts_x { name != X_MATCH } else { !name.starts_with(b"x-") };
        append_len(text.len() << 1 | usize::from(is_condition), &mut block);
        if is_condition {
            block.extend_from_slice(&short_hash(hasher.hash_one(&text[..name_end(text)])).to_le_bytes());
        }
        block.extend_from_slice(text);
    }
    Ok(block)
}

/// The mode that the first `x-match` gives; it stands for the argument if there is no other.
fn given_mode(fields: &[Field<'_>]) -> u8 {
    let mut values = fields.iter().filter(|(name, _)| *name == X_MATCH).map(|(_, value)| value);
    let Some(first) = values.next() else { return 0 };
    let Some(mode) = mode_of_value(first) else { return 0 };
    if values.all(|other| other == first) { mode | IS_GIVEN } else { mode }
}

fn mode_of_value(value: &HeaderValue<'_>) -> Option<u8> {
    match value {
        HeaderValue::Bytes(b"all") => Some(0),
        HeaderValue::Bytes(b"any") => Some(ANY),
        HeaderValue::Bytes(b"all-with-x") => Some(COUNTS_X),
        HeaderValue::Bytes(b"any-with-x") => Some(ANY | COUNTS_X),
        _ => None,
    }
}

/// Checks the argument `x-match`, as headers exchanges want it.
///
/// # Errors
/// [`ExchangeError::UnknownMatch`].
pub(super) fn check_match(fields: &[Field<'_>]) -> Result<(), ExchangeError> {
    let Some((_, value)) = fields.iter().find(|(name, _)| *name == X_MATCH) else { return Ok(()) };
    if mode_of_value(value).is_some() {
        return Ok(());
    }
    let value = match value {
        HeaderValue::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    };
    Err(ExchangeError::UnknownMatch { value })
}

/// A block's key.
#[inline]
pub(super) fn key_of(block: &[u8]) -> &[u8] {
    let (len, start) = len_at(block, 1);
    &block[start..start + len]
}

/// How a block's conditions are combined.
#[inline]
pub(super) fn mode_of(block: &[u8]) -> Mode {
    if block[0] & ANY != 0 { Mode::Any } else { Mode::All }
}

/// A block's conditions.
#[inline]
pub(super) fn conditions(block: &[u8]) -> impl Iterator<Item = Condition<'_>> {
    let (key_len, key_start) = len_at(block, 1);
    let mut at = key_start + key_len;
    std::iter::from_fn(move || {
        while at < block.len() {
            let (is_condition, argument, end) = argument_at(block, at);
            at = end;
            if is_condition {
                return Some(argument);
            }
        }
        None
    })
}

/// The text of the condition at a place of a block.
#[inline]
pub(super) fn text_at(block: &[u8], at: u32) -> &[u8] {
    argument_at(block, at as usize).1.text
}

#[inline]
fn argument_at(block: &[u8], at: usize) -> (bool, Condition<'_>, usize) {
    let (head, mut start) = len_at(block, at);
    let is_condition = head & 1 != 0;
    let mut name_hash = 0;
    if is_condition && let Some(hash) = block[start..].first_chunk() {
        name_hash = u32::from_le_bytes(*hash);
        start += hash.len();
    }
    let end = start + (head >> 1);
    (is_condition, Condition { at: at as u32, name_hash, text: &block[start..end] }, end)
}

/// Checks how many conditions a block has.
///
/// # Errors
/// [`ExchangeError::TooManyConditions`].
pub(super) fn check_count(block: &[u8], limit: usize) -> Result<(), ExchangeError> {
    match conditions(block).count() {
        count if count > limit => Err(ExchangeError::TooManyConditions { count, limit }),
        _ => Ok(()),
    }
}

/// Whether a condition's text asks for presence only.
#[inline]
pub(super) fn is_presence(text: &[u8]) -> bool {
    name_end(text) == text.len()
}

/// Where the name ends in a text.
#[inline]
fn name_end(text: &[u8]) -> usize {
    let (len, start) = len_at(text, 0);
    start + len
}

fn name_of(text: &[u8]) -> &[u8] {
    let (len, start) = len_at(text, 0);
    &text[start..start + len]
}

fn append_name(name: &[u8], out: &mut Vec<u8>) {
    append_len(name.len(), out);
    out.extend_from_slice(name);
}

fn append_len(len: usize, out: &mut impl Extend<u8>) {
    let mut rest = len;
    while rest > 127 {
        out.extend([rest as u8 | 128]);
        rest >>= 7;
    }
    out.extend([rest as u8]);
}

/// A length, and where it ends.
#[inline]
fn len_at(bytes: &[u8], at: usize) -> (usize, usize) {
    let (mut len, mut at, mut shift) = (0, at, 0);
    loop {
        let byte = bytes[at];
        at += 1;
        len |= usize::from(byte & 127) << shift;
        shift += 7;
        if byte < 128 {
            return (len, at);
        }
    }
}

/// As much of a name's hash as blocks have.
#[inline]
const fn short_hash(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// A message's headers, in the form that conditions are checked against. Used again from message to message.
#[derive(Debug, Default)]
pub(super) struct HeaderTexts {
    bytes: Vec<u8>,
    /// By the name's hash.
    headers: Vec<HeaderText>,
}

/// One header: `bytes[start..name_end]` is its name as a text, `bytes[start..end]` the whole.
#[derive(Clone, Copy, Debug)]
struct HeaderText {
    name_hash: u64,
    pair_hash: u64,
    start: usize,
    name_end: usize,
    end: usize,
}

/// The texts and hashes of one header.
#[derive(Clone, Copy)]
pub(super) struct HeaderTextRef<'a> {
    pub(super) name: (&'a [u8], u64),
    pub(super) pair: (&'a [u8], u64),
}

impl HeaderTexts {
    /// Takes up the headers of a message. O(n log n); allocates nothing but room.
    pub(super) fn load(&mut self, attributes: &dyn Attributes, hasher: &KeyHasher) {
        self.bytes.clear();
        self.headers.clear();
        let Self { bytes, headers } = self;
        attributes.visit_headers(&mut |name, value| {
            let start = bytes.len();
            append_name(name, bytes);
            let name_end = bytes.len();
            value.append_canonical(bytes);
            let name_hash = hasher.hash_one(&bytes[start..name_end]);
            let pair_hash = hasher.hash_one(&bytes[start..]);
            headers.push(HeaderText { name_hash, pair_hash, start, name_end, end: bytes.len() });
        });
        // The later of two with one name comes first and stays.
        headers.sort_unstable_by_key(|header| (header.name_hash, usize::MAX - header.start));
        headers.dedup_by(|later, earlier| {
            let name = |header: &HeaderText| &bytes[header.start..header.name_end];
            later.name_hash == earlier.name_hash && name(later) == name(earlier)
        });
    }

    /// All headers.
    pub(super) fn iter(&self) -> impl Iterator<Item = HeaderTextRef<'_>> {
        self.headers.iter().map(|header| HeaderTextRef {
            name: (&self.bytes[header.start..header.name_end], header.name_hash),
            pair: (&self.bytes[header.start..header.end], header.pair_hash),
        })
    }

    /// Whether a condition is met. O(log n).
    #[inline]
    pub(super) fn satisfy(&self, condition: Condition<'_>) -> bool {
        let first = self.headers.partition_point(|header| short_hash(header.name_hash) < condition.name_hash);
        (self.headers[first..].iter())
            .take_while(|header| short_hash(header.name_hash) == condition.name_hash)
            .any(|header| {
                self.bytes[header.start..header.end] == *condition.text
                    || self.bytes[header.start..header.name_end] == *condition.text
            })
    }
}
