//! One thread's cache of results.

#[cfg(not(feature = "now"))]
mod before;
#[cfg(feature = "now")]
mod now;

#[cfg(not(feature = "now"))]
pub use before::Cache;
#[cfg(feature = "now")]
pub use now::Cache;

/// Bytes that a cache may take.
const BYTES_MAX: usize = 64 << 20;
