//! CONNACK (MQTT 5.0 §3.2).

use super::property::PropertyReader;
use super::reader::Reader;
use super::{DecodeError, Result};
use crate::packet::Connack;
use crate::properties::Property;
use crate::{ReasonCode, Version};

pub(super) fn connack<'a>(version: Version, reader: &mut Reader<'a>) -> Result<Connack<'a>> {
    let flags = reader.byte("acknowledge flags")?;
    if flags > 1 {
        return Err(DecodeError::malformed(format!(
            "reserved bits are set in the acknowledge flags {flags:#010b}"
        )));
    }
    let mut connack = Connack { session_present: flags == 1, ..Connack::default() };
    match (version, reader.rest()) {
        (Version::V311, _) => connack.reason = return_code(reader)?,
        (Version::V5, &[code @ 1..=5]) => return Err(answer_in_v311(code)),
        (Version::V5, _) => {
            connack.reason = reader.reason(ReasonCode::IN_CONNACK)?;
            read_properties(&mut connack, reader)?;
        }
    }
    if connack.session_present && connack.reason != ReasonCode::Success {
        return Err(DecodeError::protocol("session present is set in a refusal [MQTT-3.2.2-6]"));
    }
    if connack.authentication_data.is_some() && connack.authentication_method.is_none() {
        return Err(DecodeError::protocol("authentication data comes without a method"));
    }
    Ok(connack)
}

fn return_code(reader: &mut Reader<'_>) -> Result<ReasonCode> {
    let byte = reader.byte("return code")?;
    ReasonCode::from_return_code(byte)
        .ok_or_else(|| DecodeError::protocol(format!("return code {byte} is reserved")))
}

/// A server that speaks only 3.1.1 refuses a 5.0 CONNECT in its own words.
#[cold]
fn answer_in_v311(code: u8) -> Box<DecodeError> {
    DecodeError::new(
        ReasonCode::UnsupportedProtocolVersion,
        format!("the server does not speak MQTT 5.0: it answers in 3.1.1, return code {code}"),
    )
}

fn read_properties<'a>(connack: &mut Connack<'a>, reader: &mut Reader<'a>) -> Result<()> {
    let mut properties = PropertyReader::new(reader)?;
    while let Some(property) = properties.next()? {
        match property {
            Property::SessionExpiry(secs) => connack.session_expiry_secs = Some(secs),
            Property::AssignedClientId(text) => connack.assigned_client_id = Some(text),
            Property::ServerKeepAlive(secs) => connack.server_keep_alive_secs = Some(secs),
            Property::AuthenticationMethod(text) => connack.authentication_method = Some(text),
            Property::AuthenticationData(data) => connack.authentication_data = Some(data),
            Property::ResponseInformation(text) => connack.response_information = Some(text),
            Property::ServerReference(text) => connack.server_reference = Some(text),
            Property::ReasonString(text) => connack.reason_string = Some(text),
            Property::ReceiveMaximum(count) => connack.receive_maximum = Some(count),
            Property::TopicAliasMaximum(count) => connack.topic_alias_maximum = Some(count),
            Property::QosMaximum(qos) => connack.qos_maximum = Some(qos),
            Property::RetainAvailable(yes) => connack.retain_available = Some(yes),
            Property::User(name, value) => connack.user_properties.push((name, value)),
            Property::PacketBytesMax(bytes) => connack.packet_bytes_max = Some(bytes),
            Property::WildcardAvailable(yes) => connack.wildcard_available = Some(yes),
            Property::SubscriptionIdsAvailable(yes) => connack.subscription_ids_available = Some(yes),
            Property::SharedAvailable(yes) => connack.shared_available = Some(yes),
            other => return Err(PropertyReader::misplaced(other)),
        }
    }
    Ok(())
}
