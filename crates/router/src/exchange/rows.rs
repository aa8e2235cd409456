//! Sets by (exchange, key): a hash table that any number of threads read while one changes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;
use smallvec::SmallVec;

use super::set::Set;
use super::spine::Spine;

/// Rows per segment, on average, at which one segment is split.
const ROWS_PER_SEGMENT_MAX: usize = 12;

/// Rows per segment, on average, at which two segments are merged.
const ROWS_PER_SEGMENT_MIN: usize = 4;

/// One key of one exchange.
#[derive(Clone)]
struct Row<T> {
    exchange: u32,
    /// Where its key ends in the segment's keys; it starts where the row's before ends.
    key_end: u32,
    set: Set<T>,
}

/// Rows whose hashes end alike. Immutable: a change replaces the segment.
///
/// Keys lie side by side rather than each on its own, so that copying a segment touches no memory but the segment's.
struct Segment<T> {
    /// The hash of each row.
    tags: Tags,
    rows: Box<[Row<T>]>,
    keys: Box<[u8]>,
}

/// Most segments have their tags within, which saves a look-up a step.
type Tags = SmallVec<[u32; 16]>;

/// Where a row is or would be.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) hash: u64,
    pub(super) exchange: u32,
    pub(super) key: &'a [u8],
}

/// The table: linear hashing over segments of about eight rows, each behind an atomic pointer.
///
/// A look-up is three dependent loads and one compare of 32 bits for each row of a segment; it takes no lock and writes
/// to no memory that another thread reads often. A change copies one segment, and every few changes one segment is split
/// or two are merged, so the table never moves as a whole. Changes are made by one thread at a time, which the caller sees to.
///
/// **Invariant:** a row that is there throughout a look-up is found. A split publishes the new segment, then the new
/// count, then the shortened old segment; a merge the joined segment, then the count, then the empty one. A reader
/// that found nothing looks at the count again, whose version never repeats.
pub(super) struct RowTable<T> {
    slots: Spine<ArcSwapOption<Segment<T>>>,
    /// Segments in the low 32 bits, splits and merges so far above them.
    shape: AtomicU64,
    row_count: AtomicUsize,
}

impl<T: Clone> RowTable<T> {
    pub(super) fn new() -> Self {
        Self { slots: Spine::new(), shape: AtomicU64::new(1), row_count: AtomicUsize::new(0) }
    }

    /// Shows the set of a row to `look`, if there is such a row.
    #[inline]
    pub(super) fn find<R>(&self, place: Place<'_>, look: impl FnOnce(&Set<T>) -> R) -> Option<R> {
        let tag = tag_of(place.hash);
        let mut shape = self.shape.load(Ordering::Acquire);
        loop {
            if let Some(slot) = self.slots.get(segment_of(tag, shape)) {
                let segment = slot.load();
                if let Some(segment) = &*segment
                    && let Some(at) = segment.find(tag, place)
                {
                    return Some(look(&segment.rows[at].set));
                }
            }
            let now = self.shape.load(Ordering::Acquire);
            if now == shape {
                return None;
            }
            shape = now;
        }
    }

    /// Puts what `change` makes of a row's set in its place. An empty set stands for no row, before and after.
    pub(super) fn update(&self, place: Place<'_>, change: impl FnOnce(&Set<T>) -> Set<T>) {
        let tag = tag_of(place.hash);
        let index = segment_of(tag, self.shape.load(Ordering::Relaxed));
        let slot = self.slots.get_or_make(index);
        let old = slot.load_full();
        let found = old.as_deref().and_then(|old| old.find(tag, place));
        let empty = Set::default();
        let set = change(match (&old, found) {
            (Some(old), Some(at)) => &old.rows[at].set,
            _ => &empty,
        });
        let mut new = Builder::new(old.as_deref().map_or(0, |old| old.rows.len()) + 1);
        if let Some(old) = &old {
            (0..old.rows.len()).filter(|at| Some(*at) != found).for_each(|at| new.copy(old, at));
        }
        let is_there = !set.is_empty();
        if is_there {
            new.push(tag, place.exchange, place.key, set);
        }
        slot.store(new.finish());
        match (found.is_some(), is_there) {
            (false, true) => self.grown(),
            (true, false) => self.shrunk(),
            _ => {}
        }
    }

    /// Bytes held. Visits every row.
    pub(super) fn memory_bytes(&self) -> usize {
        let segments: usize = (0..count_of(self.shape.load(Ordering::Acquire)))
            .filter_map(|index| self.slots.get(index)?.load_full())
            .map(|segment| {
                let sets: usize = segment.rows.iter().map(|row| row.set.memory_bytes()).sum();
                let tags = if segment.tags.spilled() { size_of_val(&*segment.tags) } else { 0 };
                // An `Arc` keeps two counts before its content.
                let own = 2 * size_of::<usize>() + size_of::<Segment<T>>();
                own + tags + size_of_val(&*segment.rows) + segment.keys.len() + sets
            })
            .sum();
        segments + self.slots.memory_bytes()
    }

    fn grown(&self) {
        let rows = self.row_count.fetch_add(1, Ordering::Relaxed) + 1;
        let shape = self.shape.load(Ordering::Relaxed);
        let count = count_of(shape);
        if rows <= count * ROWS_PER_SEGMENT_MAX {
            return;
        }
        let level = count.ilog2();
        let old_slot = self.slots.get_or_make(count - (1 << level));
        let new_slot = self.slots.get_or_make(count);
        let old = old_slot.load_full();
        let moves = |tag: u32| tag >> level & 1 == 1;
        let part = |is_moved: bool| {
            let old = old.as_deref()?;
            let mut part = Builder::new(old.rows.len());
            let places = (0..old.rows.len()).filter(|&at| moves(old.tags[at]) == is_moved);
            places.for_each(|at| part.copy(old, at));
            part.finish()
        };
        new_slot.store(part(true));
        self.shape.store(next_shape(shape, count + 1), Ordering::Release);
        old_slot.store(part(false));
    }

    fn shrunk(&self) {
        let rows = self.row_count.fetch_sub(1, Ordering::Relaxed) - 1;
        let shape = self.shape.load(Ordering::Relaxed);
        let count = count_of(shape);
        if count == 1 || rows >= count * ROWS_PER_SEGMENT_MIN {
            return;
        }
        let last = count - 1;
        let last_slot = self.slots.get_or_make(last);
        let buddy_slot = self.slots.get_or_make(last - (1 << last.ilog2()));
        let both = [buddy_slot.load_full(), last_slot.load_full()];
        let mut joined = Builder::new(both.iter().flatten().map(|segment| segment.rows.len()).sum());
        for segment in both.iter().flatten() {
            (0..segment.rows.len()).for_each(|at| joined.copy(segment, at));
        }
        buddy_slot.store(joined.finish());
        self.shape.store(next_shape(shape, last), Ordering::Release);
        last_slot.store(None);
    }
}

impl<T> Segment<T> {
    #[inline]
    fn find(&self, tag: u32, place: Place<'_>) -> Option<usize> {
        (self.tags.iter().enumerate())
            .filter(|&(_, other)| *other == tag)
            .find(|&(at, _)| self.rows[at].exchange == place.exchange && self.key(at) == place.key)
            .map(|(at, _)| at)
    }

    #[inline]
    fn key(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.rows[at - 1].key_end };
        &self.keys[start as usize..self.rows[at].key_end as usize]
    }
}

/// A segment in the making.
struct Builder<T> {
    tags: Tags,
    rows: Vec<Row<T>>,
    keys: Vec<u8>,
}

impl<T: Clone> Builder<T> {
    fn new(row_count_max: usize) -> Self {
        Self { tags: Tags::new(), rows: Vec::with_capacity(row_count_max), keys: Vec::new() }
    }

    fn push(&mut self, tag: u32, exchange: u32, key: &[u8], set: Set<T>) {
        self.tags.push(tag);
        self.keys.extend_from_slice(key);
        self.rows.push(Row { exchange, key_end: self.keys.len() as u32, set });
    }

    fn copy(&mut self, from: &Segment<T>, at: usize) {
        let row = &from.rows[at];
        self.push(from.tags[at], row.exchange, from.key(at), row.set.clone());
    }

    /// The segment; none if there are no rows.
    fn finish(self) -> Option<Arc<Segment<T>>> {
        let Self { tags, rows, keys } = self;
        (!rows.is_empty()).then(|| Arc::new(Segment { tags, rows: rows.into(), keys: keys.into() }))
    }
}

/// The bits of a hash that the table uses.
#[inline]
const fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[inline]
const fn count_of(shape: u64) -> usize {
    shape as u32 as usize
}

const fn next_shape(shape: u64, count: usize) -> u64 {
    ((shape >> 32) + 1) << 32 | count as u64
}

/// The segment of a tag: its low bits, one fewer where the segment they name was not split off yet.
#[inline]
const fn segment_of(tag: u32, shape: u64) -> usize {
    let count = count_of(shape);
    let level = count.ilog2();
    let at = tag as usize & ((2 << level) - 1);
    if at < count { at } else { at & ((1 << level) - 1) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::hash::Seeds;

    fn place(seeds: Seeds, key: &[u8; 4]) -> Place<'_> {
        Place { hash: seeds.hash_pair(1, u32::from_le_bytes(*key)), exchange: 1, key }
    }

    fn items(table: &RowTable<u32>, place: Place<'_>) -> Vec<u32> {
        let mut items = Vec::new();
        table.find(place, |set| set.visit(&mut |run: &[u32]| items.extend_from_slice(run)));
        items
    }

    #[test]
    fn rows_come_and_go_and_leave_nothing() {
        let (table, seeds) = (RowTable::new(), Seeds::new());
        let mut oracle: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut state = 1u64;
        for step in 0..40_000u32 {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            let number = (state >> 40) as u32 % 5000;
            let key = number.to_le_bytes();
            let is_growing = step % 20_000 < 14_000;
            let held = oracle.entry(number).or_default();
            if is_growing {
                table.update(place(seeds, &key), |set| set.with(step));
                held.push(step);
            } else if !held.is_empty() {
                table.update(place(seeds, &key), |set| set.without(0).0);
                held.swap_remove(0);
            }
            assert_eq!(items(&table, place(seeds, &key)), *held);
        }
        for (number, held) in oracle {
            let key = number.to_le_bytes();
            assert_eq!(items(&table, place(seeds, &key)), held);
            if !held.is_empty() {
                table.update(place(seeds, &key), |_| Set::default());
            }
        }
        assert_eq!(table.row_count.load(Ordering::Relaxed), 0);
        assert_eq!(count_of(table.shape.load(Ordering::Relaxed)), 1, "segments were not merged");
    }

    #[test]
    fn a_row_that_stays_is_found_while_segments_split_and_merge() {
        let (table, seeds) = (RowTable::new(), Seeds::new());
        let change = |number: u32, to: Set<u32>| {
            let key = number.to_le_bytes();
            table.update(place(seeds, &key), |_| to);
        };
        let one = |item| Set::default().with(item);
        for number in 0..20 {
            change(number, one(number));
        }
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        for number in 0..20u32 {
                            let key = number.to_le_bytes();
                            assert_eq!(
                                items(&table, place(seeds, &key)),
                                [number],
                                "row {number} was missed"
                            );
                        }
                    }
                });
            }
            for _ in 0..60 {
                (20..600).for_each(|number| change(number, one(number)));
                (20..600).for_each(|number| change(number, Set::default()));
            }
            is_done.store(true, Ordering::Relaxed);
        });
    }
}
