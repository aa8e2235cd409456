//! Retained messages: the last message of a topic, for whoever subscribes later (MQTT 5.0 §3.3.1.3).

use crate::Counter;
use meridian_router::{Cursor, TopicStore};
use meridian_types::memory::{self, Held, Level};
use meridian_types::{Instant, Message, TopicFilter, TopicName};
use parking_lot::RwLock;
use std::sync::Arc;

/// Topics that [`Retained::page`] looks at for each message it may return: between matches may lie some that fail in a
/// level behind a `+`.
pub const KEYS_PER_MESSAGE: usize = 4;

/// The retained store. Look-ups by filter cost their matches, not its size.
#[derive(Default)]
pub struct Retained {
    inner: RwLock<Inner>,
}

/// Why a message is not retained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitReached {
    /// The store holds as much as it may.
    Store,
    /// The process does.
    Memory,
}

impl LimitReached {
    pub(crate) const fn counter(self) -> Counter {
        match self {
            Self::Store => Counter::RetainedRefusedLimit,
            Self::Memory => Counter::RetainedRefusedMemory,
        }
    }
}

#[derive(Default)]
struct Inner {
    store: TopicStore<Arc<Message>>,
    bytes: usize,
    /// Counts the store's keys; messages count by themselves.
    keys_held: Held,
}

/// What a key takes besides its text.
const KEY_BYTES: usize = 32;

impl Inner {
    /// Removes the message of a topic.
    fn remove(&mut self, topic: TopicName<'_>) {
        if let Some(message) = self.store.remove(topic) {
            self.bytes -= message.size();
            self.keys_held.set(self.keys_held.bytes() - KEY_BYTES - topic.as_str().len());
        }
    }
}

impl std::fmt::Debug for Retained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Retained").field("count", &self.count()).field("bytes", &self.bytes()).finish()
    }
}

impl Retained {
    /// Sets the message of a topic. `Err` if it would exceed a limit; the message of before
    /// is then still there.
    pub(crate) fn set(
        &self,
        topic: TopicName<'_>,
        message: Arc<Message>,
        count_max: usize,
        bytes_max: usize,
    ) -> Result<(), LimitReached> {
        let mut inner = self.inner.write();
        let before = inner.store.get(topic).map(|message| message.size());
        let bytes = inner.bytes - before.unwrap_or(0) + message.size();
        let count = inner.store.len() + usize::from(before.is_none());
        if count > count_max || bytes > bytes_max {
            return Err(LimitReached::Store);
        }
        if bytes > inner.bytes && memory::level() == Level::Full {
            return Err(LimitReached::Memory);
        }
        inner.bytes = bytes;
        if inner.store.insert(topic, message).is_none() {
            let held = inner.keys_held.bytes() + KEY_BYTES + topic.as_str().len();
            inner.keys_held.set(held);
        }
        Ok(())
    }

    /// Removes the message of a topic.
    pub(crate) fn clear(&self, topic: TopicName<'_>) {
        self.inner.write().remove(topic);
    }

    /// Removes the message of a topic if it is the one that expires at `expires` and that is over. Returns whether it
    /// is still there and still the same, so that the caller has to come again.
    pub fn clear_expired(&self, topic: TopicName<'_>, expires: Instant, now: Instant) -> bool {
        let mut inner = self.inner.write();
        match inner.store.get(topic) {
            Some(message) if message.expires == expires && expires > now => return true,
            Some(message) if message.expires == expires => {}
            _ => return false,
        }
        inner.remove(topic);
        false
    }

    /// Whether a topic's message is one that expires at `expires`.
    pub fn expires_at(&self, topic: TopicName<'_>, expires: Instant) -> bool {
        self.inner.read().store.get(topic).is_some_and(|message| message.expires == expires)
    }

    /// The next messages whose topics match, from behind `cursor` on and without those that have expired, at most
    /// `count_max` of them; and where to go on, none if there are no more. Cost: looks at [`KEYS_PER_MESSAGE`] topics
    /// for each of `count_max` at most, with the store's read lock held.
    pub fn page(
        &self,
        filter: TopicFilter<'_>,
        cursor: Option<&Cursor>,
        count_max: usize,
        now: Instant,
    ) -> (Vec<Arc<Message>>, Option<Cursor>) {
        let mut found = Vec::new();
        let inner = self.inner.read();
        let keys_max = count_max.saturating_mul(KEYS_PER_MESSAGE);
        let cursor = inner.store.visit_matching_from(filter, cursor, keys_max, &mut |message| {
            if !message.is_expired(now) {
                found.push(message.clone());
            }
            found.len() < count_max
        });
        (found, cursor)
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
