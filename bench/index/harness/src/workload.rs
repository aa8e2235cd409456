//! The workloads: filters, and topics that match them.

use std::collections::HashSet;
use std::fmt::Write;

use crate::{Random, Subject, Texts};

/// The cases that every index is measured on.
pub const CASES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Topics that are looked up, at most.
const TOPICS_MAX: usize = 400_000;

/// The same in case `f`, where short topics match tens of thousands of filters each.
const MIXED_TOPICS_MAX: usize = 20_000;

/// The filters and topics of a case, as one index writes them.
pub struct Workload {
    /// Filter by filter; target `i + 1` subscribes to filter `i`.
    pub filters: Texts,
    /// Topics in random order, each of which at least one filter matches.
    pub topics: Texts,
    /// Filters, equal ones counted once; in case `g`, where all are equal, the subscribers.
    pub held: usize,
}

impl Workload {
    /// Makes a case's filters and topics.
    ///
    /// # Panics
    /// If there is no such case.
    pub fn new<S: Subject>(case: &str) -> Self {
        let (mut filters, mut topics) = (Texts::default(), Texts::default());
        visit(case, |filter, topic| {
            filters.push(&S::filter_text(if S::IS_EXACT { topic } else { filter }));
            topics.push(&S::topic_text(topic));
        });
        let held = if case == "g" { filters.len() } else { filters.iter().collect::<HashSet<_>>().len() };
        let order = Random::new(0x1234_5678_9ABC_DEF1).order(topics.len());
        let limit = if case == "f" { MIXED_TOPICS_MAX } else { TOPICS_MAX };
        let topics = topics.picked(&order[..order.len().min(limit)]);
        Self { filters, topics, held }
    }
}

/// Calls `each` with the filters of a case and a topic that each matches.
///
/// # Panics
/// If there is no such case.
pub fn visit(case: &str, mut each: impl FnMut(&str, &str)) {
    let mut grid = |ids: usize, nums: usize, name: &dyn Fn(usize, &mut String)| {
        let (mut id_text, mut filter, mut topic) = (String::new(), String::new(), String::new());
        for id in 0..ids {
            name(id, &mut id_text);
            for num in 0..nums {
                write_over(&mut filter, format_args!("device/{id_text}/+/{num}/#"));
                write_over(&mut topic, format_args!("device/{id_text}/foo/{num}/bar"));
                each(&filter, &topic);
            }
        }
    };
    let number = |id: usize, text: &mut String| write_over(text, format_args!("{id}"));
    // As long as an identifier of a device usually is, and no number.
    let serial = |id: usize, text: &mut String| {
        write_over(text, format_args!("dev-{:08x}", (id as u32).wrapping_mul(0x9E37_79B1)));
    };
    match case {
        "a" => grid(10, 10_000, &number),
        "b" => grid(8_000, 10, &number),
        "c" => grid(100_000, 10, &number),
        "e" => grid(1_000_000, 10, &number),
        "h" => grid(100_000, 10, &serial),
        "d" => {
            for at in 0..1_000_000 {
                each(&format!("t/mqttx/+/{at}/sub/+/#"), &format!("t/mqttx/x/{at}/sub/y/z"));
            }
        }
        "f" => mixed(each),
        "g" => (0..1_000_000).for_each(|_| each("one/filter", "one/filter")),
        _ => panic!("no case {case}; there are {CASES:?}"),
    }
}

/// One to eight levels, words by Zipf, a wildcard in three of ten filters.
fn mixed(mut each: impl FnMut(&str, &str)) {
    let mut random = Random::new(0x1234_5678_9ABC_DEF1);
    for _ in 0..1_000_000 {
        let depth = 1 + random.below(8);
        let words: Vec<String> = (0..depth).map(|_| word(&mut random)).collect();
        let mut levels: Vec<&str> = words.iter().map(String::as_str).collect();
        if random.below(10) < 3 {
            let at = random.below(depth);
            levels[at] = if at + 1 == depth && depth > 1 { "#" } else { "+" };
        }
        each(&levels.join("/"), &words.join("/"));
    }
}

fn word(random: &mut Random) -> String {
    let rank = random.skewed(20_000);
    if rank.is_multiple_of(3) { rank.to_string() } else { format!("word-{rank:x}") }
}

fn write_over(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.clear();
    text.write_fmt(arguments).expect("a string takes any text");
}
