//! The feed's side.

use std::collections::{VecDeque, vec_deque};

use meridian_types::TopicFilter;
use roaring::RoaringBitmap;

use super::{Change, Epoch, HashKey, PageHead, PageStart, Sequence, SetHash, State};
use crate::entry::TargetId;
use crate::index::{FilterId, Index};
use crate::owners::bitmap_bytes;

/// Enough for about 150,000 changes: what a follower may miss, in a short cut of its link, without a snapshot.
pub const RING_BYTES_DEFAULT: usize = 16 << 20;

/// What a change in the ring is counted as besides its filter's bytes: two words and a pointer, as much again for the
/// ring's unused capacity, and the allocator's part.
const RECORD_BYTES: usize = 64;

/// What a filter in a page is counted as besides its bytes: its length and a kind.
const PAGE_FILTER_BYTES: usize = 3;

/// The target under which the set's own index counts.
const COUNTER: TargetId = TargetId(0);

/// The filters that local subscribers hold, as a feed for others.
///
/// Filters are counted in an index of their own, some 30 bytes for one that shares its words with others, so that a
/// page can be read from any place on. One thread at a time: the owner puts a lock around it where several subscribe.
pub struct Interest {
    epoch: Epoch,
    sequence: Sequence,
    /// Filters with their counts as options.
    counts: Index,
    /// Ids of the filters in `counts`: a snapshot's order.
    held: RoaringBitmap,
    ring: Ring,
    key: HashKey,
    hash: SetHash,
}

/// A filter was removed more often than it was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no subscriber holds the filter")]
pub struct NotHeld;

/// What there is since a sequence.
pub enum Since<'a> {
    /// The changes, or as many of them as were asked for; none if there are none.
    Changes(Changes<'a>),
    /// The feed no longer has, or never had, the changes from there on: a snapshot is needed.
    Behind,
}

/// Consecutive changes of one epoch, in order.
pub struct Changes<'a> {
    /// The feed's incarnation.
    pub epoch: Epoch,
    /// The sequence before the first of them.
    pub after: Sequence,
    records: vec_deque::Iter<'a, Record>,
}

/// A part of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Where it belongs.
    pub head: PageHead,
    /// The filters, all valid.
    pub filters: Vec<String>,
}

impl Interest {
    /// An empty set. `ring_bytes_max` bounds the latest changes that are kept for followers, see
    /// [`RING_BYTES_DEFAULT`]; what it costs to be behind them is a snapshot. 130 KiB.
    pub fn new(epoch: Epoch, key: HashKey, ring_bytes_max: usize) -> Self {
        Self {
            epoch,
            sequence: Sequence(0),
            counts: Index::new(),
            held: RoaringBitmap::new(),
            ring: Ring { records: VecDeque::new(), bytes: 0, bytes_max: ring_bytes_max },
            key,
            hash: SetHash::default(),
        }
    }

    /// Counts one more subscriber of a filter; returns the sequence of the change if it is the first.
    ///
    /// Cost: two insertions into an index; for a change also one copy of the filter, one hash, and as many old changes
    /// leave the ring as this one's bytes ask for.
    ///
    /// # Panics
    /// With more than 2³² − 1 subscribers of one filter.
    pub fn add(&mut self, filter: TopicFilter<'_>) -> Option<Sequence> {
        let (id, count) = self.counts.insert(filter, COUNTER, 1);
        if let Some(count) = count {
            let more = count.checked_add(1).expect("there are fewer subscribers than targets");
            self.counts.insert(filter, COUNTER, more);
            return None;
        }
        self.held.insert(id.0);
        self.hash.add(&self.key, filter);
        Some(self.publish(Record::Add(filter.as_str().into())))
    }

    /// Counts one subscriber of a filter less; returns the sequence of the change if it was the last. Cost: as of
    /// [`add`](Self::add), and a removal from an index.
    ///
    /// # Errors
    /// [`NotHeld`] if the filter has no subscriber; nothing has changed.
    pub fn remove(&mut self, filter: TopicFilter<'_>) -> Result<Option<Sequence>, NotHeld> {
        // Replaced, not removed and put back: the filter keeps its id, and so its place in every snapshot.
        let (_, count) = self.counts.insert(filter, COUNTER, 0);
        if let Some(count @ 2..) = count {
            self.counts.insert(filter, COUNTER, count - 1);
            return Ok(None);
        }
        let (id, _) = self.counts.remove(filter, COUNTER).expect("it was just inserted");
        if count.is_none() {
            return Err(NotHeld);
        }
        self.held.remove(id.0);
        self.hash.remove(&self.key, filter);
        Ok(Some(self.publish(Record::Remove(filter.as_str().into()))))
    }

    /// The feed as a whole now. O(1).
    pub const fn state(&self) -> State {
        State { epoch: self.epoch, sequence: self.sequence, hash: self.hash }
    }

    /// What has changed since `after` of `epoch`: as many changes as have `bytes_max` bytes together, one at least.
    ///
    /// Cost: O(1), and a step for each change to be returned; allocates nothing.
    pub fn changes_since(&self, epoch: Epoch, after: Sequence, bytes_max: usize) -> Since<'_> {
        let missed = self.sequence.0.checked_sub(after.0).and_then(|count| usize::try_from(count).ok());
        let held = self.ring.records.len();
        match missed {
            Some(missed) if epoch == self.epoch && missed <= held => {
                let records = self.ring.range(held - missed, bytes_max);
                Since::Changes(Changes { epoch, after, records })
            }
            _ => Since::Behind,
        }
    }

    /// The part of a snapshot that starts at `start`: about `bytes_max` bytes of filters, one at least if there is one.
    ///
    /// Nothing is kept between pages, so any number of followers may read at any pace; what changes meanwhile is for
    /// [`changes_since`](Self::changes_since) the first page's sequence. Cost: for each filter what
    /// [`Index::filter_text`] costs.
    pub fn snapshot_page(&self, start: PageStart, bytes_max: usize) -> Page {
        let mut filters = Vec::new();
        let mut bytes = 0;
        let mut next = None;
        for id in self.held.range(start.0..) {
            let text = self.counts.filter_text(FilterId(id)).expect("a filter with a target has a text");
            bytes += text.len() + PAGE_FILTER_BYTES;
            if bytes > bytes_max && !filters.is_empty() {
                next = Some(PageStart(id));
                break;
            }
            filters.push(text);
        }
        let head = PageHead { epoch: self.epoch, sequence: self.sequence, start, next };
        Page { head, filters }
    }

    /// Filters held. Cost: a step for each 65,536 ids.
    pub fn filter_count(&self) -> usize {
        self.held.len() as usize
    }

    /// Changes in the ring. O(1).
    pub fn ring_count(&self) -> usize {
        self.ring.records.len()
    }

    /// Bytes that the ring counts, at most the limit it was given. O(1).
    pub const fn ring_bytes(&self) -> usize {
        self.ring.bytes
    }

    /// Bytes of memory held. Visits every page of the counting index: for metrics.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.counts.memory_bytes() + bitmap_bytes(&self.held) + self.ring.bytes
    }

    fn publish(&mut self, record: Record) -> Sequence {
        self.sequence.0 += 1;
        self.ring.push(record);
        self.sequence
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Change<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.records.next().map(Record::as_change)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.records.size_hint()
    }
}

impl ExactSizeIterator for Changes<'_> {}

/// A change as the ring keeps it.
enum Record {
    Add(Box<str>),
    Remove(Box<str>),
}

impl Record {
    fn text(&self) -> &str {
        let (Self::Add(text) | Self::Remove(text)) = self;
        text
    }

    fn as_change(&self) -> Change<'_> {
        let filter = TopicFilter::new(self.text()).expect("only valid filters are published");
        match self {
            Self::Add(_) => Change::Add(filter),
            Self::Remove(_) => Change::Remove(filter),
        }
    }

    fn bytes(&self) -> usize {
        self.text().len() + RECORD_BYTES
    }
}

/// The latest changes, the oldest first.
struct Ring {
    records: VecDeque<Record>,
    bytes: usize,
    bytes_max: usize,
}

impl Ring {
    fn push(&mut self, record: Record) {
        self.bytes += record.bytes();
        self.records.push_back(record);
        while self.bytes > self.bytes_max {
            let oldest = self.records.pop_front().expect("bytes are of records");
            self.bytes -= oldest.bytes();
        }
    }

    /// The records from `from` on, up to `bytes_max`, one at least if there is one.
    fn range(&self, from: usize, bytes_max: usize) -> vec_deque::Iter<'_, Record> {
        let mut bytes = 0;
        let fitting = self.records.range(from..).take_while(|record| {
            bytes += record.bytes();
            bytes <= bytes_max
        });
        let count = fitting.count().max(1).min(self.records.len() - from);
        self.records.range(from..from + count)
    }
}
