//! Sets by (exchange, key): a hash table that any number of threads read while one changes it.

use std::hint::black_box;
use std::sync::Arc;

use smallvec::SmallVec;

use super::pages::Element;
use super::pointers::ArcSwapOption;
use super::set::{Change, Set};
use super::spine::Spine;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// What a row's set is made of.
pub(super) trait Item: Element {
    /// What a row keeps to be known by.
    type Key: Clone;

    /// What a row of this key keeps.
    fn key_of(key: &[u8]) -> Self::Key;

    /// Whether a row that keeps this, and has or had this item in its set, has this key.
    fn has_key(kept: &Self::Key, witness: &Self, key: &[u8]) -> bool;

    /// Bytes on the heap of what a row keeps.
    fn heap_bytes(kept: &Self::Key) -> usize;
}

/// One key of one exchange, and the rows behind it in its bucket.
///
/// **Invariant:** it never changes, unless its set is a long one, and its set is not empty. So a change replaces it and
/// those before it, and shares those behind it. A bucket has two rows on average and the hash is secret, so lists stay
/// short.
struct Row<T: Item> {
    next: Link<T>,
    set: Set<T>,
    /// The bits of the hash that the table uses.
    tag: u32,
    exchange: u32,
    key: T::Key,
}

type Link<T> = Option<Arc<Row<T>>>;

/// Where a row is or would be.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) hash: u64,
    pub(super) exchange: u32,
    pub(super) key: &'a [u8],
}

/// The table: linear hashing over lists of about one row, each behind an atomic pointer.
///
/// ```text
/// bucket ──► row ──► row          a row: tag, exchange, key, set of items
/// bucket ──► none
/// bucket ──► row
/// ```
///
/// A look-up is four dependent loads for its first row, and one for each further; it takes no lock and writes to no
/// memory that another thread reads often. A change makes one row, and copies those before it, unless the row's set is
/// a long one, which changes by itself; and splits one bucket or merges two if the rows become more or fewer, so the
/// table never moves as a whole. Changes are made by one thread at a time, which the caller sees to.
///
/// **Invariant:** a row that is there throughout a look-up is found. A split publishes the new bucket, then the new
/// count, then the shortened old bucket; a merge the joined bucket, then the count, then the empty one. A reader
/// that found nothing looks at the count again, whose version never repeats.
pub(super) struct RowTable<T: Item> {
    buckets: Spine<ArcSwapOption<Row<T>>>,
    /// Buckets in the low 32 bits, splits and merges so far above them.
    shape: AtomicU64,
    row_count: AtomicUsize,
}

impl<T: Item> RowTable<T> {
    pub(super) fn new() -> Self {
        Self { buckets: Spine::new(), shape: AtomicU64::new(1), row_count: AtomicUsize::new(0) }
    }

    /// Shows the set of a row to `look`, if there is such a row.
    #[inline]
    pub(super) fn find<R>(&self, place: Place<'_>, look: impl FnOnce(&Set<T>) -> R) -> Option<R> {
        let tag = tag_of(place.hash);
        let mut shape = self.shape.load(Ordering::Acquire);
        loop {
            if let Some(bucket) = self.buckets.get(bucket_of(tag, shape)) {
                let first = bucket.load();
                if let Some(row) = rows(&first).find(|row| row.is_at(tag, place)) {
                    return Some(look(&row.set));
                }
            }
            let now = self.shape.load(Ordering::Acquire);
            if now == shape {
                return None;
            }
            shape = now;
        }
    }

    /// Looks where a change will look, so that the memory is on its way while the processor waits for other memory.
    #[inline]
    pub(super) fn foresee(&self, place: Place<'_>) {
        let at = bucket_of(tag_of(place.hash), self.shape.load(Ordering::Relaxed));
        black_box(self.buckets.get(at).map(|bucket| bucket.load().is_some()));
    }

    /// Puts what `change` makes of a row's set in its place. An empty set stands for no row, before and after.
    pub(super) fn update(&self, place: Place<'_>, change: impl FnOnce(&Set<T>) -> Change<T>) {
        let tag = tag_of(place.hash);
        let index = bucket_of(tag, self.shape.load(Ordering::Relaxed));
        let bucket = self.buckets.get_or_make(index);
        self.foresee_split(bucket);
        let old = bucket.load_full();
        let found = rows(&old).find(|row| row.is_at(tag, place));
        let change = match found {
            Some(row) => change(&row.set),
            None => change(&Set::default()),
        };
        let Change::To(set) = change else { return };
        let (was_there, is_there) = (found.is_some(), !set.is_empty());
        // The rows before the one that goes are copied, those behind it are kept.
        let behind = match found {
            None => old.clone(),
            Some(found) => (rows(&old).take_while(|row| !std::ptr::eq(*row, found)))
                .fold(found.next.clone(), |next, row| Some(Arc::new(row.before(next)))),
        };
        let new = match found {
            _ if !is_there => behind,
            Some(row) => Some(Arc::new(Row { set, ..row.before(behind) })),
            None => Some(Arc::new(Row {
                next: behind,
                set,
                tag,
                exchange: place.exchange,
                key: T::key_of(place.key),
            })),
        };
        bucket.store(new);
        match (was_there, is_there) {
            (false, true) => self.grown(),
            (true, false) => self.shrunk(),
            _ => {}
        }
    }

    /// Bytes held. Visits every row.
    pub(super) fn memory_bytes(&self) -> usize {
        let row_bytes = |row: &Row<T>| {
            // An `Arc` keeps two counts before its content.
            2 * size_of::<usize>() + size_of::<Row<T>>() + T::heap_bytes(&row.key) + row.set.memory_bytes()
        };
        let buckets = (0..count_of(self.shape.load(Ordering::Acquire))).filter_map(|at| self.buckets.get(at));
        let bytes = buckets.map(|bucket| rows(&bucket.load()).map(row_bytes).sum::<usize>());
        bytes.sum::<usize>() + self.buckets.memory_bytes()
    }

    /// Waits for the first row of a bucket and of the one that would be split next at once.
    #[inline]
    fn foresee_split(&self, bucket: &ArcSwapOption<Row<T>>) {
        let count = count_of(self.shape.load(Ordering::Relaxed));
        if self.row_count.load(Ordering::Relaxed) >= count
            && let Some(next) = self.buckets.get(count - (1 << count.ilog2()))
        {
            let (first, next) = (bucket.load(), next.load());
            black_box((tag_of_first(&first), tag_of_first(&next)));
        }
    }

    /// Splits a bucket if there are more rows than buckets.
    fn grown(&self) {
        let row_count = self.row_count.fetch_add(1, Ordering::Relaxed) + 1;
        let shape = self.shape.load(Ordering::Relaxed);
        let count = count_of(shape);
        if row_count <= count {
            return;
        }
        let level = count.ilog2();
        let old_bucket = self.buckets.get_or_make(count - (1 << level));
        let old = old_bucket.load_full();
        let (moved, kept) = parted(&old, |row| row.tag >> level & 1 == 1);
        let new_bucket = self.buckets.get_or_make(count);
        let next = next_shape(shape, count + 1);
        if moved.is_none() {
            self.shape.store(next, Ordering::Release);
            return;
        }
        new_bucket.store(moved);
        self.shape.store(next, Ordering::Release);
        old_bucket.store(kept);
    }

    /// Merges buckets while there are twice as many as rows: that is two for each row that goes.
    fn shrunk(&self) {
        let row_count = self.row_count.fetch_sub(1, Ordering::Relaxed) - 1;
        loop {
            let shape = self.shape.load(Ordering::Relaxed);
            let count = count_of(shape);
            if count == 1 || row_count >= count / 2 {
                return;
            }
            self.merge(shape, count - 1);
        }
    }

    /// Joins the last bucket to the one that it was split from.
    fn merge(&self, shape: u64, last: usize) {
        let next = next_shape(shape, last);
        let last_bucket = self.buckets.get_or_make(last);
        let Some(moved) = last_bucket.load_full() else {
            self.shape.store(next, Ordering::Release);
            return;
        };
        let buddy_bucket = self.buckets.get_or_make(last - (1 << last.ilog2()));
        let joined = match buddy_bucket.load_full() {
            None => Some(moved),
            buddy => rows(&Some(moved)).fold(buddy, |next, row| Some(Arc::new(row.before(next)))),
        };
        buddy_bucket.store(joined);
        self.shape.store(next, Ordering::Release);
        last_bucket.store(None);
    }
}

impl<T: Item> Row<T> {
    #[inline]
    fn is_at(&self, tag: u32, place: Place<'_>) -> bool {
        self.tag == tag
            && self.exchange == place.exchange
            && self.set.witness().is_some_and(|item| T::has_key(&self.key, item, place.key))
    }

    /// A copy in front of others.
    fn before(&self, next: Link<T>) -> Self {
        let Self { next: _, set, tag, exchange, key } = self;
        Self { next, set: set.clone(), tag: *tag, exchange: *exchange, key: key.clone() }
    }
}

#[inline]
fn tag_of_first<T: Item>(link: &Link<T>) -> Option<u32> {
    link.as_deref().map(|row| row.tag)
}

/// The rows from a link on.
#[inline]
fn rows<T: Item>(from: &Link<T>) -> impl Iterator<Item = &Row<T>> {
    std::iter::successors(from.as_deref(), |row| row.next.as_deref())
}

/// The rows for which `is_it` holds, and the others; each shares with the list what it has of its end.
fn parted<T: Item>(list: &Link<T>, is_it: impl Fn(&Row<T>) -> bool) -> (Link<T>, Link<T>) {
    let links: SmallVec<[&Arc<Row<T>>; 8]> =
        std::iter::successors(list.as_ref(), |row| row.next.as_ref()).collect();
    let Some(last) = links.last() else { return (None, None) };
    let last_is = is_it(last);
    let end = links.iter().rposition(|row| is_it(row) != last_is).map_or(0, |at| at + 1);
    let (mut those, mut others) = (None, None);
    *(if last_is { &mut those } else { &mut others }) = Some(links[end].clone());
    for row in &links[..end] {
        let part = if is_it(row) { &mut those } else { &mut others };
        *part = Some(Arc::new(row.before(part.take())));
    }
    (those, others)
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

/// The bucket of a tag: its low bits, one fewer where the bucket they name was not split off yet.
#[inline]
const fn bucket_of(tag: u32, shape: u64) -> usize {
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

    impl Element for u32 {
        type Page = [Self; 64];
    }

    impl Item for u32 {
        type Key = Vec<u8>;

        fn key_of(key: &[u8]) -> Vec<u8> {
            key.to_vec()
        }

        fn has_key(kept: &Vec<u8>, _: &Self, key: &[u8]) -> bool {
            kept == key
        }

        fn heap_bytes(kept: &Vec<u8>) -> usize {
            kept.capacity()
        }
    }

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
                table.update(place(seeds, &key), |set| set.push(step));
                held.push(step);
            } else if !held.is_empty() {
                table.update(place(seeds, &key), |set| set.take(0).0);
                held.swap_remove(0);
            }
            assert_eq!(items(&table, place(seeds, &key)), *held);
        }
        for (number, held) in oracle {
            let key = number.to_le_bytes();
            assert_eq!(items(&table, place(seeds, &key)), held);
            if !held.is_empty() {
                table.update(place(seeds, &key), |_| Change::To(Set::default()));
            }
        }
        assert_eq!(table.row_count.load(Ordering::Relaxed), 0);
        assert_eq!(count_of(table.shape.load(Ordering::Relaxed)), 1, "buckets were not merged");
    }

    #[test]
    fn a_row_that_stays_is_found_while_buckets_split_and_merge() {
        let (table, seeds) = (RowTable::new(), Seeds::new());
        let change = |number: u32, to: Set<u32>| {
            let key = number.to_le_bytes();
            table.update(place(seeds, &key), |_| Change::To(to));
        };
        let one = |item| match Set::default().push(item) {
            Change::To(set) => set,
            Change::Done => unreachable!("one item is in the set itself"),
        };
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
