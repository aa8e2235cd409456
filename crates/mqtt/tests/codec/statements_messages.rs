//! The normative statements of MQTT 5.0 §3.3 to §3.15 that the bytes of one packet can keep or break.

use crate::statements::{connect_body, refused};
use crate::{decoded, encoded, packet_bytes};
use bytes::Bytes;
use meridian_mqtt::decode::decode;
use meridian_mqtt::packet::{
    Ack, Auth, Disconnect, FilterRequest, Publish, RetainHandling, Suback, Subscribe,
};
use meridian_mqtt::{Packet, ReasonCode, Version};
use meridian_types::{PayloadFormat, Properties, Qos};

const MALFORMED: ReasonCode = ReasonCode::MalformedPacket;
const PROTOCOL: ReasonCode = ReasonCode::ProtocolError;

#[test]
fn mqtt_3_3_1_2_dup_is_zero_at_qos_0() {
    refused(0x38, &[0, 1, b't', 0], MALFORMED, "[MQTT-3.3.1-2]");
    let packet = Packet::Publish(Publish { topic: "t", dup: true, ..Publish::default() });
    assert_eq!(encoded(&packet, Version::V5)[0], 0x30);
}

#[test]
fn mqtt_3_3_1_4_qos_is_not_3() {
    for flags in [6, 7, 14, 15] {
        refused(0x30 | flags, &[0, 1, b't', 0, 1, 0], MALFORMED, "[MQTT-3.3.1-4]");
    }
}

#[test]
fn mqtt_3_3_2_1_the_topic_name_is_the_first_field() {
    refused(0x30, &[], MALFORMED, "ends within the topic name, 2 bytes short");
    refused(0x30, &[0, 5, b't'], MALFORMED, "ends within the topic name, 4 bytes short");
}

#[test]
fn mqtt_3_3_2_2_the_topic_name_holds_no_wildcards() {
    for topic in [b"a/+", b"a/#", b"a+b", b"#/a"] {
        let body = [&[0, 3][..], topic, &[0]].concat();
        refused(0x30, &body, ReasonCode::TopicNameInvalid, "must not hold the wildcards");
    }
}

#[test]
fn section_3_3_2_1_an_empty_topic_name_needs_a_topic_alias() {
    refused(0x30, &[0, 0, 0], PROTOCOL, "the topic name is empty and no topic alias stands for it");
    let Ok(Packet::Publish(publish)) = decode(Version::V5, 0x30, &[0, 0, 3, 0x23, 0, 7]) else {
        panic!("it is valid")
    };
    assert_eq!((publish.topic, publish.topic_alias), ("", Some(7)));
}

#[test]
fn mqtt_3_3_2_8_a_topic_alias_is_not_zero() {
    refused(0x30, &[0, 0, 3, 0x23, 0, 0], ReasonCode::TopicAliasInvalid, "the topic alias is 0");
}

#[test]
fn mqtt_3_3_2_13_and_mqtt_3_3_2_14_the_response_topic_is_utf8_without_wildcards() {
    let body = |topic: u8| [0, 1, b't', 4, 0x08, 0, 1, topic];
    refused(0x30, &body(0xFF), MALFORMED, "the response topic is not valid UTF-8");
    refused(0x30, &body(b'#'), ReasonCode::TopicNameInvalid, "the response topic \"#\" is refused");
    refused(0x30, &[0, 1, b't', 3, 0x08, 0, 0], ReasonCode::TopicNameInvalid, "it is empty");
    let will = connect_body(6, &[0, 0, 4, 0x08, 0, 1, b'+', 0, 1, b't', 0, 0]);
    refused(0x10, &will, ReasonCode::TopicNameInvalid, "CONNECT: will: the response topic \"+\" is refused");
}

#[test]
fn mqtt_3_3_2_18_user_properties_keep_their_order_and_repeats() {
    let user = [("b", "1"), ("a", "2"), ("b", "1")].map(|(name, value)| (name.into(), value.into()));
    let properties = Properties { user: user.into(), ..Properties::default() };
    let publish = Publish { topic: "t", properties: Some(Box::new(properties)), ..Publish::default() };
    let packet = Packet::Publish(publish);
    assert_eq!(decoded(Version::V5, &encoded(&packet, Version::V5)), Ok(packet));
}

#[test]
fn mqtt_3_3_2_19_the_content_type_is_utf8() {
    refused(0x30, &[0, 1, b't', 4, 0x03, 0, 1, 0xFF], MALFORMED, "the content type is not valid UTF-8");
}

#[test]
fn mqtt_3_8_3_1_and_mqtt_3_10_3_1_topic_filters_are_utf8() {
    refused(
        0x82,
        &[0, 1, 0, 0, 1, 0xFF, 0],
        MALFORMED,
        "SUBSCRIBE: filter 1: the topic filter is not valid UTF-8",
    );
    let second = [0, 1, 0, 0, 1, b'f', 0, 1, 0xFF];
    refused(0xA2, &second, MALFORMED, "UNSUBSCRIBE: filter 2: the topic filter is not valid UTF-8");
}

#[test]
fn mqtt_3_8_3_2_and_mqtt_3_10_3_2_there_is_at_least_one_filter() {
    refused(0x82, &[0, 1, 0], PROTOCOL, "SUBSCRIBE: it holds no topic filter");
    refused(0xA2, &[0, 1, 0], PROTOCOL, "UNSUBSCRIBE: it holds no topic filter");
}

#[test]
fn mqtt_3_8_3_4_no_local_on_a_shared_subscription_is_a_protocol_error() {
    let body = [&[0, 1, 0, 0, 1, b'f', 4, 0, 10][..], b"$share/g/t", &[4]].concat();
    refused(0x82, &body, PROTOCOL, "SUBSCRIBE: filter 2: no local is set on a shared subscription");
    let plain = [&[0, 1, 0, 0, 9][..], b"$shared/t", &[4]].concat();
    assert!(decode(Version::V5, 0x82, &plain).is_ok());
}

#[test]
fn mqtt_3_8_3_5_reserved_subscription_options_are_malformed() {
    for options in [0x40, 0x80, 0xC0] {
        refused(
            0x82,
            &[0, 1, 0, 0, 1, b'f', options],
            MALFORMED,
            "filter 1: reserved bits are set in the options",
        );
    }
}

#[test]
fn section_3_8_3_1_maximum_qos_3_and_retain_handling_3_are_protocol_errors() {
    refused(0x82, &[0, 1, 0, 0, 1, b'f', 0x03], PROTOCOL, "filter 1: the maximum QoS is 3");
    refused(
        0x82,
        &[0, 1, 0, 0, 1, b'f', 0, 0, 1, b'g', 0x30],
        PROTOCOL,
        "filter 2: the retain handling is 3",
    );
}

#[test]
fn section_3_8_3_1_subscription_options_are_read_and_written_bit_by_bit() {
    let request = FilterRequest {
        filter: "f",
        qos: Qos::AtMostOnce,
        no_local: false,
        retain_as_published: false,
        retain_handling: RetainHandling::Always,
    };
    for (options, request) in [
        (0x00, request),
        (0x02, FilterRequest { qos: Qos::ExactlyOnce, ..request }),
        (0x04, FilterRequest { no_local: true, ..request }),
        (0x08, FilterRequest { retain_as_published: true, ..request }),
        (0x10, FilterRequest { retain_handling: RetainHandling::IfNew, ..request }),
        (0x20, FilterRequest { retain_handling: RetainHandling::Never, ..request }),
    ] {
        let packet =
            Packet::Subscribe(Subscribe { packet_id: 1, filters: vec![request], ..Subscribe::default() });
        let bytes = packet_bytes(0x82, &[0, 1, 0, 0, 1, b'f', options]);
        assert_eq!(encoded(&packet, Version::V5), bytes);
        assert_eq!(decoded(Version::V5, &bytes), Ok(packet));
    }
}

#[test]
fn mqtt_3_9_3_1_and_mqtt_3_11_3_1_reason_codes_keep_their_order() {
    let reasons = vec![ReasonCode::GrantedQos1, ReasonCode::NotAuthorized, ReasonCode::Success];
    let suback = Packet::Suback(Suback { packet_id: 1, reasons, ..Suback::default() });
    assert_eq!(encoded(&suback, Version::V5), [0x90, 6, 0, 1, 0, 1, 0x87, 0]);
    let reasons = vec![ReasonCode::NoSubscriptionExisted, ReasonCode::Success];
    let unsuback = Packet::Unsuback(Suback { packet_id: 1, reasons, ..Suback::default() });
    assert_eq!(encoded(&unsuback, Version::V5), [0xB0, 5, 0, 1, 0, 0x11, 0]);
    refused(0x90, &[0, 1, 0], PROTOCOL, "SUBACK: it holds no reason code");
    refused(0xB0, &[0, 1, 0], PROTOCOL, "UNSUBACK: it holds no reason code");
}

#[test]
fn mqtt_3_14_1_1_reserved_flags_of_disconnect_are_malformed() {
    refused(0xE1, &[], MALFORMED, "DISCONNECT: the flags are 0b0001, must be 0b0000");
}

#[test]
fn sections_3_4_2_1_and_3_14_2_1_success_and_empty_properties_are_left_out() {
    let ack = |reason, reason_string| Ack { packet_id: 0x0102, reason, reason_string, ..Ack::default() };
    let not_found = ReasonCode::PacketIdentifierNotFound;
    for (packet, bytes) in [
        (Packet::Puback(ack(ReasonCode::Success, None)), &[0x40, 2, 1, 2][..]),
        (Packet::Pubrel(ack(ReasonCode::Success, None)), &[0x62, 2, 1, 2]),
        (Packet::Pubcomp(ack(not_found, None)), &[0x70, 3, 1, 2, 0x92]),
        (Packet::Pubrec(ack(ReasonCode::Success, Some("r"))), &[0x50, 8, 1, 2, 0, 4, 0x1F, 0, 1, b'r']),
        (Packet::Disconnect(Disconnect::default()), &[0xE0, 0]),
        (
            Packet::Disconnect(Disconnect { reason: ReasonCode::ServerBusy, ..Disconnect::default() }),
            &[0xE0, 1, 0x89],
        ),
        (Packet::Auth(Auth::default()), &[0xF0, 0]),
    ] {
        assert_eq!(encoded(&packet, Version::V5), bytes);
        assert_eq!(decoded(Version::V5, bytes), Ok(packet));
    }
    // The longer forms mean the same.
    let bare = Packet::Puback(ack(ReasonCode::Success, None));
    assert_eq!(decode(Version::V5, 0x40, &[1, 2, 0]), Ok(bare.clone()));
    assert_eq!(decode(Version::V5, 0x40, &[1, 2, 0, 0]), Ok(bare));
    assert_eq!(decode(Version::V5, 0xE0, &[0, 0]), Ok(Packet::Disconnect(Disconnect::default())));
}

#[test]
fn section_3_15_2_2_2_auth_names_its_method() {
    refused(0xF0, &[0x18, 0], PROTOCOL, "AUTH: the authentication method is missing");
    refused(0xF0, &[0x18], MALFORMED, "AUTH: ends within the property length");
    let auth = Auth {
        reason: ReasonCode::ContinueAuthentication,
        authentication_method: Some("m"),
        authentication_data: Some(Bytes::from_static(&[0, 255])),
        ..Auth::default()
    };
    let bytes = [0xF0, 11, 0x18, 9, 0x15, 0, 1, b'm', 0x16, 0, 2, 0, 255];
    assert_eq!(decoded(Version::V5, &bytes), Ok(Packet::Auth(auth.clone())));
    assert_eq!(encoded(&Packet::Auth(auth), Version::V5), bytes);
}

#[test]
fn properties_are_written_in_ascending_order_of_their_identifiers() {
    let properties = Properties {
        payload_format: Some(PayloadFormat::Utf8),
        content_type: Some("c".into()),
        response_topic: Some("r".into()),
        correlation_data: Some(Bytes::from_static(b"d")),
        user: vec![("n".into(), "v".into())],
    };
    let publish = Publish {
        topic: "t",
        topic_alias: Some(1),
        expiry_secs: Some(2),
        subscription_ids: vec![300, 3],
        properties: Some(Box::new(properties)),
        ..Publish::default()
    };
    let bytes = encoded(&Packet::Publish(publish), Version::V5);
    let expected = b"\x30\x26\0\x01t\x22\x01\x01\x02\0\0\0\x02\x03\0\x01c\x08\0\x01r\x09\0\x01d\x0B\xAC\x02\x0B\x03\x23\0\x01\x26\0\x01n\0\x01v";
    assert_eq!(bytes, expected);
}
