//! CONNECT (MQTT 5.0 §3.1).

use super::property::PropertyReader;
use super::publish::keep;
use super::reader::Reader;
use super::{DecodeError, Result};
use crate::packet::{Connect, Will};
use crate::properties::Property;
use crate::{ReasonCode, Version};
use meridian_types::Qos;

pub(super) fn connect<'a>(reader: &mut Reader<'a>) -> Result<Connect<'a>> {
    let version = protocol(reader)?;
    let flags = Flags::read(version, reader)?;
    let mut connect = Connect {
        version,
        clean_start: flags.clean_start,
        keep_alive_secs: reader.u16("keep alive")?,
        client_id: "",
        will: None,
        user_name: None,
        password: None,
        session_expiry_secs: None,
        receive_maximum: None,
        packet_bytes_max: None,
        topic_alias_maximum: 0,
        request_response_information: false,
        request_problem_information: true,
        user_properties: Vec::new(),
        authentication_method: None,
        authentication_data: None,
    };
    if version == Version::V5 {
        read_properties(&mut connect, reader)?;
    }
    connect.client_id = reader.text("client identifier")?;
    if let Some((qos, retain)) = flags.will {
        connect.will = Some(will(version, qos, retain, reader)?);
    }
    if flags.user_name {
        connect.user_name = Some(reader.text("user name")?);
    }
    if flags.password {
        connect.password = Some(reader.binary("password")?);
    }
    Ok(connect)
}

/// Protocol name and level. Another protocol and another level are refused with the same code [MQTT-3.1.2-1],
/// [MQTT-3.1.2-2].
fn protocol(reader: &mut Reader<'_>) -> Result<Version> {
    let unsupported = |what: String| DecodeError::new(ReasonCode::UnsupportedProtocolVersion, what);
    let name = reader.binary("protocol name")?;
    match name {
        b"MQTT" => {}
        b"MQIsdp" => return Err(unsupported("MQTT 3.1 is not supported, only 3.1.1 and 5.0".to_owned())),
        other => {
            let name = String::from_utf8_lossy(&other[..other.len().min(32)]);
            return Err(unsupported(format!("the protocol name is {name:?}, must be \"MQTT\"")));
        }
    }
    match reader.byte("protocol level")? {
        4 => Ok(Version::V311),
        5 => Ok(Version::V5),
        level => {
            Err(unsupported(format!("protocol level {level} is not supported, only 4 (3.1.1) and 5 (5.0)")))
        }
    }
}

/// What the connect flags announce.
struct Flags {
    clean_start: bool,
    /// QoS and retain of the will, if there is one.
    will: Option<(Qos, bool)>,
    user_name: bool,
    password: bool,
}

impl Flags {
    fn read(version: Version, reader: &mut Reader<'_>) -> Result<Self> {
        let byte = reader.byte("connect flags")?;
        let is_set = |bit: u8| byte >> bit & 1 != 0;
        let malformed =
            |what: &str| Err(DecodeError::malformed(format!("{what} (connect flags {byte:#010b})")));
        if is_set(0) {
            return malformed("the reserved connect flag is set [MQTT-3.1.2-3]");
        }
        let will = match (is_set(2), Qos::from_bits(byte >> 3 & 3)) {
            (_, None) => return malformed("the will QoS is 3 [MQTT-3.1.2-12]"),
            (true, Some(qos)) => Some((qos, is_set(5))),
            (false, Some(Qos::AtMostOnce)) if is_set(5) => {
                return malformed("will retain is set without a will [MQTT-3.1.2-13]");
            }
            (false, Some(Qos::AtMostOnce)) => None,
            (false, Some(_)) => return malformed("a will QoS is set without a will [MQTT-3.1.2-11]"),
        };
        let flags = Self { clean_start: is_set(1), will, user_name: is_set(7), password: is_set(6) };
        if version == Version::V311 && flags.password && !flags.user_name {
            return malformed("a password without a user name is not allowed in 3.1.1 [MQTT-3.1.2-22]");
        }
        Ok(flags)
    }
}

fn read_properties<'a>(connect: &mut Connect<'a>, reader: &mut Reader<'a>) -> Result<()> {
    let mut properties = PropertyReader::new(reader)?;
    while let Some(property) = properties.next()? {
        match property {
            Property::SessionExpiry(secs) => connect.session_expiry_secs = Some(secs),
            Property::AuthenticationMethod(text) => connect.authentication_method = Some(text),
            Property::AuthenticationData(data) => connect.authentication_data = Some(data),
            Property::RequestProblemInformation(yes) => connect.request_problem_information = yes,
            Property::RequestResponseInformation(yes) => connect.request_response_information = yes,
            Property::ReceiveMaximum(count) => connect.receive_maximum = Some(count),
            Property::TopicAliasMaximum(count) => connect.topic_alias_maximum = count,
            Property::User(name, value) => connect.user_properties.push((name, value)),
            Property::PacketBytesMax(bytes) => connect.packet_bytes_max = Some(bytes),
            other => return Err(PropertyReader::misplaced(other)),
        }
    }
    if connect.authentication_data.is_some() && connect.authentication_method.is_none() {
        return Err(DecodeError::protocol("authentication data comes without a method"));
    }
    Ok(())
}

fn will<'a>(version: Version, qos: Qos, retain: bool, reader: &mut Reader<'a>) -> Result<Will<'a>> {
    let mut will =
        Will { topic: "", payload: &[], qos, retain, delay_secs: 0, expiry_secs: None, properties: None };
    if version == Version::V5 {
        read_will_properties(&mut will, reader).map_err(|error| error.within("will"))?;
    }
    will.topic = reader.topic_name("will topic")?;
    will.payload = reader.binary("will payload")?;
    Ok(will)
}

fn read_will_properties<'a>(will: &mut Will<'a>, reader: &mut Reader<'a>) -> Result<()> {
    let mut properties = PropertyReader::new(reader)?;
    while let Some(property) = properties.next()? {
        match property {
            Property::WillDelay(secs) => will.delay_secs = secs,
            Property::MessageExpiry(secs) => will.expiry_secs = Some(secs),
            other => keep(&mut will.properties, other)?,
        }
    }
    Ok(())
}
