//! What filters and patterns say about each other, and summaries of them.

use meridian_router::RoutingPattern;
use meridian_router::algebra::{covers, intersects, pattern_covers, pattern_intersects};
use meridian_router::summary::{Budget, summarize};
use meridian_types::{TopicFilter, TopicName};

/// A word that no input of a useful size holds.
const FRESH: &str = "\u{1}fresh";

const SCRIPT_BYTES_MAX: usize = 8 << 10;

/// Checks two filters, or patterns, and a topic, or key, one per line, against each other and against the hardest topics
/// and keys that the second one matches.
pub fn check_pair(script: &str) {
    let mut lines = script.lines();
    let (Some(one), Some(other)) = (lines.next(), lines.next()) else { return };
    let text = lines.next().unwrap_or_default();
    // Near the longest topic there is, some of the hardest are too long.
    if script.contains(FRESH) || script.len() > SCRIPT_BYTES_MAX {
        return;
    }
    if let (Ok(one), Ok(other)) = (TopicFilter::new(one), TopicFilter::new(other)) {
        check_filters(one, other, text);
    }
    if let (Ok(one), Ok(other)) = (RoutingPattern::new(one.as_bytes()), RoutingPattern::new(other.as_bytes()))
    {
        check_patterns(one, other, text.as_bytes());
    }
}

fn check_filters(one: TopicFilter<'_>, other: TopicFilter<'_>, topic: &str) {
    let pair = (one.as_str(), other.as_str());
    let (is_covered, is_met) = (covers(one, other), intersects(one, other));
    assert_eq!(is_met, intersects(other, one), "{pair:?}");
    assert!(covers(one, one) && (!is_covered || is_met), "{pair:?}");
    if let Ok(topic) = TopicName::new(topic) {
        let (by_one, by_other) = (one.matches(topic), other.matches(topic));
        assert!(!(is_covered && by_other) || by_one, "{pair:?} {topic:?}");
        assert!(!(by_one && by_other) || is_met, "{pair:?} {topic:?}");
    }
    let mut is_expected = true;
    for count in [0, 1, one.levels().count() + 1] {
        let mut levels = Vec::new();
        for level in other.levels() {
            match level {
                "+" => levels.push(FRESH),
                "#" => levels.extend(std::iter::repeat_n(FRESH, count)),
                word => levels.push(word),
            }
        }
        let topic = levels.join("/");
        let Ok(topic) = TopicName::new(&topic) else { continue };
        assert!(other.matches(topic), "{pair:?} {topic:?}");
        is_expected &= one.matches(topic);
    }
    assert_eq!(is_covered, is_expected, "{pair:?}");
}

fn check_patterns(one: RoutingPattern<'_>, other: RoutingPattern<'_>, key: &[u8]) {
    let (general, special) = (words(one.as_bytes()), words(other.as_bytes()));
    if general.len() > 64 || special.len() > 64 {
        return;
    }
    let pair = (String::from_utf8_lossy(one.as_bytes()), String::from_utf8_lossy(other.as_bytes()));
    let (is_covered, is_met) = (pattern_covers(one, other), pattern_intersects(one, other));
    assert_eq!(is_met, pattern_intersects(other, one), "{pair:?}");
    assert!(pattern_covers(one, one) && (!is_covered || is_met), "{pair:?}");
    let key = words(key);
    let (by_one, by_other) = (matches(&general, &key), matches(&special, &key));
    assert!(!(is_covered && by_other) || by_one, "{pair:?} {key:?}");
    assert!(!(by_one && by_other) || is_met, "{pair:?} {key:?}");
    if special.iter().filter(|&&word| word == b"#").count() <= 2 && general.len() <= 12 {
        let keys = hardest_keys(&special, general.len() + 1);
        assert_eq!(is_covered, keys.iter().all(|key| matches(&general, key)), "{pair:?}");
    }
}

/// The words of a pattern or key; the empty text has none.
fn words(text: &[u8]) -> Vec<&[u8]> {
    text.split(|&byte| byte == b'.').skip(usize::from(text.is_empty())).collect()
}

/// The definition of a match from the end of both, word by word in a table.
fn matches(pattern: &[&[u8]], key: &[&[u8]]) -> bool {
    let mut table = vec![vec![false; key.len() + 1]; pattern.len() + 1];
    table[pattern.len()][key.len()] = true;
    for at in (0..pattern.len()).rev() {
        for from in (0..=key.len()).rev() {
            let is_word = pattern[at] == b"*" || key.get(from) == Some(&pattern[at]);
            table[at][from] = if pattern[at] == b"#" {
                table[at + 1][from] || from < key.len() && table[at][from + 1]
            } else {
                from < key.len() && is_word && table[at + 1][from + 1]
            };
        }
    }
    table[0][0]
}

/// Keys in which a `*` is a word of no pattern, and a `#` none to `longest` of them.
fn hardest_keys<'a>(special: &[&'a [u8]], longest: usize) -> Vec<Vec<&'a [u8]>> {
    special.iter().fold(vec![Vec::new()], |keys, &word| {
        let counts = match word {
            b"#" => 0..=longest,
            b"*" => 1..=1,
            _ => return keys.into_iter().map(|key| [&key[..], &[word]].concat()).collect(),
        };
        (keys.iter())
            .flat_map(|key| {
                counts.clone().map(move |count| [&key[..], &vec![FRESH.as_bytes(); count]].concat())
            })
            .collect()
    })
}

/// Summarizes filters, one per line after the budget, and checks that none is lost and none is too many.
pub fn check_summary(script: &str) {
    let mut lines = script.lines();
    let Some(bytes_max) = lines.next().and_then(|line| line.parse().ok()) else { return };
    let filters: Vec<TopicFilter<'_>> =
        lines.filter_map(|line| TopicFilter::new(line).ok()).take(64).collect();
    let budget = Budget { bytes_max, filter_overhead_bytes: 4 };
    let summary = match summarize(filters.iter().copied(), budget) {
        Ok(summary) => summary,
        Err(small) => {
            assert!(small.bytes_min > bytes_max, "{small:?}");
            summarize(filters.iter().copied(), Budget { bytes_max: small.bytes_min, ..budget })
                .expect("what it can be brought down to is enough")
        }
    };
    let found: Vec<TopicFilter<'_>> = summary
        .filters
        .iter()
        .map(|text| TopicFilter::new(text).expect("a summary is of valid filters"))
        .collect();
    assert_eq!(summary.bytes, found.iter().map(|filter| filter.as_str().len() + 4).sum::<usize>());
    for filter in &filters {
        assert!(found.iter().any(|general| covers(*general, *filter)), "{filter:?} is lost in {found:?}");
    }
    for (at, one) in found.iter().enumerate() {
        let is_needless = |(other, general): (usize, &TopicFilter<'_>)| other != at && covers(*general, *one);
        assert!(!found.iter().enumerate().any(is_needless), "{one:?} is needless in {found:?}");
        assert!(summary.widening_count > 0 || filters.iter().any(|filter| covers(*filter, *one)));
    }
}
