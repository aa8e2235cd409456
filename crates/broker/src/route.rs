//! Routes: what the index returned for a topic, resolved to targets, and each thread's cache of them.

use crate::share::Group;
use crate::{Target, Terms};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use meridian_router::{Index, Regions, TargetId};
use meridian_types::TopicName;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Everybody who gets the messages of one topic.
#[derive(Default)]
pub struct Route {
    /// Targets, each once.
    pub(crate) targets: Box<[RouteTarget]>,
    /// Share groups, each of which picks one member.
    pub(crate) groups: Box<[Arc<Group>]>,
}

/// One target of a route.
pub(crate) struct RouteTarget {
    pub(crate) id: TargetId,
    pub(crate) target: Arc<dyn Target>,
    /// The terms for messages of others.
    pub(crate) terms: Terms,
    /// Whether a subscription says "no local", so that the target's own messages need a look of their own.
    pub(crate) own: Own,
}

/// What a target gets of its own messages.
pub(crate) enum Own {
    /// The same as of others'.
    Same,
    /// Nothing: all its matching subscriptions say "no local".
    Nothing,
    /// Only what the subscriptions without "no local" say.
    Less(Box<Terms>),
}

impl Route {
    /// Whether nobody gets the message.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.groups.is_empty()
    }

    fn size(&self) -> usize {
        size_of::<Self>()
            + self.targets.len() * size_of::<RouteTarget>()
            + self.groups.len() * size_of::<Arc<Group>>()
    }
}

struct Cached {
    hash: u64,
    topic: Box<str>,
    regions: Regions,
    generation: u64,
    route: Arc<Route>,
}

/// A thread's routes by topic.
///
/// An entry is used only while the generation of the topic's regions is what it was when the index was asked, so
/// churn elsewhere in the topic space leaves it valid. Bounded in bytes; when full it starts anew, which costs each
/// topic in use one look-up.
pub(crate) struct RouteCache {
    entries: HashTable<Cached>,
    hasher: RandomState,
    bytes: usize,
    bytes_max: usize,
}

impl RouteCache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { entries: HashTable::new(), hasher: RandomState::default(), bytes: 0, bytes_max }
    }

    /// The route of `topic`, from the cache or made by `resolve`. The second value says whether it was cached.
    #[inline]
    pub(crate) fn get(
        &mut self,
        index: &Index,
        topic: &str,
        resolve: impl FnOnce(TopicName<'_>) -> Route,
    ) -> (Arc<Route>, bool) {
        let hash = self.hasher.hash_one(topic.as_bytes());
        if let Some(entry) = self.entries.find(hash, |entry| entry.hash == hash && *entry.topic == *topic)
            && index.generation(&entry.regions) == entry.generation
        {
            return (entry.route.clone(), true);
        }
        (self.refill(index, topic, hash, resolve), false)
    }

    #[cold]
    fn refill(
        &mut self,
        index: &Index,
        topic: &str,
        hash: u64,
        resolve: impl FnOnce(TopicName<'_>) -> Route,
    ) -> Arc<Route> {
        let Ok(name) = TopicName::new(topic) else {
            return Arc::default();
        };
        let regions = index.regions(name);
        // Read before the look-up: a change in between makes the entry stale rather than wrong.
        let generation = index.generation(&regions);
        let route = Arc::new(resolve(name));
        if let Ok(stale) = self.entries.find_entry(hash, |entry| entry.hash == hash && *entry.topic == *topic)
        {
            let (stale, _) = stale.remove();
            self.bytes -= Self::cost(&stale);
        }
        let entry = Cached { hash, topic: topic.into(), regions, generation, route: route.clone() };
        let cost = Self::cost(&entry);
        if self.bytes + cost > self.bytes_max {
            self.entries.clear();
            self.bytes = 0;
        }
        if cost <= self.bytes_max {
            self.bytes += cost;
            self.entries.insert_unique(hash, entry, |entry| entry.hash);
        }
        route
    }

    fn cost(entry: &Cached) -> usize {
        2 * size_of::<Cached>() + entry.topic.len() + entry.route.size()
    }
}
