//! What is done to exchanges and to the model alike, and what must come of it.

use meridian_router::exchange::{
    Attributes, Binding, Destination, ExchangeId, ExchangeKind, Field, HeaderValue, Message, Property,
    Scratch,
};
use meridian_router::{Exchanges, Matches, TargetId};

use super::model::{Model, Outcome};

/// Binding keys: literal words, wildcards in every place, empty words, weights, and what is neither.
pub(super) const KEYS: [&[u8]; 20] = [
    b"", b"a", b"a.b", b"a.b.c", b"b", b"a..b", b".", b"1", b"7", b"0", b"#", b"*", b"#.#", b"*.#", b"#.*",
    b"a.*", b"a.#", b"#.b.#", b"*.b", b"a.b.#",
];

/// Routing keys.
pub(super) const ROUTING_KEYS: [&[u8]; 9] =
    [b"", b"a", b"b", b"a.b", b"a.b.c", b"a..b", b".", b"c.b.a", b"1"];

pub(super) const NAMES: [&[u8]; 3] = [b"a", b"b", b"x-c"];

pub(super) const VALUES: [HeaderValue<'static>; 8] = [
    HeaderValue::Void,
    HeaderValue::Bool(true),
    HeaderValue::Integer(1),
    HeaderValue::Float(1.0),
    HeaderValue::Timestamp(1),
    HeaderValue::Bytes(b"1"),
    HeaderValue::Bytes(b""),
    HeaderValue::Array(b"t\x01"),
];

pub(super) const MATCHES: [&str; 5] = ["all", "any", "all-with-x", "any-with-x", "some"];

/// Headers and a property of a message.
#[derive(Clone, Debug)]
pub(super) struct Properties {
    pub(super) headers: Vec<Field<'static>>,
    pub(super) message_id: HeaderValue<'static>,
}

impl Attributes for Properties {
    fn visit_headers<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], HeaderValue<'a>)) {
        self.headers.iter().for_each(|&(name, value)| visit(name, value));
    }

    fn property(&self, property: Property) -> HeaderValue<'_> {
        if property == Property::MessageId { self.message_id } else { HeaderValue::Void }
    }
}

/// A message that owns what it is made of.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) key: &'static [u8],
    pub(super) more_keys: Vec<&'static [u8]>,
    pub(super) properties: Properties,
}

impl Sent {
    fn message(&self) -> Message<'_> {
        Message { key: self.key, more_keys: &self.more_keys, attributes: &self.properties }
    }
}

/// A binding between places in the list of exchanges.
#[derive(Clone, Debug)]
pub(super) struct Between {
    pub(super) source: usize,
    pub(super) to_exchange: Option<usize>,
    pub(super) target: u32,
    pub(super) key: &'static [u8],
    pub(super) arguments: Vec<Field<'static>>,
    pub(super) options: u32,
    pub(super) is_local: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Operation {
    Declare(ExchangeKind),
    Remove(usize),
    SetAlternate(usize, Option<usize>),
    Bind(Between),
    Unbind(Between),
    UnbindOld(usize),
    RemoveTarget(u32),
}

/// The exchanges, the model, and what routing needs.
pub(super) struct Pair {
    exchanges: Exchanges,
    pub(super) model: Model,
    scratch: Scratch,
    matches: Matches,
}

impl Pair {
    pub(super) fn new() -> Self {
        Self {
            exchanges: Exchanges::new(),
            model: Model::default(),
            scratch: Scratch::with_seed(7),
            matches: Matches::new(),
        }
    }

    /// The binding that a random one stands for; none without exchanges.
    fn binding<'a>(&self, between: &'a Between) -> Option<Binding<'a>> {
        let destination = match between.to_exchange {
            Some(at) => Destination::Exchange(self.model.nth(at)?),
            None => Destination::Target(TargetId(between.target)),
        };
        let mut binding = Binding::new(self.model.nth(between.source)?, destination, between.key)
            .with_arguments(&between.arguments)
            .with_options(between.options);
        binding.is_local = between.is_local;
        Some(binding)
    }

    /// Does one operation to both and compares what they return.
    pub(super) fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Declare(kind) if self.model.exchange_count() < 7 => {
                let id = self.exchanges.declare(kind.clone()).expect("far from the limit");
                self.model.declare(id, kind.clone());
            }
            Operation::Declare(_) => {}
            Operation::Remove(at) => {
                if let Some(id) = self.model.nth(*at) {
                    let mut removed = self.exchanges.remove(id).expect("the model has it");
                    removed.emptied.sort_unstable();
                    assert_eq!(removed, self.model.remove(id));
                    assert_eq!(self.exchanges.remove(id), None);
                }
            }
            Operation::SetAlternate(at, alternate) => {
                if let Some(id) = self.model.nth(*at) {
                    let alternate = alternate.and_then(|at| self.model.nth(at));
                    self.exchanges.set_alternate(id, alternate).expect("both are there");
                    self.model.set_alternate(id, alternate);
                }
            }
            Operation::Bind(between) => {
                if let Some(binding) = self.binding(between) {
                    let previous = self.exchanges.bind(&binding).map(|bound| bound.previous);
                    assert_eq!(previous.ok(), self.model.bind(&binding), "{binding:?}");
                }
            }
            Operation::Unbind(between) => {
                if let Some(binding) = self.binding(between) {
                    assert_eq!(self.exchanges.unbind(&binding), self.model.unbind(&binding));
                }
            }
            Operation::UnbindOld(at) => {
                if let Some((mut old, mut arguments)) = self.model.nth_binding(*at) {
                    // Their order is no part of the identity.
                    arguments.reverse();
                    old.arguments = &arguments;
                    let unbound = self.exchanges.unbind(&old);
                    assert!(unbound.is_some());
                    assert_eq!(unbound, self.model.unbind(&old));
                    assert_eq!(self.exchanges.unbind(&old), None);
                }
            }
            Operation::RemoveTarget(target) => {
                let mut removed = self.exchanges.remove_target(TargetId(*target));
                removed.emptied.sort_unstable();
                assert_eq!(removed, self.model.remove_target(*target));
            }
        }
        assert_eq!(self.exchanges.exchange_count(), self.model.exchange_count());
        assert_eq!(self.exchanges.binding_count(), self.model.binding_count());
    }

    /// What a message reaches, and whether that may be kept.
    fn route(&mut self, from: ExchangeId, sent: &Sent) -> (Outcome, bool) {
        self.matches.clear();
        let routed = self.exchanges.route(from, &sent.message(), &mut self.scratch, &mut self.matches);
        let mut outcome = Outcome::new();
        for (target, options) in self.matches.group().iter() {
            assert!(!options.is_empty() && options.is_sorted_by(|one, other| one < other));
            outcome.extend(options.iter().map(|&options| (target.0, options)));
        }
        (outcome, routed.expect("the exchange is there").is_cacheable)
    }

    /// Routes every message from every exchange and compares.
    pub(super) fn check(&mut self, messages: &[Sent]) {
        for from in self.model.ids() {
            let mut kept: Vec<(&[u8], Outcome)> = Vec::new();
            for sent in messages {
                let (outcome, is_cacheable) = self.route(from, sent);
                let possible = self.model.outcomes(from, sent);
                assert!(possible.contains(&outcome), "{outcome:?} is none of {possible:?} for {sent:?}");
                if is_cacheable {
                    assert!(sent.more_keys.is_empty());
                    assert_eq!(self.route(from, sent).0, outcome);
                    let same_key = kept.iter().find(|(key, _)| *key == sent.key);
                    assert!(same_key.is_none_or(|(_, other)| *other == outcome), "not a matter of the key");
                    kept.push((sent.key, outcome));
                }
            }
        }
    }

    /// Every cacheable result with the generation that guards it.
    fn cached(&mut self, messages: &[Sent]) -> Vec<(ExchangeId, Sent, Outcome, u64)> {
        let mut cached = Vec::new();
        for from in self.model.ids() {
            for sent in messages {
                let generation = self.exchanges.generation(&self.exchanges.regions(from, sent.key));
                let (outcome, is_cacheable) = self.route(from, sent);
                if is_cacheable {
                    cached.push((from, sent.clone(), outcome, generation));
                }
            }
        }
        cached
    }

    /// Does one operation to both; whatever a message reached before and may still be taken from a cache holds.
    pub(super) fn step(&mut self, operation: &Operation, messages: &[Sent]) {
        let cached = self.cached(messages);
        self.apply(operation);
        self.check(messages);
        for (from, sent, before, generation) in cached {
            let regions = self.exchanges.regions(from, sent.key);
            if self.exchanges.generation(&regions) == generation {
                assert_eq!(self.route(from, &sent).0, before, "stale after {operation:?}");
            }
        }
    }

    /// Removes all exchanges, after which there are no bindings and no memory in use.
    pub(super) fn finish(self) {
        for id in self.model.ids() {
            self.exchanges.remove(id);
        }
        assert_eq!((self.exchanges.exchange_count(), self.exchanges.binding_count()), (0, 0));
        // The list of slots stays: its first block, and one block of each table that was used.
        let empty_bytes = Exchanges::new().memory_bytes();
        assert!(self.exchanges.memory_bytes() < empty_bytes + 1024, "memory is not given back");
    }
}
