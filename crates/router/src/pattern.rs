//! AMQP topic patterns, and the tree that finds those a routing key matches.

use std::borrow::Cow;

use meridian_types::limits::STRING_BYTES_MAX;
use smallvec::SmallVec;

use crate::entry::{Entry, TargetId};
use crate::tree::{Path, Tree};
use crate::words::AMQP;

const ONE: &[u8] = &[AMQP.one];
const MANY: &[u8] = &[AMQP.many];

/// Why bytes are no topic pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// Longer than any string of a protocol here. (AMQP's own limit is 255 bytes, §4.2.5.3.)
    #[error("the pattern is longer than {STRING_BYTES_MAX} bytes")]
    TooLong,
    /// A zero byte, which a short string must not have (AMQP 0-9-1 §4.2.5.3).
    #[error("the pattern holds a zero byte")]
    Null,
}

/// A topic pattern: what the binding key of a topic exchange is (AMQP 0-9-1 §3.1.3.3).
///
/// Patterns and keys are rows of words divided by `.`. A word that is `*` stands for any one word, one that is `#` for
/// any number of words, none included; either may occur anywhere and often. Everything else is literal: `a*` is a word
/// of two bytes, and `+` means nothing. Bytes need not be UTF-8.
///
/// As in RabbitMQ, empty words are words (`a..b` has three, `.` has two), but the empty text has none: the empty
/// pattern matches the empty key alone, `#` matches it too, and `*` does not.
///
/// Equality is of the text. `#.#` and `#` are different patterns that match the same; see
/// [`normalized`](Self::normalized).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoutingPattern<'a>(&'a [u8]);

impl<'a> RoutingPattern<'a> {
    /// Checks a pattern. Cost: one pass.
    ///
    /// # Errors
    /// [`PatternError::TooLong`] over 65,535 bytes; [`PatternError::Null`] with a zero byte.
    pub fn new(text: &'a [u8]) -> Result<Self, PatternError> {
        if text.len() > STRING_BYTES_MAX {
            return Err(PatternError::TooLong);
        }
        if text.contains(&0) {
            return Err(PatternError::Null);
        }
        Ok(Self(text))
    }

    /// The pattern as it was given.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The one way to write what this pattern matches: in each run of wildcards all `*` come first, and one `#` at
    /// most.
    ///
    /// So `#.#` becomes `#`, and `#.*.#` becomes `*.#`. Whoever keeps patterns apart that [`PatternTree`] does not
    /// counts them by this. Cost: one pass; allocates for long patterns and for those that change.
    pub fn normalized(self) -> Cow<'a, [u8]> {
        let Path { mut levels, is_below } = self.path();
        if is_below {
            levels.push(MANY);
        }
        let text = levels.join(&AMQP.separator);
        if text == self.0 { Cow::Borrowed(self.0) } else { Cow::Owned(text) }
    }

    /// The normalised pattern's words.
    pub(crate) fn path(self) -> Path<&'a [u8]> {
        let mut levels: SmallVec<[&[u8]; 16]> = SmallVec::new();
        let mut ends_in_many = false;
        for word in words_of(self.0) {
            if word == MANY {
                ends_in_many = true;
                continue;
            }
            // A `*` goes before a `#` that was seen: together they ask for one word more, wherever it comes.
            if ends_in_many && word != ONE {
                levels.push(MANY);
                ends_in_many = false;
            }
            levels.push(word);
        }
        Path { levels, is_below: ends_in_many }
    }
}

/// The words of a key or pattern. The empty text has none.
pub(crate) fn words_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == AMQP.separator).skip(usize::from(text.is_empty()))
}

/// Topic patterns to targets, for one owner: what a topic exchange is.
///
/// The tree is the one that MQTT filters are kept in (see the crate's documentation): shared beginnings are stored
/// once, chains are folded, the wildcard `#` inside a pattern is one more word of a label.
///
/// **Patterns are held by their normalised form.** `#.#` and `#` are one pattern here: inserting the second for a
/// target replaces the first's options, and removing either removes it. An exchange, where they are two bindings,
/// counts bindings by [`RoutingPattern::normalized`].
///
/// # Cost
/// `insert` and `remove` take a step per word, make or unmake two nodes at most, and O(log n) in the pattern's own
/// targets. `matches` visits each node whose words match a beginning of the key; below a `#` inside a pattern it does
/// so for each word of the key at which the node can begin, once. So no key costs more than its words times the words
/// of the patterns held, and an ordinary one little more than what it matches.
pub struct PatternTree {
    tree: Tree,
}

impl PatternTree {
    /// An empty tree; about 3 KiB.
    pub fn new() -> Self {
        Self { tree: Tree::new(AMQP) }
    }

    /// Adds a target to a pattern, or replaces its options; returns the previous ones.
    ///
    /// # Panics
    /// If the tree would hold more than 134 million nodes.
    pub fn insert(&mut self, pattern: RoutingPattern<'_>, target: TargetId, options: u32) -> Option<u32> {
        self.tree.insert(&pattern.path(), Entry { target, options }).previous
    }

    /// Removes a target from a pattern; returns its options.
    pub fn remove(&mut self, pattern: RoutingPattern<'_>, target: TargetId) -> Option<u32> {
        let place = self.tree.find(&pattern.path())?;
        self.tree.remove(place, target).map(|removed| removed.options)
    }

    /// Appends one entry for each (pattern, target) that matches; a target with several patterns comes several times. A
    /// pattern's targets come in order, the patterns in none.
    ///
    /// `key` may be any bytes; a word of it with a zero byte is no pattern's. Allocates nothing but room in `out` for
    /// keys of up to 32 words.
    pub fn matches(&self, key: &[u8], out: &mut Vec<Entry>) {
        self.tree.matches_key(key, out);
    }

    /// Patterns held, by their normalised form.
    pub const fn pattern_count(&self) -> usize {
        self.tree.filter_count()
    }

    /// Entries held: (pattern, target) pairs.
    pub const fn entry_count(&self) -> usize {
        self.tree.entry_count()
    }

    /// Bytes of memory held, with the unused capacity of its structures and without the allocator's own. Visits every
    /// page: for metrics.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.tree.memory_bytes()
    }
}

impl Default for PatternTree {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalized(text: &str) -> String {
        let pattern = RoutingPattern::new(text.as_bytes()).unwrap();
        String::from_utf8(pattern.normalized().into_owned()).unwrap()
    }

    #[test]
    fn runs_of_wildcards_have_one_form() {
        for (text, expected) in [
            ("", ""),
            ("#", "#"),
            ("#.#", "#"),
            ("#.*", "*.#"),
            ("*.#.*.#.#.a", "*.*.#.a"),
            ("#.#.#.#.a", "#.a"),
            ("a.#.b.*.#", "a.#.b.*.#"),
            ("a.#.", "a.#."),
            ("..", ".."),
            ("a*.+.##", "a*.+.##"),
        ] {
            assert_eq!(normalized(text), expected, "{text}");
        }
    }

    #[test]
    fn bytes_that_no_short_string_holds_are_refused() {
        assert_eq!(RoutingPattern::new(b"a\0.b"), Err(PatternError::Null));
        assert_eq!(RoutingPattern::new(&[b'a'; 65_536]), Err(PatternError::TooLong));
        assert!(RoutingPattern::new(&[0xFF; 65_535]).is_ok());
    }
}
