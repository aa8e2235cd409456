//! Encoding: packets to bytes, appended to a buffer.
//!
//! Every packet has one encoding. Properties come in ascending order of their identifiers, those that repeat in the
//! order given; what equals the default of the specification is left out, and so are a reason code of success and an
//! empty property length at the end of an acknowledgement, DISCONNECT or AUTH.
//!
//! The encoder trusts its input: it does not check what [`crate::decode`] refuses, and it does not panic. Two things it
//! mends, since their source may be another protocol: a string or binary longer than 65,535 bytes is cut (a string
//! between characters), and flags that contradict each other ([`Packet::Publish`] with DUP at QoS 0,
//! [`Packet::Connack`] with session present in a refusal) are left unset. One thing it leaves to the caller: a packet
//! above [`meridian_types::limits::MQTT_PACKET_BYTES_MAX`] cannot be said at all and must not be sent, as none above
//! the receiver's own limit may be [MQTT-3.1.2-24]; [`publish_len`] tells before.

mod ack;
mod connack;
mod connect;
mod publish;
mod sink;
mod subscribe;

pub use publish::{PublishHead, encode_publish_head, publish_len};

use crate::{Packet, Version};
use sink::{Block, Sink};

/// Appends `packet` in the given version; CONNECT carries its own and ignores it. In 3.1.1 what that version cannot say
/// is left out: properties, the reasons of acknowledgements and DISCONNECT, a password without a user name; the
/// reason of a CONNACK becomes the nearest return code, a failed SUBACK 0x80, and AUTH appends nothing.
///
/// Cost: the variable parts are gone through twice, first to know their length; `out` grows at most once.
pub fn encode(packet: &Packet<'_>, version: Version, out: &mut Vec<u8>) {
    match packet {
        Packet::Connect(connect) => append(0x10, &connect::Body(connect), out),
        Packet::Connack(connack) => append(0x20, &connack::Body(connack, version), out),
        Packet::Publish(publish) => publish::append(publish, version, out),
        Packet::Puback(ack) => ack::append(0x40, ack, version, out),
        Packet::Pubrec(ack) => ack::append(0x50, ack, version, out),
        Packet::Pubrel(ack) => ack::append(0x62, ack, version, out),
        Packet::Pubcomp(ack) => ack::append(0x70, ack, version, out),
        Packet::Subscribe(subscribe) => append(0x82, &subscribe::SubscribeBody(subscribe, version), out),
        Packet::Suback(suback) => append(0x90, &subscribe::SubackBody(suback, version), out),
        Packet::Unsubscribe(unsubscribe) => {
            append(0xa2, &subscribe::UnsubscribeBody(unsubscribe, version), out)
        }
        Packet::Unsuback(unsuback) => append(0xb0, &subscribe::UnsubackBody(unsuback, version), out),
        Packet::Pingreq => out.extend_from_slice(&[0xc0, 0]),
        Packet::Pingresp => out.extend_from_slice(&[0xd0, 0]),
        Packet::Disconnect(disconnect) => append(0xe0, &ack::DisconnectBody(disconnect, version), out),
        Packet::Auth(_) if version == Version::V311 => {}
        Packet::Auth(auth) => append(0xf0, &ack::AuthBody(auth), out),
    }
}

/// Appends a fixed header and the body.
fn append(first_byte: u8, body: &impl Block, out: &mut Vec<u8>) {
    let len = body.len();
    out.reserve(5 + len);
    out.push(first_byte);
    out.varint(len);
    body.write(out);
}
