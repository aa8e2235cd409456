//! The routing index: which targets a topic's message goes to, and which retained topics a filter finds.

pub mod index;
pub mod store;

pub use index::{Entry, FilterId, Index, Regions, TargetId};
pub use store::TopicStore;
