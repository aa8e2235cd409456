//! What exchanges do together, their limits, and what a change leaves alone.

use std::collections::BTreeSet;

use meridian_router::exchange::{
    Binding, Destination, ExchangeError, ExchangeId, ExchangeKind, HashOn, HeaderValue, Limits, Message,
    Scratch,
};
use meridian_router::{Exchanges, Matches, TargetId};

fn target(number: u32) -> Destination {
    Destination::Target(TargetId(number))
}

fn reached(exchanges: &Exchanges, from: ExchangeId, message: &Message<'_>) -> BTreeSet<u32> {
    let mut matches = Matches::new();
    exchanges.route(from, message, &mut Scratch::new(), &mut matches).expect("the exchange is there");
    matches.group().iter().map(|(target, _)| target.0).collect()
}

#[test]
fn a_cycle_of_exchanges_ends() {
    let exchanges = Exchanges::new();
    let ids: Vec<_> = (0..5).map(|_| exchanges.declare(ExchangeKind::Fanout).unwrap()).collect();
    for at in 0..5 {
        let next = Destination::Exchange(ids[(at + 1) % 5]);
        exchanges.bind(&Binding::new(ids[at], next, b"")).unwrap();
        exchanges.bind(&Binding::new(ids[at], target(at as u32), b"")).unwrap();
    }
    assert_eq!(reached(&exchanges, ids[3], &Message::new(b"")), BTreeSet::from([0, 1, 2, 3, 4]));
}

#[test]
fn an_alternate_is_asked_only_where_nothing_was_found_and_may_have_one_too() {
    let exchanges = Exchanges::new();
    let [first, second, last] = [ExchangeKind::Direct, ExchangeKind::Direct, ExchangeKind::Fanout]
        .map(|kind| exchanges.declare(kind).unwrap());
    exchanges.set_alternate(first, Some(second)).unwrap();
    exchanges.set_alternate(second, Some(last)).unwrap();
    exchanges.bind(&Binding::new(first, target(1), b"one")).unwrap();
    exchanges.bind(&Binding::new(second, target(2), b"two")).unwrap();
    exchanges.bind(&Binding::new(last, target(3), b"")).unwrap();
    for (key, expected) in [(&b"one"[..], 1), (b"two", 2), (b"three", 3)] {
        assert_eq!(reached(&exchanges, first, &Message::new(key)), BTreeSet::from([expected]));
    }
    // An exchange is a destination, even if the message ends there.
    let nowhere = exchanges.declare(ExchangeKind::Direct).unwrap();
    exchanges.bind(&Binding::new(first, Destination::Exchange(nowhere), b"three")).unwrap();
    assert_eq!(reached(&exchanges, first, &Message::new(b"three")), BTreeSet::new());
    exchanges.remove(nowhere);
    exchanges.remove(second);
    assert_eq!(reached(&exchanges, first, &Message::new(b"three")), BTreeSet::new());
}

#[test]
fn unrelated_churn_keeps_a_result_valid() {
    let exchanges = Exchanges::new();
    let [direct, topic, below, other] =
        [ExchangeKind::Direct, ExchangeKind::Topic, ExchangeKind::Topic, ExchangeKind::Fanout]
            .map(|kind| exchanges.declare(kind).unwrap());
    exchanges.bind(&Binding::new(topic, Destination::Exchange(below), b"#")).unwrap();
    let regions = [exchanges.regions(direct, b"kept"), exchanges.regions(topic, b"plant.1.oven")];
    let generations = || regions.map(|regions| exchanges.generation(&regions));
    let before = generations();
    let mut changed = 0;
    for number in 0..100 {
        let key = format!("plant.2.{number}.*");
        exchanges.bind(&Binding::new(other, target(number), b"")).unwrap();
        exchanges.bind(&Binding::new(direct, target(number), key.as_bytes())).unwrap();
        exchanges.bind(&Binding::new(below, target(number), key.as_bytes())).unwrap();
        changed = generations().iter().zip(before).filter(|&(now, before)| *now != before).count();
    }
    // Regions share counters by hash, so one of the two may have been touched, at odds of one to a hundred.
    assert!(changed < 2);
    let before = generations();
    exchanges.bind(&Binding::new(direct, target(1), b"kept")).unwrap();
    exchanges.bind(&Binding::new(below, target(1), b"plant.1.#")).unwrap();
    assert!(generations()[0] != before[0] && generations()[1] != before[1]);
}

#[test]
fn limits_refuse_what_is_too_much_and_change_nothing() {
    let limits = Limits {
        exchanges_max: 2,
        bindings_max: 4,
        bindings_per_exchange_max: 3,
        members_max: 1,
        arguments_bytes_max: 40,
        conditions_max: 2,
        ..Limits::default()
    };
    let exchanges = Exchanges::with_limits(limits);
    let fanout = exchanges.declare(ExchangeKind::Fanout).unwrap();
    let random = exchanges.declare(ExchangeKind::Random).unwrap();
    assert_eq!(exchanges.declare(ExchangeKind::Direct), Err(ExchangeError::TooManyExchanges { limit: 2 }));
    let bind = |source, number| exchanges.bind(&Binding::new(source, target(number), b"k")).map(|_| ());
    (0..3).for_each(|number| bind(fanout, number).unwrap());
    let of_exchange = |exchange, limit| Err(ExchangeError::TooManyBindingsOfExchange { exchange, limit });
    assert_eq!(bind(fanout, 3), of_exchange(fanout, 3));
    assert_eq!(bind(fanout, 2), Ok(()), "what is there already is no more");
    assert_eq!(bind(random, 0), Ok(()));
    assert_eq!(bind(random, 1), Err(ExchangeError::TooManyBindings { limit: 4 }));
    exchanges.remove_target(TargetId(2));
    assert_eq!(bind(random, 1), of_exchange(random, 1));
    let long = [(&b"name"[..], HeaderValue::Bytes(&[0; 40]))];
    let too_large = exchanges.bind(&Binding::new(fanout, target(9), b"").with_arguments(&long));
    assert!(matches!(too_large, Err(ExchangeError::ArgumentsTooLarge { limit: 40, .. })));
    let key = vec![b'k'; 65_536];
    let too_long = exchanges.bind(&Binding::new(fanout, target(9), &key));
    assert_eq!(too_long, Err(ExchangeError::KeyTooLong { len: 65_536, limit: 65_535 }));
    let number = TargetId(1 << 30);
    let too_high = exchanges.bind(&Binding::new(fanout, Destination::Target(number), b""));
    assert_eq!(too_high, Err(ExchangeError::TargetNumber { target: number, limit: (1 << 30) - 1 }));
    assert_eq!(exchanges.binding_count(), 3);
}

#[test]
fn a_headers_binding_has_no_more_conditions_than_allowed() {
    let exchanges = Exchanges::with_limits(Limits { conditions_max: 3, ..Limits::default() });
    let [headers, direct] =
        [ExchangeKind::Headers, ExchangeKind::Direct].map(|kind| exchanges.declare(kind).unwrap());
    let names = [b"a", b"b", b"c", b"d"];
    for mode in ["all", "any"] {
        let mut arguments: Vec<_> = names.map(|name| (&name[..], HeaderValue::Void)).into();
        arguments.push((b"x-match", HeaderValue::from(mode)));
        let bind = |source, arguments: &[_]| {
            exchanges.bind(&Binding::new(source, target(1), b"").with_arguments(arguments)).map(|_| ())
        };
        let error = ExchangeError::TooManyConditions { count: 4, limit: 3 };
        assert_eq!(bind(headers, &arguments), Err(error.clone()));
        assert_eq!(error.to_string(), "the binding has 4 headers to match, at most 3 are allowed");
        assert_eq!(bind(headers, &arguments[1..]), Ok(()), "what is no condition does not count");
        assert_eq!(bind(direct, &arguments), Ok(()), "arguments of another kind are no conditions");
    }
    assert_eq!(exchanges.remove_target(TargetId(1)).binding_count, 4);
}

#[test]
fn edges_between_exchanges_are_limited() {
    let limits = Limits { edges_max: 3, edges_per_exchange_max: 2, ..Limits::default() };
    let exchanges = Exchanges::with_limits(limits);
    let ids: Vec<_> = (0..4).map(|_| exchanges.declare(ExchangeKind::Fanout).unwrap()).collect();
    let bind = |from: usize, to: usize, key: &[u8]| {
        exchanges.bind(&Binding::new(ids[from], Destination::Exchange(ids[to]), key)).map(|_| ())
    };
    bind(0, 1, b"").unwrap();
    bind(0, 2, b"").unwrap();
    let of_one = ExchangeError::TooManyEdgesOfExchange { exchange: ids[0], limit: 2 };
    assert_eq!(bind(0, 3, b""), Err(of_one));
    assert_eq!(bind(0, 1, b"another"), Ok(()), "a further binding is no further edge");
    bind(1, 2, b"").unwrap();
    assert_eq!(bind(1, 3, b""), Err(ExchangeError::TooManyEdges { limit: 3 }));
    exchanges.unbind(&Binding::new(ids[0], Destination::Exchange(ids[1]), b"")).unwrap();
    assert_eq!(bind(1, 3, b""), Err(ExchangeError::TooManyEdges { limit: 3 }), "one is left between them");
    exchanges.remove(ids[0]).unwrap();
    bind(1, 3, b"").unwrap();
    bind(2, 3, b"").unwrap();
}

#[test]
fn only_an_exchange_without_bindings_is_removed_as_unused() {
    let exchanges = Exchanges::new();
    let [source, below] = [(); 2].map(|()| exchanges.declare(ExchangeKind::Fanout).unwrap());
    exchanges.bind(&Binding::new(source, Destination::Exchange(below), b"")).unwrap();
    let in_use = ExchangeError::InUse { exchange: source, binding_count: 1 };
    assert_eq!(exchanges.remove_if_unused(source), Err(in_use));
    let removed = exchanges.remove_if_unused(below).expect("bindings to it are no use");
    assert_eq!((removed.binding_count, &removed.emptied[..]), (1, &[source][..]));
    assert_eq!(exchanges.remove_if_unused(source).map(|removed| removed.binding_count), Ok(0));
    assert_eq!(exchanges.remove_if_unused(source), Err(ExchangeError::UnknownExchange(source)));
}

#[test]
fn keys_keep_their_destination_when_others_come_and_go() {
    let exchanges = Exchanges::new();
    let hash = exchanges.declare(ExchangeKind::ConsistentHash(HashOn::Key)).unwrap();
    for number in 0..10 {
        exchanges.bind(&Binding::new(hash, target(number), b"5")).unwrap();
    }
    let routes = || -> Vec<u32> {
        let route =
            |at: u32| reached(&exchanges, hash, &Message::new(&at.to_le_bytes())).pop_first().unwrap();
        (0..5_000).map(route).collect()
    };
    let before = routes();
    exchanges.remove_target(TargetId(4));
    let without = routes();
    let moved: Vec<_> = before.iter().zip(&without).filter(|(before, after)| before != after).collect();
    assert!(moved.iter().all(|(before, _)| **before == 4), "others than the lost target's keys moved");
    assert!((350..650).contains(&moved.len()), "a tenth of the keys is lost with a tenth of the weight");
    exchanges.bind(&Binding::new(hash, target(4), b"5")).unwrap();
    assert_eq!(routes(), before);
}

#[test]
fn an_unknown_exchange_is_named() {
    let exchanges = Exchanges::new();
    let fanout = exchanges.declare(ExchangeKind::Fanout).unwrap();
    let unknown = ExchangeId(u32::MAX);
    let error = ExchangeError::UnknownExchange(unknown);
    let mut matches = Matches::new();
    let routed = exchanges.route(unknown, &Message::new(b""), &mut Scratch::new(), &mut matches);
    assert_eq!(routed, Err(error.clone()));
    assert_eq!(
        exchanges.bind(&Binding::new(fanout, Destination::Exchange(unknown), b"")),
        Err(error.clone())
    );
    assert_eq!(exchanges.bind(&Binding::new(unknown, target(1), b"")), Err(error.clone()));
    assert_eq!(exchanges.set_alternate(fanout, Some(unknown)), Err(error.clone()));
    assert_eq!(exchanges.remove(unknown), None);
    assert_eq!(error.to_string(), "there is no exchange 4294967295");
}
