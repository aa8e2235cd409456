//! Topics to values, found by filter: the reverse match of retained messages.

use meridian_types::{TopicFilter, TopicName};

/// Values by topic.
pub struct TopicStore<V> {
    values: Vec<V>,
}

impl<V> TopicStore<V> {
    /// An empty store.
    pub fn new() -> Self {
        Self { values: Vec::new() }
    }
    /// Sets the value of a topic; returns the one before.
    pub fn insert(&mut self, topic: TopicName<'_>, value: V) -> Option<V> {
        let _ = (topic, value);
        unimplemented!()
    }
    /// Removes a topic.
    pub fn remove(&mut self, topic: TopicName<'_>) -> Option<V> {
        let _ = topic;
        unimplemented!()
    }
    /// The value of a topic.
    pub fn get(&self, topic: TopicName<'_>) -> Option<&V> {
        let _ = topic;
        unimplemented!()
    }
    /// Calls `visit` with each value whose topic matches, until it returns false.
    pub fn visit_matching(&self, filter: TopicFilter<'_>, visit: &mut dyn FnMut(&V) -> bool) {
        let _ = (filter, visit);
        unimplemented!()
    }
    /// Values held.
    pub fn len(&self) -> usize {
        self.values.len()
    }
    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<V> Default for TopicStore<V> {
    fn default() -> Self {
        Self::new()
    }
}
