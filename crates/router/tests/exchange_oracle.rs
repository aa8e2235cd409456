//! Exchanges of every kind in one graph against a model that tries every binding, over random sequences of operations.

#[path = "exchange_oracle/model.rs"]
mod model;

use meridian_router::exchange::{
    Attributes, Binding, Destination, ExchangeId, ExchangeKind, Field, HashOn, HeaderValue, Message,
    Property, Scratch,
};
use meridian_router::{Exchanges, Matches, TargetId};
use model::{Model, Outcome};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Binding keys: literal words, wildcards in every place, empty words, weights, and what is neither.
const KEYS: [&[u8]; 20] = [
    b"", b"a", b"a.b", b"a.b.c", b"b", b"a..b", b".", b"1", b"7", b"0", b"#", b"*", b"#.#", b"*.#", b"#.*",
    b"a.*", b"a.#", b"#.b.#", b"*.b", b"a.b.#",
];

/// Routing keys.
const ROUTING_KEYS: [&[u8]; 9] = [b"", b"a", b"b", b"a.b", b"a.b.c", b"a..b", b".", b"c.b.a", b"1"];

const NAMES: [&[u8]; 3] = [b"a", b"b", b"x-c"];

const VALUES: [HeaderValue<'static>; 8] = [
    HeaderValue::Void,
    HeaderValue::Bool(true),
    HeaderValue::Integer(1),
    HeaderValue::Float(1.0),
    HeaderValue::Timestamp(1),
    HeaderValue::Bytes(b"1"),
    HeaderValue::Bytes(b""),
    HeaderValue::Array(b"t\x01"),
];

const MATCHES: [&str; 5] = ["all", "any", "all-with-x", "any-with-x", "some"];

/// Headers and a property of a message.
#[derive(Clone, Debug)]
struct Properties {
    headers: Vec<Field<'static>>,
    message_id: HeaderValue<'static>,
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
struct Sent {
    key: &'static [u8],
    more_keys: Vec<&'static [u8]>,
    properties: Properties,
}

impl Sent {
    fn message(&self) -> Message<'_> {
        Message { key: self.key, more_keys: &self.more_keys, attributes: &self.properties }
    }
}

/// A binding between places in the list of exchanges.
#[derive(Clone, Debug)]
struct Between {
    source: usize,
    to_exchange: Option<usize>,
    target: u32,
    key: &'static [u8],
    arguments: Vec<Field<'static>>,
    options: u32,
    is_local: bool,
}

#[derive(Clone, Debug)]
enum Operation {
    Declare(ExchangeKind),
    Remove(usize),
    SetAlternate(usize, Option<usize>),
    Bind(Between),
    Unbind(Between),
    UnbindOld(usize),
    RemoveTarget(u32),
}

fn kind() -> impl Strategy<Value = ExchangeKind> {
    use ExchangeKind::*;
    prop_oneof![
        3 => select(vec![Direct, Fanout, Topic, Headers]),
        1 => select(vec![ModulusHash, Random, LocalRandom]),
        1 => select(vec![HashOn::Key, HashOn::Header(b"a"[..].into()), HashOn::Property(Property::MessageId)])
            .prop_map(ConsistentHash),
    ]
}

fn headers() -> impl Strategy<Value = Vec<Field<'static>>> {
    vec((select(&NAMES[..]), select(&VALUES[..])), 0..4)
}

fn arguments() -> impl Strategy<Value = Vec<Field<'static>>> {
    (headers(), prop::option::weighted(0.7, select(&MATCHES[..]))).prop_map(|(mut fields, mode)| {
        fields.extend(mode.map(|mode| (&b"x-match"[..], HeaderValue::from(mode))));
        fields
    })
}

fn between() -> impl Strategy<Value = Between> {
    let to = (prop::option::weighted(0.35, 0..64usize), 0..6u32);
    (0..64usize, to, select(&KEYS[..]), arguments(), 0..3u32, any::<bool>()).prop_map(
        |(source, (to_exchange, target), key, arguments, options, is_local)| Between {
            source,
            to_exchange,
            target,
            key,
            arguments,
            options,
            is_local,
        },
    )
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        2 => kind().prop_map(Operation::Declare),
        1 => (0..64usize).prop_map(Operation::Remove),
        2 => (0..64usize, prop::option::weighted(0.7, 0..64usize))
            .prop_map(|(exchange, alternate)| Operation::SetAlternate(exchange, alternate)),
        16 => between().prop_map(Operation::Bind),
        1 => between().prop_map(Operation::Unbind),
        5 => (0..1000usize).prop_map(Operation::UnbindOld),
        1 => (0..6u32).prop_map(Operation::RemoveTarget),
    ]
}

/// Operations that crowd many targets under few keys and conditions, and take them away in any order.
fn crowded_operation() -> impl Strategy<Value = Operation> {
    let fields = vec((select(&NAMES[..2]), select(&VALUES[..2])), 1..3);
    let mode = select(&MATCHES[..2]).prop_map(|mode| (&b"x-match"[..], HeaderValue::from(mode)));
    let between = (0..4usize, 0..40u32, select(&KEYS[..2]), fields, mode, 0..3u32).prop_map(
        |(source, target, key, mut arguments, mode, options)| {
            arguments.push(mode);
            Between { source, to_exchange: None, target, key, arguments, options, is_local: true }
        },
    );
    prop_oneof![
        3 => between.prop_map(Operation::Bind),
        2 => (0..1000usize).prop_map(Operation::UnbindOld),
    ]
}

fn sent() -> impl Strategy<Value = Sent> {
    let more_keys = prop_oneof![3 => Just(Vec::new()), 1 => vec(select(&ROUTING_KEYS[..]), 1..3)];
    (select(&ROUTING_KEYS[..]), more_keys, headers(), select(&VALUES[..])).prop_map(
        |(key, more_keys, headers, message_id)| Sent {
            key,
            more_keys,
            properties: Properties { headers, message_id },
        },
    )
}

/// The exchanges, the model, and what routing needs.
struct Pair {
    exchanges: Exchanges,
    model: Model,
    scratch: Scratch,
    matches: Matches,
}

impl Pair {
    fn new() -> Self {
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
    fn apply(&mut self, operation: &Operation) {
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
    fn check(&mut self, messages: &[Sent]) {
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
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn exchanges_agree_with_the_model(
        operations in vec(operation(), 1..90),
        messages in vec(sent(), 1..8),
    ) {
        let mut pair = Pair::new();
        let empty_bytes = pair.exchanges.memory_bytes();
        for operation in &operations {
            let cached = pair.cached(&messages);
            pair.apply(operation);
            pair.check(&messages);
            for (from, sent, before, generation) in cached {
                let regions = pair.exchanges.regions(from, sent.key);
                if pair.exchanges.generation(&regions) == generation {
                    prop_assert_eq!(pair.route(from, &sent).0, before, "stale after {:?}", operation);
                }
            }
        }
        for id in pair.model.ids() {
            pair.exchanges.remove(id);
        }
        prop_assert_eq!((pair.exchanges.exchange_count(), pair.exchanges.binding_count()), (0, 0));
        // The list of slots stays: its first block, and one block of each table that was used.
        prop_assert!(pair.exchanges.memory_bytes() < empty_bytes + 1024, "memory is not given back");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn bindings_that_share_a_key_or_condition_are_told_apart(
        operations in vec(crowded_operation(), 50..300),
        messages in vec(sent(), 3..6),
    ) {
        let mut pair = Pair::new();
        for kind in [ExchangeKind::Direct, ExchangeKind::Fanout, ExchangeKind::Headers, ExchangeKind::Topic] {
            pair.apply(&Operation::Declare(kind));
        }
        for (at, operation) in operations.iter().enumerate() {
            pair.apply(operation);
            if at % 8 == 0 {
                pair.check(&messages);
            }
        }
        while pair.model.binding_count() > 0 {
            pair.apply(&Operation::UnbindOld(pair.model.binding_count() / 2));
            if pair.model.binding_count().is_multiple_of(8) {
                pair.check(&messages);
            }
        }
    }
}
