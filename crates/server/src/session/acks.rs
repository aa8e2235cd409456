//! What clients acknowledge: read in batches, applied under one lock.

use super::{Leaving, Session, State};
use crate::link::Link;
use meridian_mqtt::{ReasonCode, Version};
use std::sync::Arc;

/// An acknowledgement as it arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledgement {
    pub(crate) kind: Kind,
    pub(crate) id: u16,
    /// Whether its reason code is 0x80 or above.
    pub(crate) is_error: bool,
}

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Puback,
    Pubrec,
    Pubcomp,
}

impl Session {
    /// Applies a batch, answers each PUBREC with PUBREL, and lets the queue fill the room that was made. Returns
    /// whether the caller has to flush.
    pub(crate) fn acknowledge(&self, link: &Arc<Link>, batch: &[Acknowledgement]) -> bool {
        let mut state = self.state.lock();
        if !state.is_linked_to(link) {
            return false;
        }
        let before = state.outbox.len();
        for &ack in batch {
            state.apply(ack);
        }
        let (has_pumped, resume) = state.pump_and_take_waiting();
        let has_output = has_pumped || state.outbox.len() > before;
        let is_first = has_output && !std::mem::replace(&mut state.is_touched, true);
        drop(state);
        resume.into_iter().for_each(|waiter| (waiter.resume)());
        is_first
    }

    /// Notes a QoS 2 message as received over `link`.
    pub(crate) fn receive(&self, link: &Arc<Link>, id: u16, maximum: u16) -> Received {
        let mut state = self.state.lock();
        if !state.is_linked_to(link) {
            return Received::Stale;
        }
        let received = &mut state.rare().received;
        if received.contains(id) {
            return Received::Again;
        }
        if received.len() >= usize::from(maximum) {
            return Received::TooMany;
        }
        received.insert(id);
        Received::New
    }

    /// PUBREL arrived over `link`: the id is free again. False if it was not in use.
    pub(crate) fn release(&self, link: &Arc<Link>, id: u16) -> bool {
        let mut state = self.state.lock();
        state.is_linked_to(link) && state.rare.as_mut().is_some_and(|rare| rare.received.remove(id))
    }
}

/// What a QoS 2 PUBLISH is to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// To be published.
    New,
    /// Published before: only the acknowledgement is owed.
    Again,
    /// More than the client may have under way.
    TooMany,
    /// Of a connection that is not the session's any more.
    Stale,
}

impl State {
    fn apply(&mut self, ack: Acknowledgement) {
        match ack.kind {
            // An acknowledgement of nothing is ignored: the client may have kept it from before the session ended.
            Kind::Puback => drop(self.inflight.puback(ack.id)),
            Kind::Pubcomp => drop(self.inflight.pubcomp(ack.id)),
            Kind::Pubrec => {
                let outcome = self.inflight.pubrec(ack.id, ack.is_error);
                // Nothing follows a DISCONNECT [MQTT-3.14.4-1]; the next connection is sent the PUBREL.
                if ack.is_error && outcome.is_ok() || self.leaving != Leaving::No {
                    return;
                }
                let [high, low] = ack.id.to_be_bytes();
                let pubrel = [0x62, 2, high, low];
                let unknown = [0x62, 3, high, low, ReasonCode::PacketIdentifierNotFound.byte()];
                let says_unknown = outcome.is_err() && self.version == Version::V5;
                let filling = self.outbox.filling();
                filling.append(if says_unknown { &unknown[..] } else { &pubrel[..] });
            }
        }
    }
}
