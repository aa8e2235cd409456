//! PUBLISH (MQTT 5.0 §3.3): the hot path.

use super::property::PropertyReader;
use super::reader::Reader;
use super::{DecodeError, Result};
use crate::packet::Publish;
use crate::properties::Property;
use crate::{Packet, Version};
use bytes::Bytes;
use meridian_types::{Properties, Qos};

/// The parts are kept apart until all are there, so that the packet is written once, where the caller wants it.
pub(super) fn publish<'a>(version: Version, first_byte: u8, body: &'a [u8]) -> Result<Packet<'a>> {
    let Some(qos) = Qos::from_bits(first_byte >> 1 & 3) else {
        return Err(DecodeError::malformed("QoS is 3 [MQTT-3.3.1-4]"));
    };
    let (retain, dup) = (first_byte & 1 != 0, first_byte & 8 != 0);
    if dup && qos == Qos::AtMostOnce {
        return Err(DecodeError::malformed("DUP is set at QoS 0 [MQTT-3.3.1-2]"));
    }
    let mut reader = Reader::new(body);
    let topic = reader.topic("topic name")?;
    let packet_id = if qos == Qos::AtMostOnce { 0 } else { reader.packet_id()? };
    let extras = match (version, reader.rest()) {
        (Version::V311, _) => Extras::default(),
        (Version::V5, [0, payload @ ..]) => {
            reader = Reader::new(payload);
            Extras::default()
        }
        (Version::V5, _) => Extras::read(&mut reader)?,
    };
    if topic.is_empty() && extras.topic_alias.is_none() {
        return Err(DecodeError::protocol("the topic name is empty and no topic alias stands for it"));
    }
    let Extras { topic_alias, expiry_secs, subscription_ids, properties } = extras;
    let payload = reader.rest();
    Ok(Packet::Publish(Publish {
        dup,
        qos,
        retain,
        topic,
        packet_id,
        topic_alias,
        expiry_secs,
        subscription_ids,
        properties,
        payload,
    }))
}

/// What the properties say.
#[derive(Default)]
struct Extras {
    topic_alias: Option<u16>,
    expiry_secs: Option<u32>,
    subscription_ids: Vec<u32>,
    properties: Option<Box<Properties>>,
}

impl Extras {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let mut extras = Self::default();
        let mut properties = PropertyReader::new(reader)?;
        while let Some(property) = properties.next()? {
            match property {
                Property::TopicAlias(alias) => extras.topic_alias = Some(alias),
                Property::MessageExpiry(secs) => extras.expiry_secs = Some(secs),
                Property::SubscriptionId(id) => extras.subscription_ids.push(id),
                other => keep(&mut extras.properties, other)?,
            }
        }
        Ok(extras)
    }
}

/// Adds to what travels on with a message, in PUBLISH and in the will of CONNECT.
pub(super) fn keep(kept: &mut Option<Box<Properties>>, property: Property<'_>) -> Result<()> {
    match property {
        Property::PayloadFormat(format) => kept.get_or_insert_default().payload_format = Some(format),
        Property::ContentType(text) => kept.get_or_insert_default().content_type = Some(text.into()),
        Property::ResponseTopic(name) => kept.get_or_insert_default().response_topic = Some(name.into()),
        Property::CorrelationData(data) => {
            kept.get_or_insert_default().correlation_data = Some(Bytes::copy_from_slice(data));
        }
        Property::User(name, value) => kept.get_or_insert_default().user.push((name.into(), value.into())),
        other => return Err(PropertyReader::misplaced(other)),
    }
    Ok(())
}
