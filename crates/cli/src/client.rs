//! A small blocking MQTT client for `pub` and `sub`: one connection, one thread, TCP or WebSocket.
//!
//! What it does not do: TLS, reconnecting, AUTH exchanges, topic aliases towards the server.

mod address;
mod connection;
mod error;
mod options;
mod property;
mod random;
mod signals;

pub(crate) use address::Address;
pub(crate) use connection::{Connection, Wait};
pub(crate) use error::Error;
pub(crate) use options::{ClientOptions, Session, borrow, parse_qos};
use property::PropertySet;
pub(crate) use signals::Signals;
