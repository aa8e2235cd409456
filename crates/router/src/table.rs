//! A hash table of 27-bit ids that grows and shrinks a little at a time.
//!
//! The table stores no keys: whoever owns an id can say what its key is. It is a linear-hashed row of segments, each an
//! open-addressed array of groups of eight slots, a group being one cache line:
//!
//! ```text
//! hash  63 ....... 46 | 45 ....... 32 | 31 ....... 27 | the rest is of no use
//!        group in the   segment: the    more of the
//!        segment        low L or L+1    segment
//!                       bits
//! group  8 x the upper half of a hash, 8 x (5 more bits of it, 27 of the id)
//! ```
//!
//! An id is in the first group from its home on that had room. A search compares a group's eight hashes at once, without a
//! branch for each, and nine searches in ten end in the first group: so the processor can foresee its way, and goes on
//! to what the id leads to while the group is on its way from memory.
//!
//! The group has all that the table uses of a hash. So a segment is rebuilt, split or merged without a look at what
//! the ids stand for, which lies all over the memory.
//!
//! When the segments hold 1,024 ids each on average, one of them is split in two; when they hold 256, two are merged. A
//! full segment is rebuilt a quarter larger. So no change moves more than some 2,500 slots, which lie side by side, and
//! eight bytes a slot at 64 to 80 % occupancy are all there is to pay for an id.

/// Ids below this one can be stored.
pub(crate) const ID_LIMIT: u32 = (1 << ID_BITS) - 2;

const ID_BITS: u32 = 27;
const ID_MASK: u32 = (1 << ID_BITS) - 1;

/// Slots in a group.
const GROUP_SLOTS: usize = 8;

/// Bits of the hash that choose the group in a segment.
const PLACE_BITS: u32 = 18;

/// Bits of the hash's upper half that choose the segment, before those beside the id do.
const SEGMENT_BITS: u32 = 32 - PLACE_BITS;

/// A slot never used since the segment was built: a search ends here.
const EMPTY: u32 = u32::MAX;

/// A slot whose id was removed: a search goes on.
const REMOVED: u32 = u32::MAX - 1;

/// Ids per segment, on average, above which a segment is split.
const SPLIT_LOAD: usize = 1024;

/// Ids per segment, on average, below which two segments are merged.
const MERGE_LOAD: usize = 256;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Group {
    /// The upper halves of hashes; where there is no id, anything.
    highs: [u32; GROUP_SLOTS],
    slots: [u32; GROUP_SLOTS],
}

#[derive(Default)]
struct Segment {
    groups: Box<[Group]>,
    live_count: u32,
    /// Slots that are not [`EMPTY`].
    used_count: u32,
}

/// Ids by hash.
pub(crate) struct Table {
    segments: Vec<Segment>,
    live_count: usize,
}

/// An id with what is kept of its hash.
#[derive(Clone, Copy)]
struct Held {
    high: u32,
    slot: u32,
}

impl Held {
    #[inline]
    const fn new(hash: u64, id: u32) -> Self {
        Self { high: (hash >> 32) as u32, slot: hash as u32 & !ID_MASK | id }
    }

    /// The hash, as far as it matters.
    #[inline]
    const fn hash(self) -> u64 {
        (self.high as u64) << 32 | self.slot as u64
    }
}

/// Where a search for `hash` starts in a segment of `len` groups.
#[inline]
const fn home_of(hash: u64, len: usize) -> usize {
    (((hash >> (64 - PLACE_BITS)) * len as u64) >> PLACE_BITS) as usize
}

impl Group {
    const UNUSED: Self = Self { highs: [0; GROUP_SLOTS], slots: [EMPTY; GROUP_SLOTS] };

    /// A bit for each slot with this half of a hash; the ids of some may have been removed.
    #[inline]
    fn candidates(&self, high: u32) -> u32 {
        let bit = |(at, held): (u32, u32)| if held == high { 1 << at } else { 0 };
        (0..).zip(self.highs).map(bit).fold(0, |bits, bit| bits | bit)
    }

    #[inline]
    fn has_empty(&self) -> bool {
        self.slots.contains(&EMPTY)
    }
}

impl Segment {
    /// A segment of these slots with room for some more.
    fn build(kept: &[Held]) -> Self {
        let groups = (kept.len() * 25 / 16).max(1).div_ceil(GROUP_SLOTS);
        let groups = vec![Group::UNUSED; groups].into_boxed_slice();
        let mut segment = Self { groups, live_count: 0, used_count: 0 };
        kept.iter().for_each(|&held| segment.insert(held));
        segment
    }

    fn live(&self) -> impl Iterator<Item = Held> {
        let held = |group: &Group| group.highs.into_iter().zip(group.slots);
        self.groups
            .iter()
            .flat_map(held)
            .map(|(high, slot)| Held { high, slot })
            .filter(|held| held.slot < REMOVED)
    }

    const fn slot_count(&self) -> usize {
        self.groups.len() * GROUP_SLOTS
    }

    /// The group behind another.
    #[inline]
    const fn next(&self, at: usize) -> usize {
        if at + 1 == self.groups.len() { 0 } else { at + 1 }
    }

    /// Group and slot of the first id with this hash that `is_it` accepts.
    #[inline]
    fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<(usize, usize)> {
        let mut at = home_of(hash, self.groups.len());
        // A segment always has empty slots, so the search ends.
        loop {
            let group = self.groups.get(at)?;
            let mut candidates = group.candidates((hash >> 32) as u32);
            while candidates != 0 {
                let place = candidates.trailing_zeros() as usize;
                let id = group.slots[place] & ID_MASK;
                if id < ID_LIMIT && is_it(id) {
                    return Some((at, place));
                }
                candidates &= candidates - 1;
            }
            if group.has_empty() {
                return None;
            }
            at = self.next(at);
        }
    }

    /// Whether a fifth of the slots stay empty if one more is used.
    const fn has_room(&self) -> bool {
        (self.used_count as usize + 1) * 5 <= self.slot_count() * 4
    }

    /// Stores an id, for which there is room.
    fn insert(&mut self, held: Held) {
        let mut at = home_of(held.hash(), self.groups.len());
        let place = loop {
            if let Some(place) = self.groups[at].slots.iter().position(|&slot| slot >= REMOVED) {
                break place;
            }
            at = self.next(at);
        };
        let group = &mut self.groups[at];
        self.used_count += u32::from(group.slots[place] == EMPTY);
        self.live_count += 1;
        group.highs[place] = held.high;
        group.slots[place] = held.slot;
    }

    fn remove_at(&mut self, (at, place): (usize, usize)) {
        self.live_count -= 1;
        let group = &mut self.groups[at];
        if group.has_empty() {
            // Every search that comes here ends here.
            self.used_count -= 1;
            group.slots[place] = EMPTY;
        } else {
            group.slots[place] = REMOVED;
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
        segment.find(hash, is_it).map(|(at, place)| segment.groups[at].slots[place] & ID_MASK)
    }

    /// Adds an id that is not there.
    pub(crate) fn insert(&mut self, hash: u64, id: u32) {
        debug_assert!(id < ID_LIMIT);
        if self.live_count >= self.segments.len() * SPLIT_LOAD {
            self.split();
        }
        let at = self.segment_of(hash);
        let segment = &mut self.segments[at];
        let held = Held::new(hash, id);
        if segment.has_room() {
            segment.insert(held);
        } else {
            let mut kept = Vec::with_capacity(segment.live_count as usize + 1);
            kept.extend(segment.live());
            kept.push(held);
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
            if (segment.live_count as usize) * 4 < segment.slot_count() && segment.groups.len() > 2 {
                *segment = Segment::build(&segment.live().collect::<Vec<_>>());
            }
        }
    }

    /// Puts `new` in the place of `old`, which has the same hash.
    pub(crate) fn replace(&mut self, hash: u64, old: u32, new: u32) {
        let at = self.segment_of(hash);
        let segment = &mut self.segments[at];
        let (at, place) = segment
            .find(hash, |other| other == old)
            .expect("an id is replaced by the hash it was added with");
        segment.groups[at].slots[place] = Held::new(hash, new).slot;
    }

    /// Bytes held, used or not.
    pub(crate) fn memory_bytes(&self) -> usize {
        let slots: usize = self.segments.iter().map(Segment::slot_count).sum();
        slots * size_of::<Held>() + self.segments.capacity() * size_of::<Segment>()
    }

    /// The segment of a hash.
    #[inline]
    fn segment_of(&self, hash: u64) -> usize {
        let count = self.segments.len();
        let mask = count.next_power_of_two() - 1;
        let low = (hash >> 32) as usize & ((1 << SEGMENT_BITS) - 1);
        let high = (hash as u32 >> ID_BITS) as usize;
        let at = (low | (high << SEGMENT_BITS)) & mask;
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
            self.segments[old].live().partition(|held| self.segment_of(held.hash()) == old);
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
        const SLOTS_MAX: usize = 3_600;
        let seeds = Seeds::new();
        let mut table = Table::new();
        let longest = |table: &Table| table.segments.iter().map(Segment::slot_count).max();
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
