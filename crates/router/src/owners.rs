//! The routes of one owner, so that they can be dropped in time proportional to them.
//!
//! An owner is whoever a target stands for: mostly another node, whose filters all lead to one target here. Its filters
//! are kept as a compressed bitmap of their [`FilterId`]s, a quarter of a byte to some four bytes each:
//! the index has their texts.

use meridian_types::TopicFilter;
use roaring::RoaringBitmap;

use crate::entry::TargetId;
use crate::index::{FilterId, Index};

/// All routes of one owner in an [`Index`].
///
/// **Invariant:** the target's entries in the index are those held here. So nobody else may insert or remove filters
/// for this target, and it is always used with the same index.
pub struct OwnedRoutes {
    target: TargetId,
    options: u32,
    /// Filters that the owner has said it wants.
    current: RoaringBitmap,
    /// Filters of before, still in the index, of which it is not known yet whether the owner still wants them.
    stale: RoaringBitmap,
}

/// What an insertion found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// The owner did not have the route.
    New,
    /// The owner had it, and it was marked as stale.
    Renewed,
    /// The owner had it already.
    Held,
}

/// What a removal found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The owner had the route.
    Current,
    /// The owner had it, and it was marked as stale.
    Stale,
    /// The owner had no such route.
    NotHeld,
}

/// How far dropping routes has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Routes dropped by this call.
    pub routes: usize,
    /// Routes that are still to be dropped.
    pub left: usize,
}

impl OwnedRoutes {
    /// No routes yet for `target`; each will have `options` in the index. Allocates nothing.
    pub fn new(target: TargetId, options: u32) -> Self {
        Self { target, options, current: RoaringBitmap::new(), stale: RoaringBitmap::new() }
    }

    /// The target that all routes lead to.
    pub const fn target(&self) -> TargetId {
        self.target
    }

    /// Adds a route. Cost: as of [`Index::insert`], and a step in a bitmap that may move up to 8 KiB.
    pub fn insert(&mut self, index: &Index, filter: TopicFilter<'_>) -> Insertion {
        let (FilterId(id), previous) = index.insert(filter, self.target, self.options);
        if !self.current.insert(id) {
            return Insertion::Held;
        }
        if previous.is_some() && self.stale.remove(id) { Insertion::Renewed } else { Insertion::New }
    }

    /// Removes a route. Cost: as of [`Index::remove`], and a step in a bitmap that may move up to 8 KiB.
    pub fn remove(&mut self, index: &Index, filter: TopicFilter<'_>) -> Removal {
        let Some((FilterId(id), _)) = index.remove(filter, self.target) else { return Removal::NotHeld };
        if self.current.remove(id) {
            return Removal::Current;
        }
        self.stale.remove(id);
        Removal::Stale
    }

    /// Marks every route as stale: it stays in the index until the owner wants it again or it is dropped.
    ///
    /// Cost: merges two bitmaps, about a millisecond for a million routes; the index is not touched.
    pub fn mark_stale(&mut self) {
        self.stale |= std::mem::take(&mut self.current);
    }

    /// Drops up to `routes_max` stale routes; `dropped` is called with each when it is gone from the index.
    ///
    /// Cost: for each route what [`Index::filter_text`] and [`Index::remove`] cost, a microsecond or two, whatever the
    /// index holds besides. No lock is held from one route to the next, so a caller with other work decides by
    /// `routes_max` how long that waits.
    pub fn drop_stale(
        &mut self,
        index: &Index,
        routes_max: usize,
        dropped: &mut dyn FnMut(TopicFilter<'_>),
    ) -> Dropped {
        let mut routes = 0;
        for id in self.stale.iter().take(routes_max) {
            let text = index.filter_text(FilterId(id)).expect("a filter with a target has a text");
            let filter = TopicFilter::new(&text).expect("the index holds valid filters only");
            index.remove(filter, self.target).expect("nobody else removes this target's routes");
            dropped(filter);
            routes += 1;
        }
        self.stale.remove_smallest(routes as u64);
        Dropped { routes, left: self.stale_count() }
    }

    /// Routes that the owner wants. Cost: a step for each 65,536 ids.
    pub fn current_count(&self) -> usize {
        self.current.len() as usize
    }

    /// Routes that are marked as stale. Cost: a step for each 65,536 ids.
    pub fn stale_count(&self) -> usize {
        self.stale.len() as usize
    }

    /// Bytes of memory held besides the index. Visits every container of both bitmaps.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + bitmap_bytes(&self.current) + bitmap_bytes(&self.stale)
    }
}

/// What a bitmap takes on the heap, with unused capacity: its containers and, for each, a key, a kind and a pointer.
pub(crate) fn bitmap_bytes(bitmap: &RoaringBitmap) -> usize {
    const CONTAINER_BYTES: usize = 40;
    const BITSET_BYTES: usize = 8 << 10;
    let statistics = bitmap.statistics();
    // The crate counts four bytes for each value of an array, which has two.
    let arrays = statistics.n_bytes_array_containers as usize / 2;
    let bitsets = statistics.n_bitset_containers as usize * BITSET_BYTES;
    let runs = statistics.n_bytes_run_containers as usize;
    statistics.n_containers as usize * CONTAINER_BYTES + arrays + bitsets + runs
}
