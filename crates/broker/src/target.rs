//! Targets: whatever a look-up can return.

use crate::{Encodings, Group, Publication};
use meridian_types::{Message, Qos};
use std::sync::Arc;

/// Somebody who takes messages under an overflow policy of their own: a session, a queue, a peer.
///
/// **Invariant:** [`Target::offer`] has no side effect on any other target and never publishes: what a full or closed
/// target entails is reported as a [`Verdict`] and carried out when the loop over the targets is over.
pub trait Target: Send + Sync {
    /// Takes the message, or says why not. Cost: one lock and one copy into the outbox.
    fn offer(&self, publication: &mut Publication<'_>, terms: &Terms, encodings: &mut Encodings) -> Verdict;

    /// Writes out what has gathered since the last flush, as much as is one target's due. Called for each
    /// [`Verdict::Taken`] that said `first`, and again as long as it returns true: there is more.
    fn flush(&self) -> bool;

    /// Whether it can take a message now; a share group prefers those that can.
    fn readiness(&self) -> Readiness;

    /// Messages it has not finished: waiting and unacknowledged.
    fn load(&self) -> usize;

    /// Ends it because it is too slow; called after the loop that found it so.
    fn cut_off(&self);

    /// Calls the waiter back once there is room again. Returns false, without keeping it, if there is room already.
    fn when_there_is_room(&self, waiter: Waiter) -> bool;
}

/// Whether two references are to one target.
pub(crate) fn is_same(left: &Arc<dyn Target>, right: &Arc<dyn Target>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(left), Arc::as_ptr(right))
}

/// A publisher that waits for room.
pub struct Waiter {
    /// Who: a publisher that comes back replaces what it left before.
    pub id: u64,
    /// Called once, with no lock held.
    pub resume: Box<dyn FnOnce() + Send>,
}

/// Whether a target can take a message now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readiness {
    /// Connected, with room.
    Ready,
    /// Connected, but its socket or window is full.
    Slow,
    /// Not connected; it keeps messages for later.
    Away,
    /// It has ended.
    Gone,
}

/// The terms of one delivery: what the matching subscriptions say together.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The highest QoS granted by any of them.
    pub qos: Qos,
    /// Whether the retain flag stays as published.
    pub retain_as_published: bool,
    /// Whether the message comes from the retained store because of a new subscription.
    pub from_retained: bool,
    /// Their identifiers.
    pub subscription_ids: Option<Arc<[u32]>>,
    /// The share group it is delivered for, so that it can go to another member.
    pub group: Option<Arc<Group>>,
}

/// A delivery that a target keeps: a message with its terms.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// What.
    pub message: Arc<Message>,
    /// How.
    pub terms: Terms,
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Taken. `first` if the target was not yet waiting for a flush: the caller has to flush it.
    Taken {
        /// Whether the caller has to flush it.
        first: bool,
    },
    /// Taken, and the messages that had waited longest were dropped for it.
    TakenForOldest {
        /// How many.
        dropped: u32,
    },
    /// Taken, but the target is full: the publisher must wait.
    TakenButFull,
    /// Dropped: no room.
    DroppedFull,
    /// Dropped, and the publisher must wait: there is no room left for what comes until it does.
    DroppedAndFull,
    /// Dropped: the process holds as much as it may.
    DroppedMemory,
    /// Dropped: the client is away and its QoS is 0.
    DroppedAway,
    /// Dropped: larger than the client takes.
    DroppedTooLarge,
    /// Dropped, and the target has to be cut off.
    CutOff,
    /// The target has ended; its routes are about to go.
    Gone,
}
