//! The tree of topic patterns against the definition of a match, as AMQP 0-9-1 §3.1.3.3 has it, pattern by pattern.

use std::collections::BTreeMap;

use meridian_router::{Entry, PatternTree, RoutingPattern, TargetId};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Words of a key or pattern: "zero or more words delimited by dots". The empty text has none, as in RabbitMQ.
fn words(text: &[u8]) -> Vec<&[u8]> {
    if text.is_empty() { Vec::new() } else { text.split(|&byte| byte == b'.').collect() }
}

/// Whether a pattern matches a key: `*` one word, `#` zero or more. `known` remembers what was found not to match.
fn is_match<'a>(pattern: &[&'a [u8]], key: &[&'a [u8]], known: &mut BTreeMap<(usize, usize), bool>) -> bool {
    let place = (pattern.len(), key.len());
    if let Some(&known) = known.get(&place) {
        return known;
    }
    let result = match (pattern.split_first(), key.split_first()) {
        (None, first) => first.is_none(),
        (Some((&b"#", rest)), None) => is_match(rest, key, known),
        (Some((&b"#", rest)), Some((_, fewer))) => {
            is_match(rest, key, known) || is_match(pattern, fewer, known)
        }
        (Some(_), None) => false,
        (Some((&word, rest)), Some((first, fewer))) => {
            (word == b"*" || word == *first) && is_match(rest, fewer, known)
        }
    };
    known.insert(place, result);
    result
}

fn matches(pattern: &[u8], key: &[u8]) -> bool {
    is_match(&words(pattern), &words(key), &mut BTreeMap::new())
}

fn pattern(text: &[u8]) -> RoutingPattern<'_> {
    RoutingPattern::new(text).unwrap()
}

fn found(tree: &PatternTree, key: &[u8]) -> Vec<(u32, u32)> {
    let mut out = Vec::new();
    tree.matches(key, &mut out);
    let mut found: Vec<_> = out.iter().map(|Entry { target, options }| (target.0, *options)).collect();
    found.sort_unstable();
    found
}

/// Normalised pattern to targets with their options.
type Oracle = BTreeMap<Vec<u8>, BTreeMap<u32, u32>>;

fn expected(oracle: &Oracle, key: &[u8]) -> Vec<(u32, u32)> {
    let matching = oracle.iter().filter(|(pattern, _)| matches(pattern, key));
    let mut entries: Vec<_> = matching.flat_map(|(_, targets)| targets.clone()).collect();
    entries.sort_unstable();
    entries
}

/// Words that meet each other often, are special to MQTT, empty, long, or not UTF-8.
const WORDS: [&[u8]; 10] =
    [b"a", b"b", b"", b"ab", b"7", b"+", b"a*", b"/", b"temperature-of-the-oven", b"\xFF\xFE"];

fn text(wildcards: &'static [&'static [u8]], len_max: usize) -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![5 => select(&WORDS[..2]), 1 => select(&WORDS[2..]), 4 => select(wildcards)];
    vec(word, 0..len_max).prop_map(|words| words.join(&b'.'))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn patterns_match_as_the_specification_says(
        patterns in vec(text(&[b"*", b"#", b"#"], 9), 1..30),
        keys in vec(text(&[b"a", b"*", b"#"], 12), 1..12),
        operations in vec((any::<bool>(), 0..1000usize, 0..5u32, 0..3u32), 1..80),
    ) {
        let mut tree = PatternTree::new();
        let empty_bytes = tree.memory_bytes();
        let mut oracle = Oracle::new();
        for (removes, at, target, options) in operations {
            let text = &patterns[at % patterns.len()];
            let normalized = pattern(text).normalized().into_owned();
            if removes {
                let expected = oracle.get_mut(&normalized).and_then(|targets| targets.remove(&target));
                prop_assert_eq!(tree.remove(pattern(text), TargetId(target)), expected);
                oracle.retain(|_, targets| !targets.is_empty());
            } else {
                let expected = oracle.entry(normalized).or_default().insert(target, options);
                prop_assert_eq!(tree.insert(pattern(text), TargetId(target), options), expected);
            }
            prop_assert_eq!(tree.pattern_count(), oracle.len());
            prop_assert_eq!(tree.entry_count(), oracle.values().map(BTreeMap::len).sum::<usize>());
            for key in &keys {
                prop_assert_eq!(found(&tree, key), expected(&oracle, key), "key {:?} of {:?}", key, oracle.keys());
            }
        }
        for (text, targets) in &oracle {
            for &target in targets.keys() {
                prop_assert!(tree.remove(pattern(text), TargetId(target)).is_some());
            }
        }
        prop_assert_eq!(tree.memory_bytes(), empty_bytes, "memory is not given back");
    }

    #[test]
    fn normalizing_changes_no_match(
        text in text(&[b"*", b"#", b"#"], 9),
        keys in vec(text(&[b"a", b"*", b"#"], 8), 1..20),
    ) {
        let normalized = pattern(&text).normalized().into_owned();
        let again = pattern(&normalized).normalized();
        prop_assert_eq!(&*again, &*normalized, "one form stays as it is");
        for key in keys {
            prop_assert_eq!(matches(&text, &key), matches(&normalized, &key), "{:?}", key);
        }
    }
}

#[test]
fn the_examples_of_the_specification_hold() {
    for (text, key, matches) in [
        ("*.stock.#", "usd.stock", true),
        ("*.stock.#", "eur.stock.db", true),
        ("*.stock.#", "stock.nasdaq", false),
        ("#", "", true),
        ("*", "", false),
        ("", "", true),
        ("", ".", false),
        ("#.a.#", "a", true),
        ("*.*", ".", true),
        ("#.*", "", false),
        ("a.#.b", "a.b", true),
        ("a.#.b", "a.x.y.b", true),
        ("a.#.b", "a.x.b.c", false),
        ("a.b", "a.b\0", false),
        ("a.+", "a.x", false),
    ] {
        let mut tree = PatternTree::new();
        tree.insert(pattern(text.as_bytes()), TargetId(1), 0);
        assert_eq!(found(&tree, key.as_bytes()).len(), usize::from(matches), "{text} and {key}");
    }
}

/// Patterns made so that a walk that tries every way would never end, and keys as long as a string may be.
#[test]
fn hostile_patterns_and_keys_come_to_an_end() {
    let mut tree = PatternTree::new();
    let many_as = vec!["a"; 10_000].join(".");
    let patterns = [
        "#.#.#.#.a".to_owned(),
        vec!["#.a"; 2_000].join("."),
        format!("{}.#", vec!["#.a"; 2_000].join(".")),
        format!("{}.b", vec!["#.a"; 200].join(".")),
        format!("#.{}.b", vec!["*.a"; 2_000].join(".")),
        format!("{many_as}.#"),
        vec!["*"; 10_000].join("."),
        vec!["*"; 10_001].join("."),
        vec!["#"; 10_000].join("."),
        vec!["*.#"; 200].join("."),
    ];
    for (target, text) in (0..).zip(&patterns) {
        tree.insert(pattern(text.as_bytes()), TargetId(target), 0);
    }
    // Forks below each `#`, so that no chain of them is folded.
    for (target, depth) in (100..).zip(1..50) {
        let text = format!("{}.x.{depth}", vec!["#.a"; depth].join("."));
        tree.insert(pattern(text.as_bytes()), TargetId(target), 0);
    }
    let targets =
        |key: &str| -> Vec<u32> { found(&tree, key.as_bytes()).iter().map(|&(target, _)| target).collect() };
    assert_eq!(targets(&many_as), [0, 1, 2, 5, 6, 8, 9]);
    assert_eq!(targets("a.a.x.2"), [8, 101]);
    assert_eq!(targets(&".".repeat(65_534)), [8, 9]);
}
