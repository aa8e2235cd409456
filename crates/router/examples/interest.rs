//! Measures what nodes tell each other of their filters: feeds, copies, dropping a node's routes, summaries.
//!
//! ```text
//! cargo run --release -p meridian-router --example interest -- [owners feed summary …]
//! ```
//!
//! A million filters each. One JSON record per line; times are of the thread's CPU, but for single steps the wall's.
//! "resident" is what the process grew by, allocator included, and too little where memory was used again.

use std::sync::OnceLock;
use std::time::Instant;

use meridian_router::feed::{
    Epoch, HashKey, Interest, PageStart, RING_BYTES_DEFAULT, Replica, Sequence, Since,
};
use meridian_router::owners::OwnedRoutes;
use meridian_router::summary::{Budget, summarize};
use meridian_router::{Index, TargetId};
use meridian_types::{TopicFilter, TopicName};

const COUNT: usize = 1_000_000;

const KEY: HashKey = HashKey([7; 16]);

/// Bytes of a page or a batch of changes.
const MESSAGE_BYTES: usize = 64 << 10;

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

/// Seconds this thread has been running; the wall's where that is unknown.
fn cpu_seconds() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = statistics.split_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok());
    nanos.map_or_else(|| START.get_or_init(Instant::now).elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

fn timed<R>(run: impl FnOnce() -> R) -> (R, f64) {
    let start = cpu_seconds();
    let result = run();
    (result, cpu_seconds() - start)
}

fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or("VmRSS: 0");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) * 1024.0
}

fn filter(text: &str) -> TopicFilter<'_> {
    TopicFilter::new(text).expect("a valid filter")
}

/// `device/{id}/+/{num}/#`, 100,000 × 10, in random order.
fn devices() -> Vec<String> {
    let mut filters: Vec<String> =
        (0..COUNT).map(|at| format!("device/{}/+/{}/#", at / 10, at % 10)).collect();
    Random(1).shuffle(&mut filters);
    filters
}

/// Two million filters of which half are spread over some owners: what their sets take, and dropping one of them.
fn run_owners(owner_count: usize) {
    let case = format!("owners_{owner_count}");
    let filters = devices();
    let index = Index::new();
    for (at, text) in filters.iter().enumerate() {
        index.insert(filter(&format!("{text}/other").replace("/#", "")), TargetId(u32::MAX), 0);
        index.insert(filter(text), TargetId((at % owner_count) as u32), 0);
    }
    // The routes are there already, so that only the owners' sets grow.
    let before = resident_bytes();
    let mut owners: Vec<OwnedRoutes> =
        (0..owner_count).map(|owner| OwnedRoutes::new(TargetId(owner as u32), 0)).collect();
    for (at, text) in filters.iter().enumerate() {
        owners[at % owner_count].insert(&index, filter(text));
    }
    report(&case, "resident_bytes_per_route", (resident_bytes() - before) / COUNT as f64, "B");
    let counted: usize = owners.iter().map(OwnedRoutes::memory_bytes).sum();
    report(&case, "bytes_per_route", counted as f64 / COUNT as f64, "B");

    let (mut routes, mut steps) = (0, Vec::new());
    let ((), seconds) = timed(|| {
        for owner in &mut owners {
            owner.mark_stale();
            loop {
                let start = Instant::now();
                let dropped = owner.drop_stale(&index, 256, &mut |_| {});
                steps.push(start.elapsed());
                routes += dropped.routes;
                if dropped.left == 0 {
                    break;
                }
            }
        }
    });
    assert_eq!((routes, index.filter_count()), (COUNT, COUNT));
    report(&case, "drop_ns_per_route", seconds * 1e9 / routes as f64, "ns");
    steps.sort_unstable();
    let p99 = steps[steps.len() * 99 / 100].as_secs_f64();
    report(&case, "drop_step_of_256_p99_us", p99 * 1e6, "us");
}

fn run_feed() {
    let filters = devices();
    let mut interest = Interest::new(Epoch(1), KEY, RING_BYTES_DEFAULT);
    let empty = interest.memory_bytes();
    let ((), seconds) =
        timed(|| filters.iter().for_each(|text| assert!(interest.add(filter(text)).is_some())));
    report("feed", "first_subscriber_ns", seconds * 1e9 / COUNT as f64, "ns");
    let ((), seconds) =
        timed(|| filters.iter().for_each(|text| assert!(interest.add(filter(text)).is_none())));
    report("feed", "second_subscriber_ns", seconds * 1e9 / COUNT as f64, "ns");
    let held = (interest.memory_bytes() - empty - interest.ring_bytes()) as f64;
    report("feed", "bytes_per_filter", held / COUNT as f64, "B");
    report("feed", "ring_changes", interest.ring_count() as f64, "count");

    let index = Index::new();
    let mut replica = Replica::new(TargetId(1), 0, KEY);
    let (mut pages, mut reading) = (0, 0.0);
    let ((), seconds) = timed(|| {
        while let Some(start) = replica.needs().page {
            let (page, seconds) = timed(|| interest.snapshot_page(start, MESSAGE_BYTES));
            let texts = page.filters.iter().map(|text| filter(text));
            replica.apply_page(&index, page.head, texts, &mut |_| {}).expect("the page that was asked for");
            (pages, reading) = (pages + 1, reading + seconds);
        }
    });
    assert!(replica.is_complete() && replica.route_count() == COUNT);
    report("feed", "snapshot_pages", f64::from(pages), "count");
    report("feed", "snapshot_read_ns_per_filter", reading * 1e9 / COUNT as f64, "ns");
    report("feed", "snapshot_apply_ns_per_filter", (seconds - reading) * 1e9 / COUNT as f64, "ns");
    report("feed", "replica_bytes_per_route", replica.memory_bytes() as f64 / COUNT as f64, "B");

    let (mut changes, mut seconds) = (0, 0.0);
    for texts in filters.chunks(1_000).take(100) {
        for text in texts {
            // Both of its subscribers leave, so each is a change.
            interest.remove(filter(text)).expect("it is held");
            interest.remove(filter(text)).expect("it is held");
        }
        let (epoch, after) = replica.position().expect("it follows");
        let (count, took) = timed(|| match interest.changes_since(epoch, after, usize::MAX) {
            Since::Changes(batch) => replica.apply_changes(&index, epoch, after, batch, &mut |_| {}),
            Since::Behind => panic!("the ring holds them"),
        });
        (changes, seconds) = (changes + count.expect("they follow"), seconds + took);
    }
    report("feed", "change_apply_ns", seconds * 1e9 / changes as f64, "ns");
    assert!(matches!(interest.changes_since(Epoch(1), Sequence(0), 1), Since::Behind));
    assert!(interest.snapshot_page(PageStart::FIRST, 1).head.next.is_some());
    assert!(replica.check(interest.state()).is_ok());
}

/// Filters, and topics of their kind that no filter asks for.
struct Set {
    name: &'static str,
    filters: Vec<String>,
    others: Vec<String>,
}

/// Four times as many devices, tenants and words as anybody asks for: what other regions publish.
fn sets() -> Vec<Set> {
    let mut random = Random(3);
    let others = (0..100_000).map(|at| format!("device/{}/x/{}/y", random.below(400_000), at % 10)).collect();
    let devices = Set { name: "devices", filters: devices(), others };

    let tenant = |random: &mut Random, at: usize, times: usize| {
        let (tenant, site) = (random.below(1_000 * times), random.below(20 * times));
        let device = random.below(1 << 20);
        format!("t/{tenant}/site/{site}/dev-{device:x}/{}", ["state", "alarm", "cmd/#"][at % 3])
    };
    let filters = (0..COUNT).map(|at| tenant(&mut random, at, 1)).collect();
    let others = (0..100_000).map(|at| tenant(&mut random, at, 4).replace('#', "x")).collect();
    let tenants = Set { name: "tenants", filters, others };

    let mixed = |random: &mut Random, at: usize, times: usize| {
        let levels = 3 + at % 5;
        let words: Vec<String> = (0..levels)
            .map(|depth| match random.below(10) {
                0 if depth > 1 => "+".to_owned(),
                _ => {
                    let rank = random.below(1_000);
                    format!("word-{:x}", random.below(1 + rank) * times + random.below(times))
                }
            })
            .collect();
        words.join("/") + if at.is_multiple_of(10) { "/#" } else { "" }
    };
    let filters = (0..COUNT).map(|at| mixed(&mut random, at, 1)).collect();
    let others = (0..100_000).map(|at| mixed(&mut random, at, 4).replace(['+', '#'], "x")).collect();
    vec![devices, tenants, Set { name: "mixed", filters, others }]
}

fn run_summaries() {
    for Set { name, filters, others } in sets() {
        let bytes_in: usize = filters.iter().map(|text| text.len() + 8).sum();
        report(name, "bytes_in", bytes_in as f64, "B");
        let asked = Index::new();
        for text in &filters {
            asked.insert(filter(text), TargetId(0), 0);
        }
        for bytes_max in [usize::MAX, 4 << 20, 256 << 10, 16 << 10] {
            let budget = Budget { bytes_max, filter_overhead_bytes: 8 };
            let (summary, seconds) = timed(|| summarize(filters.iter().map(|text| filter(text)), budget));
            let summary = summary.expect("nothing here is reserved");
            let limit =
                if bytes_max == usize::MAX { "any".to_owned() } else { format!("{}KiB", bytes_max >> 10) };
            let case = format!("{name}_{limit}");
            report(&case, "summary_s", seconds, "s");
            report(&case, "filters", summary.filters.len() as f64, "count");
            report(&case, "bytes", summary.bytes as f64, "B");
            report(&case, "steps", summary.widening_count as f64, "count");
            report(&case, "topics_for_nothing", for_nothing(&asked, &summary.filters, &others), "share");
        }
    }
}

/// The share of the topics that nobody asked for, but that a summary asks for.
fn for_nothing(asked: &Index, summary: &[String], topics: &[String]) -> f64 {
    let index = Index::new();
    for text in summary {
        index.insert(filter(text), TargetId(0), 0);
    }
    let mut out = Vec::new();
    let mut matches = |index: &Index, text: &str| {
        out.clear();
        index.matches(TopicName::new(text).expect("a valid topic"), &mut out);
        !out.is_empty()
    };
    let unasked: Vec<&String> = topics.iter().filter(|text| !matches(asked, text)).collect();
    let found = unasked.iter().filter(|text| matches(&index, text)).count();
    found as f64 / unasked.len().max(1) as f64
}

fn main() {
    let mut cases: Vec<String> = std::env::args().skip(1).collect();
    if cases.is_empty() {
        cases = ["owners", "feed", "summary"].map(str::to_owned).to_vec();
    }
    for case in &cases {
        match case.as_str() {
            "owners" => [1, 10, 100, 1_000].map(run_owners).into_iter().collect(),
            "feed" => run_feed(),
            "summary" => run_summaries(),
            other => panic!("no case {other}: owners, feed, summary"),
        }
    }
}
