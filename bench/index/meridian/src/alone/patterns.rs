//! AMQP topic patterns.

use index_harness::Random;
use meridian_router::{PatternTree, RoutingPattern, TargetId};

use crate::{Context, rate, slowest};

/// A pattern with `#` in the middle among others, and patterns that all have one.
pub(crate) fn run(context: &Context) {
    let count = context.scaled(100_000);
    let plain = |at: usize| format!("site.{}.device.{at}.*.state", at % 100);
    let key = |at: usize| format!("site.{}.device.{at}.oven.state", at % 100);
    let patterns: Vec<String> = (0..count).map(plain).collect();
    let keys: Vec<String> = (0..count).map(key).collect();
    measure(context, "amqp, no #", &patterns, &keys);

    let mut patterns = patterns;
    patterns[count / 2] = "site.#.state".to_owned();
    patterns[count / 3] = "#.device.#.oven.*".to_owned();
    measure(context, "amqp, two with # in the middle", &patterns, &keys);

    let patterns: Vec<String> = (0..count).map(|at| format!("site.{}.#.{at}.#.state", at % 100)).collect();
    measure(context, "amqp, all with # twice in the middle", &patterns, &keys);
}

fn measure(context: &Context, case: &str, patterns: &[String], keys: &[String]) {
    let report = context.report(&format!("{case}, {} patterns", patterns.len()));
    let mut tree = PatternTree::new();
    let empty = tree.memory_bytes();
    let insert = rate(patterns, |at, text| _ = tree.insert(valid(text), TargetId(at as u32), 0));
    report.add("insert_per_s", insert, "1/s");
    let bytes = (tree.memory_bytes() - empty) as f64 / tree.pattern_count() as f64;
    report.add("bytes_per_binding", bytes, "B");

    let mut random = Random::new(3);
    let mut keys = keys.to_vec();
    random.shuffle(&mut keys);
    // A copy lies in the order it is used in.
    let keys = keys.clone();
    let mut out = Vec::new();
    context.report_latencies(&report, &keys, |key| {
        out.clear();
        tree.matches(key.as_bytes(), &mut out);
        out.len()
    });

    let order = random.order(patterns.len());
    let shuffled: Vec<String> = order.iter().map(|&at| patterns[at as usize].clone()).collect();
    let remove = rate(&shuffled, |at, text| _ = tree.remove(valid(text), TargetId(order[at])));
    report.add("remove_per_s", remove, "1/s");
    assert_eq!(tree.entry_count(), 0, "everything was removed");
    // Both change the tree, so it is lent to each call.
    let tree = std::cell::RefCell::new(tree);
    let insert = |at: usize, text: &String| _ = tree.borrow_mut().insert(valid(text), TargetId(order[at]), 0);
    let remove = |at: usize, text: &String| _ = tree.borrow_mut().remove(valid(text), TargetId(order[at]));
    report.add("worst_op_us", slowest(context.effort.worst_passes, &shuffled, insert, remove), "us");
}

pub(crate) fn valid(text: &str) -> RoutingPattern<'_> {
    RoutingPattern::new(text.as_bytes()).expect("workloads hold valid patterns")
}
