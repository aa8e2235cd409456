//! Attaching a connection to a session, detaching it, and the session's end.

use super::{EXPIRES_NEVER, Leaving, Rare, Session, State};
use crate::link::Link;
use crate::outbox::{Framing, Outbox};
use crate::settings::QueueLimits;
use meridian_broker::target::Delivery;
use meridian_broker::{Group, Waiter};
use meridian_mqtt::packet::Disconnect;
use meridian_mqtt::{AliasesOut, Packet, ReasonCode, Version, encode};
use meridian_router::FilterId;
use meridian_types::{Instant, Message};
use std::sync::Arc;

/// What to publish if the connection ends without DISCONNECT.
#[derive(Clone, Debug)]
pub(crate) struct Will {
    pub(crate) message: Arc<Message>,
    pub(crate) delay_secs: u32,
    /// Counts from when it is published.
    pub(crate) expiry_secs: Option<u32>,
}

/// What a new connection brings along.
pub(crate) struct Attach {
    pub(crate) link: Arc<Link>,
    pub(crate) version: Version,
    pub(crate) window: u16,
    pub(crate) packet_bytes_max: usize,
    pub(crate) alias_maximum: u16,
    pub(crate) expiry_secs: u32,
    pub(crate) will: Option<Box<Will>>,
    pub(crate) limits: Arc<QueueLimits>,
}

/// How far a connection is when the process stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draining {
    /// The client does not know yet.
    Untold {
        /// Whether messages wait that the outbox or the client's window could not take.
        has_queue: bool,
    },
    /// It has been told; that and what comes before it is being written.
    Writing,
    /// Nothing is left to be written.
    Done,
}

/// What is left to do when a connection or a session is over; done without any lock held.
#[derive(Default)]
pub(crate) struct Ended {
    /// To be published now.
    pub(crate) will: Option<Box<Will>>,
    /// To be unsubscribed: set if the session has ended.
    pub(crate) subscriptions: Vec<FilterId>,
    pub(crate) groups: Vec<Arc<Group>>,
    /// Messages nobody acknowledged, for other members of their groups.
    pub(crate) deliveries: Vec<Delivery>,
    /// Whether the session has ended.
    pub(crate) has_session_ended: bool,
    /// Whether there is more to write than was one connection's due: it has to be flushed again.
    pub(crate) has_more: bool,
    /// When the session wants to be looked at again.
    pub(crate) timer: Option<Instant>,
    waiting: Vec<(super::WaitsFor, Waiter)>,
}

impl Ended {
    /// Lets publishers go on that waited for this session.
    pub(crate) fn resume_waiting(&mut self) {
        self.waiting.drain(..).for_each(|(_, waiter)| (waiter.resume)());
    }
}

impl Session {
    /// Whether a connection with this client id may go on with this session.
    pub(crate) fn is_resumable(&self) -> bool {
        let state = self.state.lock();
        !state.has_ended && state.is_persistent()
    }

    /// Makes `attach.link` the session's connection. An older one is evicted; its will is returned if the client is
    /// owed it. `connack` is the first thing to be sent, before anything is delivered again. `None`, and nothing
    /// happens, if the session has ended meanwhile.
    pub(crate) fn attach(&self, attach: &Attach, connack: &[u8]) -> Option<Ended> {
        let mut state = self.state.lock();
        if state.has_ended {
            return None;
        }
        let mut ended = Ended::default();
        if state.link.is_some() {
            state.evict(ReasonCode::SessionTakenOver);
            // With a delay, the will is discarded: this connection came before it was due [MQTT-3.1.3-9].
            ended.will = state.take_will().filter(|will| will.delay_secs == 0);
        }
        state.outbox = Outbox::default();
        state.link = Some(attach.link.clone());
        state.leaving = Leaving::No;
        state.version = attach.version;
        state.packet_bytes_max = attach.packet_bytes_max;
        state.inflight.reconnect(attach.window);
        state.limits = attach.limits.clone();
        state.expiry_secs = attach.expiry_secs;
        if attach.alias_maximum > 0 || attach.will.is_some() || state.rare.is_some() {
            let rare = state.rare();
            rare.aliases = (attach.alias_maximum > 0).then(|| AliasesOut::new(attach.alias_maximum));
            rare.will = attach.will.clone();
            (rare.will_due, rare.expires) = (None, None);
            // The older connection; this one waits for nothing yet.
            rare.waiting.retain(|(waits_for, _)| *waits_for != super::WaitsFor::Outbox);
        }
        state.outbox.filling().append(connack);
        state.pump();
        state.is_touched = false;
        ended.has_more = self.write_out(state);
        Some(ended)
    }

    /// DISCONNECT over `link`: the will is discarded unless it is wanted [MQTT-3.14.4-3], and the session may get
    /// another expiry interval. False if that is not allowed: from "not at all". Nothing happens if the session has
    /// another connection by now.
    pub(crate) fn say_goodbye(&self, link: &Arc<Link>, wants_will: bool, expiry_secs: Option<u32>) -> bool {
        let mut state = self.state.lock();
        if !state.is_linked_to(link) {
            return true;
        }
        if let Some(expiry_secs) = expiry_secs {
            if state.expiry_secs == 0 && expiry_secs > 0 {
                return false;
            }
            state.expiry_secs = expiry_secs;
        }
        if !wants_will {
            state.take_will();
        }
        true
    }

    /// The process stops: retained messages that are still owed are not sent any more, so that what was published goes
    /// out instead. Returns whether the caller has to flush.
    pub(crate) fn begin_draining(&self, link: &Arc<Link>) -> bool {
        let mut state = self.state.lock();
        if !state.is_linked_to(link) {
            return false;
        }
        state.queue.cancel_replays();
        state.pump() && !std::mem::replace(&mut state.is_touched, true)
    }

    /// How far `link` is on its way to the end.
    pub(crate) fn draining(&self, link: &Arc<Link>) -> Draining {
        let state = self.state.lock();
        if !state.is_linked_to(link) {
            Draining::Done
        } else if state.leaving == Leaving::No {
            Draining::Untold { has_queue: !state.queue.is_empty() }
        } else if state.outbox.len() > 0 {
            Draining::Writing
        } else {
            Draining::Done
        }
    }

    /// Sends `packets` as the last thing on `link`, and as much of it as the socket takes now. Returns whether the
    /// caller has to flush for the rest.
    pub(crate) fn say_last(&self, link: &Arc<Link>, packets: &[u8]) -> bool {
        let mut state = self.state.lock();
        if !state.is_linked_to(link) || state.leaving != Leaving::No {
            return false;
        }
        state.outbox.filling().append(packets);
        state.leaving = Leaving::Told;
        self.write_out(state)
    }

    /// The connection `link` is over. Nothing happens if the session has another by now.
    pub(crate) fn detach(&self, link: &Arc<Link>, now: Instant) -> Ended {
        let mut state = self.state.lock();
        if !state.is_linked_to(link) {
            return Ended::default();
        }
        state.disconnect();
        if !state.is_persistent() {
            return state.end();
        }
        let expiry_secs = state.expiry_secs;
        let rare = state.rare();
        rare.aliases = None;
        rare.expires = (expiry_secs != EXPIRES_NEVER).then(|| now.plus_secs(u64::from(expiry_secs)));
        rare.will_due = rare.will.as_ref().map(|will| now.plus_secs(u64::from(will.delay_secs)));
        let mut ended = state.check_timers(now);
        ended.waiting = std::mem::take(&mut state.rare().waiting);
        ended
    }

    /// An entry in the timing wheel, for `due`, has fired.
    pub(crate) fn on_timer(&self, due: Instant, now: Instant) -> Ended {
        let mut state = self.state.lock();
        if !state.take_timer(due) || state.has_ended || state.link.is_some() {
            // It was stale, or a connection that ends later asks for a new one.
            return Ended::default();
        }
        state.check_timers(now)
    }

    /// Ends the session whatever its state; a connection is evicted with `reason`.
    pub(crate) fn end(&self, reason: ReasonCode) -> Ended {
        let mut state = self.state.lock();
        if state.has_ended {
            return Ended::default();
        }
        state.evict(reason);
        state.end()
    }
}

/// A DISCONNECT that says why is at least this much below the client's maximum packet size.
const REASON_STRING_BYTES_MAX: usize = 256;

/// The DISCONNECT to send; 3.1.1 has none from the server.
fn farewell(version: Version, reason: ReasonCode, packet_bytes_max: usize) -> Option<Vec<u8>> {
    if version != Version::V5 {
        return None;
    }
    let text = match reason {
        ReasonCode::SessionTakenOver => "another connection has the same client id",
        ReasonCode::QuotaExceeded => {
            "too slow: more waits than queue.messages_max or queue.bytes_max allow, and queue.overflow is disconnect"
        }
        _ => "",
    };
    let fits = !text.is_empty() && packet_bytes_max >= REASON_STRING_BYTES_MAX;
    let disconnect = Disconnect { reason, reason_string: fits.then_some(text), ..Disconnect::default() };
    let mut packet = Vec::new();
    encode::encode(&Packet::Disconnect(disconnect), version, &mut packet);
    Some(packet)
}

impl State {
    fn take_will(&mut self) -> Option<Box<Will>> {
        let rare = self.rare.as_mut()?;
        rare.will_due = None;
        rare.will.take()
    }

    /// Takes the connection away, whatever still waits in its outbox.
    fn disconnect(&mut self) {
        self.link = None;
        self.outbox = Outbox::default();
        self.is_touched = false;
    }

    /// Closes the connection from the server's side, with a DISCONNECT if the client's version has one and the
    /// socket takes it.
    pub(super) fn evict(&mut self, reason: ReasonCode) {
        let Some(link) = self.link.clone().filter(|_| self.leaving != Leaving::Evicted) else { return };
        let was_told = std::mem::replace(&mut self.leaving, Leaving::Evicted) == Leaving::Told;
        let farewell = if was_told { None } else { farewell(self.version, reason, self.packet_bytes_max) };
        if self.outbox.is_writing() {
            // Another thread is in the middle of a write: it says goodbye when it is done.
            let framed = farewell.map(|packet| framed(packet, link.framing)).unwrap_or_default();
            link.end_after_write(reason, framed);
        } else {
            if let Some(packet) = farewell {
                self.outbox.filling().append(&packet);
            }
            if let Some(mut buffer) = self.outbox.begin(link.framing) {
                let _ = buffer.write_to(&link.socket);
            }
            link.end(reason);
        }
        // The event loop that owns the connection detaches it, which publishes the will if it is owed. After a
        // takeover it finds another connection here and leaves the session alone.
    }

    /// The entry for `due` has left the timing wheel. False if it was stale.
    pub(super) fn take_timer(&mut self, due: Instant) -> bool {
        let own = self.rare.as_mut().and_then(|rare| rare.timer_due.take_if(|own| *own == due));
        own.is_some()
    }

    /// Publishes the will or ends the session if either is due; else says when to look again.
    fn check_timers(&mut self, now: Instant) -> Ended {
        let rare = self.rare();
        if rare.expires.is_some_and(|expires| expires <= now) {
            return self.end();
        }
        let mut ended = Ended::default();
        if rare.will_due.is_some_and(|due| due <= now) {
            ended.will = self.take_will();
        }
        let rare = self.rare();
        let next = [rare.will_due, rare.expires].into_iter().flatten().min();
        if let Some(next) = next
            && rare.timer_due.is_none_or(|due| next < due)
        {
            rare.timer_due = Some(next);
            ended.timer = Some(next);
        }
        ended
    }

    fn end(&mut self) -> Ended {
        self.disconnect();
        self.has_ended = true;
        let rare = self.rare.take().map(|rare| *rare).unwrap_or_default();
        let Rare { groups, will, waiting, .. } = rare;
        let mut deliveries: Vec<_> =
            self.inflight.take_unacknowledged().iter().map(|kept| kept.delivery.clone()).collect();
        deliveries.extend(self.queue.take());
        self.subscriptions_held.set(0);
        Ended {
            will,
            subscriptions: std::mem::take(&mut self.subscriptions),
            groups: groups.into_values().collect(),
            deliveries,
            has_session_ended: true,
            has_more: false,
            timer: None,
            waiting,
        }
    }
}

fn framed(packet: Vec<u8>, framing: Framing) -> Vec<u8> {
    match framing {
        Framing::Plain => packet,
        Framing::WebSocket => {
            let mut frame = Vec::new();
            meridian_ws::encode_frame(&mut frame, meridian_ws::Opcode::Binary, &packet, None);
            frame
        }
    }
}
