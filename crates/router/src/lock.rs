//! The lock of a tree: many readers, or one writer.
//!
//! Readers must not write to one cache line, which would go from core to core with each look-up: two threads would look
//! up 1.6 times as fast as one. So the lock is in eight parts, of which a reader takes its thread's and a writer all.
//! That costs a writer 30 ns; with one core it is an ordinary lock.

use std::sync::OnceLock;

use crossbeam_utils::sync::ShardedLock;

#[cfg(all(test, loom))]
use loom::sync::RwLock;
#[cfg(not(all(test, loom)))]
use std::sync::RwLock;

/// Bytes that a lock in parts holds outside itself: a cache line and its neighbour for each of eight.
const PARTS_BYTES: usize = 8 * 128;

/// Why a lock cannot be poisoned.
const NO_PANIC: &str = "a thread panicked while it changed the tree, which is of no use now";

/// A value behind a lock.
pub(crate) enum Lock<T> {
    Whole(RwLock<T>),
    InParts(ShardedLock<T>),
}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self::in_parts_if(has_several_cores(), value)
    }

    fn in_parts_if(is_in_parts: bool, value: T) -> Self {
        if is_in_parts { Self::InParts(ShardedLock::new(value)) } else { Self::Whole(RwLock::new(value)) }
    }

    /// Shows the value, after the writer, if there is one.
    ///
    /// # Panics
    /// If a writer panicked, which the crate's invariants rule out but for ids that run out.
    #[inline]
    pub(crate) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        match self {
            Self::Whole(lock) => look(&lock.read().expect(NO_PANIC)),
            Self::InParts(lock) => look(&lock.read().expect(NO_PANIC)),
        }
    }

    /// Hands the value out to be changed, after everybody else. Panics as [`read`](Self::read) does.
    #[inline]
    pub(crate) fn write<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        match self {
            Self::Whole(lock) => change(&mut lock.write().expect(NO_PANIC)),
            Self::InParts(lock) => change(&mut lock.write().expect(NO_PANIC)),
        }
    }

    /// Bytes held outside the lock itself, without the value's.
    pub(crate) const fn heap_bytes(&self) -> usize {
        match self {
            Self::Whole(_) => 0,
            Self::InParts(_) => PARTS_BYTES,
        }
    }
}

/// Whether readers are worth being kept apart. A model checker counts no cores.
fn has_several_cores() -> bool {
    static CORES: OnceLock<usize> = OnceLock::new();
    let count = || std::thread::available_parallelism().map_or(1, usize::from);
    !cfg!(all(test, loom)) && *CORES.get_or_init(count) > 1
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn changes_by_many_threads_are_all_seen() {
        for is_in_parts in [false, true] {
            let lock = Lock::in_parts_if(is_in_parts, [0u32; 2]);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..1_000 {
                            lock.write(|counts| counts.iter_mut().for_each(|count| *count += 1));
                            let seen = lock.read(|counts| *counts);
                            assert_eq!(seen[0], seen[1]);
                        }
                    });
                }
            });
            lock.read(|counts| assert_eq!(*counts, [4_000; 2]));
        }
    }
}
