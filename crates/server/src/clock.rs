//! The process clock: where the broker's notion of time comes from.

use meridian_types::Instant;
use std::sync::OnceLock;

static START: OnceLock<std::time::Instant> = OnceLock::new();

/// The present. The first call starts the clock.
pub(crate) fn now() -> Instant {
    let start = START.get_or_init(std::time::Instant::now);
    // One millisecond ahead, so that no moment is the zero of a field that was never set.
    Instant::from_millis(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1)
}
