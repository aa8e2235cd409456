//! The atomics of the concurrent part, which a model checker replaces by its own.

#[cfg(all(test, loom))]
pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
