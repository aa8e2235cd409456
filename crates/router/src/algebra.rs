//! What one filter or pattern says about another, before any topic is known.
//!
//! *`a` covers `b`*: every topic that `b` matches, `a` matches too, so who has `a` need not ask for `b`. *`a`
//! intersects `b`*: there is a topic that both match. Both are exact: they follow from what filters match, not from how
//! they are written, and nothing is guessed. Between nodes this decides what need not be said twice and what concerns a
//! link.
//!
//! Neither touches an index. MQTT filters cost one pass over both; topic patterns, whose `#` may stand anywhere, at
//! most the product of their words.

mod filters;
mod patterns;

pub use filters::{covers, intersects};
pub use patterns::{pattern_covers, pattern_intersects};
