//! Who wants what, said to others: an ordered feed of one node's filters, and the follower's copy of it.
//!
//! [`Interest`] counts the local subscribers of each filter and publishes a [`Change`] when the first comes and when
//! the last goes. [`Replica`] applies what it hears of that to an [`Index`](crate::Index), under one target. Neither
//! does I/O: a link between them asks [`Replica::needs`], fetches it by [`Interest::changes_since`] or
//! [`Interest::snapshot_page`], and hands it over. One node writes its own feed alone, so no two nodes ever need to
//! agree.
//!
//! ```text
//!     Interest                                                        Replica
//!     ─────────                                                       ────────
//!     set of filters ──── snapshot_page(start) ── page, sequence ───► apply_page ────┐
//!     ring of changes ─── changes_since(epoch, sequence) ──────────► apply_changes ──┼──► Index, one target
//!     hash of the set ─── state() ─────────────────────────────────► check           │
//!                                                                    drop_stale ─────┘
//! ```
//!
//! # Order
//!
//! A feed has an [`Epoch`], the incarnation of its node, and numbers its changes from 1. A snapshot is read in pages
//! while changes go on, and a page says at which sequence it was read. The first page's sequence is where changes are
//! applied from; the copy is complete when the last page is in and the changes up to the latest page's sequence are
//! applied. Pages may be ahead of the changes, never behind: what a change before the page did is done again and the
//! last word on a filter is the latest change's.
//!
//! **Invariant:** a complete [`Replica`] at sequence *n* of an epoch holds exactly the filters that the [`Interest`] of
//! this epoch held at its sequence *n*, whatever was lost, repeated or reordered on the way. What does not fit is
//! refused with a [`Refusal`], after which [`Replica::needs`] says what to fetch.
//!
//! # When they disagree after all
//!
//! Both sides keep the sum of a keyed 128-bit hash of every filter. [`Replica::check`] compares them at equal
//! sequences; if they differ, the replica takes a new snapshot. Routes that it had stay in the index meanwhile, marked
//! as stale, and those that the snapshot did not confirm are dropped at its end, a few at a time.

mod interest;
mod replica;
mod set_hash;

pub use interest::{Changes, Interest, NotHeld, Page, RING_BYTES_DEFAULT, Since};
pub use replica::{Agreement, Needs, Refusal, Replica};
pub use set_hash::{HashKey, SetHash};

use meridian_types::TopicFilter;

/// The incarnation of a feed: a later one has a greater number, and none is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// The number of a change in its epoch, from 1; or how many changes there have been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sequence(pub u64);

/// One change of a set of filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A filter that was not there is now.
    Add(TopicFilter<'a>),
    /// A filter that was there is no more.
    Remove(TopicFilter<'a>),
}

impl<'a> Change<'a> {
    /// The filter that it is about.
    pub const fn filter(self) -> TopicFilter<'a> {
        match self {
            Self::Add(filter) | Self::Remove(filter) => filter,
        }
    }
}

/// Where a page of a snapshot starts. Its number means something to the feed that gave it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageStart(pub u32);

impl PageStart {
    /// Where the first page starts.
    pub const FIRST: Self = Self(0);
}

/// What a page of a snapshot says besides its filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHead {
    /// The feed's incarnation.
    pub epoch: Epoch,
    /// The latest change when it was read.
    pub sequence: Sequence,
    /// Where it starts.
    pub start: PageStart,
    /// Where the next starts; none if this is the last.
    pub next: Option<PageStart>,
}

/// A feed as a whole at one moment: what a node sends now and then, so that followers can tell whether they are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The feed's incarnation.
    pub epoch: Epoch,
    /// Its latest change.
    pub sequence: Sequence,
    /// The hash of the set after that change.
    pub hash: SetHash,
}
