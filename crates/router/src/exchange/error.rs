//! Why an exchange or a binding is refused.

use super::ExchangeId;
use crate::TargetId;
use crate::pattern::PatternError;

/// Why a declaration or a binding is refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// No such exchange: never declared, or removed (AMQP reply code 404).
    #[error("there is no exchange {}", .0.0)]
    UnknownExchange(ExchangeId),
    /// [`Limits::exchanges_max`](super::Limits) exchanges are there.
    #[error("there are {limit} exchanges, and no more may be declared")]
    TooManyExchanges {
        /// The limit.
        limit: usize,
    },
    /// [`Limits::bindings_max`](super::Limits) bindings are there.
    #[error("there are {limit} bindings, and no more may be made")]
    TooManyBindings {
        /// The limit.
        limit: usize,
    },
    /// The source has [`Limits::bindings_per_exchange_max`](super::Limits) bindings, or
    /// [`Limits::members_max`](super::Limits) if it picks one destination for each message.
    #[error("exchange {} has {limit} bindings, and no more may be made", exchange.0)]
    TooManyBindingsOfExchange {
        /// The source.
        exchange: ExchangeId,
        /// The limit.
        limit: usize,
    },
    /// [`Limits::edges_max`](super::Limits) edges between exchanges are there.
    #[error("{limit} pairs of exchanges are bound to each other, and no more may be")]
    TooManyEdges {
        /// The limit.
        limit: usize,
    },
    /// The source leads to [`Limits::edges_per_exchange_max`](super::Limits) exchanges.
    #[error("exchange {} leads to {limit} exchanges, and may lead to no more", exchange.0)]
    TooManyEdgesOfExchange {
        /// The source.
        exchange: ExchangeId,
        /// The limit.
        limit: usize,
    },
    /// There are bindings from the exchange, which was to be removed only without (AMQP reply code 406).
    #[error("exchange {} has {binding_count} bindings", exchange.0)]
    InUse {
        /// The exchange.
        exchange: ExchangeId,
        /// Bindings from it.
        binding_count: usize,
    },
    /// The binding key is longer than [`KEY_BYTES_MAX`](super::KEY_BYTES_MAX).
    #[error("the binding key has {len} bytes, at most {limit} are allowed")]
    KeyTooLong {
        /// Bytes of the key.
        len: usize,
        /// The limit.
        limit: usize,
    },
    /// The arguments take more than [`Limits::arguments_bytes_max`](super::Limits) in memory.
    #[error("the binding's arguments take {len} bytes, at most {limit} are allowed")]
    ArgumentsTooLarge {
        /// Bytes they take.
        len: usize,
        /// The limit.
        limit: usize,
    },
    /// A headers binding has more than [`Limits::conditions_max`](super::Limits) conditions.
    #[error("the binding has {count} headers to match, at most {limit} are allowed")]
    TooManyConditions {
        /// Arguments that are conditions.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// The binding key is no topic pattern.
    #[error("the binding key is no topic pattern")]
    Pattern(#[from] PatternError),
    /// The binding key of a consistent hash is no weight: a decimal number from 1 to 4,294,967,295.
    #[error("the binding key `{key}` is no weight: it must be a whole number of at least 1")]
    NotAWeight {
        /// The key, with what is not UTF-8 replaced.
        key: String,
    },
    /// The binding key of a local random exchange is not empty.
    #[error("the binding key `{key}` is not empty, as this type of exchange wants it")]
    KeyNotEmpty {
        /// The key, with what is not UTF-8 replaced.
        key: String,
    },
    /// The argument `x-match` of a headers binding is none of `all`, `any`, `all-with-x`, `any-with-x`.
    #[error("the argument x-match is {value}: it must be all, any, all-with-x or any-with-x")]
    UnknownMatch {
        /// The value, with what is not UTF-8 replaced.
        value: String,
    },
    /// A target's number of 2^30 or more.
    #[error("target {} cannot be bound: numbers go up to {limit}", target.0)]
    TargetNumber {
        /// The target.
        target: TargetId,
        /// The largest number there may be.
        limit: u32,
    },
}
