//! What waits for a client that is slow or away.

use super::replay::{Replay, Replays};
use meridian_broker::Group;
use meridian_broker::target::Delivery;
use meridian_types::memory::Held;
use std::collections::VecDeque;
use std::sync::Arc;

/// Messages in order, counted in number and bytes, and the replays that stand among them. One pointer, since most
/// clients keep up.
///
/// **Invariant:** what waits is there as long as anything waits.
#[derive(Debug, Default)]
pub(crate) struct Queue(Option<Box<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    deliveries: VecDeque<Delivery>,
    bytes: usize,
    /// Messages that have left by the front. A place in the queue is this number plus what stands before it.
    left: u64,
    replays: Replays,
    /// Counts the places; messages count by themselves, once for all queues they wait in.
    held: Held,
}

/// What comes next.
pub(super) enum Next<'a> {
    /// A message.
    Delivery(&'a Delivery),
    /// A replay.
    Replay(&'a mut Replay),
    /// Nothing, or nothing yet: a SUBSCRIBE is being handled.
    Nothing,
}

impl Queue {
    /// Messages that wait.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |waiting| waiting.deliveries.len())
    }

    /// Bytes of the messages, each counted in full although several queues may share it.
    pub(crate) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |waiting| waiting.bytes)
    }

    /// Whether nothing has to go before a message that comes now.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn push(&mut self, delivery: Delivery) {
        self.0.get_or_insert_default().push(delivery);
    }

    /// What has to leave next.
    pub(super) fn next(&mut self) -> Next<'_> {
        self.0.as_mut().map_or(Next::Nothing, |waiting| waiting.next())
    }

    /// Takes the message that has waited longest.
    pub(crate) fn pop(&mut self) -> Option<Delivery> {
        let delivery = self.0.as_mut()?.pop();
        self.forget_if_nothing_waits();
        delivery
    }

    /// Empties it.
    pub(crate) fn take(&mut self) -> VecDeque<Delivery> {
        self.0.take().map_or_else(VecDeque::new, |waiting| waiting.deliveries)
    }

    /// Takes out what is there because of share groups. Cost: one pass.
    pub(crate) fn take_of_groups(&mut self, groups: &[Arc<Group>]) -> Vec<Delivery> {
        let Some(waiting) = &mut self.0 else { return Vec::new() };
        let taken = waiting.take_of_groups(groups);
        self.forget_if_nothing_waits();
        taken
    }

    /// Whether another message of `size` bytes would exceed the limits.
    pub(crate) fn would_exceed(&self, size: usize, messages_max: usize, bytes_max: usize) -> bool {
        self.len() + 1 > messages_max || self.bytes() + size > bytes_max
    }

    fn forget_if_nothing_waits(&mut self) {
        if self.0.as_ref().is_some_and(|waiting| waiting.is_empty()) {
            self.0 = None;
        }
    }
}

/// Replays.
impl Queue {
    /// Keeps the place of a SUBSCRIBE that is being handled: until [`Queue::end_subscribe`], what comes waits behind
    /// it.
    pub(super) fn begin_subscribe(&mut self) {
        let waiting = self.0.get_or_insert_default();
        let place = waiting.left + waiting.deliveries.len() as u64;
        let replays = &mut waiting.replays;
        if replays.pending == 0 {
            replays.pending_at = place;
        }
        replays.pending += 1;
    }

    /// The SUBSCRIBE has been answered: `replays` take its place.
    pub(super) fn end_subscribe(&mut self, owed: Vec<Replay>) {
        self.change_replays(|replays| {
            // None is pending if the session has ended meanwhile.
            if replays.pending > 0 {
                let place = replays.pending_at;
                owed.into_iter().for_each(|replay| replays.add(place, replay));
                replays.pending -= 1;
            }
        });
    }

    /// Ends the replay that is due.
    pub(super) fn finish_replay(&mut self) {
        self.change_replays(Replays::remove_first);
    }

    /// Ends the replay of a filter, if there is one.
    pub(super) fn cancel_replay(&mut self, filter: &str) {
        self.change_replays(|replays| replays.remove(filter));
    }

    /// Ends all replays.
    pub(super) fn cancel_replays(&mut self) {
        self.change_replays(Replays::remove_all);
    }

    fn change_replays(&mut self, change: impl FnOnce(&mut Replays)) {
        if let Some(waiting) = &mut self.0 {
            change(&mut waiting.replays);
            self.forget_if_nothing_waits();
        }
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.deliveries.is_empty() && self.replays.is_empty()
    }

    fn push(&mut self, delivery: Delivery) {
        self.bytes += cost(&delivery);
        self.deliveries.push_back(delivery);
        self.count_places();
    }

    fn count_places(&mut self) {
        self.held.set(self.deliveries.len() * size_of::<Delivery>());
    }

    fn next(&mut self) -> Next<'_> {
        if self.replays.pending > 0 && self.replays.pending_at <= self.left {
            return Next::Nothing;
        }
        if let Some((place, replay)) = self.replays.first()
            && place <= self.left
        {
            return Next::Replay(replay);
        }
        self.deliveries.front().map_or(Next::Nothing, Next::Delivery)
    }

    fn pop(&mut self) -> Option<Delivery> {
        let delivery = self.deliveries.pop_front()?;
        self.bytes -= cost(&delivery);
        self.left += 1;
        if self.deliveries.is_empty() {
            // A replay may go on for long.
            self.deliveries = VecDeque::new();
        }
        self.count_places();
        Some(delivery)
    }

    fn take_of_groups(&mut self, groups: &[Arc<Group>]) -> Vec<Delivery> {
        let mut wanted: Vec<_> = groups.iter().map(Arc::as_ptr).collect();
        wanted.sort_unstable();
        let is_of_group = |delivery: &Delivery| {
            delivery
                .terms
                .group
                .as_ref()
                .is_some_and(|group| wanted.binary_search(&Arc::as_ptr(group)).is_ok())
        };
        let all = std::mem::take(&mut self.deliveries);
        if !self.replays.is_empty() {
            let mut taken_before = 0;
            let taken: Vec<u64> = std::iter::once(0)
                .chain(all.iter().map(|delivery| {
                    taken_before += u64::from(is_of_group(delivery));
                    taken_before
                }))
                .collect();
            let left = self.left;
            self.replays.change_places(|place| {
                let before = usize::try_from(place.saturating_sub(left)).unwrap_or(usize::MAX);
                place - taken[before.min(taken.len() - 1)]
            });
        }
        self.bytes = 0;
        let (taken, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(is_of_group);
        self.held.set(0);
        kept.into_iter().for_each(|delivery| self.push(delivery));
        taken
    }
}

fn cost(delivery: &Delivery) -> usize {
    size_of::<Delivery>() + delivery.message.size()
}
