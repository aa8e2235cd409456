//! The lock of a tree: many readers, or one writer.
//!
//! Readers of different threads write different cache lines (there are eight for each lock), so they do not slow each
//! other down, as they do with a lock that counts its readers in one place; a writer takes all eight, which is about
//! 100 ns.

use std::ops::{Deref, DerefMut};

#[cfg(not(all(test, loom)))]
use crossbeam_utils::sync::ShardedLock as Inner;
#[cfg(all(test, loom))]
use loom::sync::RwLock as Inner;

/// Why a lock cannot be poisoned.
const NO_PANIC: &str = "a thread panicked while it changed the tree, which is of no use now";

/// A value behind a lock.
pub(crate) struct Lock<T>(Inner<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Inner::new(value))
    }

    /// Waits for the writer, if there is one.
    ///
    /// # Panics
    /// If a writer panicked, which the crate's invariants rule out but for ids that run out.
    #[inline]
    pub(crate) fn read(&self) -> impl Deref<Target = T> {
        self.0.read().expect(NO_PANIC)
    }

    /// Waits for everybody. Panics as [`read`](Self::read) does.
    #[inline]
    pub(crate) fn write(&self) -> impl DerefMut<Target = T> {
        self.0.write().expect(NO_PANIC)
    }
}

/// Bytes that a lock holds outside itself: a cache line and its neighbour for each of eight groups of readers.
pub(crate) const LOCK_HEAP_BYTES: usize = 8 * 128;
