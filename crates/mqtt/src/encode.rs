//! Encoding: packets to bytes, appended to a buffer.

use crate::{Packet, Version};
use meridian_types::{Properties, Qos};

/// Appends `packet` in the given version. In 3.1.1 what that version cannot say is left out.
pub fn encode(packet: &Packet<'_>, version: Version, out: &mut Vec<u8>) {
    let _ = (packet, version, out);
    unimplemented!()
}

/// The head of an outgoing PUBLISH: everything but the payload.
#[derive(Clone, Copy, Debug)]
pub struct PublishHead<'a> {
    /// Name, or empty if the alias says it.
    pub topic: &'a str,
    /// Sent before.
    pub dup: bool,
    /// Level.
    pub qos: Qos,
    /// Retain flag.
    pub retain: bool,
    /// 0 at QoS 0.
    pub packet_id: u16,
    /// Alias to set or use.
    pub topic_alias: Option<u16>,
    /// Seconds left.
    pub expiry_secs: Option<u32>,
    /// Matching subscriptions.
    pub subscription_ids: &'a [u32],
    /// What travels on unchanged.
    pub properties: Option<&'a Properties>,
}

/// Appends the fixed and variable header of a PUBLISH whose payload of `payload_len` bytes follows. Returns the
/// offset of the packet id from where the packet begins, so that a copy can be given another one; 0 at QoS 0.
pub fn encode_publish_head(
    head: &PublishHead<'_>,
    payload_len: usize,
    version: Version,
    out: &mut Vec<u8>,
) -> usize {
    let _ = (head, payload_len, version, out);
    unimplemented!()
}
