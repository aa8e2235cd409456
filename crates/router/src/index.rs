//! Filters to targets.

#[cfg(all(test, loom))]
mod models;

use meridian_types::{TopicFilter, TopicName};

use crate::entry::{Entry, TargetId};
use crate::regions::{Guard, RegionTable, Regions};
use crate::shards::{ShardPlace, Shards};
use crate::tree::{FilterPlace, Tree};
use crate::words::MQTT;

/// Names a filter for as long as it has at least one target.
///
/// ```text
/// 31 .. 28   27             26 .. 0
/// shard      ends in /#     node
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilterId(pub u32);

const SHARD_SHIFT: u32 = 28;
const BELOW: u32 = 1 << 27;

/// The shard of filters that start with a wildcard.
const ROOT_SHARD: usize = 0;

/// Which levels of a topic lead to a filter's shard.
#[derive(Clone, Copy)]
enum Depth {
    /// None: the filter starts with a wildcard.
    Root = 0,
    /// The first: the filter has one level, or a wildcard in the second.
    Shallow = 1,
    /// The first two.
    Deep = 2,
}

/// Filters to targets, for any number of threads.
///
/// A look-up takes the read lock of at most three of sixteen trees, a change the write lock of one; either holds it
/// for about a microsecond. No operation takes two locks at once, and none calls out.
pub struct Index {
    shards: Shards,
    regions: RegionTable,
}

impl Index {
    /// An empty index; up to 190 KiB, most of it the table of regions.
    pub fn new() -> Self {
        Self { shards: Shards::new(MQTT), regions: RegionTable::new() }
    }

    /// Adds a target to a filter, or replaces its options; returns the previous ones.
    ///
    /// The id stays the filter's until its last target is removed. Cost: one step per level, at most two new nodes,
    /// O(log n) in the filter's own targets.
    ///
    /// # Panics
    /// If more than 134 million nodes would share a shard (several GiB of filters with the same first two levels).
    pub fn insert(&self, filter: TopicFilter<'_>, target: TargetId, options: u32) -> (FilterId, Option<u32>) {
        let at = self.place_of_filter(filter);
        let inserted = self.shards.insert(at, &filter.into(), Entry { target, options });
        if inserted.previous != Some(options) {
            self.regions.bump(filter);
        }
        (id_of(at.shard, inserted.place), inserted.previous)
    }

    /// Removes a target from a filter; returns the filter's id, valid no longer if this was its last target, and the
    /// target's options. Cost as of [`insert`](Self::insert).
    pub fn remove(&self, filter: TopicFilter<'_>, target: TargetId) -> Option<(FilterId, u32)> {
        let at = self.place_of_filter(filter);
        let (place, removed) = self.shards.remove(at, &filter.into(), target)?;
        self.regions.bump(filter);
        Some((id_of(at.shard, place), removed.options))
    }

    /// Removes a target from a filter known by its id; returns the target's options. Cost as of
    /// [`insert`](Self::insert), and one short-lived string.
    pub fn remove_by_id(&self, filter: FilterId, target: TargetId) -> Option<u32> {
        let (shard, place) = place_of(filter);
        let (text, removed) = self.shards.remove_at(shard, place, target)?;
        let filter = TopicFilter::new(&text).expect("the index holds valid filters only");
        self.shards.finish_removal(self.place_of_filter(filter), &removed);
        self.regions.bump(filter);
        Some(removed.options)
    }

    /// The text of a filter that has a target. Cost: one step per level.
    pub fn filter_text(&self, filter: FilterId) -> Option<String> {
        let (shard, place) = place_of(filter);
        self.shards.read(shard, |tree| tree.filter_text(place))
    }

    /// Appends one entry for each (filter, target) that matches; a target may occur several times. A filter's targets
    /// come in order, the filters in none.
    ///
    /// Allocates nothing but room in `out`. Cost: one step for each node whose path matches a beginning of the topic,
    /// which is at most two to the power of the levels and never more than there are nodes, and the entries themselves.
    /// Changes made by other threads meanwhile are seen or not, each as a whole.
    pub fn matches(&self, topic: TopicName<'_>, out: &mut Vec<Entry>) {
        let mut visited = [usize::MAX; 3];
        for (at, depth) in [Depth::Deep, Depth::Shallow, Depth::Root].into_iter().enumerate() {
            let Some(place) = self.place_of_topic(topic.as_str(), depth) else { continue };
            if !self.shards.is_empty(place) && !visited.contains(&place.shard) {
                self.shards.read(place.shard, |tree| tree.matches(topic, out));
                visited[at] = place.shard;
            }
        }
    }

    /// The regions a topic's result depends on.
    pub fn regions(&self, topic: TopicName<'_>) -> Regions {
        self.regions.of_topic(topic)
    }

    /// A number that changes whenever the result of a topic with these regions may have changed. Read it before
    /// the look-up whose result it is to guard.
    ///
    /// Cost: five atomic loads. A change is seen here at the latest when the call that made it returns.
    pub fn generation(&self, regions: &Regions) -> u64 {
        self.regions.generation(regions)
    }

    /// A guard for the result of a look-up. Make it before the look-up.
    pub fn guard(&self, topic: TopicName<'_>) -> Guard {
        self.regions.guard(self.regions.of_topic(topic))
    }

    /// Whether a result is as a look-up would find it now: nothing in its regions has changed since its guard was made.
    /// Cost as of [`generation`](Self::generation).
    #[inline]
    pub fn is_current(&self, guard: &Guard) -> bool {
        self.regions.is_current(guard)
    }

    /// Filters held. Visits every shard.
    pub fn filter_count(&self) -> usize {
        self.shards.sum(Tree::filter_count)
    }

    /// Entries held: (filter, target) pairs. Visits every shard.
    pub fn entry_count(&self) -> usize {
        self.shards.sum(Tree::entry_count)
    }

    /// Bytes of memory held, with the unused capacity of its structures and without the allocator's own. Visits
    /// every page of every shard: for metrics, not for the publish path.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.regions.memory_bytes() + self.shards.memory_bytes()
    }

    /// Where filters of one depth that match a topic are; none if its levels are too few.
    #[inline]
    fn place_of_topic(&self, topic: &str, depth: Depth) -> Option<ShardPlace> {
        let first_end = topic.find('/');
        let shard = match depth {
            Depth::Root => ROOT_SHARD,
            Depth::Shallow => self.shard_of(&topic[..first_end.unwrap_or(topic.len())]),
            Depth::Deep => {
                let second = first_end? + 1;
                let second_end = topic[second..].find('/').map_or(topic.len(), |len| second + len);
                self.shard_of(&topic[..second_end])
            }
        };
        Some(ShardPlace { shard, depth: depth as usize })
    }

    /// Where a filter belongs.
    fn place_of_filter(&self, filter: TopicFilter<'_>) -> ShardPlace {
        let text = filter.as_str();
        let literal = match text.bytes().position(|byte| matches!(byte, b'+' | b'#')) {
            Some(0) => return ShardPlace { shard: ROOT_SHARD, depth: Depth::Root as usize },
            Some(wildcard) => &text[..wildcard - 1],
            None => text,
        };
        self.place_of_topic(literal, Depth::Deep)
            .unwrap_or_else(|| ShardPlace { shard: self.shard_of(literal), depth: Depth::Shallow as usize })
    }

    #[inline]
    fn shard_of(&self, beginning: &str) -> usize {
        self.shards.shard_of(beginning.as_bytes())
    }
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

const fn id_of(shard: usize, place: FilterPlace) -> FilterId {
    let below = if place.is_below { BELOW } else { 0 };
    FilterId((shard as u32) << SHARD_SHIFT | below | place.node)
}

const fn place_of(filter: FilterId) -> (usize, FilterPlace) {
    let place = FilterPlace { node: filter.0 & (BELOW - 1), is_below: filter.0 & BELOW != 0 };
    ((filter.0 >> SHARD_SHIFT) as usize, place)
}
