//! The topic tree of the broker rmqtt, as the harness wants it: nested hash maps of sorted sets.

use index_harness::Subject;
use parking_lot::RwLock;
use rmqtt::topic::Topic;
use rmqtt::trie::TopicTree;

/// Its tree behind a lock, as its router has it.
pub struct Rmqtt(RwLock<TopicTree<u32>>);

fn valid(text: &str) -> Topic {
    text.parse().expect("workloads hold valid filters and topics")
}

impl Subject for Rmqtt {
    type Topic<'a> = Topic;
    type Found = Vec<u32>;
    type Ticket = ();

    fn new() -> Self {
        Self(RwLock::default())
    }

    fn topic(text: &str) -> Topic {
        valid(text)
    }

    fn insert(&self, filter: &str, target: u32) {
        self.0.write().insert(&valid(filter), target);
    }

    fn remove(&self, filter: &str, target: u32, _ticket: &()) {
        self.0.write().remove(&valid(filter), &target);
    }

    fn matches(&self, topic: &Topic, found: &mut Vec<u32>) -> usize {
        found.clear();
        for (_, targets) in self.0.read().matches(topic).iter() {
            found.extend(targets.into_iter().copied());
        }
        found.len()
    }
}
