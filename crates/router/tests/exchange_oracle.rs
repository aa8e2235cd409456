//! Exchanges of every kind in one graph against a model that tries every binding, over random sequences of operations.

#[path = "exchange_oracle/driver.rs"]
mod driver;
#[path = "exchange_oracle/model.rs"]
mod model;

use driver::{Between, KEYS, MATCHES, NAMES, Operation, Pair, Properties, ROUTING_KEYS, Sent, VALUES};
use meridian_router::exchange::{ExchangeKind, Field, HashOn, HeaderValue, Property};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn exchanges_agree_with_the_model(
        operations in vec(operation(), 1..90),
        messages in vec(sent(), 1..8),
    ) {
        let mut pair = Pair::new();
        for operation in &operations {
            pair.step(operation, &messages);
        }
        pair.finish();
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
