//! The index against the definition of a match, one level at a time, over random sequences of operations.

use std::collections::BTreeMap;

use meridian_router::{Entry, FilterId, Index, TargetId};
use meridian_types::{TopicFilter, TopicName};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Words that collide, share prefixes, are empty, reserved, numeric, long, or not ASCII.
const WORDS: [&str; 18] = [
    "",
    "a",
    "b",
    "ab",
    "$SYS",
    "$",
    "0",
    "00",
    "1",
    "12345678",
    "123456789",
    "temperature",
    "é",
    "温度",
    "\u{1}",
    "abcd",
    "abcde",
    "a-word-of-more-than-sixty-four-bytes-so-that-nothing-short-holds-it-inline",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![4 => select(&WORDS[..5]), 2 => select(&WORDS[5..])].prop_map(str::to_owned)
}

fn topic() -> impl Strategy<Value = String> {
    vec(word(), 1..7).prop_map(|words| words.join("/")).prop_filter("not empty", |text| !text.is_empty())
}

fn filter() -> impl Strategy<Value = String> {
    let level = prop_oneof![3 => word(), 1 => Just("+".to_owned())];
    (vec(level, 0..7), prop::bool::weighted(0.3))
        .prop_map(|(mut levels, ends_in_hash)| {
            if ends_in_hash {
                levels.push("#".to_owned());
            }
            levels.join("/")
        })
        .prop_filter("not empty", |text| !text.is_empty())
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(usize, u32, u32),
    Remove(usize, u32),
    RemoveById(usize, u32),
}

fn operation() -> impl Strategy<Value = Operation> {
    let target = prop_oneof![3 => 0..4u32, 1 => 0..200u32];
    (0..5u8, 0..1000usize, target, 0..3u32).prop_map(|(kind, filter, target, options)| match kind {
        0..=2 => Operation::Insert(filter, target, options),
        3 => Operation::Remove(filter, target),
        _ => Operation::RemoveById(filter, target),
    })
}

/// The naive index: every filter is tried.
#[derive(Default)]
struct Oracle {
    filters: BTreeMap<String, BTreeMap<u32, u32>>,
    ids: BTreeMap<String, FilterId>,
}

impl Oracle {
    fn matches(&self, topic: TopicName<'_>) -> Vec<Entry> {
        let mut entries: Vec<Entry> = (self.filters.iter())
            .filter(|(filter, _)| TopicFilter::new(filter).unwrap().matches(topic))
            .flat_map(|(_, targets)| targets.iter())
            .map(|(&target, &options)| Entry { target: TargetId(target), options })
            .collect();
        entries.sort_unstable();
        entries
    }

    fn remove(&mut self, filter: &str, target: u32) -> Option<u32> {
        let targets = self.filters.get_mut(filter)?;
        let options = targets.remove(&target);
        if targets.is_empty() {
            self.filters.remove(filter);
            self.ids.remove(filter);
        }
        options
    }
}

/// Does one operation to both and compares what they return.
fn apply(index: &Index, oracle: &mut Oracle, operation: &Operation, filters: &[String]) {
    match *operation {
        Operation::Insert(at, target, options) => {
            let text = &filters[at % filters.len()];
            let (id, previous) = index.insert(TopicFilter::new(text).unwrap(), TargetId(target), options);
            assert_eq!(previous, oracle.filters.entry(text.clone()).or_default().insert(target, options));
            assert_eq!(*oracle.ids.entry(text.clone()).or_insert(id), id, "the id of {text} changed");
        }
        Operation::Remove(at, target) => {
            let text = &filters[at % filters.len()];
            let id = oracle.ids.get(text).copied();
            let removed = index.remove(TopicFilter::new(text).unwrap(), TargetId(target));
            let expected = oracle.remove(text, target);
            assert_eq!(removed, expected.map(|options| (id.unwrap(), options)));
        }
        Operation::RemoveById(at, target) => {
            let text = &filters[at % filters.len()];
            if let Some(&id) = oracle.ids.get(text) {
                assert_eq!(index.remove_by_id(id, TargetId(target)), oracle.remove(text, target));
            }
        }
    }
}

fn matches(index: &Index, topic: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    index.matches(TopicName::new(topic).unwrap(), &mut entries);
    entries.sort_unstable();
    entries
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_index_agrees_with_the_definition(
        filters in vec(filter(), 1..40),
        topics in vec(topic(), 1..12),
        operations in vec(operation(), 1..120),
    ) {
        let index = Index::new();
        let empty_bytes = index.memory_bytes();
        let mut oracle = Oracle::default();
        for operation in &operations {
            let before: Vec<_> = topics.iter().map(|topic| {
                let topic = TopicName::new(topic).unwrap();
                let regions = index.regions(topic);
                (oracle.matches(topic), index.generation(&regions), regions)
            }).collect();
            apply(&index, &mut oracle, operation, &filters);
            for (topic, (entries, generation, regions)) in topics.iter().zip(before) {
                let expected = oracle.matches(TopicName::new(topic).unwrap());
                prop_assert_eq!(&matches(&index, topic), &expected, "topic {:?} after {:?}", topic, operation);
                prop_assert!(entries == expected || index.generation(&regions) != generation);
            }
        }
        prop_assert_eq!(index.filter_count(), oracle.filters.len());
        prop_assert_eq!(index.entry_count(), oracle.filters.values().map(BTreeMap::len).sum::<usize>());
        for (text, &id) in &oracle.ids {
            let held = index.filter_text(id);
            prop_assert_eq!(held.as_ref(), Some(text));
        }
        for (text, targets) in &oracle.filters {
            for (&target, &options) in targets {
                prop_assert_eq!(index.remove_by_id(oracle.ids[text], TargetId(target)), Some(options));
            }
            prop_assert_eq!(index.filter_text(oracle.ids[text]), None);
        }
        prop_assert_eq!((index.filter_count(), index.entry_count()), (0, 0));
        prop_assert_eq!(index.memory_bytes(), empty_bytes, "memory is not given back");
    }
}

#[test]
fn an_unknown_filter_or_target_is_not_removed() {
    let index = Index::new();
    let filter = TopicFilter::new("a/+/b").unwrap();
    let (id, _) = index.insert(filter, TargetId(1), 0);
    assert_eq!(index.remove(filter, TargetId(2)), None);
    assert_eq!(index.remove(TopicFilter::new("a/+").unwrap(), TargetId(1)), None);
    assert_eq!(index.remove_by_id(FilterId(id.0 + 1), TargetId(1)), None);
    assert_eq!(index.remove_by_id(id, TargetId(2)), None);
    assert_eq!(index.filter_text(FilterId(u32::MAX)), None);
    assert_eq!(index.entry_count(), 1);
}

#[test]
fn inserting_the_same_again_changes_no_generation() {
    let index = Index::new();
    let topic = TopicName::new("a/b").unwrap();
    let regions = index.regions(topic);
    let filter = TopicFilter::new("a/+").unwrap();
    index.insert(filter, TargetId(1), 7);
    let generation = index.generation(&regions);
    index.insert(filter, TargetId(1), 7);
    assert_eq!(index.generation(&regions), generation);
    index.insert(filter, TargetId(1), 8);
    assert_ne!(index.generation(&regions), generation);
}

#[test]
fn churn_elsewhere_changes_no_generation() {
    let index = Index::new();
    let regions = index.regions(TopicName::new("plant/1/oven/temperature").unwrap());
    let generation = index.generation(&regions);
    // Counters are shared by hash, so a few of many may touch the topic's; most must not.
    let changed = (0..100).filter(|number| {
        let before = index.generation(&regions);
        index.insert(TopicFilter::new(&format!("plant/2/{number}/+")).unwrap(), TargetId(1), 0);
        index.generation(&regions) != before
    });
    assert!(changed.count() < 5);
    index.insert(TopicFilter::new("plant/1/oven/#").unwrap(), TargetId(1), 0);
    assert_ne!(index.generation(&regions), generation);
}
