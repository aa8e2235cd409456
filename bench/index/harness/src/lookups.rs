//! Look-ups: one after another, of several threads at once, and beside a writer.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::clock::thread_nanos;
use crate::{Subject, Texts};

/// Between two operations of the writer: 100,000 a second, half of them insertions, half removals.
const WRITE_EVERY: Duration = Duration::from_micros(10);

/// Look-ups per second of one thread and of two together.
pub(crate) struct MatchRates {
    pub(crate) one: f64,
    pub(crate) two: f64,
    /// Per second of the threads' CPU time: what other work on the machine takes does not count, but neither does
    /// waiting for locks.
    pub(crate) one_by_cpu: f64,
    pub(crate) two_by_cpu: f64,
}

/// The best rates of some passes.
pub(crate) fn match_rates<S: Subject>(index: &S, topics: &Texts, passes: usize) -> MatchRates {
    let mut best = MatchRates { one: 0.0, two: 0.0, one_by_cpu: 0.0, two_by_cpu: 0.0 };
    for _ in 0..passes {
        let (one, one_by_cpu) = match_rate(index, topics, 1);
        let (two, two_by_cpu) = match_rate(index, topics, 2);
        best.one = best.one.max(one);
        best.two = best.two.max(two);
        best.one_by_cpu = best.one_by_cpu.max(one_by_cpu);
        best.two_by_cpu = best.two_by_cpu.max(two_by_cpu);
    }
    best
}

/// The sum of the threads' rates, by the wall's clock and by their own. Each thread looks up all topics, from a
/// different one on.
fn match_rate<S: Subject>(index: &S, topics: &Texts, threads: usize) -> (f64, f64) {
    let barrier = Barrier::new(threads);
    let one = |thread: usize| {
        let mut found = S::Found::default();
        let offset = thread * topics.len() / threads;
        barrier.wait();
        let (start, start_nanos) = (Instant::now(), thread_nanos());
        for at in (offset..topics.len()).chain(0..offset) {
            index.matches(&S::topic(topics.get(at)), &mut found);
        }
        let count = topics.len() as f64;
        (count / start.elapsed().as_secs_f64(), count * 1e9 / (thread_nanos() - start_nanos) as f64)
    };
    std::thread::scope(|scope| {
        let one = &one;
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
        let rates = handles.into_iter().map(|handle| handle.join().expect("look-ups do not panic"));
        rates.fold((0.0, 0.0), |sum, rate| (sum.0 + rate.0, sum.1 + rate.1))
    })
}

/// Latencies of single look-ups, in nanoseconds, sorted.
pub(crate) fn latencies<S: Subject>(index: &S, topics: &Texts) -> Vec<u32> {
    let mut found = S::Found::default();
    let mut nanos: Vec<u32> = (topics.iter())
        .map(|topic| {
            let topic = S::topic(topic);
            let start = Instant::now();
            index.matches(&topic, &mut found);
            start.elapsed().as_nanos() as u32
        })
        .collect();
    nanos.sort_unstable();
    nanos
}

/// Look-up latencies while another thread inserts and removes, in nanoseconds, sorted.
///
/// The writer's filters are new ones beside those held, all over the index; no topic matches them.
pub(crate) fn busy_latencies<S: Subject>(index: &S, topics: &Texts, filters: &Texts) -> Vec<u32> {
    let mut written = Texts::default();
    for text in filters.iter().step_by(7).take(50_000) {
        let literal = text.trim_end_matches(['#', '+', '*', '/']);
        written.push(&if literal.is_empty() { "w".to_owned() } else { format!("{literal}/w") });
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| write(index, &written, &is_over));
        let nanos = latencies(index, topics);
        is_over.store(true, Ordering::Relaxed);
        nanos
    })
}

fn write<S: Subject>(index: &S, filters: &Texts, is_over: &AtomicBool) {
    let start = Instant::now();
    let mut done = 0u32;
    for text in std::iter::repeat_with(|| filters.iter()).flatten() {
        let mut wait = || {
            while start.elapsed() < WRITE_EVERY * done {
                std::hint::spin_loop();
            }
            done += 1;
        };
        wait();
        let ticket = index.insert(text, u32::MAX);
        wait();
        index.remove(text, u32::MAX, &ticket);
        if is_over.load(Ordering::Relaxed) {
            return;
        }
    }
}
