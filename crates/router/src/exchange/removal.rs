//! Removing bindings and exchanges, a bounded piece at a time.

use std::hint::black_box;

use parking_lot::MutexGuard;

use super::destination::{Dest, NO_EXCHANGE};
use super::generations::Region;
use super::registry::{NONE, Record, Registry, Spots};
use super::routing::Candidate;
use super::set::Set;
use super::{Destination, ExchangeError, ExchangeId, ExchangeKind, Exchanges, Removed, number_of};
use crate::TargetId;

/// Steps after which others who wait to change something get a turn: some 100 microseconds, or three times as much
/// among many headers bindings of which any condition may be met.
const TURN_STEPS: usize = 1024;

/// Steps that it takes to remove a binding, or a headers binding from one of its conditions. A step is about an
/// exchange that is told of a change, or an edge on the way to it.
const BINDING_STEPS: usize = 16;

/// Bindings between removals after which the allocator is made to sort what they gave back: among a million free
/// blocks, each of those of a headers binding may have to be put behind a hundred others.
const SETTLE_BINDINGS: usize = 32;

/// Bytes of which a request makes glibc's allocator sort the blocks that were given back to it. Until then it keeps
/// them apart, and whoever comes after half a million removals sorts as many blocks, for some milliseconds. Two sizes
/// in turn, since the search ends at a block that fits, as that of the latest request would.
const SETTLE_BYTES: [usize; 2] = [2048, 2560];

/// What was removed so far, in pieces between which anything may change.
#[derive(Default)]
struct Removal {
    binding_count: usize,
    /// Exchanges that lost their last binding, and when they were declared.
    emptied: Vec<(u32, u64)>,
    leftovers: Leftovers,
}

/// Large sets that readers no longer see. Freeing them can take long, so they are kept until the lock is given back.
#[derive(Default)]
pub(super) struct Leftovers {
    pub(super) dests: Vec<Set<Dest>>,
    pub(super) candidates: Vec<Set<Candidate>>,
}

impl Removal {
    /// The exchanges that are still there and still empty, each once.
    fn finish(mut self, registry: &Registry) -> Removed {
        self.emptied.sort_unstable();
        self.emptied.dedup();
        let is_empty = |&(id, born): &(u32, u64)| {
            registry.node(id).is_some_and(|node| node.born == born && node.binding_count == 0)
        };
        let emptied = self.emptied.into_iter().filter(is_empty).map(|(id, _)| ExchangeId(id)).collect();
        Removed { binding_count: self.binding_count, emptied }
    }
}

impl Exchanges {
    /// Removes an exchange with all bindings from it and to it; where it was an alternate, there is none any more.
    /// Returns none if there is no such exchange.
    ///
    /// Messages stop going through it at once. Cost: proportional to its bindings, and changes by others come in
    /// between.
    pub fn remove(&self, exchange: ExchangeId) -> Option<Removed> {
        let registry = self.registry.lock();
        registry.node(exchange.0)?;
        Some(self.remove_node(registry, exchange.0))
    }

    /// As [`remove`](Self::remove), if there are no bindings from the exchange: for auto-delete exchanges, and for
    /// AMQP's `if-unused`. A binding that another thread makes either keeps the exchange or is refused.
    ///
    /// # Errors
    /// [`ExchangeError::UnknownExchange`], and [`ExchangeError::InUse`] (AMQP reply code 406).
    pub fn remove_if_unused(&self, exchange: ExchangeId) -> Result<Removed, ExchangeError> {
        let registry = self.registry.lock();
        let node = registry.node(exchange.0).ok_or(ExchangeError::UnknownExchange(exchange))?;
        match node.binding_count {
            0 => Ok(self.remove_node(registry, exchange.0)),
            binding_count => Err(ExchangeError::InUse { exchange, binding_count }),
        }
    }

    /// Removes all bindings to a target, as when a queue is deleted.
    ///
    /// Cost: proportional to its bindings. Changes by others come in between, so a target that is bound again meanwhile
    /// may keep that binding or lose it.
    pub fn remove_target(&self, target: TargetId) -> Removed {
        if number_of(Destination::Target(target)).is_err() {
            return Removed::default();
        }
        let mut removal = Removal::default();
        let mut registry = self.registry.lock();
        let mut turn_end = registry.work + TURN_STEPS;
        while let Some(id) = registry.first_to_target(target.0) {
            self.remove_one(&mut registry, id, &mut removal);
            self.give_way(&mut registry, &mut turn_end);
        }
        let leftovers = std::mem::take(&mut removal.leftovers);
        let removed = removal.finish(&registry);
        drop(registry);
        drop(leftovers);
        removed
    }

    /// Removes a binding from readers and registry, and notes it.
    pub(super) fn remove_binding(
        &self,
        registry: &mut Registry,
        id: u32,
        leftovers: &mut Leftovers,
    ) -> Record {
        let source = registry.record(id).source;
        registry.work += steps_of(registry, id);
        if registry.node(source).is_none() {
            // Readers lost the source as a whole, and those that lead to it were told.
            let kind = registry.node_mut(source).kind.clone();
            self.graph.forget_rows(&kind, registry.record(id), leftovers);
        } else {
            self.graph.displace_binding(registry, id);
            self.note_binding(registry, id);
        }
        if registry.record_count().is_multiple_of(SETTLE_BINDINGS) {
            let bytes = SETTLE_BYTES[registry.record_count() / SETTLE_BINDINGS % SETTLE_BYTES.len()];
            drop(black_box(Vec::<u8>::with_capacity(bytes)));
        }
        registry.remove(id)
    }

    fn remove_node(&self, mut registry: MutexGuard<'_, Registry>, id: u32) -> Removed {
        registry.node_mut(id).is_going = true;
        // Kept until the lock is given back: freeing all its bindings can take long.
        let exchange = self.graph.slots.get(id as usize).map(|slot| slot.exchange.swap(None));
        self.note(&mut registry, id, Region::All);
        let mut turn_end = registry.work + TURN_STEPS;
        self.forget_alternates(&mut registry, id, &mut turn_end);
        let mut removal = Removal::default();
        loop {
            let node = registry.node_mut(id);
            let next = if node.first_from == NONE { node.first_to } else { node.first_from };
            if next == NONE {
                break;
            }
            self.remove_one(&mut registry, next, &mut removal);
            self.give_way(&mut registry, &mut turn_end);
        }
        registry.remove_node(id);
        let leftovers = std::mem::take(&mut removal.leftovers);
        let removed = removal.finish(&registry);
        drop(registry);
        drop((exchange, leftovers));
        removed
    }

    fn remove_one(&self, registry: &mut Registry, id: u32, removal: &mut Removal) {
        let source = self.remove_binding(registry, id, &mut removal.leftovers).source;
        removal.binding_count += 1;
        if let Some(node) = registry.node(source).filter(|node| node.binding_count == 0) {
            removal.emptied.push((source, node.born));
        }
    }

    /// Lets others change something, if enough was done since they last could.
    fn give_way(&self, registry: &mut MutexGuard<'_, Registry>, turn_end: &mut usize) {
        if registry.work >= *turn_end {
            MutexGuard::bump(registry);
            *turn_end = registry.work + TURN_STEPS;
        }
    }

    /// Takes an exchange that goes from where it is the alternate, and its own alternate from it.
    fn forget_alternates(&self, registry: &mut MutexGuard<'_, Registry>, id: u32, turn_end: &mut usize) {
        self.change_alternate(registry, id, NO_EXCHANGE);
        let parents: Vec<u32> = registry.node_mut(id).parents.keys().copied().collect();
        for parent in parents {
            // It may have gone or changed since the last turn, but no exchange gets a new edge to one that goes.
            if registry.node(parent).is_some_and(|node| node.alternate == id) {
                self.change_alternate(registry, parent, NO_EXCHANGE);
            }
            self.give_way(registry, turn_end);
        }
    }
}

/// The steps that removing a binding takes, besides the notes.
fn steps_of(registry: &Registry, id: u32) -> usize {
    let record = registry.record(id);
    let node = registry.any_node(record.source);
    match (&record.spots, &node.kind) {
        (Spots::Many(places), _) => BINDING_STEPS * (1 + places.len()),
        _ if node.is_going => BINDING_STEPS,
        // Many slots may need another owner, so this is a turn of its own.
        (_, ExchangeKind::ConsistentHash(_)) => TURN_STEPS,
        (_, ExchangeKind::ModulusHash | ExchangeKind::Random | ExchangeKind::LocalRandom) => {
            BINDING_STEPS + node.binding_count
        }
        _ => BINDING_STEPS,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Binding, HeaderValue};
    use super::*;

    fn steps_to_remove(exchanges: &Exchanges, target: u32) -> usize {
        let before = exchanges.registry.lock().work;
        assert_eq!(exchanges.remove_target(TargetId(target)).binding_count, 1);
        exchanges.registry.lock().work - before
    }

    #[test]
    fn steps_grow_with_what_a_removal_touches() {
        let exchanges = Exchanges::new();
        let bind = |source, to, arguments: &[_]| {
            exchanges.bind(&Binding::new(source, to, b"1").with_arguments(arguments)).expect("a binding");
        };
        let declare = |kind| exchanges.declare(kind).expect("far from the limit");
        let alone = declare(ExchangeKind::Fanout);
        bind(alone, Destination::Target(TargetId(1)), &[]);
        assert!(steps_to_remove(&exchanges, 1) < 2 * BINDING_STEPS);

        // A hundred exchanges that lead to one, each to the next and to the last.
        let chain: Vec<_> = (0..100).map(|_| declare(ExchangeKind::Fanout)).collect();
        for pair in chain.windows(2) {
            bind(pair[0], Destination::Exchange(pair[1]), &[]);
            bind(pair[0], Destination::Exchange(chain[99]), &[]);
        }
        bind(chain[99], Destination::Target(TargetId(1)), &[]);
        assert!(steps_to_remove(&exchanges, 1) >= 100 + 99 + 98, "exchanges and edges count");

        let headers = declare(ExchangeKind::Headers);
        let names: Vec<String> = (0..60).map(|number| format!("name-{number}")).collect();
        let mut arguments: Vec<_> = names.iter().map(|name| (name.as_bytes(), HeaderValue::Void)).collect();
        arguments.push((b"x-match", HeaderValue::from("any")));
        bind(headers, Destination::Target(TargetId(1)), &arguments);
        assert!(steps_to_remove(&exchanges, 1) >= 60 * BINDING_STEPS, "conditions count");
    }

    #[test]
    fn the_bytes_of_texts_are_a_sum_that_returns_to_zero() {
        let exchanges = Exchanges::new();
        let source = exchanges.declare(ExchangeKind::Direct).expect("far from the limit");
        let bytes = || exchanges.registry.lock().text_bytes();
        let arguments = [(&b"name"[..], HeaderValue::Bool(true))];
        for target in [1, 2, 2] {
            let to = Destination::Target(TargetId(target));
            exchanges.bind(&Binding::new(source, to, &[b'k'; 100]).with_arguments(&arguments)).expect("one");
            exchanges.bind(&Binding::new(source, to, b"")).expect("another, without texts of its own");
        }
        // Two keys with arguments, and two counts each; what is short needs no memory.
        assert!((2 * 116..300).contains(&bytes()));
        exchanges.remove_target(TargetId(1));
        exchanges.remove(source);
        assert_eq!(bytes(), 0);
    }
}
