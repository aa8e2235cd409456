//! PUBLISH from clients.

use super::{Client, protocol_error};
use crate::link::Link;
use crate::session::{Received, Session};
use crate::shard::{End, Turn};
use meridian_broker::{Counter, Outcome, Publication};
use meridian_mqtt::decode::decode;
use meridian_mqtt::packet::{Ack, Publish};
use meridian_mqtt::{AliasesIn, Packet, ReasonCode, Version, encode};
use meridian_types::Qos;
use meridian_types::memory::{self, Level};
use std::sync::Arc;

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
        let topic = topic_of(&mut self.aliases, self.alias_maximum, &publish)?;
        let (session, version) = (&self.session, self.version);
        match publish.qos {
            Qos::AtMostOnce => {
                turn.context.counters.add(Counter::PublishedQos0, 1);
                publish_to(topic, session, turn, &publish);
            }
            Qos::AtLeastOnce => {
                turn.context.counters.add(Counter::PublishedQos1, 1);
                let reason = publish_to(topic, session, turn, &publish);
                let [high, low] = publish.packet_id.to_be_bytes();
                if reason == ReasonCode::Success || version == Version::V311 {
                    turn.replies.extend_from_slice(&[super::PUBACK, 2, high, low]);
                } else {
                    turn.replies.extend_from_slice(&[super::PUBACK, 3, high, low, reason.byte()]);
                }
            }
            Qos::ExactlyOnce => {
                let exchange = ExactlyOnce { session, version, link, receive_maximum: self.receive_maximum };
                exchange.handle(turn, topic, &publish)?;
            }
        }
        Ok(())
    }
}

/// What a connection's topic aliases may take whatever the process's memory.
const ALIAS_BYTES_SURE: usize = 4096;

/// The topic a PUBLISH means, its alias resolved.
fn topic_of<'a>(aliases: &'a mut AliasesIn, maximum: u16, publish: &Publish<'a>) -> Result<&'a str, End> {
    let sets_one = publish.topic_alias.filter(|&alias| alias <= maximum && !publish.topic.is_empty());
    if let Some(alias) = sets_one
        && aliases.bytes_with(alias, publish.topic) > ALIAS_BYTES_SURE
        && memory::level() == Level::Full
    {
        let what =
            "there is no memory for another topic alias: the server holds all it may (server.memory_max)";
        return Err(End::MemoryFull { what: what.to_owned() });
    }
    aliases.resolve(publish.topic, publish.topic_alias, maximum).map_err(|reason| {
        let alias = publish.topic_alias.unwrap_or_default();
        let what = match reason {
            ReasonCode::TopicAliasInvalid => {
                format!("topic alias {alias} is outside 1 to {maximum}, the maximum of CONNACK")
            }
            _ => format!("topic alias {alias} was never set"),
        };
        End::Protocol { reason, what }
    })
}

/// QoS 2, method A of §4.3.3: publish at the first PUBLISH, and remember the id until PUBREL.
struct ExactlyOnce<'a> {
    session: &'a Session,
    version: Version,
    link: &'a Arc<Link>,
    receive_maximum: u16,
}

impl ExactlyOnce<'_> {
    fn handle(&self, turn: &mut Turn, topic: &str, publish: &Publish<'_>) -> Result<(), End> {
        let id = publish.packet_id;
        let mut reason = ReasonCode::Success;
        match self.session.receive(self.link, id, self.receive_maximum) {
            Received::New => {
                turn.context.counters.add(Counter::PublishedQos2, 1);
                reason = publish_to(topic, self.session, turn, publish);
                if reason.is_error() && self.version == Version::V5 {
                    // The refusal ends the exchange: the id is free for another message [MQTT-4.3.3-9].
                    self.session.release(self.link, id);
                }
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
}

/// Publishes and says what the acknowledgement is to report.
fn publish_to(topic: &str, session: &Session, turn: &mut Turn, publish: &Publish<'_>) -> ReasonCode {
    if topic.starts_with(super::RESERVED) {
        turn.context.counters.add(Counter::PublishRefusedReserved, 1);
        return ReasonCode::NotAuthorized;
    }
    let mut publication = Publication::new(topic, publish.payload, turn.context.now, publish.expiry_secs);
    publication.qos = publish.qos;
    publication.retain = publish.retain;
    publication.properties = publish.properties.as_deref();
    publication.publisher = session.id;
    publication.client_hash = session.client_hash;
    match turn.node.publish(&mut turn.context, &mut publication) {
        // Delivered, but the publisher must know that it is not kept.
        Outcome { retain_refused: true, .. } => ReasonCode::QuotaExceeded,
        Outcome { matched: true, .. } => ReasonCode::Success,
        Outcome { matched: false, .. } => ReasonCode::NoMatchingSubscribers,
    }
}
