//! Binding arguments in one block of bytes: an identity to compare, and conditions to check.
//!
//! ```text
//! mode u8 │ for each argument, by name: flags u8 │ name's hash u64 │ text length u32 │ text
//!
//! text:     name length u32 │ name │ canonical value, or nothing for presence only
//! ```
//!
//! A message's header has a text of the same form, and it satisfies a condition if the two are equal.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use super::message::Attributes;
use super::{ExchangeError, Field, HeaderValue};

/// How conditions are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    All = 0,
    Any = 1,
}

/// The flag of an argument that is a condition.
const CONDITION: u8 = 1;

/// Bytes of an argument before its text.
const HEAD_BYTES: usize = 1 + 8 + 4;

/// Bytes of a text's name length.
const NAME_LEN_BYTES: usize = 4;

/// One argument.
#[derive(Clone, Copy)]
pub(super) struct Argument<'a> {
    pub(super) is_condition: bool,
    pub(super) name_hash: u64,
    pub(super) text: &'a [u8],
}

/// Writes arguments as a block.
///
/// # Errors
/// [`ExchangeError::ArgumentsTooLarge`] if it would be longer than `bytes_max`.
pub(super) fn encode(
    fields: &[Field<'_>],
    hasher: &RandomState,
    bytes_max: usize,
) -> Result<Vec<u8>, ExchangeError> {
    let texts = fields.iter().map(|&(name, value)| {
        let mut text = Vec::new();
        append_name(name, &mut text);
        if !matches!(value, HeaderValue::Void) {
            value.append_canonical(&mut text);
        }
        text
    });
    let mut texts: Vec<Vec<u8>> = texts.collect();
    let len = 1 + texts.iter().map(|text| HEAD_BYTES + text.len()).sum::<usize>();
    if len > bytes_max {
        return Err(ExchangeError::ArgumentsTooLarge { len, limit: bytes_max });
    }
    texts.sort_unstable();
    texts.dedup();
    let (mode, counts_x) = match_of(fields).unwrap_or((Mode::All, false));
    let mut block = Vec::with_capacity(len);
    block.push(mode as u8);
    for text in &texts {
        let name = &text[NAME_LEN_BYTES..name_end(text)];
        let is_condition = if counts_x { name != b"x-match" } else { !name.starts_with(b"x-") };
        block.push(if is_condition { CONDITION } else { 0 });
        block.extend(hasher.hash_one(&text[..name_end(text)]).to_le_bytes());
        block.extend((text.len() as u32).to_le_bytes());
        block.extend_from_slice(text);
    }
    Ok(block)
}

/// Checks the argument `x-match`, as headers exchanges want it.
///
/// # Errors
/// [`ExchangeError::UnknownMatch`].
pub(super) fn check_match(fields: &[Field<'_>]) -> Result<(), ExchangeError> {
    match_of(fields).map(|_| ())
}

/// The mode, and whether names that start with `x-` count.
fn match_of(fields: &[Field<'_>]) -> Result<(Mode, bool), ExchangeError> {
    let Some((_, value)) = fields.iter().find(|(name, _)| *name == b"x-match") else {
        return Ok((Mode::All, false));
    };
    match value {
        HeaderValue::Bytes(b"all") => Ok((Mode::All, false)),
        HeaderValue::Bytes(b"any") => Ok((Mode::Any, false)),
        HeaderValue::Bytes(b"all-with-x") => Ok((Mode::All, true)),
        HeaderValue::Bytes(b"any-with-x") => Ok((Mode::Any, true)),
        HeaderValue::Bytes(other) => {
            Err(ExchangeError::UnknownMatch { value: String::from_utf8_lossy(other).into_owned() })
        }
        other => Err(ExchangeError::UnknownMatch { value: format!("{other:?}") }),
    }
}

/// How a block's conditions are combined.
#[inline]
pub(super) fn mode_of(block: &[u8]) -> Mode {
    if block[0] == Mode::Any as u8 { Mode::Any } else { Mode::All }
}

/// A block's conditions.
#[inline]
pub(super) fn conditions(block: &[u8]) -> impl Iterator<Item = Argument<'_>> {
    let mut rest = &block[1..];
    let arguments = std::iter::from_fn(move || {
        let (head, after) = rest.split_first_chunk::<HEAD_BYTES>()?;
        let [flags, h0, h1, h2, h3, h4, h5, h6, h7, l0, l1, l2, l3] = *head;
        let name_hash = u64::from_le_bytes([h0, h1, h2, h3, h4, h5, h6, h7]);
        let (text, after) = after.split_at(u32::from_le_bytes([l0, l1, l2, l3]) as usize);
        rest = after;
        Some(Argument { is_condition: flags & CONDITION != 0, name_hash, text })
    });
    arguments.filter(|argument| argument.is_condition)
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
fn name_end(text: &[u8]) -> usize {
    let len = text.first_chunk().copied().map_or(0, u32::from_le_bytes);
    NAME_LEN_BYTES + len as usize
}

fn append_name(name: &[u8], out: &mut Vec<u8>) {
    out.extend((name.len() as u32).to_le_bytes());
    out.extend_from_slice(name);
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
    pub(super) fn load(&mut self, attributes: &dyn Attributes, hasher: &RandomState) {
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
    pub(super) fn satisfy(&self, condition: Argument<'_>) -> bool {
        let first = self.headers.partition_point(|header| header.name_hash < condition.name_hash);
        (self.headers[first..].iter()).take_while(|header| header.name_hash == condition.name_hash).any(
            |header| {
                self.bytes[header.start..header.end] == *condition.text
                    || self.bytes[header.start..header.name_end] == *condition.text
            },
        )
    }
}
