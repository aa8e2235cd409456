//! The floor: topics to targets by one hash, no wildcards.

use std::collections::HashMap;

use index_harness::Subject;
use parking_lot::RwLock;

/// The standard library's map with its own hash function.
pub(crate) struct Exact(RwLock<HashMap<String, u32>>);

impl Subject for Exact {
    type Topic<'a> = &'a str;
    type Found = Option<u32>;
    type Ticket = ();

    const IS_EXACT: bool = true;

    fn new() -> Self {
        Self(RwLock::default())
    }

    fn topic(text: &str) -> &str {
        text
    }

    fn insert(&self, filter: &str, target: u32) {
        self.0.write().insert(filter.to_owned(), target);
    }

    fn remove(&self, filter: &str, _target: u32, _ticket: &()) {
        self.0.write().remove(filter);
    }

    fn matches(&self, topic: &&str, found: &mut Option<u32>) -> usize {
        *found = self.0.read().get(*topic).copied();
        usize::from(found.is_some())
    }
}
