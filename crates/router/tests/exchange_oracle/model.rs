//! The model: lists, and the rules as RabbitMQ's documentation and the AMQP specification give them.

use std::collections::{BTreeMap, BTreeSet};

use meridian_router::TargetId;
use meridian_router::exchange::{
    Binding, Destination, ExchangeId, ExchangeKind, Field, HeaderValue, Removed, Unbound,
};

use super::driver::{self, Sent};

/// Targets with options.
pub(super) type Outcome = BTreeSet<(u32, u32)>;

struct Exchange {
    kind: ExchangeKind,
    alternate: Option<ExchangeId>,
}

struct Held {
    source: ExchangeId,
    destination: Destination,
    key: Vec<u8>,
    arguments: Vec<Field<'static>>,
    options: u32,
    is_local: bool,
}

/// All exchanges, and all bindings, the oldest first.
#[derive(Default)]
pub(super) struct Model {
    exchanges: BTreeMap<ExchangeId, Exchange>,
    bindings: Vec<Held>,
}

/// A message halfway through the exchanges.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Walk {
    pending: BTreeSet<ExchangeId>,
    seen: BTreeSet<ExchangeId>,
    found: Outcome,
}

impl Model {
    pub(super) fn exchange_count(&self) -> usize {
        self.exchanges.len()
    }

    pub(super) fn binding_count(&self) -> usize {
        self.bindings.len()
    }

    pub(super) fn ids(&self) -> Vec<ExchangeId> {
        self.exchanges.keys().copied().collect()
    }

    /// Some exchange, the same for the same number while they stay.
    pub(super) fn nth(&self, at: usize) -> Option<ExchangeId> {
        self.ids().get(at % self.exchanges.len().max(1)).copied()
    }

    /// Some binding, without its arguments, and those.
    pub(super) fn nth_binding(&self, at: usize) -> Option<(Binding<'static>, Vec<Field<'static>>)> {
        let held = self.bindings.get(at % self.bindings.len().max(1))?;
        // Keys come from a list of static ones.
        let key = driver::KEYS.into_iter().find(|key| **key == *held.key)?;
        Some((Binding::new(held.source, held.destination, key), held.arguments.clone()))
    }

    pub(super) fn declare(&mut self, id: ExchangeId, kind: ExchangeKind) {
        let other = self.exchanges.insert(id, Exchange { kind, alternate: None });
        assert!(other.is_none(), "a number in use was given again");
    }

    pub(super) fn set_alternate(&mut self, id: ExchangeId, alternate: Option<ExchangeId>) {
        self.exchanges.get_mut(&id).unwrap().alternate = alternate;
    }

    pub(super) fn remove(&mut self, id: ExchangeId) -> Removed {
        self.exchanges.remove(&id);
        for exchange in self.exchanges.values_mut() {
            exchange.alternate = exchange.alternate.filter(|alternate| *alternate != id);
        }
        self.remove_where(|held| held.source == id || held.destination == Destination::Exchange(id))
    }

    pub(super) fn remove_target(&mut self, target: u32) -> Removed {
        self.remove_where(|held| held.destination == Destination::Target(TargetId(target)))
    }

    /// The previous options of the binding; none if it is refused.
    pub(super) fn bind(&mut self, binding: &Binding<'_>) -> Option<Option<u32>> {
        let is_refused = match self.exchanges[&binding.source].kind {
            ExchangeKind::ConsistentHash(_) => !matches!(binding.key, b"1" | b"7"),
            ExchangeKind::LocalRandom => !binding.key.is_empty(),
            ExchangeKind::Headers => mode_of(binding.arguments) == HeaderValue::from("some"),
            _ => false,
        };
        if is_refused {
            return None;
        }
        if let Some(held) = self.bindings.iter_mut().find(|held| held.is(binding)) {
            held.is_local = binding.is_local;
            return Some(Some(std::mem::replace(&mut held.options, binding.options)));
        }
        self.bindings.push(Held {
            source: binding.source,
            destination: binding.destination,
            key: binding.key.to_vec(),
            arguments: binding.arguments.iter().map(owned).collect(),
            options: binding.options,
            is_local: binding.is_local,
        });
        Some(None)
    }

    pub(super) fn unbind(&mut self, binding: &Binding<'_>) -> Option<Unbound> {
        let at = self.bindings.iter().position(|held| held.is(binding))?;
        let options = self.bindings.remove(at).options;
        let source_binding_count = self.bindings.iter().filter(|held| held.source == binding.source).count();
        Some(Unbound { options, source_binding_count })
    }

    /// All that a message may reach: more than one outcome where exchanges pick.
    pub(super) fn outcomes(&self, from: ExchangeId, sent: &Sent) -> BTreeSet<Outcome> {
        let start = BTreeSet::from([from]);
        let mut walks = BTreeSet::from([Walk { pending: start.clone(), seen: start, found: Outcome::new() }]);
        let mut outcomes = BTreeSet::new();
        while let Some(mut walk) = walks.pop_first() {
            let Some(at) = walk.pending.pop_first() else {
                outcomes.insert(walk.found);
                continue;
            };
            for mut choice in self.choices(at, sent) {
                let mut next = walk.clone();
                let is_empty = choice.is_empty();
                choice.extend(
                    self.exchanges[&at]
                        .alternate
                        .filter(|_| is_empty)
                        .map(|id| (Destination::Exchange(id), 0)),
                );
                for (destination, options) in choice {
                    match destination {
                        Destination::Target(target) => drop(next.found.insert((target.0, options))),
                        Destination::Exchange(id) => {
                            if next.seen.insert(id) {
                                next.pending.insert(id);
                            }
                        }
                    }
                }
                walks.insert(next);
            }
        }
        outcomes
    }

    /// What one exchange's own bindings may choose.
    fn choices(&self, at: ExchangeId, sent: &Sent) -> Vec<Vec<(Destination, u32)>> {
        let from_here = || self.bindings.iter().filter(|held| held.source == at);
        let entry = |held: &Held| (held.destination, held.options);
        let all_where =
            |test: &dyn Fn(&Held) -> bool| vec![from_here().filter(|held| test(held)).map(entry).collect()];
        let mut seen = BTreeSet::new();
        let picks: Vec<_> = match &self.exchanges[&at].kind {
            ExchangeKind::Direct => return all_where(&|held| sent.keys().any(|key| *key == *held.key)),
            ExchangeKind::Fanout => return all_where(&|_| true),
            ExchangeKind::Topic => {
                return all_where(&|held| sent.keys().any(|key| topic_matches(&held.key, key)));
            }
            ExchangeKind::Headers => {
                return all_where(&|held| headers_match(&held.arguments, &sent.properties.headers));
            }
            ExchangeKind::ConsistentHash(_) | ExchangeKind::ModulusHash => {
                from_here().filter(|held| seen.insert(held.destination)).map(entry).collect()
            }
            ExchangeKind::Random => from_here().map(entry).collect(),
            ExchangeKind::LocalRandom => from_here().filter(|held| held.is_local).map(entry).collect(),
        };
        if picks.is_empty() { vec![Vec::new()] } else { picks.into_iter().map(|pick| vec![pick]).collect() }
    }

    fn remove_where(&mut self, test: impl Fn(&Held) -> bool) -> Removed {
        let (gone, kept): (Vec<Held>, Vec<Held>) = self.bindings.drain(..).partition(|held| test(held));
        self.bindings = kept;
        let sources: BTreeSet<ExchangeId> = gone.iter().map(|held| held.source).collect();
        let is_left = |id: &ExchangeId| self.bindings.iter().any(|held| held.source == *id);
        let emptied = sources.into_iter().filter(|id| self.exchanges.contains_key(id) && !is_left(id));
        Removed { binding_count: gone.len(), emptied: emptied.collect() }
    }
}

impl Held {
    /// Whether it is the same binding.
    fn is(&self, binding: &Binding<'_>) -> bool {
        let within = |some: &[Field<'_>], all: &[Field<'_>]| some.iter().all(|field| all.contains(field));
        (self.source, self.destination) == (binding.source, binding.destination)
            && self.key == binding.key
            && within(&self.arguments, binding.arguments)
            && within(binding.arguments, &self.arguments)
    }
}

impl Sent {
    fn keys(&self) -> impl Iterator<Item = &'static [u8]> {
        std::iter::once(self.key).chain(self.more_keys.iter().copied())
    }
}

/// The static field that a field was made of.
fn owned(field: &Field<'_>) -> Field<'static> {
    let name = driver::NAMES.into_iter().find(|name| *name == field.0).unwrap_or(b"x-match");
    let modes = driver::MATCHES.map(HeaderValue::from);
    let mut values = driver::VALUES.into_iter().chain(modes);
    (name, values.find(|value| *value == field.1).expect("all values are from the lists"))
}

fn mode_of<'a>(arguments: &[Field<'a>]) -> HeaderValue<'a> {
    let mode = arguments.iter().find(|(name, _)| *name == b"x-match");
    mode.map_or_else(|| HeaderValue::from("all"), |(_, mode)| *mode)
}

/// RabbitMQ's documentation of headers exchanges, "x-match", with a void argument for presence.
fn headers_match(arguments: &[Field<'_>], headers: &[Field<'_>]) -> bool {
    let mode = mode_of(arguments);
    let counts_x = [HeaderValue::from("all-with-x"), HeaderValue::from("any-with-x")].contains(&mode);
    let header =
        |name: &[u8]| headers.iter().rev().find(|(other, _)| *other == name).map(|(_, value)| *value);
    let mut verdicts = (arguments.iter())
        .filter(|(name, _)| if counts_x { *name != b"x-match" } else { !name.starts_with(b"x-") })
        .map(|(name, value)| match value {
            HeaderValue::Void => header(name).is_some(),
            value => header(name) == Some(*value),
        });
    if mode == HeaderValue::from("any") || mode == HeaderValue::from("any-with-x") {
        verdicts.any(|is_met| is_met)
    } else {
        verdicts.all(|is_met| is_met)
    }
}

/// AMQP 0-9-1 §3.1.3.3, word by word. The empty text has no words.
fn topic_matches(pattern: &[u8], key: &[u8]) -> bool {
    fn words(text: &[u8]) -> Vec<&[u8]> {
        if text.is_empty() { Vec::new() } else { text.split(|byte| *byte == b'.').collect() }
    }
    fn matches(pattern: &[&[u8]], key: &[&[u8]]) -> bool {
        match (pattern, key) {
            ([], key) => key.is_empty(),
            ([b"#", rest @ ..], _) => (0..=key.len()).any(|skipped| matches(rest, &key[skipped..])),
            ([_, ..], []) => false,
            ([b"*", rest @ ..], [_, left @ ..]) => matches(rest, left),
            ([word, rest @ ..], [other, left @ ..]) => word == other && matches(rest, left),
        }
    }
    matches(&words(pattern), &words(key))
}
