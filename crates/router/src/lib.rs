//! The routing index: which targets a topic's message goes to, and which retained topics a filter finds.
//!
//! [`Index`] maps MQTT topic filters (`+`, a last `#`, the `$` rule) to targets and is shared by all threads;
//! [`TopicStore`] maps topics to values and finds them by filter, for one owner. Filters and topics arrive validated, as
//! `meridian-types` makes them.
//!
//! The crate does no I/O, starts no threads, keeps no clock, and knows no protocol: share groups, quality of service
//! and subscription identifiers are for its caller, who attaches 32 bits of its own to each entry. It does not remove
//! duplicates: a target with two matching filters comes twice, with both options.
//!
//! # The index in memory
//!
//! Filters are spread over sixteen trees by their first two literal levels; a topic looks in at most three of them.
//!
//! ```text
//! filter     tree                                  a topic a/b/c/d looks in
//! a/b/…      hash(a/b)                             hash(a/b)   deep
//! a          hash(a)                               hash(a)     shallow, if that tree has any
//! a/+/…      hash(a)                               0           root, if there are any
//! +/…  #     0
//! ```
//!
//! In a tree each node stands for the words from the root to it. Where only one way leads on there is no node: the words
//! in between are folded into the lower node's label, a first word and an interned tail. Here are the filters
//! `device/1/+/4/#` for target 9, `device/1/+/5/#` for target 7, `device/2/+/4/#` for target 9:
//!
//! ```text
//!                       node 20 B               branch 16 B            edge: 4 B in a hash table
//! root                  word   tail  targets    plus  children         keyed by (parent, word)
//!   └─ device           device  –    none       –     2                (root, device)
//!        ├─ 1/+         1      [+]   none       –     2                (device, 1)
//!        │    ├─ 4      4       –    /#: 9      no branch              (1/+, 4)
//!        │    └─ 5      5       –    /#: 7      no branch              (1/+, 5)
//!        └─ 2/+/4       2     [+,4]  /#: 9      no branch              (device, 2)
//! ```
//!
//! | part | where | bytes |
//! |---|---|---|
//! | node | arena of chunks, named by 27 bits that never change | 20 |
//! | branch, for nodes with children | arena | 16 |
//! | edge to a child by a literal word | segmented hash table; the child by `+` is a field of the branch | 5–6 |
//! | word of up to nine digits or four ASCII characters | in its own id | 0 |
//! | other word | a heap block with a use count, once per tree | 8 + text, and 5–6 |
//! | tail | a heap block with a use count, once per tree | 8 + 4 per word, and 5–6 |
//! | one target of a filter | in the node | 0 |
//! | 2 to 32 targets | a heap block | 4 + 8 each |
//! | more | sorted runs of up to 512 | 8 each when they arrive in order, about 11 when not |
//!
//! A million filters of the shape above with one target each take 31 MB in all. `examples/workloads.rs` measures this
//! and everything below.
//!
//! # What operations cost
//!
//! | operation | cost | locks |
//! |---|---|---|
//! | [`Index::matches`] | each node whose words match a beginning of the topic, and the entries found; no allocation | read, up to 3 trees, one after another |
//! | [`Index::insert`], [`Index::remove`], [`Index::remove_by_id`] | the filter's levels; at most two nodes made or unmade; O(log n) in the filter's own targets | write, 1 tree |
//! | [`Index::filter_text`] | the filter's levels | read, 1 tree |
//! | [`Index::regions`], [`Index::generation`] | five hashes; five atomic loads | none |
//! | [`TopicStore::insert`], [`TopicStore::remove`], [`TopicStore::get`] | O(log n) | – |
//! | [`TopicStore::visit_matching`] | O(log n) for each match and each prefix that a `+` tries | – |
//!
//! No change moves more than some 600 table slots, one chunk of 2,048 slots or one run of 512 targets: tables grow by
//! splitting one segment of about 500 ids, never as a whole. The worst a topic of `n` levels can be made to cost is
//! 2ⁿ⁺¹ node visits, and only if as many filters with every combination of `+` are there.
//!
//! # Invariants
//!
//! - **A node other than the root has a target or at least two children**, so memory follows the filters held.
//! - **A node where a filter ends keeps its id while the filter has a target**: labels are split and joined by adding
//!   and removing nodes *above*. This is what makes [`FilterId`] a name.
//! - **One word has one id in a tree, and a topic's word that no filter there holds has none**, so comparing ids is
//!   comparing words.
//! - **A topic's words are looked up under the lock of the tree that is searched**, since ids are used again.
//! - **A filter's count in its shard goes up before the lock is released and down after**: a look-up may pass a
//!   shard by when the count is zero.
//! - **Regions are bumped after the change can be seen, before the call returns**: a result guarded by a generation that
//!   was read before the look-up is never stale.
//! - **Nothing is kept after the last filter is removed**; chunks, pages and segments go back as they empty.
//!
//! # Modules
//!
//! From the bottom: `arena` (fixed-size slots), `heap` (blocks of many sizes), `table` (hashes to ids), `interner` (rows
//! stored once), `words` and `labels` (levels as ids), `targets` (sets), `node`, `tree` (shape and matching, for one
//! thread), [`index`] (shards and locks), `regions` (generations); [`store`] stands alone.
//!
//! # Example
//!
//! ```
//! use meridian_router::{Entry, Index, TargetId};
//! use meridian_types::{TopicFilter, TopicName};
//!
//! let index = Index::new();
//! let filter = TopicFilter::new("plant/+/temperature")?;
//! let (id, _) = index.insert(filter, TargetId(7), 1);
//!
//! let mut entries = Vec::new();
//! index.matches(TopicName::new("plant/oven/temperature")?, &mut entries);
//! assert_eq!(entries, [Entry { target: TargetId(7), options: 1 }]);
//!
//! assert_eq!(index.remove_by_id(id, TargetId(7)), Some(1));
//! assert_eq!(index.filter_count(), 0);
//! # Ok::<(), meridian_types::TopicError>(())
//! ```

pub mod algebra;
mod arena;
pub mod cache;
pub mod exchange;
pub mod feed;
mod hash;
mod heap;
pub mod index;
mod interner;
mod labels;
mod lock;
pub mod matches;
mod node;
pub mod owners;
pub mod pattern;
pub mod prefix;
mod regions;
mod shards;
pub mod store;
pub mod summary;
mod sync;
mod table;
mod targets;
mod tree;
mod words;

pub use cache::MatchCache;
pub use exchange::{Destination, ExchangeId, Exchanges};
pub use index::{Entry, FilterId, Index, TargetId};
pub use matches::Matches;
pub use pattern::{PatternError, PatternTree, RoutingPattern};
pub use prefix::PrefixIndex;
pub use regions::{Guard, Regions};
pub use store::{Cursor, TopicStore};
