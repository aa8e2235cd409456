//! SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK (MQTT 5.0 §3.8 to §3.11).

use super::property::{PropertyReader, repeated};
use super::reader::Reader;
use super::{DecodeError, Result};
use crate::packet::{FilterRequest, RetainHandling, Suback, Subscribe, Unsubscribe};
use crate::properties::{Property, PropertyId};
use crate::{ReasonCode, Version};
use meridian_types::Qos;

pub(super) fn subscribe<'a>(version: Version, reader: &mut Reader<'a>) -> Result<Subscribe<'a>> {
    let mut subscribe = Subscribe { packet_id: reader.packet_id()?, ..Subscribe::default() };
    if version == Version::V5 {
        let mut properties = PropertyReader::new(reader)?;
        while let Some(property) = properties.next()? {
            match property {
                Property::SubscriptionId(_) if subscribe.subscription_id.is_some() => {
                    return Err(repeated(PropertyId::SubscriptionId));
                }
                Property::SubscriptionId(id) => subscribe.subscription_id = Some(id),
                Property::User(name, value) => subscribe.user_properties.push((name, value)),
                other => return Err(PropertyReader::misplaced(other)),
            }
        }
    }
    while !reader.is_empty() {
        let request = filter_request(version, reader)
            .map_err(|error| error.within(format_args!("filter {}", subscribe.filters.len() + 1)))?;
        subscribe.filters.push(request);
    }
    if subscribe.filters.is_empty() {
        return Err(no_filters());
    }
    Ok(subscribe)
}

fn filter_request<'a>(version: Version, reader: &mut Reader<'a>) -> Result<FilterRequest<'a>> {
    let filter = reader.text("topic filter")?;
    let options = reader.byte("subscription options")?;
    let reserved = if version == Version::V5 { 0b1100_0000 } else { 0b1111_1100 };
    if options & reserved != 0 {
        return Err(DecodeError::malformed(format!("reserved bits are set in the options {options:#010b}")));
    }
    let Some(qos) = Qos::from_bits(options & 0b11) else {
        // 3.1.1 calls this malformed [MQTT-3-8.3-4], 5.0 a protocol error (§3.8.3.1).
        let error = if version == Version::V5 { DecodeError::protocol } else { DecodeError::malformed };
        return Err(error("the maximum QoS is 3"));
    };
    let retain_handling = match options >> 4 & 0b11 {
        0 => RetainHandling::Always,
        1 => RetainHandling::IfNew,
        2 => RetainHandling::Never,
        _ => return Err(DecodeError::protocol("the retain handling is 3")),
    };
    let no_local = options & 0b100 != 0;
    if no_local && filter.starts_with("$share/") {
        return Err(DecodeError::protocol("no local is set on a shared subscription [MQTT-3.8.3-4]"));
    }
    Ok(FilterRequest { filter, qos, no_local, retain_as_published: options & 0b1000 != 0, retain_handling })
}

pub(super) fn unsubscribe<'a>(version: Version, reader: &mut Reader<'a>) -> Result<Unsubscribe<'a>> {
    let mut unsubscribe = Unsubscribe { packet_id: reader.packet_id()?, ..Unsubscribe::default() };
    if version == Version::V5 {
        let mut properties = PropertyReader::new(reader)?;
        while let Some(property) = properties.next()? {
            match property {
                Property::User(name, value) => unsubscribe.user_properties.push((name, value)),
                other => return Err(PropertyReader::misplaced(other)),
            }
        }
    }
    while !reader.is_empty() {
        let filter = reader
            .text("topic filter")
            .map_err(|error| error.within(format_args!("filter {}", unsubscribe.filters.len() + 1)))?;
        unsubscribe.filters.push(filter);
    }
    if unsubscribe.filters.is_empty() {
        return Err(no_filters());
    }
    Ok(unsubscribe)
}

pub(super) fn suback<'a>(version: Version, reader: &mut Reader<'a>) -> Result<Suback<'a>> {
    match version {
        Version::V5 => {
            let mut suback = head(reader)?;
            read_reasons(&mut suback, ReasonCode::IN_SUBACK, reader)?;
            Ok(suback)
        }
        Version::V311 => {
            let mut suback = Suback { packet_id: reader.packet_id()?, ..Suback::default() };
            read_reasons(&mut suback, ReasonCode::IN_SUBACK_V311, reader)?;
            Ok(suback)
        }
    }
}

pub(super) fn unsuback<'a>(version: Version, reader: &mut Reader<'a>) -> Result<Suback<'a>> {
    match version {
        Version::V5 => {
            let mut unsuback = head(reader)?;
            read_reasons(&mut unsuback, ReasonCode::IN_UNSUBACK, reader)?;
            Ok(unsuback)
        }
        Version::V311 => Ok(Suback { packet_id: reader.packet_id()?, ..Suback::default() }),
    }
}

/// The variable header of a 5.0 SUBACK or UNSUBACK.
fn head<'a>(reader: &mut Reader<'a>) -> Result<Suback<'a>> {
    let mut suback = Suback { packet_id: reader.packet_id()?, ..Suback::default() };
    let mut properties = PropertyReader::new(reader)?;
    while let Some(property) = properties.next()? {
        match property {
            Property::ReasonString(text) => suback.reason_string = Some(text),
            Property::User(name, value) => suback.user_properties.push((name, value)),
            other => return Err(PropertyReader::misplaced(other)),
        }
    }
    Ok(suback)
}

fn read_reasons(suback: &mut Suback<'_>, allowed: &[ReasonCode], reader: &mut Reader<'_>) -> Result<()> {
    while !reader.is_empty() {
        let reason = reader
            .reason(allowed)
            .map_err(|error| error.within(format_args!("filter {}", suback.reasons.len() + 1)))?;
        suback.reasons.push(reason);
    }
    if suback.reasons.is_empty() {
        return Err(DecodeError::protocol("it holds no reason code"));
    }
    Ok(())
}

#[cold]
fn no_filters() -> Box<DecodeError> {
    DecodeError::protocol("it holds no topic filter")
}
