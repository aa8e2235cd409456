//! Putting bindings into the structures that readers route by, and taking them out again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;

use super::ExchangeKind;
use super::arguments::{self, Argument, Mode};
use super::pool::Member;
use super::registry::{Record, Registry, Spots};
use super::routing::{Candidate, Dest, Exchange, Graph, State};
use super::rows::{Place, RowTable};
use super::set::Set;

impl Graph {
    /// Lets readers see a binding that the registry has just taken up.
    pub(super) fn place_binding(&self, registry: &mut Registry, id: u32, weight: u32) {
        let record = registry.record(id);
        let dest = dest_of(record, id);
        let spots = match &self.exchange(record.source).state {
            State::Direct => {
                let place = self.place_of_key(record.source, &record.key);
                Spots::One(push_row(&self.keys, place, dest))
            }
            State::Fanout(set) => Spots::One(push(set, dest)),
            State::Topic(patterns) => patterns.insert(&record.key, dest).map_or(Spots::None, Spots::One),
            State::Headers { always, presence_count } => {
                self.place_conditions(record, dest, always, presence_count)
            }
            State::Picking(pool, _) => {
                pool.store(Arc::new(pool.load().with(member_of(record, dest, weight))));
                Spots::None
            }
        };
        registry.record_mut(id).spots = spots;
    }

    /// Lets readers see what was changed in a binding's record: options, seed, whether it is local.
    pub(super) fn replace_binding(&self, registry: &Registry, id: u32, weight: u32) {
        let record = registry.record(id);
        let dest = dest_of(record, id);
        match (&self.exchange(record.source).state, &record.spots) {
            (State::Direct, Spots::One(at)) => {
                let place = self.place_of_key(record.source, &record.key);
                self.keys.update(place, |set| set.with_replaced(*at, dest));
            }
            (State::Fanout(set) | State::Headers { always: set, .. }, Spots::One(at)) => {
                set.store(Arc::new(set.load().with_replaced(*at, dest)));
            }
            (State::Topic(patterns), Spots::One(twin)) => patterns.replace(&record.key, dest, Some(*twin)),
            (State::Topic(patterns), _) => patterns.replace(&record.key, dest, None),
            (State::Headers { .. }, _) => {
                for (condition, text, at) in registrations(&record.arguments, &record.spots) {
                    let candidate = Candidate { dest, condition, arguments: record.arguments.clone() };
                    let place = self.place_of_condition(record.source, text);
                    self.pairs.update(place, |set| set.with_replaced(at, candidate));
                }
            }
            (State::Picking(pool, _), _) => {
                pool.store(Arc::new(pool.load().with_changed(member_of(record, dest, weight))));
            }
            (State::Direct | State::Fanout(_), _) => unreachable!("such a binding has a place in a set"),
        }
    }

    /// Takes a binding from the readers. Its record stays, without its spots.
    pub(super) fn displace_binding(&self, registry: &mut Registry, id: u32) {
        let record = registry.record(id);
        match (&self.exchange(record.source).state, &record.spots) {
            (State::Direct, Spots::One(at)) => {
                let (at, place) = (*at, self.place_of_key(record.source, &record.key));
                if let Some(moved) = take_from_row(&self.keys, place, at) {
                    registry.record_mut(moved.binding).spots = Spots::One(at);
                }
            }
            (State::Fanout(set) | State::Headers { always: set, .. }, Spots::One(at)) => {
                let at = *at;
                let (shorter, moved) = set.load().without(at);
                set.store(Arc::new(shorter));
                if let Some(moved) = moved {
                    registry.record_mut(moved.binding).spots = Spots::One(at);
                }
            }
            (State::Topic(patterns), Spots::One(twin)) => {
                patterns.remove(&record.key, record.to, Some(*twin))
            }
            (State::Topic(patterns), _) => patterns.remove(&record.key, record.to, None),
            (State::Headers { presence_count, .. }, _) => {
                self.displace_conditions(registry, id, presence_count);
            }
            (State::Picking(pool, _), _) => pool.store(Arc::new(pool.load().without(id))),
            (State::Direct | State::Fanout(_), _) => unreachable!("such a binding has a place in a set"),
        }
    }

    /// Takes away what a binding left in the shared tables, after readers lost its whole source.
    pub(super) fn forget_rows(&self, kind: &ExchangeKind, record: &Record) {
        match kind {
            ExchangeKind::Direct => {
                let place = self.place_of_key(record.source, &record.key);
                self.keys.update(place, |_| Set::default());
            }
            ExchangeKind::Headers => {
                for (_, text, _) in registrations(&record.arguments, &record.spots) {
                    let place = self.place_of_condition(record.source, text);
                    self.pairs.update(place, |_| Set::default());
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
        let conditions: Vec<Argument<'_>> = arguments::conditions(&record.arguments).collect();
        let add = |at: usize| {
            let candidate = Candidate { dest, condition: at as u32, arguments: record.arguments.clone() };
            let text = conditions[at].text;
            if arguments::is_presence(text) {
                // Before the row, so that a reader that could see the row looks for it.
                presence_count.fetch_add(1, Ordering::AcqRel);
            }
            push_row(&self.pairs, self.place_of_condition(record.source, text), candidate)
        };
        if arguments::mode_of(&record.arguments) == Mode::Any {
            return Spots::Many((0..conditions.len()).map(add).collect());
        }
        let crowd = |at: &usize| {
            let text = conditions[*at].text;
            let place = self.place_of_condition(record.source, text);
            // A condition of presence is met by more messages than one of a value, so it is the worse of two.
            (self.pairs.find(place, Set::len).unwrap_or(0), arguments::is_presence(text))
        };
        match (0..conditions.len()).min_by_key(crowd) {
            Some(least) => Spots::Under { condition: least as u32, at: add(least) },
            None => Spots::One(push(always, dest)),
        }
    }

    fn displace_conditions(&self, registry: &mut Registry, id: u32, presence_count: &AtomicUsize) {
        let spots = std::mem::take(&mut registry.record_mut(id).spots);
        let record = registry.record(id);
        let block = record.arguments.clone();
        let source = record.source;
        for (_, text, at) in registrations(&block, &spots) {
            let moved = take_from_row(&self.pairs, self.place_of_condition(source, text), at);
            if arguments::is_presence(text) {
                presence_count.fetch_sub(1, Ordering::AcqRel);
            }
            let Some(moved) = moved else { continue };
            match &mut registry.record_mut(moved.dest.binding).spots {
                Spots::Many(places) => places[moved.condition as usize] = at,
                spots => *spots = Spots::Under { condition: moved.condition, at },
            }
        }
    }
}

/// The conditions a headers binding with this block is registered under: which, its text, its place in that set.
fn registrations<'a>(block: &'a [u8], spots: &'a Spots) -> impl Iterator<Item = (u32, &'a [u8], u32)> {
    let conditions = (0..).zip(arguments::conditions(block));
    conditions.filter_map(move |(condition, argument)| {
        let at = match spots {
            Spots::Under { condition: of, at } if *of == condition => *at,
            Spots::Many(places) => places[condition as usize],
            _ => return None,
        };
        Some((condition, argument.text, at))
    })
}

fn dest_of(record: &Record, id: u32) -> Dest {
    Dest { to: record.to, options: record.options, binding: id }
}

fn member_of(record: &Record, dest: Dest, weight: u32) -> Member {
    Member { dest, seed: record.seed, weight, is_local: record.is_local }
}

/// Adds to a set that is read behind a pointer; returns the place.
fn push(set: &ArcSwap<Set<Dest>>, dest: Dest) -> u32 {
    let old = set.load();
    let at = old.len() as u32;
    set.store(Arc::new(old.with(dest)));
    at
}

/// Adds to a row; returns the place.
fn push_row<T: Clone>(table: &RowTable<T>, place: Place<'_>, item: T) -> u32 {
    let mut at = 0;
    table.update(place, |set| {
        at = set.len() as u32;
        set.with(item)
    });
    at
}

/// Takes from a row that is there; returns the item that has the place now, if there is one.
fn take_from_row<T: Clone>(table: &RowTable<T>, place: Place<'_>, at: u32) -> Option<T> {
    let mut moved = None;
    table.update(place, |set| {
        let (shorter, last) = set.without(at);
        moved = last;
        shorter
    });
    moved
}
