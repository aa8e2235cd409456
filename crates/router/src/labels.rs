//! The words on the way from a node's parent to the node: a first word, and an interned tail.

use smallvec::SmallVec;

use crate::interner::Interner;
use crate::node::NONE;
use crate::words::{Grammar, Level, Words};

/// A row of word ids, without allocation up to 16.
pub(crate) type WordRow = SmallVec<[u32; 16]>;

/// Words and tails of one tree.
///
/// **Invariant:** a word is used once by each node whose label starts with it, and once by each place in each distinct
/// tail; a tail is used once by each node it belongs to.
pub(crate) struct Labels {
    pub(crate) words: Words,
    tails: Interner,
}

impl Labels {
    pub(crate) fn new(grammar: Grammar) -> Self {
        Self { words: Words::new(grammar), tails: Interner::new() }
    }

    /// The words of a tail; none of [`NONE`].
    #[inline]
    pub(crate) fn tail(&self, tail: u32) -> &[u32] {
        if tail == NONE { &[] } else { self.tails.get(tail) }
    }

    /// The tail with these words, which are in use; used once more from now on.
    pub(crate) fn intern_tail(&mut self, words: &[u32]) -> u32 {
        if words.is_empty() {
            return NONE;
        }
        let (tail, is_new) = self.tails.intern(words);
        if is_new {
            for &word in words {
                self.words.retain(word);
            }
        }
        tail
    }

    /// Uses a tail once less.
    pub(crate) fn release_tail(&mut self, tail: u32) {
        if tail != NONE {
            let words = &mut self.words;
            self.tails.release(tail, |row| row.iter().for_each(|&word| words.release(word)));
        }
    }

    /// Interns a label from its levels; returns its first word and its tail, each used once more from now on.
    pub(crate) fn intern(&mut self, levels: &[impl Level]) -> (u32, u32) {
        let row: WordRow = levels.iter().map(|level| level.intern(&mut self.words)).collect();
        let tail = self.intern_tail(&row[1..]);
        for &word in &row[1..] {
            self.words.release(word);
        }
        (row[0], tail)
    }

    /// Bytes held, used or not.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.words.memory_bytes() + self.tails.memory_bytes()
    }
}
