//! Decoding: bytes to packets, with every rule of the specifications checked that the bytes of one packet can break.
//!
//! What depends on more than one packet is not checked here, because it belongs to the session: direction (a PUBLISH
//! with subscription identifiers from a client, a session expiry in a server's DISCONNECT), limits agreed on (topic
//! alias maximum, receive maximum), packet identifiers in use, empty client ids, and whether a topic filter is valid,
//! since a bad one is refused alone, in the SUBACK.
//!
//! Which code an error carries: bytes that cannot be parsed, reserved bits and flags, strings that are not UTF-8, and
//! properties that a packet does not have are [`ReasonCode::MalformedPacket`] (MQTT 5.0 §1.2, §2.2.2.2); what can be
//! parsed but may not be said (repeated properties, values out of range, packet identifier 0, a reason code of
//! another packet) is [`ReasonCode::ProtocolError`]; where the specification names a more precise code, that one.

mod ack;
mod connack;
mod connect;
mod property;
mod publish;
mod reader;
mod subscribe;

use crate::packet::packet_name;
use crate::{Packet, ReasonCode, Version};
use reader::Reader;

/// Errors are boxed on their way out, so that what succeeds returns in registers.
type Result<T> = std::result::Result<T, Box<DecodeError>>;

/// Why a packet is refused, with the reason code that says so to the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct DecodeError {
    /// What to answer: malformed packet, protocol error, or a more precise code.
    pub reason: ReasonCode,
    /// What is wrong and where, for the log and the reason string.
    pub what: String,
}

impl DecodeError {
    #[cold]
    fn new(reason: ReasonCode, what: impl Into<String>) -> Box<Self> {
        Box::new(Self { reason, what: what.into() })
    }

    #[cold]
    fn malformed(what: impl Into<String>) -> Box<Self> {
        Self::new(ReasonCode::MalformedPacket, what)
    }

    #[cold]
    fn protocol(what: impl Into<String>) -> Box<Self> {
        Self::new(ReasonCode::ProtocolError, what)
    }

    /// The same error, with the place it happened in put before it.
    #[cold]
    fn within(mut self: Box<Self>, place: impl std::fmt::Display) -> Box<Self> {
        self.what = format!("{place}: {}", self.what);
        self
    }
}

/// Decodes the packet whose fixed header starts with `first_byte` and whose body is `body`. `version` is that of the
/// connection; CONNECT carries its own and ignores it. The packet borrows its strings and payload from `body`.
///
/// A PUBLISH without properties allocates nothing.
///
/// # Errors
/// [`DecodeError`] names the rule that was broken, and the reason code the specification has for it.
pub fn decode<'a>(
    version: Version,
    first_byte: u8,
    body: &'a [u8],
) -> std::result::Result<Packet<'a>, DecodeError> {
    let decoded = match first_byte >> 4 {
        3 => publish::publish(version, first_byte, body),
        4..=7 => decode_ack(version, first_byte, body),
        _ => decode_other(version, first_byte, body),
    };
    decoded.map_err(|error| *error.within(packet_name(first_byte)))
}

/// The version in which a CONNECT with this body can be answered, even if it cannot be decoded: 5.0 if it claims
/// level 5 or above, else 3.1.1, whose CONNACK earlier clients understand as well. A bridge's mark in the uppermost
/// bit of the level does not count.
pub fn answer_version(connect_body: &[u8]) -> Version {
    match connect_body {
        [0, 4, b'M', b'Q', b'T', b'T', level, ..] if level & 0x7f >= 5 => Version::V5,
        _ => Version::V311,
    }
}

/// PUBACK, PUBREC, PUBREL and PUBCOMP: as frequent as PUBLISH.
fn decode_ack<'a>(version: Version, first_byte: u8, body: &'a [u8]) -> Result<Packet<'a>> {
    check_flags(version, first_byte)?;
    let reader = &mut Reader::new(body);
    let kind = first_byte >> 4;
    let allowed = if kind < 6 { ReasonCode::IN_PUBACK } else { ReasonCode::IN_PUBREL };
    let ack = ack::ack(version, allowed, reader)?;
    reader.finish()?;
    Ok(match kind {
        4 => Packet::Puback(ack),
        5 => Packet::Pubrec(ack),
        6 => Packet::Pubrel(ack),
        _ => Packet::Pubcomp(ack),
    })
}

fn decode_other<'a>(version: Version, first_byte: u8, body: &'a [u8]) -> Result<Packet<'a>> {
    check_flags(version, first_byte)?;
    let reader = &mut Reader::new(body);
    let packet = match first_byte >> 4 {
        1 => Packet::Connect(Box::new(connect::connect(reader)?)),
        2 => Packet::Connack(Box::new(connack::connack(version, reader)?)),
        8 => Packet::Subscribe(subscribe::subscribe(version, reader)?),
        9 => Packet::Suback(subscribe::suback(version, reader)?),
        10 => Packet::Unsubscribe(subscribe::unsubscribe(version, reader)?),
        11 => Packet::Unsuback(subscribe::unsuback(version, reader)?),
        12 => Packet::Pingreq,
        13 => Packet::Pingresp,
        14 => Packet::Disconnect(ack::disconnect(version, reader)?),
        _ => Packet::Auth(ack::auth(reader)?),
    };
    reader.finish()?;
    Ok(packet)
}

/// Checks the packet type and the flags that are fixed for it [MQTT-2.1.3-1].
#[inline]
fn check_flags(version: Version, first_byte: u8) -> Result<()> {
    let (kind, flags) = (first_byte >> 4, first_byte & 0x0f);
    if kind == 0 || kind == 15 && version == Version::V311 {
        return Err(DecodeError::malformed(format!("packet type {kind} is reserved")));
    }
    let expected = if matches!(kind, 6 | 8 | 10) { 0b0010 } else { 0b0000 };
    if flags != expected {
        return Err(DecodeError::malformed(format!("the flags are {flags:#06b}, must be {expected:#06b}")));
    }
    Ok(())
}
