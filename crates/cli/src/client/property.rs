//! `-D COMMAND PROPERTY VALUE`: MQTT 5.0 properties on the command line, as Mosquitto's clients take them.

use bytes::Bytes;
use meridian_types::{PayloadFormat, Properties};

/// All properties given.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PropertySet {
    /// Of CONNECT.
    pub(crate) connect: ConnectProperties,
    /// Of each PUBLISH.
    pub(crate) publish: PublishProperties,
    /// Of the will.
    pub(crate) will: PublishProperties,
    /// Subscription identifier of SUBSCRIBE.
    pub(crate) subscription_id: Option<u32>,
    /// User properties of SUBSCRIBE.
    pub(crate) subscribe_user: Vec<(String, String)>,
}

/// Properties of CONNECT.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ConnectProperties {
    /// Seconds.
    pub(crate) session_expiry_secs: Option<u32>,
    /// Unacknowledged messages taken.
    pub(crate) receive_maximum: Option<u16>,
    /// Largest packet taken.
    pub(crate) packet_bytes_max: Option<u32>,
    /// Topic aliases taken.
    pub(crate) topic_alias_maximum: u16,
    /// Whether response information is asked for.
    pub(crate) request_response_information: bool,
    /// Whether reason strings are wanted.
    pub(crate) request_problem_information: Option<bool>,
    /// Names and values.
    pub(crate) user: Vec<(String, String)>,
}

/// Properties of a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PublishProperties {
    /// Message expiry interval, in seconds.
    pub(crate) expiry_secs: Option<u32>,
    /// Seconds a will waits.
    pub(crate) delay_secs: u32,
    /// All that travels on.
    pub(crate) properties: Properties,
}

/// Why an option is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PropertyError {
    #[error("-D takes a packet, a property and its value: -D publish content-type text/plain")]
    Incomplete,
    #[error("-D {0}: the packet must be connect, publish, subscribe or will")]
    Packet(String),
    #[error("-D {packet} {name}: {packet} has no such property; it has {known}")]
    Name {
        /// As written.
        packet: String,
        /// As written.
        name: String,
        /// All names.
        known: String,
    },
    #[error("-D {packet} {name} {value}: expected {expected}")]
    Value {
        /// As written.
        packet: String,
        /// As written.
        name: String,
        /// As written.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
}

const CONNECT: [&str; 7] = [
    "session-expiry-interval",
    "receive-maximum",
    "maximum-packet-size",
    "topic-alias-maximum",
    "request-response-information",
    "request-problem-information",
    "user-property",
];
const PUBLISH: [&str; 6] = [
    "payload-format-indicator",
    "message-expiry-interval",
    "content-type",
    "response-topic",
    "correlation-data",
    "user-property",
];
const WILL: [&str; 7] = [
    "payload-format-indicator",
    "message-expiry-interval",
    "content-type",
    "response-topic",
    "correlation-data",
    "user-property",
    "will-delay-interval",
];
const SUBSCRIBE: [&str; 2] = ["subscription-identifier", "user-property"];

impl PropertySet {
    /// Reads the words of all `-D` options, one after the other: each is a packet, a property and its value, or name
    /// and value if it is a user property.
    pub(crate) fn parse(words: &[String]) -> Result<Self, PropertyError> {
        let mut set = Self::default();
        let mut words = words.iter().map(String::as_str);
        while let Some(packet) = words.next() {
            let name = words.next().ok_or(PropertyError::Incomplete)?;
            let known: &[&str] = match packet {
                "connect" => &CONNECT,
                "publish" => &PUBLISH,
                "subscribe" => &SUBSCRIBE,
                "will" => &WILL,
                other => return Err(PropertyError::Packet(other.to_owned())),
            };
            if !known.contains(&name) {
                let (packet, name) = (packet.to_owned(), name.to_owned());
                return Err(PropertyError::Name { packet, name, known: known.join(", ") });
            }
            let value = words.next().ok_or(PropertyError::Incomplete)?;
            if name == "user-property" {
                let pair = (value.to_owned(), words.next().ok_or(PropertyError::Incomplete)?.to_owned());
                set.add_user(packet, pair);
                continue;
            }
            set.set(packet, name, value).map_err(|expected| PropertyError::Value {
                packet: packet.to_owned(),
                name: name.to_owned(),
                value: value.to_owned(),
                expected,
            })?;
        }
        Ok(set)
    }

    fn add_user(&mut self, packet: &str, (name, value): (String, String)) {
        match packet {
            "connect" => self.connect.user.push((name, value)),
            "subscribe" => self.subscribe_user.push((name, value)),
            "will" => self.will.properties.user.push((name.into(), value.into())),
            _ => self.publish.properties.user.push((name.into(), value.into())),
        }
    }

    fn set(&mut self, packet: &str, name: &str, value: &str) -> Result<(), &'static str> {
        match packet {
            "connect" => self.connect.set(name, value),
            "will" => self.will.set(name, value),
            "subscribe" => {
                let id = number(value)?;
                let is_valid = (1..=meridian_types::limits::SUBSCRIPTION_ID_MAX).contains(&id);
                self.subscription_id = Some(id).filter(|_| is_valid);
                if is_valid { Ok(()) } else { Err("a number from 1 to 268435455") }
            }
            _ => self.publish.set(name, value),
        }
    }
}

impl ConnectProperties {
    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        match name {
            "session-expiry-interval" => self.session_expiry_secs = Some(number(value)?),
            "receive-maximum" => {
                let maximum: u16 = number(value)?;
                self.receive_maximum = Some(maximum).filter(|maximum| *maximum > 0);
                self.receive_maximum.ok_or("a number from 1 to 65535")?;
            }
            "maximum-packet-size" => {
                let size: u32 = number(value)?;
                self.packet_bytes_max = Some(size).filter(|size| *size > 0);
                self.packet_bytes_max.ok_or("a number of bytes above 0")?;
            }
            "topic-alias-maximum" => self.topic_alias_maximum = number(value)?,
            "request-response-information" => self.request_response_information = flag(value)?,
            _ => self.request_problem_information = Some(flag(value)?),
        }
        Ok(())
    }
}

impl PublishProperties {
    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        match name {
            "payload-format-indicator" => {
                let format = if flag(value)? { PayloadFormat::Utf8 } else { PayloadFormat::Bytes };
                self.properties.payload_format = Some(format);
            }
            "message-expiry-interval" => self.expiry_secs = Some(number(value)?),
            "content-type" => self.properties.content_type = Some(value.into()),
            "response-topic" => {
                meridian_types::TopicName::new(value).map_err(|_| "a topic name without wildcards")?;
                self.properties.response_topic = Some(value.into());
            }
            "correlation-data" => {
                self.properties.correlation_data = Some(Bytes::copy_from_slice(value.as_bytes()));
            }
            _ => self.delay_secs = number(value)?,
        }
        Ok(())
    }

    /// The properties to send; `None` if there are none.
    pub(crate) fn boxed(&self) -> Option<Box<Properties>> {
        (!self.properties.is_empty()).then(|| Box::new(self.properties.clone()))
    }
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, &'static str> {
    value
        .parse()
        .map_err(|_| if size_of::<T>() == 2 { "a number up to 65535" } else { "a number up to 4294967295" })
}

fn flag(value: &str) -> Result<bool, &'static str> {
    match value {
        "0" | "false" => Ok(false),
        "1" | "true" => Ok(true),
        _ => Err("0 or 1"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PropertySet, PropertyError> {
        PropertySet::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn properties_of_each_packet_are_read() {
        let set = parse(
            "publish content-type text/plain publish user-property a b publish user-property a c \
             connect session-expiry-interval 60 will will-delay-interval 5 subscribe subscription-identifier 7",
        )
        .unwrap();
        assert_eq!(set.publish.properties.content_type.as_deref(), Some("text/plain"));
        assert_eq!(set.publish.properties.user, [("a".into(), "b".into()), ("a".into(), "c".into())]);
        assert_eq!((set.connect.session_expiry_secs, set.will.delay_secs), (Some(60), 5));
        assert_eq!(set.subscription_id, Some(7));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, what) in [
            ("publish content-type", "-D takes a packet"),
            ("publish user-property a", "-D takes a packet"),
            ("pub content-type x", "-D pub: the packet must be"),
            ("publish content x", "-D publish content: publish has no such property; it has payload-format"),
            ("connect receive-maximum 0", "-D connect receive-maximum 0: expected a number from 1 to 65535"),
            ("connect receive-maximum 70000", "expected a number up to 65535"),
            ("publish payload-format-indicator utf8", "expected 0 or 1"),
            ("publish response-topic a/#", "expected a topic name without wildcards"),
            ("subscribe subscription-identifier 0", "expected a number from 1"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
