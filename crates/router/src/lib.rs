//! Routing: which targets a message goes to, whatever names it: a topic, a routing key, a text, an exchange.
//!
//! | to find | use | for |
//! |---|---|---|
//! | MQTT filters that a topic matches (`+`, a last `#`, the `$` rule) | [`Index`] | any number of threads |
//! | AMQP topic patterns that a key matches (`*`, and `#` anywhere) | [`PatternTree`] | one owner |
//! | string prefixes of a text (Zeek's Broker) | [`PrefixIndex`] | any number of threads |
//! | destinations of a message to an exchange: direct, fanout, topic, headers, hashes, random; exchanges bound to exchanges | [`Exchanges`] | any number of threads |
//! | all of these at once, for a message with a topic, an exchange, or both | [`Router`] | any number of threads |
//! | topics that a filter matches, with a value each (retained messages) | [`TopicStore`] | one owner |
//!
//! What they find is a list of [`Entry`]s, a target and 32 bits of whoever bound it; [`Matches`] makes it a set.
//! [`MatchCache`] keeps results for one thread until something changes that they depend on. [`algebra`] says which
//! filters cover or intersect others, [`mod@summary`] says many in few bytes, [`owners`] and [`feed`] keep what a node
//! wants in step with what others know of it.
//!
//! The crate does no I/O, starts no threads, keeps no clock, and knows no protocol: share groups, quality of service
//! and subscription identifiers are for its caller.
//!
//! # One tree for all kinds of words
//!
//! [`Index`], [`PatternTree`] and [`PrefixIndex`] keep what they hold in the same tree, of levels. A level is a word
//! between `/`, a word between `.`, or a byte:
//!
//! | | level | for one level | for many, at the end | for many, inside | spread over trees by |
//! |---|---|---|---|---|---|
//! | MQTT filter | word | `+` | `#` | – | the first two words, if literal |
//! | AMQP pattern | word | `*` | `#` | `#` | – (one tree) |
//! | prefix | byte | – | always | – | the first 16 bytes |
//!
//! Each node stands for the levels from the root to it. Where only one way leads on there is no node: the levels in
//! between are folded into the lower node's label, a first word and an interned tail. A last `#` is no level either: a
//! node has the targets of the filter that ends there, and of the one that goes on with `#`. Here are the filters
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
//! and the patterns `alarm.#.hall` for 9, `alarm.#.hall.*.#` for 7, `alarm.#.oven` for 9; and the prefixes `/ev` for 9
//! and `/event` for 7:
//!
//! ```text
//! root                                               root
//!   └─ alarm.#          alarm  [#]   none              └─ /ev       "/"  [e,v]    then anything: 9
//!        ├─ hall        hall    –    here: 9                └─ ent  "e"  [n,t]    then anything: 7
//!        │    └─ *      *       –    .#: 7
//!        └─ oven        oven    –    here: 9
//! ```
//!
//! | part | where | bytes |
//! |---|---|---|
//! | node | arena of chunks, named by 27 bits that never change | 20 |
//! | branch, for nodes with children | arena | 16 |
//! | edge to a child by a literal word, or by a `#` inside a pattern | segmented hash table; the child by `+` or `*` is a field of the branch | 4.6–5.7 |
//! | word of up to nine digits or four ASCII characters; byte | in its own id | 0 |
//! | other word | a heap block with a use count, once per tree | 8 + text, and 4.6–5.7 |
//! | tail | a heap block with a use count, once per tree | 8 + 4 per word, and 4.6–5.7 |
//! | one target of a filter | in the node | 0 |
//! | 2 to 32 targets | a heap block | 4 + 8 each |
//! | more | sorted runs of up to 512 | 8 each when they arrive in order, about 11 when not |
//!
//! A million filters of the shape above with one target each take 30 MB in all.
//!
//! ## How a look-up walks
//!
//! From a node at depth *d* (levels taken) it goes to the child by `+`, and to the one by the text's next level, if the
//! rest of their labels match. That is at most one visit of each node, since its depth is fixed.
//!
//! Below a `#` inside a pattern a node can be reached at many depths. There the words behind the label's last `#` are
//! its *segment*, whose places in the key are tried from left to right, and for each of them, going down, all that is
//! below. So a node's visits come in rising order of depth, and a node with such a `#` is entered first where it has
//! most room: it is not entered again. No node is visited twice at one depth.
//!
//! ## Shards
//!
//! Filters are spread over sixteen trees by their first two literal levels; a topic looks in at most three of them.
//! Prefixes likewise by their first sixteen bytes; a text looks in at most two.
//!
//! ```text
//! filter     tree                                  a topic a/b/c/d looks in
//! a/b/…      hash(a/b)                             hash(a/b)   deep
//! a          hash(a)                               hash(a)     shallow, if that tree has any
//! a/+/…      hash(a)                               0           root, if there are any
//! +/…  #     0
//! ```
//!
//! Each tree has a lock. Unless there is only one core it is in eight parts, of which a reader takes its thread's and a
//! writer all, so that readers on different cores write no cache line in common. A look-up that meets a change of its
//! tree waits for it, about a microsecond; a change waits for the look-ups of its tree. How many filters a shard holds
//! of each depth stands on a line of its own, which only changes write.
//!
//! # Exchanges
//!
//! ```text
//! exchange ─► its kind's state            direct:  one hash table of (exchange, key) ─► set of destinations
//!    │          (a shared pointer,        fanout:  set of destinations
//!    ▼           replaced by changes)     topic:   a PatternTree
//! alternate                               headers: (exchange, header, value) ─► bindings that it makes candidates
//!                                         hashes:  ring or row of destinations
//! ```
//!
//! A destination is a target or another exchange; each exchange is visited once per message, so cycles end. See
//! [`exchange`].
//!
//! # What operations cost
//!
//! | operation | cost | locks |
//! |---|---|---|
//! | [`Index::matches`] | each node whose words match a beginning of the topic, and the entries found; no allocation | read, up to 3 trees, one after another |
//! | [`Index::insert`], [`Index::remove`], [`Index::remove_by_id`] | the filter's levels; at most two nodes made or unmade; O(log n) in the filter's own targets | write, 1 tree |
//! | [`Index::filter_text`] | the filter's levels | read, 1 tree |
//! | [`Index::guard`], [`Index::is_current`] | five hashes; five atomic loads | none |
//! | [`PatternTree::matches`] | as of `Index`; below a `#` inside, each place of a segment. At most the key's words × the words of all patterns; no allocation up to 32 words | – |
//! | [`PatternTree::insert`], [`PatternTree::remove`] | as of `Index` | – |
//! | [`PrefixIndex::matches`] | the nodes on one way down, at most the text's bytes, and the entries found; no allocation | read, up to 2 trees, one after another |
//! | [`PrefixIndex::insert`], [`PrefixIndex::remove`] | the prefix's bytes | write, 1 tree |
//! | [`MatchCache::get`] | a hash of the key, a probe, a comparison, the guard's check; no allocation | none |
//! | [`MatchCache::put`] | a copy of the key; now and then its table doubles | none |
//! | [`TopicStore::insert`], [`TopicStore::remove`], [`TopicStore::get`] | O(log n) | – |
//! | [`TopicStore::visit_matching`] | O(log n) for each match and each prefix that a `+` tries | – |
//!
//! No change of a tree moves more than some 2,500 table slots, one chunk of 2,048 slots or one run of 512 targets:
//! tables grow by splitting one segment of about 1,500 ids, never as a whole. The worst a topic of `n` levels can be
//! made to cost is 2ⁿ⁺¹ node visits, and only if as many filters with every combination of `+` are there. A routing key
//! of AMQP has 255 bytes, so 128 words, and costs at most 128 visits of each node below a `#`, 20 to 40 ns each.
//!
//! Among millions of filters nearly all time goes to cache misses, two for each node on the way that is not among the
//! busiest, and to as many misses of the translation of addresses: with huge pages for the allocator (glibc's tunable
//! `glibc.malloc.hugetlb=1`) insertions in random order are about a fifth faster.
//!
//! `bench/run.sh index` of the repository measures all of this, beside other indexes; `examples/interest.rs` what nodes
//! tell each other.
//!
//! # Invariants
//!
//! - **A node other than the root has a target or at least two children**, so memory follows the filters held.
//! - **A node where a filter ends keeps its id while the filter has a target**: labels are split and joined by adding
//!   and removing nodes *above*. This is what makes [`FilterId`] a name.
//! - **One word has one id in a tree, and a topic's word that no filter there holds has none**, so comparing ids is
//!   comparing words.
//! - **A `#` inside a pattern is never followed by a wildcard**: patterns are held in their normal form. So what follows
//!   begins with a literal word, and hostile runs of wildcards collapse.
//! - **A topic's words are looked up under the lock of the tree that is searched**, since ids are used again.
//! - **A filter is counted in its shard before its insertion returns, and until its removal is done**: a look-up may pass
//!   a shard by when the count is zero.
//! - **Regions are bumped after the change can be seen, before the call returns**: a result guarded by a generation that
//!   was read before the look-up is never stale.
//! - **No operation on a tree holds two locks**, so their order does not matter.
//! - **Nothing is kept after the last filter is removed**; chunks, pages and segments go back as they empty.
//!
//! # Modules
//!
//! From the bottom: `arena` (fixed-size slots), `heap` (blocks of many sizes), `table` (hashes to ids), `interner`
//! (rows stored once), `words` and `labels` (levels as ids), `targets` (sets), `node`, `tree` (shape and the three
//! walks, for one thread), `lock` and `shards` (trees for many threads), `regions` (generations); on these [`index`],
//! [`pattern`], [`prefix`], and on them [`exchange`], [`mod@router`], [`owners`], [`feed`]. [`cache`], [`mod@matches`],
//! [`store`], [`algebra`] and [`mod@summary`] stand alone.
//!
//! # How to change it
//!
//! - *Another grammar of words*: a `Grammar` in `words`, and a type that makes a `Path` of a filter. The shape of the tree
//!   does not care; the walk in `tree/matching.rs` knows MQTT's `$` rule, the one in `tree/patterns.rs` knows `#` inside.
//! - *Another layout of nodes*: `node` alone knows the bits; `tree/shape.rs` alone makes and unmakes nodes.
//!   `tree/tests.rs` checks the first invariant after every change.
//! - *Another table of ids*: `table` alone. Slots of four bytes, without the hash, save six bytes a filter, but then every
//!   rebuild visits the nodes: insertion was a third slower. Edges named by the hash of the whole path, so that all of a
//!   filter's can be fetched at once, gained nothing measurable.
//! - *Another lock*: `lock` alone; it needs `read` and `write`. `index/models.rs` tries the protocol of locks, counts and
//!   generations in every order that the memory model allows.
//! - Each kind has an oracle in `tests/`, which tries every filter, and a fuzz target; a change is right when they say so
//!   and fast when `bench/run.sh index` does.
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
mod entry;
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
pub mod router;
mod shards;
pub mod store;
pub mod summary;
mod sync;
mod table;
mod targets;
mod tree;
mod words;

pub use cache::MatchCache;
pub use entry::{Entry, TargetId};
pub use exchange::{Destination, ExchangeId, Exchanges};
pub use index::{FilterId, Index};
pub use matches::Matches;
pub use pattern::{PatternError, PatternTree, RoutingPattern};
pub use prefix::PrefixIndex;
pub use regions::{Guard, Regions};
pub use router::{RouteGuard, Router, Source};
pub use store::{Cursor, TopicStore};
