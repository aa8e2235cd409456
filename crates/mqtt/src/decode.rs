//! Decoding: bytes to packets, with every rule of the specification checked.

use crate::{Packet, ReasonCode, Version};

/// Why a packet is refused, with the reason code that says so to the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct DecodeError {
    /// What to answer: malformed packet, protocol error, or a more precise code.
    pub reason: ReasonCode,
    /// What is wrong and where, for the log and the reason string.
    pub what: String,
}

/// Decodes the packet whose fixed header starts with `first_byte` and whose body is `body`. `version` is that of the
/// connection; CONNECT carries its own and ignores it.
///
/// # Errors
/// [`DecodeError`] names the rule that was broken.
pub fn decode<'a>(version: Version, first_byte: u8, body: &'a [u8]) -> Result<Packet<'a>, DecodeError> {
    let _ = (version, first_byte, body);
    unimplemented!()
}
