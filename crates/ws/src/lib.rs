//! Sans-I/O WebSocket (RFC 6455) for both roles: the opening handshake, and frames in and out.
//!
//! Bytes come in as slices and are unmasked where they lie; bytes go out into buffers of the caller's. This crate
//! opens no socket, keeps no clock, draws no random numbers (a client passes its masks and key), negotiates no
//! extensions, and does not gather fragments into messages: a data frame is handed out piece by piece as it comes,
//! which is what a protocol that is itself a stream of packets wants (MQTT 5.0 §6).
//!
//! ```text
//!  0               1               2 .. 3 or 9     then 4 bytes    then
//! +-+-+-+-+-------+-+-------------+---------------+---------------+------------------+
//! |F|R|R|R|opcode |M| length 7    | length 16/64  | masking key,  | payload          |
//! |I|S|S|S|       |A|             | if 126 or 127 | if MASK       |                  |
//! |N|V|V|V|       |S|             |               |               |                  |
//! +-+-+-+-+-------+-+-------------+---------------+---------------+------------------+
//! ```

pub mod close;
pub mod decode;
pub mod frame;
pub mod handshake;

pub use close::{Close, CloseCode};
pub use decode::{Control, Decoder, Error, Event, Kinds, Role, Step, Unframed};
pub use frame::{Header, Opcode, encode_close, encode_frame, encode_header, mask_in_place};
