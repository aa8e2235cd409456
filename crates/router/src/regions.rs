//! Change counters for parts of the topic space, so that a cached result outlives changes elsewhere.
//!
//! A *region* is a set of topics: all of them (the root), those under one first level, under the first two or three
//! levels, or one topic alone. A filter belongs to exactly one region, the narrowest that holds every topic it can
//! match; a topic lies in at most five. Regions are hashed onto a fixed table of counters: two regions that share a
//! counter cost a needless cache miss, never a stale result.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use meridian_types::{TopicFilter, TopicName};

use crate::sync::{AtomicU64, Ordering};

/// Counters in the table: 128 KiB.
///
/// A model checker gets one to hash onto, so that what it explores does not depend on a hash.
const COUNTERS: usize = if cfg!(all(test, loom)) { 3 } else { 1 << 14 };

/// Literal levels that a prefix region distinguishes.
const PREFIX_LEVELS_MAX: usize = 3;

/// Bytes of a text that a prefix region distinguishes.
const TEXT_CUTS: [usize; 1 + PREFIX_LEVELS_MAX] = [8, 16, 32, 64];

/// The counter of filters that start with a wildcard, and of the shortest prefixes.
const ROOT: u16 = 0;

/// The counter that nothing bumps: it stands for a region that the topic does not lie in.
const NEVER: u16 = 1;

/// Counters below this one are not hashed onto.
const RESERVED: u64 = 2;

/// The regions of the topic space that a topic's result depends on.
///
/// In order: the root, the first level, the first two, the first three, the whole topic. Of a text, where prefixes are
/// looked for: the root, its first 8, 16, 32 and 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regions([u16; 2 + PREFIX_LEVELS_MAX]);

/// What a result depends on, and how that was before the look-up: with it the result may be used for as long as
/// [`Index::is_current`](crate::Index::is_current) says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    regions: Regions,
    generation: u64,
}

/// What a region's hash covers besides its text.
#[derive(Clone, Copy)]
enum Kind {
    Prefix = 1,
    Whole = 2,
    Text = 3,
}

/// The table of counters.
pub(crate) struct RegionTable {
    counters: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl RegionTable {
    pub(crate) fn new() -> Self {
        Self { counters: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(), hasher: RandomState::default() }
    }

    /// Bytes held.
    pub(crate) const fn memory_bytes(&self) -> usize {
        COUNTERS * size_of::<AtomicU64>()
    }

    /// The regions a topic lies in. Cost: one hash per prefix, no allocation.
    pub(crate) fn of_topic(&self, topic: TopicName<'_>) -> Regions {
        let text = topic.as_str();
        let mut regions = [NEVER; 2 + PREFIX_LEVELS_MAX];
        if !topic.is_reserved() {
            regions[0] = ROOT;
        }
        let mut ends = text.bytes().enumerate().filter(|&(_, byte)| byte == b'/').map(|(at, _)| at);
        for region in &mut regions[1..=PREFIX_LEVELS_MAX] {
            let end = ends.next();
            *region = self.slot(Kind::Prefix, &text.as_bytes()[..end.unwrap_or(text.len())]);
            if end.is_none() {
                break;
            }
        }
        regions[1 + PREFIX_LEVELS_MAX] = self.slot(Kind::Whole, text.as_bytes());
        Regions(regions)
    }

    /// The regions a text lies in, for prefixes of bytes. Cost: up to four short hashes, no allocation.
    pub(crate) fn of_text(&self, text: &[u8]) -> Regions {
        let mut regions = [NEVER; 2 + PREFIX_LEVELS_MAX];
        regions[0] = ROOT;
        for (region, cut) in regions[1..].iter_mut().zip(TEXT_CUTS) {
            let Some(beginning) = text.get(..cut) else { break };
            *region = self.slot(Kind::Text, beginning);
        }
        Regions(regions)
    }

    /// Marks the region of a prefix as changed. Call it when the change can be seen by readers.
    pub(crate) fn bump_prefix(&self, prefix: &[u8]) {
        let cut = TEXT_CUTS.into_iter().rev().find(|&cut| cut <= prefix.len());
        let region = cut.map_or(ROOT, |cut| self.slot(Kind::Text, &prefix[..cut]));
        self.counters[usize::from(region)].fetch_add(1, Ordering::AcqRel);
    }

    /// The sum of the regions' counters. It never returns to an earlier value, since each only grows.
    #[inline]
    pub(crate) fn generation(&self, regions: &Regions) -> u64 {
        regions.0.iter().map(|&region| self.counters[usize::from(region)].load(Ordering::Acquire)).sum()
    }

    /// A guard for the look-up that follows.
    pub(crate) fn guard(&self, regions: Regions) -> Guard {
        Guard { regions, generation: self.generation(&regions) }
    }

    /// Whether nothing that a guard covers has changed since.
    #[inline]
    pub(crate) fn is_current(&self, guard: &Guard) -> bool {
        self.generation(&guard.regions) == guard.generation
    }

    /// Marks the region of `filter` as changed. Call it when the change can be seen by readers.
    pub(crate) fn bump(&self, filter: TopicFilter<'_>) {
        self.counters[usize::from(self.of_filter(filter))].fetch_add(1, Ordering::AcqRel);
    }

    /// The one region a filter belongs to.
    fn of_filter(&self, filter: TopicFilter<'_>) -> u16 {
        let text = filter.as_str();
        let Some(wildcard) = text.bytes().position(|byte| matches!(byte, b'+' | b'#')) else {
            return self.slot(Kind::Whole, text.as_bytes());
        };
        if wildcard == 0 {
            return ROOT;
        }
        let literal = &text[..wildcard - 1];
        let cut = literal.match_indices('/').nth(PREFIX_LEVELS_MAX - 1).map_or(literal.len(), |(at, _)| at);
        self.slot(Kind::Prefix, &literal.as_bytes()[..cut])
    }

    fn slot(&self, kind: Kind, text: &[u8]) -> u16 {
        let hash = self.hasher.hash_one((kind as u8, text));
        // The table has at most 2^14 counters, so the result fits.
        (RESERVED + hash % (COUNTERS as u64 - RESERVED)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(filter: &str, topic: &str) -> bool {
        let table = RegionTable::new();
        let regions = table.of_topic(TopicName::new(topic).unwrap());
        let before = table.generation(&regions);
        table.bump(TopicFilter::new(filter).unwrap());
        table.generation(&regions) != before
    }

    #[test]
    fn a_filter_bumps_every_topic_it_can_match() {
        for (filter, topic) in [
            ("#", "a"),
            ("+/b", "a/b"),
            ("a/#", "a"),
            ("a/#", "a/b/c/d/e"),
            ("a/b/+", "a/b/c"),
            ("a/b/c/d/#", "a/b/c/d"),
            ("a/b/c/+/e", "a/b/c/d/e"),
            ("a/b/c/d", "a/b/c/d"),
            ("/+", "/x"),
            ("//#", "//"),
            ("$SYS/#", "$SYS/x"),
        ] {
            assert!(changes(filter, topic), "{filter} {topic}");
        }
    }

    #[test]
    fn reserved_topics_do_not_depend_on_leading_wildcards() {
        assert!(!changes("#", "$SYS/x") && !changes("+/x", "$SYS/x"));
    }
}
