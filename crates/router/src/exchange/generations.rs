//! Change counters, so that a cached result outlives changes that cannot touch it.
//!
//! A result for an exchange and a routing key depends on bindings of that exchange and of those that messages go on to.
//! A change is therefore noted for the source of the binding and for every exchange that leads there, at the narrowest
//! of four widths: all keys; keys that start with a given first word, or first two words; one key. What is narrower
//! than an exchange is hashed onto a fixed table: two that share a counter cost a needless cache miss, never a stale
//! result.

use std::hash::BuildHasher;

use super::topic::literal_prefix;
use super::{ExchangeId, ExchangeKind};
use crate::sync::{AtomicU64, KeyHasher, Ordering};

/// Counters in the table: 128 KiB. A power of two; few for a model checker.
const COUNTERS: usize = if cfg!(all(test, loom)) { 4 } else { 1 << 14 };

/// The counter that nothing bumps.
const NEVER: u16 = 0;

/// What the result for one exchange and one routing key depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRegions {
    pub(super) exchange: ExchangeId,
    /// The key itself, its first word, its first two.
    counters: [u16; 3],
}

/// The keys that a change concerns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Region<'a> {
    /// All.
    All,
    /// One.
    Key(&'a [u8]),
    /// Those that start with this many words.
    Prefix(usize, &'a [u8]),
}

impl<'a> Region<'a> {
    /// The keys whose result a binding with this key can change.
    pub(super) fn of_binding(kind: &ExchangeKind, key: &'a [u8]) -> Self {
        match kind {
            ExchangeKind::Direct => Self::Key(key),
            ExchangeKind::Topic => match literal_prefix(key) {
                None => Self::Key(key),
                Some((0, _)) => Self::All,
                Some((count, prefix)) => Self::Prefix(count, prefix),
            },
            _ => Self::All,
        }
    }
}

/// The table of counters for what is narrower than an exchange.
pub(super) struct Generations {
    counters: Box<[AtomicU64]>,
    hasher: KeyHasher,
}

impl Generations {
    pub(super) fn new() -> Self {
        Self { counters: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(), hasher: KeyHasher::default() }
    }

    /// The regions of a key. Three hashes.
    pub(super) fn regions(&self, exchange: ExchangeId, key: &[u8]) -> KeyRegions {
        let mut dots = key.iter().enumerate().filter(|&(_, byte)| *byte == b'.').map(|(at, _)| at);
        let first = dots.next();
        let second = first.map(|_| dots.next().unwrap_or(key.len()));
        let counters = [
            self.counter_of(exchange, Region::Key(key)),
            self.counter_of(exchange, Region::Prefix(1, &key[..first.unwrap_or(key.len())])),
            second.map_or(NEVER, |end| self.counter_of(exchange, Region::Prefix(2, &key[..end]))),
        ];
        KeyRegions { exchange, counters }
    }

    /// The sum of a key's counters, which never returns to an earlier value.
    pub(super) fn sum(&self, regions: &KeyRegions) -> u64 {
        regions.counters.iter().map(|&at| self.counters[usize::from(at)].load(Ordering::Acquire)).sum()
    }

    /// Notes a change of something narrower than an exchange.
    pub(super) fn bump(&self, exchange: ExchangeId, region: Region<'_>) {
        self.counters[usize::from(self.counter_of(exchange, region))].fetch_add(1, Ordering::AcqRel);
    }

    /// Bytes held.
    pub(super) const fn memory_bytes(&self) -> usize {
        COUNTERS * size_of::<AtomicU64>()
    }

    fn counter_of(&self, exchange: ExchangeId, region: Region<'_>) -> u16 {
        let (words, text) = match region {
            Region::All => return NEVER,
            Region::Key(key) => (0, key),
            Region::Prefix(words, prefix) => (words, prefix),
        };
        let hash = self.hasher.hash_one((exchange, words, text));
        // The table has 2^14 counters, so the result fits.
        (1 + hash % (COUNTERS as u64 - 1)) as u16
    }
}
