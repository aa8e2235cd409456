//! Share groups: a message goes to one member (MQTT 5.0 §4.8.2).

use crate::target::is_same;
use crate::{Readiness, Target, Terms};
use foldhash::fast::FixedState;
use meridian_router::TargetId;
use meridian_types::memory::Held;
use parking_lot::Mutex;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How a group picks a member. Members that are connected and have room come first whatever the strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShareStrategy {
    /// In turn.
    #[default]
    RoundRobin,
    /// By chance.
    Random,
    /// The member with the least waiting and unacknowledged.
    LeastInflight,
    /// The same member for as long as it can take messages.
    Sticky,
    /// By hash of the publisher's client id.
    HashClient,
    /// By hash of the topic.
    HashTopic,
}

/// A share group on one filter.
pub struct Group {
    /// Its number in the index.
    pub id: TargetId,
    /// The share name.
    pub name: Box<str>,
    /// The filter, without `$share/name/`.
    pub filter: Box<str>,
    members: Mutex<Vec<Member>>,
    turn: AtomicU64,
    /// Counts it, with what the index and the table of groups keep; members count as their sessions' subscriptions.
    _held: Held,
}

/// A member of a group.
pub(crate) struct Member {
    pub(crate) id: TargetId,
    pub(crate) target: Arc<dyn Target>,
    pub(crate) terms: Terms,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Group($share/{}/{})", self.name, self.filter)
    }
}

impl Group {
    pub(crate) fn new(id: TargetId, name: &str, filter: &str) -> Self {
        let texts = name.len() + filter.len();
        Self {
            id,
            name: name.into(),
            filter: filter.into(),
            members: Mutex::new(Vec::new()),
            turn: AtomicU64::new(0),
            _held: Held::new(size_of::<Self>() + 2 * texts + filter.len()),
        }
    }

    /// Adds a member or replaces its terms; returns whether it is new.
    pub(crate) fn join(&self, member: Member) -> bool {
        let mut members = self.members.lock();
        match members.iter_mut().find(|other| is_same(&other.target, &member.target)) {
            Some(other) => {
                other.terms = member.terms;
                false
            }
            None => {
                members.push(member);
                true
            }
        }
    }

    /// Removes a member. Returns whether it was one, and whether the group is empty now.
    pub(crate) fn leave(&self, target: &Arc<dyn Target>) -> (bool, bool) {
        let mut members = self.members.lock();
        let before = members.len();
        // The order of the others is kept, so that turns and hashes move as little as they can.
        members.retain(|member| !is_same(&member.target, target));
        (members.len() < before, members.is_empty())
    }

    /// Calls `offer` with members, best first, until one takes the message. `avoid` is tried by no strategy: it is
    /// the member that a message comes back from. Cost: one readiness check for each member passed over.
    pub(crate) fn offer_in_order(
        &self,
        strategy: ShareStrategy,
        client_hash: u64,
        topic: &str,
        avoid: Option<TargetId>,
        mut offer: impl FnMut(&Member) -> bool,
    ) -> bool {
        let members = self.members.lock();
        if members.is_empty() {
            return false;
        }
        let start = self.first_choice(strategy, &members, client_hash, topic);
        for wanted in [Readiness::Ready, Readiness::Slow, Readiness::Away] {
            for step in 0..members.len() {
                let position = (start + step) % members.len();
                let member = &members[position];
                if Some(member.id) == avoid || member.target.readiness() != wanted {
                    continue;
                }
                if offer(member) {
                    if strategy == ShareStrategy::Sticky {
                        self.turn.store(position as u64, Relaxed);
                    }
                    return true;
                }
            }
        }
        false
    }

    fn first_choice(
        &self,
        strategy: ShareStrategy,
        members: &[Member],
        client_hash: u64,
        topic: &str,
    ) -> usize {
        let hasher = FixedState::with_seed(0);
        let number = match strategy {
            ShareStrategy::RoundRobin => self.turn.fetch_add(1, Relaxed),
            ShareStrategy::Sticky => self.turn.load(Relaxed),
            ShareStrategy::Random => hasher.hash_one(self.turn.fetch_add(1, Relaxed)),
            ShareStrategy::HashClient => client_hash,
            ShareStrategy::HashTopic => hasher.hash_one(topic),
            ShareStrategy::LeastInflight => {
                let turn = self.turn.fetch_add(1, Relaxed) as usize;
                let least = (0..members.len())
                    .map(|step| (turn + step) % members.len())
                    .filter(|&position| members[position].target.readiness() == Readiness::Ready)
                    .min_by_key(|&position| members[position].target.load());
                return least.unwrap_or(turn % members.len());
            }
        };
        (number % members.len() as u64) as usize
    }
}
