//! The routing index: which targets a topic's message goes to, and which retained topics a filter finds.

pub mod index;
mod regions;
pub mod store;
mod tree;

pub use index::{Entry, FilterId, Index, TargetId};
pub use regions::Regions;
pub use store::{Cursor, TopicStore};
