//! A hash table of 27-bit ids that grows and shrinks a little at a time, at some five bytes an id.
//!
//! The table stores no keys: whoever owns an id can say what its key is. It is a linear-hashed row of segments, each an
//! open-addressed array of groups of sixteen slots, a group being one cache line. A slot has an id and as much of the
//! hash as fits beside it:
//!
//! ```text
//! hash  31 ....... D+R | D+R-1 ....... D | D-1 ....... 0
//!        not kept        kept              the segment
//! slot  31 ....... 32-R | 31-R ...... 0                   empty: all ones; removed: all ones but the last
//!        kept of the      id
//!        hash
//! ```
//!
//! D bits lead to a segment; R is what its ids leave of 32. Sixty thousand ids leave 15 bits, sixty million 6.
//!
//! An id is in the first group from its home on that had room. A search compares a group's sixteen slots at once,
//! without a branch for each, and most searches end in the first group: so the processor can foresee its way, and goes
//! on to what the id leads to while the group is on its way from memory.
//!
//! When a segment is split, the first bit kept says which ids go, and is then known of all: so splits, merges and
//! rebuilds look at nothing but slots. If ids are dense, then as often as the segments double in number and D grows by
//! one, the ids need one bit more, and R falls by one: no bit is missing. If they are not, a segment may run short of
//! bits; then its hashes are asked of whoever owns the ids.
//!
//! When the segments hold 1,024 ids each on average, one of them is split in two; when they hold 256, two are merged. A
//! full segment is rebuilt a quarter larger. So no change moves more than some 2,500 slots, which lie side by side, and
//! four bytes a slot at 70 to 87 % occupancy are all there is to pay for an id.

use std::iter::{empty, once};

/// Ids below this one can be stored.
pub(crate) const ID_LIMIT: u32 = (1 << ID_BITS_MAX) - 2;

/// Bits of the widest id.
const ID_BITS_MAX: u32 = 27;

/// Bits that every segment has for ids, so that the first few ids do not widen it again and again.
const ID_BITS_MIN: u32 = 12;

/// Slots in a group.
const GROUP_SLOTS: usize = 16;

/// A segment with fewer bits of its hashes is given more, if ids leave more.
const FEW_HASH_BITS: u32 = 11;

/// A slot never used since the segment was built.
const EMPTY: u32 = u32::MAX;

/// A slot whose id was removed.
const REMOVED: u32 = u32::MAX - 1;

/// Ids per segment, on average, above which a segment is split.
const SPLIT_LOAD: usize = 1024;

/// Ids per segment, on average, below which two segments are merged.
const MERGE_LOAD: usize = 256;

/// Slots are filled from the first on: while the last one is empty, the group was never full.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Group([u32; GROUP_SLOTS]);

struct Segment {
    groups: Box<[Group]>,
    live_count: u32,
    /// Slots that are not [`EMPTY`].
    used_count: u32,
    /// Bits of the hash that lead here.
    depth: u32,
    /// Bits of a slot that are the id's.
    id_bits: u32,
}

/// Ids by hash.
pub(crate) struct Table {
    segments: Vec<Segment>,
    live_count: usize,
}

/// An id with what is known of its hash.
#[derive(Clone, Copy)]
struct Held {
    hash: u32,
    id: u32,
}

/// What the table uses of a hash.
#[inline]
const fn short(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Bits that a segment with this id has for ids: so many that the id is neither of the two marks.
const fn bits_for(id: u32) -> u32 {
    let bits = u32::BITS - (id + 2).leading_zeros();
    if bits < ID_BITS_MIN { ID_BITS_MIN } else { bits }
}

impl Group {
    const UNUSED: Self = Self([EMPTY; GROUP_SLOTS]);

    /// A bit for each slot whose hash bits are these; some may be empty or removed.
    #[inline]
    fn candidates(&self, tag: u32, tag_mask: u32) -> u32 {
        let bit = |(at, slot): (u32, u32)| if slot & tag_mask == tag { 1 << at } else { 0 };
        (0..).zip(self.0).map(bit).fold(0, |bits, bit| bits | bit)
    }

    #[inline]
    const fn was_full(&self) -> bool {
        self.0[GROUP_SLOTS - 1] != EMPTY
    }
}

impl Segment {
    /// A segment of these, of whose hashes `known_bits` are known, with room for some more.
    fn build(held: impl Iterator<Item = Held> + Clone, depth: u32, known_bits: u32) -> Self {
        let (count, id_max) =
            held.clone().fold((0, 0), |(count, id_max), held| (count + 1, held.id.max(id_max)));
        let id_bits = bits_for(id_max).max(u32::BITS + depth - known_bits);
        let groups = (count * 10_usize / 7).max(1).div_ceil(GROUP_SLOTS);
        let groups = vec![Group::UNUSED; groups].into_boxed_slice();
        let mut segment = Self { groups, live_count: 0, used_count: 0, depth, id_bits };
        held.for_each(|held| segment.insert(held));
        segment
    }

    /// All ids, with what is known of their hashes; `number` is the segment's.
    fn held(&self, number: usize) -> impl Iterator<Item = Held> + Clone {
        let (id_bits, depth) = (self.id_bits, self.depth);
        let low = number as u32;
        self.groups
            .iter()
            .flat_map(|group| group.0)
            .filter(|&slot| slot < REMOVED)
            .map(move |slot| Held { hash: slot >> id_bits << depth | low, id: slot & !(u32::MAX << id_bits) })
    }

    /// Bits of a hash that are known of all ids, those that led here included.
    const fn known_bits(&self) -> u32 {
        self.depth + u32::BITS - self.id_bits
    }

    const fn slot_count(&self) -> usize {
        self.groups.len() * GROUP_SLOTS
    }

    /// What slots with this hash have beside the id.
    #[inline]
    const fn tag_of(&self, hash: u32) -> u32 {
        hash >> self.depth << self.id_bits
    }

    /// Where a search for ids with this tag starts.
    #[inline]
    const fn home_of(&self, tag: u32) -> usize {
        ((tag as u64 * self.groups.len() as u64) >> u32::BITS) as usize
    }

    /// The group behind another.
    #[inline]
    const fn next(&self, at: usize) -> usize {
        if at + 1 == self.groups.len() { 0 } else { at + 1 }
    }

    /// Group, place and id of the first with this hash that `is_it` accepts.
    #[inline]
    fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<(usize, usize, u32)> {
        let tag_mask = u32::MAX << self.id_bits;
        let tag = self.tag_of(hash);
        let mut at = self.home_of(tag);
        // An eighth of the slots is empty, so there is a group that was never full.
        loop {
            let group = self.groups.get(at)?;
            let mut candidates = group.candidates(tag, tag_mask);
            while candidates != 0 {
                let place = candidates.trailing_zeros() as usize;
                let slot = group.0[place];
                let id = slot & !tag_mask;
                if slot < REMOVED && is_it(id) {
                    return Some((at, place, id));
                }
                candidates &= candidates - 1;
            }
            if !group.was_full() {
                return None;
            }
            at = self.next(at);
        }
    }

    /// Whether an id can be stored, and an eighth of the slots stays empty.
    const fn has_room(&self, id: u32) -> bool {
        (self.used_count as usize + 1) * 8 <= self.slot_count() * 7 && bits_for(id) <= self.id_bits
    }

    /// Stores an id, for which there is room.
    fn insert(&mut self, held: Held) {
        let tag = self.tag_of(held.hash);
        let mut at = self.home_of(tag);
        let place = loop {
            if let Some(place) = self.groups[at].0.iter().position(|&slot| slot >= REMOVED) {
                break place;
            }
            at = self.next(at);
        };
        let slot = &mut self.groups[at].0[place];
        self.used_count += u32::from(*slot == EMPTY);
        self.live_count += 1;
        *slot = tag | held.id;
    }

    fn remove_at(&mut self, at: usize, place: usize) {
        self.live_count -= 1;
        let group = &mut self.groups[at];
        if group.was_full() {
            group.0[place] = REMOVED;
        } else {
            // Every search that comes here ends here.
            self.used_count -= 1;
            group.0[place] = EMPTY;
        }
    }
}

impl Table {
    /// An empty table.
    pub(crate) const fn new() -> Self {
        Self { segments: Vec::new(), live_count: 0 }
    }

    /// The id with this hash that `is_it` accepts. `is_it` may see ids of other keys too: it must compare the whole
    /// key.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.segments.is_empty() {
            return None;
        }
        let hash = short(hash);
        let (.., id) = self.segments[self.segment_of(hash)].find(hash, is_it)?;
        Some(id)
    }

    /// Adds an id that is not there. `hash_of` gives the hash of any id in the table.
    pub(crate) fn insert(&mut self, hash: u64, id: u32, hash_of: impl Fn(u32) -> u64) {
        debug_assert!(id < ID_LIMIT);
        if self.live_count >= self.segments.len() * SPLIT_LOAD {
            self.split(&hash_of);
        }
        let held = Held { hash: short(hash), id };
        let number = self.segment_of(held.hash);
        let segment = &mut self.segments[number];
        if segment.has_room(id) {
            segment.insert(held);
        } else {
            let all = segment.held(number).chain(once(held));
            *segment = Segment::build(all, segment.depth, segment.known_bits());
        }
        self.live_count += 1;
    }

    /// Removes an id that is there.
    pub(crate) fn remove(&mut self, hash: u64, id: u32) {
        let hash = short(hash);
        let number = self.segment_of(hash);
        let segment = &mut self.segments[number];
        let (at, place, _) =
            segment.find(hash, |other| other == id).expect("an id is removed by the hash it was added with");
        segment.remove_at(at, place);
        self.live_count -= 1;
        if self.live_count == 0 {
            *self = Self::new();
            return;
        }
        if self.live_count < self.segments.len() * MERGE_LOAD && self.segments.len() > 1 {
            self.merge();
            return;
        }
        let segment = &mut self.segments[number];
        if (segment.live_count as usize) * 4 < segment.slot_count() && segment.groups.len() > 1 {
            *segment = Segment::build(segment.held(number), segment.depth, segment.known_bits());
        }
    }

    /// Puts `new` in the place of `old`, which has the same hash. `hash_of` is as for [`insert`](Self::insert).
    pub(crate) fn replace(&mut self, hash: u64, old: u32, new: u32, hash_of: impl Fn(u32) -> u64) {
        let number = self.segment_of(short(hash));
        let segment = &mut self.segments[number];
        if bits_for(new) > segment.id_bits {
            self.remove(hash, old);
            return self.insert(hash, new, hash_of);
        }
        let (at, place, _) = segment
            .find(short(hash), |other| other == old)
            .expect("an id is replaced by the hash it was added with");
        segment.groups[at].0[place] = segment.tag_of(short(hash)) | new;
    }

    /// Bytes held, used or not.
    pub(crate) fn memory_bytes(&self) -> usize {
        let slots: usize = self.segments.iter().map(Segment::slot_count).sum();
        slots * size_of::<u32>() + self.segments.capacity() * size_of::<Segment>()
    }

    /// The segment of a hash, of which as many bits must be known as lead to a segment.
    #[inline]
    fn segment_of(&self, hash: u32) -> usize {
        let count = self.segments.len();
        let mask = count.next_power_of_two() - 1;
        let at = hash as usize & mask;
        if at < count { at } else { at & (mask >> 1) }
    }

    /// Adds a segment and moves to it what belongs there, all from one other.
    fn split(&mut self, hash_of: &impl Fn(u32) -> u64) {
        let new = self.segments.len();
        if new == 0 {
            self.segments.push(Segment::build(empty(), 0, u32::BITS));
            return;
        }
        let half = (new + 1).next_power_of_two() / 2;
        let old = new - half;
        let segment = &self.segments[old];
        let mut all = Vec::with_capacity(segment.live_count as usize);
        all.extend(segment.held(old));
        let (depth, mut known_bits) = (segment.depth + 1, segment.known_bits());
        let id_max = all.iter().map(|held| held.id).max().unwrap_or(0);
        if known_bits - depth < FEW_HASH_BITS.min(u32::BITS - bits_for(id_max)) {
            all.iter_mut().for_each(|held| held.hash = short(hash_of(held.id)));
            known_bits = u32::BITS;
        }
        let goes = |held: &Held| held.hash as usize & half != 0;
        let all = all.iter().copied();
        self.segments[old] = Segment::build(all.clone().filter(|held| !goes(held)), depth, known_bits);
        self.segments.push(Segment::build(all.filter(goes), depth, known_bits));
    }

    /// Takes the last segment away again.
    fn merge(&mut self) {
        let last = self.segments.pop().expect("merged only when there are two");
        let count = self.segments.len();
        let into = count - (count + 1).next_power_of_two() / 2;
        let segment = &self.segments[into];
        let all = segment.held(into).chain(last.held(count));
        let known_bits = segment.known_bits().min(last.known_bits());
        self.segments[into] = Segment::build(all, segment.depth - 1, known_bits);
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
            table.insert(hash(id), id, hash);
            assert!(found(&table, id) && !found(&table, id + 1));
        }
        assert!((0..IDS).all(|id| found(&table, id)));
        assert!(table.memory_bytes() < 6 * IDS as usize, "{} bytes", table.memory_bytes());
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
            table.insert(seeds.hash_pair(1, id), id, |id| seeds.hash_pair(1, id));
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

    /// A high id leaves few bits of a hash, which lead to few segments; when there are many, more bits are asked for.
    #[test]
    fn a_table_that_was_sparse_has_short_searches() {
        let seeds = Seeds::new();
        let hash = |id| seeds.hash_pair(1, id);
        let mut table = Table::new();
        let ids = || (ID_LIMIT - 8..ID_LIMIT).chain(100_000..400_000);
        for id in ids() {
            table.insert(hash(id), id, hash);
        }
        let mut seen_count = 0;
        for id in ids() {
            let found = table.find(hash(id), |other| {
                seen_count += 1;
                other == id
            });
            assert_eq!(found, Some(id));
        }
        assert!(seen_count < 3 * table.live_count, "{seen_count} looked at");
    }

    #[test]
    fn an_id_gives_way_to_a_far_greater_one() {
        const FAR: u32 = 100_000_000;
        let seeds = Seeds::new();
        let hash = |id| seeds.hash_pair(1, id % FAR);
        let mut table = Table::new();
        (0..100).for_each(|id| table.insert(hash(id), id, hash));
        (0..100).for_each(|id| table.replace(hash(id), id, FAR + id, hash));
        for id in 0..100 {
            assert_eq!(table.find(hash(id), |other| other % FAR == id), Some(FAR + id));
        }
    }

    #[test]
    fn ids_with_one_hash_are_told_apart() {
        let mut table = Table::new();
        for id in 0..500 {
            table.insert(42, id, |_| 42);
        }
        table.replace(42, 7, 700, |_| 42);
        for id in (0..500).filter(|&id| id != 7).chain([700]) {
            assert_eq!(table.find(42, |other| other == id), Some(id));
        }
        for id in (0..500).filter(|&id| id != 7).chain([700]) {
            table.remove(42, id);
        }
        assert_eq!(table.memory_bytes(), 0);
    }
}
