//! PUBACK, PUBREC, PUBREL, PUBCOMP (MQTT 5.0 §3.4 to §3.7), DISCONNECT (§3.14) and AUTH (§3.15).

use super::property::PropertyReader;
use super::reader::Reader;
use super::{DecodeError, Result};
use crate::packet::{Ack, Auth, Disconnect};
use crate::properties::Property;
use crate::{ReasonCode, Version};
use bytes::Bytes;

/// An acknowledgement. In 5.0 the reason code may be left out, and so may the property length after it.
#[inline]
pub(super) fn ack<'a>(version: Version, allowed: &[ReasonCode], reader: &mut Reader<'a>) -> Result<Ack<'a>> {
    let mut ack = Ack { packet_id: reader.packet_id()?, ..Ack::default() };
    if version == Version::V311 || reader.is_empty() {
        return Ok(ack);
    }
    ack.reason = reader.reason(allowed)?;
    if reader.is_empty() {
        return Ok(ack);
    }
    let mut properties = PropertyReader::new(reader)?;
    while let Some(property) = properties.next()? {
        match property {
            Property::ReasonString(text) => ack.reason_string = Some(text),
            Property::User(name, value) => ack.user_properties.push((name, value)),
            other => return Err(PropertyReader::misplaced(other)),
        }
    }
    Ok(ack)
}

/// DISCONNECT: empty in 3.1.1; in 5.0 both the reason code and the property length may be left out.
pub(super) fn disconnect<'a>(version: Version, reader: &mut Reader<'a>) -> Result<Disconnect<'a>> {
    let mut disconnect = Disconnect::default();
    if version == Version::V311 || reader.is_empty() {
        return Ok(disconnect);
    }
    disconnect.reason = reader.reason(ReasonCode::IN_DISCONNECT)?;
    if reader.is_empty() {
        return Ok(disconnect);
    }
    let mut properties = PropertyReader::new(reader)?;
    while let Some(property) = properties.next()? {
        match property {
            Property::SessionExpiry(secs) => disconnect.session_expiry_secs = Some(secs),
            Property::ServerReference(text) => disconnect.server_reference = Some(text),
            Property::ReasonString(text) => disconnect.reason_string = Some(text),
            Property::User(name, value) => disconnect.user_properties.push((name, value)),
            other => return Err(PropertyReader::misplaced(other)),
        }
    }
    Ok(disconnect)
}

/// AUTH: without any body it means success; else the authentication method must be there (§3.15.2.2.2).
pub(super) fn auth<'a>(reader: &mut Reader<'a>) -> Result<Auth<'a>> {
    let mut auth = Auth::default();
    if reader.is_empty() {
        return Ok(auth);
    }
    auth.reason = reader.reason(ReasonCode::IN_AUTH)?;
    let mut properties = PropertyReader::new(reader)?;
    while let Some(property) = properties.next()? {
        match property {
            Property::AuthenticationMethod(text) => auth.authentication_method = Some(text),
            Property::AuthenticationData(data) => {
                auth.authentication_data = Some(Bytes::copy_from_slice(data))
            }
            Property::ReasonString(text) => auth.reason_string = Some(text),
            Property::User(name, value) => auth.user_properties.push((name, value)),
            other => return Err(PropertyReader::misplaced(other)),
        }
    }
    if auth.authentication_method.is_none() {
        return Err(DecodeError::protocol("the authentication method is missing"));
    }
    Ok(auth)
}
