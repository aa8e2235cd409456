//! CONNECT.

use super::publish::write_kept_head;
use super::sink::{Block, Sink};
use crate::Version;
use crate::packet::{Connect, Will};
use crate::properties::PropertyId;

pub(super) struct Body<'a>(pub(super) &'a Connect<'a>);

impl Block for Body<'_> {
    fn write(&self, sink: &mut impl Sink) {
        let Self(connect) = self;
        let is_v5 = connect.version == Version::V5;
        let password = connect.password.filter(|_| is_v5 || connect.user_name.is_some());
        sink.text("MQTT");
        sink.byte(if is_v5 { 5 } else { 4 });
        sink.byte(flags(connect, password.is_some()));
        sink.u16(connect.keep_alive_secs);
        if is_v5 {
            sink.block(&ConnectProperties(connect));
        }
        sink.text(connect.client_id);
        if let Some(will) = &connect.will {
            if is_v5 {
                sink.block(&WillProperties(will));
            }
            sink.text(will.topic);
            sink.binary(will.payload);
        }
        if let Some(user_name) = connect.user_name {
            sink.text(user_name);
        }
        if let Some(password) = password {
            sink.binary(password);
        }
    }
}

/// The connect flags (§3.1.2.3): user name, password, will retain, will QoS (2 bits), will, clean start, reserved.
fn flags(connect: &Connect<'_>, has_password: bool) -> u8 {
    let will =
        connect.will.as_ref().map_or(0, |will| 1 << 2 | will.qos.bits() << 3 | u8::from(will.retain) << 5);
    u8::from(connect.clean_start) << 1
        | will
        | u8::from(has_password) << 6
        | u8::from(connect.user_name.is_some()) << 7
}

struct ConnectProperties<'a>(&'a Connect<'a>);

impl Block for ConnectProperties<'_> {
    fn write(&self, sink: &mut impl Sink) {
        let Self(connect) = self;
        let unless_default = |value: bool, default: bool| (value != default).then_some(value);
        let alias_maximum = Some(connect.topic_alias_maximum).filter(|maximum| *maximum > 0);
        let problem_information = unless_default(connect.request_problem_information, true);
        let response_information = unless_default(connect.request_response_information, false);
        sink.property_u32(PropertyId::SessionExpiry, connect.session_expiry_secs);
        sink.property_text(PropertyId::AuthenticationMethod, connect.authentication_method);
        sink.property_binary(PropertyId::AuthenticationData, connect.authentication_data);
        sink.property_flag(PropertyId::RequestProblemInformation, problem_information);
        sink.property_flag(PropertyId::RequestResponseInformation, response_information);
        sink.property_u16(PropertyId::ReceiveMaximum, connect.receive_maximum);
        sink.property_u16(PropertyId::TopicAliasMaximum, alias_maximum);
        sink.user_properties(connect.user_properties.iter().copied());
        sink.property_u32(PropertyId::PacketBytesMax, connect.packet_bytes_max);
    }
}

struct WillProperties<'a>(&'a Will<'a>);

impl Block for WillProperties<'_> {
    fn write(&self, sink: &mut impl Sink) {
        let Self(will) = self;
        let properties = will.properties.as_deref();
        write_kept_head(properties, will.expiry_secs, sink);
        sink.property_u32(PropertyId::WillDelay, Some(will.delay_secs).filter(|secs| *secs > 0));
        sink.user_properties(
            properties.iter().flat_map(|kept| &kept.user).map(|(name, value)| (&**name, &**value)),
        );
    }
}
