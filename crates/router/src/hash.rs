//! The hash of small keys.

use std::hash::BuildHasher;

use crate::sync::KeyHasher;

/// Secrets drawn per structure, so that nobody can prepare keys that collide.
#[derive(Clone, Copy)]
pub(crate) struct Seeds(u64, u64);

impl Seeds {
    pub(crate) fn new() -> Self {
        let state = KeyHasher::default();
        Self(state.hash_one(0u8), state.hash_one(1u8) | 1)
    }

    /// Mixes one word into a hash: multiplies to 128 bits and folds the halves together.
    #[inline]
    pub(crate) const fn mix(self, hash: u64, word: u64) -> u64 {
        let product = (hash ^ word) as u128 * self.1 as u128;
        product as u64 ^ (product >> 64) as u64
    }

    /// The hash of two numbers.
    #[inline]
    pub(crate) const fn hash_pair(self, high: u32, low: u32) -> u64 {
        self.mix(self.0, (high as u64) << 32 | low as u64)
    }

    /// The hash of a row of words.
    #[inline]
    pub(crate) fn hash_row(self, words: impl Iterator<Item = u64>) -> u64 {
        words.fold(self.0, |hash, word| self.mix(hash, word))
    }
}
