//! String prefixes to targets: which prefixes a text starts with.

use smallvec::SmallVec;

use crate::entry::{Entry, TargetId};
use crate::regions::{Guard, RegionTable, Regions};
use crate::shards::{ShardPlace, Shards};
use crate::tree::{Path, Tree};
use crate::words::BYTES;

/// Prefixes of at least this many bytes are spread over the shards by so many of their bytes.
const SPREAD_BYTES: usize = 16;

/// Where the shorter prefixes are, and some of the others.
const SHORT: ShardPlace = ShardPlace { shard: 0, depth: 0 };

/// The depth of prefixes that are spread.
const LONG_DEPTH: usize = 1;

/// String prefixes to targets, for any number of threads.
///
/// A prefix matches every text that begins with its bytes, whatever they are; there are no words, wildcards or reserved
/// names, and the empty prefix matches everything. This is how Zeek's Broker subscribes.
///
/// The trees are those of [`Index`](crate::Index) with bytes for words: a node where prefixes end or part.
///
/// # Cost
/// A look-up reads two of sixteen trees at most, one after another under their read locks, and takes a step for each
/// prefix that matches or forks from one, never more than the text's bytes. It allocates nothing but room in `out`. A
/// change takes the write lock of one tree and a step for each byte of the prefix.
pub struct PrefixIndex {
    shards: Shards,
    regions: RegionTable,
}

impl PrefixIndex {
    /// An empty index; up to 190 KiB, most of it the table of regions.
    pub fn new() -> Self {
        Self { shards: Shards::new(BYTES), regions: RegionTable::new() }
    }

    /// Adds a target to a prefix, or replaces its options; returns the previous ones.
    ///
    /// # Panics
    /// If one tree would hold more than 134 million nodes.
    pub fn insert(&self, prefix: &[u8], target: TargetId, options: u32) -> Option<u32> {
        let inserted = self.shards.insert(self.place_of(prefix), &path(prefix), Entry { target, options });
        if inserted.previous != Some(options) {
            self.regions.bump_prefix(prefix);
        }
        inserted.previous
    }

    /// Removes a target from a prefix; returns its options.
    pub fn remove(&self, prefix: &[u8], target: TargetId) -> Option<u32> {
        let (_, removed) = self.shards.remove(self.place_of(prefix), &path(prefix), target)?;
        self.regions.bump_prefix(prefix);
        Some(removed.options)
    }

    /// Appends one entry for each (prefix, target) whose prefix `text` begins with; a target may occur several times. A
    /// prefix's targets come in order.
    ///
    /// Changes made by other threads meanwhile are seen or not, each as a whole.
    pub fn matches(&self, text: &[u8], out: &mut Vec<Entry>) {
        let mut look_in = |shard| self.shards.read(shard, |tree| tree.matches_text(text, out));
        let visits_short = !self.shards.is_empty(SHORT);
        if visits_short {
            look_in(SHORT.shard);
        }
        let long = self.place_of(text);
        let was_visited = visits_short && long.shard == SHORT.shard;
        if long.depth == LONG_DEPTH && !was_visited && !self.shards.is_empty(long) {
            look_in(long.shard);
        }
    }

    /// The regions a text's result depends on.
    pub fn regions(&self, text: &[u8]) -> Regions {
        self.regions.of_text(text)
    }

    /// A number that changes whenever the result of a text with these regions may have changed. Read it before the
    /// look-up whose result it is to guard.
    ///
    /// Cost: five atomic loads. A change is seen here at the latest when the call that made it returns.
    pub fn generation(&self, regions: &Regions) -> u64 {
        self.regions.generation(regions)
    }

    /// A guard for the result of a look-up. Make it before the look-up.
    pub fn guard(&self, text: &[u8]) -> Guard {
        self.regions.guard(self.regions.of_text(text))
    }

    /// Whether a result is as a look-up would find it now: nothing in its regions has changed since its guard was made.
    /// Cost as of [`generation`](Self::generation).
    #[inline]
    pub fn is_current(&self, guard: &Guard) -> bool {
        self.regions.is_current(guard)
    }

    /// Prefixes held. Visits every tree.
    pub fn prefix_count(&self) -> usize {
        self.shards.sum(Tree::filter_count)
    }

    /// Entries held: (prefix, target) pairs. Visits every tree.
    pub fn entry_count(&self) -> usize {
        self.shards.sum(Tree::entry_count)
    }

    /// Bytes of memory held, with the unused capacity of its structures and without the allocator's own. Visits every
    /// page: for metrics.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.regions.memory_bytes() + self.shards.memory_bytes()
    }

    /// Where a prefix belongs; for a text, where the long ones of its prefixes do.
    fn place_of(&self, prefix: &[u8]) -> ShardPlace {
        match prefix.get(..SPREAD_BYTES) {
            Some(beginning) => ShardPlace { shard: self.shards.shard_of(beginning), depth: LONG_DEPTH },
            None => SHORT,
        }
    }
}

impl Default for PrefixIndex {
    fn default() -> Self {
        Self::new()
    }
}

/// A prefix's bytes, and that anything may follow.
fn path(prefix: &[u8]) -> Path<u8> {
    Path { levels: SmallVec::from_slice(prefix), is_below: true }
}
