//! The crate `mqtt_topic_tree`: nested hash maps.

use index_harness::Subject;
use mqtt_topic_tree::{QoS, Subscriber, TopicFilter, TopicName};
use parking_lot::RwLock;

/// Its tree behind a lock; its own concurrent form keeps two copies.
pub(crate) struct TopicTree(RwLock<mqtt_topic_tree::TopicTree>);

fn valid(filter: &str) -> TopicFilter {
    TopicFilter::try_from(filter.to_owned()).expect("workloads hold valid filters")
}

impl Subject for TopicTree {
    type Topic<'a> = TopicName;
    type Found = Vec<Subscriber>;
    type Ticket = ();

    fn new() -> Self {
        Self(RwLock::default())
    }

    fn topic(text: &str) -> TopicName {
        TopicName::try_from(text.to_owned()).expect("workloads hold valid topics")
    }

    fn insert(&self, filter: &str, target: u32) {
        let filter = valid(filter);
        self.0.write().add_subscription(filter, u64::from(target), QoS::Level0);
    }

    fn remove(&self, filter: &str, target: u32, _ticket: &()) {
        let filter = valid(filter);
        self.0.write().remove_subscription(filter, u64::from(target));
    }

    fn matches(&self, topic: &TopicName, found: &mut Vec<Subscriber>) -> usize {
        *found = self.0.read().get_subscriptions(topic);
        found.len()
    }
}
