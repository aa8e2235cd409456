//! No bytes make the codec panic, and a packet that is cut is never taken for a whole one.

use crate::strategies::any_packet;
use crate::{decoded, encoded};
use meridian_mqtt::decode::{answer_version, decode};
use meridian_mqtt::frame::{Frame, FrameError, Peek};
use meridian_mqtt::{Packet, ReasonCode, Version};
use meridian_types::TopicName;
use proptest::collection::vec;
use proptest::prelude::*;

/// Whether `part`, decoded from the first bytes of `whole`, is what those bytes say by themselves: MQTT marks the end
/// of a payload, of a list of filters or reasons and of an acknowledgement by the end of the packet alone.
fn is_beginning_of(part: &Packet<'_>, whole: &Packet<'_>) -> bool {
    match (part, whole) {
        (Packet::Publish(part), Packet::Publish(whole)) => {
            let mut rest = whole.clone();
            rest.payload = part.payload;
            *part == rest && whole.payload.starts_with(part.payload)
        }
        (Packet::Puback(part), Packet::Puback(whole))
        | (Packet::Pubrec(part), Packet::Pubrec(whole))
        | (Packet::Pubrel(part), Packet::Pubrel(whole))
        | (Packet::Pubcomp(part), Packet::Pubcomp(whole)) => {
            let is_bare = part.reason_string.is_none() && part.user_properties.is_empty();
            let is_reason_kept = part.reason == whole.reason || part.reason == ReasonCode::Success;
            part.packet_id == whole.packet_id && is_bare && is_reason_kept
        }
        (Packet::Subscribe(part), Packet::Subscribe(whole)) => {
            part.packet_id == whole.packet_id
                && part.subscription_id == whole.subscription_id
                && part.user_properties == whole.user_properties
                && whole.filters.starts_with(&part.filters)
        }
        (Packet::Unsubscribe(part), Packet::Unsubscribe(whole)) => {
            part.packet_id == whole.packet_id
                && part.user_properties == whole.user_properties
                && whole.filters.starts_with(&part.filters)
        }
        (Packet::Suback(part), Packet::Suback(whole)) | (Packet::Unsuback(part), Packet::Unsuback(whole)) => {
            part.packet_id == whole.packet_id
                && part.reason_string == whole.reason_string
                && part.user_properties == whole.user_properties
                && whole.reasons.starts_with(&part.reasons)
        }
        (Packet::Disconnect(part), Packet::Disconnect(whole)) => {
            let bare = meridian_mqtt::packet::Disconnect { reason: part.reason, ..Default::default() };
            *part == bare && (part.reason == whole.reason || part.reason == ReasonCode::Success)
        }
        // Without any body it means success.
        (Packet::Auth(part), Packet::Auth(_)) => *part == meridian_mqtt::packet::Auth::default(),
        _ => false,
    }
}

/// Decodes; what decodes must say the same when it is encoded again.
fn check_any(version: Version, first_byte: u8, body: &[u8]) -> Result<(), TestCaseError> {
    match decode(version, first_byte, body) {
        Ok(packet) => {
            let version = if let Packet::Connect(connect) = &packet { connect.version } else { version };
            let bytes = encoded(&packet, version);
            prop_assert_eq!(decoded(version, &bytes), Ok(packet.clone()));
        }
        Err(error) => {
            prop_assert!(error.reason.is_error(), "{error}");
            prop_assert!(error.what.contains(": "), "no place: {error}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_048))]

    #[test]
    fn arbitrary_bytes_are_decoded_or_refused(first_byte: u8, body in vec(any::<u8>(), 0..200), in_v5: bool) {
        check_any(if in_v5 { Version::V5 } else { Version::V311 }, first_byte, &body)?;
    }

    #[test]
    fn arbitrary_small_bytes_are_decoded_or_refused(kind in 0_u8..16, body in vec(0_u8..4, 0..40), in_v5: bool) {
        // Small values are plausible lengths and flags, so these get deeper than uniform bytes do.
        let flags = if matches!(kind, 6 | 8 | 10) { 2 } else { 0 };
        check_any(if in_v5 { Version::V5 } else { Version::V311 }, kind << 4 | flags, &body)?;
    }

    #[test]
    fn valid_packets_with_one_byte_changed_are_decoded_or_refused(
        (version, packet) in any_packet(), at: prop::sample::Index, to: u8,
    ) {
        let bytes = encoded(&packet, version);
        let Ok(Peek::Whole(frame)) = Frame::peek(&bytes, usize::MAX) else { unreachable!("it is whole") };
        let mut body = bytes[frame.header_len..].to_vec();
        if !body.is_empty() {
            let at = at.index(body.len());
            body[at] = to;
        }
        check_any(version, frame.first_byte, &body)?;
    }

    #[test]
    fn a_topic_name_is_taken_if_and_only_if_it_is_valid(topic in "[a-z/\u{e9}\u{20ac}]{0,150}", at: prop::sample::Index, other in "[+#\u{0}\"*,;\u{1}-\u{40}]?") {
        let mut topic = topic;
        let places: Vec<usize> = topic.char_indices().map(|(place, _)| place).collect();
        if !places.is_empty() {
            topic.insert_str(places[at.index(places.len())], &other);
        }
        let body = [&(topic.len() as u16).to_be_bytes(), topic.as_bytes()].concat();
        let is_taken = decode(Version::V311, 0x30, &body).is_ok();
        prop_assert_eq!(is_taken, TopicName::new(&topic).is_ok(), "{:?}", topic);
    }

    #[test]
    fn a_packet_with_bytes_missing_is_not_taken_for_a_whole_one((version, packet) in any_packet()) {
        let bytes = encoded(&packet, version);
        let Ok(Peek::Whole(frame)) = Frame::peek(&bytes, usize::MAX) else { unreachable!("it is whole") };
        for len in 0..frame.body_len {
            let body = &bytes[frame.header_len..frame.header_len + len];
            if let Ok(part) = decode(version, frame.first_byte, body) {
                prop_assert!(is_beginning_of(&part, &packet), "{len} bytes of {packet:?} became {part:?}");
            }
        }
    }

    #[test]
    fn a_packet_with_bytes_left_over_is_refused((version, packet) in any_packet(), rest in vec(any::<u8>(), 1..5)) {
        // A payload takes whatever follows, a list more elements.
        prop_assume!(!matches!(packet, Packet::Publish(_) | Packet::Subscribe(_) | Packet::Unsubscribe(_)));
        prop_assume!(!matches!(packet, Packet::Suback(_)));
        prop_assume!(!(version == Version::V5 && matches!(packet, Packet::Unsuback(_))));
        let mut bytes = encoded(&packet, version);
        let Ok(Peek::Whole(frame)) = Frame::peek(&bytes, usize::MAX) else { unreachable!("it is whole") };
        bytes.extend_from_slice(&rest);
        if let Ok(other) = decode(version, frame.first_byte, &bytes[frame.header_len..]) {
            // What a 5.0 packet left out at its end may be what follows.
            prop_assert!(is_beginning_of(&packet, &other), "{packet:?} became {other:?}");
        }
    }

    #[test]
    fn a_stream_cut_anywhere_asks_for_more((version, packet) in any_packet()) {
        let bytes = encoded(&packet, version);
        for len in 0..bytes.len() {
            match Frame::peek(&bytes[..len], usize::MAX) {
                Ok(Peek::Needs(needed)) => prop_assert!(len < needed && needed <= bytes.len().max(2)),
                other => prop_assert!(false, "{len} of {} bytes gave {other:?}", bytes.len()),
            }
        }
    }

    #[test]
    fn peeking_at_arbitrary_bytes_yields_what_is_there(bytes in vec(any::<u8>(), 0..300), limit in 0_usize..400) {
        match Frame::peek(&bytes, limit) {
            Ok(Peek::Whole(frame)) => prop_assert!(frame.len() <= bytes.len() && frame.len() <= limit),
            Ok(Peek::Needs(needed)) => prop_assert!(needed > bytes.len()),
            Err(FrameError::TooLarge { size, limit: stated }) => prop_assert!(size > limit && stated == limit),
            Err(error) => {
                prop_assert_eq!(error, FrameError::BadLength);
                prop_assert!(bytes[1..5].iter().all(|byte| *byte >= 0x80));
            }
        }
    }

    #[test]
    fn any_connect_body_tells_in_which_version_to_answer(body in vec(any::<u8>(), 0..20)) {
        let _ = answer_version(&body);
    }
}
