//! Meridian's routing index, as the harness wants it.

pub mod cache;

use index_harness::{Subject, Texts};
use meridian_router::{Entry, Index, TargetId};
use meridian_types::{TopicFilter, TopicName};

use crate::cache::Cache;

/// The index of MQTT filters.
pub struct Meridian(Index);

impl Subject for Meridian {
    type Topic<'a> = TopicName<'a>;
    type Found = Vec<Entry>;
    type Ticket = ();

    fn new() -> Self {
        Self(Index::new())
    }

    fn topic(text: &str) -> TopicName<'_> {
        TopicName::new(text).expect("workloads hold valid topics")
    }

    fn insert(&self, filter: &str, target: u32) {
        self.0.insert(valid(filter), TargetId(target), 0);
    }

    fn remove(&self, filter: &str, target: u32, _ticket: &()) {
        self.0.remove(valid(filter), TargetId(target));
    }

    fn matches(&self, topic: &TopicName<'_>, found: &mut Vec<Entry>) -> usize {
        found.clear();
        self.0.matches(*topic, found);
        found.len()
    }

    fn cached_rates(&self, sets: &[Texts]) -> Option<Vec<f64>> {
        let mut cache = Cache::new();
        Some(index_harness::cached_rates(sets, |topic| cache.look_up(&self.0, topic)))
    }

    fn own_bytes(&self) -> Option<usize> {
        Some(self.0.memory_bytes())
    }
}

fn valid(filter: &str) -> TopicFilter<'_> {
    TopicFilter::new(filter).expect("workloads hold valid filters")
}
