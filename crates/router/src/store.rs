//! Topics to values, found by filter: the reverse match of retained messages.
//!
//! One ordered map whose keys are topics with every `/` replaced by the zero byte, which no topic may hold
//! [MQTT-4.7.3-2]. So ordered, a topic is followed by everything below it, then by its next sibling:
//!
//! ```text
//! a          "a"                 a filter's walk only ever moves forward:
//! a/b        "a\0b"                a literal level   seek to prefix \0 literal
//! a/b/c      "a\0b\0c"             a mismatch        seek past the subtree: prefix \x01
//! a/c        "a\0c"                `#`               read on while the prefix holds
//! ab         "ab"
//! ```
//!
//! **Invariant:** a look-up reads the entries that match plus at most two per prefix that a `+` tries, each found in
//! O(log n); entries outside the filter's literal prefix are never read.

use std::collections::BTreeMap;
use std::ops::Bound;

use meridian_types::{TopicFilter, TopicName};
use smallvec::SmallVec;

/// The byte that stands for `/` in a key.
const SEPARATOR: u8 = 0;

/// What follows a prefix and everything below it: the least byte after the separator.
const PAST: u8 = 1;

/// A key under construction; topics up to this length cost no allocation.
type KeyBuffer = SmallVec<[u8; 120]>;

/// Values by topic.
pub struct TopicStore<V> {
    values: BTreeMap<Box<[u8]>, V>,
}

/// Where a paged look-up stopped: behind a topic, which need not exist any more when it is resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(Box<[u8]>);

/// What comparing one key with a filter says to do next.
enum Step {
    /// It matches.
    Take,
    /// It does not, and nothing before the key now in the buffer does.
    Seek,
    /// Neither it nor anything after it matches.
    Stop,
}

impl<V> TopicStore<V> {
    /// An empty store.
    pub const fn new() -> Self {
        Self { values: BTreeMap::new() }
    }

    /// Sets the value of a topic; returns the one before. O(log n).
    pub fn insert(&mut self, topic: TopicName<'_>, value: V) -> Option<V> {
        let key = key_of(topic);
        match self.values.get_mut(&key[..]) {
            Some(held) => Some(std::mem::replace(held, value)),
            None => self.values.insert(key.into_vec().into_boxed_slice(), value),
        }
    }

    /// Removes a topic; returns its value. O(log n); its memory is given back.
    pub fn remove(&mut self, topic: TopicName<'_>) -> Option<V> {
        self.values.remove(&key_of(topic)[..])
    }

    /// The value of a topic. O(log n).
    pub fn get(&self, topic: TopicName<'_>) -> Option<&V> {
        self.values.get(&key_of(topic)[..])
    }

    /// Calls `visit` with each value whose topic matches, in the order of the topics' levels, until it returns false.
    ///
    /// A filter without wildcards costs one [`get`](Self::get); for others see the module's invariant.
    pub fn visit_matching(&self, filter: TopicFilter<'_>, visit: &mut dyn FnMut(&V) -> bool) {
        self.visit_matching_from(filter, None, usize::MAX, visit);
    }

    /// As [`visit_matching`](Self::visit_matching), from behind `cursor` on. Returns where it stopped if `visit`
    /// returned false (the value it returned false for counts as visited) or `keys_max` topics, at least 1, were looked
    /// at, whether they matched or not; and none at the end of the matches.
    ///
    /// Topics added or removed between two pages are seen or not by their place in the order; no other topic is
    /// skipped or visited twice.
    pub fn visit_matching_from(
        &self,
        filter: TopicFilter<'_>,
        cursor: Option<&Cursor>,
        keys_max: usize,
        visit: &mut dyn FnMut(&V) -> bool,
    ) -> Option<Cursor> {
        let levels: SmallVec<[&[u8]; 16]> = filter.levels().map(str::as_bytes).collect();
        let mut seek = literal_prefix(filter);
        let mut bound = Bound::Included(&seek[..]);
        if let Some(cursor) = cursor
            && *cursor.0 >= seek[..]
        {
            bound = Bound::Excluded(&cursor.0[..]);
        }
        let mut range = self.values.range::<[u8], _>((bound, Bound::Unbounded));
        let mut keys_left = keys_max;
        while let Some((key, value)) = range.next() {
            keys_left = keys_left.saturating_sub(1);
            match step(&levels, key, &mut seek) {
                Step::Stop => break,
                Step::Take if visit(value) && keys_left > 0 => {}
                Step::Seek if keys_left > 0 => {
                    range = self.values.range::<[u8], _>((Bound::Included(&seek[..]), Bound::Unbounded));
                }
                Step::Take | Step::Seek => return Some(Cursor(key.clone())),
            }
        }
        None
    }

    /// Values held.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl<V> Default for TopicStore<V> {
    fn default() -> Self {
        Self::new()
    }
}

fn key_of(topic: TopicName<'_>) -> KeyBuffer {
    topic.as_str().bytes().map(|byte| if byte == b'/' { SEPARATOR } else { byte }).collect()
}

/// The key that every match is equal to or after: the levels before the first wildcard.
fn literal_prefix(filter: TopicFilter<'_>) -> KeyBuffer {
    let text = filter.as_str();
    let literal = text.find(['+', '#']).map_or(text, |at| &text[..at.saturating_sub(1)]);
    literal.bytes().map(|byte| if byte == b'/' { SEPARATOR } else { byte }).collect()
}

/// Compares a key with a filter's levels; on [`Step::Seek`] leaves the next key that could match in `seek`, which
/// is always after `key`.
fn step(levels: &[&[u8]], key: &[u8], seek: &mut KeyBuffer) -> Step {
    if key[0] == b'$' && matches!(levels[0], b"+" | b"#") {
        // Leading wildcards do not match reserved topics [MQTT-4.7.2-1]; they lie together.
        return seek_to(seek, &[], b"%");
    }
    // The end of the level that the deepest `+` so far took, which is where to go on when a later level fails.
    let mut retry_end = None;
    let mut start = 0;
    for (depth, &wanted) in levels.iter().enumerate() {
        if wanted == b"#" {
            return Step::Take;
        }
        if start > key.len() {
            // The key ends before the filter does: what is below it comes next.
            let below: &[u8] = if wanted == b"+" { b"" } else { wanted };
            seek_to(seek, key, &[SEPARATOR]);
            seek.extend_from_slice(below);
            return Step::Seek;
        }
        let end =
            key[start..].iter().position(|&byte| byte == SEPARATOR).map_or(key.len(), |len| start + len);
        if wanted == b"+" {
            retry_end = Some(end);
        } else {
            match key[start..end].cmp(wanted) {
                std::cmp::Ordering::Less => return seek_to(seek, &key[..start], wanted),
                std::cmp::Ordering::Greater => return retry(seek, key, retry_end),
                std::cmp::Ordering::Equal => {}
            }
        }
        if depth + 1 == levels.len() && end < key.len() {
            return retry(seek, key, retry_end);
        }
        start = end + 1;
    }
    Step::Take
}

/// Goes on behind the subtree of the level that the deepest `+` took.
fn retry(seek: &mut KeyBuffer, key: &[u8], retry_end: Option<usize>) -> Step {
    retry_end.map_or(Step::Stop, |end| seek_to(seek, &key[..end], &[PAST]))
}

fn seek_to(seek: &mut KeyBuffer, prefix: &[u8], rest: &[u8]) -> Step {
    seek.clear();
    seek.extend_from_slice(prefix);
    seek.extend_from_slice(rest);
    Step::Seek
}
