//! The lock of a tree.

pub(crate) use parking_lot::RwLock as Lock;
