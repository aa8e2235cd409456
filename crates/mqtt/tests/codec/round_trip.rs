//! What is encoded is decoded to the same packet.

use crate::strategies::{any_packet, packet_v5};
use crate::{decoded, encoded};
use meridian_mqtt::encode::{PublishHead, encode, encode_publish_head, publish_len};
use meridian_mqtt::{Frame, Packet, Version};
use meridian_types::Qos;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn every_valid_packet_decodes_to_what_was_encoded((version, packet) in any_packet()) {
        let bytes = encoded(&packet, version);
        prop_assert_eq!(decoded(version, &bytes).unwrap(), packet);
    }

    #[test]
    fn encoding_appends_and_says_the_same_anywhere((version, packet) in any_packet()) {
        let mut bytes = b"before".to_vec();
        encode(&packet, version, &mut bytes);
        prop_assert_eq!(&bytes[..6], b"before");
        prop_assert_eq!(&bytes[6..], encoded(&packet, version));
    }

    #[test]
    fn any_packet_of_v5_can_be_said_in_v311_as_far_as_that_goes(packet in packet_v5()) {
        prop_assume!(!matches!(&packet, Packet::Connect(_)));
        let bytes = encoded(&packet, Version::V311);
        match packet {
            Packet::Auth(_) => prop_assert!(bytes.is_empty()),
            // An alias without a name has no equivalent: the caller puts the name in.
            Packet::Publish(publish) if publish.topic.is_empty() => {}
            _ => prop_assert!(decoded(Version::V311, &bytes).is_ok()),
        }
    }

    #[test]
    fn a_publish_head_knows_its_length_and_where_its_packet_id_is(packet in packet_v5(), in_v5: bool, payload_len in 0_usize..40_000) {
        let Packet::Publish(publish) = packet else { return Ok(()) };
        let version = if in_v5 { Version::V5 } else { Version::V311 };
        let head = PublishHead {
            topic: publish.topic,
            dup: publish.dup,
            qos: publish.qos,
            retain: publish.retain,
            packet_id: publish.packet_id,
            topic_alias: publish.topic_alias,
            expiry_secs: publish.expiry_secs,
            subscription_ids: &publish.subscription_ids,
            properties: publish.properties.as_deref(),
        };
        let mut bytes = b"before".to_vec();
        let offset = encode_publish_head(&head, payload_len, version, &mut bytes);
        let packet = &bytes[6..];
        prop_assert_eq!(packet.len() + payload_len, publish_len(&head, payload_len, version));
        if publish.qos == Qos::AtMostOnce {
            prop_assert_eq!(offset, 0);
        } else {
            prop_assert_eq!(&packet[offset..offset + 2], publish.packet_id.to_be_bytes());
        }
    }

    #[test]
    fn a_stream_of_packets_is_cut_where_they_end(packets in prop::collection::vec(packet_v5(), 1..6)) {
        let mut bytes = Vec::new();
        packets.iter().for_each(|packet| encode(packet, Version::V5, &mut bytes));
        let mut rest = &bytes[..];
        for packet in packets {
            let Ok(meridian_mqtt::frame::Peek::Whole(frame)) = Frame::peek(rest, usize::MAX) else {
                return Err(TestCaseError::fail("no packet where one should begin"));
            };
            let read = meridian_mqtt::decode::decode(Version::V5, frame.first_byte, &rest[frame.header_len..frame.len()]);
            prop_assert_eq!(read.unwrap(), packet);
            rest = &rest[frame.len()..];
        }
        prop_assert!(rest.is_empty());
    }
}
