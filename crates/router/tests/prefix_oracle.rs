//! The index of prefixes against the definition, prefix by prefix, over random sequences of operations.

use std::collections::BTreeMap;

use meridian_router::{Entry, PrefixIndex, TargetId};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Pieces that make texts around the lengths at which prefixes are spread and regions cut: 8, 16, 32 and 64 bytes.
const PIECES: [&[u8]; 9] = [
    b"a",
    b"b",
    b"/",
    b"\0",
    b"+",
    b"\xFF",
    b"/zeek/e",
    b"/zeek/event/conn",
    b"0123456789abcdef0123456789abcdef",
];

fn text() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![3 => select(&PIECES[..6]), 2 => select(&PIECES[6..])], 0..7)
        .prop_map(|pieces| pieces.concat())
}

/// Prefix to targets with their options.
type Oracle = BTreeMap<Vec<u8>, BTreeMap<u32, u32>>;

fn expected(oracle: &Oracle, text: &[u8]) -> Vec<Entry> {
    let matching = oracle.iter().filter(|(prefix, _)| text.starts_with(prefix));
    let mut entries: Vec<_> = matching
        .flat_map(|(_, targets)| targets)
        .map(|(&target, &options)| Entry { target: TargetId(target), options })
        .collect();
    entries.sort_unstable();
    entries
}

fn found(index: &PrefixIndex, text: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    index.matches(text, &mut entries);
    entries.sort_unstable();
    entries
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_index_finds_every_prefix(
        prefixes in vec(text(), 1..30),
        texts in vec(text(), 1..12),
        operations in vec((any::<bool>(), 0..1000usize, 0..40u32, 0..3u32), 1..100),
    ) {
        let index = PrefixIndex::new();
        let empty_bytes = index.memory_bytes();
        let mut oracle = Oracle::new();
        for (removes, at, target, options) in operations {
            let before: Vec<_> = texts.iter().map(|text| {
                let regions = index.regions(text);
                (expected(&oracle, text), index.generation(&regions), regions)
            }).collect();
            let prefix = &prefixes[at % prefixes.len()];
            if removes {
                let expected = oracle.get_mut(prefix).and_then(|targets| targets.remove(&target));
                prop_assert_eq!(index.remove(prefix, TargetId(target)), expected);
                oracle.retain(|_, targets| !targets.is_empty());
            } else {
                let expected = oracle.entry(prefix.clone()).or_default().insert(target, options);
                prop_assert_eq!(index.insert(prefix, TargetId(target), options), expected);
            }
            for (text, (entries, generation, regions)) in texts.iter().zip(before) {
                let expected = expected(&oracle, text);
                prop_assert_eq!(&found(&index, text), &expected, "{:?}", text);
                prop_assert!(entries == expected || index.generation(&regions) != generation);
            }
        }
        prop_assert_eq!(index.prefix_count(), oracle.len());
        prop_assert_eq!(index.entry_count(), oracle.values().map(BTreeMap::len).sum::<usize>());
        for (prefix, targets) in &oracle {
            for &target in targets.keys() {
                prop_assert!(index.remove(prefix, TargetId(target)).is_some());
            }
        }
        prop_assert_eq!(index.memory_bytes(), empty_bytes, "memory is not given back");
    }
}

#[test]
fn churn_elsewhere_changes_no_generation() {
    let index = PrefixIndex::new();
    let regions = index.regions(b"/zeek/event/conn/node-1");
    let generation = index.generation(&regions);
    // Counters are shared by hash, so a few of many may touch the text's; most must not.
    let changed = (0..100).filter(|number| {
        let before = index.generation(&regions);
        index.insert(format!("/zeek/event/dns-{number}/").as_bytes(), TargetId(1), 0);
        index.generation(&regions) != before
    });
    assert!(changed.count() < 5);
    index.insert(b"/zeek/event/conn/", TargetId(1), 0);
    assert_ne!(index.generation(&regions), generation);
}
