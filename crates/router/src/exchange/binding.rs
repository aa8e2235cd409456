//! Exchanges and bindings as callers name them, and what limits them.

use super::destination::{EXCHANGE, TWIN};
use super::message::{Field, Property};
use super::{ExchangeError, arguments, topic};
use crate::TargetId;

/// Names an exchange from its declaration until its removal; afterwards the number may be another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExchangeId(pub u32);

/// Exchanges that can be numbered.
pub(super) const EXCHANGES_MAX: usize = 1 << 20;

/// Bytes of a binding key. (AMQP's own limit is 255, §4.2.5.3.)
pub const KEY_BYTES_MAX: usize = 65_535;

/// What an exchange goes by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ExchangeKind {
    /// Destinations whose binding key is the routing key (AMQP 0-9-1 §3.1.3.1).
    Direct,
    /// All destinations (§3.1.3.2).
    Fanout,
    /// Destinations whose binding key is a pattern that the routing key matches (§3.1.3.3).
    Topic,
    /// Destinations whose binding arguments match the message's headers (§3.1.3.4). The argument `x-match` is `all`
    /// (the default), `any`, `all-with-x` or `any-with-x`; without `-with-x` arguments whose name starts with `x-` do
    /// not count. `all` of nothing matches every message, `any` of nothing none.
    Headers,
    /// One destination by a hash that moves few messages when destinations come and go; `x-consistent-hash` in
    /// RabbitMQ. The binding key is the destination's weight. If a destination is bound more than once, its oldest
    /// binding counts.
    ConsistentHash(HashOn),
    /// One destination by a hash of the routing key, modulo the count of destinations; `x-modulus-hash` in RabbitMQ.
    ModulusHash,
    /// One binding, each as likely; `x-random` in RabbitMQ.
    Random,
    /// As [`Random`](Self::Random), among bindings that are [local](Binding::is_local); `x-local-random` in RabbitMQ.
    /// The binding key must be empty.
    LocalRandom,
}

/// What a consistent hash is taken of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HashOn {
    /// The routing key.
    Key,
    /// The header of this name; messages without it go to one destination together.
    Header(Box<[u8]>),
    /// A property; messages without it go to one destination together.
    Property(Property),
}

/// Where a binding leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Destination {
    /// A target, as the caller numbers it: below 2^30.
    Target(TargetId),
    /// An exchange, which routes the message by its own bindings.
    Exchange(ExchangeId),
}

/// A binding from an exchange to a destination.
///
/// The first four fields are its identity: two bindings that differ in one of them are two bindings (AMQP 0-9-1
/// `queue.bind`, and RabbitMQ's `exchange.bind`). Arguments are compared as [`HeaderValue`](super::HeaderValue) says,
/// whatever their order.
#[derive(Clone, Copy, Debug)]
pub struct Binding<'a> {
    /// The exchange that messages come from.
    pub source: ExchangeId,
    /// Where they go.
    pub destination: Destination,
    /// The binding key, whose meaning depends on the source's kind.
    pub key: &'a [u8],
    /// The arguments, which only headers exchanges look at.
    pub arguments: &'a [Field<'a>],
    /// Handed out with the target whenever the binding matches; opaque here.
    pub options: u32,
    /// Whether the destination is on this node. Only local random exchanges look at it.
    pub is_local: bool,
    /// What the destination hashes as, for consistent and modulus hashes: best a hash of its name, so that messages go
    /// the same way on every node and after a restart.
    pub seed: u64,
}

impl<'a> Binding<'a> {
    /// A binding without arguments, with options 0, not local, and a seed made of the destination's number.
    pub const fn new(source: ExchangeId, destination: Destination, key: &'a [u8]) -> Self {
        let seed = match destination {
            Destination::Target(target) => target.0 as u64,
            Destination::Exchange(exchange) => exchange.0 as u64 | 1 << 32,
        };
        Self { source, destination, key, arguments: &[], options: 0, is_local: false, seed }
    }

    /// The binding with these arguments.
    pub const fn with_arguments(self, arguments: &'a [Field<'a>]) -> Self {
        Self { arguments, ..self }
    }

    /// The binding with these options.
    pub const fn with_options(self, options: u32) -> Self {
        Self { options, ..self }
    }
}

/// What became of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The options of the same binding from before, which are replaced; none if it is new.
    pub previous: Option<u32>,
}

/// What became of an unbinding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unbound {
    /// The options that the binding had.
    pub options: u32,
    /// Bindings that the source has left: at zero an auto-delete exchange goes.
    pub source_binding_count: usize,
}

/// What was removed together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Bindings removed.
    pub binding_count: usize,
    /// Exchanges that lost their last binding by this, and were there and without bindings at its end; each once. They
    /// may have bindings by now: see [`Exchanges::remove_if_unused`](super::Exchanges::remove_if_unused).
    pub emptied: Vec<ExchangeId>,
}

/// What may be held. Reaching a limit refuses the declaration or binding and changes nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Exchanges; at most 2^20 are possible.
    pub exchanges_max: usize,
    /// Bindings of all exchanges together; at most 2^26 are possible.
    pub bindings_max: usize,
    /// Bindings from one exchange.
    pub bindings_per_exchange_max: usize,
    /// Bindings from one exchange that picks one destination: a change there costs time proportional to them, and
    /// holds up other changes meanwhile. At most [`RING_SLOTS`](super::RING_SLOTS) are possible.
    pub members_max: usize,
    /// Edges: pairs of exchanges of which one has bindings to the other, however many, or has it for its alternate. A
    /// change of an exchange is noted in all that lead there, at the cost of a step for each edge among them, which
    /// holds up other changes. An alternate is never refused, but counts.
    pub edges_max: usize,
    /// Edges from one exchange.
    pub edges_per_exchange_max: usize,
    /// Bytes that the arguments of one binding may take.
    pub arguments_bytes_max: usize,
    /// Conditions of one headers binding: one that takes `any` of them costs as much as so many bindings.
    pub conditions_max: usize,
}

impl Default for Limits {
    /// 65,536 exchanges; 16,777,216 bindings, in all and of one exchange; 256 of one that picks; 65,536 edges between
    /// exchanges, 1,024 from one; 64 KiB of arguments, 64 of them conditions.
    fn default() -> Self {
        Self {
            exchanges_max: 1 << 16,
            bindings_max: 1 << 24,
            bindings_per_exchange_max: 1 << 24,
            members_max: 1 << 8,
            edges_max: 1 << 16,
            edges_per_exchange_max: 1 << 10,
            arguments_bytes_max: 1 << 16,
            conditions_max: 64,
        }
    }
}

/// A destination's number with the mark of its kind.
pub(super) fn number_of(destination: Destination) -> Result<u32, ExchangeError> {
    match destination {
        Destination::Target(target) if target.0 >= TWIN => {
            Err(ExchangeError::TargetNumber { target, limit: TWIN - 1 })
        }
        Destination::Target(target) => Ok(target.0),
        Destination::Exchange(exchange) if exchange.0 as usize >= EXCHANGES_MAX => {
            Err(ExchangeError::UnknownExchange(exchange))
        }
        Destination::Exchange(exchange) => Ok(exchange.0 | EXCHANGE),
    }
}

/// Checks what a kind of exchange asks of its bindings; returns the weight, 1 where there is none.
pub(super) fn check(kind: &ExchangeKind, binding: &Binding<'_>) -> Result<u32, ExchangeError> {
    let key = || String::from_utf8_lossy(binding.key).into_owned();
    match kind {
        ExchangeKind::Topic => topic::check(binding.key)?,
        ExchangeKind::Headers => arguments::check_match(binding.arguments)?,
        ExchangeKind::ConsistentHash(_) => {
            let number = std::str::from_utf8(binding.key).ok().and_then(|text| text.parse().ok());
            return number
                .filter(|&weight| weight > 0)
                .ok_or_else(|| ExchangeError::NotAWeight { key: key() });
        }
        ExchangeKind::LocalRandom if !binding.key.is_empty() => {
            return Err(ExchangeError::KeyNotEmpty { key: key() });
        }
        _ => {}
    }
    Ok(1)
}
