//! Listeners, the connection driver, configuration, metrics and wiring: everything of Meridian that touches the
//! operating system.
//!
//! [`run()`] starts one event loop (`shard`) for each core. A loop owns its connections, reads and parses what they
//! send (`mqtt`), and writes to the outbox of whatever `session` a message goes to.

mod banner;
mod clock;
pub mod config;
pub mod error_code;
mod events;
pub mod http;
mod inbox;
mod link;
mod listener;
pub mod log;
mod machine;
mod mqtt;
mod node;
mod observe;
mod outbox;
mod registry;
mod run;
mod session;
mod settings;
mod shard;

pub use error_code::ErrorCode;
pub use listener::ListenError;
pub use run::{RunOptions, StartError, run};
