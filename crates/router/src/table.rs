//! A hash table of 27-bit ids that grows and shrinks a little at a time.
//!
//! The table stores no keys: whoever owns an id can say what its key is. It is a linear-hashed row of segments, each an
//! open-addressed array of its own size:
//!
//! ```text
//! slot  63 ....... 46 | 45 ....... 27 | 26 ....... 0      empty: all ones; removed: all ones but the last
//!        place in the   segment:        id
//!        segment        the low L or
//!                       L+1 bits
//! ```
//!
//! Above the id a slot has what the table uses of the hash. So a segment is rebuilt, split or merged without a look at what
//! the ids stand for, which lies all over the memory.
//!
//! When the segments hold 256 ids each on average, one of them is split in two; when they hold 64, two are merged. A
//! full segment is rebuilt a quarter larger. So no insertion touches more than some 600 slots, and eight bytes a slot
//! at 64 to 80 % occupancy are all there is to pay for an id.

/// Ids below this one can be stored.
pub(crate) const ID_LIMIT: u32 = (1 << ID_BITS) - 2;

const ID_BITS: u32 = 27;
const ID_MASK: u64 = (1 << ID_BITS) - 1;

/// Bits of the hash that choose the place in a segment.
const PLACE_BITS: u32 = 18;

/// Bits of the hash that choose the segment: with as many segments every id there can be has room.
const SEGMENT_MASK: usize = (1 << (64 - ID_BITS - PLACE_BITS)) - 1;

/// A slot never used since the segment was built: a search ends here.
const EMPTY: u64 = u64::MAX;

/// A slot whose id was removed: a search goes on.
const REMOVED: u64 = u64::MAX - 1;

/// Ids per segment, on average, above which a segment is split.
const SPLIT_LOAD: usize = 256;

/// Ids per segment, on average, below which two segments are merged.
const MERGE_LOAD: usize = 64;

#[derive(Default)]
struct Segment {
    slots: Box<[u64]>,
    live_count: u32,
    /// Slots that are not [`EMPTY`].
    used_count: u32,
}

/// Ids by hash.
pub(crate) struct Table {
    segments: Vec<Segment>,
    live_count: usize,
}

/// A slot with this id, found by this hash.
#[inline]
const fn slot_of(hash: u64, id: u32) -> u64 {
    hash & !ID_MASK | id as u64
}

/// Where a search for `hash`, or for what a slot has of it, starts in a segment of `len` slots.
#[inline]
const fn home_of(hash: u64, len: usize) -> usize {
    (((hash >> (64 - PLACE_BITS)) * len as u64) >> PLACE_BITS) as usize
}

impl Segment {
    /// A segment of these slots with room for some more.
    fn build(kept: &[u64]) -> Self {
        let mut slots = vec![EMPTY; (kept.len() * 25 / 16).max(4)].into_boxed_slice();
        for &slot in kept {
            let mut at = home_of(slot, slots.len());
            while slots[at] != EMPTY {
                at = if at + 1 == slots.len() { 0 } else { at + 1 };
            }
            slots[at] = slot;
        }
        let count = kept.len() as u32;
        Self { slots, live_count: count, used_count: count }
    }

    /// The slots that hold ids.
    fn live(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().copied().filter(|&slot| slot < REMOVED)
    }

    /// The place of the first id with this hash that `is_it` accepts.
    #[inline]
    fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<usize> {
        let slots = &*self.slots;
        let mut at = home_of(hash, slots.len());
        // A segment always has empty slots, so the search ends.
        loop {
            let slot = *slots.get(at)?;
            if slot == EMPTY {
                return None;
            }
            if (slot ^ hash) & !ID_MASK == 0 && slot != REMOVED && is_it((slot & ID_MASK) as u32) {
                return Some(at);
            }
            at += 1;
            if at == slots.len() {
                at = 0;
            }
        }
    }

    /// Stores an id, if that leaves a fifth of the slots empty.
    fn try_insert(&mut self, slot: u64) -> bool {
        if (self.used_count as usize + 1) * 5 > self.slots.len() * 4 {
            return false;
        }
        let mut at = home_of(slot, self.slots.len());
        while self.slots[at] < REMOVED {
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
        self.used_count += u32::from(self.slots[at] == EMPTY);
        self.slots[at] = slot;
        self.live_count += 1;
        true
    }

    fn remove_at(&mut self, at: usize) {
        self.live_count -= 1;
        let next = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        if self.slots[next] != EMPTY {
            self.slots[at] = REMOVED;
            return;
        }
        // Nothing lies behind: this slot and the removed ones before it end every search anyway.
        self.slots[at] = EMPTY;
        self.used_count -= 1;
        let mut at = at;
        loop {
            at = at.checked_sub(1).unwrap_or(self.slots.len() - 1);
            if self.slots[at] != REMOVED {
                break;
            }
            self.slots[at] = EMPTY;
            self.used_count -= 1;
        }
    }
}

impl Table {
    /// An empty table.
    pub(crate) const fn new() -> Self {
        Self { segments: Vec::new(), live_count: 0 }
    }

    /// The id with this hash that `is_it` accepts. `is_it` may see ids of other keys too: it must compare the whole key.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.segments.is_empty() {
            return None;
        }
        let segment = &self.segments[self.segment_of(hash)];
        segment.find(hash, is_it).map(|at| (segment.slots[at] & ID_MASK) as u32)
    }

    /// Adds an id that is not there.
    pub(crate) fn insert(&mut self, hash: u64, id: u32) {
        debug_assert!(id < ID_LIMIT);
        if self.live_count >= self.segments.len() * SPLIT_LOAD {
            self.split();
        }
        let at = self.segment_of(hash);
        let segment = &mut self.segments[at];
        let slot = slot_of(hash, id);
        if !segment.try_insert(slot) {
            let mut kept = Vec::with_capacity(segment.live_count as usize + 1);
            kept.extend(segment.live());
            kept.push(slot);
            *segment = Segment::build(&kept);
        }
        self.live_count += 1;
    }

    /// Removes an id that is there.
    pub(crate) fn remove(&mut self, hash: u64, id: u32) {
        let at = self.segment_of(hash);
        let segment = &mut self.segments[at];
        let place =
            segment.find(hash, |other| other == id).expect("an id is removed by the hash it was added with");
        segment.remove_at(place);
        self.live_count -= 1;
        if self.live_count == 0 {
            *self = Self::new();
        } else if self.live_count < self.segments.len() * MERGE_LOAD && self.segments.len() > 1 {
            self.merge();
        } else {
            let segment = &mut self.segments[at];
            if (segment.live_count as usize) * 4 < segment.slots.len() && segment.slots.len() > 16 {
                *segment = Segment::build(&segment.live().collect::<Vec<_>>());
            }
        }
    }

    /// Puts `new` in the place of `old`, which has the same hash.
    pub(crate) fn replace(&mut self, hash: u64, old: u32, new: u32) {
        let at = self.segment_of(hash);
        let segment = &mut self.segments[at];
        let place = segment
            .find(hash, |other| other == old)
            .expect("an id is replaced by the hash it was added with");
        segment.slots[place] = slot_of(hash, new);
    }

    /// Bytes held, used or not.
    pub(crate) fn memory_bytes(&self) -> usize {
        let slots: usize = self.segments.iter().map(|segment| segment.slots.len()).sum();
        slots * size_of::<u64>() + self.segments.capacity() * size_of::<Segment>()
    }

    /// The segment of a hash, or of what a slot has of it.
    #[inline]
    fn segment_of(&self, hash: u64) -> usize {
        let count = self.segments.len();
        let mask = count.next_power_of_two() - 1;
        let at = (hash >> ID_BITS) as usize & SEGMENT_MASK & mask;
        if at < count { at } else { at & (mask >> 1) }
    }

    /// Adds a segment and moves to it what belongs there, all from one other.
    fn split(&mut self) {
        let new = self.segments.len();
        self.segments.push(Segment::default());
        if new == 0 {
            self.segments[0] = Segment::build(&[]);
            return;
        }
        let old = new - (new + 1).next_power_of_two() / 2;
        let (stay, go): (Vec<_>, Vec<_>) =
            self.segments[old].live().partition(|&slot| self.segment_of(slot) == old);
        self.segments[old] = Segment::build(&stay);
        self.segments[new] = Segment::build(&go);
    }

    /// Takes the last segment away again.
    fn merge(&mut self) {
        let last = self.segments.pop().expect("merged only when there are two");
        let count = self.segments.len();
        let into = count - (count + 1).next_power_of_two() / 2;
        let kept: Vec<_> = self.segments[into].live().chain(last.live()).collect();
        self.segments[into] = Segment::build(&kept);
        if self.segments.capacity() > 4 * self.segments.len() {
            self.segments.shrink_to(2 * self.segments.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Seeds;

    #[test]
    fn ids_are_found_until_they_are_removed() {
        let seeds = Seeds::new();
        let hash = |id| seeds.hash_pair(1, id);
        let found = |table: &Table, id| table.find(hash(id), |other| other == id).is_some();
        const IDS: u32 = 60_000;
        let mut table = Table::new();
        for id in 0..IDS {
            table.insert(hash(id), id);
            assert!(found(&table, id) && !found(&table, id + 1));
        }
        assert!((0..IDS).all(|id| found(&table, id)));
        assert!(table.memory_bytes() < 14 * IDS as usize, "{} bytes", table.memory_bytes());
        // An odd factor takes every id once, in another order.
        for id in (0..IDS).map(|n| n * 7919 % IDS) {
            table.remove(hash(id), id);
            assert!(!found(&table, id));
        }
        assert_eq!(table.memory_bytes(), 0);
    }

    /// What one insertion or removal can touch is a segment, or two that become one.
    #[test]
    fn no_segment_grows_long() {
        const SLOTS_MAX: usize = 900;
        let seeds = Seeds::new();
        let mut table = Table::new();
        let longest = |table: &Table| table.segments.iter().map(|segment| segment.slots.len()).max();
        for id in 0..100_000 {
            table.insert(seeds.hash_pair(1, id), id);
            if id % 1000 == 0 {
                assert!(longest(&table).unwrap() < SLOTS_MAX);
            }
        }
        for id in 0..99_999 {
            table.remove(seeds.hash_pair(1, id), id);
            if id % 1000 == 0 {
                assert!(longest(&table).unwrap() < SLOTS_MAX);
            }
        }
    }

    #[test]
    fn ids_with_one_hash_are_told_apart() {
        let mut table = Table::new();
        for id in 0..500 {
            table.insert(42, id);
        }
        table.replace(42, 7, 700);
        for id in (0..500).filter(|&id| id != 7).chain([700]) {
            assert_eq!(table.find(42, |other| other == id), Some(id));
        }
        for id in (0..500).filter(|&id| id != 7).chain([700]) {
            table.remove(42, id);
        }
        assert_eq!(table.memory_bytes(), 0);
    }
}
