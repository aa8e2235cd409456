//! Rows of 32-bit units, each stored once however often it is used.

use crate::arena::{Arena, Slot};
use crate::hash::Seeds;
use crate::heap::{BLOCK_UNITS_MAX, Heap};
use crate::table::{ID_LIMIT, Table};

/// The lowest bit of the id of a long row.
const LONG: u32 = 1;

/// Places of rows are at most this.
const PLACE_MAX: u32 = (ID_LIMIT - 1) / 2;

/// Units of a block before the row itself: how many use it, and its length.
const HEADER_UNITS: usize = 2;

/// What can be looked up as a row of units.
pub(crate) trait Key: Copy {
    /// Units in the row, at least one.
    fn unit_count(self) -> usize;
    /// Its hash: that of the same row as a slice.
    fn hash(self, seeds: Seeds) -> u64;
    /// Whether it is this row.
    fn equals(self, units: &[u32]) -> bool;
    /// Writes the row; `units` is as long as it is.
    fn write(self, units: &mut [u32]);
}

impl Key for &[u32] {
    fn unit_count(self) -> usize {
        self.len()
    }

    fn hash(self, seeds: Seeds) -> u64 {
        seeds.hash_row(
            self.chunks(2)
                .map(|pair| u64::from(pair[0]) | pair.get(1).map_or(0, |&high| u64::from(high) << 32)),
        )
    }

    fn equals(self, units: &[u32]) -> bool {
        self == units
    }

    fn write(self, units: &mut [u32]) {
        units.copy_from_slice(self);
    }
}

/// Text without zero bytes, as units: four bytes each, the first lowest, the last padded with zeros.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a>(pub &'a [u8]);

/// Up to eight bytes as a number, the first lowest.
#[inline]
pub(crate) fn little_endian(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

impl Key for Text<'_> {
    fn unit_count(self) -> usize {
        self.0.len().div_ceil(4)
    }

    fn hash(self, seeds: Seeds) -> u64 {
        seeds.hash_row(self.0.chunks(8).map(little_endian))
    }

    fn equals(self, units: &[u32]) -> bool {
        units.len() == self.unit_count()
            && self.0.chunks(4).zip(units).all(|(bytes, &unit)| little_endian(bytes) == u64::from(unit))
    }

    fn write(self, units: &mut [u32]) {
        for (bytes, unit) in self.0.chunks(4).zip(units) {
            *unit = little_endian(bytes) as u32;
        }
    }
}

/// A row too long for a block.
struct Long {
    /// How many use it; the next free slot if `units` is empty.
    use_count: u32,
    units: Box<[u32]>,
}

impl Slot for Long {
    fn free(next: u32) -> Self {
        Self { use_count: next, units: Box::default() }
    }

    fn next_free(&self) -> Option<u32> {
        self.units.is_empty().then_some(self.use_count)
    }
}

/// Where a row is.
enum Place {
    /// In the block at this offset.
    Block(u32),
    /// In this slot of the long rows.
    Long(u32),
}

/// Ids are small, as places are: the table keeps more of a hash beside a small id.
#[inline]
const fn place_of(id: u32) -> Place {
    if id & LONG == 0 { Place::Block(id >> 1) } else { Place::Long(id >> 1) }
}

/// Rows with a count of their uses.
///
/// An id is valid while its row is in use, and then the same row has the same id. Ids are below 2^27.
pub(crate) struct Interner {
    seeds: Seeds,
    table: Table,
    heap: Heap,
    long: Arena<Long>,
}

/// Where rows are kept; apart from the table so that both can be borrowed at once.
fn row<'a>(heap: &'a Heap, long: &'a Arena<Long>, id: u32) -> &'a [u32] {
    match place_of(id) {
        Place::Block(offset) => {
            let block = heap.get(offset);
            &block[HEADER_UNITS..HEADER_UNITS + block[1] as usize]
        }
        Place::Long(slot) => &long.get(slot).units,
    }
}

impl Interner {
    pub(crate) fn new() -> Self {
        Self {
            seeds: Seeds::new(),
            table: Table::new(),
            heap: Heap::new(PLACE_MAX),
            long: Arena::new(PLACE_MAX - 1),
        }
    }

    /// The row of a valid id.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> &[u32] {
        row(&self.heap, &self.long, id)
    }

    /// The id of a row in use.
    #[inline]
    pub(crate) fn find(&self, key: impl Key) -> Option<u32> {
        self.table.find(key.hash(self.seeds), |id| key.equals(self.get(id)))
    }

    /// The id of a row, used once more from now on, and whether it is new.
    pub(crate) fn intern(&mut self, key: impl Key) -> (u32, bool) {
        if let Some(id) = self.find(key) {
            self.retain(id);
            return (id, false);
        }
        let units = key.unit_count();
        let block = if HEADER_UNITS + units > BLOCK_UNITS_MAX {
            None
        } else {
            self.heap.allocate(HEADER_UNITS + units)
        };
        let id = if let Some(offset) = block {
            let block = self.heap.get_mut(offset);
            block[0] = 1;
            block[1] = units as u32;
            key.write(&mut block[HEADER_UNITS..HEADER_UNITS + units]);
            offset << 1
        } else {
            let mut row = vec![0; units].into_boxed_slice();
            key.write(&mut row);
            self.long.insert(Long { use_count: 1, units: row }) << 1 | LONG
        };
        let Self { table, heap, long, seeds } = self;
        table.insert(key.hash(*seeds), id, |id| row(heap, long, id).hash(*seeds));
        (id, true)
    }

    /// Uses a row once more.
    pub(crate) fn retain(&mut self, id: u32) {
        *self.use_count(id) += 1;
    }

    /// Uses a row once less. With the last use it is forgotten, after `last_use` has seen it.
    pub(crate) fn release(&mut self, id: u32, last_use: impl FnOnce(&[u32])) {
        let use_count = self.use_count(id);
        *use_count -= 1;
        if *use_count > 0 {
            return;
        }
        let Self { table, heap, long, seeds } = self;
        last_use(row(heap, long, id));
        table.remove(row(heap, long, id).hash(*seeds), id);
        match place_of(id) {
            Place::Block(offset) => heap.free(offset),
            Place::Long(slot) => long.remove(slot),
        }
    }

    /// Bytes held, used or not.
    pub(crate) fn memory_bytes(&self) -> usize {
        let rows: usize = self.long.live().map(|long| long.units.len() * size_of::<u32>()).sum();
        self.table.memory_bytes() + self.heap.memory_bytes() + self.long.memory_bytes() + rows
    }

    fn use_count(&mut self, id: u32) -> &mut u32 {
        match place_of(id) {
            Place::Block(offset) => &mut self.heap.get_mut(offset)[0],
            Place::Long(slot) => &mut self.long.get_mut(slot).use_count,
        }
    }
}
