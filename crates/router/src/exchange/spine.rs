//! A list that grows without moving what it holds, so that it can be read while it grows.

use std::sync::OnceLock;

/// Items of the first block; few for a model checker.
const FIRST_BLOCK: usize = if cfg!(all(test, loom)) { 2 } else { 16 };

const FIRST_BITS: u32 = FIRST_BLOCK.trailing_zeros();

/// Items of a chunk: as many as all blocks have together.
const CHUNK: usize = 512;

const CHUNK_BITS: u32 = CHUNK.trailing_zeros();

const BLOCKS: usize = (CHUNK_BITS - FIRST_BITS + 1) as usize;

/// Enough directories for 2^31 items.
const DIRECTORIES: usize = (31 - CHUNK_BITS) as usize;

type Chunk<T> = Box<[T; CHUNK]>;

type Directory<T> = Box<[OnceLock<Chunk<T>>]>;

type Directories<T> = Box<[OnceLock<Directory<T>>]>;

/// Items by index, in pieces that are made when they are first asked for and stay until the spine goes.
///
/// ```text
/// block     0       1        2        3               5
/// indices   0..16   16..32   32..64   64..128    …    256..512
///
/// directory       0             1              2
/// indices         512..1024     1024..2048     2048..4096     …
/// chunks of 512   1             2              4
/// ```
///
/// So nothing that is made at once is large: a piece is at most 512 items, a directory 16 bytes for each 512 items
/// before it.
pub(super) struct Spine<T> {
    blocks: [OnceLock<Box<[T]>>; BLOCKS],
    /// Made with the first directory, so that a short spine is small.
    directories: OnceLock<Directories<T>>,
}

impl<T: Default> Spine<T> {
    pub(super) const fn new() -> Self {
        Self { blocks: [const { OnceLock::new() }; BLOCKS], directories: OnceLock::new() }
    }

    /// The item, if its piece was made. Four dependent loads, or two among the first 512 items.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        if index < CHUNK {
            let (block, at) = place_of(index, FIRST_BITS);
            return self.blocks[block].get()?.get(at);
        }
        let (directory, chunk) = place_of(index >> CHUNK_BITS, 0);
        let chunk = self.directories.get()?.get(directory - 1)?.get()?.get(chunk)?;
        Some(&chunk.get()?[index % CHUNK])
    }

    /// The item; makes its piece if need be.
    pub(super) fn get_or_make(&self, index: usize) -> &T {
        if index < CHUNK {
            let (block, at) = place_of(index, FIRST_BITS);
            let len = if block == 0 { FIRST_BLOCK } else { FIRST_BLOCK << (block - 1) };
            return &self.blocks[block].get_or_init(|| made(len))[at];
        }
        let (directory, chunk) = place_of(index >> CHUNK_BITS, 0);
        let directories = self.directories.get_or_init(|| made(DIRECTORIES));
        let chunks = directories[directory - 1].get_or_init(|| made(1 << (directory - 1)));
        &chunks[chunk].get_or_init(|| made(CHUNK).try_into().ok().expect("it is as long"))[index % CHUNK]
    }

    /// Bytes held by blocks, directories and chunks.
    pub(super) fn memory_bytes(&self) -> usize {
        let blocks: usize =
            self.blocks.iter().filter_map(OnceLock::get).map(|block| size_of_val(&**block)).sum();
        let made = self.directories.get().map_or(&[][..], |directories| &**directories);
        let directories = made.iter().filter_map(OnceLock::get).map(|directory| {
            let chunk_count = directory.iter().filter(|chunk| chunk.get().is_some()).count();
            size_of_val(&**directory) + chunk_count * size_of::<[T; CHUNK]>()
        });
        blocks + size_of_val(made) + directories.sum::<usize>()
    }
}

fn made<T: Default>(len: usize) -> Box<[T]> {
    (0..len).map(|_| T::default()).collect()
}

/// Where an index is among pieces of which the first has 2^`first_bits` items and each later one doubles the whole.
#[inline]
const fn place_of(index: usize, first_bits: u32) -> (usize, usize) {
    if index < 1 << first_bits {
        return (0, index);
    }
    let top = index.ilog2();
    ((top - first_bits + 1) as usize, index - (1 << top))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn each_index_has_an_item_of_its_own() {
        let spine: Spine<AtomicUsize> = Spine::new();
        assert!(spine.get(0).is_none() && spine.get(usize::MAX / 2).is_none());
        for index in 0..5_000 {
            assert_eq!(spine.get_or_make(index).swap(index + 1, Ordering::Relaxed), 0);
        }
        for index in 0..5_000 {
            assert_eq!(spine.get(index).unwrap().load(Ordering::Relaxed), index + 1);
        }
    }

    #[test]
    fn an_item_makes_no_more_than_its_piece_and_the_directory() {
        let spine: Spine<AtomicUsize> = Spine::new();
        spine.get_or_make(1 << 26).store(7, Ordering::Relaxed);
        assert_eq!(spine.get(1 << 26).unwrap().load(Ordering::Relaxed), 7);
        assert!(spine.get((1 << 26) + CHUNK).is_none());
        assert_eq!(spine.memory_bytes(), DIRECTORIES * 24 + (1 << 26) / CHUNK * 16 + CHUNK * 8);
    }
}
