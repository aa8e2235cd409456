//! Long lists that one thread changes while others read them.

use std::sync::Arc;

use smallvec::{Array, SmallVec};

use super::pointers::ArcSwapOption;
use super::spine::Spine;
use crate::sync::{AtomicU64, Ordering};

/// Pages that come and go together: as many pointers as are cheap to make and to drop at once.
const GROUP: usize = if cfg!(all(test, loom)) { 2 } else { 64 };

/// What lists are made of.
pub(super) trait Element: Clone {
    /// As many items as are copied to change one. Few, if a copy of an item has to visit what it refers to.
    type Page: Array<Item = Self>;
}

/// An immutable run of items. A page is changed by putting another in its place.
struct Page<T: Element>(SmallVec<T::Page>);

type Group<T> = Box<[ArcSwapOption<Page<T>>]>;

/// A list in pages, each behind an atomic pointer. A change copies the page it is about, and the last one if an item
/// comes from there to take the place of one that goes; nothing else moves, however long the list is.
///
/// ```text
/// group      0                        1
/// pages      0   1   2   …  63        64  65
///            ▼   ▼   ▼      ▼         ▼   ▼
/// items      full pages               the last may be less than full
/// ```
///
/// Changes are made by one thread at a time, which the caller sees to.
///
/// **Invariant:** an item that is there throughout a visit is seen, once or twice. Items move only towards the front,
/// and a move publishes the new page, then the count of moves, then the page that the item came from. So who goes from
/// front to back either meets the item or finds that the count has changed; and who goes from back to front meets it.
pub(super) struct Pages<T: Element> {
    groups: Spine<ArcSwapOption<Group<T>>>,
    /// Items in the low 32 bits, moves from page to page so far above them.
    shape: AtomicU64,
    /// An item of the list as it was made.
    witness: T,
}

impl<T: Element> Pages<T> {
    /// Items of a full page.
    pub(super) const PAGE: usize = size_of::<T::Page>() / size_of::<T>();

    /// A list of these items, of which there are some.
    pub(super) fn of(items: &[T]) -> Self {
        let witness = items.first().expect("a list begins with some items").clone();
        let pages = Self { groups: Spine::new(), shape: AtomicU64::new(0), witness };
        items.chunks(Self::PAGE).enumerate().for_each(|(at, run)| pages.put(at, run.iter().cloned()));
        pages.shape.store(items.len() as u64, Ordering::Release);
        pages
    }

    pub(super) fn len(&self) -> usize {
        len_of(self.shape.load(Ordering::Acquire))
    }

    /// An item that was in the list once.
    #[inline]
    pub(super) const fn witness(&self) -> &T {
        &self.witness
    }

    /// Shows every item, a page at a time, in order; if items move meanwhile, again in the opposite order of pages.
    pub(super) fn visit(&self, visit: &mut impl FnMut(&[T])) {
        let before = self.shape.load(Ordering::Acquire);
        (0..Self::page_count(before)).for_each(|at| self.visit_page(at, visit));
        let after = self.shape.load(Ordering::Acquire);
        if before >> 32 != after >> 32 {
            (0..Self::page_count(after)).rev().for_each(|at| self.visit_page(at, visit));
        }
    }

    /// Adds an item at the end.
    pub(super) fn push(&self, item: T) {
        let shape = self.shape.load(Ordering::Relaxed);
        let at = len_of(shape) / Self::PAGE;
        self.change_page(at, |items| self.put(at, items.iter().cloned().chain([item])));
        self.shape.store(shape + 1, Ordering::Release);
    }

    /// Puts another item at a place that exists.
    pub(super) fn replace(&self, at: u32, item: T) {
        let (page, place) = Self::place_of(at as usize);
        self.change_page(page, |items| self.put_replaced(page, items, place, item));
    }

    /// Takes out the item at a place that exists, of more than one; the last item takes the place and is returned,
    /// unless it was the one to go.
    pub(super) fn take(&self, at: u32) -> Option<T> {
        let shape = self.shape.load(Ordering::Relaxed);
        let last = len_of(shape) - 1;
        let (page, place) = Self::place_of(at as usize);
        let (last_page, last_place) = Self::place_of(last);
        let moved = (at as usize != last).then(|| self.get(last as u32));
        let shorten = |put: Option<(usize, T)>| {
            self.change_page(last_page, |items| match (&items[..last_place], put) {
                ([], _) => self.clear(last_page),
                (kept, None) => self.put(last_page, kept.iter().cloned()),
                (kept, Some((place, item))) => self.put_replaced(last_page, kept, place, item),
            });
        };
        match &moved {
            Some(item) if page != last_page => {
                self.replace(at, item.clone());
                // The count of moves may start anew: a reader looks whether it is another.
                self.shape.store(shape.wrapping_add(1 << 32) - 1, Ordering::Release);
                shorten(None);
            }
            moved => {
                shorten(moved.clone().map(|item| (place, item)));
                self.shape.store(shape - 1, Ordering::Release);
            }
        }
        moved
    }

    /// All items but the one at a place, whose place the last one takes.
    pub(super) fn without(&self, at: u32) -> Vec<T> {
        let mut items = Vec::with_capacity(self.len());
        (0..Self::page_count(self.shape.load(Ordering::Relaxed)))
            .for_each(|page| self.visit_page(page, &mut |run: &[T]| items.extend_from_slice(run)));
        items.swap_remove(at as usize);
        items
    }

    /// The item at a place that exists.
    pub(super) fn get(&self, at: u32) -> T {
        let (page, place) = Self::place_of(at as usize);
        let mut item = None;
        self.visit_page(page, &mut |items: &[T]| item = Some(items[place].clone()));
        item.expect("a place that exists is on a page")
    }

    /// Bytes on the heap. A step for each group.
    pub(super) fn memory_bytes(&self) -> usize {
        // An `Arc` keeps two counts before its content.
        let counts = 2 * size_of::<usize>();
        let pages = Self::page_count(self.shape.load(Ordering::Acquire));
        let group = counts + size_of::<Group<T>>() + GROUP * size_of::<ArcSwapOption<Page<T>>>();
        self.groups.memory_bytes() + pages.div_ceil(GROUP) * group + pages * (counts + size_of::<Page<T>>())
    }

    const fn place_of(at: usize) -> (usize, usize) {
        (at / Self::PAGE, at % Self::PAGE)
    }

    const fn page_count(shape: u64) -> usize {
        len_of(shape).div_ceil(Self::PAGE)
    }

    #[inline]
    fn visit_page(&self, at: usize, visit: &mut impl FnMut(&[T])) {
        let Some(group) = self.groups.get(at / GROUP) else { return };
        let group = group.load();
        let Some(group) = group.as_deref() else { return };
        if let Some(page) = &*group[at % GROUP].load() {
            visit(&page.0);
        }
    }

    /// Shows the items of a page, none if it is not there, to whoever puts others there.
    fn change_page(&self, at: usize, change: impl FnOnce(&[T])) {
        let group = self.groups.get(at / GROUP).and_then(ArcSwapOption::load_full);
        match group.as_deref().and_then(|group| group[at % GROUP].load_full()) {
            Some(page) => change(&page.0),
            None => change(&[]),
        }
    }

    fn put_replaced(&self, at: usize, items: &[T], place: usize, item: T) {
        let (before, behind) = (&items[..place], &items[place + 1..]);
        self.put(at, before.iter().cloned().chain([item]).chain(behind.iter().cloned()));
    }

    /// Lets readers see other items on a page.
    fn put(&self, at: usize, items: impl Iterator<Item = T>) {
        let slot = self.groups.get_or_make(at / GROUP);
        let page = Some(Arc::new(Page(items.collect())));
        match slot.load().as_deref() {
            Some(group) => group[at % GROUP].store(page),
            None => {
                let group: Group<T> = (0..GROUP).map(|_| ArcSwapOption::empty()).collect();
                group[at % GROUP].store(page);
                slot.store(Some(Arc::new(group)));
            }
        }
    }

    /// Takes the last page away, and its group if that was its only one.
    fn clear(&self, at: usize) {
        let slot = self.groups.get_or_make(at / GROUP);
        if at.is_multiple_of(GROUP) {
            slot.store(None);
        } else if let Some(group) = slot.load().as_deref() {
            group[at % GROUP].store(None);
        }
    }
}

const fn len_of(shape: u64) -> usize {
    shape as u32 as usize
}
