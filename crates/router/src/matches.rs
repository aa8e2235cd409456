//! The result of a look-up: targets without duplicates, each with the options of what matched it.

use crate::{Entry, TargetId};

/// From this many entries on they are sorted by digits, below by comparison.
const RADIX_SORT_MIN: usize = 256;

/// Digits of eight bits that are worth a pass each; with more of them comparing is as fast.
const RADIX_PASSES_MAX: usize = 5;

/// A look-up's entries, to be grouped by target.
///
/// Made once per thread and used again: it allocates nothing while its results fit what earlier ones took. Any number
/// of look-ups can add to it; [`group`](Self::group) then turns it into a set. It is a set of (target, options) pairs:
/// two entries that are equal in both count once, whichever bindings or filters they came from.
///
/// ```
/// use meridian_router::{Entry, Matches, TargetId};
///
/// let mut matches = Matches::new();
/// for (target, options) in [(7, 1), (3, 0), (7, 0), (3, 0)] {
///     matches.push(Entry { target: TargetId(target), options });
/// }
/// let found: Vec<_> = matches.group().iter().collect();
/// assert_eq!(found, [(TargetId(3), &[0][..]), (TargetId(7), &[0, 1][..])]);
/// ```
#[derive(Debug, Default)]
pub struct Matches {
    entries: Vec<Entry>,
    /// The other half of a sort by digits.
    spare: Vec<Entry>,
    groups: Vec<Group>,
    options: Vec<u32>,
    /// Entries that `groups` and `options` describe; more means that some were added since.
    grouped_count: usize,
    /// Whether equal ones may be among those.
    has_equal: bool,
}

/// One target: its options start in the list of all options where those of the group before end.
#[derive(Clone, Copy, Debug)]
struct Group {
    target: TargetId,
    options_end: u32,
}

impl Matches {
    /// An empty set. Allocates nothing.
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
            spare: Vec::new(),
            groups: Vec::new(),
            options: Vec::new(),
            grouped_count: 0,
            has_equal: false,
        }
    }

    /// Forgets all entries and keeps the room. O(1).
    pub fn clear(&mut self) {
        self.entries.clear();
        self.groups.clear();
        self.options.clear();
        self.grouped_count = 0;
    }

    /// Adds an entry. Amortised O(1).
    #[inline]
    pub fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// The list that a look-up may append to, such as [`Index::matches`](crate::Index::matches).
    ///
    /// Entries that were grouped before may be in another order by now, and equal ones gone.
    pub fn entries_mut(&mut self) -> &mut Vec<Entry> {
        self.grouped_count = 0;
        self.groups.clear();
        self.options.clear();
        &mut self.entries
    }

    /// Whether nothing matched.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sorts what was added, drops duplicates, and gives the targets.
    ///
    /// Cost: O(n) if the entries came in order or were grouped before; else a sort, by comparison for few and by digits
    /// for many (about 10 ns for each of 10,000).
    pub fn group(&mut self) -> Groups<'_> {
        if self.has_equal || !self.is_grouped() {
            self.sort();
            self.entries.dedup();
            self.fill();
            self.has_equal = false;
        }
        Groups { groups: &self.groups, options: &self.options }
    }

    /// As [`group`](Self::group), but keeps entries that are equal, one for each filter or binding that matched; those
    /// that `group` has dropped already are gone.
    pub fn group_all(&mut self) -> Groups<'_> {
        if !self.is_grouped() {
            self.sort();
            self.fill();
            self.has_equal = true;
        }
        Groups { groups: &self.groups, options: &self.options }
    }

    /// Bytes held, used or not.
    pub fn memory_bytes(&self) -> usize {
        (self.entries.capacity() + self.spare.capacity()) * size_of::<Entry>()
            + self.groups.capacity() * size_of::<Group>()
            + self.options.capacity() * size_of::<u32>()
    }

    const fn is_grouped(&self) -> bool {
        self.grouped_count == self.entries.len() && !self.groups.is_empty()
    }

    fn sort(&mut self) {
        if self.entries.is_sorted_by_key(key_of) {
            return;
        }
        if self.entries.len() < RADIX_SORT_MIN {
            self.entries.sort_unstable_by_key(key_of);
            return;
        }
        let first = key_of(&self.entries[0]);
        let varying = self.entries.iter().fold(0, |bits, entry| bits | (key_of(entry) ^ first));
        let shifts = || (0..u64::BITS).step_by(8).filter(|shift| varying >> shift & 0xFF != 0);
        if shifts().count() > RADIX_PASSES_MAX {
            self.entries.sort_unstable_by_key(key_of);
            return;
        }
        for shift in shifts() {
            self.sort_by_digit(shift);
        }
    }

    /// One stable pass over the eight bits at `shift`.
    fn sort_by_digit(&mut self, shift: u32) {
        let digit = |entry: &Entry| (key_of(entry) >> shift & 0xFF) as usize;
        let mut starts = [0usize; 256];
        for entry in &self.entries {
            starts[digit(entry)] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += std::mem::replace(start, sum);
        }
        self.spare.resize(self.entries.len(), Entry { target: TargetId(0), options: 0 });
        for entry in &self.entries {
            let place = &mut starts[digit(entry)];
            self.spare[*place] = *entry;
            *place += 1;
        }
        std::mem::swap(&mut self.entries, &mut self.spare);
    }

    fn fill(&mut self) {
        self.groups.clear();
        self.options.clear();
        for entry in &self.entries {
            self.options.push(entry.options);
            let options_end = self.options.len() as u32;
            match self.groups.last_mut() {
                Some(group) if group.target == entry.target => group.options_end = options_end,
                _ => self.groups.push(Group { target: entry.target, options_end }),
            }
        }
        self.grouped_count = self.entries.len();
    }
}

#[inline]
fn key_of(entry: &Entry) -> u64 {
    u64::from(entry.target.0) << 32 | u64::from(entry.options)
}

/// The targets of a result in ascending order, each once.
#[derive(Clone, Copy, Debug)]
pub struct Groups<'a> {
    groups: &'a [Group],
    options: &'a [u32],
}

impl<'a> Groups<'a> {
    /// Targets found. O(1).
    pub const fn target_count(&self) -> usize {
        self.groups.len()
    }

    /// Whether nothing matched. O(1).
    pub const fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Each target with its options: at least one, ascending; without duplicates unless it is from
    /// [`Matches::group_all`].
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (TargetId, &'a [u32])> + use<'a> {
        let options = self.options;
        let mut start = 0;
        self.groups.iter().map(move |group| {
            let end = group.options_end as usize;
            (group.target, &options[std::mem::replace(&mut start, end)..end])
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn grouped(matches: &mut Matches) -> Vec<(u32, Vec<u32>)> {
        matches.group().iter().map(|(target, options)| (target.0, options.to_vec())).collect()
    }

    proptest! {
        #[test]
        fn grouping_gives_the_set_of_pairs(
            batches in vec(vec((prop_oneof![0..8u32, 0..70_000u32, any::<u32>()], 0..4u32), 0..700), 1..3),
        ) {
            let mut matches = Matches::new();
            let mut expected: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
            for batch in &batches {
                for &(target, options) in batch {
                    matches.push(Entry { target: TargetId(target), options });
                    expected.entry(target).or_default().insert(options);
                }
                let expected: Vec<_> =
                    expected.iter().map(|(target, set)| (*target, set.iter().copied().collect())).collect();
                prop_assert_eq!(matches.group().target_count(), expected.len());
                prop_assert_eq!(grouped(&mut matches), expected);
            }
            matches.clear();
            prop_assert!(matches.is_empty() && matches.group().is_empty());
        }
    }

    #[test]
    fn an_entry_added_after_grouping_is_seen() {
        let mut matches = Matches::new();
        let entry = |target| Entry { target: TargetId(target), options: 0 };
        matches.push(entry(2));
        matches.push(entry(2));
        assert_eq!(grouped(&mut matches), [(2, vec![0])]);
        matches.push(entry(1));
        assert_eq!(grouped(&mut matches), [(1, vec![0]), (2, vec![0])]);
        matches.entries_mut()[0] = entry(5);
        assert_eq!(grouped(&mut matches), [(2, vec![0]), (5, vec![0])]);
        matches.entries_mut().clear();
        assert_eq!(grouped(&mut matches), []);
    }

    #[test]
    fn equal_entries_are_kept_until_a_set_is_asked_for() {
        let mut matches = Matches::new();
        for (target, options) in [(2, 1), (1, 0), (2, 1), (2, 0)] {
            matches.push(Entry { target: TargetId(target), options });
        }
        let all = |matches: &mut Matches| -> Vec<(u32, Vec<u32>)> {
            matches.group_all().iter().map(|(target, options)| (target.0, options.to_vec())).collect()
        };
        assert_eq!(all(&mut matches), [(1, vec![0]), (2, vec![0, 1, 1])]);
        assert_eq!(grouped(&mut matches), [(1, vec![0]), (2, vec![0, 1])]);
        matches.push(Entry { target: TargetId(1), options: 0 });
        assert_eq!(all(&mut matches), [(1, vec![0, 0]), (2, vec![0, 1])]);
    }
}
