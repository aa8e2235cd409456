//! The protocol of readers and the writer, tried in every order that the memory model allows.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p meridian-router --lib models
//! ```
//!
//! Pages, groups of pages and blocks of buckets hold two each, so that a few bindings come to all that there is. Not
//! modelled: how arc-swap keeps a value alive while it is read, slots of a consistent hash, and two writers, who share
//! a lock.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::*;
use crate::TargetId;

/// Explores with up to three forced switches between threads.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 10_000;
    builder.check(model);
}

/// Targets of bindings that stay; of one that goes; of one that comes; of the alternate exchange.
const KEPT: [u32; 4] = [1, 2, 3, 4];
const GOING: u32 = 8;
const COMING: u32 = 9;
const ALTERNATE: u32 = 7;

fn change(exchanges: &Exchanges, source: ExchangeId, key: &[u8], target: u32, is_made: bool) {
    let arguments = [(&b"x-match"[..], HeaderValue::from("any")), (b"name", HeaderValue::Bytes(key))];
    let binding = Binding::new(source, Destination::Target(TargetId(target)), key).with_arguments(&arguments);
    if is_made {
        exchanges.bind(&binding).expect("far from the limits");
    } else {
        exchanges.unbind(&binding).expect("it was bound");
    }
}

fn route(exchanges: &Exchanges, from: ExchangeId, key: &[u8]) -> Vec<u32> {
    let (mut scratch, mut matches) = (Scratch::with_seed(1), Matches::new());
    let fields = [(&b"name"[..], HeaderValue::Bytes(key))];
    let headers = Headers(&fields);
    exchanges
        .route(from, &Message::new(key).with(&headers), &mut scratch, &mut matches)
        .expect("the exchange stays");
    matches.group().iter().map(|(target, _)| target.0).collect()
}

/// What a message finds while a writer changes what it likes.
fn route_beside(
    exchanges: Exchanges,
    from: ExchangeId,
    key: &[u8],
    write: impl FnOnce(&Exchanges) + 'static,
) -> Vec<u32> {
    let (exchanges, is_begun) = (Arc::new(exchanges), Arc::new(AtomicU32::new(0)));
    let writer = {
        let (exchanges, is_begun) = (exchanges.clone(), is_begun.clone());
        thread::spawn(move || {
            is_begun.store(1, Ordering::Release);
            write(&exchanges);
        })
    };
    // Without a first look at what the other thread wrote, the checker was seen to try one order alone.
    is_begun.load(Ordering::Acquire);
    let found = route(&exchanges, from, key);
    writer.join().expect("the writer does not panic");
    found
}

/// An exchange with an alternate, and bindings with one key that stay.
fn graph(kind: ExchangeKind, kept: &[u32]) -> (Exchanges, ExchangeId) {
    let exchanges = Exchanges::new();
    let [source, alternate] =
        [kind, ExchangeKind::Fanout].map(|kind| exchanges.declare(kind).expect("an exchange"));
    exchanges.set_alternate(source, Some(alternate)).expect("both are there");
    change(&exchanges, alternate, b"", ALTERNATE, true);
    kept.iter().for_each(|&target| change(&exchanges, source, b"a", target, true));
    (exchanges, source)
}

/// One binding goes and one comes, each with its key, beside a message with the key `a`.
fn explore_changes(kind: ExchangeKind, kept: &'static [u32], going: &'static [u8], coming: &'static [u8]) {
    let is_by_key = kind != ExchangeKind::Fanout;
    let is_wanted = move |key: &[u8]| key == b"a" || !is_by_key;
    explore(move || {
        // The binding that goes comes first, so that others take its place.
        let (exchanges, source) = graph(kind.clone(), &[]);
        change(&exchanges, source, going, GOING, true);
        kept.iter().for_each(|&target| change(&exchanges, source, b"a", target, true));
        let (exchanges, returned) = (Arc::new(exchanges), Arc::new(AtomicU32::new(0)));
        let writer = {
            let (exchanges, returned) = (exchanges.clone(), returned.clone());
            thread::spawn(move || {
                change(&exchanges, source, going, GOING, false);
                returned.store(1, Ordering::Release);
                change(&exchanges, source, coming, COMING, true);
                returned.store(2, Ordering::Release);
            })
        };
        let before = returned.load(Ordering::Acquire);
        let found = route(&exchanges, source, b"a");
        assert!(kept.iter().all(|target| found.contains(target)), "a binding that stays was missed");
        assert!(before < 1 || !found.contains(&GOING), "a binding was found after its unbind returned");
        assert!(
            before < 2 || !is_wanted(coming) || found.contains(&COMING),
            "a binding was missed after its bind returned"
        );
        assert!(is_wanted(going) || !found.contains(&GOING), "a binding of another key was found");
        assert!(is_wanted(coming) || !found.contains(&COMING), "a binding of another key was found");
        let others = found.iter().filter(|target| **target != ALTERNATE).count();
        assert_eq!(found.contains(&ALTERNATE), others == 0, "the alternate is for what matches nothing");
        writer.join().expect("the writer does not panic");
    });
}

#[test]
fn a_fanout_finds_what_is_bound_while_items_move_between_pages() {
    explore_changes(ExchangeKind::Fanout, &KEPT, b"", b"");
}

#[test]
fn a_fanout_finds_what_is_bound_while_its_set_is_replaced() {
    explore_changes(ExchangeKind::Fanout, &KEPT[..1], b"", b"");
    explore_changes(ExchangeKind::Fanout, &KEPT[..2], b"", b"");
}

#[test]
fn a_direct_key_is_found_while_its_set_changes() {
    explore_changes(ExchangeKind::Direct, &KEPT[..3], b"a", b"a");
    explore_changes(ExchangeKind::Direct, &[], b"a", b"a");
}

/// Other keys come or go beside one that stays, whose row is in this bucket or that.
fn explore_rows(is_made: bool) {
    for kept in 0..6u8 {
        explore(move || {
            let (exchanges, source) = graph(ExchangeKind::Direct, &[]);
            change(&exchanges, source, &[kept], KEPT[0], true);
            let change_others = move |exchanges: &Exchanges, is_made| {
                (100..103u8).for_each(|key| change(exchanges, source, &[key], GOING, is_made));
            };
            if !is_made {
                change_others(&exchanges, true);
            }
            let found = route_beside(exchanges, source, &[kept], move |exchanges| {
                change_others(exchanges, is_made);
            });
            assert_eq!(found, [KEPT[0]], "the row was missed");
        });
    }
}

#[test]
fn a_direct_key_is_found_while_buckets_split() {
    explore_rows(true);
}

#[test]
fn a_direct_key_is_found_while_buckets_merge() {
    explore_rows(false);
}

#[test]
fn a_binding_that_is_moved_twice_is_found() {
    explore(|| {
        let (exchanges, source) = graph(ExchangeKind::Fanout, &[]);
        // The last moves to the second page, and from there to the first.
        [GOING, 20, 30, 40, 50, KEPT[0]].map(|target| change(&exchanges, source, b"", target, true));
        let found = route_beside(exchanges, source, b"a", move |exchanges| {
            for target in [40, 50, 30, GOING] {
                change(exchanges, source, b"", target, false);
            }
        });
        assert!(found.contains(&KEPT[0]), "the binding was missed");
    });
}

#[test]
fn headers_bindings_are_found_while_candidates_change() {
    explore_changes(ExchangeKind::Headers, &KEPT[..3], b"a", b"a");
    explore_changes(ExchangeKind::Headers, &KEPT[..1], b"b", b"a");
}

#[test]
fn topic_bindings_are_found_while_the_tree_changes() {
    explore_changes(ExchangeKind::Topic, &KEPT[..1], b"a", b"*.b");
}

#[test]
fn a_cached_result_is_not_used_after_a_change_has_returned() {
    for kind in [ExchangeKind::Direct, ExchangeKind::Fanout, ExchangeKind::Topic] {
        explore(move || {
            let (exchanges, source) = graph(kind.clone(), &KEPT[..1]);
            let entry = exchanges.declare(ExchangeKind::Fanout).expect("an exchange");
            exchanges.bind(&Binding::new(entry, Destination::Exchange(source), b"")).expect("a binding");
            let (exchanges, is_bound) = (Arc::new(exchanges), Arc::new(AtomicU32::new(0)));
            let writer = {
                let (exchanges, is_bound) = (exchanges.clone(), is_bound.clone());
                thread::spawn(move || {
                    change(&exchanges, source, b"a", COMING, true);
                    is_bound.store(1, Ordering::Release);
                })
            };
            let regions = exchanges.regions(entry, b"a");
            // As a cache does: the generation first, then the look-up that it guards.
            let generation = exchanges.generation(&regions);
            let cached = route(&exchanges, entry, b"a");
            if is_bound.load(Ordering::Acquire) == 1 && exchanges.generation(&regions) == generation {
                assert!(cached.contains(&COMING), "a stale result would be used");
            }
            writer.join().expect("the writer does not panic");
        });
    }
}

#[test]
fn a_message_does_not_come_to_the_successor_of_an_exchange() {
    explore(|| {
        let (exchanges, source) = graph(ExchangeKind::Direct, &KEPT[..1]);
        let entry = exchanges.declare(ExchangeKind::Fanout).expect("an exchange");
        exchanges.bind(&Binding::new(entry, Destination::Exchange(source), b"")).expect("a binding");
        change(&exchanges, entry, b"", KEPT[1], true);
        let exchanges = Arc::new(exchanges);
        let writer = {
            let exchanges = exchanges.clone();
            thread::spawn(move || {
                exchanges.remove(source).expect("it was there");
                let successor = exchanges.declare(ExchangeKind::Direct).expect("an exchange");
                assert_eq!(successor, source, "its number is used again");
                change(&exchanges, successor, b"a", COMING, true);
            })
        };
        let found = route(&exchanges, entry, b"a");
        assert!(found.contains(&KEPT[1]) && !found.contains(&COMING), "{found:?}");
        writer.join().expect("the writer does not panic");
    });
}
