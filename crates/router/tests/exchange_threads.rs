//! Readers beside a writer: what is bound throughout is always found, whatever comes and goes around it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use meridian_router::exchange::{
    Binding, ExchangeId, ExchangeKind, HashOn, HeaderValue, Headers, Message, Scratch,
};
use meridian_router::{Destination, Exchanges, Matches, TargetId};

/// Bindings that stay, and as many that come and go.
const KEPT: u32 = 40;

/// The numbers of those that come and go start here. A multiple of seven, the count of groups.
const PASSING: u32 = 1001;

const ROUNDS: usize = 30;

fn key_of(number: u32) -> String {
    format!("key.{}", number % 7)
}

/// Makes or removes the binding of a number, alike for each kind.
fn change(exchanges: &Exchanges, source: ExchangeId, number: u32, is_made: bool) {
    let key = key_of(number);
    let arguments =
        [(&b"group"[..], HeaderValue::Integer(i64::from(number % 7))), (b"on", HeaderValue::Void)];
    let binding = Binding::new(source, Destination::Target(TargetId(number)), key.as_bytes())
        .with_arguments(&arguments);
    if is_made {
        exchanges.bind(&binding).expect("far from every limit");
    } else {
        exchanges.unbind(&binding).expect("it was made before");
    }
}

/// The targets of a message that bindings with `number`'s key and arguments match.
fn route(
    exchanges: &Exchanges,
    from: ExchangeId,
    number: u32,
    scratch: &mut Scratch,
    matches: &mut Matches,
) -> Vec<u32> {
    let fields =
        [(&b"group"[..], HeaderValue::Integer(i64::from(number % 7))), (b"on", HeaderValue::Bool(true))];
    let (key, headers) = (key_of(number), Headers(&fields));
    matches.clear();
    let message = Message::new(key.as_bytes()).with(&headers);
    exchanges.route(from, &message, scratch, matches).expect("the exchange stays");
    matches.group().iter().map(|(target, _)| target.0).collect()
}

/// Reads in two threads while a third changes bindings, again and again with a new graph.
fn stress(kind: &ExchangeKind, is_by_group: bool) {
    for _ in 0..ROUNDS {
        let exchanges = Exchanges::new();
        let source = exchanges.declare(kind.clone()).unwrap();
        let entry = exchanges.declare(ExchangeKind::Fanout).unwrap();
        exchanges.bind(&Binding::new(entry, Destination::Exchange(source), b"")).unwrap();
        // Those that stay come last, so that they are moved to where others were.
        (0..KEPT).for_each(|number| change(&exchanges, source, number + PASSING, true));
        (0..KEPT).for_each(|number| change(&exchanges, source, number, true));
        stress_once(&exchanges, entry, source, is_by_group);
        assert_eq!(exchanges.binding_count_of(source), Some(KEPT as usize));
    }
}

fn stress_once(exchanges: &Exchanges, entry: ExchangeId, source: ExchangeId, is_by_group: bool) {
    let (is_done, read_count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let read = || {
        let (mut scratch, mut matches) = (Scratch::new(), Matches::new());
        while !is_done.load(Ordering::Relaxed) {
            for number in 0..7 {
                let found = route(exchanges, entry, number, &mut scratch, &mut matches);
                let is_wanted = |of: &u32| !is_by_group || of % PASSING % 7 == number;
                for kept in (0..KEPT).filter(is_wanted) {
                    assert!(found.binary_search(&kept).is_ok(), "binding {kept} was missed");
                }
                assert!(found.iter().all(is_wanted), "a binding that does not match was found");
            }
            read_count.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(read);
        scope.spawn(read);
        while read_count.load(Ordering::Relaxed) < 2 {
            std::thread::yield_now();
        }
        for is_made in [false, true, false] {
            (0..KEPT).for_each(|number| change(exchanges, source, number + PASSING, is_made));
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn direct_bindings_that_stay_are_found() {
    stress(&ExchangeKind::Direct, true);
}

#[test]
fn fanout_bindings_that_stay_are_found() {
    stress(&ExchangeKind::Fanout, false);
}

#[test]
fn topic_bindings_that_stay_are_found() {
    stress(&ExchangeKind::Topic, true);
}

#[test]
fn headers_bindings_that_stay_are_found() {
    stress(&ExchangeKind::Headers, true);
}

#[test]
fn a_hash_always_finds_somebody() {
    let exchanges = Exchanges::new();
    let source = exchanges.declare(ExchangeKind::ConsistentHash(HashOn::Key)).unwrap();
    let bind = |number| {
        let binding = Binding::new(source, Destination::Target(TargetId(number)), b"3");
        exchanges.bind(&binding).map(drop).expect("a weight");
    };
    bind(0);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut scratch, mut matches) = (Scratch::new(), Matches::new());
            while !is_done.load(Ordering::Relaxed) {
                for number in 0..50 {
                    assert_eq!(route(&exchanges, source, number, &mut scratch, &mut matches).len(), 1);
                }
            }
        });
        for _ in 0..ROUNDS {
            (1..4).for_each(bind);
            (1..4).for_each(|number| drop(exchanges.remove_target(TargetId(number))));
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn an_exchange_can_be_removed_while_it_is_bound_and_read() {
    let exchanges = Exchanges::new();
    let entry = exchanges.declare(ExchangeKind::Fanout).unwrap();
    exchanges.bind(&Binding::new(entry, Destination::Target(TargetId(1)), b"")).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut scratch, mut matches) = (Scratch::new(), Matches::new());
            while !is_done.load(Ordering::Relaxed) {
                let found = route(&exchanges, entry, 0, &mut scratch, &mut matches);
                assert!(found.contains(&1) && found.iter().all(|target| *target < 1000));
            }
        });
        for _ in 0..ROUNDS {
            let below = exchanges.declare(ExchangeKind::Headers).unwrap();
            exchanges.bind(&Binding::new(entry, Destination::Exchange(below), b"")).unwrap();
            // More than are removed in one batch, so that others come in between.
            (0..600).for_each(|number| change(&exchanges, below, number, true));
            std::thread::scope(|scope| {
                scope.spawn(|| exchanges.remove(below));
                // Refused or removed again, depending on who is first.
                let late = Binding::new(below, Destination::Target(TargetId(2)), b"");
                drop(exchanges.bind(&late));
            });
            assert_eq!((exchanges.exchange_count(), exchanges.binding_count()), (1, 1));
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn an_exchange_is_bound_or_removed_as_unused_but_not_both() {
    let exchanges = Exchanges::new();
    for _ in 0..ROUNDS * 10 {
        let source = exchanges.declare(ExchangeKind::Fanout).unwrap();
        let (is_bound, is_removed) = std::thread::scope(|scope| {
            let bound =
                scope.spawn(|| exchanges.bind(&Binding::new(source, Destination::Target(TargetId(1)), b"")));
            let is_removed = exchanges.remove_if_unused(source).is_ok();
            (bound.join().expect("no panic").is_ok(), is_removed)
        });
        assert!(is_bound != is_removed);
        assert_eq!(exchanges.binding_count(), usize::from(is_bound));
        exchanges.remove(source);
    }
}

#[test]
fn an_exchange_emptied_more_than_once_is_told_once() {
    let exchanges = Exchanges::new();
    let [large, small] =
        [ExchangeKind::Direct, ExchangeKind::Fanout].map(|kind| exchanges.declare(kind).unwrap());
    let to = Destination::Target(TargetId(1));
    for _ in 0..ROUNDS {
        for number in 0..2_000u32 {
            exchanges.bind(&Binding::new(large, to, &number.to_le_bytes())).unwrap();
        }
        let is_done = AtomicBool::new(false);
        let mut removed = std::thread::scope(|scope| {
            let again = scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    exchanges.bind(&Binding::new(small, to, b"")).unwrap();
                }
            });
            let removed = exchanges.remove_target(TargetId(1));
            is_done.store(true, Ordering::Relaxed);
            again.join().expect("no panic");
            removed
        });
        let count = removed.emptied.len();
        removed.emptied.dedup();
        assert_eq!(count, removed.emptied.len(), "{removed:?}");
        exchanges.remove_target(TargetId(1));
    }
}
