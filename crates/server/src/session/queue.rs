//! What waits for a client that is slow or away.

use super::replay::{Replay, Replays};
use meridian_broker::Group;
use meridian_broker::target::Delivery;
use meridian_types::memory::Held;
use std::collections::VecDeque;
use std::sync::Arc;

/// Messages in order, counted in number and bytes, and the replays that stand among them.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    deliveries: VecDeque<Delivery>,
    bytes: usize,
    /// Messages that have left by the front. A place in the queue is this number plus what stands before it.
    left: u64,
    replays: Option<Box<Replays>>,
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
        self.deliveries.len()
    }

    /// Bytes of the messages, each counted in full although several queues may share it.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing has to go before a message that comes now.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.deliveries.is_empty() && self.replays.is_none()
    }

    pub(crate) fn push(&mut self, delivery: Delivery) {
        self.bytes += cost(&delivery);
        self.deliveries.push_back(delivery);
        self.count_places();
    }

    fn count_places(&mut self) {
        self.held.set(self.deliveries.len() * size_of::<Delivery>());
    }

    /// What has to leave next.
    pub(super) fn next(&mut self) -> Next<'_> {
        if let Some(replays) = &mut self.replays {
            if replays.pending > 0 && replays.pending_at <= self.left {
                return Next::Nothing;
            }
            if let Some((place, replay)) = replays.first()
                && place <= self.left
            {
                return Next::Replay(replay);
            }
        }
        self.deliveries.front().map_or(Next::Nothing, Next::Delivery)
    }

    /// Takes the message that has waited longest.
    pub(crate) fn pop(&mut self) -> Option<Delivery> {
        let delivery = self.deliveries.pop_front()?;
        self.bytes -= cost(&delivery);
        self.left += 1;
        if self.deliveries.is_empty() {
            self.deliveries = VecDeque::new();
        }
        self.count_places();
        Some(delivery)
    }

    /// Empties it.
    pub(crate) fn take(&mut self) -> VecDeque<Delivery> {
        self.bytes = 0;
        self.replays = None;
        self.held.set(0);
        std::mem::take(&mut self.deliveries)
    }

    /// Takes out what is there because of share groups. Cost: one pass.
    pub(crate) fn take_of_groups(&mut self, groups: &[Arc<Group>]) -> Vec<Delivery> {
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
        if let Some(replays) = &mut self.replays {
            let mut taken_before = 0;
            let taken: Vec<u64> = std::iter::once(0)
                .chain(all.iter().map(|delivery| {
                    taken_before += u64::from(is_of_group(delivery));
                    taken_before
                }))
                .collect();
            let left = self.left;
            replays.change_places(|place| {
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

    /// Whether another message of `size` bytes would exceed the limits.
    pub(crate) fn would_exceed(&self, size: usize, messages_max: usize, bytes_max: usize) -> bool {
        self.deliveries.len() + 1 > messages_max || self.bytes + size > bytes_max
    }
}

/// Replays.
impl Queue {
    /// Keeps the place of a SUBSCRIBE that is being handled: until [`Queue::end_subscribe`], what comes waits behind
    /// it.
    pub(super) fn begin_subscribe(&mut self) {
        let place = self.left + self.deliveries.len() as u64;
        let replays = self.replays.get_or_insert_default();
        if replays.pending == 0 {
            replays.pending_at = place;
        }
        replays.pending += 1;
    }

    /// The SUBSCRIBE has been answered: `replays` take its place.
    pub(super) fn end_subscribe(&mut self, owed: Vec<Replay>) {
        // None if the session has ended meanwhile.
        let Some(replays) = &mut self.replays else { return };
        let place = replays.pending_at;
        owed.into_iter().for_each(|replay| replays.add(place, replay));
        replays.pending = replays.pending.saturating_sub(1);
        self.forget_empty_replays();
    }

    /// Ends the replay that is due.
    pub(super) fn finish_replay(&mut self) {
        if let Some(replays) = &mut self.replays {
            replays.remove_first();
            self.forget_empty_replays();
        }
    }

    /// Ends the replay of a filter, if there is one.
    pub(super) fn cancel_replay(&mut self, filter: &str) {
        if let Some(replays) = &mut self.replays {
            replays.remove(filter);
            self.forget_empty_replays();
        }
    }

    /// Ends all replays.
    pub(super) fn cancel_replays(&mut self) {
        if let Some(replays) = &mut self.replays {
            replays.remove_all();
            self.forget_empty_replays();
        }
    }

    fn forget_empty_replays(&mut self) {
        if self.replays.as_ref().is_some_and(|replays| replays.is_empty()) {
            self.replays = None;
        }
    }
}

fn cost(delivery: &Delivery) -> usize {
    size_of::<Delivery>() + delivery.message.size()
}
