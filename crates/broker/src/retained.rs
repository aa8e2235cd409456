//! Retained messages: the last message of a topic, for whoever subscribes later (MQTT 5.0 §3.3.1.3).

use meridian_router::TopicStore;
use meridian_types::{Instant, Message, TopicFilter, TopicName};
use parking_lot::RwLock;
use std::sync::Arc;

/// The retained store. Look-ups by filter cost their matches, not its size.
#[derive(Default)]
pub struct Retained {
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    store: TopicStore<Arc<Message>>,
    bytes: usize,
}

impl Retained {
    /// Sets or, with an empty payload, clears the message of a topic. Returns false if it would exceed a limit; the
    /// message of before is then still there.
    pub(crate) fn set(
        &self,
        topic: TopicName<'_>,
        message: Arc<Message>,
        count_max: usize,
        bytes_max: usize,
    ) -> bool {
        let mut inner = self.inner.write();
        let before = inner.store.get(topic).map(|message| message.size());
        let bytes = inner.bytes - before.unwrap_or(0) + message.size();
        let count = inner.store.len() + usize::from(before.is_none());
        if count > count_max || bytes > bytes_max {
            return false;
        }
        inner.bytes = bytes;
        inner.store.insert(topic, message);
        true
    }

    /// Removes the message of a topic.
    pub(crate) fn clear(&self, topic: TopicName<'_>) {
        let mut inner = self.inner.write();
        if let Some(message) = inner.store.remove(topic) {
            inner.bytes -= message.size();
        }
    }

    /// Removes the message of a topic if its expiry interval has passed.
    pub fn clear_expired(&self, topic: TopicName<'_>, now: Instant) {
        let mut inner = self.inner.write();
        if inner.store.get(topic).is_some_and(|message| message.is_expired(now))
            && let Some(message) = inner.store.remove(topic)
        {
            inner.bytes -= message.size();
        }
    }

    /// The messages whose topics match, without those that have expired.
    pub fn matching(&self, filter: TopicFilter<'_>, now: Instant) -> Vec<Arc<Message>> {
        let mut found = Vec::new();
        self.inner.read().store.visit_matching(filter, &mut |message| {
            if !message.is_expired(now) {
                found.push(message.clone());
            }
            true
        });
        found
    }

    /// Messages held.
    pub fn count(&self) -> usize {
        self.inner.read().store.len()
    }

    /// Bytes held, each message counted with its own structure.
    pub fn bytes(&self) -> usize {
        self.inner.read().bytes
    }
}
