//! The crate `quill-pubsub`: nested hash maps of hash sets, and each subscriber's patterns.

use index_harness::Subject;
use quill::{Pattern, Registry, Topic};

/// Its registry, which has a lock of its own.
pub(crate) struct Quill(Registry<u32>);

fn valid(filter: &str) -> Pattern {
    Pattern::parse(filter).expect("workloads hold valid filters")
}

impl Subject for Quill {
    type Topic<'a> = Topic;
    type Found = Vec<u32>;
    type Ticket = ();

    fn new() -> Self {
        Self(Registry::new())
    }

    fn topic(text: &str) -> Topic {
        Topic::parse(text).expect("workloads hold valid topics")
    }

    fn insert(&self, filter: &str, target: u32) {
        self.0.subscribe(valid(filter), target);
    }

    fn remove(&self, filter: &str, target: u32, _ticket: &()) {
        self.0.unsubscribe(&valid(filter), &target);
    }

    fn matches(&self, topic: &Topic, found: &mut Vec<u32>) -> usize {
        *found = self.0.matching(topic);
        found.len()
    }
}
