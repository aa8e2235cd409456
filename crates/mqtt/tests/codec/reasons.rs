//! Which reason codes and which properties each packet may carry, byte by byte, against tables written here by hand
//! (MQTT 5.0 §2.2.2.2 and the reason code table of each packet).

use meridian_mqtt::decode::decode;
use meridian_mqtt::{ReasonCode, Version};

fn refusal(first_byte: u8, body: &[u8]) -> Option<(ReasonCode, String)> {
    decode(Version::V5, first_byte, body).err().map(|error| (error.reason, error.what))
}

fn check_reasons(first_byte: u8, allowed: &[u8], body: impl Fn(u8) -> Vec<u8>) {
    for byte in 0..=255 {
        match refusal(first_byte, &body(byte)) {
            None => assert!(allowed.contains(&byte), "0x{byte:02X} must be refused in 0x{first_byte:02X}"),
            Some((reason, what)) => {
                assert!(
                    !allowed.contains(&byte),
                    "0x{byte:02X} must be allowed in 0x{first_byte:02X}: {what}"
                );
                assert_eq!(reason, ReasonCode::ProtocolError, "{what}");
            }
        }
    }
}

#[test]
fn mqtt_3_2_2_8_connack_carries_the_connect_reason_codes() {
    let allowed = [
        0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C, 0x90, 0x95, 0x97, 0x99,
        0x9A, 0x9B, 0x9C, 0x9D, 0x9F,
    ];
    check_reasons(0x20, &allowed, |byte| vec![0, byte, 0]);
}

#[test]
fn mqtt_3_4_2_1_puback_and_mqtt_3_5_2_1_pubrec_carry_their_reason_codes() {
    let allowed = [0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99];
    check_reasons(0x40, &allowed, |byte| vec![0, 1, byte]);
    check_reasons(0x50, &allowed, |byte| vec![0, 1, byte, 0]);
}

#[test]
fn mqtt_3_6_2_1_pubrel_and_mqtt_3_7_2_1_pubcomp_carry_their_reason_codes() {
    check_reasons(0x62, &[0x00, 0x92], |byte| vec![0, 1, byte]);
    check_reasons(0x70, &[0x00, 0x92], |byte| vec![0, 1, byte, 0]);
}

#[test]
fn mqtt_3_9_3_2_suback_carries_the_subscribe_reason_codes() {
    let allowed = [0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2];
    check_reasons(0x90, &allowed, |byte| vec![0, 1, 0, 0, byte]);
}

#[test]
fn mqtt_3_11_3_2_unsuback_carries_the_unsubscribe_reason_codes() {
    check_reasons(0xB0, &[0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91], |byte| vec![0, 1, 0, byte]);
}

#[test]
fn mqtt_3_14_2_1_disconnect_carries_the_disconnect_reason_codes() {
    let allowed = [
        0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8C, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95,
        0x96, 0x97, 0x98, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2,
    ];
    check_reasons(0xE0, &allowed, |byte| vec![byte]);
    let by_client =
        [0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x8C, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99];
    assert_eq!(
        ReasonCode::IN_CLIENT_DISCONNECT.iter().map(|code| code.byte()).collect::<Vec<_>>(),
        by_client
    );
}

#[test]
fn mqtt_3_15_2_1_auth_carries_the_authenticate_reason_codes() {
    check_reasons(0xF0, &[0x00, 0x18, 0x19], |byte| vec![byte, 4, 0x15, 0, 1, b'm']);
}

/// The places where properties stand.
const PLACES: [&str; 15] = [
    "CONNECT",
    "will",
    "CONNACK",
    "PUBLISH",
    "PUBACK",
    "PUBREC",
    "PUBREL",
    "PUBCOMP",
    "SUBSCRIBE",
    "SUBACK",
    "UNSUBSCRIBE",
    "UNSUBACK",
    "DISCONNECT",
    "AUTH",
    "PINGREQ",
];

/// A packet that is valid but for what `properties` may break.
fn with_properties(place: &str, properties: &[u8]) -> (u8, Vec<u8>) {
    let block = [&[u8::try_from(properties.len()).expect("they are short")], properties].concat();
    let block = &block[..];
    let connect = |flags: u8| [0, 4, b'M', b'Q', b'T', b'T', 5, flags, 0, 60];
    match place {
        "CONNECT" => (0x10, [&connect(2)[..], block, &[0, 0]].concat()),
        "will" => (0x10, [&connect(6)[..], &[0, 0, 0], block, &[0, 1, b't', 0, 0]].concat()),
        "CONNACK" => (0x20, [&[0, 0][..], block].concat()),
        "PUBLISH" => (0x30, [&[0, 1, b't'][..], block].concat()),
        "PUBACK" => (0x40, [&[0, 1, 0][..], block].concat()),
        "PUBREC" => (0x50, [&[0, 1, 0][..], block].concat()),
        "PUBREL" => (0x62, [&[0, 1, 0][..], block].concat()),
        "PUBCOMP" => (0x70, [&[0, 1, 0][..], block].concat()),
        "SUBSCRIBE" => (0x82, [&[0, 1][..], block, &[0, 1, b'f', 0]].concat()),
        "SUBACK" => (0x90, [&[0, 1][..], block, &[0]].concat()),
        "UNSUBSCRIBE" => (0xA2, [&[0, 1][..], block, &[0, 1, b'f']].concat()),
        "UNSUBACK" => (0xB0, [&[0, 1][..], block, &[0]].concat()),
        "DISCONNECT" => (0xE0, [&[0][..], block].concat()),
        "AUTH" => (0xF0, [&[0x18][..], block].concat()),
        "PINGREQ" => (0xC0, block.to_vec()),
        _ => unreachable!("{place} is not a place"),
    }
}

/// Identifier, a valid value, and where §2.2.2.2 has it.
const PROPERTIES: [(u8, &[u8], &[&str]); 27] = [
    (0x01, &[1], &["PUBLISH", "will"]),
    (0x02, &[0, 0, 0, 9], &["PUBLISH", "will"]),
    (0x03, &[0, 1, b'c'], &["PUBLISH", "will"]),
    (0x08, &[0, 1, b'r'], &["PUBLISH", "will"]),
    (0x09, &[0, 1, 0xFF], &["PUBLISH", "will"]),
    (0x0B, &[1], &["PUBLISH", "SUBSCRIBE"]),
    (0x11, &[0, 0, 0, 9], &["CONNECT", "CONNACK", "DISCONNECT"]),
    (0x12, &[0, 1, b'i'], &["CONNACK"]),
    (0x13, &[0, 9], &["CONNACK"]),
    (0x15, &[0, 1, b'm'], &["CONNECT", "CONNACK", "AUTH"]),
    (0x16, &[0, 1, 0xFF], &["CONNECT", "CONNACK", "AUTH"]),
    (0x17, &[1], &["CONNECT"]),
    (0x18, &[0, 0, 0, 9], &["will"]),
    (0x19, &[1], &["CONNECT"]),
    (0x1A, &[0, 1, b'r'], &["CONNACK"]),
    (0x1C, &[0, 1, b's'], &["CONNACK", "DISCONNECT"]),
    (
        0x1F,
        &[0, 1, b'r'],
        &["CONNACK", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBACK", "UNSUBACK", "DISCONNECT", "AUTH"],
    ),
    (0x21, &[0, 9], &["CONNECT", "CONNACK"]),
    (0x22, &[0, 9], &["CONNECT", "CONNACK"]),
    (0x23, &[0, 9], &["PUBLISH"]),
    (0x24, &[1], &["CONNACK"]),
    (0x25, &[1], &["CONNACK"]),
    (
        0x26,
        &[0, 1, b'n', 0, 1, b'v'],
        &[
            "CONNECT",
            "will",
            "CONNACK",
            "PUBLISH",
            "PUBACK",
            "PUBREC",
            "PUBREL",
            "PUBCOMP",
            "SUBSCRIBE",
            "SUBACK",
            "UNSUBSCRIBE",
            "UNSUBACK",
            "DISCONNECT",
            "AUTH",
        ],
    ),
    (0x27, &[0, 0, 0, 9], &["CONNECT", "CONNACK"]),
    (0x28, &[1], &["CONNACK"]),
    (0x29, &[1], &["CONNACK"]),
    (0x2A, &[1], &["CONNACK"]),
];

/// The property, and the authentication method where the packet or the property demands one.
fn with_method(place: &str, id: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = [&[id], value].concat();
    if id != 0x15 && (place == "AUTH" || id == 0x16 && matches!(place, "CONNECT" | "CONNACK")) {
        bytes.extend_from_slice(&[0x15, 0, 1, b'm']);
    }
    bytes
}

#[test]
fn each_property_is_taken_where_the_specification_has_it_and_malformed_elsewhere() {
    for (id, value, places) in PROPERTIES {
        for place in PLACES {
            let (first_byte, body) = with_properties(place, &with_method(place, id, value));
            match refusal(first_byte, &body) {
                None => assert!(places.contains(&place), "0x{id:02X} must be refused in {place}"),
                Some((reason, what)) => {
                    assert!(!places.contains(&place), "0x{id:02X} must be taken in {place}: {what}");
                    assert_eq!(reason, ReasonCode::MalformedPacket, "0x{id:02X} in {place}: {what}");
                }
            }
        }
    }
}

#[test]
fn undefined_properties_are_malformed_everywhere() {
    for id in (0..=255).filter(|id| PROPERTIES.iter().all(|(known, ..)| known != id)) {
        for place in PLACES {
            let (first_byte, body) = with_properties(place, &[id, 0, 0, 0, 0]);
            let (reason, what) = refusal(first_byte, &body).expect("it is undefined");
            assert_eq!(reason, ReasonCode::MalformedPacket, "0x{id:02X} in {place}: {what}");
        }
    }
}

#[test]
fn a_property_that_repeats_is_a_protocol_error_except_where_the_specification_allows_it() {
    for (id, value, places) in PROPERTIES {
        for place in places {
            let once = with_method(place, id, value);
            let twice = [&[id], value, &once].concat();
            let (first_byte, body) = with_properties(place, &twice);
            let is_allowed = id == 0x26 || id == 0x0B && *place == "PUBLISH";
            match refusal(first_byte, &body) {
                None => assert!(is_allowed, "0x{id:02X} twice must be refused in {place}"),
                Some((reason, what)) => {
                    assert!(!is_allowed, "0x{id:02X} twice must be taken in {place}: {what}");
                    assert_eq!(reason, ReasonCode::ProtocolError, "0x{id:02X} twice in {place}: {what}");
                    assert!(what.ends_with("is there twice"), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_property_cut_anywhere_is_malformed() {
    for (id, value, places) in PROPERTIES {
        let whole = [&[id], value].concat();
        for place in places {
            for len in 1..whole.len() {
                let (first_byte, body) = with_properties(place, &whole[..len]);
                let (reason, what) = refusal(first_byte, &body).expect("it is cut");
                assert_eq!(reason, ReasonCode::MalformedPacket, "0x{id:02X} in {place}: {what}");
            }
        }
    }
}
