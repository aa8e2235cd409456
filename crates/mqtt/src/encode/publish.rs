//! PUBLISH: the hot path.

use super::sink::{Block, Sink, clamp, varint};
use crate::Version;
use crate::packet::Publish;
use crate::properties::PropertyId;
use meridian_types::{Properties, Qos};

/// The head of an outgoing PUBLISH: everything but the payload.
#[derive(Clone, Copy, Debug)]
pub struct PublishHead<'a> {
    /// Name, or empty if the alias says it.
    pub topic: &'a str,
    /// Sent before.
    pub dup: bool,
    /// Level.
    pub qos: Qos,
    /// Retain flag.
    pub retain: bool,
    /// 0 at QoS 0.
    pub packet_id: u16,
    /// Alias to set or use.
    pub topic_alias: Option<u16>,
    /// Seconds left.
    pub expiry_secs: Option<u32>,
    /// Matching subscriptions.
    pub subscription_ids: &'a [u32],
    /// What travels on unchanged.
    pub properties: Option<&'a Properties>,
}

/// Appends the fixed and variable header of a PUBLISH whose payload of `payload_len` bytes follows. Returns the
/// offset of the packet id from where the packet begins, so that a copy can be given another one; 0 at QoS 0.
///
/// ```text
/// 0x3 DUP QoS RETAIN | remaining length, 1 to 4 | topic length, 2 | topic | packet id, 2, at QoS 1 and 2
///                    | property length and properties, 5.0 only    | payload
/// ```
#[inline]
pub fn encode_publish_head(
    head: &PublishHead<'_>,
    payload_len: usize,
    version: Version,
    out: &mut Vec<u8>,
) -> usize {
    let topic = clamp(head.topic).as_bytes();
    let properties_len = head.properties_len(version);
    let head_len = head_len(head, version, properties_len);
    let (remaining, remaining_len) = varint(head_len + payload_len);
    out.reserve(1 + remaining_len + head_len);
    let dup = u8::from(head.dup && head.qos != Qos::AtMostOnce);
    out.push(0x30 | dup << 3 | head.qos.bits() << 1 | u8::from(head.retain));
    out.extend_from_slice(&remaining[..remaining_len]);
    out.extend_from_slice(&(topic.len() as u16).to_be_bytes());
    out.extend_from_slice(topic);
    let mut packet_id_offset = 0;
    if head.qos != Qos::AtMostOnce {
        packet_id_offset = 1 + remaining_len + 2 + topic.len();
        out.extend_from_slice(&head.packet_id.to_be_bytes());
    }
    if version == Version::V5 {
        out.varint(properties_len);
        if properties_len > 0 {
            head.write(out);
        }
    }
    packet_id_offset
}

/// The length of the whole packet that [`encode_publish_head`] begins, to be compared with what the receiver takes and
/// with [`meridian_types::limits::MQTT_PACKET_BYTES_MAX`], above which nothing can be sent at all. Allocates nothing.
pub fn publish_len(head: &PublishHead<'_>, payload_len: usize, version: Version) -> usize {
    let body_len = head_len(head, version, head.properties_len(version)) + payload_len;
    1 + varint(body_len).1 + body_len
}

/// Appends a whole PUBLISH.
pub(super) fn append(publish: &Publish<'_>, version: Version, out: &mut Vec<u8>) {
    let head = PublishHead {
        topic: publish.topic,
        dup: publish.dup,
        qos: publish.qos,
        retain: publish.retain,
        packet_id: publish.packet_id,
        topic_alias: publish.topic_alias,
        expiry_secs: publish.expiry_secs,
        subscription_ids: &publish.subscription_ids,
        properties: publish.properties.as_deref(),
    };
    encode_publish_head(&head, publish.payload.len(), version, out);
    out.extend_from_slice(publish.payload);
}

/// The length of the variable header.
#[inline]
fn head_len(head: &PublishHead<'_>, version: Version, properties_len: usize) -> usize {
    let packet_id_len = if head.qos == Qos::AtMostOnce { 0 } else { 2 };
    let properties_len = if version == Version::V5 { varint(properties_len).1 + properties_len } else { 0 };
    2 + clamp(head.topic).len() + packet_id_len + properties_len
}

impl PublishHead<'_> {
    /// The length of the properties, without the property length itself.
    #[inline]
    fn properties_len(&self, version: Version) -> usize {
        let has_none = self.topic_alias.is_none()
            && self.expiry_secs.is_none()
            && self.subscription_ids.is_empty()
            && self.properties.is_none();
        if has_none || version == Version::V311 { 0 } else { self.len() }
    }
}

/// The properties of the head.
impl Block for PublishHead<'_> {
    fn write(&self, sink: &mut impl Sink) {
        write_kept_head(self.properties, self.expiry_secs, sink);
        for id in self.subscription_ids {
            sink.byte(PropertyId::SubscriptionId as u8);
            sink.varint(*id as usize);
        }
        sink.property_u16(PropertyId::TopicAlias, self.topic_alias);
        let user = self.properties.iter().flat_map(|kept| &kept.user);
        sink.user_properties(user.map(|(name, value)| (&**name, &**value)));
    }
}

/// What PUBLISH and the will begin with: the properties that travel on, user properties excepted, and the expiry,
/// which stands among them.
pub(super) fn write_kept_head(kept: Option<&Properties>, expiry_secs: Option<u32>, sink: &mut impl Sink) {
    if let Some(format) = kept.and_then(|kept| kept.payload_format) {
        sink.put(&[PropertyId::PayloadFormat as u8, format as u8]);
    }
    sink.property_u32(PropertyId::MessageExpiry, expiry_secs);
    if let Some(kept) = kept {
        sink.property_text(PropertyId::ContentType, kept.content_type.as_deref());
        sink.property_text(PropertyId::ResponseTopic, kept.response_topic.as_deref());
        sink.property_binary(PropertyId::CorrelationData, kept.correlation_data.as_deref());
    }
}
