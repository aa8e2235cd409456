//! The router crate's own cache.

use meridian_router::{Entry, Index, MatchCache};
use meridian_types::TopicName;

/// Results by topic.
pub struct Cache(MatchCache<Box<[Entry]>>);

impl Cache {
    /// An empty cache.
    pub fn new() -> Self {
        Self(MatchCache::new(super::BYTES_MAX))
    }

    /// How many targets a topic has, by the result kept, or else by the index.
    #[inline]
    pub fn look_up(&mut self, index: &Index, topic: &str) -> usize {
        if let Some(entries) = self.0.get(0, topic.as_bytes(), |guard| index.is_current(guard)) {
            return entries.len();
        }
        self.refill(index, topic)
    }

    #[cold]
    fn refill(&mut self, index: &Index, topic: &str) -> usize {
        let name = TopicName::new(topic).expect("workloads hold valid topics");
        let guard = index.guard(name);
        let mut entries = Vec::new();
        index.matches(name, &mut entries);
        let count = entries.len();
        self.0.put(0, topic.as_bytes(), guard, entries.into(), count * size_of::<Entry>());
        count
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}
