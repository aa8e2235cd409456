//! Covering and intersecting against the definition: all short topics and keys over a few words, tried one by one.

use meridian_router::RoutingPattern;
use meridian_router::algebra::{covers, intersects, pattern_covers, pattern_intersects};
use meridian_types::limits::{STRING_BYTES_MAX, TOPIC_LEVELS_MAX};
use meridian_types::{TopicFilter, TopicName};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Which of a list of topics or keys something matches.
#[derive(PartialEq)]
struct Matched(Vec<u64>);

impl Matched {
    fn of(count: usize, is_match: impl Fn(usize) -> bool) -> Self {
        let mut bits = vec![0; count.div_ceil(64)];
        for at in (0..count).filter(|&at| is_match(at)) {
            bits[at / 64] |= 1 << (at % 64);
        }
        Self(bits)
    }

    fn holds(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(mine, others)| others & !mine == 0)
    }

    fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(mine, others)| others & mine != 0)
    }
}

/// Every row of `counts` words out of `words`.
fn rows<'a>(words: &[&'a str], counts: std::ops::RangeInclusive<usize>) -> Vec<Vec<&'a str>> {
    let mut rows = Vec::new();
    let mut longest = vec![Vec::new()];
    for count in 0..=*counts.end() {
        if count >= *counts.start() {
            rows.extend(longest.iter().cloned());
        }
        longest = (longest.iter())
            .flat_map(|row: &Vec<&str>| words.iter().map(|&word| [&row[..], &[word]].concat()))
            .collect();
    }
    rows
}

fn filter(text: &str) -> TopicFilter<'_> {
    TopicFilter::new(text).unwrap()
}

fn pattern(text: &str) -> RoutingPattern<'_> {
    RoutingPattern::new(text.as_bytes()).unwrap()
}

/// All filters of up to three levels over these words and the wildcards.
fn short_filters() -> Vec<String> {
    let mut filters = rows(&["a", "$x", "", "+"], 1..=3);
    for levels in rows(&["a", "$x", "", "+"], 0..=2) {
        filters.push([&levels[..], &["#"]].concat());
    }
    filters.iter().map(|levels| levels.join("/")).filter(|text| !text.is_empty()).collect()
}

#[test]
fn short_filters_cover_and_intersect_as_all_short_topics_say() {
    // Words in no filter, reserved and not, and one level more than any filter asks for.
    let topics: Vec<String> = (rows(&["a", "$x", "", "other", "$other"], 1..=4).iter())
        .map(|levels| levels.join("/"))
        .filter(|text| !text.is_empty())
        .collect();
    let filters = short_filters();
    let matched: Vec<Matched> = (filters.iter())
        .map(|text| {
            Matched::of(topics.len(), |at| filter(text).matches(TopicName::new(&topics[at]).unwrap()))
        })
        .collect();
    for (one, ones) in filters.iter().zip(&matched) {
        for (other, others) in filters.iter().zip(&matched) {
            assert_eq!(covers(filter(one), filter(other)), ones.holds(others), "{one} covers {other}");
            assert_eq!(intersects(filter(one), filter(other)), ones.meets(others), "{one} and {other}");
        }
    }
}

/// The definition of a match of a routing key, from the end of both.
fn key_matches(pattern: &[&str], key: &[&str]) -> bool {
    let mut table = vec![vec![false; key.len() + 1]; pattern.len() + 1];
    table[pattern.len()][key.len()] = true;
    for at in (0..pattern.len()).rev() {
        for from in (0..=key.len()).rev() {
            table[at][from] = match pattern[at] {
                "#" => table[at + 1][from] || from < key.len() && table[at][from + 1],
                "*" => from < key.len() && table[at + 1][from + 1],
                word => from < key.len() && key[from] == word && table[at + 1][from + 1],
            };
        }
    }
    table[0][0]
}

#[test]
fn short_patterns_cover_and_intersect_as_all_short_keys_say() {
    let keys = rows(&["a", "b", "other"], 0..=7);
    let patterns = rows(&["a", "b", "*", "#"], 0..=4);
    let matched: Vec<Matched> =
        (patterns.iter()).map(|words| Matched::of(keys.len(), |at| key_matches(words, &keys[at]))).collect();
    let texts: Vec<String> = patterns.iter().map(|words| words.join(".")).collect();
    for (one, ones) in texts.iter().zip(&matched) {
        for (other, others) in texts.iter().zip(&matched) {
            let (left, right) = (pattern(one), pattern(other));
            assert_eq!(pattern_covers(left, right), ones.holds(others), "{one:?} covers {other:?}");
            assert_eq!(pattern_intersects(left, right), ones.meets(others), "{one:?} and {other:?}");
        }
    }
}

/// All keys that `special` matches and in which a `*` is a word of no pattern and a `#` up to `longest` such words. If
/// another pattern of fewer than `longest` words matches all these, it covers `special`: whatever else a wildcard stands
/// for, it is no harder to match.
fn hardest_keys<'a>(special: &[&'a str], longest: usize) -> Vec<Vec<&'a str>> {
    special.iter().fold(vec![Vec::new()], |keys, &word| match word {
        "#" => (keys.iter())
            .flat_map(|key| (0..=longest).map(move |count| [&key[..], &vec!["other"; count]].concat()))
            .collect(),
        "*" => keys.into_iter().map(|key| [&key[..], &["other"]].concat()).collect(),
        _ => keys.into_iter().map(|key| [&key[..], &[word]].concat()).collect(),
    })
}

fn pattern_words() -> impl Strategy<Value = Vec<&'static str>> {
    let word = prop_oneof![4 => select(&["a", "b", ""][..]), 3 => Just("*"), 2 => Just("#")];
    // No lone empty word: the empty text has no words.
    vec(word, 0..9).prop_filter("few #", |words| {
        words.iter().filter(|&&word| word == "#").count() <= 3 && words[..] != [""]
    })
}

fn filter_levels() -> impl Strategy<Value = Vec<&'static str>> {
    let level = prop_oneof![5 => select(&["a", "b", "$x", "", "temperature"][..]), 4 => Just("+")];
    (vec(level, 0..7), any::<bool>())
        .prop_map(|(levels, ends_in_hash)| [&levels[..], if ends_in_hash { &["#"] } else { &[] }].concat())
        .prop_filter("not empty", |levels| levels.iter().any(|level| !level.is_empty()) || levels.len() > 1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn patterns_cover_what_their_hardest_keys_say(general in pattern_words(), special in pattern_words()) {
        let keys = hardest_keys(&special, general.len() + 1);
        let expected = keys.iter().all(|key| key_matches(&general, key));
        let (general, special) = (general.join("."), special.join("."));
        prop_assert_eq!(pattern_covers(pattern(&general), pattern(&special)), expected, "{} {}", general, special);
    }

    #[test]
    fn a_pattern_covers_what_is_made_of_it_by_narrowing(words in pattern_words(), picks in vec(0..4usize, 9)) {
        let narrower: Vec<&str> = (words.iter().zip(picks))
            .flat_map(|(&word, pick)| match (word, pick) {
                ("#", 0) => vec![],
                ("#", 1) => vec!["*", "#"],
                ("#", 2) => vec!["a", "#", "b"],
                ("*", 0 | 1) => vec!["a"],
                _ => vec![word],
            })
            .collect();
        prop_assume!(narrower != [""]);
        let (general, special) = (words.join("."), narrower.join("."));
        prop_assert!(pattern_covers(pattern(&general), pattern(&special)), "{} {}", general, special);
        prop_assert!(pattern_intersects(pattern(&special), pattern(&general)), "{} {}", general, special);
    }

    #[test]
    fn filters_agree_with_patterns_where_both_say_the_same(one in filter_levels(), other in filter_levels()) {
        // Without reserved topics an MQTT filter is a pattern whose only `#` is the last word.
        let as_pattern = |levels: &[&str]| levels.join(".").replace('+', "*").replace('$', "s");
        let as_filter = |levels: &[&str]| levels.join("/").replace('$', "s");
        let (left, right) = (as_filter(&one), as_filter(&other));
        let (left_pattern, right_pattern) = (as_pattern(&one), as_pattern(&other));
        // No topic is empty, while a key may have no word.
        let nonempty = |text: &str| match text {
            "#" => "*.#".to_owned(),
            ".#" => ".*.#".to_owned(),
            _ => text.to_owned(),
        };
        let (left_pattern, right_pattern) = (nonempty(&left_pattern), nonempty(&right_pattern));
        prop_assert_eq!(
            covers(filter(&left), filter(&right)),
            pattern_covers(pattern(&left_pattern), pattern(&right_pattern)),
            "{} {}", left, right
        );
        prop_assert_eq!(
            intersects(filter(&left), filter(&right)),
            pattern_intersects(pattern(&left_pattern), pattern(&right_pattern)),
            "{} {}", left, right
        );
    }

    #[test]
    fn covering_is_transitive_and_means_intersecting(
        one in filter_levels(), two in filter_levels(), three in filter_levels(),
    ) {
        let texts = [one.join("/"), two.join("/"), three.join("/")];
        let [one, two, three] = [filter(&texts[0]), filter(&texts[1]), filter(&texts[2])];
        prop_assert!(covers(one, one));
        prop_assert!(!(covers(one, two) && covers(two, three)) || covers(one, three), "{:?}", texts);
        prop_assert!(!covers(one, two) || intersects(one, two), "{:?}", texts);
        prop_assert_eq!(intersects(one, two), intersects(two, one));
    }
}

#[test]
fn filters_that_only_a_too_long_topic_would_match_do_not_intersect() {
    let check = |left_bytes: usize, right_bytes: usize| {
        let left = format!("{}/+", "x".repeat(left_bytes));
        let right = format!("+/{}", "y".repeat(right_bytes));
        let topic = left.replace('+', &right[2..]);
        let expected = TopicName::new(&topic).is_ok();
        assert_eq!(expected, topic.len() <= STRING_BYTES_MAX);
        assert_eq!(intersects(filter(&left), filter(&right)), expected, "{left_bytes} {right_bytes}");
    };
    check(40_000, 25_534);
    check(40_000, 25_535);
    let (left, right) = (format!("{}/#", "x".repeat(65_000)), format!("+/{}/#", "y".repeat(534)));
    assert!(intersects(filter(&left), filter(&right)));
    let right = format!("+/{}/#", "y".repeat(535));
    assert!(!intersects(filter(&left), filter(&right)));
}

#[test]
fn the_deepest_filters_are_handled() {
    let deepest = vec!["+"; TOPIC_LEVELS_MAX].join("/");
    let below = format!("{}/#", vec!["+"; TOPIC_LEVELS_MAX - 1].join("/"));
    assert!(covers(filter(&below), filter(&deepest)) && !covers(filter(&deepest), filter(&below)));
    assert!(intersects(filter(&deepest), filter(&below)));
}
