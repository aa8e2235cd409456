//! What each publishing thread owns.

use crate::metrics::LocalCounters;
use crate::route::RouteCache;
use crate::{Counter, Encodings, Metrics, Target, Verdict};
use meridian_router::Matches;
use meridian_types::Instant;
use std::sync::Arc;

/// The state of one publishing thread. Not shared; made once for each thread.
pub struct Context {
    /// The present, as of the start of the turn.
    pub now: Instant,
    /// Counted since the last [`Context::end_turn`].
    pub counters: LocalCounters,
    pub(crate) cache: RouteCache,
    pub(crate) matches: Matches,
    pub(crate) encodings: Encodings,
    /// Offers made since [`Context::take_offers`].
    pub(crate) offers: usize,
    touched: Vec<Arc<dyn Target>>,
    casualties: Vec<Arc<dyn Target>>,
    full: Vec<Arc<dyn Target>>,
}

impl Context {
    /// A context whose route cache holds at most about `cache_bytes_max` bytes.
    pub fn new(cache_bytes_max: usize) -> Self {
        Self {
            now: Instant::default(),
            counters: LocalCounters::default(),
            cache: RouteCache::new(cache_bytes_max),
            matches: Matches::new(),
            encodings: Encodings::default(),
            offers: 0,
            touched: Vec::new(),
            casualties: Vec::new(),
            full: Vec::new(),
        }
    }

    /// Notes that `target` has output waiting.
    #[inline]
    pub fn touch(&mut self, target: Arc<dyn Target>) {
        self.touched.push(target);
    }

    /// How many targets wait for a flush.
    pub fn touched_count(&self) -> usize {
        self.touched.len()
    }

    /// Writes out every touched target, once; one that has more to write stays for the next time.
    pub fn flush(&mut self) {
        self.touched.retain(|target| target.flush());
    }

    /// Adds what was counted to the shared counters.
    pub fn end_turn(&mut self, metrics: &Metrics) {
        self.counters.drain_into(metrics);
    }

    /// The targets that asked the current publisher to wait, since the last call.
    pub fn take_full(&mut self) -> Vec<Arc<dyn Target>> {
        std::mem::take(&mut self.full)
    }

    /// How many targets have been offered a message since the last call: what a publisher's packets have cost.
    #[inline]
    pub fn take_offers(&mut self) -> usize {
        std::mem::take(&mut self.offers)
    }

    /// Counts other work for the current publisher that takes as long as `offers` would.
    #[inline]
    pub fn count_as_offers(&mut self, offers: usize) {
        self.offers += offers;
    }

    /// Whether any target asked the current publisher to wait.
    #[inline]
    pub fn has_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// Counts a verdict and notes what it entails for later.
    #[inline]
    pub(crate) fn note(&mut self, target: &Arc<dyn Target>, verdict: Verdict) {
        match verdict {
            Verdict::Taken { first: false } => self.counters.add(Counter::Delivered, 1),
            Verdict::Taken { first: true } => {
                self.counters.add(Counter::Delivered, 1);
                self.touched.push(target.clone());
            }
            _ => self.note_trouble(target, verdict),
        }
    }

    #[cold]
    fn note_trouble(&mut self, target: &Arc<dyn Target>, verdict: Verdict) {
        match verdict {
            Verdict::TakenForOldest { dropped } => {
                self.counters.add(Counter::Delivered, 1);
                self.counters.add(Counter::DroppedOldest, u64::from(dropped));
            }
            Verdict::TakenButFull => {
                self.counters.add(Counter::Delivered, 1);
                self.full.push(target.clone());
            }
            Verdict::DroppedFull => self.counters.add(Counter::DroppedNewest, 1),
            Verdict::DroppedAndFull => {
                self.counters.add(Counter::DroppedNewest, 1);
                self.full.push(target.clone());
            }
            Verdict::DroppedMemory => self.counters.add(Counter::DroppedMemory, 1),
            Verdict::DroppedAway => self.counters.add(Counter::DroppedOffline, 1),
            Verdict::DroppedTooLarge => self.counters.add(Counter::DroppedTooLarge, 1),
            Verdict::CutOff => {
                self.counters.add(Counter::DroppedCutOff, 1);
                self.casualties.push(target.clone());
            }
            Verdict::Taken { .. } | Verdict::Gone => {}
        }
    }

    /// Notes a target that has to be ended although its message went elsewhere.
    pub(crate) fn note_casualty(&mut self, target: &Arc<dyn Target>) {
        self.casualties.push(target.clone());
    }

    /// Phase two of a dispatch: ends the targets that were found too slow.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if !self.casualties.is_empty() {
            for target in self.casualties.drain(..) {
                target.cut_off();
            }
        }
    }
}
