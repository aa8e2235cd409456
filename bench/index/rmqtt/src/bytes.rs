//! Counts the bytes of rmqtt's tree: `rmqtt-bytes ROW CASE [--quick]`.

use std::alloc::System;

use index_harness::{Arguments, bytes};
use index_rmqtt::Rmqtt;
use stats_alloc::{INSTRUMENTED_SYSTEM, Stats, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    bytes::run::<Rmqtt>(&Arguments::read(), || in_use(&ALLOCATOR.stats()));
}

/// Bytes handed out. (A change of size counts as handed out or taken back, so nothing else is to be added.)
fn in_use(stats: &Stats) -> usize {
    stats.bytes_allocated - stats.bytes_deallocated
}
