//! Measures routing indexes: the same workloads and the same measurements for each.
//!
//! An index takes part by an adapter, an implementation of [`Subject`]. A row is two programs: one counts bytes with a
//! counting allocator ([`bytes::run`]), one takes times with the system's ([`times::run`]), because counting costs time.
//! Each measures one case and ends; results go to the standard output as one JSON record per line ([`Report`]).
//!
//! Not here: the cases of one index alone, and whatever decides which programs run when.

mod arguments;
pub mod bytes;
pub mod clock;
mod lookups;
mod random;
mod report;
mod subject;
mod texts;
pub mod times;
mod workload;

pub use arguments::{Arguments, Effort};
pub use random::Random;
pub use report::Report;
pub use subject::{Subject, cached_rates};
pub use texts::Texts;
pub use workload::{CASES, Workload, visit};
