//! The protocol-neutral broker.
//!
//! One publish makes one look-up and offers the message to each target found ([`Broker::publish`]). What a target is
//! (a session, a queue, a link to another node) is the affair of whoever implements [`Target`]. The broker also keeps
//! what outlives a publish: retained messages, share groups, counters.
//!
//! It names no protocol, opens no socket, starts no thread and takes the time as an argument. Each thread that
//! publishes owns a [`Context`]: the route cache, the list of targets touched since the last flush, and counters
//! that are added to the shared ones once a turn.

pub mod broker;
pub mod context;
pub mod metrics;
pub mod publication;
pub mod retained;
pub mod route;
pub mod share;
pub mod target;
pub mod wheel;

pub use broker::{Broker, Limits, Outcome, SubscribeOptions, Subscribed};
pub use context::Context;
pub use metrics::{Counter, Metrics};
pub use publication::{Encodings, Publication};
pub use retained::Retained;
pub use share::{Group, ShareStrategy};
pub use target::{Readiness, Target, Terms, Verdict, Waiter};
pub use wheel::Wheel;
