//! The routing index: which targets a topic's message goes to, and which retained topics a filter finds.

mod arena;
mod hash;
mod heap;
pub mod index;
mod interner;
mod labels;
mod node;
mod regions;
pub mod store;
mod table;
mod targets;
mod tree;
mod words;

pub use index::{Entry, FilterId, Index, TargetId};
pub use regions::Regions;
pub use store::{Cursor, TopicStore};
