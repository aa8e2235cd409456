//! Filters to targets.

use meridian_types::{TopicFilter, TopicName};
use parking_lot::RwLock;

use crate::regions::{RegionTable, Regions};
use crate::tree::Tree;

/// What a look-up returns, as the broker numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetId(pub u32);

/// Names a filter for as long as it has at least one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilterId(pub u32);

/// One target of one filter, with whatever 32 bits the subscriber attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// Who gets the message.
    pub target: TargetId,
    /// Opaque to the index.
    pub options: u32,
}

/// The index.
pub struct Index {
    tree: RwLock<Tree>,
    regions: RegionTable,
}

impl Index {
    /// An empty index.
    pub fn new() -> Self {
        Self { tree: RwLock::new(Tree::new()), regions: RegionTable::new() }
    }

    /// Adds a target to a filter, or replaces its options; returns the previous ones.
    pub fn insert(&self, filter: TopicFilter<'_>, target: TargetId, options: u32) -> (FilterId, Option<u32>) {
        let (id, previous) = self.tree.write().insert(filter, target, options);
        if previous != Some(options) {
            self.regions.bump(filter);
        }
        (id, previous)
    }

    /// Removes a target from a filter; returns the filter's id, valid no longer if this was its last target, and the
    /// target's options.
    pub fn remove(&self, filter: TopicFilter<'_>, target: TargetId) -> Option<(FilterId, u32)> {
        let removed = self.tree.write().remove(filter, target)?;
        self.regions.bump(filter);
        Some(removed)
    }

    /// Removes a target from a filter known by its id; returns the target's options.
    pub fn remove_by_id(&self, filter: FilterId, target: TargetId) -> Option<u32> {
        let mut tree = self.tree.write();
        let text = tree.filter_text(filter)?;
        let text = TopicFilter::new(&text).expect("the index holds valid filters only");
        let (_, options) = tree.remove(text, target)?;
        drop(tree);
        self.regions.bump(text);
        Some(options)
    }

    /// The text of a filter.
    pub fn filter_text(&self, filter: FilterId) -> Option<String> {
        self.tree.read().filter_text(filter)
    }

    /// Appends one entry for each (filter, target) that matches; a target may occur several times.
    pub fn matches(&self, topic: TopicName<'_>, out: &mut Vec<Entry>) {
        self.tree.read().matches(topic, out);
    }

    /// The regions a topic's result depends on.
    pub fn regions(&self, topic: TopicName<'_>) -> Regions {
        self.regions.of_topic(topic)
    }

    /// A number that changes whenever the result of a topic with these regions may have changed. Read it before
    /// the look-up whose result it is to guard.
    pub fn generation(&self, regions: &Regions) -> u64 {
        self.regions.generation(regions)
    }

    /// Filters held.
    pub fn filter_count(&self) -> usize {
        self.tree.read().filter_count()
    }

    /// Entries held: (filter, target) pairs.
    pub fn entry_count(&self) -> usize {
        self.tree.read().entry_count()
    }

    /// Bytes of memory held, with the unused capacity of its structures.
    pub fn memory_bytes(&self) -> usize {
        self.regions.memory_bytes()
    }
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}
