//! Clocks, and what the machine and the allocator add to them.

use std::time::Instant;

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds this thread has been running, not counting when others had its core. Costs a system call.
///
/// # Panics
/// If the system has no such clock; Linux has.
#[inline]
pub fn thread_nanos() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has a clock for each thread");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// What one reading costs, in nanoseconds: of the wall clock, which times look-ups, and of the thread's, which times
/// the slowest operations. Each of those figures includes one reading.
pub fn overheads() -> (f64, f64) {
    const READINGS: u32 = 200_000;
    let start = Instant::now();
    for _ in 0..READINGS {
        std::hint::black_box(Instant::now());
    }
    let wall = start.elapsed().as_nanos() as f64 / f64::from(READINGS);
    let start = Instant::now();
    for _ in 0..READINGS {
        std::hint::black_box(thread_nanos());
    }
    (wall, start.elapsed().as_nanos() as f64 / f64::from(READINGS))
}

/// Makes the allocator sort what the harness has freed now, not in the middle of somebody's insertion: glibc takes
/// tens of milliseconds for a million small blocks.
pub fn settle_allocator() {
    let blocks: Vec<Vec<u8>> = (0..300).map(|_| Vec::with_capacity(40_000)).collect();
    std::hint::black_box(&blocks);
}

/// Bytes of memory the process has in use, by the kernel's count; 0 if that is unknown.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The value that this share of the sorted values is at or below.
pub fn percentile(sorted: &[u32], share: f64) -> f64 {
    f64::from(sorted[((sorted.len() - 1) as f64 * share) as usize])
}
