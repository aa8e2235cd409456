//! What a key, a condition or a whole exchange leads to: short lists that never change, long ones that do.

use std::sync::Arc;

use super::pages::{Element, Pages};

/// A list of items. Cloning is O(1).
///
/// ```text
/// 1 item           in the set itself
/// up to a page     one immutable leaf, which a change replaces
/// more             pages, which all clones share: a change of one is a change of all
/// ```
///
/// A set in pages becomes a leaf again when it is down to half a page.
#[derive(Clone)]
pub(super) struct Set<T: Element> {
    items: Items<T>,
}

#[derive(Clone)]
enum Items<T: Element> {
    None,
    One(T),
    Leaf(Arc<[T]>),
    Pages(Arc<Pages<T>>),
}

impl<T: Element> Default for Set<T> {
    fn default() -> Self {
        Self { items: Items::None }
    }
}

/// What became of a set that was changed.
pub(super) enum Change<T: Element> {
    /// The set itself is another now.
    Done,
    /// This one is to be put in its place.
    To(Set<T>),
}

impl<T: Element> Set<T> {
    pub(super) fn len(&self) -> usize {
        match &self.items {
            Items::None => 0,
            Items::One(_) => 1,
            Items::Leaf(items) => items.len(),
            Items::Pages(pages) => pages.len(),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        matches!(self.items, Items::None)
    }

    /// Shows every item, a run at a time, in order. Items of a long set that are moved meanwhile are shown twice.
    #[inline]
    pub(super) fn visit(&self, visit: &mut impl FnMut(&[T])) {
        match &self.items {
            Items::None => {}
            Items::One(item) => visit(std::slice::from_ref(item)),
            Items::Leaf(items) => visit(items),
            Items::Pages(pages) => pages.visit(visit),
        }
    }

    /// An item that is in the set or was, if there is one. O(1).
    #[inline]
    pub(super) fn witness(&self) -> Option<&T> {
        match &self.items {
            Items::None => None,
            Items::One(item) => Some(item),
            Items::Leaf(items) => items.first(),
            Items::Pages(pages) => Some(pages.witness()),
        }
    }

    /// Adds an item at the end. O(1).
    pub(super) fn push(&self, item: T) -> Change<T> {
        let items = match &self.items {
            Items::None => Items::One(item),
            Items::One(first) => Items::Leaf([first.clone(), item].into()),
            Items::Leaf(items) if items.len() < Pages::<T>::PAGE => {
                Items::Leaf(items.iter().cloned().chain([item]).collect())
            }
            Items::Leaf(items) => {
                let pages = Pages::of(items);
                pages.push(item);
                Items::Pages(Arc::new(pages))
            }
            Items::Pages(pages) => {
                pages.push(item);
                return Change::Done;
            }
        };
        Change::To(Self { items })
    }

    /// Puts another item at a place that exists. O(1).
    pub(super) fn replace(&self, at: u32, item: T) -> Change<T> {
        let items = match &self.items {
            Items::None | Items::One(_) => Items::One(item),
            Items::Leaf(items) => {
                let (before, behind) = (&items[..at as usize], &items[at as usize + 1..]);
                Items::Leaf(before.iter().cloned().chain([item]).chain(behind.iter().cloned()).collect())
            }
            Items::Pages(pages) => {
                pages.replace(at, item);
                return Change::Done;
            }
        };
        Change::To(Self { items })
    }

    /// Takes out the item at a place that exists; the last item takes the place and is returned, unless it was the one
    /// to go. O(1).
    pub(super) fn take(&self, at: u32) -> (Change<T>, Option<T>) {
        let kept = match &self.items {
            Items::None | Items::One(_) => return (Change::To(Self::default()), None),
            Items::Leaf(items) => {
                let last = items.len() - 1;
                let kept = (0..last).map(|place| &items[if place == at as usize { last } else { place }]);
                kept.cloned().collect::<Vec<_>>()
            }
            Items::Pages(pages) if pages.len() - 1 > Pages::<T>::PAGE / 2 => {
                return (Change::Done, pages.take(at));
            }
            Items::Pages(pages) => pages.without(at),
        };
        let moved = kept.get(at as usize).cloned();
        let items = match &kept[..] {
            [item] => Items::One(item.clone()),
            _ => Items::Leaf(kept.into()),
        };
        (Change::To(Self { items }), moved)
    }

    /// Bytes on the heap, those shared with clones included. A step for each group of pages.
    pub(super) fn memory_bytes(&self) -> usize {
        // An `Arc` keeps two counts before its content.
        let counts = 2 * size_of::<usize>();
        match &self.items {
            Items::None | Items::One(_) => 0,
            Items::Leaf(items) => counts + size_of_val(&**items),
            Items::Pages(pages) => counts + size_of::<Pages<T>>() + pages.memory_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn items(set: &Set<u32>) -> Vec<u32> {
        let mut items = Vec::new();
        set.visit(&mut |run: &[u32]| items.extend_from_slice(run));
        items
    }

    fn apply(set: &mut Set<u32>, change: Change<u32>) {
        if let Change::To(other) = change {
            *set = other;
        }
    }

    fn of(numbers: std::ops::Range<u32>) -> Set<u32> {
        let mut set = Set::default();
        for number in numbers {
            let change = set.push(number);
            apply(&mut set, change);
        }
        set
    }

    #[test]
    fn sets_of_every_length_agree_with_a_vector() {
        // More than three groups of 64 pages of 64 items.
        let len_max = 3 * 64 * 64 + 130;
        let mut set = of(0..len_max);
        let mut vector: Vec<u32> = (0..len_max).collect();
        assert_eq!(items(&set), vector);
        let mut state = 1u64;
        while !vector.is_empty() {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            let at = (state >> 33) as usize % vector.len();
            let is_last = at + 1 == vector.len();
            let (change, moved) = set.take(at as u32);
            apply(&mut set, change);
            vector.swap_remove(at);
            assert_eq!(moved, if is_last { None } else { Some(vector[at]) });
            if vector.len().is_multiple_of(1024) || vector.len() < 140 {
                assert_eq!(items(&set), vector);
            }
            assert_eq!(set.len(), vector.len());
        }
        assert!(set.is_empty() && set.memory_bytes() == 0);
    }

    #[test]
    fn an_item_is_replaced_in_place() {
        for len in [1u32, 2, 64, 65, 4096, 4097, 5000] {
            let mut set = of(0..len);
            for at in [0, len / 2, len - 1] {
                let change = set.replace(at, at + 100_000);
                apply(&mut set, change);
            }
            let is_replaced = |at: &u32| [0, len / 2, len - 1].contains(at);
            let expected = (0..len).map(|at| if is_replaced(&at) { at + 100_000 } else { at });
            assert!(items(&set).into_iter().eq(expected));
        }
    }

    #[test]
    fn what_a_set_in_pages_took_is_given_back() {
        let few = of(0..30).memory_bytes();
        let mut set = of(0..20_000);
        assert!(set.memory_bytes() > 80_000);
        while set.len() > 30 {
            let (change, _) = set.take(set.len() as u32 / 2);
            apply(&mut set, change);
            assert!(set.memory_bytes() < 4_000 + 5 * set.len(), "{} of {}", set.memory_bytes(), set.len());
        }
        assert_eq!(set.memory_bytes(), few);
    }

    #[test]
    fn items_that_stay_are_seen_while_others_come_and_go() {
        // Those that stay are spread over all pages, and moved again and again.
        let set = of(0..1_000);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        let mut seen = [false; 100];
                        items(&set)
                            .iter()
                            .filter(|item| *item % 10 == 0)
                            .for_each(|item| seen[*item as usize / 10] = true);
                        assert!(seen.iter().all(|is_seen| *is_seen));
                    }
                });
            }
            let mut held = items(&set);
            for _ in 0..60 {
                while let Some(at) = held.iter().position(|item| item % 10 != 0) {
                    assert!(matches!(set.take(at as u32).0, Change::Done));
                    held.swap_remove(at);
                }
                for item in (0..1_000).filter(|item| item % 10 != 0) {
                    assert!(matches!(set.push(item), Change::Done));
                    held.push(item);
                }
            }
            is_done.store(true, Ordering::Relaxed);
        });
    }
}
