//! What waits for a client that is slow or away.

use meridian_broker::Group;
use meridian_broker::target::Delivery;
use std::collections::VecDeque;
use std::sync::Arc;

/// Messages in order, counted in number and bytes.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    deliveries: VecDeque<Delivery>,
    bytes: usize,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.deliveries.len()
    }

    /// Bytes of the messages, each counted in full although several queues may share it.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }

    pub(crate) fn push(&mut self, delivery: Delivery) {
        self.bytes += cost(&delivery);
        self.deliveries.push_back(delivery);
    }

    pub(crate) fn front(&self) -> Option<&Delivery> {
        self.deliveries.front()
    }

    pub(crate) fn pop(&mut self) -> Option<Delivery> {
        let delivery = self.deliveries.pop_front()?;
        self.bytes -= cost(&delivery);
        if self.deliveries.is_empty() {
            self.deliveries = VecDeque::new();
        }
        Some(delivery)
    }

    /// Empties it.
    pub(crate) fn take(&mut self) -> VecDeque<Delivery> {
        self.bytes = 0;
        std::mem::take(&mut self.deliveries)
    }

    /// Takes out what is there because of a share group.
    pub(crate) fn take_of_group(&mut self, group: &Arc<Group>) -> Vec<Delivery> {
        let is_of_group = |delivery: &Delivery| {
            delivery.terms.group.as_ref().is_some_and(|other| Arc::ptr_eq(other, group))
        };
        let (taken, kept): (Vec<_>, Vec<_>) = self.take().into_iter().partition(is_of_group);
        kept.into_iter().for_each(|delivery| self.push(delivery));
        taken
    }

    /// Whether another message of `size` bytes would exceed the limits.
    pub(crate) fn would_exceed(&self, size: usize, messages_max: usize, bytes_max: usize) -> bool {
        self.deliveries.len() + 1 > messages_max || self.bytes + size > bytes_max
    }
}

fn cost(delivery: &Delivery) -> usize {
    size_of::<Delivery>() + delivery.message.size()
}
