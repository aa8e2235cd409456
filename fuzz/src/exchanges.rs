//! Exchanges of every kind, in any sequence of operations, against a model that tries every binding: the one that the
//! property tests of the router use.

#[path = "../../crates/router/tests/exchange_oracle/driver.rs"]
mod driver;
#[path = "../../crates/router/tests/exchange_oracle/model.rs"]
mod model;

use driver::{Between, KEYS, MATCHES, NAMES, Operation, Pair, Properties, ROUTING_KEYS, Sent, VALUES};
use meridian_router::exchange::{ExchangeKind, Field, HashOn, HeaderValue, Property};

/// Operations of a script that are carried out: each is checked by routing every message from every exchange.
const OPERATIONS_MAX: usize = 200;

/// Messages that are routed after each operation.
const MESSAGES: usize = 3;

/// Carries out `script`. Each byte chooses, modulo the choices: first the messages' keys and headers, then operation after
/// operation with its exchanges, target, key and arguments.
pub fn check_script(script: &[u8]) {
    let mut choices = Choices(script);
    let messages: Vec<Sent> = (0..MESSAGES).map(|_| choices.sent()).collect();
    let mut pair = Pair::new();
    for _ in 0..OPERATIONS_MAX {
        if choices.0.is_empty() {
            break;
        }
        let operation = choices.operation();
        pair.step(&operation, &messages);
    }
    pair.finish();
}

/// Bytes that choose; zeros behind the last.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn number(&mut self, count: usize) -> usize {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(first) % count
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.number(all.len())]
    }

    fn maybe(&mut self, count: usize) -> Option<usize> {
        self.number(count + 1).checked_sub(1)
    }

    fn kind(&mut self) -> ExchangeKind {
        match self.number(10) {
            0 => ExchangeKind::Direct,
            1 => ExchangeKind::Fanout,
            2 => ExchangeKind::Topic,
            3 => ExchangeKind::Headers,
            4 => ExchangeKind::ModulusHash,
            5 => ExchangeKind::Random,
            6 => ExchangeKind::LocalRandom,
            7 => ExchangeKind::ConsistentHash(HashOn::Key),
            8 => ExchangeKind::ConsistentHash(HashOn::Header(b"a"[..].into())),
            _ => ExchangeKind::ConsistentHash(HashOn::Property(Property::MessageId)),
        }
    }

    fn headers(&mut self) -> Vec<Field<'static>> {
        let count = self.number(4);
        (0..count).map(|_| (self.one_of(&NAMES), self.one_of(&VALUES))).collect()
    }

    fn sent(&mut self) -> Sent {
        let key = self.one_of(&ROUTING_KEYS);
        let more_count = self.number(6).saturating_sub(3);
        let more_keys = (0..more_count).map(|_| self.one_of(&ROUTING_KEYS)).collect();
        Sent {
            key,
            more_keys,
            properties: Properties { headers: self.headers(), message_id: self.one_of(&VALUES) },
        }
    }

    fn between(&mut self) -> Between {
        let mut between = Between {
            source: self.number(8),
            to_exchange: self.maybe(16).filter(|at| *at < 8),
            target: self.number(6) as u32,
            key: self.one_of(&KEYS),
            arguments: self.headers(),
            options: self.number(3) as u32,
            is_local: self.number(2) == 1,
        };
        let mode = self.maybe(MATCHES.len()).map(|at| HeaderValue::from(MATCHES[at]));
        between.arguments.extend(mode.map(|mode| (&b"x-match"[..], mode)));
        between
    }

    fn operation(&mut self) -> Operation {
        match self.number(16) {
            0 | 1 => Operation::Declare(self.kind()),
            2 => Operation::Remove(self.number(8)),
            3 => Operation::SetAlternate(self.number(8), self.maybe(8)),
            4 => Operation::RemoveTarget(self.number(6) as u32),
            5 => Operation::Unbind(self.between()),
            6..=8 => Operation::UnbindOld(self.number(256)),
            _ => Operation::Bind(self.between()),
        }
    }
}
