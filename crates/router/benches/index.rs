//! Look-ups, changes and generations of the index, and the topic store, one call at a time.
//!
//! `cargo bench -p meridian-router`. `bench/run.sh index` measures memory, whole workloads and the slowest single
//! calls.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use meridian_router::{Index, TargetId, TopicStore};
use meridian_types::{TopicFilter, TopicName};

const DEVICES: usize = 10_000;

fn filter(text: &str) -> TopicFilter<'_> {
    TopicFilter::new(text).expect("a valid filter")
}

fn topic(text: &str) -> TopicName<'_> {
    TopicName::new(text).expect("a valid topic")
}

/// 100,000 filters of one shape, and a topic for each in an order that defeats the caches.
fn filled() -> (Index, Vec<String>) {
    let index = Index::new();
    let mut topics = Vec::new();
    for at in 0..DEVICES * 10 {
        let (device, num) = (at / 10, at % 10);
        index.insert(filter(&format!("device/{device}/+/{num}/#")), TargetId(at as u32), 0);
        let scattered = at * 7919 % (DEVICES * 10);
        topics.push(format!("device/{}/foo/{}/bar", scattered / 10, scattered % 10));
    }
    (index, topics)
}

fn index(criterion: &mut Criterion) {
    let (index, topics) = filled();
    let mut out = Vec::new();
    let mut next = topics.iter().cycle();
    criterion.bench_function("index/match one of 100,000", |bencher| {
        bencher.iter(|| {
            out.clear();
            index.matches(topic(next.next().expect("a cycle")), &mut out);
            black_box(&out);
        });
    });
    criterion.bench_function("index/match none", |bencher| {
        bencher.iter(|| {
            out.clear();
            index.matches(topic("elsewhere/no/filter"), &mut out);
            black_box(&out);
        });
    });
    criterion.bench_function("index/check a cached result", |bencher| {
        let regions = index.regions(topic("device/77/foo/7/bar"));
        bencher.iter(|| index.generation(black_box(&regions)));
    });
    criterion.bench_function("index/insert and remove by id", |bencher| {
        let text = "device/77/+/new/#";
        bencher.iter(|| {
            let (id, _) = index.insert(filter(text), TargetId(1), 0);
            index.remove_by_id(id, TargetId(1))
        });
    });
    for number in 0..1_000 {
        index.insert(filter("fan/out"), TargetId(number), 0);
    }
    criterion.bench_function("index/match 1,000 targets of one filter", |bencher| {
        bencher.iter(|| {
            out.clear();
            index.matches(topic("fan/out"), &mut out);
            black_box(&out);
        });
    });
}

fn store(criterion: &mut Criterion) {
    let (_, topics) = filled();
    let mut store = TopicStore::new();
    for (at, text) in topics.iter().enumerate() {
        store.insert(topic(text), at);
    }
    for (name, text, expected) in [
        ("store/one of 100,000 by name", "device/77/foo/7/bar", 1),
        ("store/10 below a prefix", "device/77/#", 10),
        ("store/10 by a wildcard", "device/77/+/+/bar", 10),
        ("store/none below an unknown prefix", "elsewhere/#", 0),
    ] {
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut count = 0;
                store.visit_matching(filter(text), &mut |_| {
                    count += 1;
                    true
                });
                assert_eq!(count, expected);
            });
        });
    }
}

criterion_group!(benches, index, store);
criterion_main!(benches);
