//! MQTT sessions: what the broker's dispatch offers messages to.
//!
//! A session's state is under one lock: its connection's outbox, what is in flight, what is queued. A delivery takes
//! it once. The parts: [`delivery`] puts messages into the outbox or the queue, [`acks`] takes what the client
//! acknowledges, [`lifecycle`] attaches, detaches and ends.

mod acks;
mod delivery;
mod lifecycle;
mod queue;
mod received;
mod replay;
mod subscriptions;
#[cfg(test)]
mod tests;

pub(crate) use acks::{Acknowledgement, Kind, Received};
pub(crate) use delivery::take_pumped;
pub(crate) use lifecycle::{Attach, Draining, Ended, Will};
pub(crate) use queue::Queue;
pub(crate) use replay::{Owed, PAGE_TOPICS_MAX, Replay};
pub(crate) use subscriptions::SubscriptionError;

use crate::link::Link;
use crate::outbox::Outbox;
use crate::settings::QueueLimits;
use foldhash::fast::FixedState;
use meridian_broker::target::Delivery;
use meridian_broker::{Encodings, Group, Publication, Readiness, Target, Terms, Verdict, Waiter};
use meridian_mqtt::{AliasesOut, Inflight, ReasonCode, Version};
use meridian_router::{FilterId, TargetId};
use meridian_types::limits::MQTT_PACKET_BYTES_MAX;
use meridian_types::memory::Held;
use meridian_types::{Instant, Qos};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Writes to one socket before others get theirs.
const WRITES_PER_FLUSH: usize = 4;
/// A session that outlives every connection.
pub(crate) const EXPIRES_NEVER: u32 = u32::MAX;

/// A client's session.
pub(crate) struct Session {
    pub(crate) id: TargetId,
    pub(crate) client_id: Box<str>,
    /// What stands for the client id in messages.
    pub(crate) client_hash: u64,
    /// Set before each write and until one has emptied the outbox.
    is_writing_or_blocked: AtomicBool,
    state: Mutex<State>,
}

/// Whether the connection is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// DISCONNECT is the last thing in the outbox; nothing is added to it.
    Told,
    /// It was closed from outside, and its event loop has yet to notice.
    Evicted,
}

/// What somebody who does not read from a socket waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitsFor {
    /// A publisher, for room in queue and outbox.
    Queue,
    /// The client's own connection, for room in the outbox alone: what its queue waits for are its acknowledgements.
    Outbox,
}

struct State {
    /// The connection, while there is one.
    link: Option<Arc<Link>>,
    outbox: Outbox,
    /// Whether some thread has promised to flush.
    is_touched: bool,
    leaving: Leaving,
    has_ended: bool,
    version: Version,
    packet_bytes_max: usize,
    inflight: Inflight<Arc<Kept>>,
    queue: Queue,
    limits: Arc<QueueLimits>,
    /// Seconds the session outlives its connection.
    expiry_secs: u32,
    subscriptions: Vec<FilterId>,
    /// Counts those and memberships of share groups, with what they take in the index.
    subscriptions_held: Held,
    rare: Option<Box<Rare>>,
}

/// A delivery in flight, kept in case that it has to be sent again.
struct Kept {
    delivery: Delivery,
    /// Counts this; the message counts by itself.
    _held: Held,
}

impl Kept {
    fn new(delivery: Delivery) -> Arc<Self> {
        Arc::new(Self { delivery, _held: Held::new(size_of::<Self>()) })
    }
}

/// What most sessions never have.
#[derive(Default)]
struct Rare {
    aliases: Option<AliasesOut>,
    groups: HashMap<TargetId, Arc<Group>>,
    /// QoS 2 messages received and not yet released.
    received: received::PacketIds,
    will: Option<Box<Will>>,
    will_due: Option<Instant>,
    expires: Option<Instant>,
    /// What the session's entry in the timing wheel is for, if it has one; entries for other moments are stale.
    timer_due: Option<Instant>,
    waiting: Vec<(WaitsFor, Waiter)>,
}

/// What stands for a client id in messages: the same on every connection, and on every node.
pub(crate) fn client_hash(client_id: &str) -> u64 {
    FixedState::with_seed(0).hash_one(client_id)
}

impl Session {
    pub(crate) fn new(id: TargetId, client_id: &str, limits: Arc<QueueLimits>) -> Self {
        let state = State {
            link: None,
            outbox: Outbox::default(),
            is_touched: false,
            leaving: Leaving::No,
            has_ended: false,
            version: Version::V311,
            packet_bytes_max: MQTT_PACKET_BYTES_MAX,
            inflight: Inflight::new(u16::MAX),
            queue: Queue::default(),
            limits,
            expiry_secs: 0,
            subscriptions: Vec::new(),
            subscriptions_held: Held::default(),
            rare: None,
        };
        let client_hash = client_hash(client_id);
        Self {
            id,
            client_id: client_id.into(),
            client_hash,
            is_writing_or_blocked: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    /// A SUBSCRIBE begins that may be owed retained messages: until [`Session::end_subscribe`], what is published waits
    /// behind them.
    pub(crate) fn begin_subscribe(&self) {
        self.state.lock().queue.begin_subscribe();
    }

    /// The SUBSCRIBE that came over `link` has been answered, and these are the retained messages owed for it. Returns
    /// whether the caller has to flush.
    pub(crate) fn end_subscribe(&self, link: &Arc<Link>, owed: Owed) -> bool {
        let mut state = self.state.lock();
        // None of another connection's: its client never saw the answer.
        let replays = if state.is_linked_to(link) { owed.into_replays() } else { Vec::new() };
        state.queue.end_subscribe(replays);
        state.pump() && !std::mem::replace(&mut state.is_touched, true)
    }

    /// The client has unsubscribed from a filter: what its subscription was still owed is not sent any more.
    pub(crate) fn cancel_replay(&self, filter: &str) {
        self.state.lock().queue.cancel_replay(filter);
    }

    /// Appends control packets for the client; they are exempt from the limits of messages. Returns whether the
    /// caller has to flush.
    pub(crate) fn reply(&self, link: &Arc<Link>, packets: &[u8]) -> bool {
        self.append_if_linked(link, |outbox| {
            outbox.filling().append(packets);
        })
    }

    /// Appends WebSocket control frames. Returns whether the caller has to flush.
    pub(crate) fn reply_control(&self, link: &Arc<Link>, frames: &[u8]) -> bool {
        self.append_if_linked(link, |outbox| outbox.append_control(frames))
    }

    fn append_if_linked(&self, link: &Arc<Link>, append: impl FnOnce(&mut Outbox)) -> bool {
        let mut state = self.state.lock();
        if !state.is_linked_to(link) || state.leaving != Leaving::No {
            return false;
        }
        append(&mut state.outbox);
        !std::mem::replace(&mut state.is_touched, true)
    }

    /// Whether so much waits for the client that its own requests should wait too.
    pub(crate) fn is_over_high_water(&self) -> bool {
        let state = self.state.lock();
        state.outbox.is_blocked() && state.outbox.len() > state.limits.outbox_bytes_max
    }

    /// Has the waiter called when half the outbox is free. False, without keeping it, if it is already.
    pub(crate) fn when_outbox_is_low(&self, waiter: Waiter) -> bool {
        let mut state = self.state.lock();
        if !state.is_connected() || state.is_outbox_low() {
            return false;
        }
        state.add_waiter(WaitsFor::Outbox, waiter);
        true
    }

    /// The socket has room again. The kernel says so with every event; it means something only if the last write
    /// found none, or one is under way that may. Returns whether the caller has to flush.
    pub(crate) fn on_writable(&self) -> bool {
        if !self.is_writing_or_blocked.load(Acquire) {
            return false;
        }
        let mut state = self.state.lock();
        state.outbox.unblock();
        self.write_out(state)
    }

    /// Whether the entry for `due` in the timing wheel still means something to it. If not, the caller drops the entry.
    pub(crate) fn awaits_timer(&self, due: Instant) -> bool {
        let mut state = self.state.lock();
        if state.has_ended || state.link.is_some() {
            // A connection that ends later has to ask for a new entry.
            state.take_timer(due);
            return false;
        }
        state.rare.as_ref().is_some_and(|rare| rare.timer_due == Some(due))
    }

    /// Messages that wait and bytes of them, for statistics.
    pub(crate) fn queued(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.queue.len(), state.queue.bytes())
    }

    /// Writes until the outbox and what the queue adds to it are empty, the socket is full, or it has had its due.
    /// The lock is not held during the system call. Returns whether the caller has to flush it again.
    fn write_out<'a>(&'a self, mut state: MutexGuard<'a, State>) -> bool {
        for _ in 0..WRITES_PER_FLUSH {
            let Some(link) = state.link.clone() else { return false };
            let Some(mut outgoing) = state.outbox.begin(link.framing) else {
                // A replay may have looked at a page and found nothing that it could send.
                if state.outbox.is_idle() && state.pump() {
                    continue;
                }
                return false;
            };
            self.is_writing_or_blocked.store(true, Release);
            drop(state);
            let result = outgoing.write_to(&link.socket);
            state = self.state.lock();
            if state.leaving == Leaving::Evicted || !state.is_linked_to(&link) {
                drop(state);
                link.say_farewell(matches!(result, Ok(true)));
                return false;
            }
            if result.is_err() {
                // The socket is dead; its event loop hears of it as well and detaches, unless it waits for room there.
                state.outbox = Outbox::default();
                let resume = state.take_waiting_if_low();
                drop(state);
                resume.into_iter().for_each(|waiter| (waiter.resume)());
                return false;
            }
            let goes_on = state.outbox.finish(outgoing);
            self.is_writing_or_blocked.store(state.outbox.is_blocked(), Release);
            let (has_pumped, resume) = state.pump_and_take_waiting();
            if !resume.is_empty() {
                drop(state);
                resume.into_iter().for_each(|waiter| (waiter.resume)());
                state = self.state.lock();
            }
            if !goes_on && !has_pumped {
                return false;
            }
        }
        // Others wait for their flush: this one comes again after them, unless somebody else has promised it.
        !std::mem::replace(&mut state.is_touched, true)
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
        self.link.is_some() && self.leaving == Leaving::No
    }

    /// Whether the session outlives its connection, so that unacknowledged messages are kept.
    fn is_persistent(&self) -> bool {
        self.expiry_secs > 0
    }

    /// Whether publishers that wait may go on: at half of every limit.
    fn is_low(&self) -> bool {
        self.queue.len() <= self.limits.messages_max / 2
            && self.queue.bytes() <= self.kept_bytes_max() / 2
            && self.is_outbox_low()
    }

    fn is_outbox_low(&self) -> bool {
        self.outbox.len() <= self.limits.outbox_bytes_max / 2
    }

    fn add_waiter(&mut self, waits_for: WaitsFor, waiter: Waiter) {
        let waiting = &mut self.rare().waiting;
        waiting.retain(|(_, other)| other.id != waiter.id);
        waiting.push((waits_for, waiter));
    }

    /// Whether the client's own requests wait for its outbox to get low.
    fn does_client_wait(&self) -> bool {
        self.rare
            .as_ref()
            .is_some_and(|rare| rare.waiting.iter().any(|(waits_for, _)| *waits_for == WaitsFor::Outbox))
    }

    /// Pumps, and takes those who need not wait any longer: before, when the outbox is low, and after, when the queue
    /// is.
    #[inline]
    fn pump_and_take_waiting(&mut self) -> (bool, Vec<Waiter>) {
        if !self.has_waiting() {
            return (self.pump(), Vec::new());
        }
        let mut resume = self.take_waiting_if_low();
        let has_pumped = self.pump();
        resume.extend(self.take_waiting_if_low());
        (has_pumped, resume)
    }

    #[inline]
    fn has_waiting(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.waiting.is_empty())
    }

    /// Those who need not wait any longer; they are called when the lock is released.
    fn take_waiting_if_low(&mut self) -> Vec<Waiter> {
        if !self.has_waiting() || !self.is_outbox_low() {
            return Vec::new();
        }
        let is_low = self.is_low();
        let (ready, waiting) = std::mem::take(&mut self.rare().waiting)
            .into_iter()
            .partition(|(waits_for, _)| is_low || *waits_for == WaitsFor::Outbox);
        self.rare().waiting = waiting;
        ready.into_iter().map(|(_, waiter)| waiter).collect()
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

    fn flush(&self) -> bool {
        let mut state = self.state.lock();
        state.is_touched = false;
        self.write_out(state)
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

    fn when_there_is_room(&self, waiter: Waiter) -> bool {
        let mut state = self.state.lock();
        if state.has_ended || !state.is_connected() || state.is_low() {
            return false;
        }
        state.add_waiter(WaitsFor::Queue, waiter);
        true
    }
}
