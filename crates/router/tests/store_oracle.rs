//! The topic store against the definition of a match.

use std::collections::BTreeMap;

use meridian_router::TopicStore;
use meridian_types::{TopicFilter, TopicName};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const WORDS: [&str; 12] = ["", "a", "b", "ab", "a!", "$SYS", "$", "%", "a\u{1}", "温度", "-", "z"];

fn topic() -> impl Strategy<Value = String> {
    vec(select(&WORDS), 1..6)
        .prop_map(|words| words.join("/"))
        .prop_filter("not empty", |text| !text.is_empty())
}

fn filter() -> impl Strategy<Value = String> {
    let level = prop_oneof![2 => select(&WORDS), 1 => Just("+")];
    (vec(level, 0..6), any::<bool>())
        .prop_map(|(mut levels, ends_in_hash)| {
            if ends_in_hash {
                levels.push("#");
            }
            levels.join("/")
        })
        .prop_filter("not empty", |text| !text.is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_store_agrees_with_the_definition(
        operations in vec((topic(), any::<Option<u32>>()), 0..80),
        filters in vec(filter(), 1..10),
        page in 1..5usize,
        keys_max in 1..5usize,
    ) {
        let mut store = TopicStore::new();
        let mut oracle = BTreeMap::new();
        for (text, value) in operations {
            let topic = TopicName::new(&text).unwrap();
            match value {
                Some(value) => prop_assert_eq!(store.insert(topic, value), oracle.insert(text.clone(), value)),
                None => prop_assert_eq!(store.remove(topic), oracle.remove(&text)),
            }
            prop_assert_eq!(store.get(topic), oracle.get(&text));
        }
        prop_assert_eq!(store.len(), oracle.len());
        for text in &filters {
            let filter = TopicFilter::new(text).unwrap();
            let mut expected: Vec<u32> = (oracle.iter())
                .filter(|(topic, _)| filter.matches(TopicName::new(topic).unwrap()))
                .map(|(_, &value)| value)
                .collect();
            expected.sort_unstable();
            let mut found = Vec::new();
            store.visit_matching(filter, &mut |&value| { found.push(value); true });
            let whole = found.clone();
            found.sort_unstable();
            prop_assert_eq!(&found, &expected, "filter {:?}", text);

            let mut paged = Vec::new();
            let mut cursor = None;
            loop {
                let mut room = page;
                cursor = store.visit_matching_from(filter, cursor.as_ref(), keys_max, &mut |&value| {
                    paged.push(value);
                    room -= 1;
                    room > 0
                });
                if cursor.is_none() {
                    break;
                }
            }
            prop_assert_eq!(paged, whole);
        }
    }
}

#[test]
fn a_visit_stops_when_told() {
    let mut store = TopicStore::new();
    for text in ["a/1", "a/2", "a/3"] {
        store.insert(TopicName::new(text).unwrap(), text);
    }
    let mut seen = Vec::new();
    store.visit_matching(TopicFilter::new("a/+").unwrap(), &mut |&value| {
        seen.push(value);
        seen.len() < 2
    });
    assert_eq!(seen, ["a/1", "a/2"]);
}
