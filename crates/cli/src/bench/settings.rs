//! What all parts of a run share.

use super::packet::Version;
use std::net::SocketAddr;
use std::time::Duration;

/// The options of a run that all its parts share, checked.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    pub(crate) version: Version,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) prefix: String,
    pub(crate) pids: Vec<u32>,
    pub(crate) duration: Duration,
    pub(crate) warm_up: Duration,
    pub(crate) drain: Duration,
    pub(crate) connecting: usize,
    pub(crate) filters_per_subscribe: usize,
    pub(crate) threads: usize,
    pub(crate) qos: u8,
    pub(crate) subscribe_qos: u8,
    /// Bytes of payload, the stamp included.
    pub(crate) size: usize,
    /// Messages per second of all publishers, in an open loop.
    pub(crate) rate: Option<f64>,
    /// Messages per publisher not yet at all subscribers.
    pub(crate) window: Option<u64>,
    pub(crate) inflight: usize,
    pub(crate) batch: usize,
}
