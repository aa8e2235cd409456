//! Values that can be read but may not be said, lengths that do not fit, and texts longer than MQTT can express.

use crate::statements::{connect_body, refused};
use crate::{decoded, encoded};
use meridian_mqtt::decode::decode;
use meridian_mqtt::encode::{PublishHead, encode_publish_head, publish_len};
use meridian_mqtt::frame::{Frame, FrameError, Peek};
use meridian_mqtt::packet::{Connack, Publish};
use meridian_mqtt::{Packet, ReasonCode, Version};
use meridian_types::Qos;
use meridian_types::limits::{MQTT_PACKET_BYTES_MAX, TOPIC_LEVELS_MAX};

const MALFORMED: ReasonCode = ReasonCode::MalformedPacket;
const PROTOCOL: ReasonCode = ReasonCode::ProtocolError;

fn connect_with(properties: &[u8]) -> Vec<u8> {
    let mut body = connect_body(2, &[]);
    body.pop();
    body.push(properties.len() as u8);
    [&body, properties, &[0, 0]].concat()
}

#[test]
fn numbers_out_of_range_are_protocol_errors() {
    refused(
        0x10,
        &connect_with(&[0x21, 0, 0]),
        PROTOCOL,
        "CONNECT: the receive maximum is 0, allowed is 1 to 65,535",
    );
    refused(0x10, &connect_with(&[0x27, 0, 0, 0, 0]), PROTOCOL, "the maximum packet size is 0");
    refused(0x20, &[0, 0, 3, 0x21, 0, 0], PROTOCOL, "CONNACK: the receive maximum is 0");
    refused(0x20, &[0, 0, 5, 0x27, 0, 0, 0, 0], PROTOCOL, "CONNACK: the maximum packet size is 0");
    refused(0x20, &[0, 0, 2, 0x24, 2], PROTOCOL, "the maximum QoS is 2, allowed is 0 or 1");
    refused(
        0x82,
        &[0, 1, 2, 0x0B, 0, 0, 1, b'f', 0],
        PROTOCOL,
        "SUBSCRIBE: the subscription identifier is 0",
    );
    refused(0x30, &[0, 1, b't', 2, 0x0B, 0], PROTOCOL, "PUBLISH: the subscription identifier is 0");
}

#[test]
fn flags_that_are_neither_0_nor_1_are_protocol_errors() {
    for value in [2, 255] {
        refused(0x10, &connect_with(&[0x17, value]), PROTOCOL, "the request problem information is");
        refused(0x10, &connect_with(&[0x19, value]), PROTOCOL, "the request response information is");
        refused(0x30, &[0, 1, b't', 2, 0x01, value], PROTOCOL, "the payload format indicator is");
        for id in [0x25, 0x28, 0x29, 0x2A] {
            refused(0x20, &[0, 0, 2, id, value], PROTOCOL, "available is");
        }
    }
}

#[test]
fn authentication_data_needs_a_method() {
    let what = "authentication data comes without a method";
    refused(0x10, &connect_with(&[0x16, 0, 1, 7]), PROTOCOL, what);
    refused(0x20, &[0, 0, 4, 0x16, 0, 1, 7], PROTOCOL, what);
    assert!(decode(Version::V5, 0x10, &connect_with(&[0x16, 0, 1, 7, 0x15, 0, 1, b'm'])).is_ok());
}

#[test]
fn an_invalid_will_topic_is_refused() {
    let body = |topic: &[u8]| connect_body(6, &[&[0, 0, 0, 0, topic.len() as u8], topic, &[0, 0]].concat());
    refused(0x10, &body(b"a/#"), ReasonCode::TopicNameInvalid, "CONNECT: the will topic \"a/#\" is refused");
    refused(0x10, &body(b""), ReasonCode::TopicNameInvalid, "it is empty");
}

#[test]
fn an_error_text_is_short_whatever_the_packet_holds() {
    let topic = "\u{20ac}\u{1}/".repeat(13_000) + "+";
    let body = [&(topic.len() as u16).to_be_bytes(), topic.as_bytes(), &[0]].concat();
    let error = decode(Version::V5, 0x30, &body).expect_err("it holds a wildcard");
    assert_eq!(error.reason, ReasonCode::TopicNameInvalid);
    assert!(error.what.len() < 600 && error.what.contains("bytes more"), "{error}");
    let name = [&[0xFF, 0xFF][..], &[0xFF; 65_535]].concat();
    let error = decode(Version::V5, 0x10, &name).expect_err("it is no protocol name");
    assert!(error.what.len() < 600, "{error}");
}

#[test]
fn a_topic_name_may_have_so_many_levels_and_no_more() {
    let body = |separators: usize| [&[0, separators as u8][..], &vec![b'/'; separators], &[0]].concat();
    assert!(decode(Version::V5, 0x30, &body(TOPIC_LEVELS_MAX - 1)).is_ok());
    refused(0x30, &body(TOPIC_LEVELS_MAX), ReasonCode::TopicNameInvalid, "more than 128 levels");
}

#[test]
fn a_property_length_that_leaves_the_packet_is_malformed() {
    refused(
        0x30,
        &[0, 1, b't', 5, 0x23, 0, 1],
        MALFORMED,
        "PUBLISH: ends within the properties, 2 bytes short",
    );
    refused(0x40, &[0, 1, 0, 1], MALFORMED, "PUBACK: ends within the properties, 1 bytes short");
    refused(0x40, &[0, 1, 0, 0xFF, 0xFF, 0xFF, 0x7F], MALFORMED, "ends within the properties");
}

#[test]
fn a_property_value_that_leaves_the_properties_is_malformed() {
    // The string's length reaches into the payload.
    refused(
        0x30,
        &[0, 1, b't', 4, 0x03, 0, 2, b'a', b'b'],
        MALFORMED,
        "ends within the content type, 1 bytes short",
    );
}

#[test]
fn bytes_after_the_end_are_malformed() {
    for (first_byte, body) in [
        (0x10, connect_body(2, &[0, 0, 9])),
        (0x20, vec![0, 0, 0, 9]),
        (0x40, vec![0, 1, 0, 0, 9]),
        (0x50, vec![0, 1, 0, 0, 9]),
        (0x62, vec![0, 1, 0, 0, 9]),
        (0x70, vec![0, 1, 0, 0, 9]),
        (0xC0, vec![9]),
        (0xD0, vec![9]),
        (0xE0, vec![0, 0, 9]),
        (0xF0, vec![0, 4, 0x15, 0, 1, b'm', 9]),
    ] {
        refused(first_byte, &body, MALFORMED, "1 bytes follow after its end");
    }
}

#[test]
fn a_client_of_v5_understands_a_server_that_only_speaks_v311() {
    for code in 1..=5 {
        refused(
            0x20,
            &[0, code],
            ReasonCode::UnsupportedProtocolVersion,
            "the server does not speak MQTT 5.0",
        );
    }
}

#[test]
fn a_packet_above_the_limit_is_refused_from_its_header() {
    let at_limit = [0x30, 0x80, 0x08];
    assert_eq!(Frame::peek(&at_limit, 1027), Ok(Peek::Needs(1027)));
    assert_eq!(Frame::peek(&at_limit, 1026), Err(FrameError::TooLarge { size: 1027, limit: 1026 }));
    let largest = [0x30, 0xFF, 0xFF, 0xFF, 0x7F];
    assert_eq!(
        Frame::peek(&largest, 1 << 20),
        Err(FrameError::TooLarge { size: 268_435_460, limit: 1 << 20 })
    );
    assert_eq!(Frame::peek(&largest, 268_435_460), Ok(Peek::Needs(268_435_460)));
}

#[test]
fn a_text_longer_than_a_string_can_be_is_cut_between_characters() {
    let long = "\u{20ac}".repeat(30_000);
    let connack = Connack { reason_string: Some(&long), ..Connack::default() };
    let bytes = encoded(&Packet::Connack(Box::new(connack)), Version::V5);
    let Ok(Packet::Connack(connack)) = decoded(Version::V5, &bytes) else { panic!("it is valid") };
    assert_eq!(connack.reason_string.expect("it is there").len(), 65_535);
    let longer = format!("a{long}");
    let publish = Publish { topic: &longer, qos: Qos::AtLeastOnce, packet_id: 1, ..Publish::default() };
    let bytes = encoded(&Packet::Publish(publish), Version::V5);
    let Ok(Packet::Publish(publish)) = decoded(Version::V5, &bytes) else { panic!("it is valid") };
    assert_eq!(publish.topic.len(), 65_533 - 65_533 % 3 + 1);
}

#[test]
fn a_publish_too_long_for_mqtt_is_known_before_it_is_encoded() {
    let head = PublishHead {
        topic: "t",
        dup: false,
        qos: Qos::AtMostOnce,
        retain: false,
        packet_id: 0,
        topic_alias: None,
        expiry_secs: None,
        subscription_ids: &[],
        properties: None,
    };
    let longest = 268_435_455 - 3;
    assert_eq!(publish_len(&head, longest, Version::V311), MQTT_PACKET_BYTES_MAX);
    assert_eq!(publish_len(&head, longest, Version::V5), MQTT_PACKET_BYTES_MAX + 1);
    let mut bytes = Vec::new();
    encode_publish_head(&head, longest, Version::V5, &mut bytes);
    assert_eq!(bytes, [0x30, 0xFF, 0xFF, 0xFF, 0x7F, 0, 1, b't', 0]);
}
