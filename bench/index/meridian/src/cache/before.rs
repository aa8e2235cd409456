//! What the broker had of its own before the router crate had a cache, with plain entries for routes.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use meridian_router::{Entry, Index, Regions};
use meridian_types::TopicName;

struct Cached {
    hash: u64,
    topic: Box<str>,
    regions: Regions,
    generation: u64,
    entries: Arc<[Entry]>,
}

/// Results by topic, each used while the generation of the topic's regions is what it was when the index was asked.
#[derive(Default)]
pub struct Cache {
    results: HashTable<Cached>,
    hasher: RandomState,
    bytes: usize,
}

impl Cache {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many targets a topic has, by the result kept, or else by the index.
    #[inline]
    pub fn look_up(&mut self, index: &Index, topic: &str) -> usize {
        let hash = self.hasher.hash_one(topic.as_bytes());
        if let Some(cached) = self.results.find(hash, |cached| cached.hash == hash && *cached.topic == *topic)
            && index.generation(&cached.regions) == cached.generation
        {
            return Arc::clone(&cached.entries).len();
        }
        self.refill(index, topic, hash)
    }

    #[cold]
    fn refill(&mut self, index: &Index, topic: &str, hash: u64) -> usize {
        let name = TopicName::new(topic).expect("workloads hold valid topics");
        let regions = index.regions(name);
        let generation = index.generation(&regions);
        let mut entries = Vec::new();
        index.matches(name, &mut entries);
        let count = entries.len();
        if let Ok(stale) = self.results.find_entry(hash, |cached| *cached.topic == *topic) {
            stale.remove();
        }
        let cost = 2 * size_of::<Cached>() + topic.len() + count * size_of::<Entry>();
        if self.bytes + cost > super::BYTES_MAX {
            self.results.clear();
            self.bytes = 0;
        }
        self.bytes += cost;
        let cached = Cached { hash, topic: topic.into(), regions, generation, entries: entries.into() };
        self.results.insert_unique(hash, cached, |cached| cached.hash);
        count
    }
}
