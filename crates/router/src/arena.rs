//! Fixed-size slots with 32-bit ids that never move.

/// A slot's type: it must be able to say that it is free, and then remember the next free slot.
pub(crate) trait Slot {
    /// A free slot that links to another by its place in the chunk.
    fn free(next: u32) -> Self;
    /// The link, if this slot is free.
    fn next_free(&self) -> Option<u32>;
}

/// Slots in a chunk. Growing copies at most one chunk, so no allocation takes long.
const CHUNK_SLOTS: usize = 2048;

const CHUNK_BITS: u32 = CHUNK_SLOTS.trailing_zeros();

/// The end of a chunk's list of free slots.
const NONE: u32 = u32::MAX;

struct Chunk<T> {
    slots: Vec<T>,
    free_first: u32,
    live_count: u32,
    /// Whether the chunk is in the arena's list of chunks to allocate from.
    is_open: bool,
}

/// Slots of one type, in chunks of 2,048. A slot is freed to its chunk's own list; a chunk without live slots gives
/// its memory back.
///
/// Cost: `get` is two dependent loads; `insert` and `remove` O(1), now and then one allocation of a chunk.
pub(crate) struct Arena<T> {
    chunks: Vec<Chunk<T>>,
    /// Chunks that may have room; the last is tried first.
    open: Vec<u32>,
    live_count: usize,
    id_max: u32,
}

impl<T: Slot> Arena<T> {
    /// An empty arena whose ids stay at or below `id_max`.
    pub(crate) const fn new(id_max: u32) -> Self {
        Self { chunks: Vec::new(), open: Vec::new(), live_count: 0, id_max }
    }

    /// The slot of a live id. Panics if there never was such an id; the caller never keeps a dead one.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> &T {
        &self.chunks[(id >> CHUNK_BITS) as usize].slots[id as usize & (CHUNK_SLOTS - 1)]
    }

    /// As [`get`](Self::get), to change it.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut T {
        &mut self.chunks[(id >> CHUNK_BITS) as usize].slots[id as usize & (CHUNK_SLOTS - 1)]
    }

    /// The slot of an id that need not be live.
    pub(crate) fn find(&self, id: u32) -> Option<&T> {
        let chunk = self.chunks.get((id >> CHUNK_BITS) as usize)?;
        chunk.slots.get(id as usize & (CHUNK_SLOTS - 1)).filter(|slot| slot.next_free().is_none())
    }

    /// Takes a slot; returns its id. The first slot of an empty arena has id 0.
    ///
    /// # Panics
    /// When ids run out: over 100 million live slots.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let chunk_id = self.chunk_with_room();
        let chunk = &mut self.chunks[chunk_id as usize];
        let place = if chunk.free_first == NONE {
            chunk.slots.push(value);
            chunk.slots.len() as u32 - 1
        } else {
            let place = chunk.free_first;
            let slot = &mut chunk.slots[place as usize];
            chunk.free_first = slot.next_free().expect("a slot in the free list is free");
            *slot = value;
            place
        };
        chunk.live_count += 1;
        self.live_count += 1;
        let id = (chunk_id << CHUNK_BITS) | place;
        assert!(id <= self.id_max, "the index holds more nodes than ids: {}", self.live_count);
        id
    }

    /// Frees a live slot.
    pub(crate) fn remove(&mut self, id: u32) {
        let chunk_id = id >> CHUNK_BITS;
        let place = id & (CHUNK_SLOTS as u32 - 1);
        let chunk = &mut self.chunks[chunk_id as usize];
        chunk.slots[place as usize] = T::free(chunk.free_first);
        chunk.free_first = place;
        chunk.live_count -= 1;
        if chunk.live_count == 0 {
            chunk.slots = Vec::new();
            chunk.free_first = NONE;
        }
        if !chunk.is_open {
            chunk.is_open = true;
            self.open.push(chunk_id);
        }
        self.live_count -= 1;
        if self.live_count == 0 {
            *self = Self::new(self.id_max);
        }
    }

    /// All live slots. O(n).
    pub(crate) fn live(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| &chunk.slots).filter(|slot| slot.next_free().is_none())
    }

    /// Bytes held by the slots, used or not.
    pub(crate) fn memory_bytes(&self) -> usize {
        let slots: usize = self.chunks.iter().map(|chunk| chunk.slots.capacity()).sum();
        slots * size_of::<T>()
            + self.chunks.capacity() * size_of::<Chunk<T>>()
            + self.open.capacity() * size_of::<u32>()
    }

    fn chunk_with_room(&mut self) -> u32 {
        while let Some(&chunk_id) = self.open.last() {
            let chunk = &mut self.chunks[chunk_id as usize];
            if chunk.free_first != NONE || chunk.slots.len() < CHUNK_SLOTS {
                return chunk_id;
            }
            chunk.is_open = false;
            self.open.pop();
        }
        let chunk_id = self.chunks.len() as u32;
        // The first chunk grows as it fills, so that a small arena is small.
        let capacity = if chunk_id == 0 { 0 } else { CHUNK_SLOTS };
        self.chunks.push(Chunk {
            slots: Vec::with_capacity(capacity),
            free_first: NONE,
            live_count: 0,
            is_open: true,
        });
        self.open.push(chunk_id);
        chunk_id
    }
}
