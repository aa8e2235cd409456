//! SUBSCRIBE and UNSUBSCRIBE.

use super::Client;
use crate::link::Link;
use crate::session::{Owed, PAGE_TOPICS_MAX, Replay, SubscriptionError};
use crate::shard::{End, Turn};
use meridian_broker::broker::Handle;
use meridian_broker::{Counter, SubscribeOptions, Target, Terms};
use meridian_mqtt::packet::{FilterRequest, RetainHandling, Suback, Subscribe, Unsubscribe};
use meridian_mqtt::{Packet, ReasonCode, Version, encode};
use meridian_types::{Qos, SharedFilter, TopicError};
use std::sync::Arc;

impl Client {
    pub(super) fn handle_subscribe(
        &self,
        link: &Arc<Link>,
        turn: &mut Turn,
        subscribe: &Subscribe<'_>,
    ) -> Result<(), End> {
        self.require_room_for_reasons("SUBSCRIBE", subscribe.filters.len())?;
        // Held from before the subscriptions exist: a message that is published right after must not overtake the
        // retained one of its topic.
        let may_owe = subscribe.filters.iter().any(|one| one.retain_handling != RetainHandling::Never);
        if may_owe {
            self.session.begin_subscribe();
        }
        let mut owed = Owed::default();
        let mut problem = None;
        let mut reasons = Vec::with_capacity(subscribe.filters.len());
        let count_max = turn.settings.config.mqtt.subscriptions_max;
        for (number, request) in subscribe.filters.iter().enumerate() {
            // So many name some again: others do not wait until millions of filters are gone through.
            let outcome = if number < count_max {
                self.subscribe(turn, request, subscribe.subscription_id, &mut owed)
            } else {
                turn.context.counters.add(Counter::SubscribeRefusedLimit, 1);
                Err(too_many(count_max))
            };
            let reason = match outcome {
                Ok(qos) => granted(qos),
                Err((reason, what)) => {
                    problem.get_or_insert(what);
                    if self.version == Version::V5 { reason } else { ReasonCode::UnspecifiedError }
                }
            };
            reasons.push(reason);
        }
        self.reply_with_reasons(turn, Packet::Suback, subscribe.packet_id, problem.as_deref(), reasons);
        if may_owe {
            // Clients expect the answer before the first message.
            self.send_replies(link, turn);
            // A page is read at once.
            turn.context.count_as_offers(if owed.is_empty() { 0 } else { PAGE_TOPICS_MAX });
            if self.session.end_subscribe(link, owed) {
                turn.touch(&self.session);
            }
        }
        Ok(())
    }

    /// An answer whose reason codes alone are more than the client takes cannot be sent [MQTT-3.1.2-24]: then nothing
    /// is done either, and the client is told by the end of its connection.
    fn require_room_for_reasons(&self, request: &str, count: usize) -> Result<(), End> {
        /// Fixed header, packet id and an empty property length, at most.
        const HEADER_BYTES_MAX: usize = 8;
        let bytes_max = self.packet_bytes_max as usize;
        if HEADER_BYTES_MAX + count <= bytes_max {
            return Ok(());
        }
        let suback = Suback { reasons: vec![ReasonCode::Success; count], ..Suback::default() };
        let mut packet = Vec::new();
        encode::encode(&Packet::Suback(suback), self.version, &mut packet);
        if packet.len() <= bytes_max {
            return Ok(());
        }
        let what = format!(
            "{request}: the answer to {count} filters takes {} bytes, over your maximum packet size of {bytes_max}",
            packet.len()
        );
        Err(End::Protocol { reason: ReasonCode::PacketTooLarge, what })
    }

    /// Answers with SUBACK or UNSUBACK, with a reason string if it is wanted and fits [MQTT-3.9.2-1] [MQTT-3.11.2-1].
    fn reply_with_reasons<'a>(
        &self,
        turn: &mut Turn,
        packet: fn(Suback<'a>) -> Packet<'a>,
        packet_id: u16,
        problem: Option<&'a str>,
        reasons: Vec<ReasonCode>,
    ) {
        let wanted = problem.filter(|_| self.version == Version::V5 && self.wants_problem_information);
        let ack = Suback { packet_id, reason_string: wanted, user_properties: Vec::new(), reasons };
        let at = turn.replies.len();
        encode::encode(&packet(ack.clone()), self.version, &mut turn.replies);
        if turn.replies.len() - at > self.packet_bytes_max as usize {
            turn.replies.truncate(at);
            encode::encode(&packet(Suback { reason_string: None, ..ack }), self.version, &mut turn.replies);
        }
    }

    /// One filter of a SUBSCRIBE: the QoS granted, or the reason code and text of the refusal. Adds to `owed` the
    /// retained messages that it entails.
    fn subscribe(
        &self,
        turn: &mut Turn,
        request: &FilterRequest<'_>,
        id: Option<u32>,
        owed: &mut Owed,
    ) -> Result<Qos, (ReasonCode, String)> {
        let filter = SharedFilter::parse(request.filter).map_err(|error| {
            turn.context.counters.add(Counter::SubscribeRefusedInvalid, 1);
            (ReasonCode::TopicFilterInvalid, format!("filter {:?}: {error}", request.filter))
        })?;
        let options = SubscribeOptions {
            qos: request.qos,
            no_local: request.no_local,
            retain_as_published: request.retain_as_published,
            id: id.unwrap_or(0),
        };
        let target = self.session.clone() as Arc<dyn Target>;
        let ended = || (ReasonCode::UnspecifiedError, "the session has ended".to_owned());
        let count_max = turn.settings.config.mqtt.subscriptions_max;
        let keep = |handle: &Handle| self.session.add_subscription(handle, request.filter, count_max);
        let subscribed = turn.node.broker.subscribe(&target, self.session.id, filter, options, keep);
        let subscribed = subscribed.map_err(|error| {
            if let Some(counter) = counter_of(error) {
                turn.context.counters.add(counter, 1);
            }
            match error {
                SubscriptionError::TooMany => too_many(count_max),
                SubscriptionError::MemoryFull => memory_full(),
                SubscriptionError::Ended => ended(),
            }
        })?;
        let subscribed = subscribed.ok_or_else(ended)?;
        turn.context.counters.add(Counter::Subscribed, 1);
        let wants_retained = match request.retain_handling {
            RetainHandling::Always => true,
            RetainHandling::IfNew => subscribed.is_new,
            RetainHandling::Never => false,
        };
        // A shared subscription gets no retained messages (MQTT 5.0 §4.8.2).
        if wants_retained && filter.group.is_none() {
            let subscription_ids = id.map(|id| Arc::from([id].as_slice()));
            let terms = Terms { qos: request.qos, from_retained: true, subscription_ids, ..Terms::default() };
            let without = request.no_local.then_some(self.session.client_hash);
            let retained = &turn.node.broker.retained;
            let replay = Replay::new(retained, filter.filter, terms, without, turn.context.now);
            replay.into_iter().for_each(|replay| owed.add(replay));
        }
        Ok(request.qos)
    }

    pub(super) fn handle_unsubscribe(
        &self,
        turn: &mut Turn,
        unsubscribe: &Unsubscribe<'_>,
    ) -> Result<(), End> {
        self.require_room_for_reasons("UNSUBSCRIBE", unsubscribe.filters.len())?;
        let target = self.session.clone() as Arc<dyn Target>;
        let mut problem = None;
        let mut ended = Vec::new();
        let mut reasons = Vec::with_capacity(unsubscribe.filters.len());
        for filter in &unsubscribe.filters {
            let reason = match self.unsubscribe(turn, &target, filter) {
                Ok(Some(handle)) => {
                    ended.push((handle, *filter));
                    ReasonCode::Success
                }
                Ok(None) => ReasonCode::NoSubscriptionExisted,
                Err(error) => {
                    problem.get_or_insert_with(|| format!("filter {filter:?}: {error}"));
                    ReasonCode::TopicFilterInvalid
                }
            };
            reasons.push(reason);
        }
        // Together, so that the session's subscriptions are gone through once.
        let mut forgotten = self.session.forget_subscriptions(&ended);
        // What a member that leaves has not been sent yet is for the others.
        let deliveries = std::mem::take(&mut forgotten.deliveries);
        turn.node.broker.redeliver(&mut turn.context, self.session.id, deliveries);
        forgotten.resume_waiting();
        self.reply_with_reasons(turn, Packet::Unsuback, unsubscribe.packet_id, problem.as_deref(), reasons);
        Ok(())
    }

    /// One filter of an UNSUBSCRIBE. `None` if there was no such subscription; else the session has to forget it.
    fn unsubscribe(
        &self,
        turn: &Turn,
        target: &Arc<dyn Target>,
        filter: &str,
    ) -> Result<Option<Handle>, TopicError> {
        let filter = SharedFilter::parse(filter)?;
        let handle = turn.node.broker.unsubscribe(target, self.session.id, filter);
        if handle.is_some() && filter.group.is_none() {
            self.session.cancel_replay(filter.filter.as_str());
        }
        Ok(handle)
    }
}

/// What a refused subscription counts as. None for a session that has ended: nothing was refused to its client, which
/// is gone.
fn counter_of(error: SubscriptionError) -> Option<Counter> {
    match error {
        SubscriptionError::TooMany => Some(Counter::SubscribeRefusedLimit),
        SubscriptionError::MemoryFull => Some(Counter::SubscribeRefusedMemory),
        SubscriptionError::Ended => None,
    }
}

fn too_many(count_max: usize) -> (ReasonCode, String) {
    let what = format!("a session may have {count_max} subscriptions (mqtt.subscriptions_max)");
    (ReasonCode::QuotaExceeded, what)
}

fn memory_full() -> (ReasonCode, String) {
    let what =
        "the server holds as much as it may (server.memory_max), so that only small subscriptions are taken";
    (ReasonCode::QuotaExceeded, what.to_owned())
}

fn granted(qos: Qos) -> ReasonCode {
    match qos {
        Qos::AtMostOnce => ReasonCode::Success,
        Qos::AtLeastOnce => ReasonCode::GrantedQos1,
        Qos::ExactlyOnce => ReasonCode::GrantedQos2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_counts_as_what_caused_it() {
        assert_eq!(counter_of(SubscriptionError::TooMany), Some(Counter::SubscribeRefusedLimit));
        assert_eq!(counter_of(SubscriptionError::MemoryFull), Some(Counter::SubscribeRefusedMemory));
        assert_eq!(counter_of(SubscriptionError::Ended), None);
    }
}
