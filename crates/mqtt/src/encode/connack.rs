//! CONNACK.

use super::sink::{Block, Sink};
use crate::packet::Connack;
use crate::properties::PropertyId;
use crate::{ReasonCode, Version};
use meridian_types::Qos;

pub(super) struct Body<'a>(pub(super) &'a Connack<'a>, pub(super) Version);

impl Block for Body<'_> {
    fn write(&self, sink: &mut impl Sink) {
        let Self(connack, version) = self;
        sink.byte(u8::from(connack.session_present && connack.reason == ReasonCode::Success));
        match version {
            Version::V311 => sink.byte(connack.reason.return_code()),
            Version::V5 => {
                sink.byte(connack.reason.byte());
                sink.block(&ConnackProperties(connack));
            }
        }
    }
}

struct ConnackProperties<'a>(&'a Connack<'a>);

impl Block for ConnackProperties<'_> {
    fn write(&self, sink: &mut impl Sink) {
        let Self(connack) = self;
        // QoS 2 is said by leaving the property out: its only values are 0 and 1 (§3.2.2.3.4).
        let qos_maximum = connack.qos_maximum.filter(|qos| *qos != Qos::ExactlyOnce);
        sink.property_u32(PropertyId::SessionExpiry, connack.session_expiry_secs);
        sink.property_text(PropertyId::AssignedClientId, connack.assigned_client_id);
        sink.property_u16(PropertyId::ServerKeepAlive, connack.server_keep_alive_secs);
        sink.property_text(PropertyId::AuthenticationMethod, connack.authentication_method);
        sink.property_binary(PropertyId::AuthenticationData, connack.authentication_data);
        sink.property_text(PropertyId::ResponseInformation, connack.response_information);
        sink.property_text(PropertyId::ServerReference, connack.server_reference);
        sink.property_text(PropertyId::ReasonString, connack.reason_string);
        sink.property_u16(PropertyId::ReceiveMaximum, connack.receive_maximum);
        sink.property_u16(PropertyId::TopicAliasMaximum, connack.topic_alias_maximum);
        sink.property_flag(PropertyId::QosMaximum, qos_maximum.map(|qos| qos == Qos::AtLeastOnce));
        sink.property_flag(PropertyId::RetainAvailable, connack.retain_available);
        sink.user_properties(connack.user_properties.iter().copied());
        sink.property_u32(PropertyId::PacketBytesMax, connack.packet_bytes_max);
        sink.property_flag(PropertyId::WildcardAvailable, connack.wildcard_available);
        sink.property_flag(PropertyId::SubscriptionIdsAvailable, connack.subscription_ids_available);
        sink.property_flag(PropertyId::SharedAvailable, connack.shared_available);
    }
}
