//! Reading the properties of a packet one by one (MQTT 5.0 §2.2.2).

use super::reader::Reader;
use super::{DecodeError, Result};
use crate::ReasonCode;
use crate::properties::{Property, PropertyId};
use meridian_types::{PayloadFormat, Qos};

/// The properties of one packet. It checks what holds for a property wherever it is: that its identifier exists, that
/// its value is in range, that it does not repeat. Which ones a packet may have, its decoder knows.
pub(super) struct PropertyReader<'a> {
    reader: Reader<'a>,
    /// Bit n is set once identifier n was seen.
    seen: u64,
}

/// What may repeat: user properties everywhere, subscription identifiers in PUBLISH, whose decoder allows it and
/// SUBSCRIBE's does not.
const REPEATABLE: u64 = 1 << PropertyId::User as u8 | 1 << PropertyId::SubscriptionId as u8;

impl<'a> PropertyReader<'a> {
    /// Takes the property length and the properties off `reader`.
    pub(super) fn new(reader: &mut Reader<'a>) -> Result<Self> {
        let len = reader.varint("property length")?;
        let bytes = reader.take(len as usize, "properties")?;
        Ok(Self { reader: Reader::new(bytes), seen: 0 })
    }

    /// The next property; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<Property<'a>>> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let byte = self.reader.byte("property identifier")?;
        let Some(id) = PropertyId::from_byte(byte) else {
            return Err(DecodeError::malformed(format!("property 0x{byte:02X} is not defined")));
        };
        let bit = 1_u64 << byte;
        if self.seen & bit & !REPEATABLE != 0 {
            return Err(repeated(id));
        }
        self.seen |= bit;
        self.value(id).map(Some)
    }

    fn value(&mut self, id: PropertyId) -> Result<Property<'a>> {
        let (reader, name) = (&mut self.reader, id.name());
        Ok(match id {
            PropertyId::PayloadFormat => Property::PayloadFormat(match reader.byte(name)? {
                0 => PayloadFormat::Bytes,
                1 => PayloadFormat::Utf8,
                other => return Err(out_of_range(id, other.into(), "0 or 1")),
            }),
            PropertyId::MessageExpiry => Property::MessageExpiry(reader.u32(name)?),
            PropertyId::ContentType => Property::ContentType(reader.text(name)?),
            PropertyId::ResponseTopic => Property::ResponseTopic(reader.topic_name(name)?),
            PropertyId::CorrelationData => Property::CorrelationData(reader.binary(name)?),
            PropertyId::SubscriptionId => Property::SubscriptionId(match reader.varint(name)? {
                0 => return Err(out_of_range(id, 0, "1 to 268,435,455")),
                number => number,
            }),
            PropertyId::SessionExpiry => Property::SessionExpiry(reader.u32(name)?),
            PropertyId::AssignedClientId => Property::AssignedClientId(reader.text(name)?),
            PropertyId::ServerKeepAlive => Property::ServerKeepAlive(reader.u16(name)?),
            PropertyId::AuthenticationMethod => Property::AuthenticationMethod(reader.text(name)?),
            PropertyId::AuthenticationData => Property::AuthenticationData(reader.binary(name)?),
            PropertyId::RequestProblemInformation => Property::RequestProblemInformation(self.flag(id)?),
            PropertyId::WillDelay => Property::WillDelay(reader.u32(name)?),
            PropertyId::RequestResponseInformation => Property::RequestResponseInformation(self.flag(id)?),
            PropertyId::ResponseInformation => Property::ResponseInformation(reader.text(name)?),
            PropertyId::ServerReference => Property::ServerReference(reader.text(name)?),
            PropertyId::ReasonString => Property::ReasonString(reader.text(name)?),
            PropertyId::ReceiveMaximum => Property::ReceiveMaximum(match reader.u16(name)? {
                0 => return Err(out_of_range(id, 0, "1 to 65,535")),
                number => number,
            }),
            PropertyId::TopicAliasMaximum => Property::TopicAliasMaximum(reader.u16(name)?),
            PropertyId::TopicAlias => Property::TopicAlias(match reader.u16(name)? {
                0 => return Err(alias_zero()),
                number => number,
            }),
            PropertyId::QosMaximum => Property::QosMaximum(match reader.byte(name)? {
                0 => Qos::AtMostOnce,
                1 => Qos::AtLeastOnce,
                other => return Err(out_of_range(id, other.into(), "0 or 1")),
            }),
            PropertyId::RetainAvailable => Property::RetainAvailable(self.flag(id)?),
            PropertyId::User => {
                Property::User(reader.text("user property's name")?, reader.text("user property's value")?)
            }
            PropertyId::PacketBytesMax => Property::PacketBytesMax(match reader.u32(name)? {
                0 => return Err(out_of_range(id, 0, "at least 1")),
                number => number,
            }),
            PropertyId::WildcardAvailable => Property::WildcardAvailable(self.flag(id)?),
            PropertyId::SubscriptionIdsAvailable => Property::SubscriptionIdsAvailable(self.flag(id)?),
            PropertyId::SharedAvailable => Property::SharedAvailable(self.flag(id)?),
        })
    }

    fn flag(&mut self, id: PropertyId) -> Result<bool> {
        match self.reader.byte(id.name())? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(out_of_range(id, other.into(), "0 or 1")),
        }
    }

    /// The error for a property whose identifier its packet does not have (§2.2.2.2): the one read last.
    #[cold]
    pub(super) fn misplaced(property: Property<'_>) -> Box<DecodeError> {
        DecodeError::malformed(format!("it may not have the property {}", property.id().name()))
    }
}

#[cold]
pub(super) fn repeated(id: PropertyId) -> Box<DecodeError> {
    DecodeError::protocol(format!("the {} is there twice", id.name()))
}

#[cold]
fn out_of_range(id: PropertyId, value: u32, allowed: &str) -> Box<DecodeError> {
    DecodeError::protocol(format!("the {} is {value}, allowed is {allowed}", id.name()))
}

#[cold]
fn alias_zero() -> Box<DecodeError> {
    DecodeError::new(ReasonCode::TopicAliasInvalid, "the topic alias is 0")
}
