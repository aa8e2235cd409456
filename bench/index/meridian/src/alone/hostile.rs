//! Patterns, keys and topics made to cost as much as they can.

use index_harness::Report;
use meridian_router::{Entry, Index, PatternTree, TargetId};
use meridian_types::limits::{STRING_BYTES_MAX, TOPIC_LEVELS_MAX};
use meridian_types::{TopicFilter, TopicName};

use crate::patterns::valid;
use crate::{Context, timed};

/// The thread's time for one look-up of each kind, and for holding one pattern.
pub(crate) fn run(context: &Context) {
    // As many words as a key has room for.
    let words = STRING_BYTES_MAX / 2 + 1;
    let long_key = vec!["a"; words].join(".");
    let other_end = format!("{}.b", vec!["a"; words - 1].join("."));
    let ten_thousand = vec!["a"; 10_000].join(".");
    let one_word = "a".repeat(STRING_BYTES_MAX);

    let case = |name: &str, patterns: &[String], key: &str| {
        measure(context, &context.report(&format!("hostile, {name}")), patterns, key);
    };
    case("#.#.#.#.a, 32,768 words", &["#.#.#.#.a".to_owned()], &long_key);
    case("#.#.#.#.a, word of 65,535 bytes", &["#.#.#.#.a".to_owned()], &one_word);
    case("#.a six times, 32,768 words that end otherwise", &[["#.a"; 6].join(".")], &other_end);
    case("#.a 100 times, 10,000 words", &[["#.a"; 100].join(".")], &ten_thousand);
    case("pattern of 10,000 words, key as long", &[vec!["*"; 10_000].join(".")], &ten_thousand);
    let fans: Vec<String> = (1..=100).map(|count| vec!["#.a"; count].join(".")).collect();
    case("#.a 1 to 100 times, 10,000 words", &fans, &ten_thousand);
    measure_filters(context);
}

fn measure(context: &Context, report: &Report, patterns: &[String], key: &str) {
    let mut tree = PatternTree::new();
    let (inserted, ()) = timed(|| {
        for (at, pattern) in patterns.iter().enumerate() {
            tree.insert(valid(pattern), TargetId(at as u32), 0);
        }
    });
    let mut out: Vec<Entry> = Vec::new();
    let looked_up = (0..context.effort.match_passes).map(|_| {
        out.clear();
        timed(|| tree.matches(key.as_bytes(), &mut out)).0
    });
    report.add("match_max_ns", looked_up.fold(f64::MAX, f64::min), "ns");
    report.add("matches_per_topic", out.len() as f64, "count");
    let (removed, ()) = timed(|| {
        for (at, pattern) in patterns.iter().enumerate() {
            tree.remove(valid(pattern), TargetId(at as u32));
        }
    });
    report.add("worst_op_us", inserted.max(removed) / patterns.len() as f64 / 1e3, "us");
}

/// MQTT filters with every combination of `+`, so that a topic finds them all, and a topic of as many levels as may be.
fn measure_filters(context: &Context) {
    const LEVELS: u32 = 12;
    let index = Index::new();
    for mask in 0..1u32 << LEVELS {
        let levels: Vec<&str> = (0..LEVELS).map(|at| if mask >> at & 1 == 1 { "+" } else { "a" }).collect();
        let text = levels.join("/");
        index.insert(TopicFilter::new(&text).expect("valid"), TargetId(mask), 0);
    }
    let deep = vec!["a"; TOPIC_LEVELS_MAX].join("/");
    let every = vec!["a"; LEVELS as usize].join("/");
    for (case, text) in
        [("4,096 filters with + everywhere", &every), ("topic of as many levels as may be", &deep)]
    {
        let report = context.report(&format!("hostile, {case}"));
        let topic = TopicName::new(text).expect("valid");
        let mut out: Vec<Entry> = Vec::new();
        let looked_up = (0..context.effort.match_passes).map(|_| {
            out.clear();
            timed(|| index.matches(topic, &mut out)).0
        });
        report.add("match_max_ns", looked_up.fold(f64::MAX, f64::min), "ns");
        report.add("matches_per_topic", out.len() as f64, "count");
    }
}
