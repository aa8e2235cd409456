//! Topic names and topic filters: validated once at the edge, trusted from there on.

use crate::limits::{STRING_BYTES_MAX, TOPIC_LEVELS_MAX};

/// Why a topic name or filter is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopicError {
    /// No bytes at all [MQTT-4.7.3-1].
    #[error("it is empty")]
    Empty,
    /// Longer than a string may be [MQTT-4.7.3-3].
    #[error("it is longer than {STRING_BYTES_MAX} bytes")]
    TooLong,
    /// More levels than [`TOPIC_LEVELS_MAX`].
    #[error("it has more than {TOPIC_LEVELS_MAX} levels")]
    TooDeep,
    /// Holds U+0000 [MQTT-4.7.3-2].
    #[error("it holds a null character")]
    Null,
    /// A topic name holds `+` or `#` [MQTT-4.7.1-1].
    #[error("a topic name must not hold the wildcards + and #")]
    WildcardInName,
    /// `#` is not the last level, or shares its level with other characters [MQTT-4.7.1-1].
    #[error("# must be the whole of the last level")]
    MisplacedHash,
    /// `+` shares its level with other characters [MQTT-4.7.1-2].
    #[error("+ must be the whole of its level")]
    MisplacedPlus,
    /// `$share/` without a share name, or the name holds a wildcard [MQTT-4.8.2-1].
    #[error("a shared subscription needs $share/name/filter, and the name may not hold / + or #")]
    BadShareName,
}

/// A valid topic name: what a message is published to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName<'a>(&'a str);

impl<'a> TopicName<'a> {
    /// Checks `text`. Cost: one pass over its bytes.
    ///
    /// # Errors
    /// [`TopicError`] if it is empty, too long, too deep, or holds a null character or a wildcard.
    pub fn new(text: &'a str) -> Result<Self, TopicError> {
        check_size(text)?;
        let mut level_count = 1;
        for &byte in text.as_bytes() {
            match byte {
                0 => return Err(TopicError::Null),
                b'+' | b'#' => return Err(TopicError::WildcardInName),
                b'/' => level_count += 1,
                _ => {}
            }
        }
        if level_count > TOPIC_LEVELS_MAX { Err(TopicError::TooDeep) } else { Ok(Self(text)) }
    }

    /// The name as text.
    #[inline]
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// Its levels, in order; an empty level is an empty string.
    pub fn levels(self) -> std::str::Split<'a, char> {
        self.0.split('/')
    }

    /// Whether it starts with `$`, so that leading wildcards do not match it [MQTT-4.7.2-1].
    #[inline]
    pub fn is_reserved(self) -> bool {
        self.0.as_bytes()[0] == b'$'
    }
}

/// A valid topic filter, without any `$share` prefix: what a subscription asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicFilter<'a>(&'a str);

impl<'a> TopicFilter<'a> {
    /// Checks `text`. Cost: one pass over its bytes.
    ///
    /// # Errors
    /// [`TopicError`] if it is empty, too long, too deep, holds a null character or misplaces a wildcard.
    pub fn new(text: &'a str) -> Result<Self, TopicError> {
        check_size(text)?;
        let mut level_count = 0;
        let mut hash_seen = false;
        for level in text.split('/') {
            if hash_seen {
                return Err(TopicError::MisplacedHash);
            }
            level_count += 1;
            for &byte in level.as_bytes() {
                match byte {
                    0 => return Err(TopicError::Null),
                    b'#' if level.len() > 1 => return Err(TopicError::MisplacedHash),
                    b'#' => hash_seen = true,
                    b'+' if level.len() > 1 => return Err(TopicError::MisplacedPlus),
                    _ => {}
                }
            }
        }
        if level_count > TOPIC_LEVELS_MAX { Err(TopicError::TooDeep) } else { Ok(Self(text)) }
    }

    /// The filter as text.
    #[inline]
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// Its levels, in order; `+` and a last `#` are wildcards.
    pub fn levels(self) -> std::str::Split<'a, char> {
        self.0.split('/')
    }

    /// Whether any level is a wildcard.
    pub fn has_wildcard(self) -> bool {
        self.0.bytes().any(|byte| matches!(byte, b'+' | b'#'))
    }

    /// Whether a message published to `topic` matches, by the rules of MQTT 5.0 §4.7. The naive definition, one
    /// level at a time: the index must agree with it.
    pub fn matches(self, topic: TopicName<'_>) -> bool {
        let mut filter_levels = self.levels();
        if topic.is_reserved() && matches!(self.0.as_bytes()[0], b'+' | b'#') {
            return false;
        }
        let mut topic_levels = topic.levels();
        loop {
            match (filter_levels.next(), topic_levels.next()) {
                (Some("#"), _) | (None, None) => return true,
                (Some("+"), Some(_)) => {}
                (Some(wanted), Some(level)) if wanted == level => {}
                _ => return false,
            }
        }
    }
}

/// A filter as a client writes it: plain, or `$share/group/filter` (MQTT 5.0 §4.8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedFilter<'a> {
    /// The share group's name, if it is a shared subscription.
    pub group: Option<&'a str>,
    /// The filter that messages are matched with.
    pub filter: TopicFilter<'a>,
}

impl<'a> SharedFilter<'a> {
    /// Takes `text` apart and checks both parts.
    ///
    /// # Errors
    /// [`TopicError`] if the filter is invalid or `$share/` is not followed by a name and a filter.
    pub fn parse(text: &'a str) -> Result<Self, TopicError> {
        let Some(rest) = text.strip_prefix("$share/") else {
            return TopicFilter::new(text).map(|filter| Self { group: None, filter });
        };
        check_size(text)?;
        let (group, filter) = rest.split_once('/').ok_or(TopicError::BadShareName)?;
        if group.is_empty() || filter.is_empty() || group.bytes().any(|byte| matches!(byte, b'+' | b'#' | 0))
        {
            return Err(TopicError::BadShareName);
        }
        Ok(Self { group: Some(group), filter: TopicFilter::new(filter)? })
    }
}

fn check_size(text: &str) -> Result<(), TopicError> {
    match text.len() {
        0 => Err(TopicError::Empty),
        len if len > STRING_BYTES_MAX => Err(TopicError::TooLong),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(filter: &str, topic: &str) -> bool {
        TopicFilter::new(filter).unwrap().matches(TopicName::new(topic).unwrap())
    }

    #[test]
    fn filters_match_as_the_examples_of_the_specification_say() {
        for topic in ["sport/tennis/player1", "sport/tennis/player1/ranking", "sport/tennis/player1/a/b"] {
            assert!(matches("sport/tennis/player1/#", topic), "{topic}");
        }
        assert!(matches("sport/#", "sport"));
        assert!(matches("sport/tennis/+", "sport/tennis/player1"));
        assert!(!matches("sport/tennis/+", "sport/tennis/player1/ranking"));
        assert!(!matches("sport/+", "sport"));
        assert!(matches("sport/+", "sport/"));
        assert!(matches("+/+", "/finance") && matches("/+", "/finance") && !matches("+", "/finance"));
    }

    #[test]
    fn leading_wildcards_do_not_match_reserved_topics() {
        assert!(!matches("#", "$SYS/x") && !matches("+/x", "$SYS/x") && matches("$SYS/#", "$SYS/x"));
    }

    #[test]
    fn malformed_filters_are_refused_with_the_reason() {
        let check = |text: &str, why| assert_eq!(TopicFilter::new(text).unwrap_err(), why, "{text:?}");
        check("", TopicError::Empty);
        check("a/#/b", TopicError::MisplacedHash);
        check("a#", TopicError::MisplacedHash);
        check("a/b+", TopicError::MisplacedPlus);
        check("a\0", TopicError::Null);
        check(&"/".repeat(TOPIC_LEVELS_MAX), TopicError::TooDeep);
        check(&"x".repeat(STRING_BYTES_MAX + 1), TopicError::TooLong);
    }

    #[test]
    fn shared_filters_need_a_name_and_a_filter() {
        let shared = SharedFilter::parse("$share/g/a/+").unwrap();
        assert_eq!((shared.group, shared.filter.as_str()), (Some("g"), "a/+"));
        for bad in ["$share/g", "$share//a", "$share/g+/a", "$share/g/"] {
            assert_eq!(SharedFilter::parse(bad), Err(TopicError::BadShareName), "{bad}");
        }
        assert_eq!(SharedFilter::parse("$shared/g").unwrap().group, None);
    }
}
