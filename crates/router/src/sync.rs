//! The atomics of the concurrent part, so that a model checker can put its own in their place.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
