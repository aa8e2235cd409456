//! What the benchmarks of exchanges have in common: a clock, and headers.

use std::time::Duration;

use meridian_router::exchange::{Field, HeaderValue};
use nix::time::{ClockId, clock_gettime};

/// CPU time of this thread, to the nanosecond. (What `/proc` says of a running thread is older by up to a tick.)
pub(crate) fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has a clock for each thread").into()
}

/// The name of a device, by number.
pub(crate) fn device_of(number: u32) -> String {
    format!("device {number}")
}

/// `x-match` and three conditions: one that a tenth of all bindings have, one that a thousandth has, one of its own.
pub(crate) fn conditions<'a>(mode: &'a str, number: u32, device: &'a str) -> [Field<'a>; 4] {
    [
        (b"x-match", HeaderValue::from(mode)),
        (b"site", HeaderValue::Integer(i64::from(number % 10))),
        (b"line", HeaderValue::Integer(i64::from(number % 1_000))),
        (b"device", HeaderValue::from(device)),
    ]
}
