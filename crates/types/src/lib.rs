//! Names, messages, limits and time shared by every Meridian crate.
//!
//! This crate holds plain data: what a topic or filter may look like, what a message carries, what the named
//! limits are. It does no I/O, starts nothing, and knows no wire format.

pub mod limits;
pub mod memory;
pub mod message;
pub mod qos;
pub mod time;
pub mod topic;

pub use message::{Message, PayloadFormat, Properties};
pub use qos::Qos;
pub use time::Instant;
pub use topic::{SharedFilter, TopicError, TopicFilter, TopicName};
