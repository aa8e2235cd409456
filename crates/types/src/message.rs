//! Messages as the broker keeps them: protocol-neutral, immutable, shared by reference.

use crate::memory::Held;
use crate::{Instant, Qos};
use bytes::Bytes;

/// What the payload is said to be (MQTT 5.0 §3.3.2.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PayloadFormat {
    /// Unspecified bytes.
    Bytes = 0,
    /// UTF-8 encoded text.
    Utf8 = 1,
}

/// What a publisher says about a message besides its topic and payload. All of it travels on unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// Whether the payload is text.
    pub payload_format: Option<PayloadFormat>,
    /// A MIME type or any other description.
    pub content_type: Option<Box<str>>,
    /// Where an answer is to be published.
    pub response_topic: Option<Box<str>>,
    /// What the requester recognises the answer by.
    pub correlation_data: Option<Bytes>,
    /// Name and value pairs; order and repeats are kept [MQTT-3.3.2-18].
    pub user: Vec<(Box<str>, Box<str>)>,
}

impl Properties {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The bytes it holds in strings and data, for limits that count memory.
    pub fn size(&self) -> usize {
        let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
        text(&self.content_type)
            + text(&self.response_topic)
            + self.correlation_data.as_ref().map_or(0, Bytes::len)
            + self.user.iter().map(|(name, value)| name.len() + value.len() + 32).sum::<usize>()
    }
}

/// A message that something keeps: a session's queue, the retained store, a will.
#[derive(Clone, Debug)]
pub struct Message {
    /// A valid topic name.
    pub topic: Box<str>,
    /// The application's bytes.
    pub payload: Bytes,
    /// As published; a delivery lowers it to the subscription's.
    pub qos: Qos,
    /// Whether the publisher asked for it to be retained.
    pub retain: bool,
    /// `None` if the publisher set none.
    pub properties: Option<Box<Properties>>,
    /// When it arrived: the time it has waited is taken from the expiry interval when it leaves.
    pub received: Instant,
    /// When it is of no use any more; [`Instant::NEVER`] if no expiry interval was set.
    pub expires: Instant,
    /// A hash of the publisher's client id, so that "no local" can be honoured later; 0 if there was none.
    pub client_hash: u64,
    /// Counts what it holds, except for the payload, which counts by itself ([`crate::memory::copy`]).
    pub held: Held,
}

impl Message {
    /// What a message with this topic and these properties has to be counted with in [`Message::held`].
    pub fn counted(topic: &str, properties: Option<&Properties>) -> Held {
        Held::new(size_of::<Self>() + topic.len() + properties.map_or(0, Properties::size))
    }

    /// The memory it is counted with against limits in bytes: what it holds, plus its own structure.
    pub fn size(&self) -> usize {
        size_of::<Self>()
            + self.topic.len()
            + self.payload.len()
            + self.properties.as_ref().map_or(0, |properties| properties.size())
    }

    /// Seconds of its expiry interval that remain at `now`, rounded up; `None` if it never expires. 0 is left of an
    /// interval of 0, and of one that is over while a delivery goes on that began before [MQTT-3.3.2-6].
    pub fn remaining_expiry_secs(&self, now: Instant) -> Option<u32> {
        if self.expires == Instant::NEVER {
            return None;
        }
        let millis = self.expires.since(now).as_millis();
        Some(u32::try_from(millis.div_ceil(1000)).unwrap_or(u32::MAX))
    }

    /// Whether its time is over at `now`.
    pub fn is_expired(&self, now: Instant) -> bool {
        self.expires <= now
    }
}
