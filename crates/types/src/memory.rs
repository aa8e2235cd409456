//! The memory that messages and buffers hold, counted over the whole process, and its bound.
//!
//! Whatever can grow with what clients do (kept messages, outboxes, incomplete packets, subscriptions, aliases) carries
//! a [`Held`]: bytes that count from when it is made until it is dropped, once, however many share what holds them.
//! Counting is an addition to a number of the thread's own; [`settle`] adds it to the process's, once a turn. So the
//! sum lags behind by what the threads have done since, and costs no atomic per message.
//!
//! ```text
//!  0 ───────── free ────────── 3/4 ───── tight ───── limit ──── full ────►
//!              as configured       each holder keeps         nothing more
//!                                  its share of the rest     is kept
//! ```
//!
//! The count is the process's because its memory is: tests of one process share it.

use bytes::Bytes;
use std::cell::Cell;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicIsize, AtomicU8, AtomicUsize};

thread_local! {
    static DELTA: Cell<isize> = const { Cell::new(0) };
}

static LEDGER: Ledger = Ledger::new();

/// How near the limit the process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Below three quarters of the limit.
    Free,
    /// From there on: who keeps things keeps no more than its [`share`].
    Tight,
    /// At the limit: nothing more is kept.
    Full,
}

/// Bytes that count as held as long as this lives.
#[derive(Debug, Default)]
pub struct Held(usize);

impl Held {
    /// Counts `bytes` from now on. Cost: one addition.
    #[inline]
    pub fn new(bytes: usize) -> Self {
        note(bytes as isize);
        Self(bytes)
    }

    /// What it counts.
    #[inline]
    pub const fn bytes(&self) -> usize {
        self.0
    }

    /// Counts `bytes` instead.
    #[inline]
    pub fn set(&mut self, bytes: usize) {
        if bytes != self.0 {
            note(bytes as isize - self.0 as isize);
            self.0 = bytes;
        }
    }
}

/// A clone counts as much again: what it stands for was copied.
impl Clone for Held {
    fn clone(&self) -> Self {
        Self::new(self.0)
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        note(-(self.0 as isize));
    }
}

#[inline]
fn note(bytes: isize) {
    DELTA.set(DELTA.get() + bytes);
}

/// A copy of `bytes` that can be shared and counts as long as anybody has it.
pub fn copy(bytes: &[u8]) -> Bytes {
    struct Counted(Box<[u8]>, #[expect(dead_code, reason = "counts until it is dropped")] Held);
    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Counted(bytes.into(), Held::new(bytes.len())))
}

/// Adds what this thread has counted to the process's sum, and works out the level for `holders` sessions. Each thread
/// that handles messages calls it once a turn. Cost: one atomic, if anything has changed.
pub fn settle(holders: usize) {
    let delta = DELTA.replace(0);
    if delta != 0 {
        LEDGER.add(delta, holders);
    }
}

/// Sets the limit.
pub fn set_limit(bytes: usize) {
    LEDGER.limit.store(bytes, Relaxed);
    LEDGER.add(0, 1);
}

/// The limit.
pub fn limit() -> usize {
    LEDGER.limit.load(Relaxed)
}

/// Bytes held, as of each thread's last [`settle`].
pub fn held() -> usize {
    LEDGER.held()
}

/// How near the limit it is. Cost: a look at a number that seldom changes.
#[inline]
pub fn level() -> Level {
    LEDGER.level()
}

/// What one of the holders may keep while memory is not [`Level::Free`]: its part of the last quarter.
pub fn share() -> usize {
    LEDGER.share.load(Relaxed)
}

/// The process's sum.
struct Ledger {
    held: AtomicIsize,
    limit: AtomicUsize,
    share: AtomicUsize,
    level: AtomicU8,
}

impl Ledger {
    const fn new() -> Self {
        Self {
            held: AtomicIsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            share: AtomicUsize::new(usize::MAX),
            level: AtomicU8::new(Level::Free as u8),
        }
    }

    fn add(&self, delta: isize, holders: usize) {
        self.held.fetch_add(delta, SeqCst);
        // Until nobody has changed the sum since it was looked at: the last look has to be at the last sum.
        while self.set_level(holders) {}
    }

    /// Works the level out. Returns whether it has changed.
    fn set_level(&self, holders: usize) -> bool {
        let (held, limit) = (self.held(), self.limit.load(Relaxed));
        let rest = limit / 4;
        let level = match held {
            _ if held >= limit => Level::Full,
            _ if held >= limit - rest => Level::Tight,
            _ => Level::Free,
        };
        if level != Level::Free {
            self.share.store(rest / holders.max(1), Relaxed);
        }
        // Written only when it changes: all threads look at it all the time.
        let has_changed = level != self.level();
        if has_changed {
            self.level.swap(level as u8, SeqCst);
        }
        has_changed
    }

    /// One thread may have settled the end of what another is yet to settle the beginning of.
    fn held(&self) -> usize {
        usize::try_from(self.held.load(SeqCst)).unwrap_or(0)
    }

    #[inline]
    fn level(&self) -> Level {
        match self.level.load(Relaxed) {
            0 => Level::Free,
            1 => Level::Tight,
            _ => Level::Full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What this thread has counted since the last call.
    fn counted() -> isize {
        DELTA.replace(0)
    }

    #[test]
    fn bytes_count_while_they_are_held() {
        counted();
        let mut held = Held::new(10);
        let copy = held.clone();
        assert_eq!(counted(), 20);
        held.set(3);
        assert_eq!(counted(), -7);
        drop((held, copy));
        assert_eq!(counted(), -13);
    }

    #[test]
    fn a_copy_that_is_shared_counts_once_until_the_last_has_gone() {
        counted();
        let one = copy(b"payload");
        let other = one.slice(1..3);
        assert_eq!((counted(), &one[..], &other[..]), (7, &b"payload"[..], &b"ay"[..]));
        drop(one);
        assert_eq!(counted(), 0);
        drop(other);
        assert_eq!(counted(), -7);
    }

    #[test]
    fn the_level_follows_the_sum() {
        let ledger = Ledger::new();
        ledger.limit.store(400, Relaxed);
        for (delta, level) in [
            (299, Level::Free),
            (1, Level::Tight),
            (99, Level::Tight),
            (1, Level::Full),
            (100, Level::Full),
            (-201, Level::Free),
            (-500, Level::Free),
        ] {
            ledger.add(delta, 10);
            assert_eq!(ledger.level(), level, "{}", ledger.held());
        }
        assert_eq!(ledger.share.load(Relaxed), 10);
    }
}
