//! MQTT sessions: what the broker's dispatch offers messages to.
//!
//! A session's state is under one lock: its connection's outbox, what is in flight, what is queued. A delivery takes
//! it once. The parts: [`delivery`] puts messages into the outbox or the queue, [`acks`] takes what the client
//! acknowledges, [`lifecycle`] attaches, detaches and ends.

mod acks;
mod delivery;
mod lifecycle;
mod queue;
#[cfg(test)]
mod tests;

pub(crate) use acks::{Acknowledgement, Kind};
pub(crate) use delivery::take_dropped;
pub(crate) use lifecycle::{Attach, Ended, Will};
pub(crate) use queue::Queue;

use crate::link::Link;
use crate::outbox::Outbox;
use crate::settings::QueueLimits;
use meridian_broker::broker::Handle;
use meridian_broker::target::Delivery;
use meridian_broker::{Encodings, Group, Publication, Readiness, Target, Terms, Verdict};
use meridian_mqtt::{AliasesOut, Inflight, ReasonCode, Version};
use meridian_router::{FilterId, TargetId};
use meridian_types::limits::MQTT_PACKET_BYTES_MAX;
use meridian_types::{Instant, Qos};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashSet;
use std::sync::Arc;

/// A session that outlives every connection.
pub(crate) const EXPIRES_NEVER: u32 = u32::MAX;

/// A client's session.
pub(crate) struct Session {
    pub(crate) id: TargetId,
    pub(crate) client_id: Box<str>,
    state: Mutex<State>,
}

/// Called when a publisher that had to wait may go on.
type Resume = Box<dyn FnOnce() + Send>;

struct State {
    /// The connection, while there is one.
    link: Option<Arc<Link>>,
    outbox: Outbox,
    /// Whether some thread has promised to flush.
    is_touched: bool,
    /// Whether the connection was told to end, and its event loop has yet to notice.
    is_leaving: bool,
    has_ended: bool,
    version: Version,
    packet_bytes_max: usize,
    inflight: Inflight<Box<Delivery>>,
    queue: Queue,
    limits: Arc<QueueLimits>,
    /// Seconds the session outlives its connection.
    expiry_secs: u32,
    subscriptions: Vec<FilterId>,
    rare: Option<Box<Rare>>,
}

/// What most sessions never have.
#[derive(Default)]
struct Rare {
    aliases: Option<AliasesOut>,
    groups: Vec<Arc<Group>>,
    /// QoS 2 messages received and not yet released.
    received: HashSet<u16>,
    will: Option<Box<Will>>,
    will_due: Option<Instant>,
    expires: Option<Instant>,
    /// When the session's entry in the timing wheel fires, if it has one.
    timer_due: Option<Instant>,
    waiting: Vec<Resume>,
}

impl Session {
    pub(crate) fn new(id: TargetId, client_id: &str, limits: Arc<QueueLimits>) -> Self {
        let state = State {
            link: None,
            outbox: Outbox::default(),
            is_touched: false,
            is_leaving: false,
            has_ended: false,
            version: Version::V311,
            packet_bytes_max: MQTT_PACKET_BYTES_MAX,
            inflight: Inflight::new(u16::MAX),
            queue: Queue::default(),
            limits,
            expiry_secs: 0,
            subscriptions: Vec::new(),
            rare: None,
        };
        Self { id, client_id: client_id.into(), state: Mutex::new(state) }
    }

    /// Remembers a subscription; false if the session has as many as it may.
    pub(crate) fn has_room_for_subscription(&self, count_max: usize) -> bool {
        let state = self.state.lock();
        state.subscriptions.len() + state.rare.as_ref().map_or(0, |rare| rare.groups.len()) < count_max
    }

    /// Remembers a new subscription.
    pub(crate) fn add_subscription(&self, handle: Handle) {
        let mut state = self.state.lock();
        match handle {
            Handle::Filter(filter) => state.subscriptions.push(filter),
            Handle::Group(group) => state.rare().groups.push(group),
        }
    }

    /// Forgets a subscription that the broker has ended.
    pub(crate) fn forget_subscription(&self, handle: &Handle) {
        let mut state = self.state.lock();
        match handle {
            Handle::Filter(filter) => {
                if let Some(position) = state.subscriptions.iter().position(|other| other == filter) {
                    state.subscriptions.swap_remove(position);
                }
            }
            Handle::Group(group) => state.rare().groups.retain(|other| !Arc::ptr_eq(other, group)),
        }
    }

    /// Appends control packets for the client; they are exempt from the limits of messages. Returns whether the
    /// caller has to flush.
    pub(crate) fn reply(&self, link: &Arc<Link>, packets: &[u8]) -> bool {
        let mut state = self.state.lock();
        if !state.is_linked_to(link) {
            return false;
        }
        state.outbox.filling().append(packets);
        !std::mem::replace(&mut state.is_touched, true)
    }

    /// Appends WebSocket control frames. Returns whether the caller has to flush.
    pub(crate) fn reply_control(&self, link: &Arc<Link>, frames: &[u8]) -> bool {
        let mut state = self.state.lock();
        if !state.is_linked_to(link) {
            return false;
        }
        state.outbox.append_control(frames);
        !std::mem::replace(&mut state.is_touched, true)
    }

    /// Whether so much waits for the client that its own requests should wait too.
    pub(crate) fn is_over_high_water(&self) -> bool {
        let state = self.state.lock();
        state.outbox.is_blocked() && state.outbox.len() > state.limits.outbox_bytes_max
    }

    /// The socket has room again.
    pub(crate) fn on_writable(&self) {
        let mut state = self.state.lock();
        state.outbox.unblock();
        self.write_out(state);
    }

    /// Whether the socket took no more at the last write.
    pub(crate) fn is_blocked(&self) -> bool {
        self.state.lock().outbox.is_blocked()
    }

    /// Whether its queue is within its limits.
    pub(crate) fn has_queue_room(&self) -> bool {
        let state = self.state.lock();
        state.queue.len() < state.limits.messages_max && state.queue.bytes() < state.limits.bytes_max
    }

    /// Whether anything waits to be written.
    pub(crate) fn has_output(&self) -> bool {
        let state = self.state.lock();
        state.link.is_some() && state.outbox.len() > 0
    }

    /// Messages that wait and bytes of them, for statistics.
    pub(crate) fn queued(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.queue.len(), state.queue.bytes())
    }

    /// Writes until the outbox and what the queue adds to it are empty, or the socket is full. The lock is not held
    /// during the system call.
    fn write_out<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        loop {
            let Some(link) = state.link.clone().filter(|_| !state.is_leaving) else { return };
            let Some(mut buffer) = state.outbox.begin(link.framing) else { return };
            drop(state);
            let result = buffer.write_to(&link.socket);
            state = self.state.lock();
            if state.is_leaving || !state.is_linked_to(&link) {
                drop(state);
                link.say_farewell(matches!(result, Ok(true)));
                return;
            }
            if result.is_err() {
                // The socket is dead; its event loop hears of it as well and detaches.
                state.outbox = Outbox::default();
                return;
            }
            let goes_on = state.outbox.finish(buffer);
            let has_pumped = state.pump();
            let resume = state.take_waiting_if_low();
            if !resume.is_empty() {
                drop(state);
                resume.into_iter().for_each(|resume| resume());
                state = self.state.lock();
            }
            if !goes_on && !has_pumped {
                return;
            }
        }
    }
}

impl State {
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    fn is_linked_to(&self, link: &Arc<Link>) -> bool {
        self.link.as_ref().is_some_and(|own| Arc::ptr_eq(own, link))
    }

    /// Whether messages can be sent to the client.
    #[inline]
    fn is_connected(&self) -> bool {
        self.link.is_some() && !self.is_leaving
    }

    /// Whether the session outlives its connection, so that unacknowledged messages are kept.
    fn is_persistent(&self) -> bool {
        self.expiry_secs > 0
    }

    /// Whether publishers that wait may go on: at half of every limit.
    fn is_low(&self) -> bool {
        self.queue.len() <= self.limits.messages_max / 2
            && self.queue.bytes() <= self.limits.bytes_max / 2
            && self.outbox.len() <= self.limits.outbox_bytes_max / 2
    }

    fn take_waiting_if_low(&mut self) -> Vec<Resume> {
        match &mut self.rare {
            Some(rare) if !rare.waiting.is_empty() => {}
            _ => return Vec::new(),
        }
        if self.is_low() { std::mem::take(&mut self.rare().waiting) } else { Vec::new() }
    }
}

impl Target for Session {
    fn offer(&self, publication: &mut Publication<'_>, terms: &Terms, encodings: &mut Encodings) -> Verdict {
        let qos = publication.qos.min(terms.qos);
        let mut state = self.state.lock();
        if state.can_send(qos) {
            return state.send(publication, qos, terms, encodings);
        }
        state.enqueue(publication, qos, terms, self.id)
    }

    fn flush(&self) {
        let mut state = self.state.lock();
        state.is_touched = false;
        self.write_out(state);
    }

    fn readiness(&self) -> Readiness {
        let state = self.state.lock();
        if state.has_ended {
            Readiness::Gone
        } else if !state.is_connected() {
            if state.is_persistent() { Readiness::Away } else { Readiness::Gone }
        } else if state.can_send(Qos::AtLeastOnce) && !state.outbox.is_blocked() {
            Readiness::Ready
        } else {
            Readiness::Slow
        }
    }

    fn load(&self) -> usize {
        let state = self.state.lock();
        state.inflight.len() + state.queue.len()
    }

    fn cut_off(&self) {
        self.state.lock().evict(ReasonCode::QuotaExceeded);
    }

    fn when_there_is_room(&self, resume: Box<dyn FnOnce() + Send>) -> bool {
        let mut state = self.state.lock();
        if state.has_ended || !state.is_connected() || state.is_low() {
            return false;
        }
        state.rare().waiting.push(resume);
        true
    }
}
