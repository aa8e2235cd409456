//! From a topic to its subscribers: a map of exact topics, a list of wildcard filters, and a cache per thread that any
//! change of subscriptions empties.

use crate::connection::Connection;
use parking_lot::RwLock;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A subscriber and the QoS of its subscription.
pub(crate) type Target = (Arc<Connection>, u8);
type Levels = Vec<Vec<u8>>;

#[derive(Default)]
pub(crate) struct Router {
    /// Changes with every change of subscriptions.
    generation: AtomicU64,
    exact: RwLock<HashMap<Vec<u8>, Vec<Target>>>,
    wildcard: RwLock<Vec<(Levels, Target)>>,
}

#[derive(Default)]
struct Cache {
    generation: u64,
    targets: HashMap<Vec<u8>, Arc<[Target]>>,
}

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::default();
}

impl Router {
    /// The subscribers of a topic.
    pub(crate) fn lookup(&self, topic: &[u8]) -> Arc<[Target]> {
        CACHE.with(|cache| {
            let cache = &mut *cache.borrow_mut();
            let generation = self.generation.load(Ordering::Acquire);
            if cache.generation != generation {
                cache.targets.clear();
                cache.generation = generation;
            }
            if let Some(targets) = cache.targets.get(topic) {
                return Arc::clone(targets);
            }
            let mut targets = self.exact.read().get(topic).cloned().unwrap_or_default();
            for (levels, target) in self.wildcard.read().iter() {
                if matches(levels, topic) {
                    targets.push(target.clone());
                }
            }
            let targets: Arc<[Target]> = targets.into();
            cache.targets.insert(topic.to_vec(), Arc::clone(&targets));
            targets
        })
    }

    pub(crate) fn add(&self, filter: &[u8], target: Target) {
        if filter.iter().any(|byte| matches!(byte, b'+' | b'#')) {
            let levels = filter.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect();
            self.wildcard.write().push((levels, target));
        } else {
            self.exact.write().entry(filter.to_vec()).or_default().push(target);
        }
    }

    /// Makes added filters seen.
    pub(crate) fn publish_changes(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn remove(&self, connection: &Arc<Connection>) {
        let other = |(target, _): &Target| !Arc::ptr_eq(target, connection);
        self.exact.write().values_mut().for_each(|targets| targets.retain(other));
        self.wildcard.write().retain(|(_, target)| other(target));
        self.publish_changes();
    }
}

fn matches(levels: &Levels, topic: &[u8]) -> bool {
    let words: Vec<&[u8]> = topic.split(|byte| *byte == b'/').collect();
    for (index, level) in levels.iter().enumerate() {
        match (level.as_slice(), words.get(index)) {
            (b"#", _) => return true,
            (_, None) => return false,
            (b"+", Some(_)) => {}
            (level, Some(word)) if level == *word => {}
            _ => return false,
        }
    }
    levels.len() == words.len()
}
