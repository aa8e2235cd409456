//! The codec from outside: round trips, what must be refused and with which code, and that no bytes make it panic.

mod malformed;
mod reasons;
mod robust;
mod round_trip;
mod statements;
mod statements_messages;
mod strategies;
mod version_311;

use meridian_mqtt::decode::decode;
use meridian_mqtt::encode::encode;
use meridian_mqtt::frame::{Frame, Peek};
use meridian_mqtt::{DecodeError, Packet, Version};

/// The bytes of `packet`.
fn encoded(packet: &Packet<'_>, version: Version) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(packet, version, &mut bytes);
    bytes
}

/// Decodes `bytes`, which hold one packet and nothing else.
fn decoded(version: Version, bytes: &[u8]) -> Result<Packet<'_>, DecodeError> {
    match Frame::peek(bytes, usize::MAX).expect("the fixed header is valid") {
        Peek::Whole(frame) => {
            assert_eq!(frame.len(), bytes.len(), "bytes left over after the packet");
            decode(version, frame.first_byte, &bytes[frame.header_len..])
        }
        Peek::Needs(len) => panic!("the packet is cut: {len} bytes needed, {} there", bytes.len()),
    }
}

/// A packet of a first byte and a body, with the remaining length in between.
fn packet_bytes(first_byte: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first_byte];
    let mut rest = body.len();
    loop {
        let low = (rest & 0x7f) as u8;
        rest >>= 7;
        bytes.push(if rest > 0 { low | 0x80 } else { low });
        if rest == 0 {
            break;
        }
    }
    bytes.extend_from_slice(body);
    bytes
}
