//! Putting bindings into the structures that readers route by, and taking them out again.

use std::sync::Arc;

use smallvec::SmallVec;

use super::ExchangeKind;
use super::arguments::{self, Condition, Mode};
use super::destination::Dest;
use super::pages::Element;
use super::pointers::ArcSwap;
use super::pool::Draw;
use super::registry::{NONE, Record, Registry, Spots};
use super::removal::Leftovers;
use super::routing::{Candidate, Exchange, Graph, State};
use super::rows::{Item, Place, RowTable};
use super::set::{Change, Set};
use crate::sync::{AtomicUsize, Ordering};

/// Items of a set that is not freed at once.
const LEFTOVER_LEN_MIN: usize = 64;

impl Graph {
    /// Lets readers see a binding that the registry has just taken up.
    pub(super) fn place_binding(&self, registry: &mut Registry, id: u32, draw: Draw) {
        let record = registry.record(id);
        let dest = dest_of(record, id);
        let spots = match &self.exchange(record.source).state {
            State::Direct => {
                let place = self.place_of_key(record.source, record.key());
                Spots::at(push_row(&self.keys, place, dest))
            }
            State::Fanout(set) => Spots::at(push(set, dest)),
            State::Topic(patterns) => patterns.insert(record.key(), dest).map_or(Spots::NOWHERE, Spots::at),
            State::Headers { always, presence_count } => {
                self.place_conditions(record, dest, always, presence_count)
            }
            State::Picking(pool, _) => {
                pool.store(Arc::new(pool.load().with(draw.member(dest))));
                Spots::NOWHERE
            }
        };
        registry.record_mut(id).spots = spots;
    }

    /// Whether a binding draws otherwise than this.
    pub(super) fn is_drawn_otherwise(&self, registry: &Registry, id: u32, draw: Draw) -> bool {
        match &self.exchange(registry.record(id).source).state {
            State::Picking(pool, _) => pool.load().draw_of(id).is_some_and(|former| former != draw),
            _ => false,
        }
    }

    /// Lets readers see what was changed in a binding: options, seed, whether it is local.
    pub(super) fn replace_binding(&self, registry: &Registry, id: u32, draw: Draw) {
        let record = registry.record(id);
        let dest = dest_of(record, id);
        match (&self.exchange(record.source).state, &record.spots) {
            (State::Direct, &Spots::One { at, .. }) => {
                let place = self.place_of_key(record.source, record.key());
                self.keys.update(place, |set| set.replace(at, dest));
            }
            (
                State::Fanout(set) | State::Headers { always: set, .. },
                &Spots::One { condition: NONE, at },
            ) => {
                change_set(set, |set| set.replace(at, dest));
            }
            (State::Topic(patterns), spots) => patterns.replace(record.key(), dest, twin_of(spots)),
            (State::Headers { .. }, spots) => {
                let block = record.block.shared();
                for (condition, at) in registrations(&block, spots) {
                    let candidate = Candidate { dest, condition: condition.at, block: block.clone() };
                    let place = self.place_of_condition(record.source, condition.text);
                    self.pairs.update(place, |set| set.replace(at, candidate));
                }
            }
            (State::Picking(pool, _), _) => {
                pool.store(Arc::new(pool.load().with_changed(draw.member(dest))));
            }
            (State::Direct | State::Fanout(_), _) => unreachable!("such a binding has a place in a set"),
        }
    }

    /// Takes a binding from the readers. Its record stays, without its spots.
    pub(super) fn displace_binding(&self, registry: &mut Registry, id: u32) {
        let record = registry.record(id);
        match (&self.exchange(record.source).state, &record.spots) {
            (State::Direct, &Spots::One { at, .. }) => {
                let place = self.place_of_key(record.source, record.key());
                if let Some(moved) = take_from_row(&self.keys, place, at) {
                    registry.record_mut(moved.binding).spots = Spots::at(at);
                }
            }
            (
                State::Fanout(set) | State::Headers { always: set, .. },
                &Spots::One { condition: NONE, at },
            ) => {
                let mut moved = None;
                change_set(set, |set| taken(set, at, &mut moved));
                if let Some(moved) = moved {
                    registry.record_mut(moved.binding).spots = Spots::at(at);
                }
            }
            (State::Topic(patterns), spots) => patterns.remove(record.key(), record.to, twin_of(spots)),
            (State::Headers { presence_count, .. }, _) => {
                self.displace_conditions(registry, id, presence_count);
            }
            (State::Picking(pool, _), _) => pool.store(Arc::new(pool.load().without(id))),
            (State::Direct | State::Fanout(_), _) => unreachable!("such a binding has a place in a set"),
        }
    }

    /// Takes away what a binding left in the shared tables, after readers lost its whole source.
    pub(super) fn forget_rows(&self, kind: &ExchangeKind, record: &Record, leftovers: &mut Leftovers) {
        match kind {
            ExchangeKind::Direct => {
                let place = self.place_of_key(record.source, record.key());
                clear_row(&self.keys, place, &mut leftovers.dests);
            }
            ExchangeKind::Headers => {
                for (condition, _) in registrations(&record.block, &record.spots) {
                    let place = self.place_of_condition(record.source, condition.text);
                    clear_row(&self.pairs, place, &mut leftovers.candidates);
                }
            }
            _ => {}
        }
    }

    fn exchange(&self, id: u32) -> Arc<Exchange> {
        let slot = self.slots.get(id as usize).expect("an exchange that was declared has a slot");
        slot.exchange.load_full().expect("an exchange in the registry can be seen by readers")
    }

    /// Registers a headers binding: under its least crowded condition if all must be met, else under each.
    fn place_conditions(
        &self,
        record: &Record,
        dest: Dest,
        always: &ArcSwap<Set<Dest>>,
        presence_count: &AtomicUsize,
    ) -> Spots {
        let block = record.block.shared();
        let conditions: SmallVec<[Condition<'_>; 8]> = arguments::conditions(&block).collect();
        let add = |condition: &Condition<'_>| {
            let candidate = Candidate { dest, condition: condition.at, block: block.clone() };
            if arguments::is_presence(condition.text) {
                // Before the row, so that a reader that could see the row looks for it.
                presence_count.fetch_add(1, Ordering::AcqRel);
            }
            push_row(&self.pairs, self.place_of_condition(record.source, condition.text), candidate)
        };
        if arguments::mode_of(&block) == Mode::Any {
            return Spots::Many(conditions.iter().map(add).collect());
        }
        let crowd = |condition: &&Condition<'_>| {
            let place = self.place_of_condition(record.source, condition.text);
            // A condition of presence is met by more messages than one of a value, so it is the worse of two.
            (self.pairs.find(place, Set::len).unwrap_or(0), arguments::is_presence(condition.text))
        };
        match conditions.iter().min_by_key(crowd) {
            Some(least) => Spots::One { condition: least.at, at: add(least) },
            None => Spots::at(push(always, dest)),
        }
    }

    fn displace_conditions(&self, registry: &mut Registry, id: u32, presence_count: &AtomicUsize) {
        let spots = std::mem::replace(&mut registry.record_mut(id).spots, Spots::NOWHERE);
        let record = registry.record(id);
        let (source, block) = (record.source, record.block.clone());
        for (condition, at) in registrations(&block, &spots) {
            let place = self.place_of_condition(source, condition.text);
            let moved = take_from_row(&self.pairs, place, at);
            if arguments::is_presence(condition.text) {
                presence_count.fetch_sub(1, Ordering::AcqRel);
            }
            let Some(moved) = moved else { continue };
            match &mut registry.record_mut(moved.dest.binding).spots {
                Spots::Many(places) => {
                    let is_it = |other: Condition<'_>| other.at == moved.condition;
                    let place = arguments::conditions(&moved.block).position(is_it);
                    places[place.expect("a candidate is registered under a condition of its own")] = at;
                }
                spots => *spots = Spots::One { condition: moved.condition, at },
            }
        }
    }
}

/// The conditions a headers binding with this block is registered under, and its place in the set of each.
fn registrations<'a>(block: &'a [u8], spots: &'a Spots) -> impl Iterator<Item = (Condition<'a>, u32)> {
    arguments::conditions(block).enumerate().filter_map(move |(nth, condition)| match spots {
        Spots::One { condition: of, at } => (*of == condition.at).then_some((condition, *at)),
        Spots::Many(places) => Some((condition, places[nth])),
    })
}

/// The number of a binding's twin in the tree of a topic exchange, if it has one.
const fn twin_of(spots: &Spots) -> Option<u32> {
    match *spots {
        Spots::One { at: NONE, .. } | Spots::Many(_) => None,
        Spots::One { at, .. } => Some(at),
    }
}

const fn dest_of(record: &Record, id: u32) -> Dest {
    Dest { to: record.to, options: record.options, binding: id }
}

/// Adds to a set that is read behind a pointer; returns the place.
fn push(set: &ArcSwap<Set<Dest>>, dest: Dest) -> u32 {
    let mut at = 0;
    change_set(set, |set| {
        at = set.len() as u32;
        set.push(dest)
    });
    at
}

/// Changes a set that is read behind a pointer.
fn change_set(set: &ArcSwap<Set<Dest>>, change: impl FnOnce(&Set<Dest>) -> Change<Dest>) {
    if let Change::To(other) = change(&set.load()) {
        set.store(Arc::new(other));
    }
}

/// Takes an item from a set; tells which one has its place now, if there is one.
fn taken<T: Element>(set: &Set<T>, at: u32, moved: &mut Option<T>) -> Change<T> {
    let (change, last) = set.take(at);
    *moved = last;
    change
}

/// Adds to a row; returns the place.
fn push_row<T: Item>(table: &RowTable<T>, place: Place<'_>, item: T) -> u32 {
    let mut at = 0;
    table.update(place, |set| {
        at = set.len() as u32;
        set.push(item)
    });
    at
}

/// Empties a row; keeps its set for later if it is large.
fn clear_row<T: Item>(table: &RowTable<T>, place: Place<'_>, leftovers: &mut Vec<Set<T>>) {
    table.update(place, |set| {
        if set.len() > LEFTOVER_LEN_MIN {
            leftovers.push(set.clone());
        }
        Change::To(Set::default())
    });
}

/// Takes from a row that is there; returns the item that has the place now, if there is one.
fn take_from_row<T: Item>(table: &RowTable<T>, place: Place<'_>, at: u32) -> Option<T> {
    let mut moved = None;
    table.update(place, |set| taken(set, at, &mut moved));
    moved
}
