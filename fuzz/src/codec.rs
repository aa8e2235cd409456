//! The MQTT codec.

use meridian_mqtt::decode::{answer_version, decode};
use meridian_mqtt::encode::encode;
use meridian_mqtt::frame::{Frame, Peek};
use meridian_mqtt::{Packet, Version};

/// The largest packet looked for, as a listener has a limit.
const PACKET_BYTES_MAX: usize = 1 << 20;

/// Reads `stream` packet by packet, as a connection does. Goes on after a packet that is refused, which a connection
/// does not, to see more of the input.
pub fn check_stream(version: Version, mut stream: &[u8]) {
    while let Ok(Peek::Whole(frame)) = Frame::peek(stream, PACKET_BYTES_MAX) {
        assert!((2..=5).contains(&frame.header_len) && frame.len() <= stream.len());
        check_packet(version, frame.first_byte, &stream[frame.header_len..frame.len()]);
        stream = &stream[frame.len()..];
    }
}

fn check_packet(version: Version, first_byte: u8, body: &[u8]) {
    let packet = match decode(version, first_byte, body) {
        Ok(packet) => packet,
        Err(error) => {
            assert!(error.reason.is_error() && error.what.contains(": "), "{error:?}");
            assert!(error.what.len() < 1_000, "an error text of {} bytes", error.what.len());
            return;
        }
    };
    let version = match &packet {
        Packet::Connect(connect) => {
            assert_eq!(answer_version(body), connect.version);
            connect.version
        }
        _ => version,
    };
    let mut bytes = Vec::new();
    encode(&packet, version, &mut bytes);
    let Ok(Peek::Whole(frame)) = Frame::peek(&bytes, usize::MAX) else {
        panic!("{packet:?} became {bytes:?}")
    };
    assert!(frame.is_length_minimal());
    assert_eq!(frame.len(), bytes.len(), "{packet:?}");
    assert!(
        frame.body_len <= body.len(),
        "the encoding of {packet:?} is longer than what it was decoded from"
    );
    let again = decode(version, frame.first_byte, &bytes[frame.header_len..]);
    assert_eq!(again.as_ref(), Ok(&packet));
    let mut in_v311 = Vec::new();
    encode(&packet, Version::V311, &mut in_v311);
}
