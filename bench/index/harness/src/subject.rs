//! What is measured.

use std::borrow::Cow;

use crate::clock::thread_nanos;
use crate::{Random, Texts};

/// An index of filters that several threads may use at once, behind an adapter.
///
/// An index that has no lock of its own gets one from its adapter, as a broker would have to give it one.
pub trait Subject: Send + Sync {
    /// A topic, checked and split as the index wants it: a broker has that from reading the packet.
    type Topic<'a>;
    /// What a look-up writes its result to.
    type Found: Default;
    /// What the index wants to see again when a subscription ends, besides filter and target.
    type Ticket: Clone + Send;

    /// Whether the index knows no wildcards: it gets the topics as filters.
    const IS_EXACT: bool = false;

    /// An empty index.
    fn new() -> Self;

    /// A filter in the index's own notation.
    fn filter_text(filter: &str) -> Cow<'_, str> {
        Cow::Borrowed(filter)
    }

    /// A topic in the index's own notation.
    fn topic_text(topic: &str) -> Cow<'_, str> {
        Cow::Borrowed(topic)
    }

    /// Checks a topic.
    fn topic(text: &str) -> Self::Topic<'_>;

    /// Adds a target to a filter, the filter's text still unchecked.
    fn insert(&self, filter: &str, target: u32) -> Self::Ticket;

    /// Removes a target from a filter.
    fn remove(&self, filter: &str, target: u32, ticket: &Self::Ticket);

    /// Finds the targets of a topic; returns how many.
    fn matches(&self, topic: &Self::Topic<'_>, found: &mut Self::Found) -> usize;

    /// Look-ups per second through the cache that comes with the index, warm, over each set of topics; none if it has
    /// no cache. [`cached_rates`] does it.
    fn cached_rates(&self, _sets: &[Texts]) -> Option<Vec<f64>> {
        None
    }

    /// The bytes the index says it holds, if it does.
    fn own_bytes(&self) -> Option<usize> {
        None
    }
}

/// Look-ups per CPU second by `look_up`, over each set of topics, in random order and after two rounds to warm up.
/// `look_up` returns how many targets a topic has.
pub fn cached_rates(sets: &[Texts], mut look_up: impl FnMut(&str) -> usize) -> Vec<f64> {
    const LOOK_UPS: usize = 2_000_000;
    let mut random = Random::new(99);
    let mut rate = |topics: &Texts| {
        for topic in topics.iter().chain(topics.iter()) {
            look_up(topic);
        }
        let order: Vec<u32> = (0..LOOK_UPS).map(|_| random.below(topics.len()) as u32).collect();
        let mut found = 0;
        let start = thread_nanos();
        for &at in &order {
            found += look_up(topics.get(at as usize));
        }
        let seconds = (thread_nanos() - start) as f64 / 1e9;
        assert!(found >= order.len(), "every topic has a target");
        order.len() as f64 / seconds
    };
    sets.iter().map(|topics| rate(topics).max(rate(topics))).collect()
}
