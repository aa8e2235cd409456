//! Time as the broker counts it.
//!
//! Everything below the server takes the present as an argument, so tests own the clock.

use std::time::Duration;

/// A moment on the broker's monotonic clock, in milliseconds since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// A moment later than any that occurs: the deadline of something that never falls due.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment `millis` milliseconds after the start.
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the start.
    #[inline]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The moment `millis` milliseconds later; saturates at [`Instant::NEVER`].
    #[inline]
    pub const fn plus_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// The moment `seconds` seconds later; saturates at [`Instant::NEVER`].
    #[inline]
    pub const fn plus_secs(self, seconds: u64) -> Self {
        self.plus_millis(seconds.saturating_mul(1000))
    }

    /// Time elapsed since `earlier`; zero if `earlier` is in the future.
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}
