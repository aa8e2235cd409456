//! Random numbers without a generator of our own: the standard library seeds its hash maps from the system.

use std::hash::{BuildHasher as _, RandomState};

/// A source of numbers that a peer cannot foretell: a keyed hash of a counter.
#[derive(Debug, Default)]
pub(crate) struct Random {
    state: RandomState,
    counter: u64,
}

impl Random {
    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.counter += 1;
        self.state.hash_one(self.counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sources_differ_and_none_repeats_itself() {
        let (mut a, mut b) = (Random::default(), Random::default());
        let mut seen: Vec<u64> = (0..100).flat_map(|_| [a.next(), b.next()]).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 200);
    }
}
