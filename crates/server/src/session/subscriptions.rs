//! A session's subscriptions: what it remembers of them in order to end them one day.

use super::{Session, State, WaitsFor};
use meridian_broker::Waiter;
use meridian_broker::broker::Handle;
use meridian_broker::target::Delivery;
use meridian_router::FilterId;
use meridian_types::memory::{self, Level};

/// What a subscription counts besides its filter's text: its places in the index and in its session.
const SUBSCRIPTION_BYTES: usize = 64;
/// What a session's subscriptions may take whatever the process's memory.
const SUBSCRIPTION_BYTES_SURE: usize = 4096;

/// Why a subscription cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubscriptionError {
    /// The session has as many as it may.
    TooMany,
    /// The process holds as much as it may, and the session's subscriptions more than every session is sure of.
    MemoryFull,
    /// The session has ended meanwhile.
    Ended,
}

/// What is left to do when subscriptions are over; done without any lock held.
#[derive(Default)]
pub(crate) struct Forgotten {
    /// What waits for the client because of share groups it has left: for their other members.
    pub(crate) deliveries: Vec<Delivery>,
    waiting: Vec<Waiter>,
}

impl Forgotten {
    /// Lets publishers go on that waited for this session: what they publish may not be for it any more.
    pub(crate) fn resume_waiting(self) {
        self.waiting.into_iter().for_each(|waiter| (waiter.resume)());
    }
}

impl Session {
    /// Remembers a new subscription to `filter`; called by [`meridian_broker::Broker::subscribe`].
    ///
    /// # Errors
    /// [`SubscriptionError`] if it cannot; the broker then ends the subscription again.
    pub(crate) fn add_subscription(
        &self,
        handle: &Handle,
        filter: &str,
        count_max: usize,
    ) -> Result<(), SubscriptionError> {
        let mut state = self.state.lock();
        if state.has_ended {
            return Err(SubscriptionError::Ended);
        }
        if state.subscriptions.len() + state.rare.as_ref().map_or(0, |rare| rare.groups.len()) >= count_max {
            return Err(SubscriptionError::TooMany);
        }
        let bytes = state.subscriptions_held.bytes() + bytes_of_subscription(filter);
        if bytes > SUBSCRIPTION_BYTES_SURE && memory::level() == Level::Full {
            return Err(SubscriptionError::MemoryFull);
        }
        state.subscriptions_held.set(bytes);
        match handle {
            Handle::Filter(filter) => state.subscriptions.push(*filter),
            Handle::Group(group) => drop(state.rare().groups.insert(group.id, group.clone())),
        }
        Ok(())
    }

    /// Forgets subscriptions that the broker has ended, each of which is there and comes with its filter. Cost: one
    /// pass over the session's subscriptions, however many are forgotten, and one over its queue if there are groups
    /// among them.
    pub(crate) fn forget_subscriptions(&self, ended: &[(Handle, &str)]) -> Forgotten {
        if ended.is_empty() {
            return Forgotten::default();
        }
        let (mut filters, mut groups) = (Vec::new(), Vec::new());
        for (handle, _) in ended {
            match handle {
                Handle::Filter(filter) => filters.push(*filter),
                Handle::Group(group) => groups.push(group.clone()),
            }
        }
        let mut state = self.state.lock();
        remove_each(&mut state.subscriptions, filters);
        let bytes: usize = ended.iter().map(|(_, filter)| bytes_of_subscription(filter)).sum();
        let left = state.subscriptions_held.bytes().saturating_sub(bytes);
        state.subscriptions_held.set(left);
        let waiting = state.take_waiting_for_queue();
        if groups.is_empty() {
            return Forgotten { deliveries: Vec::new(), waiting };
        }
        for group in &groups {
            state.rare().groups.remove(&group.id);
        }
        Forgotten { deliveries: state.queue.take_of_groups(&groups), waiting }
    }
}

impl State {
    /// The publishers that wait for room, whether or not there is.
    fn take_waiting_for_queue(&mut self) -> Vec<Waiter> {
        let Some(rare) = &mut self.rare else { return Vec::new() };
        let for_queue = |(waits_for, _): &mut (WaitsFor, Waiter)| *waits_for == WaitsFor::Queue;
        rare.waiting.extract_if(.., for_queue).map(|(_, waiter)| waiter).collect()
    }
}

/// What a subscription counts. The index keeps equal words once, so this is the most it can take.
fn bytes_of_subscription(filter: &str) -> usize {
    SUBSCRIPTION_BYTES + filter.len()
}

/// Removes one occurrence of each of `gone`. The same id may stand for two filters for a moment: one that the index has
/// given up already, and one that a newer connection has subscribed to. Cost: O(n log k) for k of n.
fn remove_each(subscriptions: &mut Vec<FilterId>, mut gone: Vec<FilterId>) {
    if let [one] = gone[..] {
        if let Some(position) = subscriptions.iter().position(|filter| *filter == one) {
            subscriptions.swap_remove(position);
        }
        return;
    }
    gone.sort_unstable();
    let mut counts: Vec<(FilterId, usize)> =
        gone.chunk_by(|left, right| left == right).map(|same| (same[0], same.len())).collect();
    subscriptions.retain(|filter| {
        let Ok(position) = counts.binary_search_by_key(filter, |(gone, _)| *gone) else { return true };
        let left = &mut counts[position].1;
        let is_gone = *left > 0;
        *left -= usize::from(is_gone);
        !is_gone
    });
}
