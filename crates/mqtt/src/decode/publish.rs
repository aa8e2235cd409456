//! PUBLISH (MQTT 5.0 §3.3): the hot path.

use super::property::PropertyReader;
use super::reader::Reader;
use super::{DecodeError, Result};
use crate::Version;
use crate::packet::Publish;
use crate::properties::Property;
use bytes::Bytes;
use meridian_types::{Properties, Qos};

#[inline]
pub(super) fn publish<'a>(version: Version, first_byte: u8, body: &'a [u8]) -> Result<Publish<'a>> {
    let mut publish = Publish { retain: first_byte & 1 != 0, dup: first_byte & 8 != 0, ..Publish::default() };
    match Qos::from_bits(first_byte >> 1 & 3) {
        Some(qos) => publish.qos = qos,
        None => return Err(DecodeError::malformed("QoS is 3 [MQTT-3.3.1-4]".to_owned())),
    }
    if publish.dup && publish.qos == Qos::AtMostOnce {
        return Err(DecodeError::malformed("DUP is set at QoS 0 [MQTT-3.3.1-2]".to_owned()));
    }
    let mut reader = Reader::new(body);
    publish.topic = reader.topic("topic name")?;
    if publish.qos != Qos::AtMostOnce {
        publish.packet_id = reader.packet_id()?;
    }
    if version == Version::V5 {
        read_properties(&mut publish, &mut reader)?;
    }
    if publish.topic.is_empty() && publish.topic_alias.is_none() {
        return Err(DecodeError::protocol(
            "the topic name is empty and no topic alias stands for it".to_owned(),
        ));
    }
    publish.payload = reader.rest();
    Ok(publish)
}

#[inline]
fn read_properties<'a>(publish: &mut Publish<'a>, reader: &mut Reader<'a>) -> Result<()> {
    let mut properties = PropertyReader::new(reader)?;
    while let Some(property) = properties.next()? {
        match property {
            Property::TopicAlias(alias) => publish.topic_alias = Some(alias),
            Property::MessageExpiry(secs) => publish.expiry_secs = Some(secs),
            Property::SubscriptionId(id) => publish.subscription_ids.push(id),
            other => keep(&mut publish.properties, other)?,
        }
    }
    Ok(())
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
