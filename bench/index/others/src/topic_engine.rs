//! The crate `mqtt-topic-engine`: nested hash maps, and a table of subscriptions.

use index_harness::Subject;
use mqtt_topic_engine::{CacheStrategy, QoS, SubscriptionId, TopicPath, TopicPatternPath, TopicRouter};
use parking_lot::RwLock;

/// Its router behind a lock.
pub(crate) struct TopicEngine(RwLock<TopicRouter<u32>>);

impl Subject for TopicEngine {
    type Topic<'a> = TopicPath;
    type Found = Vec<u32>;
    type Ticket = SubscriptionId;

    fn new() -> Self {
        Self(RwLock::default())
    }

    fn topic(text: &str) -> TopicPath {
        TopicPath::new(text).expect("workloads hold valid topics")
    }

    fn insert(&self, filter: &str, target: u32) -> SubscriptionId {
        let pattern = TopicPatternPath::new_from_string(filter, CacheStrategy::NoCache);
        let pattern = pattern.expect("workloads hold valid filters");
        self.0.write().add_subscription(pattern, QoS::AtMostOnce, target).1
    }

    fn remove(&self, _filter: &str, _target: u32, ticket: &SubscriptionId) {
        self.0.write().unsubscribe(ticket).expect("the subscription is there");
    }

    fn matches(&self, topic: &TopicPath, found: &mut Vec<u32>) -> usize {
        found.clear();
        found.extend(self.0.read().get_subscribers(topic).into_iter().map(|(_, _, &target)| target));
        found.len()
    }
}
