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
    /// Marks of topics that were missed lately. A topic is kept from its second miss on, so that topics used once do
    /// not fill the cache.
    missed: Box<[u32]>,
}

/// Marks of missed topics.
const MISSED_COUNT: usize = 8192;

impl RouteCache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let missed = vec![0; MISSED_COUNT].into_boxed_slice();
        Self { entries: HashTable::new(), hasher: RandomState::default(), bytes: 0, bytes_max, missed }
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
        let was_cached = self.forget(hash, topic);
        let mark = (hash >> 32) as u32;
        let missed = &mut self.missed[hash as usize % MISSED_COUNT];
        if !was_cached && std::mem::replace(missed, mark) != mark {
            return route;
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

    /// Removes a stale entry; returns whether there was one.
    fn forget(&mut self, hash: u64, topic: &str) -> bool {
        let found = self.entries.find_entry(hash, |entry| entry.hash == hash && *entry.topic == *topic);
        let Ok(stale) = found else { return false };
        let (stale, _) = stale.remove();
        self.bytes -= Self::cost(&stale);
        true
    }

    fn cost(entry: &Cached) -> usize {
        2 * size_of::<Cached>() + entry.topic.len() + entry.route.size()
    }
}
