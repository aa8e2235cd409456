//! What 3.1.1 says otherwise than 5.0. Test names of normative statements follow MQTT 3.1.1.

use crate::statements::refused_in;
use crate::{decoded, encoded, packet_bytes};
use meridian_mqtt::decode::decode;
use meridian_mqtt::packet::{
    Ack, Auth, Connack, Disconnect, FilterRequest, Publish, RetainHandling, Suback, Subscribe,
};
use meridian_mqtt::{Packet, ReasonCode, Version};
use meridian_types::{Properties, Qos};

const MALFORMED: ReasonCode = ReasonCode::MalformedPacket;
const PROTOCOL: ReasonCode = ReasonCode::ProtocolError;

#[track_caller]
fn refused(first_byte: u8, body: &[u8], reason: ReasonCode, text: &str) {
    refused_in(Version::V311, first_byte, body, reason, text);
}

fn connect_body(flags: u8, payload: &[u8]) -> Vec<u8> {
    [&[0, 4, b'M', b'Q', b'T', b'T', 4, flags, 0, 60][..], payload].concat()
}

#[test]
fn connect_has_no_properties() {
    let body = connect_body(0xC6, b"\0\x01c\0\x01w\0\x01p\0\x01u\0\x01s");
    let Ok(Packet::Connect(connect)) = decode(Version::V5, 0x10, &body) else { panic!("it is valid") };
    assert_eq!((connect.version, connect.client_id), (Version::V311, "c"));
    assert_eq!((connect.user_name, connect.password), (Some("u"), Some(&b"s"[..])));
    assert_eq!(connect.will.as_ref().map(|will| (will.topic, will.payload)), Some(("w", &b"p"[..])));
    assert_eq!(encoded(&Packet::Connect(connect), Version::V311), packet_bytes(0x10, &body));
}

#[test]
fn mqtt_3_1_2_22_a_password_needs_a_user_name() {
    refused(0x10, &connect_body(0x42, &[0, 0, 0, 1, b's']), MALFORMED, "[MQTT-3.1.2-22]");
    let v5 = [&[0, 4, b'M', b'Q', b'T', b'T', 5, 0x42, 0, 60, 0][..], &[0, 0, 0, 1, b's']].concat();
    let Ok(Packet::Connect(mut connect)) = decode(Version::V5, 0x10, &v5) else { panic!("5.0 allows it") };
    connect.version = Version::V311;
    assert_eq!(
        encoded(&Packet::Connect(connect), Version::V311),
        packet_bytes(0x10, &connect_body(2, &[0, 0]))
    );
}

#[test]
fn section_3_2_2_3_reasons_become_the_nearest_return_code() {
    let code = |reason| {
        encoded(&Packet::Connack(Box::new(Connack { reason, ..Connack::default() })), Version::V311)[3]
    };
    for (reason, expected) in [
        (ReasonCode::Success, 0),
        (ReasonCode::UnsupportedProtocolVersion, 1),
        (ReasonCode::ClientIdentifierNotValid, 2),
        (ReasonCode::ServerUnavailable, 3),
        (ReasonCode::ServerBusy, 3),
        (ReasonCode::QuotaExceeded, 3),
        (ReasonCode::BadUserNameOrPassword, 4),
        (ReasonCode::NotAuthorized, 5),
        (ReasonCode::Banned, 5),
    ] {
        assert_eq!(code(reason), expected, "{}", reason.name());
    }
    for byte in 0..=5 {
        let reason = ReasonCode::from_return_code(byte).expect("it is defined");
        assert_eq!(
            decode(Version::V311, 0x20, &[0, byte]),
            Ok(Packet::Connack(Box::new(Connack { reason, ..Connack::default() })))
        );
        assert_eq!(code(reason), byte);
    }
    for byte in 6..=255 {
        refused(0x20, &[0, byte], PROTOCOL, "is reserved");
    }
}

#[test]
fn mqtt_3_2_2_4_a_refusal_has_no_session_present() {
    refused(0x20, &[1, 5], PROTOCOL, "session present is set in a refusal");
    let packet = Connack { session_present: true, reason: ReasonCode::NotAuthorized, ..Connack::default() };
    assert_eq!(encoded(&Packet::Connack(Box::new(packet)), Version::V311), [0x20, 2, 0, 5]);
}

#[test]
fn publish_has_no_properties() {
    let properties = Properties { content_type: Some("text".into()), ..Properties::default() };
    let publish = Publish {
        topic: "t",
        qos: Qos::AtLeastOnce,
        packet_id: 0x0102,
        topic_alias: Some(1),
        expiry_secs: Some(1),
        subscription_ids: vec![1],
        properties: Some(Box::new(properties)),
        payload: b"p",
        ..Publish::default()
    };
    assert_eq!(encoded(&Packet::Publish(publish), Version::V311), [0x32, 6, 0, 1, b't', 1, 2, b'p']);
    refused(0x30, &[0, 0], PROTOCOL, "the topic name is empty");
}

#[test]
fn acknowledgements_are_a_packet_identifier() {
    for first_byte in [0x40, 0x50, 0x62, 0x70, 0xB0] {
        refused(first_byte, &[0], MALFORMED, "ends within the packet identifier");
        refused(first_byte, &[0, 0], PROTOCOL, "the packet identifier is 0");
        refused(first_byte, &[0, 1, 0], MALFORMED, "1 bytes follow after its end");
        assert!(decode(Version::V311, first_byte, &[0, 1]).is_ok());
    }
    let ack =
        Ack { packet_id: 1, reason: ReasonCode::NotAuthorized, reason_string: Some("no"), ..Ack::default() };
    assert_eq!(encoded(&Packet::Puback(ack), Version::V311), [0x40, 2, 0, 1]);
}

#[test]
fn mqtt_3_8_3_4_reserved_bits_and_qos_3_are_malformed() {
    for options in (3..=255).filter(|options| *options != 3) {
        refused(0x82, &[0, 1, 0, 1, b'f', options], MALFORMED, "SUBSCRIBE: filter 1: reserved bits are set");
    }
    refused(0x82, &[0, 1, 0, 1, b'f', 3], MALFORMED, "the maximum QoS is 3");
    refused(0x82, &[0, 1], PROTOCOL, "it holds no topic filter");
    refused(0xA2, &[0, 1], PROTOCOL, "it holds no topic filter");
}

#[test]
fn subscribe_leaves_out_what_only_v5_has() {
    let request = FilterRequest {
        filter: "f",
        qos: Qos::AtLeastOnce,
        no_local: true,
        retain_as_published: true,
        retain_handling: RetainHandling::Never,
    };
    let subscribe = Subscribe {
        packet_id: 1,
        subscription_id: Some(7),
        user_properties: vec![("n", "v")],
        filters: vec![request],
    };
    assert_eq!(encoded(&Packet::Subscribe(subscribe), Version::V311), [0x82, 6, 0, 1, 0, 1, b'f', 1]);
}

#[test]
fn mqtt_3_9_3_2_suback_carries_0_1_2_or_0x80() {
    let reasons = vec![ReasonCode::GrantedQos2, ReasonCode::TopicFilterInvalid, ReasonCode::Success];
    let suback = Suback { packet_id: 1, reason_string: Some("no"), reasons, ..Suback::default() };
    assert_eq!(encoded(&Packet::Suback(suback), Version::V311), [0x90, 5, 0, 1, 2, 0x80, 0]);
    for byte in (0..=255).filter(|byte| !matches!(byte, 0 | 1 | 2 | 0x80)) {
        refused(0x90, &[0, 1, byte], PROTOCOL, "SUBACK: filter 1: reason code");
    }
}

#[test]
fn unsuback_has_no_reasons() {
    let unsuback = Suback { packet_id: 1, reasons: vec![ReasonCode::NotAuthorized], ..Suback::default() };
    let bytes = encoded(&Packet::Unsuback(unsuback), Version::V311);
    assert_eq!(bytes, [0xB0, 2, 0, 1]);
    assert_eq!(
        decoded(Version::V311, &bytes),
        Ok(Packet::Unsuback(Suback { packet_id: 1, ..Suback::default() }))
    );
}

#[test]
fn disconnect_is_empty_and_auth_does_not_exist() {
    let disconnect =
        Disconnect { reason: ReasonCode::ServerBusy, reason_string: Some("no"), ..Disconnect::default() };
    assert_eq!(encoded(&Packet::Disconnect(disconnect), Version::V311), [0xE0, 0]);
    refused(0xE0, &[0], MALFORMED, "1 bytes follow after its end");
    refused(0xF0, &[], MALFORMED, "packet type 15 is reserved");
    assert_eq!(encoded(&Packet::Auth(Auth::default()), Version::V311), []);
}

#[test]
fn overlong_remaining_lengths_are_taken() {
    let bytes = [0x30, 0x84, 0x00, 0, 1, b't', b'p'];
    let Ok(Packet::Publish(publish)) = decoded(Version::V311, &bytes) else { panic!("it is valid") };
    assert_eq!((publish.topic, publish.payload), ("t", &b"p"[..]));
}
