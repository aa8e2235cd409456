//! Sans-I/O MQTT 3.1.1 and 5.0: the codec and the state machines of a session.
//!
//! Bytes come in as slices and go out into buffers; time is an argument. This crate opens no socket, starts no
//! task, and does not know the broker.

pub mod aliases;
pub mod decode;
pub mod encode;
pub mod frame;
pub mod inflight;
pub mod packet;
mod properties;
pub mod reason;

pub use aliases::{AliasesIn, AliasesOut};
pub use decode::DecodeError;
pub use frame::{Frame, FrameError};
pub use inflight::Inflight;
pub use packet::{Packet, Version};
pub use reason::ReasonCode;
