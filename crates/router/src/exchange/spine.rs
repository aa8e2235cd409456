//! A list that grows without moving what it holds, so that it can be read while it grows.

use std::sync::OnceLock;

/// Items of the first block; each later block doubles the list.
const FIRST_BLOCK: usize = 16;

const FIRST_BITS: u32 = FIRST_BLOCK.trailing_zeros();

/// Enough blocks for 2^31 items.
const BLOCKS: usize = 28;

/// Items by index, in blocks that are made when they are first asked for and stay until the spine goes.
///
/// ```text
/// block     0       1        2        3
/// indices   0..16   16..32   32..64   64..128 …
/// ```
pub(super) struct Spine<T> {
    blocks: [OnceLock<Box<[T]>>; BLOCKS],
}

impl<T: Default> Spine<T> {
    pub(super) const fn new() -> Self {
        Self { blocks: [const { OnceLock::new() }; BLOCKS] }
    }

    /// The item, if its block was made. Two dependent loads.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        let (block, at) = place_of(index);
        self.blocks.get(block)?.get()?.get(at)
    }

    /// The item; makes its block if need be, which takes time proportional to the items before it.
    pub(super) fn get_or_make(&self, index: usize) -> &T {
        let (block, at) = place_of(index);
        let len = if block == 0 { FIRST_BLOCK } else { FIRST_BLOCK << (block - 1) };
        &self.blocks[block].get_or_init(|| (0..len).map(|_| T::default()).collect())[at]
    }

    /// Bytes held by the blocks.
    pub(super) fn memory_bytes(&self) -> usize {
        self.blocks.iter().filter_map(OnceLock::get).map(|block| size_of_val(&**block)).sum()
    }
}

/// The block of an item and its place there.
#[inline]
const fn place_of(index: usize) -> (usize, usize) {
    if index < FIRST_BLOCK {
        return (0, index);
    }
    let top = index.ilog2();
    ((top - FIRST_BITS + 1) as usize, index - (1 << top))
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
}
