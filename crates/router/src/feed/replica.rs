//! The follower's side.

use meridian_types::TopicFilter;

use super::{Change, Epoch, HashKey, PageHead, PageStart, Sequence, SetHash, State};
use crate::entry::TargetId;
use crate::index::Index;
use crate::owners::{Dropped, Insertion, OwnedRoutes, Removal};

/// A follower's copy of a feed: the filters of another node, as routes to one target of an index.
///
/// What it is handed may have been lost, repeated or reordered on the way; see the module for what holds nevertheless.
/// It is driven by whoever owns the link:
///
/// 1. fetch what [`needs`](Self::needs) says and hand it over, until it is [complete](Self::is_complete);
/// 2. hand over changes as they come, compare by [`check`](Self::check) now and then;
/// 3. call [`drop_stale`](Self::drop_stale) in idle moments while [`stale_count`](Self::stale_count) is not zero;
/// 4. when the node is gone, call [`drop_owner`](Self::drop_owner) until nothing is left.
///
/// Each call that changes routes tells its `changed` of every filter that enters or leaves the index under this target,
/// so that counts of many replicas can be kept, such as the union of a region's filters in an
/// [`Interest`](super::Interest).
pub struct Replica {
    routes: OwnedRoutes,
    key: HashKey,
    /// Of the routes that are not stale.
    hash: SetHash,
    epoch: Epoch,
    /// The latest change that is applied.
    applied: Sequence,
    phase: Phase,
}

/// What a replica knows.
#[derive(Clone, Copy)]
enum Phase {
    /// Nothing, or nothing any more: a snapshot must be begun.
    Lost,
    /// A part of a snapshot.
    Loading {
        /// Where the next page starts.
        next: PageStart,
        /// The latest sequence that a page was read at.
        read_at: Sequence,
    },
    /// A snapshot, and changes since.
    Following {
        /// The latest sequence that a page was read at: complete from there on.
        read_at: Sequence,
    },
}

/// What a replica asks its feed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// A page of the snapshot.
    pub page: Option<PageStart>,
    /// The changes since this sequence of an epoch. While pages are needed too, changes may be fetched in between, and
    /// should be if the snapshot is long: the feed's ring does not hold them for ever.
    pub changes: Option<(Epoch, Sequence)>,
}

/// Why a page or changes were not applied. None of them is fatal: fetch what [`Replica::needs`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is of an incarnation that has ended.
    #[error("it is of epoch {}, which ended before {}", .got.0, .current.0)]
    OldEpoch {
        /// The replica's.
        current: Epoch,
        /// The message's.
        got: Epoch,
    },
    /// It is of a new incarnation, so all that is held is stale now and a snapshot is needed.
    #[error("it is of epoch {}, which starts over", .got.0)]
    NewEpoch {
        /// The message's.
        got: Epoch,
    },
    /// Changes without the ones before them.
    #[error("changes after {} came while those after {} are needed", .got.0, .applied.0)]
    Gap {
        /// The latest change applied.
        applied: Sequence,
        /// What the message starts behind.
        got: Sequence,
    },
    /// Changes, while nothing is known that they could change.
    #[error("changes came before the snapshot")]
    NoSnapshot,
    /// A page that is not the next.
    #[error("a page from {} came while the one from {} is needed", .got.0, .needed.0)]
    OtherPage {
        /// Where the needed page starts.
        needed: PageStart,
        /// Where this one does.
        got: PageStart,
    },
    /// A page, while none is needed.
    #[error("a page from {} came after the last one", .got.0)]
    NoPageNeeded {
        /// Where it starts.
        got: PageStart,
    },
    /// A page that was read before changes that are applied already.
    #[error("a page read at {} came after change {}", .got.0, .applied.0)]
    OldPage {
        /// The latest change applied.
        applied: Sequence,
        /// The change the page was read at.
        got: Sequence,
    },
}

/// What comparing with the feed's state has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// Both are at the same sequence with the same hash.
    Agrees,
    /// Nothing: they are not at the same place, or the copy is not complete.
    Elsewhere,
    /// Same place, different filters: a new snapshot is needed, and all routes are stale until then.
    Differs,
}

impl Replica {
    /// A copy of nothing, whose routes will lead to `target` with `options`. `key` is the feed's.
    pub fn new(target: TargetId, options: u32, key: HashKey) -> Self {
        Self {
            routes: OwnedRoutes::new(target, options),
            key,
            hash: SetHash::default(),
            epoch: Epoch(0),
            applied: Sequence(0),
            phase: Phase::Lost,
        }
    }

    /// What to ask the feed for.
    pub const fn needs(&self) -> Needs {
        let changes = Some((self.epoch, self.applied));
        match self.phase {
            Phase::Lost => Needs { page: Some(PageStart::FIRST), changes: None },
            Phase::Loading { next, .. } => Needs { page: Some(next), changes },
            Phase::Following { .. } => Needs { page: None, changes },
        }
    }

    /// Applies the page that is needed, whatever there is of stale routes.
    ///
    /// Cost: for each filter an [`Index::insert`], a step in a bitmap and a hash; for a first page also that of
    /// [`OwnedRoutes::mark_stale`].
    ///
    /// # Errors
    /// [`Refusal`] if it is another page, is older than changes that are applied, or is of another epoch. Nothing was
    /// applied.
    pub fn apply_page<'f>(
        &mut self,
        index: &Index,
        head: PageHead,
        filters: impl IntoIterator<Item = TopicFilter<'f>>,
        changed: &mut dyn FnMut(Change<'_>),
    ) -> Result<(), Refusal> {
        let PageHead { epoch, sequence, start, next } = head;
        let is_lost = matches!(self.phase, Phase::Lost);
        self.check_epoch(epoch, is_lost && start == PageStart::FIRST)?;
        let needed = self.needs().page.ok_or(Refusal::NoPageNeeded { got: start })?;
        if needed != start {
            return Err(Refusal::OtherPage { needed, got: start });
        }
        if is_lost {
            self.epoch = epoch;
            self.applied = sequence;
        } else if sequence < self.applied {
            return Err(Refusal::OldPage { applied: self.applied, got: sequence });
        }
        let read_at = match self.phase {
            Phase::Loading { read_at, .. } => read_at.max(sequence),
            _ => sequence,
        };
        for filter in filters {
            self.apply(index, Change::Add(filter), changed);
        }
        self.phase = match next {
            Some(next) => Phase::Loading { next, read_at },
            None => Phase::Following { read_at },
        };
        Ok(())
    }

    /// Applies those of the changes after `after` that are not applied yet; returns how many they were.
    ///
    /// Cost: for each change an [`Index::insert`] or [`Index::remove`], a step in a bitmap and a hash.
    ///
    /// # Errors
    /// [`Refusal`] if changes before them are missing, there is no snapshot, or they are of another epoch. Nothing was
    /// applied.
    pub fn apply_changes<'f>(
        &mut self,
        index: &Index,
        epoch: Epoch,
        after: Sequence,
        changes: impl IntoIterator<Item = Change<'f>>,
        changed: &mut dyn FnMut(Change<'_>),
    ) -> Result<usize, Refusal> {
        self.check_epoch(epoch, false)?;
        if matches!(self.phase, Phase::Lost) {
            return Err(Refusal::NoSnapshot);
        }
        let Some(known) = self.applied.0.checked_sub(after.0) else {
            return Err(Refusal::Gap { applied: self.applied, got: after });
        };
        let mut count = 0;
        for change in changes.into_iter().skip(usize::try_from(known).unwrap_or(usize::MAX)) {
            self.apply(index, change, changed);
            self.applied.0 += 1;
            count += 1;
        }
        Ok(count)
    }

    /// Notes that the feed no longer has the changes that are needed ([`Since::Behind`](super::Since::Behind)): a
    /// snapshot is begun. Routes stay until it is complete. Cost: that of [`OwnedRoutes::mark_stale`].
    pub fn fall_behind(&mut self) {
        self.phase = Phase::Lost;
        self.hash = SetHash::default();
        self.routes.mark_stale();
    }

    /// Compares with what the feed says of itself. O(1), unless they differ: then as
    /// [`fall_behind`](Self::fall_behind).
    ///
    /// # Errors
    /// [`Refusal::OldEpoch`], [`Refusal::NewEpoch`].
    pub fn check(&mut self, state: State) -> Result<Agreement, Refusal> {
        self.check_epoch(state.epoch, matches!(self.phase, Phase::Lost))?;
        if !self.is_complete() || state.sequence != self.applied {
            return Ok(Agreement::Elsewhere);
        }
        if state.hash == self.hash {
            return Ok(Agreement::Agrees);
        }
        self.fall_behind();
        Ok(Agreement::Differs)
    }

    /// Drops up to `routes_max` routes that the last snapshot did not confirm; none before the copy is
    /// [complete](Self::is_complete). Cost: that of [`OwnedRoutes::drop_stale`].
    pub fn drop_stale(
        &mut self,
        index: &Index,
        routes_max: usize,
        changed: &mut dyn FnMut(Change<'_>),
    ) -> Dropped {
        // A filter that left one page and came back into another while it was read is in the changes alone.
        let routes_max = if self.is_complete() { routes_max } else { 0 };
        self.routes.drop_stale(index, routes_max, &mut |filter| changed(Change::Remove(filter)))
    }

    /// Drops up to `routes_max` of all routes, since the node is gone; the replica is lost. To be called until nothing
    /// is left; it can then be used again or let go. Cost: that of [`OwnedRoutes::drop_stale`].
    pub fn drop_owner(
        &mut self,
        index: &Index,
        routes_max: usize,
        changed: &mut dyn FnMut(Change<'_>),
    ) -> Dropped {
        self.fall_behind();
        self.routes.drop_stale(index, routes_max, &mut |filter| changed(Change::Remove(filter)))
    }

    /// Whether it is the feed's set as of [`position`](Self::position), apart from stale routes still to be dropped.
    pub fn is_complete(&self) -> bool {
        matches!(self.phase, Phase::Following { read_at } if self.applied >= read_at)
    }

    /// The feed's incarnation and the latest change applied; none while it is lost.
    pub fn position(&self) -> Option<(Epoch, Sequence)> {
        (!matches!(self.phase, Phase::Lost)).then_some((self.epoch, self.applied))
    }

    /// Routes known to be wanted. Cost: a step for each 65,536 filter ids.
    pub fn route_count(&self) -> usize {
        self.routes.current_count()
    }

    /// Routes in the index that are neither known to be wanted nor dropped yet. Cost: as of
    /// [`route_count`](Self::route_count).
    pub fn stale_count(&self) -> usize {
        self.routes.stale_count()
    }

    /// Bytes of memory held besides the index.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() - size_of::<OwnedRoutes>() + self.routes.memory_bytes()
    }

    /// Refuses other epochs, unless this may begin a later one; one that is later than the held one's ends that.
    fn check_epoch(&mut self, got: Epoch, may_begin: bool) -> Result<(), Refusal> {
        let current = self.epoch;
        if got < current {
            return Err(Refusal::OldEpoch { current, got });
        }
        if got > current && !may_begin {
            self.fall_behind();
            self.epoch = got;
            return Err(Refusal::NewEpoch { got });
        }
        Ok(())
    }

    fn apply(&mut self, index: &Index, change: Change<'_>, changed: &mut dyn FnMut(Change<'_>)) {
        match change {
            Change::Add(filter) => {
                let insertion = self.routes.insert(index, filter);
                if insertion != Insertion::Held {
                    self.hash.add(&self.key, filter);
                }
                if insertion == Insertion::New {
                    changed(change);
                }
            }
            Change::Remove(filter) => {
                let removal = self.routes.remove(index, filter);
                if removal == Removal::Current {
                    self.hash.remove(&self.key, filter);
                }
                if removal != Removal::NotHeld {
                    changed(change);
                }
            }
        }
    }
}
