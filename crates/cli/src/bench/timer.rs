//! Wake-ups finer than the millisecond of `epoll_wait`: a kernel timer that the event loop watches like a socket.

use mio::{Registry, Token};
use std::io;
use std::time::Duration;

/// The loop turns at least so often, to see the phase change.
pub(crate) const POLL_MAX: Duration = Duration::from_millis(5);

#[cfg(target_os = "linux")]
pub(crate) use linux::Timer;
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::Timer;

#[cfg(target_os = "linux")]
mod linux {
    use super::{Duration, POLL_MAX, Registry, Token, io};
    use mio::Interest;
    use mio::unix::SourceFd;
    use nix::sys::time::TimeSpec;
    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
    use std::os::fd::{AsFd, AsRawFd};

    /// One timer, set again and again.
    pub(crate) struct Timer {
        timer: TimerFd,
        armed_ns: u64,
    }

    impl Timer {
        /// A timer whose expiry shows as an event of `token`.
        ///
        /// # Errors
        /// No file descriptor is left.
        pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
            let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
            let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
            // Edge-triggered: setting it anew is enough, it need not be read.
            registry.register(&mut SourceFd(&timer.as_fd().as_raw_fd()), token, Interest::READABLE)?;
            Ok(Self { timer, armed_ns: 0 })
        }

        /// Wakes the loop at `deadline_ns` of a clock that shows `now_ns`; returns how long to wait for events at most.
        ///
        /// # Errors
        /// The kernel refuses, which it does not for valid times.
        pub(crate) fn wake_at(&mut self, deadline_ns: u64, now_ns: u64) -> io::Result<Duration> {
            if deadline_ns != self.armed_ns {
                self.armed_ns = deadline_ns;
                // Zero would disarm it.
                let delay = Duration::from_nanos(deadline_ns.saturating_sub(now_ns).max(1));
                let expiration = Expiration::OneShot(TimeSpec::from_duration(delay));
                self.timer.set(expiration, TimerSetTimeFlags::empty())?;
            }
            Ok(POLL_MAX)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod portable {
    use super::{Duration, POLL_MAX, Registry, Token, io};

    /// Where there is no timer descriptor: the time-out of the event loop, rounded as the system does.
    pub(crate) struct Timer;

    impl Timer {
        pub(crate) fn new(_registry: &Registry, _token: Token) -> io::Result<Self> {
            Ok(Self)
        }

        pub(crate) fn wake_at(&mut self, deadline_ns: u64, now_ns: u64) -> io::Result<Duration> {
            Ok(Duration::from_nanos(deadline_ns.saturating_sub(now_ns)).min(POLL_MAX))
        }
    }
}
