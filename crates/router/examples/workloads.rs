//! Measures the index on the workloads of its design: memory, rates, latencies, the slowest single operation.
//!
//! ```text
//! cargo run --release -p meridian-router --example workloads -- [a b c d e f g …]
//! ```
//!
//! Filters: (a) `device/{id}/+/{num}/#`, 10 ids × 10,000; (b) 8,000 × 10; (c) 100,000 × 10; (d) `t/mqttx/+/{i}/sub/+/#`,
//! 1,000,000; (e) 10,000,000 as (c); (f) random, 1–8 levels, Zipf words, 30 % wildcards; (g) 1,000,000 targets of one
//! filter; (h) as (c), with ids like `dev-1f3a9c42` that no word id can hold. One JSON record per line. Times of single
//! calls are the wall's in the quietest of some passes and include the clock's own, reported first; rates are per second of the thread's CPU time.
//! "resident" is what the process grew by, allocator included.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use meridian_router::{FilterId, Index, TargetId};
use meridian_types::{TopicFilter, TopicName};

/// A generator of the xorshift family: the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 32) as usize * limit) >> 32
    }

    /// Zipf-like: the lower, the likelier, over `limit` values.
    fn skewed(&mut self, limit: usize) -> usize {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((limit as f64).powf(unit) - 1.0) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

struct Workload {
    filters: Vec<String>,
    /// Topics in random order.
    topics: Vec<String>,
}

fn word(random: &mut Random) -> String {
    let rank = random.skewed(20_000);
    if rank.is_multiple_of(3) { rank.to_string() } else { format!("word-{rank:x}") }
}

fn workload(case: &str) -> Workload {
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    let grid = |ids: usize, nums: usize| (0..ids).flat_map(move |id| (0..nums).map(move |num| (id, num)));
    let (filters, topics): (Vec<_>, Vec<_>) = match case {
        "a" | "b" | "c" | "e" => {
            let (ids, nums) = match case {
                "a" => (10, 10_000),
                "b" => (8_000, 10),
                "c" => (100_000, 10),
                _ => (1_000_000, 10),
            };
            grid(ids, nums)
                .map(|(id, num)| (format!("device/{id}/+/{num}/#"), format!("device/{id}/foo/{num}/bar")))
                .unzip()
        }
        "d" => (0..1_000_000)
            .map(|i| (format!("t/mqttx/+/{i}/sub/+/#"), format!("t/mqttx/x/{i}/sub/y/z")))
            .unzip(),
        "h" => grid(100_000, 10)
            .map(|(id, num)| {
                let id = format!("dev-{:08x}", (id as u32).wrapping_mul(0x9E37_79B1));
                (format!("device/{id}/+/{num}/#"), format!("device/{id}/foo/{num}/bar"))
            })
            .unzip(),
        "f" => (0..1_000_000)
            .map(|_| {
                let depth = 1 + random.below(8);
                let words: Vec<String> = (0..depth).map(|_| word(&mut random)).collect();
                let mut levels = words.clone();
                if random.below(10) < 3 {
                    let at = random.below(depth);
                    if at + 1 == depth && depth > 1 {
                        levels[at] = "#".to_owned();
                    } else {
                        levels[at] = "+".to_owned();
                    }
                }
                (levels.join("/"), words.join("/"))
            })
            .unzip(),
        _ => (vec!["one/filter".to_owned()], vec!["one/filter".to_owned()]),
    };
    let mut topics = topics;
    random.shuffle(&mut topics);
    topics.truncate(400_000);
    Workload { filters, topics: topics.clone() }
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or("VmRSS: 0");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn report(case: &str, metric: &str, value: f64, unit: &str) {
    println!(
        r#"{{"case":"{case}","broker":"meridian","metric":"{metric}","value":{value:.3},"unit":"{unit}"}}"#
    );
}

/// Seconds this thread has been running, not counting when others had its core; the wall's where that is unknown.
fn cpu_seconds() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = statistics.split_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok());
    nanos.map_or_else(|| START.get_or_init(Instant::now).elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

/// How often this thread was made to leave its core.
fn preemptions() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("nonvoluntary")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Makes the allocator sort what the harness has freed now, not in the middle of somebody's insertion: glibc takes
/// tens of milliseconds for a million small blocks.
fn settle_allocator() {
    let blocks: Vec<Vec<u8>> = (0..300).map(|_| Vec::with_capacity(40_000)).collect();
    std::hint::black_box(&blocks);
}

/// Runs `operation` on each item; reports items per CPU second, and the slowest call that was not interrupted.
fn timed<T>(case: &str, name: &str, items: &[T], mut operation: impl FnMut(&T)) {
    // A call slower than this is looked into.
    const SLOW: Duration = Duration::from_micros(100);
    settle_allocator();
    let mut worst = Duration::ZERO;
    let mut preempted = preemptions();
    let start = cpu_seconds();
    let mut last = Instant::now();
    for item in items {
        operation(item);
        let mut now = Instant::now();
        if now - last > SLOW {
            let count = preemptions();
            if count == preempted {
                worst = worst.max(now - last);
            }
            preempted = count;
            now = Instant::now();
        } else {
            worst = worst.max(now - last);
        }
        last = now;
    }
    report(case, &format!("{name}_worst_us"), worst.as_secs_f64() * 1e6, "us");
    report(case, &format!("{name}_per_s"), items.len() as f64 / (cpu_seconds() - start), "1/s");
}

fn percentile(sorted: &[u32], share: f64) -> f64 {
    f64::from(sorted[((sorted.len() - 1) as f64 * share) as usize])
}

/// Latency of single look-ups, in nanoseconds, sorted.
fn match_latencies(index: &Index, topics: &[String]) -> Vec<u32> {
    let mut out = Vec::new();
    let mut nanos: Vec<u32> = (topics.iter())
        .map(|topic| {
            let topic = TopicName::new(topic).unwrap();
            out.clear();
            let start = Instant::now();
            index.matches(topic, &mut out);
            start.elapsed().as_nanos() as u32
        })
        .collect();
    nanos.sort_unstable();
    nanos
}

/// The pass with the lowest median: other work on the machine can only add.
fn quietest(passes: impl Iterator<Item = Vec<u32>>) -> Vec<u32> {
    passes.min_by_key(|nanos| nanos[nanos.len() / 2]).expect("at least one pass")
}

/// Look-ups per CPU second of `threads` threads at once.
fn match_rate(index: &Arc<Index>, topics: &Arc<Vec<String>>, threads: usize) -> f64 {
    let handles: Vec<_> = (0..threads)
        .map(|thread| {
            let (index, topics) = (Arc::clone(index), Arc::clone(topics));
            std::thread::spawn(move || {
                let start = cpu_seconds();
                let mut out = Vec::new();
                let offset = thread * topics.len() / threads;
                for at in 0..topics.len() {
                    out.clear();
                    let topic = &topics[(at + offset) % topics.len()];
                    index.matches(TopicName::new(topic).unwrap(), &mut out);
                }
                cpu_seconds() - start
            })
        })
        .collect();
    let seconds: f64 = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
    (threads * topics.len()) as f64 / seconds
}

/// Look-up latencies while another thread inserts and removes about 100,000 filters a second.
fn match_latencies_under_writes(index: &Arc<Index>, topics: &[String], filters: &[String]) -> Vec<u32> {
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (index, stop) = (Arc::clone(index), Arc::clone(&stop));
        let texts: Vec<String> = filters
            .iter()
            .step_by(7)
            .take(50_000)
            .map(|text| format!("{text}/w").replace("/#", ""))
            .collect();
        std::thread::spawn(move || {
            let start = Instant::now();
            let mut done = 0u32;
            'writing: loop {
                for text in &texts {
                    if stop.load(Ordering::Relaxed) {
                        break 'writing;
                    }
                    while start.elapsed() < Duration::from_micros(10) * done {
                        std::hint::spin_loop();
                    }
                    let filter = TopicFilter::new(text).unwrap();
                    index.insert(filter, TargetId(1), 0);
                    index.remove(filter, TargetId(1));
                    done += 2;
                }
            }
        })
    };
    let nanos = match_latencies(index, topics);
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    nanos
}

fn filter(text: &str) -> TopicFilter<'_> {
    TopicFilter::new(text).unwrap()
}

fn run_filters(case: &str) {
    let Workload { filters, topics } = workload(case);
    let topics = Arc::new(topics);
    let before = resident_bytes();
    let index = Arc::new(Index::new());
    let empty = index.memory_bytes();
    let mut number = 0;
    timed(case, "insert", &filters, |text| {
        number += 1;
        index.insert(filter(text), TargetId(number), 0);
    });
    let held = index.filter_count() as f64;
    report(case, "filters", held, "count");
    report(case, "bytes_per_filter", (index.memory_bytes() - empty) as f64 / held, "B");
    report(case, "resident_bytes_per_filter", resident_bytes().saturating_sub(before) as f64 / held, "B");

    let mut out = Vec::new();
    let found: usize = (topics.iter())
        .map(|topic| {
            out.clear();
            index.matches(TopicName::new(topic).unwrap(), &mut out);
            assert!(!out.is_empty(), "{topic} finds nothing");
            out.len()
        })
        .sum();
    report(case, "matches_per_topic", found as f64 / topics.len() as f64, "count");
    let nanos = quietest((0..5).map(|_| match_latencies(&index, &topics)));
    report(case, "match_p50_ns", percentile(&nanos, 0.5), "ns");
    report(case, "match_p99_ns", percentile(&nanos, 0.99), "ns");
    let one = match_rate(&index, &topics, 1);
    report(case, "match_per_s", one, "1/s");
    report(case, "match_two_threads", 2.0 * match_rate(&index, &topics, 2) / one, "times one");
    let busy = quietest((0..3).map(|_| match_latencies_under_writes(&index, &topics, &filters)));
    report(case, "match_p99_under_writes_ns", percentile(&busy, 0.99), "ns");

    let mut pairs: Vec<(String, u32)> = filters.into_iter().zip(1..).collect();
    Random(7).shuffle(&mut pairs);
    // Copies lie in the order they are used in, as if they had just arrived: their own cache misses are not the index's.
    let pairs = pairs.clone();
    timed(case, "remove", &pairs, |(text, number)| {
        index.remove(filter(text), TargetId(*number));
    });
    assert_eq!(index.memory_bytes(), empty, "memory is not given back");

    let mut ids: Vec<(FilterId, u32)> = Vec::with_capacity(pairs.len());
    timed(case, "insert_random", &pairs, |(text, number)| {
        ids.push((index.insert(filter(text), TargetId(*number), 0).0, *number));
    });
    report(case, "bytes_per_filter_random", (index.memory_bytes() - empty) as f64 / held, "B");
    if pairs.len() <= 1_000_000 {
        churn(case, &index, &pairs, &mut ids, empty, held);
    }
    Random(11).shuffle(&mut ids);
    timed(case, "remove_by_id", &ids, |&(id, number)| {
        index.remove_by_id(id, TargetId(number));
    });
    assert_eq!(index.memory_bytes(), empty, "memory is not given back");
}

/// Ten rounds in which nine of ten filters leave and come back: what fragmentation costs.
fn churn(
    case: &str,
    index: &Index,
    pairs: &[(String, u32)],
    ids: &mut [(FilterId, u32)],
    empty: usize,
    held: f64,
) {
    for round in 0..10 {
        let leaves = |at: usize| at % 10 != round;
        for (_, (text, number)) in pairs.iter().enumerate().filter(|&(at, _)| leaves(at)) {
            index.remove(filter(text), TargetId(*number));
        }
        for (at, (text, number)) in pairs.iter().enumerate().filter(|&(at, _)| leaves(at)) {
            ids[at].0 = index.insert(filter(text), TargetId(*number), 0).0;
        }
    }
    report(case, "bytes_per_filter_after_churn", (index.memory_bytes() - empty) as f64 / held, "B");
}

fn run_targets() {
    let index = Index::new();
    let empty = index.memory_bytes();
    let mut targets: Vec<u32> = (0..1_000_000).collect();
    Random(5).shuffle(&mut targets);
    let filter = filter("one/filter");
    timed("g", "insert", &targets, |&target| {
        index.insert(filter, TargetId(target), 0);
    });
    report("g", "bytes_per_target", (index.memory_bytes() - empty) as f64 / 1e6, "B");
    let mut out = Vec::with_capacity(1_000_000);
    let start = Instant::now();
    index.matches(TopicName::new("one/filter").unwrap(), &mut out);
    report("g", "match_ns_per_target", start.elapsed().as_secs_f64() * 1e9 / out.len() as f64, "ns");
    Random(6).shuffle(&mut targets);
    timed("g", "remove", &targets, |&target| {
        index.remove(filter, TargetId(target));
    });
    assert_eq!(index.memory_bytes(), empty, "memory is not given back");
}

fn main() {
    let start = Instant::now();
    let last = (0..1_000_000).map(|_| Instant::now()).max();
    report("clock", "clock_ns", last.map_or(0.0, |last| (last - start).as_secs_f64() * 1e3), "ns");
    // What the machine does to a loop that does nothing: no worst case below can be told from this.
    timed("clock", "nothing", &[(); 20_000_000], |()| {});
    let mut cases: Vec<String> = std::env::args().skip(1).collect();
    if cases.is_empty() {
        cases = ["a", "b", "c", "d", "f", "g", "h"].map(str::to_owned).to_vec();
    }
    for case in &cases {
        if case == "g" { run_targets() } else { run_filters(case) }
    }
}
