//! The few packets the generator needs, for MQTT 3.1.1 and 5.0 (OASIS MQTT 3.1.1 §3, 5.0 §3).
//!
//! The head of a message's payload is its stamp, little endian:
//! ```text
//! 0        8        12       16
//! | due ns | source | number | padding ..
//! ```
//! `source` is the publisher, with the run's tag in its upper [`TAG_BITS`] bits, so that messages of another run do not
//! count.

/// Version of the protocol.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// MQTT 3.1.1
    #[value(name = "3.1.1", alias = "4")]
    V311,
    /// MQTT 5.0
    #[value(name = "5", alias = "5.0")]
    V5,
}

impl Version {
    /// As people write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V311 => "3.1.1",
            Self::V5 => "5.0",
        }
    }
}

/// Bits of a stamp's source that hold the run's tag.
pub(crate) const TAG_BITS: u32 = 10;
/// So many publishers can be told apart.
pub(crate) const PUBLISHERS_MAX: usize = 1 << (32 - TAG_BITS);
/// Bytes of a stamp.
pub(crate) const STAMP_LEN: usize = 16;

pub(crate) const CONNACK: u8 = 2;
pub(crate) const PUBLISH: u8 = 3;
pub(crate) const PUBACK: u8 = 4;
pub(crate) const PUBREC: u8 = 5;
pub(crate) const PUBREL: u8 = 6;
pub(crate) const PUBCOMP: u8 = 7;
pub(crate) const SUBACK: u8 = 9;
pub(crate) const DISCONNECT: u8 = 14;
/// A whole DISCONNECT, in either version.
pub(crate) const DISCONNECT_PACKET: [u8; 2] = [0xe0, 0];

/// What a message carries besides padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// When it was meant to be sent, on the generator's clock.
    pub(crate) due_ns: u64,
    /// Tag and publisher.
    pub(crate) source: u32,
    /// 1, 2, 3.. by publisher.
    pub(crate) number: u32,
}

/// A packet at the start of a buffer: its fixed header and whole length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) header_len: usize,
    pub(crate) total_len: usize,
}

/// A received PUBLISH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) qos: u8,
    /// 0 at QoS 0.
    pub(crate) packet_id: u16,
    /// None if the payload is too short to be ours.
    pub(crate) stamp: Option<Stamp>,
}

/// A packet from the broker breaks the protocol; says how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed packet from the broker: {0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

/// What a CONNECT says.
pub(crate) struct Connect<'a> {
    pub(crate) version: Version,
    pub(crate) client_id: &'a str,
    pub(crate) username: Option<&'a str>,
    pub(crate) password: Option<&'a str>,
}

/// Seconds: a run of a quarter of an hour needs no PINGREQ, and the broker keeps its timers as for real clients.
const KEEP_ALIVE_SECS: u16 = 600;

fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).expect("names made here are shorter than 64 KiB");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends a CONNECT with a clean session.
pub(crate) fn put_connect(out: &mut Vec<u8>, connect: &Connect<'_>) {
    let mut body = Vec::with_capacity(64);
    put_bytes(&mut body, b"MQTT");
    body.push(if connect.version == Version::V5 { 5 } else { 4 });
    let credentials =
        if connect.username.is_some() { 0x80 } else { 0 } | if connect.password.is_some() { 0x40 } else { 0 };
    body.push(0x02 | credentials);
    body.extend_from_slice(&KEEP_ALIVE_SECS.to_be_bytes());
    if connect.version == Version::V5 {
        body.push(0);
    }
    put_bytes(&mut body, connect.client_id.as_bytes());
    for text in [connect.username, connect.password].into_iter().flatten() {
        put_bytes(&mut body, text.as_bytes());
    }
    out.push(0x10);
    put_varint(out, body.len());
    out.extend_from_slice(&body);
}

/// Appends a SUBSCRIBE of `filters` at `qos`.
pub(crate) fn put_subscribe(
    out: &mut Vec<u8>,
    version: Version,
    packet_id: u16,
    filters: &[String],
    qos: u8,
) {
    let properties = usize::from(version == Version::V5);
    let body_len = 2 + properties + filters.iter().map(|filter| filter.len() + 3).sum::<usize>();
    out.push(0x82);
    put_varint(out, body_len);
    out.extend_from_slice(&packet_id.to_be_bytes());
    if version == Version::V5 {
        out.push(0);
    }
    for filter in filters {
        put_bytes(out, filter.as_bytes());
        out.push(qos);
    }
}

/// Appends a PUBACK, PUBREC, PUBREL or PUBCOMP.
#[inline]
pub(crate) fn put_ack(out: &mut Vec<u8>, packet_type: u8, packet_id: u16) {
    let flags = if packet_type == PUBREL { 2 } else { 0 };
    let [high, low] = packet_id.to_be_bytes();
    out.extend_from_slice(&[packet_type << 4 | flags, 2, high, low]);
}

/// The bytes that all messages to one topic begin with: fixed header and topic.
pub(crate) fn publish_head(version: Version, qos: u8, topic: &str, payload_len: usize) -> Box<[u8]> {
    let mut head = vec![0x30 | qos << 1];
    let id_len = if qos > 0 { 2 } else { 0 };
    put_varint(&mut head, 2 + topic.len() + id_len + usize::from(version == Version::V5) + payload_len);
    put_bytes(&mut head, topic.as_bytes());
    head.into()
}

/// Appends a PUBLISH made of a [`publish_head`], the packet id where there is one, the stamp and the padding.
#[inline]
pub(crate) fn put_publish(
    out: &mut Vec<u8>,
    version: Version,
    head: &[u8],
    packet_id: Option<u16>,
    stamp: Stamp,
    padding: &[u8],
) {
    out.extend_from_slice(head);
    if let Some(id) = packet_id {
        out.extend_from_slice(&id.to_be_bytes());
    }
    if version == Version::V5 {
        out.push(0);
    }
    let mut bytes = [0; STAMP_LEN];
    bytes[..8].copy_from_slice(&stamp.due_ns.to_le_bytes());
    bytes[8..12].copy_from_slice(&stamp.source.to_le_bytes());
    bytes[12..].copy_from_slice(&stamp.number.to_le_bytes());
    out.extend_from_slice(&bytes);
    out.extend_from_slice(padding);
}

/// Reads the fixed header at the start of `bytes`; None if it is not whole yet.
///
/// # Errors
/// A remaining length of more than four bytes.
#[inline]
pub(crate) fn frame(bytes: &[u8]) -> Result<Option<Frame>, Malformed> {
    let Some((body_len, len)) = varint(bytes.get(1..).unwrap_or_default())? else { return Ok(None) };
    Ok(Some(Frame { header_len: 1 + len, total_len: 1 + len + body_len }))
}

/// Reads a variable byte integer: its value and its length.
#[inline]
pub(crate) fn varint(bytes: &[u8]) -> Result<Option<(usize, usize)>, Malformed> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().enumerate().take(4) {
        value |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() >= 4 { Err(Malformed("length of more than four bytes")) } else { Ok(None) }
}

/// Reads the body of a PUBLISH.
///
/// # Errors
/// A body shorter than what it announces.
#[inline]
pub(crate) fn delivery(version: Version, first_byte: u8, body: &[u8]) -> Result<Delivery, Malformed> {
    const SHORT: Malformed = Malformed("PUBLISH shorter than its fields");
    let qos = first_byte >> 1 & 3;
    let topic_len = usize::from(be16(body, 0).ok_or(SHORT)?);
    let mut at = 2 + topic_len;
    let mut packet_id = 0;
    if qos > 0 {
        packet_id = be16(body, at).ok_or(SHORT)?;
        at += 2;
    }
    if version == Version::V5 {
        let (properties_len, len) = varint(body.get(at..).ok_or(SHORT)?)?.ok_or(SHORT)?;
        at += len + properties_len;
    }
    let payload = body.get(at..).ok_or(SHORT)?;
    let stamp = payload.first_chunk::<STAMP_LEN>().map(|bytes| {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *bytes;
        Stamp {
            due_ns: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            source: u32::from_le_bytes([i, j, k, l]),
            number: u32::from_le_bytes([m, n, o, p]),
        }
    });
    Ok(Delivery { qos, packet_id, stamp })
}

/// Big-endian number at an offset.
#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Receive Maximum of a 5.0 CONNACK's properties, if it names one (MQTT 5.0 §3.2.2.3.3).
///
/// # Errors
/// A property that is unknown or cut short.
pub(crate) fn receive_maximum(mut properties: &[u8]) -> Result<Option<u16>, Malformed> {
    const BAD: Malformed = Malformed("CONNACK properties");
    let mut found = None;
    while let Some((&id, rest)) = properties.split_first() {
        let len = match id {
            0x11 | 0x27 => 4,
            0x13 | 0x21 | 0x22 => 2,
            0x24 | 0x25 | 0x28..=0x2a => 1,
            0x12 | 0x15 | 0x16 | 0x1a | 0x1c | 0x1f => 2 + usize::from(be16(rest, 0).ok_or(BAD)?),
            0x26 => {
                let name_len = usize::from(be16(rest, 0).ok_or(BAD)?);
                4 + name_len + usize::from(be16(rest, 2 + name_len).ok_or(BAD)?)
            }
            _ => return Err(BAD),
        };
        if id == 0x21 {
            found = be16(rest, 0);
        }
        properties = rest.get(len..).ok_or(BAD)?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { due_ns: 0x0102_0304_0506_0708, source: 77, number: 99 };

    #[test]
    fn a_publish_reads_back_as_written() {
        for (version, qos) in [(Version::V311, 0), (Version::V311, 1), (Version::V5, 0), (Version::V5, 2)] {
            let mut out = Vec::new();
            let head = publish_head(version, qos, "a/b", STAMP_LEN + 200);
            put_publish(&mut out, version, &head, (qos > 0).then_some(513), STAMP, &[b'x'; 200]);
            let frame = frame(&out).expect("well-formed").expect("whole");
            assert_eq!(frame.total_len, out.len());
            let delivery = delivery(version, out[0], &out[frame.header_len..]).expect("well-formed");
            assert_eq!(
                delivery,
                Delivery { qos, packet_id: if qos > 0 { 513 } else { 0 }, stamp: Some(STAMP) }
            );
        }
    }

    #[test]
    fn a_frame_cut_short_waits_and_an_endless_length_is_refused() {
        assert_eq!(frame(&[]), Ok(None));
        assert_eq!(frame(&[0x30]), Ok(None));
        assert_eq!(frame(&[0x30, 0x80]), Ok(None));
        assert!(frame(&[0x30, 0x80, 0x80, 0x80, 0x80, 0x01]).is_err());
    }

    #[test]
    fn a_publish_shorter_than_its_topic_is_refused() {
        assert!(delivery(Version::V311, 0x30, &[0, 9, b'a']).is_err());
        assert_eq!(delivery(Version::V311, 0x30, &[0, 1, b'a', 1]).map(|delivery| delivery.stamp), Ok(None));
    }

    #[test]
    fn receive_maximum_is_found_behind_other_properties() {
        let properties = [0x12, 0, 2, b'i', b'd', 0x21, 0, 7, 0x24, 1];
        assert_eq!(receive_maximum(&properties), Ok(Some(7)));
        assert!(receive_maximum(&[0x21, 0]).is_err());
    }
}
