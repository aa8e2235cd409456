//! CONNACK: what a client is told about its connection, within the packet size it takes [MQTT-3.1.2-24].

use crate::settings::Settings;
use meridian_mqtt::packet::{Connack, Connect};
use meridian_mqtt::{Packet, ReasonCode, Version, encode};

/// What the server grants: the answer to what CONNECT asks for.
pub(super) struct Granted {
    pub(super) keep_alive_secs: u16,
    pub(super) expiry_secs: u32,
    pub(super) window: u16,
    pub(super) packet_bytes_max: usize,
    pub(super) aliases_out: u16,
    pub(super) assigned_client_id: Option<String>,
}

/// What may be left out of a CONNACK: the client then takes the default of the specification, which is less than it
/// could have had, or has not been told why.
type Omission = fn(&mut Connack<'_>);

/// The CONNACK that accepts `connect`. `None` if what it must say takes more bytes than the client does; that does not
/// depend on `is_resumed`.
pub(super) fn accepting(
    settings: &Settings,
    connect: &Connect<'_>,
    granted: &Granted,
    is_resumed: bool,
) -> Option<Vec<u8>> {
    let mqtt = &settings.config.mqtt;
    let mut connack = Connack { session_present: is_resumed, ..Connack::default() };
    if connect.version == Version::V5 {
        let asked_expiry = connect.session_expiry_secs.unwrap_or(0);
        connack.session_expiry_secs = (granted.expiry_secs != asked_expiry).then_some(granted.expiry_secs);
        connack.receive_maximum = Some(mqtt.receive_maximum);
        connack.packet_bytes_max = u32::try_from(mqtt.packet_bytes_max.0).ok();
        connack.assigned_client_id = granted.assigned_client_id.as_deref();
        connack.topic_alias_maximum = Some(mqtt.topic_alias_maximum);
        connack.server_keep_alive_secs =
            (granted.keep_alive_secs != connect.keep_alive_secs).then_some(granted.keep_alive_secs);
    }
    let response_information = connect.request_response_information.then(|| {
        let client_id = granted.assigned_client_id.as_deref().unwrap_or(connect.client_id);
        format!("$reply/{}/", client_id.replace(['+', '#'], "_"))
    });
    if connect.version == Version::V5 {
        connack.response_information = response_information.as_deref();
    }
    let omissions: [Omission; 2] =
        [|connack| connack.response_information = None, |connack| connack.topic_alias_maximum = None];
    encode_within(granted.packet_bytes_max, connack, connect.version, &omissions)
}

/// The CONNACK that refuses a connection. `None` if the client takes not even that.
pub(super) fn refusing(
    reason: ReasonCode,
    what: Option<&str>,
    version: Version,
    packet_bytes_max: usize,
) -> Option<Vec<u8>> {
    let connack = Connack { reason, reason_string: what, ..Connack::default() };
    encode_within(packet_bytes_max, connack, version, &[|connack| connack.reason_string = None])
}

/// Encodes in at most `bytes_max`, with as few of the omissions, in their order, as that takes.
fn encode_within(
    bytes_max: usize,
    mut connack: Connack<'_>,
    version: Version,
    omissions: &[Omission],
) -> Option<Vec<u8>> {
    let encoded = |connack: &Connack<'_>| {
        let mut packet = Vec::new();
        encode::encode(&Packet::Connack(Box::new(connack.clone())), version, &mut packet);
        (packet.len() <= bytes_max).then_some(packet)
    };
    let mut packet = encoded(&connack);
    for omit in omissions {
        if packet.is_some() {
            break;
        }
        omit(&mut connack);
        packet = encoded(&connack);
    }
    packet
}
