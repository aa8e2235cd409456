//! Counters and histograms of one worker, and what workers share with the thread that watches them.

use super::packet::{Stamp, TAG_BITS};
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

/// Finest latency told apart.
const LATENCY_MIN_NS: u64 = 100;
/// Longest latency; a longer one counts as this.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
/// Significant digits kept.
const LATENCY_DIGITS: u8 = 3;
/// Messages about trouble that are kept; the counters count them all.
const TROUBLES_MAX: usize = 20;

/// A histogram of nanoseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LATENCY_MIN_NS, LATENCY_MAX_NS, LATENCY_DIGITS)
        .expect("constant bounds are valid")
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    #[default]
    SetUp,
    WarmUp,
    Measure,
    /// No more is sent, what is under way arrives.
    Drain,
    End,
}

/// What a worker has counted since it began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// Connections that reached their state of work.
    pub(crate) ready: u64,
    /// Connections that did not.
    pub(crate) failed: u64,
    /// Established connections that the broker closed.
    pub(crate) closed: u64,
    /// Subscriptions or messages that the broker refused by a reason code.
    pub(crate) refused: u64,
    /// Filters acknowledged.
    pub(crate) subscribed: u64,
    /// Clients of a storm that were through.
    pub(crate) visits: u64,
    pub(crate) published: u64,
    pub(crate) acknowledged: u64,
    pub(crate) delivered: u64,
    pub(crate) delivered_bytes: u64,
    /// Deliveries no longer waited for, because nothing came for a while.
    pub(crate) written_off: u64,
    /// Numbers missing in a publisher's sequence at a subscriber.
    pub(crate) gaps: u64,
    pub(crate) duplicates: u64,
    pub(crate) reordered: u64,
    /// Messages that are not of this run.
    pub(crate) foreign: u64,
}

impl Counters {
    fn fields(&mut self) -> [&mut u64; 15] {
        [
            &mut self.ready,
            &mut self.failed,
            &mut self.closed,
            &mut self.refused,
            &mut self.subscribed,
            &mut self.visits,
            &mut self.published,
            &mut self.acknowledged,
            &mut self.delivered,
            &mut self.delivered_bytes,
            &mut self.written_off,
            &mut self.gaps,
            &mut self.duplicates,
            &mut self.reordered,
            &mut self.foreign,
        ]
    }

    /// The sum of both.
    pub(crate) fn plus(mut self, mut other: Self) -> Self {
        for (sum, value) in self.fields().into_iter().zip(other.fields()) {
            *sum += *value;
        }
        self
    }

    /// What came since an earlier reading.
    pub(crate) fn since(mut self, mut earlier: Self) -> Self {
        for (value, start) in self.fields().into_iter().zip(earlier.fields()) {
            *value -= *start;
        }
        self
    }
}

/// What a worker last told.
#[derive(Clone, Copy, Debug, Default)]
struct Post {
    phase: Phase,
    counters: Counters,
}

/// A counter on cache lines of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Padded(AtomicU64);

/// What workers and the watching thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    phase: AtomicU8,
    /// When publishing began, in nanoseconds since `start`.
    begin_ns: AtomicU64,
    start: Instant,
    delivered: Vec<Padded>,
    posts: Vec<Mutex<Post>>,
    troubles: Mutex<Vec<String>>,
}

impl Shared {
    pub(crate) fn new(publishers: usize, workers: usize) -> Self {
        Self {
            phase: AtomicU8::new(Phase::SetUp as u8),
            begin_ns: AtomicU64::new(0),
            start: Instant::now(),
            delivered: (0..publishers).map(|_| Padded::default()).collect(),
            posts: (0..workers).map(|_| Mutex::default()).collect(),
            troubles: Mutex::default(),
        }
    }

    /// Nanoseconds since the run began, the clock of all stamps.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        // 584 years fit.
        self.start.elapsed().as_nanos() as u64
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::SetUp,
            1 => Phase::WarmUp,
            2 => Phase::Measure,
            3 => Phase::Drain,
            _ => Phase::End,
        }
    }

    /// Called by the watching thread only, forwards only.
    pub(crate) fn enter(&self, phase: Phase) {
        if phase == Phase::WarmUp {
            self.begin_ns.store(self.now_ns(), Ordering::Relaxed);
        }
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// When publishing began.
    pub(crate) fn begin_ns(&self) -> u64 {
        self.begin_ns.load(Ordering::Relaxed)
    }

    /// Deliveries of a publisher's messages so far, at all subscribers.
    #[inline]
    pub(crate) fn delivered(&self, publisher: u32) -> u64 {
        self.delivered[publisher as usize].0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn add_delivered(&self, publisher: u32, count: u64) {
        self.delivered[publisher as usize].0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn publishers(&self) -> usize {
        self.delivered.len()
    }

    /// Called by a worker at the end of each turn, with the phase it acted in.
    pub(crate) fn post(&self, worker: usize, phase: Phase, counters: Counters) {
        *self.posts[worker].lock() = Post { phase, counters };
    }

    /// Counters of all workers, as of their last turn.
    pub(crate) fn counters(&self) -> Counters {
        self.posts.iter().fold(Counters::default(), |sum, post| sum.plus(post.lock().counters))
    }

    /// Whether every worker has ended a turn in `phase` or a later one. Before that, its counters may lack what it is
    /// still doing in the phase before.
    pub(crate) fn all_in(&self, phase: Phase) -> bool {
        self.posts.iter().all(|post| post.lock().phase >= phase)
    }

    pub(crate) fn trouble(&self, what: String) {
        let mut troubles = self.troubles.lock();
        if troubles.len() < TROUBLES_MAX {
            troubles.push(what);
        }
    }

    pub(crate) fn take_troubles(&self) -> Vec<String> {
        std::mem::take(&mut self.troubles.lock())
    }
}

/// A number by which messages of this run are known.
pub(crate) fn run_tag() -> u32 {
    std::process::id() & ((1 << TAG_BITS) - 1)
}

/// Splits a stamp's source into publisher and whether it is of the run with `tag`.
#[inline]
pub(crate) fn publisher_of(source: u32, tag: u32) -> Option<u32> {
    let bits = 32 - TAG_BITS;
    (source >> bits == tag).then_some(source & ((1 << bits) - 1))
}

/// The source of a stamp.
pub(crate) fn source_of(publisher: u32, tag: u32) -> u32 {
    tag << (32 - TAG_BITS) | publisher
}

/// Deliveries in a row that have publisher and latency in common: those of one write of the publisher, read at once.
#[derive(Clone, Copy, Debug, Default)]
struct Streak {
    publisher: u32,
    due_ns: u64,
    count: u64,
}

/// What one worker measures.
pub(crate) struct Stats {
    pub(crate) counters: Counters,
    pub(crate) latency: Histogram<u64>,
    /// From when a message was due to its PUBACK or PUBCOMP.
    pub(crate) ack_latency: Histogram<u64>,
    /// From connecting to the state of work.
    pub(crate) handshake: Histogram<u64>,
    tag: u32,
    streak: Streak,
}

impl Stats {
    pub(crate) fn new() -> Self {
        Self {
            counters: Counters::default(),
            latency: histogram(),
            ack_latency: histogram(),
            handshake: histogram(),
            tag: run_tag(),
            streak: Streak::default(),
        }
    }

    /// Counts one delivery; `numbers` are the last numbers this subscriber had from each publisher, or empty. Returns
    /// a publisher with a finished streak, whose window may have opened.
    #[inline]
    pub(crate) fn delivery(
        &mut self,
        stamp: Option<Stamp>,
        numbers: &mut [u32],
        shared: &Shared,
        measured_at: Option<u64>,
    ) -> Option<u32> {
        let publisher = stamp
            .and_then(|stamp| publisher_of(stamp.source, self.tag))
            .filter(|&publisher| (publisher as usize) < shared.publishers());
        let (Some(stamp), Some(publisher)) = (stamp, publisher) else {
            self.counters.foreign += 1;
            return None;
        };
        if let Some(last) = numbers.get_mut(publisher as usize) {
            let expected = last.wrapping_add(1);
            if stamp.number == expected {
                *last = expected;
            } else {
                self.out_of_sequence(stamp.number, last);
            }
        }
        if self.streak.publisher == publisher && self.streak.due_ns == stamp.due_ns {
            self.streak.count += 1;
            return None;
        }
        let finished = self.finish_streak(shared, measured_at);
        self.streak = Streak { publisher, due_ns: stamp.due_ns, count: 1 };
        finished
    }

    #[cold]
    fn out_of_sequence(&mut self, number: u32, last: &mut u32) {
        if number > *last {
            self.counters.gaps += u64::from(number - *last - 1);
            *last = number;
        } else if number == *last {
            self.counters.duplicates += 1;
        } else {
            self.counters.reordered += 1;
        }
    }

    /// Books the deliveries in a row that are not booked yet, with their latency if `measured_at` is the time at which
    /// they were read. Returns their publisher.
    pub(crate) fn finish_streak(&mut self, shared: &Shared, measured_at: Option<u64>) -> Option<u32> {
        let streak = std::mem::take(&mut self.streak);
        if streak.count == 0 {
            return None;
        }
        self.counters.delivered += streak.count;
        shared.add_delivered(streak.publisher, streak.count);
        if let Some(now_ns) = measured_at {
            self.latency.saturating_record_n(now_ns.saturating_sub(streak.due_ns), streak.count);
        }
        Some(streak.publisher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(numbers: &[u32]) -> Counters {
        let shared = Shared::new(1, 1);
        let mut stats = Stats::new();
        let mut last = [0];
        for &number in numbers {
            let stamp = Stamp { due_ns: 5, source: source_of(0, run_tag()), number };
            stats.delivery(Some(stamp), &mut last, &shared, None);
        }
        stats.finish_streak(&shared, Some(1_000));
        assert_eq!(shared.delivered(0), stats.counters.delivered);
        assert_eq!(stats.latency.len(), stats.counters.delivered);
        stats.counters
    }

    #[test]
    fn a_sequence_without_fault_counts_none() {
        let counters = receive(&[1, 2, 3]);
        assert_eq!(
            (counters.delivered, counters.gaps, counters.duplicates, counters.reordered),
            (3, 0, 0, 0)
        );
    }

    #[test]
    fn gaps_duplicates_and_late_messages_are_told_apart() {
        let counters = receive(&[2, 2, 6, 4, 7]);
        assert_eq!((counters.gaps, counters.duplicates, counters.reordered), (1 + 3, 1, 1));
    }

    #[test]
    fn messages_of_another_run_do_not_count() {
        let shared = Shared::new(1, 1);
        let mut stats = Stats::new();
        let other = Stamp { due_ns: 0, source: source_of(0, run_tag() ^ 1), number: 1 };
        stats.delivery(Some(other), &mut [], &shared, None);
        stats.delivery(None, &mut [], &shared, None);
        stats.finish_streak(&shared, None);
        assert_eq!((stats.counters.foreign, stats.counters.delivered), (2, 0));
    }
}
