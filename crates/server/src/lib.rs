//! Listeners, the connection driver, configuration, metrics and wiring.

pub mod config;
pub mod http;
pub mod log;
