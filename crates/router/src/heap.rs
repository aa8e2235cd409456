//! Blocks of 32-bit units, of many sizes, in pages of one size each.

/// The largest block, in units.
pub(crate) const BLOCK_UNITS_MAX: usize = 256;

/// Units in a page: 8 KiB.
const PAGE_UNITS: usize = 2048;

const PAGE_BITS: u32 = PAGE_UNITS.trailing_zeros();

/// Block sizes: every one up to 8, then four steps per doubling.
const CLASS_UNITS: [u16; 28] = [
    1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224,
    256,
];

/// The end of a page's list of free blocks.
const NONE: u32 = u32::MAX;

struct Page {
    units: Vec<u32>,
    /// Place of the first free block; its first unit holds the next one's.
    free_first: u32,
    live_count: u16,
    class: u8,
    is_open: bool,
}

/// An allocator of blocks named by the offset of their first unit.
///
/// A page holds blocks of one class; one without live blocks gives its memory back and may change class. Cost of
/// everything: O(1), and now and then one allocation of 8 KiB at most.
pub(crate) struct Heap {
    pages: Vec<Page>,
    /// For each class, pages that may have room.
    open: [Vec<u32>; CLASS_UNITS.len()],
    /// Pages without memory.
    vacant: Vec<u32>,
    live_count: usize,
    offset_max: u32,
}

/// The class of blocks for at least `units` units.
fn class_of(units: usize) -> usize {
    debug_assert!((1..=BLOCK_UNITS_MAX).contains(&units));
    CLASS_UNITS.partition_point(|&size| usize::from(size) < units)
}

impl Heap {
    /// An empty heap whose offsets stay at or below `offset_max`.
    pub(crate) const fn new(offset_max: u32) -> Self {
        Self {
            pages: Vec::new(),
            open: [const { Vec::new() }; CLASS_UNITS.len()],
            vacant: Vec::new(),
            live_count: 0,
            offset_max,
        }
    }

    /// A block's units, all of its class's.
    #[inline]
    pub(crate) fn get(&self, offset: u32) -> &[u32] {
        let page = &self.pages[(offset >> PAGE_BITS) as usize];
        let place = offset as usize & (PAGE_UNITS - 1);
        &page.units[place..place + usize::from(CLASS_UNITS[usize::from(page.class)])]
    }

    /// As [`get`](Self::get), to change them.
    #[inline]
    pub(crate) fn get_mut(&mut self, offset: u32) -> &mut [u32] {
        let page = &mut self.pages[(offset >> PAGE_BITS) as usize];
        let place = offset as usize & (PAGE_UNITS - 1);
        &mut page.units[place..place + usize::from(CLASS_UNITS[usize::from(page.class)])]
    }

    /// Takes a block of at least `units` units, whose contents are undefined; none if offsets have run out.
    pub(crate) fn allocate(&mut self, units: usize) -> Option<u32> {
        let class = class_of(units);
        let page_id = self.page_with_room(class)?;
        let page = &mut self.pages[page_id as usize];
        let place = if page.free_first == NONE {
            let place = page.units.len();
            let len = place + usize::from(CLASS_UNITS[class]);
            if len > page.units.capacity() {
                let capacity = (2 * page.units.capacity()).clamp(len, PAGE_UNITS);
                page.units.reserve_exact(capacity - place);
            }
            page.units.resize(len, 0);
            place as u32
        } else {
            let place = page.free_first;
            page.free_first = page.units[place as usize];
            place
        };
        page.live_count += 1;
        self.live_count += 1;
        Some((page_id << PAGE_BITS) | place)
    }

    /// Gives a block back.
    pub(crate) fn free(&mut self, offset: u32) {
        let page_id = offset >> PAGE_BITS;
        let place = offset & (PAGE_UNITS as u32 - 1);
        let page = &mut self.pages[page_id as usize];
        page.units[place as usize] = page.free_first;
        page.free_first = place;
        page.live_count -= 1;
        if page.live_count == 0 {
            page.units = Vec::new();
            page.free_first = NONE;
        }
        if !page.is_open {
            page.is_open = true;
            self.open[usize::from(page.class)].push(page_id);
        }
        self.live_count -= 1;
        if self.live_count == 0 {
            *self = Self::new(self.offset_max);
        }
    }

    /// Bytes held, used or not.
    pub(crate) fn memory_bytes(&self) -> usize {
        let lists = self.open.iter().map(Vec::capacity).sum::<usize>() + self.vacant.capacity();
        let units: usize = self.pages.iter().map(|page| page.units.capacity()).sum();
        (units + lists) * size_of::<u32>() + self.pages.capacity() * size_of::<Page>()
    }

    fn page_with_room(&mut self, class: usize) -> Option<u32> {
        while let Some(&page_id) = self.open[class].last() {
            let page = &mut self.pages[page_id as usize];
            let is_vacant = page.units.capacity() == 0;
            if page.free_first != NONE || page.units.len() + usize::from(CLASS_UNITS[class]) <= PAGE_UNITS {
                let is_only = self.open[class].len() == 1;
                if is_vacant && !is_only {
                    // Another page of this class may have room; this one serves any class.
                    self.open[class].pop();
                    self.vacant.push(page_id);
                    continue;
                }
                return Some(page_id);
            }
            page.is_open = false;
            self.open[class].pop();
        }
        let page_id = match self.vacant.pop() {
            Some(page_id) => page_id,
            None if self.pages.len() as u64 >= u64::from(self.offset_max >> PAGE_BITS) => return None,
            None => {
                self.pages.push(Page {
                    units: Vec::new(),
                    free_first: NONE,
                    live_count: 0,
                    class: 0,
                    is_open: false,
                });
                self.pages.len() as u32 - 1
            }
        };
        let page = &mut self.pages[page_id as usize];
        page.class = class as u8;
        page.is_open = true;
        self.open[class].push(page_id);
        Some(page_id)
    }
}
