//! Measures what is not an MQTT filter: string prefixes and AMQP topic patterns, hostile ones included; and the cache.
//!
//! ```text
//! cargo run --release -p meridian-router --example kinds
//! ```
//!
//! One JSON record per line, in the form of `workloads`. Times are of the thread's CPU, in the quietest of some passes, per
//! call; the worst is the wall's, with whatever else the machine did.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

use meridian_router::{Entry, Index, MatchCache, PatternTree, PrefixIndex, RoutingPattern, TargetId};
use meridian_types::{TopicFilter, TopicName};

/// A generator of the xorshift family: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as usize * limit) >> 32
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
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

/// Nanoseconds per call over all items, in the quietest of five passes.
fn nanos_per_call<T>(items: &[T], mut call: impl FnMut(&T)) -> f64 {
    // Shorter than this the count of CPU time does not tell.
    const PASS_SECONDS: f64 = 0.05;
    let passes = (0..5).map(|_| {
        let (start, mut rounds) = (cpu_seconds(), 0);
        loop {
            items.iter().for_each(&mut call);
            rounds += 1;
            let seconds = cpu_seconds() - start;
            if seconds > PASS_SECONDS {
                return seconds * 1e9 / (rounds * items.len()) as f64;
            }
        }
    });
    passes.fold(f64::INFINITY, f64::min)
}

/// Prefixes `/zeek/event/{kind}/{node}`, looked up by longer texts in random order.
fn prefixes(case: &str, kinds: usize, nodes: usize) {
    let grid = (0..kinds).flat_map(|kind| (0..nodes).map(move |node| (kind, node)));
    let (prefixes, mut texts): (Vec<_>, Vec<_>) = grid
        .map(|(kind, node)| {
            let prefix = format!("/zeek/event/{}-kind-{kind}/node-{node}", ["conn", "dns", "http"][kind % 3]);
            (prefix.clone(), format!("{prefix}/log"))
        })
        .unzip();
    let index = PrefixIndex::new();
    let empty = index.memory_bytes();
    let start = cpu_seconds();
    for (target, prefix) in (0..).zip(&prefixes) {
        index.insert(prefix.as_bytes(), TargetId(target), 0);
    }
    let is_long = prefixes.len() >= 100_000;
    if is_long {
        report(case, "insert_per_s", prefixes.len() as f64 / (cpu_seconds() - start), "1/s");
    }
    report(case, "bytes_per_filter", (index.memory_bytes() - empty) as f64 / prefixes.len() as f64, "B");
    Random(3).shuffle(&mut texts);
    let mut out = Vec::new();
    let nanos = nanos_per_call(&texts, |text| {
        out.clear();
        index.matches(text.as_bytes(), &mut out);
        assert!(!out.is_empty());
    });
    report(case, "match_mean_ns", nanos, "ns");
    let missing: Vec<String> = texts.iter().map(|text| text.replace("node", "mode")).collect();
    let nanos = nanos_per_call(&missing, |text| {
        out.clear();
        index.matches(text.as_bytes(), &mut out);
        assert!(out.is_empty());
    });
    report(case, "no_match_mean_ns", nanos, "ns");
    let start = cpu_seconds();
    for (target, prefix) in (0..).zip(&prefixes) {
        index.remove(prefix.as_bytes(), TargetId(target));
    }
    if is_long {
        report(case, "remove_per_s", prefixes.len() as f64 / (cpu_seconds() - start), "1/s");
    }
    assert_eq!(index.memory_bytes(), empty, "memory is not given back");
}

fn pattern(text: &str) -> RoutingPattern<'_> {
    RoutingPattern::new(text.as_bytes()).unwrap()
}

/// Topic patterns and keys that match one of them at least, in random order.
fn patterns(case: &str, patterns: &[String], keys: &mut [String]) {
    let mut tree = PatternTree::new();
    let empty = tree.memory_bytes();
    let start = cpu_seconds();
    for (target, text) in (0..).zip(patterns) {
        tree.insert(pattern(text), TargetId(target), 0);
    }
    report(case, "insert_per_s", patterns.len() as f64 / (cpu_seconds() - start), "1/s");
    let held = tree.pattern_count() as f64;
    report(case, "bytes_per_filter", (tree.memory_bytes() - empty) as f64 / held, "B");
    Random(5).shuffle(keys);
    let mut out: Vec<Entry> = Vec::new();
    let mut worst = 0;
    let nanos = nanos_per_call(keys, |key| {
        out.clear();
        let start = Instant::now();
        tree.matches(key.as_bytes(), &mut out);
        worst = worst.max(start.elapsed().as_nanos());
        assert!(!black_box(&out).is_empty(), "{key} finds nothing");
    });
    report(case, "match_mean_ns", nanos, "ns");
    report(case, "match_worst_us", worst as f64 / 1e3, "us");
}

/// Cached look-ups of 1,000 hot topics among 100,000 filters, in random order.
fn cached() {
    let index = Index::new();
    let texts: Vec<String> = (0..100_000).map(|n| format!("device/{}/sensor-{}", n / 10, n % 10)).collect();
    for (target, text) in (0..).zip(&texts) {
        index.insert(TopicFilter::new(text).unwrap(), TargetId(target), 0);
    }
    let mut hot: Vec<&String> = texts.iter().step_by(100).collect();
    Random(9).shuffle(&mut hot);
    let mut cache = MatchCache::<u32>::new(1 << 20);
    let look_up = |cache: &mut MatchCache<u32>, text: &str| {
        if let Some(&count) = cache.get(0, text.as_bytes(), |guard| index.is_current(guard)) {
            return count;
        }
        let topic = TopicName::new(text).unwrap();
        let guard = index.guard(topic);
        let mut out = Vec::new();
        index.matches(topic, &mut out);
        cache.put(0, text.as_bytes(), guard, out.len() as u32, 0);
        out.len() as u32
    };
    // A topic is kept from its second miss on, and a few later.
    for _ in 0..10 {
        hot.iter().for_each(|text| assert_eq!(look_up(&mut cache, text), 1));
    }
    assert!(cache.len() * 100 > hot.len() * 99, "{} topics are kept", cache.len());
    let rounds: Vec<&String> = (0..1000).flat_map(|_| hot.iter().copied()).collect();
    let mut found = 0u64;
    let nanos = nanos_per_call(&rounds, |text| found += u64::from(look_up(&mut cache, text)));
    assert_eq!(found as usize % rounds.len(), 0, "a topic has one match");
    report("cache", "cached_match_per_s", 1e9 / nanos, "1/s");
}

fn main() {
    cached();
    prefixes("prefix_10k", 100, 100);
    prefixes("prefix_1m", 10_000, 100);

    let numbers = || 0..100_000;
    let texts = |form: fn(usize) -> String| numbers().map(form).collect::<Vec<_>>();
    // No `#` inside, one in the middle, one in front of 100,000 words, and one behind each of 100,000.
    patterns(
        "pattern_star",
        &texts(|n| format!("device.{n}.*.{}.#", n % 10)),
        &mut texts(|n| format!("device.{n}.foo.{}.bar", n % 10)),
    );
    patterns(
        "pattern_middle",
        &texts(|n| format!("region.{}.#.sensor-{n}.alarm", n % 100)),
        &mut texts(|n| format!("region.{}.hall.7.sensor-{n}.alarm", n % 100)),
    );
    patterns(
        "pattern_front",
        &texts(|n| format!("#.sensor-{n}.*")),
        &mut texts(|n| format!("region.{}.hall.7.sensor-{n}.alarm", n % 100)),
    );
    patterns(
        "pattern_twice",
        &texts(|n| format!("*.{}.#.sensor-{n}.#.alarm", n % 100)),
        &mut texts(|n| format!("region.{}.hall.7.sensor-{n}.x.alarm", n % 100)),
    );
    hostile();
}

/// Patterns made so that a walk that tries every way would not end, and the longest keys there can be.
fn hostile() {
    let chains = |depth: usize, end: &str| format!("{}.{end}", vec!["#.a"; depth].join("."));
    let mut held = vec!["#.#.#.#.a".to_owned(), "#".to_owned()];
    held.extend((1..120).map(|depth| chains(depth, "b")));
    held.extend((1..120).map(|depth| chains(depth, &format!("x{depth}"))));
    let short = vec!["a"; 128].join(".");
    patterns("hostile_255_bytes", &held, &mut vec![short; 100]);
    held.extend((120..5_000).map(|depth| chains(depth, "b")));
    let long = vec!["a"; 10_000].join(".");
    patterns("hostile_10000_words", &held, &mut [long, ".".repeat(65_534)]);
}
