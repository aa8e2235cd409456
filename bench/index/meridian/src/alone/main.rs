//! Measures what only Meridian's router does: `meridian-alone ROW CASE [--quick]`.
//!
//! Each case has several workloads, reported as cases of their own. Look-ups are timed one by one by the wall's clock,
//! in the quietest of some passes; whole operations by the thread's.

mod exchanges;
mod hostile;
mod interest;
mod patterns;
mod prefixes;

use std::time::Instant;

use index_harness::clock::{percentile, thread_nanos};
use index_harness::{Arguments, Effort, Report};

/// What the workloads of a case share.
struct Context {
    row: String,
    effort: Effort,
    /// A tenth of what large workloads hold.
    is_small: bool,
}

impl Context {
    fn report(&self, case: &str) -> Report {
        Report::new(&self.row, case)
    }

    /// As many as asked for, or a tenth.
    const fn scaled(&self, count: usize) -> usize {
        if self.is_small { count / 10 } else { count }
    }

    /// Reports how long single calls take, made in the order of the items.
    fn report_latencies<T>(&self, report: &Report, items: &[T], mut call: impl FnMut(&T) -> usize) {
        let mut passes: Vec<Vec<u32>> = Vec::new();
        for _ in 0..self.effort.match_passes {
            let mut nanos: Vec<u32> = (items.iter())
                .map(|item| {
                    let start = Instant::now();
                    let found = call(item);
                    let nanos = start.elapsed().as_nanos() as u32;
                    std::hint::black_box(found);
                    nanos
                })
                .collect();
            nanos.sort_unstable();
            passes.push(nanos);
        }
        let least = |share| passes.iter().map(|nanos| percentile(nanos, share)).fold(f64::MAX, f64::min);
        report.add("match_p50_ns", least(0.5), "ns");
        report.add("match_p99_ns", least(0.99), "ns");
        let found: usize = items.iter().map(call).sum();
        report.add("matches_per_topic", found as f64 / items.len() as f64, "count");
    }
}

/// The thread's time for one call, in nanoseconds, and what it returned.
fn timed<T>(call: impl FnOnce() -> T) -> (f64, T) {
    let start = thread_nanos();
    let value = call();
    ((thread_nanos() - start) as f64, value)
}

/// Calls per second of the thread's time, over all items.
fn rate<T>(items: &[T], mut call: impl FnMut(usize, &T)) -> f64 {
    let (nanos, ()) = timed(|| items.iter().enumerate().for_each(|(at, item)| call(at, item)));
    items.len() as f64 * 1e9 / nanos
}

/// The longest the thread ran for one insertion or removal of an item, in microseconds: in the pass over all in which
/// that is least, since what else the machine does is not told apart.
fn slowest<T>(
    passes: usize,
    items: &[T],
    mut insert: impl FnMut(usize, &T),
    mut remove: impl FnMut(usize, &T),
) -> f64 {
    (0..passes).map(|_| worst(items, &mut insert).max(worst(items, &mut remove))).fold(f64::MAX, f64::min)
}

/// The longest the thread ran for one call, in microseconds.
fn worst<T>(items: &[T], mut call: impl FnMut(usize, &T)) -> f64 {
    let nanos = items.iter().enumerate().map(|(at, item)| timed(|| call(at, item)).0);
    nanos.fold(0.0, f64::max) / 1e3
}

fn main() {
    let Arguments { row, case, effort } = Arguments::read();
    let context = Context { row, effort, is_small: effort.rate_passes == 1 };
    match case.as_str() {
        "amqp" => patterns::run(&context),
        "hostile" => hostile::run(&context),
        "headers" => exchanges::run_headers(&context),
        "prefix" => prefixes::run(&context),
        "exchange" => exchanges::run_keyless(&context),
        "summary" => interest::run_summary(&context),
        "owner" => interest::run_owner(&context),
        _ => {
            eprintln!(
                "meridian-alone: no case {case}; there are amqp hostile headers prefix exchange summary owner"
            );
            std::process::exit(2);
        }
    }
}
