//! A thread's results by key, each used only while nothing has changed that it depends on.
//!
//! ```
//! use meridian_router::{Index, MatchCache, TargetId};
//! use meridian_types::{TopicFilter, TopicName};
//!
//! fn targets(index: &Index, cache: &mut MatchCache<Vec<TargetId>>, topic: &str) -> Vec<TargetId> {
//!     if let Some(targets) = cache.get(0, topic.as_bytes(), |guard| index.is_current(guard)) {
//!         return targets.clone();
//!     }
//!     let name = TopicName::new(topic).expect("a valid topic");
//!     // Before the look-up: a change in between makes the result stale rather than wrong.
//!     let guard = index.guard(name);
//!     let mut entries = Vec::new();
//!     index.matches(name, &mut entries);
//!     let targets: Vec<TargetId> = entries.iter().map(|entry| entry.target).collect();
//!     cache.put(0, topic.as_bytes(), guard, targets.clone(), targets.len() * size_of::<TargetId>());
//!     targets
//! }
//!
//! let (index, mut cache) = (Index::new(), MatchCache::new(1 << 20));
//! assert_eq!(targets(&index, &mut cache, "a/b"), []);
//! index.insert(TopicFilter::new("a/+")?, TargetId(7), 0);
//! assert_eq!(targets(&index, &mut cache, "a/b"), [TargetId(7)]);
//! # Ok::<(), meridian_types::TopicError>(())
//! ```

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::regions::Guard;

/// Groups of marks of keys that were missed, 32 KiB.
const MISSED_GROUPS: usize = 2048;

/// Marks in a group: so many keys whose hashes end alike can be asked for in turn and still be kept.
const GROUP_MARKS: usize = 4;

/// Bytes that the table of places takes for an entry, at its emptiest.
const PLACE_BYTES: usize = 10;

/// Entries that one `put` looks at to make room, at most.
const EVICTION_STEPS_MAX: usize = 16;

struct Cached<V, G> {
    hash: u64,
    space: u32,
    /// Whether it was asked for since the hand last passed.
    was_used: bool,
    key: Box<[u8]>,
    guard: G,
    value: V,
    bytes: usize,
}

/// A bounded cache of look-ups' results, for one thread.
///
/// A key is a `space` (the caller's number for an exchange or a virtual host; 0 if there is but one) and bytes. With
/// each result goes a guard `G`, by which the caller says at every hit whether the result still holds: for [`Index`]
/// and [`PrefixIndex`] a [`Guard`], so that changes elsewhere leave the result valid; for others a generation, or
/// several.
///
/// A key is kept from its second miss on, so that keys used once do not displace the others. When the bytes run out, a
/// hand goes round the entries and drops those that were not asked for since it last passed: at most sixteen steps at a
/// time, so that no call takes long. If that makes no room, the result is not kept; the next miss goes on from there.
///
/// Cost: a hit is one hash, one probe, the comparison of the key and of its guard, and allocates nothing; a `put` that
/// keeps its key copies it.
///
/// [`Index`]: crate::Index
/// [`PrefixIndex`]: crate::PrefixIndex
pub struct MatchCache<V, G = Guard> {
    /// Places in `entries` by hash.
    places: HashTable<u32>,
    entries: Vec<Cached<V, G>>,
    hasher: RandomState,
    /// What all entries count.
    bytes: usize,
    bytes_max: usize,
    /// The entry that is looked at next when room is needed.
    hand: usize,
    /// Marks of the keys that were missed lately.
    missed: Box<[[u32; GROUP_MARKS]]>,
    /// Which mark of a group is replaced next.
    oldest: usize,
}

impl<V, G> MatchCache<V, G> {
    /// An empty cache that will hold about `bytes_max` bytes at most, keys and tables included; 32 KiB at first, beside
    /// them.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            places: HashTable::new(),
            entries: Vec::new(),
            hasher: RandomState::default(),
            bytes: 0,
            bytes_max,
            hand: 0,
            missed: vec![[0; GROUP_MARKS]; MISSED_GROUPS].into_boxed_slice(),
            oldest: 0,
        }
    }

    /// The result kept for a key, if `is_current` says that its guard holds.
    #[inline]
    pub fn get(&mut self, space: u32, key: &[u8], is_current: impl FnOnce(&G) -> bool) -> Option<&V> {
        let hash = self.hash(space, key);
        let place = self.find(hash, space, key)?;
        let entry = &mut self.entries[place];
        entry.was_used = true;
        is_current(&entry.guard).then_some(&entry.value)
    }

    /// Offers the result of a look-up after a miss, with the guard that was made *before* the look-up.
    ///
    /// `value_bytes` is what the value holds outside itself. The result is not kept if this is the key's first miss (or
    /// its first for long), if it is larger than the whole cache, or if there is no room for it yet.
    pub fn put(&mut self, space: u32, key: &[u8], guard: G, value: V, value_bytes: usize) {
        let hash = self.hash(space, key);
        let bytes = size_of::<Cached<V, G>>() + PLACE_BYTES + key.len() + value_bytes;
        match self.find(hash, space, key) {
            Some(place) => self.remove(place),
            None if self.is_first_miss(hash) => return,
            None => {}
        }
        if bytes > self.bytes_max {
            return;
        }
        for _ in 0..EVICTION_STEPS_MAX {
            if self.bytes + bytes <= self.bytes_max {
                break;
            }
            self.evict();
        }
        if self.bytes + bytes > self.bytes_max {
            return;
        }
        self.bytes += bytes;
        let place = self.entries.len() as u32;
        self.entries.push(Cached { hash, space, was_used: false, key: key.into(), guard, value, bytes });
        let entries = &self.entries;
        self.places.insert_unique(hash, place, |&place| entries[place as usize].hash);
    }

    /// Results kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no result is kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes that the results kept count, at most what [`new`](Self::new) was told.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a key was not missed lately, which is noted.
    fn is_first_miss(&mut self, hash: u64) -> bool {
        let mark = (hash >> 32) as u32;
        let group = &mut self.missed[hash as usize % MISSED_GROUPS];
        if group.contains(&mark) {
            return false;
        }
        group[self.oldest % GROUP_MARKS] = mark;
        self.oldest = self.oldest.wrapping_add(1);
        true
    }

    #[inline]
    fn hash(&self, space: u32, key: &[u8]) -> u64 {
        self.hasher.hash_one((space, key))
    }

    #[inline]
    fn find(&self, hash: u64, space: u32, key: &[u8]) -> Option<usize> {
        let is_it = |&place: &u32| {
            let entry = &self.entries[place as usize];
            entry.hash == hash && entry.space == space && *entry.key == *key
        };
        self.places.find(hash, is_it).map(|&place| place as usize)
    }

    /// Drops the entry under the hand, or passes it by once if it was used. Entries there must be.
    fn evict(&mut self) {
        self.hand = if self.hand < self.entries.len() { self.hand } else { 0 };
        let entry = &mut self.entries[self.hand];
        if !std::mem::take(&mut entry.was_used) {
            self.remove(self.hand);
        }
        // What was moved there came last: it may stay for a round.
        self.hand += 1;
    }

    /// Drops an entry, and moves the last one to its place.
    fn remove(&mut self, place: usize) {
        let hash = self.entries[place].hash;
        let Ok(found) = self.places.find_entry(hash, |&other| other as usize == place) else {
            panic!("entry {place} is not in the table")
        };
        found.remove();
        self.bytes -= self.entries.swap_remove(place).bytes;
        if let Some(moved) = self.entries.get(place) {
            let last = self.entries.len();
            let found = self.places.find_mut(moved.hash, |&other| other as usize == last);
            *found.expect("every entry has its place in the table") = place as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Misses a key until it is kept.
    fn keep(cache: &mut MatchCache<u32, u32>, key: &[u8], value: u32) {
        for _ in 0..2 {
            cache.put(0, key, 0, value, 0);
        }
    }

    #[test]
    fn a_key_is_kept_from_its_second_miss() {
        let mut cache = MatchCache::<u32, u32>::new(1 << 16);
        cache.put(0, b"a", 0, 7, 0);
        assert_eq!(cache.get(0, b"a", |_| true), None);
        cache.put(0, b"a", 0, 7, 0);
        assert_eq!(cache.get(0, b"a", |_| true), Some(&7));
        assert_eq!(cache.get(1, b"a", |_| true), None, "another space");
    }

    #[test]
    fn keys_that_are_asked_for_in_turn_are_all_kept() {
        let mut cache = MatchCache::<u32, u32>::new(1 << 20);
        for number in (0..4).flat_map(|_| 0..1000u32) {
            cache.put(0, &number.to_le_bytes(), 0, number, 0);
        }
        assert!(cache.len() > 990, "{} of 1,000", cache.len());
    }

    #[test]
    fn a_result_whose_guard_has_passed_is_replaced_at_once() {
        let mut cache = MatchCache::<u32, u32>::new(1 << 16);
        keep(&mut cache, b"a", 7);
        assert_eq!(cache.get(0, b"a", |&guard| guard == 1), None);
        cache.put(0, b"a", 1, 8, 0);
        assert_eq!(cache.get(0, b"a", |&guard| guard == 1), Some(&8));
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn what_is_asked_for_stays_when_room_is_needed() {
        let mut cache = MatchCache::<u32, u32>::new(8 << 10);
        keep(&mut cache, b"hot", 7);
        for number in 0..10_000u32 {
            keep(&mut cache, &number.to_le_bytes(), number);
            assert_eq!(cache.get(0, b"hot", |_| true), Some(&7), "after {number} others");
            assert!(cache.bytes() <= 8 << 10);
        }
        assert!(cache.len() > 50, "{} entries", cache.len());
    }

    #[test]
    fn one_put_looks_at_few_entries_and_the_next_goes_on() {
        let mut cache = MatchCache::<u32, u32>::new(1 << 20);
        let keys = || (0..20_000u32).map(u32::to_le_bytes);
        keys().for_each(|key| keep(&mut cache, &key, 1));
        let held: Vec<_> = keys().filter(|key| cache.get(0, key, |_| true).is_some()).collect();
        let (mut puts, before) = (0, cache.len());
        while cache.get(0, b"new", |_| true).is_none() {
            cache.put(0, b"new", 0, 7, 0);
            puts += 1;
        }
        // The hand has to pass every entry once, since all were asked for.
        assert!(puts >= held.len() / EVICTION_STEPS_MAX, "{puts} puts");
        assert!(cache.len() + EVICTION_STEPS_MAX >= before);
    }

    #[test]
    fn a_result_larger_than_the_cache_is_not_kept() {
        let mut cache = MatchCache::<u32, u32>::new(1 << 10);
        keep(&mut cache, b"a", 7);
        cache.put(0, b"a", 0, 8, 1 << 10);
        assert!(cache.is_empty() && cache.bytes() == 0);
    }

    proptest! {
        #[test]
        fn whatever_is_found_was_put_last(
            operations in vec((any::<bool>(), 0..2u32, 0..40u32, 0..3u32, 0..200usize), 1..400),
        ) {
            let mut cache = MatchCache::new(4 << 10);
            let mut last = HashMap::new();
            for (number, (puts, space, key, guard, value_bytes)) in operations.into_iter().enumerate() {
                let text = "k".repeat(key as usize);
                if puts {
                    cache.put(space, text.as_bytes(), guard, number, value_bytes);
                    last.insert((space, key), (guard, number));
                } else if let Some(&value) = cache.get(space, text.as_bytes(), |&held| held == guard) {
                    prop_assert_eq!(last.get(&(space, key)), Some(&(guard, value)));
                }
                prop_assert_eq!(cache.bytes(), cache.entries.iter().map(|entry| entry.bytes).sum::<usize>());
                prop_assert!(cache.bytes() <= 4 << 10);
                prop_assert_eq!(cache.places.len(), cache.entries.len());
            }
        }
    }
}
