//! Outgoing QoS 1 and 2: packet ids, the window, acknowledgements, redelivery (MQTT 5.0 §4.3, §4.4, §4.9).

use meridian_types::Qos;
use meridian_types::memory::Held;
use std::collections::VecDeque;

/// Packet ids run from 1 to this.
const ID_COUNT: usize = 65_535;

/// An emptied list larger than this gives its memory back.
const IDLE_SLOTS_MAX: usize = 1024;

/// Messages sent and not yet finished, in the order they were sent.
///
/// Ids are handed out in sequence, so an acknowledgement finds its message by subtraction. A message acknowledged
/// out of turn stays as an empty slot until all before it are finished.
///
/// **Invariant:** at most `window` messages are unfinished, and the list never spans more than all ids, so an id is
/// never in use twice.
///
/// On a new connection everything unfinished is sent again, as far as the window allows; the slots that still wait
/// for that are the last ones, and nothing new is sent before them.
#[derive(Debug)]
pub struct Inflight<T> {
    slots: VecDeque<Slot<T>>,
    unfinished: u16,
    /// Slots at the end that have not been sent on this connection.
    unsent: usize,
    /// How many of those are unfinished.
    unsent_unfinished: u16,
    /// Counts the slots; what they keep counts by itself.
    held: Held,
    /// The sum of the costs of what is kept.
    cost: usize,
    window: u16,
    /// The next id to hand out, less one.
    next: u16,
}

#[derive(Debug)]
struct Slot<T> {
    kept: Option<T>,
    /// What `kept` is counted with.
    cost: u32,
    awaits: Awaits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaits {
    Puback,
    Pubrec,
    Pubcomp,
    Nothing,
}

/// What an unfinished message needs when its client is back.
#[derive(Debug, PartialEq, Eq)]
pub enum Resend<T> {
    /// PUBLISH again, with DUP.
    Publish(T),
    /// PUBREL again.
    Pubrel,
}

/// The id is not in use, or is in another state: 0x92 for PUBREC and PUBREL, ignored for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packet id {0} awaits no such acknowledgement")]
pub struct UnknownId(pub u16);

impl<T: Clone> Inflight<T> {
    /// Nothing in flight; at most `window` messages (1 to 65,535) may be at once.
    pub fn new(window: u16) -> Self {
        Self {
            slots: VecDeque::new(),
            unfinished: 0,
            unsent: 0,
            unsent_unfinished: 0,
            held: Held::default(),
            cost: 0,
            window,
            next: 0,
        }
    }

    /// A new connection with a window of its own: everything unfinished is to be sent again by
    /// [`Inflight::next_resend`].
    pub fn reconnect(&mut self, window: u16) {
        self.window = window;
        self.unsent = self.slots.len();
        self.unsent_unfinished = self.unfinished;
    }

    /// Whether another message may be sent.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.unsent == 0 && self.unfinished < self.window && self.slots.len() < ID_COUNT
    }

    /// Messages unfinished.
    pub fn len(&self) -> usize {
        usize::from(self.unfinished)
    }

    /// What the messages kept are counted with, together.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.unfinished == 0
    }

    /// Takes the next id for a message of QoS 1 or 2; `None` if there is no room. `kept` is what redelivery needs;
    /// `None` if the session ends with its connection. `cost` is what it adds to [`Inflight::cost`].
    #[inline]
    pub fn send(&mut self, qos: Qos, kept: Option<T>, cost: u32) -> Option<u16> {
        if !self.has_room() {
            return None;
        }
        let awaits = if qos == Qos::ExactlyOnce { Awaits::Pubrec } else { Awaits::Puback };
        self.slots.push_back(Slot { kept, cost, awaits });
        self.count_slots();
        self.cost += cost as usize;
        self.unfinished += 1;
        let id = self.next + 1;
        self.next = if id == u16::MAX { 0 } else { id };
        Some(id)
    }

    /// PUBACK arrived: the message is finished.
    ///
    /// # Errors
    /// [`UnknownId`] if no QoS 1 message with this id is in flight.
    #[inline]
    pub fn puback(&mut self, id: u16) -> Result<(), UnknownId> {
        self.finish(id, Awaits::Puback)
    }

    /// PUBREC arrived: the message need not be sent again, PUBREL follows. One that reports an error finishes it.
    ///
    /// # Errors
    /// [`UnknownId`] if no QoS 2 message with this id is in flight. A repeated PUBREC is not an error.
    pub fn pubrec(&mut self, id: u16, is_error: bool) -> Result<(), UnknownId> {
        if is_error {
            return self.finish(id, Awaits::Pubrec);
        }
        let slot = self.position(id).and_then(|position| self.slots.get_mut(position));
        match slot {
            Some(slot) if matches!(slot.awaits, Awaits::Pubrec | Awaits::Pubcomp) => {
                slot.awaits = Awaits::Pubcomp;
                slot.kept = None;
                self.cost -= std::mem::take(&mut slot.cost) as usize;
                Ok(())
            }
            _ => Err(UnknownId(id)),
        }
    }

    /// PUBCOMP arrived: the message is finished.
    ///
    /// # Errors
    /// [`UnknownId`] if no PUBREL for this id is outstanding.
    pub fn pubcomp(&mut self, id: u16) -> Result<(), UnknownId> {
        self.finish(id, Awaits::Pubcomp)
    }

    /// Whether something may have to be sent again on this connection.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.unsent > 0
    }

    /// The next that has to be sent again on this connection, in the original order and with its id
    /// [MQTT-4.4.0-1] [MQTT-4.6.0-1]. `None` if nothing is left, or the window is full [MQTT-3.3.4-9].
    pub fn next_resend(&mut self) -> Option<(u16, Resend<T>)> {
        while self.unsent > 0 {
            let position = self.slots.len() - self.unsent;
            let id = ((self.first() + position) % ID_COUNT) as u16 + 1;
            let slot = &self.slots[position];
            let resend = match (slot.awaits, &slot.kept) {
                (Awaits::Nothing, _) => None,
                _ if self.unfinished - self.unsent_unfinished >= self.window => return None,
                (Awaits::Puback | Awaits::Pubrec, Some(kept)) => Some(Resend::Publish(kept.clone())),
                (Awaits::Pubcomp, _) => Some(Resend::Pubrel),
                // Nothing was kept, since the session was not to outlive its connection.
                (Awaits::Puback | Awaits::Pubrec, None) => None,
            };
            self.unsent -= 1;
            if slot.awaits != Awaits::Nothing {
                self.unsent_unfinished -= 1;
            }
            if let Some(resend) = resend {
                return Some((id, resend));
            }
        }
        None
    }

    /// Gives a message up that cannot be sent again.
    pub fn abandon(&mut self, id: u16) {
        for awaits in [Awaits::Puback, Awaits::Pubrec] {
            if self.finish(id, awaits).is_ok() {
                return;
            }
        }
    }

    /// Ends it all; returns what was kept of the QoS 1 messages nobody acknowledged. A QoS 2 message that is under
    /// way is given to nobody else [MQTT-4.8.2-5].
    pub fn take_unacknowledged(&mut self) -> Vec<T> {
        (self.unfinished, self.unsent, self.unsent_unfinished, self.cost) = (0, 0, 0, 0);
        let slots = std::mem::take(&mut self.slots);
        self.count_slots();
        slots.into_iter().filter(|slot| slot.awaits == Awaits::Puback).filter_map(|slot| slot.kept).collect()
    }

    #[inline]
    fn finish(&mut self, id: u16, awaits: Awaits) -> Result<(), UnknownId> {
        let position = self.position(id).ok_or(UnknownId(id))?;
        let is_unsent = position >= self.slots.len() - self.unsent;
        let slot = self.slots.get_mut(position).filter(|slot| slot.awaits == awaits).ok_or(UnknownId(id))?;
        slot.awaits = Awaits::Nothing;
        slot.kept = None;
        self.cost -= std::mem::take(&mut slot.cost) as usize;
        self.unfinished -= 1;
        self.unsent_unfinished -= u16::from(is_unsent);
        while self.slots.front().is_some_and(|slot| slot.awaits == Awaits::Nothing) {
            self.slots.pop_front();
        }
        self.unsent = self.unsent.min(self.slots.len());
        if self.slots.is_empty() && self.slots.capacity() > IDLE_SLOTS_MAX {
            self.slots = VecDeque::new();
            self.count_slots();
        }
        Ok(())
    }

    /// Cost: a comparison, as long as their memory has not changed.
    #[inline]
    fn count_slots(&mut self) {
        self.held.set(self.slots.capacity() * size_of::<Slot<T>>());
    }

    /// The id of the first slot, less one.
    #[inline]
    fn first(&self) -> usize {
        (usize::from(self.next) + ID_COUNT - self.slots.len()) % ID_COUNT
    }

    #[inline]
    fn position(&self, id: u16) -> Option<usize> {
        let number = usize::from(id).checked_sub(1)?;
        let position = (number + ID_COUNT - self.first()) % ID_COUNT;
        (position < self.slots.len()).then_some(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const Q1: Qos = Qos::AtLeastOnce;
    const Q2: Qos = Qos::ExactlyOnce;

    #[test]
    fn ids_start_at_1_and_wrap_without_0() {
        let mut inflight = Inflight::<()>::new(10);
        for expected in (1..=u16::MAX).chain(1..=3) {
            assert_eq!(inflight.send(Q1, None, 1), Some(expected));
            inflight.puback(expected).unwrap();
        }
    }

    #[test]
    fn the_window_closes_and_opens() {
        let mut inflight = Inflight::<()>::new(2);
        assert_eq!((inflight.send(Q1, None, 1), inflight.send(Q2, None, 1)), (Some(1), Some(2)));
        assert_eq!(inflight.send(Q1, None, 1), None);
        inflight.pubrec(2, false).unwrap();
        assert!(!inflight.has_room(), "a message awaiting PUBCOMP still counts");
        inflight.pubcomp(2).unwrap();
        assert_eq!(inflight.send(Q1, None, 1), Some(3));
    }

    #[test]
    fn an_id_in_use_is_not_used_again_though_others_are_long_finished() {
        let mut inflight = Inflight::<()>::new(u16::MAX);
        let stuck = inflight.send(Q1, None, 1).unwrap();
        for _ in 0..ID_COUNT - 1 {
            let id = inflight.send(Q1, None, 1).unwrap();
            assert_ne!(id, stuck);
            inflight.puback(id).unwrap();
        }
        assert!(!inflight.has_room());
        inflight.puback(stuck).unwrap();
        assert_eq!(inflight.send(Q1, None, 1), Some(stuck));
    }

    #[test]
    fn acknowledgements_of_the_wrong_kind_or_id_are_refused() {
        let mut inflight = Inflight::<()>::new(9);
        inflight.send(Q1, None, 1);
        inflight.send(Q2, None, 1);
        assert_eq!(inflight.puback(2), Err(UnknownId(2)));
        assert_eq!(inflight.pubrec(1, false), Err(UnknownId(1)));
        assert_eq!(inflight.pubcomp(2), Err(UnknownId(2)));
        assert_eq!(inflight.puback(0), Err(UnknownId(0)));
        assert_eq!(inflight.puback(3), Err(UnknownId(3)));
        assert_eq!(inflight.len(), 2);
    }

    #[test]
    fn redelivery_keeps_the_order_and_knows_the_stage() {
        let mut inflight = Inflight::new(9);
        for (qos, text) in [(Q1, "a"), (Q2, "b"), (Q1, "c"), (Q2, "d")] {
            inflight.send(qos, Some(text), 1);
        }
        inflight.puback(3).unwrap();
        inflight.pubrec(2, false).unwrap();
        inflight.reconnect(9);
        assert!(!inflight.has_room(), "nothing new before what is sent again");
        let resend: Vec<_> = std::iter::from_fn(|| inflight.next_resend()).collect();
        assert_eq!(resend, [(1, Resend::Publish("a")), (2, Resend::Pubrel), (4, Resend::Publish("d"))]);
        assert!(inflight.has_room());
        assert_eq!(inflight.take_unacknowledged(), ["a"]);
        assert!(inflight.is_empty());
    }

    #[test]
    fn redelivery_keeps_to_a_smaller_window_than_before() {
        let mut inflight = Inflight::new(9);
        for text in ["a", "b", "c", "d"] {
            inflight.send(Q1, Some(text), 1);
        }
        inflight.reconnect(2);
        let batch = |inflight: &mut Inflight<_>| std::iter::from_fn(|| inflight.next_resend()).count();
        assert_eq!(batch(&mut inflight), 2);
        inflight.puback(1).unwrap();
        assert_eq!(batch(&mut inflight), 1);
        // The client may acknowledge from memory what it has not been sent again.
        inflight.puback(4).unwrap();
        assert_eq!(batch(&mut inflight), 0);
        inflight.puback(2).unwrap();
        inflight.puback(3).unwrap();
        assert_eq!(batch(&mut inflight), 0);
        assert!(inflight.is_empty() && inflight.has_room());
        assert_eq!(inflight.cost(), 0);
    }

    #[test]
    fn a_refused_qos_2_message_is_finished() {
        let mut inflight = Inflight::new(1);
        inflight.send(Q2, Some("x"), 1);
        inflight.pubrec(1, true).unwrap();
        assert!(inflight.is_empty() && inflight.has_room());
    }
}
