//! Topic aliases, both ways (MQTT 5.0 §3.3.2.3.4). They live as long as a connection.

use crate::ReasonCode;
use meridian_types::memory::Held;
use std::collections::HashMap;

/// Aliases the peer has set. One pointer, since most peers set none.
#[derive(Debug, Default)]
pub struct AliasesIn(Option<Box<Set>>);

#[derive(Debug, Default)]
struct Set {
    topics: Vec<Option<Box<str>>>,
    /// The sum of their lengths.
    text_bytes: usize,
    held: Held,
}

impl AliasesIn {
    /// The topic a PUBLISH means. `topic` may be empty, and `maximum` is what was granted to the peer.
    ///
    /// # Errors
    /// Topic alias invalid (0x94) for 0 or an alias above `maximum` [MQTT-3.3.2-8]; protocol error (0x82) for an
    /// empty topic with an alias that was never set.
    pub fn resolve<'a>(
        &'a mut self,
        topic: &'a str,
        alias: Option<u16>,
        maximum: u16,
    ) -> Result<&'a str, ReasonCode> {
        let Some(alias) = alias else { return Ok(topic) };
        if alias == 0 || alias > maximum {
            return Err(ReasonCode::TopicAliasInvalid);
        }
        let position = usize::from(alias) - 1;
        if topic.is_empty() {
            let known = self.0.as_ref().and_then(|set| set.topics.get(position)?.as_deref());
            return known.ok_or(ReasonCode::ProtocolError);
        }
        self.0.get_or_insert_default().assign(position, topic);
        Ok(topic)
    }

    /// The memory they take, which counts in [`meridian_types::memory`].
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |set| set.held.bytes())
    }

    /// What they take at the least once `alias` stands for `topic`: the places up to it are there then.
    pub fn bytes_with(&self, alias: u16, topic: &str) -> usize {
        let place_count = self.0.as_ref().map_or(0, |set| set.topics.len());
        let new_places = usize::from(alias).saturating_sub(place_count);
        self.bytes() + new_places * size_of::<Option<Box<str>>>() + topic.len()
    }
}

impl Set {
    fn assign(&mut self, position: usize, topic: &str) {
        if self.topics.len() <= position {
            self.topics.resize(position + 1, None);
        }
        let before = self.topics[position].as_deref();
        if before != Some(topic) {
            self.text_bytes = self.text_bytes - before.map_or(0, str::len) + topic.len();
            self.topics[position] = Some(topic.into());
        }
        let slots = self.topics.capacity() * size_of::<Option<Box<str>>>();
        self.held.set(size_of::<Self>() + self.text_bytes + slots);
    }
}

/// Aliases set towards the peer: the first topics sent get one each, until they are used up.
#[derive(Debug)]
pub struct AliasesOut {
    topics: HashMap<Box<str>, u16>,
    maximum: u16,
    held: Held,
}

/// What an outgoing alias takes besides the text of its topic.
const ALIAS_OUT_BYTES: usize = 32;

impl AliasesOut {
    /// At most `maximum` aliases, what the peer takes.
    pub fn new(maximum: u16) -> Self {
        Self { topics: HashMap::new(), maximum, held: Held::default() }
    }

    /// The alias of a topic that the peer knows already.
    pub fn known(&self, topic: &str) -> Option<u16> {
        self.topics.get(topic).copied()
    }

    /// How to write `topic`: its alias, if it has one, and whether the peer knows it already.
    pub fn assign(&mut self, topic: &str) -> Option<(u16, bool)> {
        if let Some(alias) = self.known(topic) {
            return Some((alias, true));
        }
        let count = u16::try_from(self.topics.len()).expect("bounded by a u16");
        if count == self.maximum {
            return None;
        }
        self.topics.insert(topic.into(), count + 1);
        self.held.set(self.held.bytes() + topic.len() + ALIAS_OUT_BYTES);
        Some((count + 1, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_stands_for_the_topic_it_was_last_set_to() {
        let mut aliases = AliasesIn::default();
        assert_eq!(aliases.resolve("a", Some(2), 3), Ok("a"));
        assert_eq!(aliases.resolve("", Some(2), 3), Ok("a"));
        assert_eq!(aliases.resolve("b", Some(2), 3), Ok("b"));
        assert_eq!(aliases.resolve("", Some(2), 3), Ok("b"));
    }

    #[test]
    fn aliases_out_of_range_or_never_set_are_refused() {
        let mut aliases = AliasesIn::default();
        assert_eq!(aliases.resolve("a", Some(0), 3), Err(ReasonCode::TopicAliasInvalid));
        assert_eq!(aliases.resolve("a", Some(4), 3), Err(ReasonCode::TopicAliasInvalid));
        assert_eq!(aliases.resolve("", Some(3), 3), Err(ReasonCode::ProtocolError));
    }

    #[test]
    fn what_an_alias_takes_counts_until_it_stands_for_something_else() {
        let mut aliases = AliasesIn::default();
        aliases.resolve("a", Some(1), 3).unwrap();
        let empty = aliases.bytes() - 1;
        aliases.resolve(&"long".repeat(100), Some(1), 3).unwrap();
        assert_eq!(aliases.bytes(), empty + 400);
        aliases.resolve("", Some(1), 3).unwrap();
        aliases.resolve("ab", Some(1), 3).unwrap();
        assert_eq!(aliases.bytes(), empty + 2);
        assert!(aliases.bytes_with(u16::MAX, "c") > 1 << 20, "places of aliases not set count too");
    }

    #[test]
    fn outgoing_aliases_are_used_up() {
        let mut aliases = AliasesOut::new(1);
        assert_eq!(aliases.assign("a"), Some((1, false)));
        assert_eq!(aliases.assign("a"), Some((1, true)));
        assert_eq!(aliases.assign("b"), None);
        assert_eq!((aliases.known("a"), aliases.known("b")), (Some(1), None));
    }
}
