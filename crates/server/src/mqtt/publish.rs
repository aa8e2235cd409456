//! PUBLISH from clients.

use super::{Client, protocol_error};
use crate::link::Link;
use crate::session::Received;
use crate::shard::{End, Turn};
use meridian_broker::{Counter, Outcome, Publication};
use meridian_mqtt::decode::decode;
use meridian_mqtt::packet::{Ack, Publish};
use meridian_mqtt::{Packet, ReasonCode, Version, encode};
use meridian_types::Qos;
use std::sync::Arc;

const PUBACK_SUCCESS: [u8; 2] = [super::PUBACK, 2];

impl Client {
    pub(super) fn handle_publish(
        &mut self,
        link: &Arc<Link>,
        turn: &mut Turn,
        first_byte: u8,
        body: &[u8],
    ) -> Result<(), End> {
        let Packet::Publish(publish) = decode(self.version, first_byte, body)? else {
            return Err(protocol_error("not a PUBLISH"));
        };
        if !publish.subscription_ids.is_empty() {
            return Err(protocol_error("PUBLISH: a subscription identifier from a client [MQTT-3.3.4-6]"));
        }
        match publish.qos {
            Qos::AtMostOnce => {
                turn.context.counters.add(Counter::PublishedQos0, 1);
                self.publish(turn, &publish)?;
            }
            Qos::AtLeastOnce => {
                turn.context.counters.add(Counter::PublishedQos1, 1);
                let reason = self.publish(turn, &publish)?;
                let [high, low] = publish.packet_id.to_be_bytes();
                if reason == ReasonCode::Success || self.version == Version::V311 {
                    let [kind, len] = PUBACK_SUCCESS;
                    turn.replies.extend_from_slice(&[kind, len, high, low]);
                } else {
                    turn.replies.extend_from_slice(&[super::PUBACK, 3, high, low, reason.byte()]);
                }
            }
            Qos::ExactlyOnce => self.handle_exactly_once(link, turn, &publish)?,
        }
        Ok(())
    }

    /// QoS 2, method A of §4.3.3: publish at the first PUBLISH, and remember the id until PUBREL.
    fn handle_exactly_once(
        &mut self,
        link: &Arc<Link>,
        turn: &mut Turn,
        publish: &Publish<'_>,
    ) -> Result<(), End> {
        let id = publish.packet_id;
        let mut reason = ReasonCode::Success;
        match self.session.receive(link, id, self.receive_maximum) {
            Received::New => {
                turn.context.counters.add(Counter::PublishedQos2, 1);
                reason = self.publish(turn, publish)?;
            }
            Received::Again => {}
            Received::TooMany => {
                let what = format!(
                    "more than {} QoS 2 messages without PUBREL, the receive maximum of CONNACK",
                    self.receive_maximum
                );
                return Err(End::Protocol { reason: ReasonCode::ReceiveMaximumExceeded, what });
            }
            Received::Stale => return Ok(()),
        }
        let ack = Ack { packet_id: id, reason, ..Ack::default() };
        encode::encode(&Packet::Pubrec(ack), self.version, &mut turn.replies);
        Ok(())
    }

    /// Publishes and says what the acknowledgement is to report.
    fn publish(&mut self, turn: &mut Turn, publish: &Publish<'_>) -> Result<ReasonCode, End> {
        let topic = self.aliases.resolve(publish.topic, publish.topic_alias, self.alias_maximum).map_err(
            |reason| {
                let alias = publish.topic_alias.unwrap_or_default();
                let what = match reason {
                    ReasonCode::TopicAliasInvalid => {
                        format!(
                            "topic alias {alias} is outside 1 to {}, the maximum of CONNACK",
                            self.alias_maximum
                        )
                    }
                    _ => format!("topic alias {alias} was never set"),
                };
                End::Protocol { reason, what }
            },
        )?;
        if topic.starts_with(super::RESERVED) {
            turn.context.counters.add(Counter::PublishRefusedReserved, 1);
            return Ok(ReasonCode::NotAuthorized);
        }
        let mut publication = Publication::new(topic, publish.payload, turn.context.now, publish.expiry_secs);
        publication.qos = publish.qos;
        publication.retain = publish.retain;
        publication.properties = publish.properties.as_deref();
        publication.publisher = self.session.id;
        publication.client_hash = self.session.client_hash;
        let outcome = turn.node.publish(&mut turn.context, &mut publication);
        Ok(match outcome {
            // Delivered, but the publisher must know that it is not kept.
            Outcome { retain_refused: true, .. } => ReasonCode::QuotaExceeded,
            Outcome { matched: true, .. } => ReasonCode::Success,
            Outcome { matched: false, .. } => ReasonCode::NoMatchingSubscribers,
        })
    }
}
