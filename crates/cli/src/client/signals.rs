//! Interrupts as something to wait for, so that a client can say goodbye.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Becomes readable when the process is asked to end. The process no longer ends by itself then.
#[derive(Debug)]
pub(crate) struct Signals(UnixStream);

impl Signals {
    /// Takes over SIGINT and SIGTERM.
    ///
    /// # Errors
    /// If there are no file descriptors left.
    pub(crate) fn new() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        pipe::register(SIGINT, write.try_clone()?)?;
        pipe::register(SIGTERM, write)?;
        Ok(Self(read))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
