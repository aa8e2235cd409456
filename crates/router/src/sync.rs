//! The atomics of the concurrent part, which a model checker replaces by its own, and a hasher that it can foresee.

#[cfg(all(test, loom))]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The hasher of what readers look up: with a secret of its own, but for a model checker, which has to see the same
/// again.
#[cfg(all(test, loom))]
pub(crate) type KeyHasher = foldhash::fast::FixedState;
#[cfg(not(all(test, loom)))]
pub(crate) type KeyHasher = foldhash::fast::RandomState;
