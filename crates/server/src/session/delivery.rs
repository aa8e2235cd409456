//! Messages on their way to the client: into the outbox if it can be sent now, else into the queue.

use super::queue::Next;
use super::{Kept, State, replay};
use crate::clock;
use crate::settings::Overflow;
use meridian_broker::target::Delivery;
use meridian_broker::{Encodings, Publication, Terms, Verdict};
use meridian_mqtt::Version;
use meridian_mqtt::encode::{PublishHead, encode_publish_head, publish_len};
use meridian_mqtt::inflight::Resend;
use meridian_router::TargetId;
use meridian_types::limits::MQTT_PACKET_BYTES_MAX;
use meridian_types::memory::{self, Level};
use meridian_types::{Instant, Message, Qos};
use std::cell::Cell;
use std::sync::Arc;

/// Payloads from this size on may be shared rather than copied.
const SHARED_PAYLOAD_BYTES_MIN: usize = 1024;
/// They are if the copies of one message would take more than this: they would push each other out of the processor's
/// cache, which costs more than one more slice in each write.
const COPIES_BYTES_MAX: usize = 256 * 1024;
/// Payloads from this size on are shared whoever gets them.
const ALWAYS_SHARED_BYTES_MIN: usize = 16 * 1024;
/// What an outbox and a window hold whatever the process's memory: enough to keep a client busy.
const BYTES_SURE: usize = 64 * 1024;
/// With "block", a queue takes this many times its limit from publishers that are yet to be stopped.
const BLOCK_OVERSHOOT: usize = 2;

/// What became of messages on their way out of queues and the retained store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pumped {
    /// They were retained, and went to a new subscription.
    pub(crate) replayed: u64,
    /// Their expiry interval had passed.
    pub(crate) expired: u64,
    /// They were larger than the client takes.
    pub(crate) too_large: u64,
}

thread_local! {
    static PUMPED: Cell<Pumped> = const { Cell::new(Pumped { replayed: 0, expired: 0, too_large: 0 }) };
}

/// What this thread has counted since the last call.
pub(crate) fn take_pumped() -> Pumped {
    PUMPED.take()
}

impl State {
    /// Whether a message can go to the outbox at once: connected, nothing queued before it, room in the outbox and
    /// in the window.
    #[inline]
    pub(super) fn can_send(&self, qos: Qos) -> bool {
        self.is_connected()
            && self.queue.is_empty()
            && self.has_outbox_room()
            && (qos == Qos::AtMostOnce || self.has_inflight_room())
    }

    /// Whether another QoS 1 or 2 message may be sent: by the client's window, and by the bytes kept for redelivery.
    #[inline]
    fn has_inflight_room(&self) -> bool {
        let cost = self.inflight.cost();
        self.inflight.has_room()
            && cost < self.limits.bytes_max
            && (cost < BYTES_SURE || cost < self.kept_bytes_max())
    }

    /// Whether the outbox takes another message. While memory is tight it is kept short.
    #[inline]
    fn has_outbox_room(&self) -> bool {
        let len = self.outbox.len();
        len < self.limits.outbox_bytes_max && (len < BYTES_SURE || memory::level() == Level::Free)
    }

    /// What the session may keep for its client at present: what is configured, or its share while memory is tight.
    pub(super) fn kept_bytes_max(&self) -> usize {
        match memory::level() {
            Level::Free => self.limits.bytes_max,
            Level::Tight | Level::Full => self.limits.bytes_max.min(memory::share()),
        }
    }

    /// Encodes into the outbox. The wire form is shared with all targets of the same version and flags; the packet
    /// id alone differs.
    #[inline]
    pub(super) fn send(
        &mut self,
        publication: &mut Publication<'_>,
        qos: Qos,
        terms: &Terms,
        encodings: &mut Encodings,
    ) -> Verdict {
        if terms.subscription_ids.is_some() || self.rare.as_ref().is_some_and(|rare| rare.aliases.is_some()) {
            return self.send_apart(publication, qos, terms);
        }
        let retain = terms.from_retained || terms.retain_as_published && publication.retain;
        let payload_len = publication.payload.len();
        let is_shared = payload_len >= ALWAYS_SHARED_BYTES_MIN
            || payload_len >= SHARED_PAYLOAD_BYTES_MIN
                && payload_len * publication.fan_out > COPIES_BYTES_MAX;
        let version = self.version;
        if publication.fan_out <= 1 && !is_shared {
            return self.send_to_one(publication, qos, retain, terms);
        }
        let key = u32::from(version == Version::V5)
            | u32::from(qos.bits()) << 1
            | u32::from(retain) << 3
            | u32::from(is_shared) << 4;
        let form = encodings.get(key, |out| {
            let head = head_of(publication, qos, retain);
            let mark = encode_publish_head(&head, payload_len, version, out);
            if !is_shared {
                out.extend_from_slice(publication.payload);
            }
            mark
        });
        if form.bytes.len() + if is_shared { payload_len } else { 0 } > self.packet_bytes_max {
            return Verdict::DroppedTooLarge;
        }
        let at = self.outbox.filling().append(&form.bytes);
        if qos != Qos::AtMostOnce {
            let kept = self.keep(publication, qos, terms);
            let cost = cost_of(&kept);
            let id = self.inflight.send(qos, kept, cost).expect("room was checked");
            self.outbox.filling().patch_u16(at + form.mark, id);
        }
        if is_shared {
            self.outbox.filling().append_shared(publication.shared_payload());
        }
        Verdict::Taken { first: !std::mem::replace(&mut self.is_touched, true) }
    }

    /// As [`State::send`] for a message that nobody else gets: straight into the outbox.
    #[inline]
    fn send_to_one(
        &mut self,
        publication: &mut Publication<'_>,
        qos: Qos,
        retain: bool,
        terms: &Terms,
    ) -> Verdict {
        let mut head = head_of(publication, qos, retain);
        // The payload is small, so that only a client's own limit can be exceeded.
        if self.packet_bytes_max < MQTT_PACKET_BYTES_MAX
            && publish_len(&head, publication.payload.len(), self.version) > self.packet_bytes_max
        {
            return Verdict::DroppedTooLarge;
        }
        if qos != Qos::AtMostOnce {
            let kept = self.keep(publication, qos, terms);
            let cost = cost_of(&kept);
            head.packet_id = self.inflight.send(qos, kept, cost).expect("room was checked");
        }
        let version = self.version;
        self.outbox.filling().append_with(|out| {
            encode_publish_head(&head, publication.payload.len(), version, out);
            out.extend_from_slice(publication.payload);
        });
        Verdict::Taken { first: !std::mem::replace(&mut self.is_touched, true) }
    }

    /// What redelivery will need, if there can be one.
    fn keep(&self, publication: &mut Publication<'_>, qos: Qos, terms: &Terms) -> Option<Arc<Kept>> {
        if !self.is_persistent() && terms.group.is_none() {
            return None;
        }
        Some(Kept::new(Delivery { message: publication.message(), terms: Terms { qos, ..terms.clone() } }))
    }

    /// A delivery whose wire form is its own.
    #[cold]
    fn send_apart(&mut self, publication: &mut Publication<'_>, qos: Qos, terms: &Terms) -> Verdict {
        let delivery = Delivery { message: publication.message(), terms: Terms { qos, ..terms.clone() } };
        if self.send_delivery(&delivery, publication.now) {
            Verdict::Taken { first: !std::mem::replace(&mut self.is_touched, true) }
        } else {
            Verdict::DroppedTooLarge
        }
    }

    /// Encodes a kept delivery for the first time. False if it is larger than the client takes.
    fn send_delivery(&mut self, delivery: &Delivery, now: Instant) -> bool {
        let qos = delivery.terms.qos;
        if self.size_of(delivery, now) > self.packet_bytes_max {
            return false;
        }
        let id = if qos == Qos::AtMostOnce {
            0
        } else {
            let keeps = self.is_persistent() || delivery.terms.group.is_some();
            let kept = keeps.then(|| Kept::new(delivery.clone()));
            let cost = cost_of(&kept);
            self.inflight.send(qos, kept, cost).expect("room was checked")
        };
        self.write_publish(delivery, id, false, now);
        true
    }

    /// The packet's size without a topic alias.
    fn size_of(&self, delivery: &Delivery, now: Instant) -> usize {
        let head = head_of_delivery(delivery, 0, false, now);
        publish_len(&head, delivery.message.payload.len(), self.version)
    }

    /// Appends a PUBLISH for a kept delivery.
    pub(super) fn write_publish(&mut self, delivery: &Delivery, id: u16, dup: bool, now: Instant) {
        let message = &delivery.message;
        let mut head = head_of_delivery(delivery, id, dup, now);
        let version = self.version;
        if let Some(aliases) = self.rare.as_mut().and_then(|rare| rare.aliases.as_mut()) {
            // An alias adds to the packet before it saves anything, and a short topic saves less than it adds.
            head.topic_alias = Some(u16::MAX);
            let fits = publish_len(&head, message.payload.len(), version) <= self.packet_bytes_max;
            let assigned = match memory::level() {
                _ if !fits => None,
                Level::Free => aliases.assign(&message.topic),
                // Those there are go on saving bytes; no more are made.
                Level::Tight | Level::Full => aliases.known(&message.topic).map(|alias| (alias, true)),
            };
            head.topic_alias = assigned.map(|(alias, _)| alias);
            if let Some((_, true)) = assigned {
                head.topic = "";
            }
        }
        let filling = self.outbox.filling();
        filling.append_with(|out| {
            encode_publish_head(&head, message.payload.len(), version, out);
        });
        if message.payload.len() >= ALWAYS_SHARED_BYTES_MIN {
            filling.append_shared(message.payload.clone());
        } else {
            filling.append(&message.payload);
        }
    }

    /// Moves what the queue holds to the outbox, as far as outbox and window allow. Returns whether it moved any or has
    /// to be called again for the rest of a replay.
    #[inline]
    pub(super) fn pump(&mut self) -> bool {
        (!self.queue.is_empty() || self.inflight.has_unsent()) && self.pump_what_waits()
    }

    fn pump_what_waits(&mut self) -> bool {
        // A client that waits for its outbox to get low would wait as long as something fills it up again.
        if !self.is_connected() || self.does_client_wait() {
            return false;
        }
        let mut has_moved = self.resend();
        if self.queue.is_empty() {
            return has_moved;
        }
        let now = clock::now();
        let mut turn_left = replay::MESSAGES_PER_TURN;
        while self.has_outbox_room() {
            let qos = match self.queue.next() {
                Next::Nothing => break,
                Next::Delivery(delivery) => delivery.terms.qos,
                Next::Replay(replay) => match replay.next_qos() {
                    Some(qos) => qos,
                    None if replay.is_last_page() => {
                        self.queue.finish_replay();
                        continue;
                    }
                    None if turn_left == 0 => return true,
                    None => {
                        let used = replay.read_page(turn_left, now);
                        turn_left = turn_left.saturating_sub(used);
                        continue;
                    }
                },
            };
            if qos != Qos::AtMostOnce && !self.has_inflight_room() {
                break;
            }
            has_moved |= match self.queue.next() {
                Next::Replay(replay) => {
                    replay.next().is_some_and(|delivery| self.send_retained(&delivery, now))
                }
                _ => self.queue.pop().is_some_and(|delivery| self.send_queued(&delivery, now)),
            };
        }
        has_moved
    }

    fn send_queued(&mut self, delivery: &Delivery, now: Instant) -> bool {
        if delivery.message.is_expired(now) {
            count(|pumped| pumped.expired += 1);
            return false;
        }
        let is_sent = self.send_delivery(delivery, now);
        if !is_sent {
            count(|pumped| pumped.too_large += 1);
        }
        is_sent
    }

    /// What expires in the store is not lost to anybody, so it is not counted.
    fn send_retained(&mut self, delivery: &Delivery, now: Instant) -> bool {
        if delivery.message.is_expired(now) {
            return false;
        }
        let is_sent = self.send_delivery(delivery, now);
        count(|pumped| if is_sent { pumped.replayed += 1 } else { pumped.too_large += 1 });
        is_sent
    }

    /// Puts a message that cannot be sent now into the queue, by the overflow policy.
    #[cold]
    pub(super) fn enqueue(
        &mut self,
        publication: &mut Publication<'_>,
        qos: Qos,
        terms: &Terms,
        own_id: TargetId,
    ) -> Verdict {
        let is_away = !self.is_connected();
        if self.has_ended || is_away && !self.is_persistent() {
            return Verdict::Gone;
        }
        if is_away && qos == Qos::AtMostOnce && !self.limits.offline_qos0 {
            return Verdict::DroppedAway;
        }
        let delivery = Delivery { message: publication.message(), terms: Terms { qos, ..terms.clone() } };
        let size = size_of::<Delivery>() + delivery.message.size();
        let limits = self.limits.clone();
        if size > limits.bytes_max {
            return Verdict::DroppedFull;
        }
        let bytes_max = self.kept_bytes_max();
        let refused =
            if bytes_max < limits.bytes_max { Verdict::DroppedMemory } else { Verdict::DroppedFull };
        if size > bytes_max {
            // It would not fit if all that waits went for it.
            return refused;
        }
        if memory::level() == Level::Full && !self.queue.would_exceed(size, limits.messages_max, bytes_max) {
            // A queue that is at its share may turn over; none may grow.
            return Verdict::DroppedMemory;
        }
        let mut verdict = Verdict::Taken { first: false };
        let mut dropped = 0;
        while self.queue.would_exceed(size, limits.messages_max, bytes_max) {
            match limits.overflow {
                Overflow::DropOldest => {
                    if self.queue.pop().is_none() {
                        return refused;
                    }
                    dropped += 1;
                    verdict = Verdict::TakenForOldest { dropped };
                }
                Overflow::Disconnect if !is_away => return Verdict::CutOff,
                Overflow::Block if !is_away && publication.publisher != own_id => {
                    let overshoot = |limit: usize| limit.saturating_mul(BLOCK_OVERSHOOT);
                    if memory::level() == Level::Full
                        || self.queue.would_exceed(size, overshoot(limits.messages_max), overshoot(bytes_max))
                    {
                        // Memory is no matter of this one queue: waiting for it would not help.
                        let is_queue_full = refused == Verdict::DroppedFull;
                        return if is_queue_full { Verdict::DroppedAndFull } else { refused };
                    }
                    verdict = Verdict::TakenButFull;
                    break;
                }
                Overflow::DropNewest | Overflow::Disconnect | Overflow::Block => return refused,
            }
        }
        self.queue.push(delivery);
        verdict
    }
}

impl State {
    /// Sends again what was in flight when the last connection ended, as far as the window allows. Returns whether it
    /// sent any.
    fn resend(&mut self) -> bool {
        let mut has_sent = false;
        while self.has_outbox_room() {
            let Some((id, resend)) = self.inflight.next_resend() else { break };
            has_sent = true;
            match resend {
                Resend::Publish(kept) => {
                    let (delivery, now) = (&kept.delivery, clock::now());
                    if self.size_of(delivery, now) > self.packet_bytes_max {
                        // As if it were done: the client will never take it [MQTT-3.1.2-25].
                        self.inflight.abandon(id);
                        count(|pumped| pumped.too_large += 1);
                    } else {
                        self.write_publish(delivery, id, true, now);
                    }
                }
                Resend::Pubrel => {
                    let [high, low] = id.to_be_bytes();
                    self.outbox.filling().append(&[0x62, 2, high, low]);
                }
            }
        }
        has_sent
    }
}

/// What a kept delivery is counted with against the limit in bytes.
fn cost_of(kept: &Option<Arc<Kept>>) -> u32 {
    kept.as_ref().map_or(0, |kept| u32::try_from(kept.delivery.message.size()).unwrap_or(u32::MAX))
}

fn count(change: impl FnOnce(&mut Pumped)) {
    let mut pumped = PUMPED.get();
    change(&mut pumped);
    PUMPED.set(pumped);
}

fn head_of<'a>(publication: &Publication<'a>, qos: Qos, retain: bool) -> PublishHead<'a> {
    PublishHead {
        topic: publication.topic,
        dup: false,
        qos,
        retain,
        packet_id: 1, // A placeholder: every copy gets its own.
        topic_alias: None,
        expiry_secs: publication.remaining_expiry_secs(),
        subscription_ids: &[],
        properties: publication.properties,
    }
}

fn head_of_delivery(delivery: &Delivery, packet_id: u16, dup: bool, now: Instant) -> PublishHead<'_> {
    let Delivery { message, terms } = delivery;
    PublishHead {
        topic: &message.topic,
        dup,
        qos: terms.qos,
        retain: retain_flag(message, terms),
        packet_id,
        topic_alias: None,
        expiry_secs: message.remaining_expiry_secs(now),
        subscription_ids: terms.subscription_ids.as_deref().unwrap_or(&[]),
        properties: message.properties.as_deref(),
    }
}

fn retain_flag(message: &Message, terms: &Terms) -> bool {
    terms.from_retained || terms.retain_as_published && message.retain
}
