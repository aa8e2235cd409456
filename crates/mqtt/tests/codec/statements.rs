//! The normative statements of MQTT 5.0 §1 to §3.2 that the bytes of one packet can keep or break, each by its name.
//! Those of the other packets are in `statements_messages`, those about reason codes in `reasons`, those of 3.1.1 in
//! `version_311`.

use crate::{decoded, encoded, packet_bytes};
use meridian_mqtt::decode::{answer_version, decode};
use meridian_mqtt::frame::{Frame, FrameError, Peek};
use meridian_mqtt::packet::{Connack, Connect, Publish, Will};
use meridian_mqtt::{Packet, ReasonCode, Version};
use meridian_types::Qos;

/// Checks that a 5.0 packet is refused with `reason`, in words that contain `text`.
#[track_caller]
pub(crate) fn refused(first_byte: u8, body: &[u8], reason: ReasonCode, text: &str) {
    refused_in(Version::V5, first_byte, body, reason, text);
}

#[track_caller]
pub(crate) fn refused_in(version: Version, first_byte: u8, body: &[u8], reason: ReasonCode, text: &str) {
    let error = decode(version, first_byte, body).expect_err("it must be refused");
    assert_eq!(error.reason, reason, "{error}");
    assert!(error.what.contains(text), "{error}");
}

/// A CONNECT of 5.0 with these flags and what follows the (empty) properties.
pub(crate) fn connect_body(flags: u8, payload: &[u8]) -> Vec<u8> {
    [&[0, 4, b'M', b'Q', b'T', b'T', 5, flags, 0, 60, 0][..], payload].concat()
}

const MALFORMED: ReasonCode = ReasonCode::MalformedPacket;
const PROTOCOL: ReasonCode = ReasonCode::ProtocolError;

#[test]
fn mqtt_1_5_4_1_ill_formed_utf8_is_malformed() {
    for bad in
        [&[0xC0, 0x80][..], &[0xED, 0xA0, 0x80], &[0xED, 0xBF, 0xBF], &[0xF4, 0x90, 0x80, 0x80], &[0xFF]]
    {
        let topic = [&[0, bad.len() as u8 + 1, b'a'][..], bad, &[0]].concat();
        refused(0x30, &topic, MALFORMED, "PUBLISH: the topic name is not valid UTF-8 from its byte 1 on");
        let client_id = [&[0, bad.len() as u8][..], bad].concat();
        refused(
            0x10,
            &connect_body(2, &client_id),
            MALFORMED,
            "CONNECT: the client identifier is not valid UTF-8",
        );
    }
}

#[test]
fn mqtt_1_5_4_2_a_null_character_is_malformed() {
    refused(
        0x30,
        &[0, 3, b'a', 0, b'b', 0],
        MALFORMED,
        "the topic name holds a null character at its byte 1",
    );
    refused(0x10, &connect_body(2, &[0, 1, 0]), MALFORMED, "the client identifier holds a null character");
    refused(
        0x82,
        &[0, 1, 0, 0, 1, 0, 0],
        MALFORMED,
        "SUBSCRIBE: filter 1: the topic filter holds a null character",
    );
    refused(0x30, &[0, 1, b't', 4, 0x03, 0, 1, 0], MALFORMED, "the content type holds a null character");
}

#[test]
fn mqtt_1_5_4_3_a_byte_order_mark_is_kept() {
    let packet = Packet::Publish(Publish { topic: "\u{feff}a/\u{feff}", ..Publish::default() });
    assert_eq!(decoded(Version::V5, &encoded(&packet, Version::V5)), Ok(packet));
}

#[test]
fn mqtt_1_5_5_1_a_variable_byte_integer_is_no_longer_than_it_needs_to_be() {
    refused(
        0x30,
        &[0, 1, b't', 0x80, 0x00],
        MALFORMED,
        "property length uses more bytes than it needs: 0 in 2 bytes",
    );
    refused(
        0x82,
        &[0, 1, 3, 0x0B, 0x81, 0x00, 0, 1, b'f', 0],
        MALFORMED,
        "subscription identifier uses more bytes",
    );
    refused(
        0x30,
        &[0, 1, b't', 0x80, 0x80, 0x80, 0x80, 0x01],
        MALFORMED,
        "property length takes more than 4 bytes",
    );
    assert_eq!(Frame::peek(&[0xC0, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], 100), Err(FrameError::BadLength));
    for (bytes, is_minimal) in [
        (&[0xC0, 0x00][..], true),
        (&[0xC0, 0x80, 0x00], false),
        (&[0xC0, 0x80, 0x01], true),
        (&[0xC0, 0xFF, 0x7F], true),
        (&[0xC0, 0xFF, 0x80, 0x00], false),
        (&[0xC0, 0x80, 0x80, 0x01], true),
        (&[0xC0, 0xFF, 0xFF, 0x80, 0x00], false),
        (&[0xC0, 0x80, 0x80, 0x80, 0x01], true),
    ] {
        let whole = [bytes, &vec![0; 1 << 22]].concat();
        let Ok(Peek::Whole(frame)) = Frame::peek(&whole, usize::MAX) else { panic!("it is whole") };
        assert_eq!(frame.is_length_minimal(), is_minimal, "{bytes:X?}");
    }
}

#[test]
fn mqtt_1_5_5_1_lengths_are_encoded_at_the_limits_of_each_size() {
    for (payload_len, header) in [
        (127 - 4, &[0x30, 0x7F][..]),
        (128 - 4, &[0x30, 0x80, 0x01]),
        (16_383 - 4, &[0x30, 0xFF, 0x7F]),
        (16_384 - 4, &[0x30, 0x80, 0x80, 0x01]),
        (2_097_151 - 4, &[0x30, 0xFF, 0xFF, 0x7F]),
        (2_097_152 - 4, &[0x30, 0x80, 0x80, 0x80, 0x01]),
    ] {
        let payload = vec![7; payload_len];
        let packet = Packet::Publish(Publish { topic: "t", payload: &payload, ..Publish::default() });
        let bytes = encoded(&packet, Version::V5);
        assert!(bytes.starts_with(header), "{:X?}", &bytes[..5]);
        assert_eq!(decoded(Version::V5, &bytes), Ok(packet));
    }
}

#[test]
fn mqtt_1_5_7_1_both_strings_of_a_pair_are_checked() {
    refused(
        0x40,
        &[0, 1, 0, 7, 0x26, 0, 1, 0xFF, 0, 1, b'v'],
        MALFORMED,
        "the user property's name is not valid UTF-8",
    );
    refused(
        0x40,
        &[0, 1, 0, 7, 0x26, 0, 1, b'n', 0, 1, 0xFF],
        MALFORMED,
        "the user property's value is not valid",
    );
    refused(
        0x40,
        &[0, 1, 0, 7, 0x26, 0, 1, b'n', 0, 1, 0],
        MALFORMED,
        "the user property's value holds a null",
    );
}

#[test]
fn mqtt_2_1_3_1_reserved_flags_have_their_value() {
    let fixed = [
        (1, 0),
        (2, 0),
        (4, 0),
        (5, 0),
        (6, 2),
        (7, 0),
        (8, 2),
        (9, 0),
        (10, 2),
        (11, 0),
        (12, 0),
        (13, 0),
        (14, 0),
        (15, 0),
    ];
    for (kind, expected) in fixed {
        for flags in (0..16).filter(|flags| *flags != expected) {
            refused(kind << 4 | flags, &[0, 1, 0], MALFORMED, "the flags are 0b");
        }
    }
}

#[test]
fn table_2_1_packet_type_0_is_reserved() {
    refused(0x00, &[], MALFORMED, "packet type 0 is reserved");
}

#[test]
fn mqtt_2_2_1_2_a_publish_at_qos_0_has_no_packet_identifier() {
    let packet = Packet::Publish(Publish { topic: "t", packet_id: 7, payload: b"x", ..Publish::default() });
    assert_eq!(encoded(&packet, Version::V5), packet_bytes(0x30, &[0, 1, b't', 0, b'x']));
}

#[test]
fn mqtt_2_2_1_3_and_mqtt_2_2_1_4_a_packet_identifier_is_not_zero() {
    for (first_byte, rest) in [
        (0x40, &[][..]),
        (0x50, &[]),
        (0x62, &[]),
        (0x70, &[]),
        (0x82, &[0, 0, 1, b'f', 0]),
        (0x90, &[0, 0]),
        (0xA2, &[0, 0, 1, b'f']),
        (0xB0, &[0, 0]),
    ] {
        refused(first_byte, &[&[0, 0], rest].concat(), PROTOCOL, "the packet identifier is 0");
    }
    refused(0x32, &[0, 1, b't', 0, 0, 0], PROTOCOL, "PUBLISH: the packet identifier is 0");
    refused(0x34, &[0, 1, b't', 0, 0, 0], PROTOCOL, "PUBLISH: the packet identifier is 0");
}

#[test]
fn mqtt_2_2_2_1_no_properties_are_a_property_length_of_zero() {
    let publish = Packet::Publish(Publish { topic: "t", ..Publish::default() });
    assert_eq!(encoded(&publish, Version::V5), [0x30, 4, 0, 1, b't', 0]);
    refused(0x30, &[0, 1, b't'], MALFORMED, "ends within the property length");
    refused(0x20, &[0, 0], MALFORMED, "ends within the property length");
    let connack = Packet::Connack(Box::default());
    assert_eq!(encoded(&connack, Version::V5), [0x20, 3, 0, 0, 0]);
}

#[test]
fn mqtt_3_1_2_1_another_protocol_name_is_an_unsupported_protocol() {
    let code = ReasonCode::UnsupportedProtocolVersion;
    let body = |name: &[u8], level| [&[0, name.len() as u8], name, &[level, 2, 0, 60, 0, 0, 0]].concat();
    refused(0x10, &body(b"mqtt", 5), code, "the protocol name is \"mqtt\", must be \"MQTT\"");
    refused(0x10, &body(b"AMQP", 5), code, "\"AMQP\"");
    refused(0x10, &body(b"", 5), code, "\"\"");
    refused(0x10, &body(b"MQIsdp", 3), code, "MQTT 3.1 is not supported");
    assert_eq!(answer_version(&body(b"MQIsdp", 3)), Version::V311);
}

#[test]
fn mqtt_3_1_2_2_another_protocol_level_is_an_unsupported_version() {
    let body = |level| [0, 4, b'M', b'Q', b'T', b'T', level, 2, 0, 60, 0, 0, 0];
    for level in (0..=255).filter(|level| !matches!(level, 4 | 5)) {
        refused(
            0x10,
            &body(level),
            ReasonCode::UnsupportedProtocolVersion,
            &format!("protocol level {level} "),
        );
    }
    // A refusal is written as the client reads it; 0x80 marks a bridge.
    for (level, answer) in [
        (3, Version::V311),
        (4, Version::V311),
        (5, Version::V5),
        (6, Version::V5),
        (0x84, Version::V311),
        (0x85, Version::V5),
    ] {
        assert_eq!(answer_version(&body(level)), answer, "level {level}");
    }
}

#[test]
fn mqtt_3_1_2_3_the_reserved_connect_flag_is_zero() {
    refused(0x10, &connect_body(3, &[0, 0]), MALFORMED, "[MQTT-3.1.2-3]");
}

#[test]
fn mqtt_3_1_2_9_a_will_has_topic_and_payload() {
    refused(0x10, &connect_body(6, &[0, 0, 0]), MALFORMED, "ends within the will topic");
    refused(0x10, &connect_body(6, &[0, 0, 0, 0, 1, b't']), MALFORMED, "ends within the will payload");
}

#[test]
fn mqtt_3_1_2_11_and_mqtt_3_1_2_13_no_will_has_no_will_qos_and_no_will_retain() {
    refused(0x10, &connect_body(0b0000_1000, &[0, 0]), MALFORMED, "[MQTT-3.1.2-11]");
    refused(0x10, &connect_body(0b0001_0000, &[0, 0]), MALFORMED, "[MQTT-3.1.2-11]");
    refused(0x10, &connect_body(0b0010_0000, &[0, 0]), MALFORMED, "[MQTT-3.1.2-13]");
}

#[test]
fn mqtt_3_1_2_12_the_will_qos_is_0_to_2() {
    for (bits, qos) in [(0, Qos::AtMostOnce), (1, Qos::AtLeastOnce), (2, Qos::ExactlyOnce)] {
        let body = connect_body(0b100 | bits << 3, &[0, 0, 0, 0, 1, b't', 0, 0]);
        let Ok(Packet::Connect(connect)) = decode(Version::V5, 0x10, &body) else { panic!("it is valid") };
        assert_eq!(connect.will.expect("it has a will").qos, qos);
    }
    refused(0x10, &connect_body(0b0001_1100, &[0, 0, 0, 0, 1, b't', 0, 0]), MALFORMED, "[MQTT-3.1.2-12]");
    refused(0x10, &connect_body(0b0001_1000, &[0, 0]), MALFORMED, "[MQTT-3.1.2-12]");
}

#[test]
fn mqtt_3_1_2_16_to_19_flags_say_whether_user_name_and_password_are_there() {
    let read = |flags, payload: &'static [u8]| {
        let body = connect_body(flags, payload).leak();
        let Ok(Packet::Connect(connect)) = decode(Version::V5, 0x10, body) else { panic!("it is valid") };
        (connect.user_name, connect.password)
    };
    assert_eq!(read(0x00, &[0, 0]), (None, None));
    assert_eq!(read(0x80, &[0, 0, 0, 1, b'u']), (Some("u"), None));
    assert_eq!(read(0x40, &[0, 0, 0, 1, 0xFF]), (None, Some(&[0xFF][..])));
    assert_eq!(read(0xC0, &[0, 0, 0, 1, b'u', 0, 0]), (Some("u"), Some(&[][..])));
    refused(0x10, &connect_body(0x80, &[0, 0]), MALFORMED, "ends within the user name");
    refused(0x10, &connect_body(0x40, &[0, 0]), MALFORMED, "ends within the password");
    refused(0x10, &connect_body(0x00, &[0, 0, 0, 1, b'u']), MALFORMED, "3 bytes follow after its end");
}

#[test]
fn mqtt_3_1_3_1_the_payload_is_client_id_will_user_name_password() {
    let connect = Connect {
        version: Version::V5,
        clean_start: true,
        keep_alive_secs: 0x1234,
        client_id: "c",
        will: Some(Will {
            topic: "w",
            payload: b"p",
            qos: Qos::AtLeastOnce,
            retain: true,
            delay_secs: 5,
            expiry_secs: None,
            properties: None,
        }),
        user_name: Some("u"),
        password: Some(b"s"),
        session_expiry_secs: Some(7),
        receive_maximum: None,
        packet_bytes_max: None,
        topic_alias_maximum: 0,
        request_response_information: false,
        request_problem_information: true,
        user_properties: Vec::new(),
        authentication_method: None,
        authentication_data: None,
    };
    let bytes = packet_bytes(
        0x10,
        b"\0\x04MQTT\x05\xEE\x12\x34\x05\x11\0\0\0\x07\0\x01c\x05\x18\0\0\0\x05\0\x01w\0\x01p\0\x01u\0\x01s",
    );
    let packet = Packet::Connect(Box::new(connect));
    assert_eq!(encoded(&packet, Version::V5), bytes);
    assert_eq!(decoded(Version::V5, &bytes), Ok(packet));
}

#[test]
fn mqtt_3_1_3_3_the_client_identifier_is_there() {
    refused(0x10, &connect_body(2, &[]), MALFORMED, "CONNECT: ends within the client identifier");
}

#[test]
fn mqtt_3_1_3_4_mqtt_3_1_3_11_and_mqtt_3_1_3_12_strings_of_the_payload_are_utf8() {
    refused(0x10, &connect_body(2, &[0, 1, 0xFF]), MALFORMED, "the client identifier is not valid UTF-8");
    refused(
        0x10,
        &connect_body(6, &[0, 0, 0, 0, 1, 0xFF, 0, 0]),
        MALFORMED,
        "the will topic is not valid UTF-8",
    );
    refused(0x10, &connect_body(0x82, &[0, 0, 0, 1, 0xFF]), MALFORMED, "the user name is not valid UTF-8");
}

#[test]
fn mqtt_3_2_2_1_reserved_acknowledge_flags_are_zero() {
    for flags in 2..=255 {
        refused(0x20, &[flags, 0, 0], MALFORMED, "reserved bits are set in the acknowledge flags");
    }
}

#[test]
fn mqtt_3_2_2_6_a_refusal_has_no_session_present() {
    refused(0x20, &[1, 0x87, 0], PROTOCOL, "[MQTT-3.2.2-6]");
    let packet = Connack { session_present: true, reason: ReasonCode::NotAuthorized, ..Connack::default() };
    assert_eq!(encoded(&Packet::Connack(Box::new(packet)), Version::V5), [0x20, 3, 0, 0x87, 0]);
}
