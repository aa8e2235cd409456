//! Exchanges: every type of RabbitMQ's, bound to each other and to targets.
//!
//! [`Exchanges`] is one graph for all vhosts. It knows exchanges by number and targets by number; names, vhosts,
//! durability, auto-delete, permissions and the default exchange are for its caller, who also decides what to do with a
//! message that reaches nobody.
//!
//! ```
//! use meridian_router::exchange::{Binding, ExchangeKind, Message, Scratch};
//! use meridian_router::{Destination, Exchanges, Matches, TargetId};
//!
//! let exchanges = Exchanges::new();
//! let topic = exchanges.declare(ExchangeKind::Topic)?;
//! let fanout = exchanges.declare(ExchangeKind::Fanout)?;
//! exchanges.bind(&Binding::new(topic, Destination::Exchange(fanout), b"plant.#"))?;
//! exchanges.bind(&Binding::new(fanout, Destination::Target(TargetId(7)), b"").with_options(1))?;
//!
//! let (mut scratch, mut matches) = (Scratch::new(), Matches::new());
//! exchanges.route(topic, &Message::new(b"plant.oven"), &mut scratch, &mut matches)?;
//! assert!(matches.group().iter().eq([(TargetId(7), &[1][..])]));
//! # Ok::<(), meridian_router::exchange::ExchangeError>(())
//! ```
//!
//! # In memory
//!
//! ```text
//! readers                                                  writers, one at a time
//! slots ──► exchange: alternate, and by its kind           registry
//!             direct    (exchange, key) ──► table of keys    each binding: source, destination, key and
//!             fanout    ──► set of destinations                arguments, options, its places on the left
//!             topic     ──► PatternTree, behind a lock       by identity, by target, by source
//!             headers   (exchange, condition) ──► table      exchanges that lead to an exchange
//!                       of pairs, and a set of the
//!                       bindings without conditions
//!             hashes    ──► members, ring of slots
//! ```
//!
//! All on the left but the topic tree is immutable and reached through atomic pointers: a change makes a new version of
//! what it touches (a row of a table, a page of a long set, a list of members) and swaps the pointer. So readers never
//! wait and do not disturb each other; memory that a change replaced lives until its last reader is done.
//!
//! A direct binding with a key of up to 19 bytes takes about 185 bytes in all, one to a pattern about 130; a headers
//! binding with three conditions of which all must be met about 255.
//!
//! # Invariants
//!
//! - **A binding that is there throughout a look-up is found by it**, whatever else changes.
//! - **What a binding changes is noted after readers can see it and before the call returns**, for its source and every
//!   exchange that leads there: a result guarded by a generation that was read before it is never stale.
//! - **A binding's record knows its place in each set**, so that removing it searches nothing; whoever is moved to
//!   that place is told.
//! - **A message never comes to an exchange that got its number while the message was on its way**: what leads to an
//!   exchange's number is gone before the number is used again, and exchanges know when they were declared.
//! - **A message visits an exchange once.** That ends cycles and bounds a message's cost by the graph.
//!
//! # Differences from RabbitMQ
//!
//! Bindings whose arguments differ in the width of an integer alone are one binding. Timestamps in headers match (see
//! [`HeaderValue`]). A consistent hash is stable when any member leaves, not only the last; which destination a key
//! goes to is another than RabbitMQ's. An alternate exchange is named by number and forgotten when that exchange goes.

mod arguments;
mod binding;
mod bytes;
mod destination;
mod error;
mod generations;
mod message;
#[cfg(all(test, loom))]
mod models;
mod pages;
mod placing;
mod pointers;
mod pool;
mod registry;
mod removal;
mod routing;
mod rows;
mod set;
mod spine;
mod topic;
mod value;

pub use binding::{
    Binding, Bound, Destination, ExchangeId, ExchangeKind, HashOn, KEY_BYTES_MAX, Limits, Removed, Unbound,
};
pub use error::ExchangeError;
pub use generations::KeyRegions;
pub use message::{Attributes, Field, Headers, Message, Property};
pub use pool::RING_SLOTS;
pub use routing::{Routed, Scratch};
pub use value::HeaderValue;

use std::sync::Arc;

use parking_lot::Mutex;

use crate::Matches;
use crate::sync::Ordering;
use arguments::BlockBuffer;
use binding::{EXCHANGES_MAX, check, number_of};
use destination::NO_EXCHANGE;
use generations::{Generations, Region};
use pool::Draw;
use registry::{Identity, Registry};
use removal::Leftovers;
use routing::{Exchange, Graph, State};

/// Bindings that can be numbered.
const BINDINGS_MAX: usize = 1 << 26;

/// Bytes of arguments that can be told apart.
const ARGUMENTS_BYTES_MAX: usize = 1 << 30;

/// The exchanges of all vhosts, and their bindings.
pub struct Exchanges {
    graph: Graph,
    generations: Generations,
    registry: Mutex<Registry>,
    limits: Limits,
}

impl Exchanges {
    /// No exchanges, and the default limits. About 130 KiB, most of it change counters.
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    /// No exchanges, and these limits.
    pub fn with_limits(limits: Limits) -> Self {
        Self {
            graph: Graph::new(),
            generations: Generations::new(),
            registry: Mutex::new(Registry::new()),
            limits,
        }
    }

    /// Makes an exchange. O(1); every time their number doubles, time proportional to it (20 ns each).
    ///
    /// # Errors
    /// [`ExchangeError::TooManyExchanges`].
    pub fn declare(&self, kind: ExchangeKind) -> Result<ExchangeId, ExchangeError> {
        let mut registry = self.registry.lock();
        let limit = self.limits.exchanges_max.min(EXCHANGES_MAX);
        if registry.node_count() >= limit {
            return Err(ExchangeError::TooManyExchanges { limit });
        }
        let id = registry.add_node(kind.clone());
        self.graph.declare(id, &kind);
        Ok(ExchangeId(id))
    }

    /// Sets or clears where an exchange sends messages for which its own bindings give no destination at all
    /// (RabbitMQ's `alternate-exchange`). O(1), and what [`generation`](Self::generation) costs.
    ///
    /// # Errors
    /// [`ExchangeError::UnknownExchange`] for either.
    pub fn set_alternate(
        &self,
        exchange: ExchangeId,
        alternate: Option<ExchangeId>,
    ) -> Result<(), ExchangeError> {
        let mut registry = self.registry.lock();
        for id in [Some(exchange), alternate].into_iter().flatten() {
            registry.node(id.0).ok_or(ExchangeError::UnknownExchange(id))?;
        }
        self.change_alternate(&mut registry, exchange.0, alternate.map_or(NO_EXCHANGE, |id| id.0));
        Ok(())
    }

    /// Makes a binding. If the same is there, its options, its seed and whether it is local are replaced.
    ///
    /// Messages routed after this returns see it; one that is routed meanwhile may see the former options, the new, or
    /// of a headers binding with `any` condition both. Cost by the source's kind, besides one hash of the binding and
    /// the notes to the exchanges that lead to the source, which are bounded by [`Limits::edges_max`]:
    ///
    /// | kind | cost |
    /// |---|---|
    /// | direct | one bucket of about one key, and another that is split; at most 64 of the key's own destinations are copied |
    /// | fanout | at most 64 destinations are copied |
    /// | topic | a step per word |
    /// | headers | `all`: a look-up for each condition, then as direct; `any`: as direct, for each condition |
    /// | hashes, random | O(n); a consistent hash looks at each of its [`RING_SLOTS`] slots (0.15 ms, or 0.4 ms if weights differ) |
    ///
    /// # Errors
    /// Every variant of [`ExchangeError`] but [`TooManyExchanges`](ExchangeError::TooManyExchanges).
    pub fn bind(&self, binding: &Binding<'_>) -> Result<Bound, ExchangeError> {
        let to = number_of(binding.destination)?;
        if binding.key.len() > KEY_BYTES_MAX {
            return Err(ExchangeError::KeyTooLong { len: binding.key.len(), limit: KEY_BYTES_MAX });
        }
        let block = self.encode(binding)?;
        let mut registry = self.registry.lock();
        let source = binding.source.0;
        let node = registry.node(source).ok_or(ExchangeError::UnknownExchange(binding.source))?;
        if let Destination::Exchange(exchange) = binding.destination {
            registry.node(exchange.0).ok_or(ExchangeError::UnknownExchange(exchange))?;
        }
        let weight = check(&node.kind, binding)?;
        let draw = Draw { seed: binding.seed, weight, is_local: binding.is_local };
        if node.kind == ExchangeKind::Headers {
            arguments::check_count(&block, self.limits.conditions_max)?;
        }
        registry.foresee_target(to);
        let identity = Identity { source, to, block: &block };
        let (found, hash) = registry.find(identity);
        if node.kind == ExchangeKind::Direct {
            self.graph.keys.foresee(self.graph.place_of_key(source, binding.key));
        }
        if let Some(id) = found {
            return Ok(self.rebind(&mut registry, id, binding.options, draw));
        }
        self.check_limits(&registry, binding.source)?;
        if let Destination::Exchange(exchange) = binding.destination
            && !registry.has_edge(source, exchange.0)
        {
            self.check_edges(&registry, binding.source)?;
        }
        let id = registry.add(identity, binding.options, hash);
        self.graph.place_binding(&mut registry, id, draw);
        self.note_binding(&mut registry, id);
        Ok(Bound { previous: None })
    }

    /// Removes the binding with this source, destination, key and arguments; none if there is none.
    ///
    /// Cost as of [`bind`](Self::bind). A consistent hash gives away at once only as many slots as take 65,536 draws,
    /// which is some 0.2 ms more; messages that come to the others find their owners, each for those that follow.
    pub fn unbind(&self, binding: &Binding<'_>) -> Option<Unbound> {
        let to = number_of(binding.destination).ok()?;
        let block = self.encode(binding).ok()?;
        let mut registry = self.registry.lock();
        let source = binding.source.0;
        registry.node(source)?;
        let identity = Identity { source, to, block: &block };
        let id = registry.find(identity).0?;
        let record = self.remove_binding(&mut registry, id, &mut Leftovers::default());
        let source_binding_count = registry.node_mut(source).binding_count;
        Some(Unbound { options: record.options, source_binding_count })
    }

    /// Adds to `out` the targets a message reaches from an exchange, with the options of each binding on their way that
    /// led to the target itself. Call [`Matches::group`] then.
    ///
    /// Each exchange is visited once, whatever the cycles; where one has no destination by its own bindings, its
    /// alternate is visited. A destination that is an exchange visited before counts as a destination (as in RabbitMQ).
    ///
    /// Takes no lock but that of a topic exchange, shared; allocates nothing but room in `out` and `scratch`. Changes
    /// by others meanwhile are seen or not, each as a whole, but for [options that change](Self::bind) and for a
    /// message with several keys or headers, which sees a binding under some or all of those that match; a binding that
    /// is there throughout is always seen.
    ///
    /// | kind | cost besides the destinations found |
    /// |---|---|
    /// | any | 10 to 20 ns |
    /// | direct | a hash of each key, and a look at a bucket of about one key |
    /// | fanout | none |
    /// | topic | as of [`PatternTree::matches`](crate::PatternTree::matches) |
    /// | headers | two look-ups for each header, and each candidate: a binding registered under a condition that is met |
    /// | consistent hash | a hash of the key, header or property; of the first message to a slot whose owner left with much weight also a draw of 2 ns for each member |
    /// | modulus hash | a hash of the key |
    /// | random | none |
    ///
    /// # Errors
    /// [`ExchangeError::UnknownExchange`].
    pub fn route(
        &self,
        exchange: ExchangeId,
        message: &Message<'_>,
        scratch: &mut Scratch,
        out: &mut Matches,
    ) -> Result<Routed, ExchangeError> {
        let routed = self.graph.route(exchange, message, scratch, out.entries_mut());
        routed.ok_or(ExchangeError::UnknownExchange(exchange))
    }

    /// The regions that the result for an exchange and a routing key depends on. Cost: three hashes.
    pub fn regions(&self, exchange: ExchangeId, key: &[u8]) -> KeyRegions {
        self.generations.regions(exchange, key)
    }

    /// A number that changes whenever a [cacheable](Routed::is_cacheable) result with these regions may have changed:
    /// by a change of the exchange or of any that messages go on to from there. Read it before the routing whose result
    /// it is to guard.
    ///
    /// Cost: four atomic loads. A change costs a step for each exchange that leads to where it happens, and is seen
    /// here at the latest when the call that made it returns.
    pub fn generation(&self, regions: &KeyRegions) -> u64 {
        let slot = self.graph.slots.get(regions.exchange.0 as usize);
        let version = slot.map_or(0, |slot| slot.version.load(Ordering::Acquire));
        version + self.generations.sum(regions)
    }

    /// Exchanges held.
    pub fn exchange_count(&self) -> usize {
        self.registry.lock().node_count()
    }

    /// Bindings held.
    pub fn binding_count(&self) -> usize {
        self.registry.lock().record_count()
    }

    /// Bindings from an exchange; none if there is no such exchange.
    pub fn binding_count_of(&self, exchange: ExchangeId) -> Option<usize> {
        self.registry.lock().node(exchange.0).map(|node| node.binding_count)
    }

    /// Bytes held, with unused capacity and without the allocator's own. Visits every exchange, key and condition,
    /// and holds up nobody but for a topic exchange's size: for metrics.
    pub fn memory_bytes(&self) -> usize {
        let registry_bytes = {
            let registry = self.registry.lock();
            registry.memory_bytes() + registry.text_bytes()
        };
        let exchanges =
            (0..).map_while(|id| self.graph.slots.get(id)).filter_map(|slot| slot.exchange.load_full());
        let of_exchange = |exchange: Arc<Exchange>| {
            let state = match &exchange.state {
                State::Direct => 0,
                State::Fanout(set) | State::Headers { always: set, .. } => set.load().memory_bytes(),
                State::Topic(patterns) => patterns.memory_bytes(),
                State::Picking(pool, _) => pool.load().memory_bytes(),
            };
            size_of::<Exchange>() + state
        };
        size_of::<Self>()
            + exchanges.map(of_exchange).sum::<usize>()
            + self.graph.slots.memory_bytes()
            + self.graph.keys.memory_bytes()
            + self.graph.pairs.memory_bytes()
            + self.generations.memory_bytes()
            + registry_bytes
    }

    fn encode(&self, binding: &Binding<'_>) -> Result<BlockBuffer, ExchangeError> {
        let limit = self.limits.arguments_bytes_max.min(ARGUMENTS_BYTES_MAX);
        arguments::encode(binding.key, binding.arguments, &self.graph.hasher, limit)
    }

    fn check_limits(&self, registry: &Registry, source: ExchangeId) -> Result<(), ExchangeError> {
        let limit = self.limits.bindings_max.min(BINDINGS_MAX);
        if registry.record_count() >= limit {
            return Err(ExchangeError::TooManyBindings { limit });
        }
        let node = registry.node(source.0).ok_or(ExchangeError::UnknownExchange(source))?;
        let limit = match node.kind {
            ExchangeKind::Direct | ExchangeKind::Fanout | ExchangeKind::Topic | ExchangeKind::Headers => {
                self.limits.bindings_per_exchange_max
            }
            _ => self.limits.members_max.min(RING_SLOTS),
        };
        if node.binding_count >= limit {
            return Err(ExchangeError::TooManyBindingsOfExchange { exchange: source, limit });
        }
        Ok(())
    }

    /// Whether the source may lead to one more exchange.
    fn check_edges(&self, registry: &Registry, source: ExchangeId) -> Result<(), ExchangeError> {
        let limit = self.limits.edges_max;
        if registry.edge_count() >= limit {
            return Err(ExchangeError::TooManyEdges { limit });
        }
        let limit = self.limits.edges_per_exchange_max;
        match registry.node(source.0) {
            Some(node) if node.child_count >= limit => {
                Err(ExchangeError::TooManyEdgesOfExchange { exchange: source, limit })
            }
            _ => Ok(()),
        }
    }

    fn rebind(&self, registry: &mut Registry, id: u32, options: u32, draw: Draw) -> Bound {
        let previous = std::mem::replace(&mut registry.record_mut(id).options, options);
        if previous != options || self.graph.is_drawn_otherwise(registry, id, draw) {
            self.graph.replace_binding(registry, id, draw);
            self.note_binding(registry, id);
        }
        Bound { previous: Some(previous) }
    }

    fn change_alternate(&self, registry: &mut Registry, id: u32, alternate: u32) {
        let previous = std::mem::replace(&mut registry.node_mut(id).alternate, alternate);
        if previous == alternate {
            return;
        }
        let slot = self.graph.slots.get(id as usize).map(|slot| slot.exchange.load());
        if let Some(Some(exchange)) = slot.as_deref() {
            exchange.alternate.store(alternate, Ordering::Release);
        }
        if alternate != NO_EXCHANGE {
            registry.add_edge(id, alternate);
        }
        if previous != NO_EXCHANGE {
            registry.remove_edge(id, previous);
        }
        self.note(registry, id, Region::All);
    }

    /// Notes that a binding has changed.
    fn note_binding(&self, registry: &mut Registry, id: u32) {
        registry.meet_ancestors(registry.record(id).source);
        let record = registry.record(id);
        let region = Region::of_binding(&registry.any_node(record.source).kind, record.key());
        self.note_in(&registry.met, region);
    }

    /// Notes a change for an exchange and all that lead to it. Readers must be able to see the change already.
    fn note(&self, registry: &mut Registry, id: u32, region: Region<'_>) {
        registry.meet_ancestors(id);
        self.note_in(&registry.met, region);
    }

    fn note_in(&self, exchanges: &[u32], region: Region<'_>) {
        for &at in exchanges {
            match region {
                Region::All => {
                    let slot = self.graph.slots.get_or_make(at as usize);
                    slot.version.fetch_add(1, Ordering::AcqRel);
                }
                narrower => self.generations.bump(ExchangeId(at), narrower),
            }
        }
    }
}

impl Default for Exchanges {
    fn default() -> Self {
        Self::new()
    }
}
