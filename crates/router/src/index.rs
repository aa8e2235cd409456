//! Filters to targets.

use meridian_types::{TopicFilter, TopicName};

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

/// The regions of the topic space that a topic's result depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regions([u16; 5]);

/// The index.
pub struct Index {}

impl Index {
    /// An empty index.
    pub fn new() -> Self {
        Self {}
    }
    /// Adds a target to a filter, or replaces its options; returns the previous ones.
    pub fn insert(&self, filter: TopicFilter<'_>, target: TargetId, options: u32) -> (FilterId, Option<u32>) {
        let _ = (filter, target, options);
        unimplemented!()
    }
    /// Removes a target from a filter.
    pub fn remove(&self, filter: TopicFilter<'_>, target: TargetId) -> Option<(FilterId, u32)> {
        let _ = (filter, target);
        unimplemented!()
    }
    /// Removes a target from a filter known by its id.
    pub fn remove_by_id(&self, filter: FilterId, target: TargetId) -> Option<u32> {
        let _ = (filter, target);
        unimplemented!()
    }
    /// The text of a filter.
    pub fn filter_text(&self, filter: FilterId) -> Option<String> {
        let _ = filter;
        unimplemented!()
    }
    /// Appends one entry for each (filter, target) that matches; a target may occur several times.
    pub fn matches(&self, topic: TopicName<'_>, out: &mut Vec<Entry>) {
        let _ = (topic, out);
        unimplemented!()
    }
    /// The regions a topic's result depends on.
    pub fn regions(&self, topic: TopicName<'_>) -> Regions {
        let _ = topic;
        Regions([0; 5])
    }
    /// A number that changes whenever the result of a topic with these regions may have changed. Read it before
    /// the look-up whose result it is to guard.
    pub fn generation(&self, regions: &Regions) -> u64 {
        let _ = regions;
        0
    }
    /// Filters held.
    pub fn filter_count(&self) -> usize {
        0
    }
    /// Entries held: (filter, target) pairs.
    pub fn entry_count(&self) -> usize {
        0
    }
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}
