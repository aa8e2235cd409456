//! MQTT filters: one pass over the levels of both.

use meridian_types::TopicFilter;
use meridian_types::limits::STRING_BYTES_MAX;

/// Whether every topic that `special` matches is matched by `general` (MQTT 5.0 §4.7).
///
/// Different filters cover each other in two cases, because no topic is empty: `#` and `+/#`, `/#` and `/+/#`. Cost:
/// one pass over both, no allocation.
///
/// ```
/// use meridian_router::algebra::covers;
/// use meridian_types::TopicFilter;
///
/// let filter = |text| TopicFilter::new(text).unwrap();
/// assert!(covers(filter("plant/#"), filter("plant/+/temperature")));
/// assert!(covers(filter("plant/#"), filter("plant")));
/// assert!(!covers(filter("#"), filter("$SYS/#")));
/// ```
pub fn covers(general: TopicFilter<'_>, special: TopicFilter<'_>) -> bool {
    if starts_with_wildcard(general) && is_reserved(special) {
        return false;
    }
    // What `#` stands for here cannot be nothing: the topic would have no level, or be empty.
    let is_more = matches!(special.as_str(), "#" | "/#");
    let (mut general, mut special) = (general.levels().peekable(), special.levels());
    loop {
        match (general.next(), special.next()) {
            (Some("#"), _) | (None, None) => return true,
            (Some("+"), Some("#")) => return is_more && general.peek() == Some(&"#"),
            (Some("+"), Some(_)) => {}
            (Some(wanted), Some(level)) if wanted == level => {}
            _ => return false,
        }
    }
}

/// Whether some topic is matched by both filters.
///
/// A topic is a string of at most 65,535 bytes [MQTT-4.7.3-3]: two filters so long that only a longer one could match
/// both do not intersect. Cost: one pass over both, no allocation.
///
/// ```
/// use meridian_router::algebra::intersects;
/// use meridian_types::TopicFilter;
///
/// let filter = |text| TopicFilter::new(text).unwrap();
/// assert!(intersects(filter("plant/+/temperature"), filter("plant/oven/#")));
/// assert!(!intersects(filter("plant/+"), filter("plant/oven/+")));
/// ```
pub fn intersects(one: TopicFilter<'_>, other: TopicFilter<'_>) -> bool {
    if starts_with_wildcard(one) && is_reserved(other) || starts_with_wildcard(other) && is_reserved(one) {
        return false;
    }
    if matches!((one.as_str(), other.as_str()), ("+", "/#") | ("/#", "+")) {
        // Only the empty topic would match both, and there is none [MQTT-4.7.3-1].
        return false;
    }
    let (mut one, mut other) = (one.levels(), other.levels());
    // The bytes of the shortest topic that both match, with a separator before each level.
    let mut witness_bytes = 0;
    loop {
        let level = match (one.next(), other.next()) {
            (None, None) => break,
            (Some("#"), level) => {
                witness_bytes += shortest_tail(level, other);
                break;
            }
            (level, Some("#")) => {
                witness_bytes += shortest_tail(level, one);
                break;
            }
            (Some("+"), Some(level)) | (Some(level), Some("+")) => level,
            (Some(wanted), Some(level)) if wanted == level => level,
            _ => return false,
        };
        witness_bytes += shortest(level);
    }
    // The first level has no separator.
    witness_bytes <= STRING_BYTES_MAX + 1
}

/// The fewest bytes that the rest of a filter takes, with separators.
fn shortest_tail<'a>(level: Option<&'a str>, rest: impl Iterator<Item = &'a str>) -> usize {
    level.into_iter().chain(rest).map(shortest).sum()
}

/// The fewest bytes that a level takes, with its separator.
fn shortest(level: &str) -> usize {
    match level {
        "#" => 0,
        "+" => 1,
        literal => 1 + literal.len(),
    }
}

fn starts_with_wildcard(filter: TopicFilter<'_>) -> bool {
    matches!(filter.as_str().as_bytes()[0], b'+' | b'#')
}

/// Whether all topics it matches start with `$`, so that no leading wildcard does [MQTT-4.7.2-1].
fn is_reserved(filter: TopicFilter<'_>) -> bool {
    filter.as_str().as_bytes()[0] == b'$'
}
