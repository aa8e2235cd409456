//! The targets of one filter, when it has more than one.
//!
//! A single target lies in the filter's node and never comes here. Up to 32 lie in a block of the heap, sorted; more
//! make a large set: runs of up to 512, sorted, in a sorted row.

use crate::arena::{Arena, Slot};
use crate::entry::{Entry, TargetId};
use crate::heap::Heap;

/// A set's name: the offset of its block, or [`LARGE`] and the number of a large set.
pub(crate) type SetId = u32;

/// No set.
pub(crate) const NO_SET: SetId = u32::MAX;

const LARGE: u32 = 1 << 31;

/// The most entries a block holds.
const SMALL_MAX: usize = 32;

/// A large set that shrinks to this moves back to a block.
const DEMOTE_AT: usize = 16;

/// The most entries a run holds.
const RUN_MAX: usize = 512;

/// Two neighbouring runs that have no more than this together become one.
const MERGE_AT: usize = 256;

/// Some entries of a large set, sorted by target.
struct Run {
    /// The least target: where the search for a run looks.
    first: TargetId,
    entries: Vec<Entry>,
}

/// Many entries. O(log n) to find one, and moving at most a run and the row of runs to change one.
struct LargeSet {
    /// At least one, each with at least one entry; none in a free slot.
    runs: Vec<Run>,
    /// How many entries; in a free slot, the next one.
    len: u32,
}

impl Slot for LargeSet {
    fn free(next: u32) -> Self {
        Self { runs: Vec::new(), len: next }
    }

    fn next_free(&self) -> Option<u32> {
        self.runs.is_empty().then_some(self.len)
    }
}

impl LargeSet {
    fn run_of(&self, target: TargetId) -> usize {
        self.runs.partition_point(|run| run.first <= target).saturating_sub(1)
    }

    fn insert(&mut self, entry: Entry) -> Option<u32> {
        let at = self.run_of(entry.target);
        let is_last = at + 1 == self.runs.len();
        let run = &mut self.runs[at];
        let place = match run.entries.binary_search_by_key(&entry.target, |held| held.target) {
            Ok(place) => return Some(std::mem::replace(&mut run.entries[place].options, entry.options)),
            Err(place) => place,
        };
        self.len += 1;
        if run.entries.len() < RUN_MAX {
            run.entries.insert(place, entry);
            run.first = run.entries[0].target;
            return None;
        }
        if is_last && place == RUN_MAX {
            // Targets that come in order fill each run before the next begins.
            self.runs.push(Run { first: entry.target, entries: vec![entry] });
            return None;
        }
        let mut upper = run.entries.split_off(RUN_MAX / 2);
        run.entries.shrink_to_fit();
        if place <= RUN_MAX / 2 {
            run.entries.insert(place, entry);
        } else {
            upper.insert(place - RUN_MAX / 2, entry);
        }
        run.first = run.entries[0].target;
        self.runs.insert(at + 1, Run { first: upper[0].target, entries: upper });
        None
    }

    fn remove(&mut self, target: TargetId) -> Option<u32> {
        let at = self.run_of(target);
        let run = &mut self.runs[at];
        let place = run.entries.binary_search_by_key(&target, |held| held.target).ok()?;
        let removed = run.entries.remove(place);
        self.len -= 1;
        let Some(first) = run.entries.first() else {
            self.runs.remove(at);
            return Some(removed.options);
        };
        run.first = first.target;
        let len = run.entries.len();
        let fits = |other: Option<&Run>| other.is_some_and(|other| other.entries.len() + len <= MERGE_AT);
        if fits(self.runs.get(at + 1)) {
            self.merge(at);
        } else if at > 0 && fits(self.runs.get(at - 1)) {
            self.merge(at - 1);
        }
        Some(removed.options)
    }

    /// Moves the entries of the run behind `at` into it.
    fn merge(&mut self, at: usize) {
        let upper = self.runs.remove(at + 1);
        let entries = &mut self.runs[at].entries;
        entries.extend_from_slice(&upper.entries);
        entries.shrink_to_fit();
        if self.runs.capacity() > 4 * self.runs.len() {
            self.runs.shrink_to(2 * self.runs.len());
        }
    }
}

/// All sets of one tree.
pub(crate) struct TargetSets {
    heap: Heap,
    large: Arena<LargeSet>,
}

/// The entries of a block: a length, then target and options of each.
fn pairs(block: &[u32]) -> &[[u32; 2]] {
    let (pairs, _) = block[1..].as_chunks();
    &pairs[..block[0] as usize]
}

const fn entry_of([target, options]: [u32; 2]) -> Entry {
    Entry { target: TargetId(target), options }
}

impl TargetSets {
    pub(crate) const fn new() -> Self {
        Self { heap: Heap::new(LARGE - 2), large: Arena::new(LARGE - 2) }
    }

    /// A set of one entry.
    pub(crate) fn create(&mut self, entry: Entry) -> SetId {
        self.store(&[entry])
    }

    /// Adds an entry, or replaces its options and returns the previous ones. The set may get another id.
    pub(crate) fn insert(&mut self, set: &mut SetId, entry: Entry) -> Option<u32> {
        if *set & LARGE != 0 {
            return self.large.get_mut(*set & !LARGE).insert(entry);
        }
        let block = self.heap.get_mut(*set);
        let len = block[0] as usize;
        let place = match pairs(block).binary_search_by_key(&entry.target.0, |pair| pair[0]) {
            Ok(place) => return Some(std::mem::replace(&mut block[2 + 2 * place], entry.options)),
            Err(place) => place,
        };
        if len < SMALL_MAX && 2 * (len + 1) < block.len() {
            let at = 1 + 2 * place;
            block.copy_within(at..1 + 2 * len, at + 2);
            block[at] = entry.target.0;
            block[at + 1] = entry.options;
            block[0] += 1;
            return None;
        }
        let mut entries: Vec<Entry> = pairs(block).iter().copied().map(entry_of).collect();
        entries.insert(place, entry);
        self.heap.free(*set);
        *set = self.store(&entries);
        None
    }

    /// Removes a target; returns its options. The set may get another id.
    pub(crate) fn remove(&mut self, set: &mut SetId, target: TargetId) -> Option<u32> {
        if *set & LARGE != 0 {
            let large = self.large.get_mut(*set & !LARGE);
            let options = large.remove(target)?;
            if large.len as usize <= DEMOTE_AT {
                let entries: Vec<Entry> = large.runs.iter().flat_map(|run| &run.entries).copied().collect();
                self.large.remove(*set & !LARGE);
                *set = self.store(&entries);
            }
            return Some(options);
        }
        let block = self.heap.get_mut(*set);
        let len = block[0] as usize;
        let place = pairs(block).binary_search_by_key(&target.0, |pair| pair[0]).ok()?;
        let at = 1 + 2 * place;
        let options = block[at + 1];
        block.copy_within(at + 2..1 + 2 * len, at);
        block[0] -= 1;
        if len == 1 {
            self.heap.free(*set);
            *set = NO_SET;
        } else if 2 * len < block.len() {
            let entries: Vec<Entry> = pairs(block).iter().copied().map(entry_of).collect();
            self.heap.free(*set);
            *set = self.store(&entries);
        }
        Some(options)
    }

    /// The entry of a set that holds one alone.
    pub(crate) fn only(&self, set: SetId) -> Option<Entry> {
        if set & LARGE != 0 {
            return None;
        }
        match pairs(self.heap.get(set)) {
            [pair] => Some(entry_of(*pair)),
            _ => None,
        }
    }

    /// Gives back a set.
    pub(crate) fn free(&mut self, set: SetId) {
        if set & LARGE == 0 {
            self.heap.free(set);
        } else {
            self.large.remove(set & !LARGE);
        }
    }

    /// Appends all entries, by target.
    #[inline]
    pub(crate) fn append(&self, set: SetId, out: &mut Vec<Entry>) {
        if set & LARGE == 0 {
            out.extend(pairs(self.heap.get(set)).iter().copied().map(entry_of));
        } else {
            let large = self.large.get(set & !LARGE);
            out.reserve(large.len as usize);
            for run in &large.runs {
                out.extend_from_slice(&run.entries);
            }
        }
    }

    /// Bytes held, used or not.
    pub(crate) fn memory_bytes(&self) -> usize {
        let run_bytes = |run: &Run| run.entries.capacity() * size_of::<Entry>();
        let set_bytes = |large: &LargeSet| {
            large.runs.capacity() * size_of::<Run>() + large.runs.iter().map(run_bytes).sum::<usize>()
        };
        self.heap.memory_bytes() + self.large.memory_bytes() + self.large.live().map(set_bytes).sum::<usize>()
    }

    /// Stores sorted entries, at least one.
    fn store(&mut self, entries: &[Entry]) -> SetId {
        let block = if entries.len() <= SMALL_MAX { self.heap.allocate(1 + 2 * entries.len()) } else { None };
        let Some(set) = block else {
            let run = Run { first: entries[0].target, entries: entries.to_vec() };
            return LARGE | self.large.insert(LargeSet { runs: vec![run], len: entries.len() as u32 });
        };
        let block = self.heap.get_mut(set);
        block[0] = entries.len() as u32;
        for (pair, entry) in block[1..].chunks_mut(2).zip(entries) {
            pair.copy_from_slice(&[entry.target.0, entry.options]);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(target: u32) -> Entry {
        Entry { target: TargetId(target), options: target ^ 0xFF }
    }

    /// Inserts the targets in the order given, then removes them in another, checking the contents on the way.
    fn grow_and_shrink(targets: &[u32]) {
        let mut sets = TargetSets::new();
        let mut set = sets.create(entry(targets[0]));
        for &target in &targets[1..] {
            assert_eq!(sets.insert(&mut set, entry(target)), None);
        }
        assert_eq!(sets.insert(&mut set, entry(targets[0])), Some(entry(targets[0]).options));
        let mut sorted: Vec<u32> = targets.to_vec();
        sorted.sort_unstable();
        let mut held = Vec::new();
        sets.append(set, &mut held);
        assert_eq!(held, sorted.iter().copied().map(entry).collect::<Vec<_>>());
        assert_eq!(sets.remove(&mut set, TargetId(u32::MAX)), None);

        let (first, rest) = targets.split_first().unwrap();
        for &target in rest {
            assert_eq!(sets.remove(&mut set, TargetId(target)), Some(entry(target).options));
            assert_eq!(sets.remove(&mut set, TargetId(target)), None);
        }
        assert_eq!(sets.only(set), Some(entry(*first)));
        assert_eq!(sets.remove(&mut set, TargetId(*first)), Some(entry(*first).options));
        assert_eq!((set, sets.memory_bytes()), (NO_SET, 0));
    }

    #[test]
    fn sets_of_every_size_take_and_give_back_targets() {
        for len in [1, 2, 3, 17, 32, 33, 34, 512, 513, 5000] {
            let ascending: Vec<u32> = (0..len).collect();
            grow_and_shrink(&ascending);
            grow_and_shrink(&ascending.iter().rev().copied().collect::<Vec<_>>());
            // Multiplying by an odd number permutes the 32-bit numbers.
            grow_and_shrink(&ascending.iter().map(|n| n.wrapping_mul(0x9E37_79B1) >> 1).collect::<Vec<_>>());
        }
    }
}
