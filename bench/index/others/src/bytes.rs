//! Counts the bytes of another index: `others-bytes ROW CASE [--quick]`.

use std::alloc::System;

use index_harness::{Arguments, Subject, bytes};
use stats_alloc::{INSTRUMENTED_SYSTEM, Stats, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

struct Measure<'a>(&'a Arguments);

impl index_others::Action for Measure<'_> {
    fn with<S: Subject>(self) {
        bytes::run::<S>(self.0, || in_use(&ALLOCATOR.stats()));
    }
}

fn main() {
    let arguments = Arguments::read();
    index_others::with_row(&arguments.row, Measure(&arguments));
}

/// Bytes handed out. (A change of size counts as handed out or taken back, so nothing else is to be added.)
fn in_use(stats: &Stats) -> usize {
    stats.bytes_allocated - stats.bytes_deallocated
}
