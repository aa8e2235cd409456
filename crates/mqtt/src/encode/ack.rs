//! PUBACK, PUBREC, PUBREL, PUBCOMP, DISCONNECT and AUTH.

use super::sink::{Block, Sink};
use crate::packet::{Ack, Auth, Disconnect};
use crate::properties::PropertyId;
use crate::{ReasonCode, Version};

/// An acknowledgement; most have nothing to add to the packet identifier.
#[inline]
pub(super) fn append(first_byte: u8, ack: &Ack<'_>, version: Version, out: &mut Vec<u8>) {
    let has_properties = ack.reason_string.is_some() || !ack.user_properties.is_empty();
    if version == Version::V311 || ack.reason == ReasonCode::Success && !has_properties {
        let [high, low] = ack.packet_id.to_be_bytes();
        out.extend_from_slice(&[first_byte, 2, high, low]);
    } else {
        super::append(first_byte, &AckBody(ack), out);
    }
}

/// The body of a 5.0 acknowledgement with a reason code.
struct AckBody<'a>(&'a Ack<'a>);

impl Block for AckBody<'_> {
    fn write(&self, sink: &mut impl Sink) {
        let Self(ack) = self;
        sink.u16(ack.packet_id);
        sink.byte(ack.reason.byte());
        if ack.reason_string.is_some() || !ack.user_properties.is_empty() {
            sink.block(&Explanation { text: ack.reason_string, user_properties: &ack.user_properties });
        }
    }
}

/// The two properties every answer may have.
pub(super) struct Explanation<'a> {
    pub(super) text: Option<&'a str>,
    pub(super) user_properties: &'a [(&'a str, &'a str)],
}

impl Block for Explanation<'_> {
    fn write(&self, sink: &mut impl Sink) {
        sink.property_text(PropertyId::ReasonString, self.text);
        sink.user_properties(self.user_properties.iter().copied());
    }
}

pub(super) struct DisconnectBody<'a>(pub(super) &'a Disconnect<'a>, pub(super) Version);

impl Block for DisconnectBody<'_> {
    fn write(&self, sink: &mut impl Sink) {
        let Self(disconnect, version) = self;
        let properties = DisconnectProperties(disconnect);
        let has_properties = !properties.is_empty();
        if *version == Version::V311 || disconnect.reason == ReasonCode::Success && !has_properties {
            return;
        }
        sink.byte(disconnect.reason.byte());
        if has_properties {
            sink.block(&properties);
        }
    }
}

struct DisconnectProperties<'a>(&'a Disconnect<'a>);

impl Block for DisconnectProperties<'_> {
    fn write(&self, sink: &mut impl Sink) {
        let Self(disconnect) = self;
        sink.property_u32(PropertyId::SessionExpiry, disconnect.session_expiry_secs);
        sink.property_text(PropertyId::ServerReference, disconnect.server_reference);
        sink.property_text(PropertyId::ReasonString, disconnect.reason_string);
        sink.user_properties(disconnect.user_properties.iter().copied());
    }
}

pub(super) struct AuthBody<'a>(pub(super) &'a Auth<'a>);

impl Block for AuthBody<'_> {
    fn write(&self, sink: &mut impl Sink) {
        let Self(auth) = self;
        let properties = AuthProperties(auth);
        if auth.reason == ReasonCode::Success && properties.is_empty() {
            return;
        }
        sink.byte(auth.reason.byte());
        sink.block(&properties);
    }
}

struct AuthProperties<'a>(&'a Auth<'a>);

impl Block for AuthProperties<'_> {
    fn write(&self, sink: &mut impl Sink) {
        let Self(auth) = self;
        sink.property_text(PropertyId::AuthenticationMethod, auth.authentication_method);
        sink.property_binary(PropertyId::AuthenticationData, auth.authentication_data.as_deref());
        sink.property_text(PropertyId::ReasonString, auth.reason_string);
        sink.user_properties(auth.user_properties.iter().copied());
    }
}
