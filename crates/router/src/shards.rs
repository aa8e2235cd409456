//! Trees with their locks, and counts that let a look-up pass a tree by.

use crate::entry::{Entry, TargetId};
use crate::hash::Seeds;
use crate::interner::{Key, Text};
use crate::lock::Lock;
use crate::sync::{AtomicUsize, Ordering};
use crate::tree::{FilterPlace, Inserted, Path, Removed, Tree};
use crate::words::{Grammar, Level};

/// Trees that the filters are spread over.
///
/// A model checker gets one, so that what it explores does not depend on a hash.
const SHARDS: usize = if cfg!(all(test, loom)) { 1 } else { 16 };

/// Bits of a hash that choose the shard.
const SHARD_BITS: u32 = 4;

/// Kinds of filters that are counted apart.
const DEPTHS: usize = 3;

/// One tree and its lock, on cache lines of its own.
#[repr(align(128))]
struct Shard(Lock<Tree>);

/// Filters of one shard by depth, or a few more while one is being removed, on a cache line of its own: readers' locks
/// are written all the time, these only when a filter comes or goes.
#[repr(align(64))]
#[derive(Default)]
struct Counts([AtomicUsize; DEPTHS]);

/// Where filters of one beginning are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShardPlace {
    /// Which tree.
    pub(crate) shard: usize,
    /// What leads there: a number below three, the same for a filter and for the look-ups that must find it.
    pub(crate) depth: usize,
}

/// Sixteen trees.
///
/// **Invariant:** a filter is counted before the lock of its insertion is released, and no longer only after it is
/// gone. So a look-up that must see a filter, because its insertion has returned, does not pass the shard by.
pub(crate) struct Shards {
    shards: Box<[Shard]>,
    counts: Box<[Counts]>,
    seeds: Seeds,
}

impl Shards {
    pub(crate) fn new(grammar: Grammar) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard(Lock::new(Tree::new(grammar)))).collect(),
            counts: (0..SHARDS).map(|_| Counts::default()).collect(),
            seeds: Seeds::new(),
        }
    }

    /// The shard of whatever begins so.
    #[inline]
    pub(crate) fn shard_of(&self, beginning: &[u8]) -> usize {
        (Text(beginning).hash(self.seeds) >> (64 - SHARD_BITS)) as usize % SHARDS
    }

    /// Adds a target to a filter that belongs at `at`.
    pub(crate) fn insert(&self, at: ShardPlace, filter: &Path<impl Level>, entry: Entry) -> Inserted {
        self.shards[at.shard].0.write(|tree| {
            let inserted = tree.insert(filter, entry);
            if inserted.is_new_filter {
                self.counts[at.shard].0[at.depth].fetch_add(1, Ordering::Release);
            }
            inserted
        })
    }

    /// Removes a target from a filter that belongs at `at`.
    pub(crate) fn remove(
        &self,
        at: ShardPlace,
        filter: &Path<impl Level>,
        target: TargetId,
    ) -> Option<(FilterPlace, Removed)> {
        let (place, removed) = self.shards[at.shard].0.write(|tree| {
            let place = tree.find(filter)?;
            Some((place, tree.remove(place, target)?))
        })?;
        self.finish_removal(at, &removed);
        Some((place, removed))
    }

    /// Removes a target from the filter at a place of a shard; returns the filter's text too. The caller passes it to
    /// [`finish_removal`](Self::finish_removal).
    pub(crate) fn remove_at(
        &self,
        shard: usize,
        place: FilterPlace,
        target: TargetId,
    ) -> Option<(String, Removed)> {
        self.shards[shard].0.write(|tree| {
            let text = tree.filter_text(place)?;
            Some((text, tree.remove(place, target)?))
        })
    }

    /// Counts a filter no longer, if a removal took its last target.
    pub(crate) fn finish_removal(&self, at: ShardPlace, removed: &Removed) {
        if removed.was_last {
            self.counts[at.shard].0[at.depth].fetch_sub(1, Ordering::Release);
        }
    }

    /// Whether a look-up may pass by the filters that belong at `at`.
    #[inline]
    pub(crate) fn is_empty(&self, at: ShardPlace) -> bool {
        self.counts[at.shard].0[at.depth].load(Ordering::Acquire) == 0
    }

    /// Looks into a tree. The lock is held meanwhile.
    #[inline]
    pub(crate) fn read<R>(&self, shard: usize, look: impl FnOnce(&Tree) -> R) -> R {
        self.shards[shard].0.read(look)
    }

    /// The sum of something over all trees, which are locked one after another.
    pub(crate) fn sum(&self, of: impl Fn(&Tree) -> usize) -> usize {
        (0..SHARDS).map(|shard| self.read(shard, &of)).sum()
    }

    /// Bytes held, used or not. Visits every page.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.shards)
            + self.shards.iter().map(|shard| shard.0.heap_bytes()).sum::<usize>()
            + size_of_val(&*self.counts)
            + self.sum(Tree::memory_bytes)
    }
}
