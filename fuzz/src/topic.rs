//! The grammar of topic names and filters, and what matches what.

use meridian_types::limits::TOPIC_LEVELS_MAX;
use meridian_types::{SharedFilter, TopicFilter, TopicName};

/// Checks a filter and a topic name against each other and against definitions of their own.
pub fn check_match(filter_text: &str, topic_text: &str) {
    let filter = TopicFilter::new(filter_text);
    assert_eq!(filter.is_ok(), is_filter(filter_text), "{filter_text:?}: {filter:?}");
    let topic = TopicName::new(topic_text);
    assert_eq!(topic.is_ok(), is_name(topic_text), "{topic_text:?}: {topic:?}");
    check_shared(filter_text);
    let Ok(topic) = topic else { return };
    let same = TopicFilter::new(topic_text).expect("a topic name is a filter for itself");
    assert!(same.matches(topic) && !same.has_wildcard());
    assert_eq!(TopicFilter::new("#").expect("it is one").matches(topic), !topic.is_reserved());
    let Ok(filter) = filter else { return };
    let expected = matches(&filter.levels().collect::<Vec<_>>(), &topic.levels().collect::<Vec<_>>());
    assert_eq!(filter.matches(topic), expected, "{filter_text:?} and {topic_text:?}");
}

fn is_name(text: &str) -> bool {
    (1..=65_535).contains(&text.len())
        && !text.contains(['\0', '+', '#'])
        && text.matches('/').count() < TOPIC_LEVELS_MAX
}

fn is_filter(text: &str) -> bool {
    let levels: Vec<_> = text.split('/').collect();
    (1..=65_535).contains(&text.len())
        && !text.contains('\0')
        && levels.len() <= TOPIC_LEVELS_MAX
        && levels.iter().all(|level| *level == "+" || *level == "#" || !level.contains(['+', '#']))
        && levels.iter().rev().skip(1).all(|level| *level != "#")
}

fn check_shared(text: &str) {
    let parsed = SharedFilter::parse(text);
    match text.strip_prefix("$share/") {
        None => assert_eq!(parsed.map(|shared| shared.filter), TopicFilter::new(text)),
        Some(rest) => {
            let is_valid = rest.split_once('/').is_some_and(|(group, filter)| {
                !group.is_empty()
                    && !group.contains(['+', '#', '\0'])
                    && is_filter(filter)
                    && text.len() <= 65_535
            });
            assert_eq!(parsed.is_ok(), is_valid, "{text:?}: {parsed:?}");
        }
    }
}

/// The definition of a match from the end of both, level by level in a table: true where the rest of the filter matches
/// the rest of the topic.
fn matches(filter: &[&str], topic: &[&str]) -> bool {
    if topic[0].starts_with('$') && matches!(filter[0], "+" | "#") {
        return false;
    }
    let mut table = vec![vec![false; topic.len() + 1]; filter.len() + 1];
    table[filter.len()][topic.len()] = true;
    for at in (0..filter.len()).rev() {
        for level in (0..=topic.len()).rev() {
            table[at][level] = filter[at] == "#"
                || level < topic.len()
                    && (filter[at] == "+" || filter[at] == topic[level])
                    && table[at + 1][level + 1];
        }
    }
    table[0][0]
}
