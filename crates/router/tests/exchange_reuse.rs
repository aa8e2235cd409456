//! Numbers of exchanges that are used again while a reader is on its way through the former ones.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use meridian_router::exchange::{
    Attributes, Binding, ExchangeId, ExchangeKind, HeaderValue, Message, Property, Scratch,
};
use meridian_router::{Destination, Exchanges, Matches, TargetId};

/// A target of the reader's tenant.
const OWN: TargetId = TargetId(1);

/// The target of another tenant, which no message of the reader may reach.
const FOREIGN: TargetId = TargetId(999);

/// What bindings ask of the header `on`.
const IS_ON: [(&[u8], HeaderValue<'static>); 1] = [(b"on", HeaderValue::Bool(true))];

fn declare(exchanges: &Exchanges, kind: &ExchangeKind) -> ExchangeId {
    exchanges.declare(kind.clone()).expect("far from the limit")
}

/// Binds a destination so that the reader's message matches.
fn bind(exchanges: &Exchanges, source: ExchangeId, to: Destination) {
    exchanges.bind(&Binding::new(source, to, b"key").with_arguments(&IS_ON)).expect("far from the limits");
}

/// A message's headers that do something, once, when an exchange asks for them: in the midst of a look-up.
struct Interrupt<'a> {
    act: &'a dyn Fn(),
    is_due: Cell<bool>,
}

impl Attributes for Interrupt<'_> {
    fn visit_headers<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], HeaderValue<'a>)) {
        if self.is_due.replace(false) {
            (self.act)();
        }
        visit(b"on", HeaderValue::Bool(true));
    }

    fn property(&self, _: Property) -> HeaderValue<'_> {
        HeaderValue::Void
    }
}

/// The targets of a message during whose look-up `act` happens.
fn route_across(exchanges: &Exchanges, from: ExchangeId, act: &dyn Fn()) -> Option<Vec<TargetId>> {
    let headers = Interrupt { act, is_due: Cell::new(true) };
    let mut matches = Matches::new();
    let message = Message::new(b"key").with(&headers);
    exchanges.route(from, &message, &mut Scratch::new(), &mut matches).ok()?;
    Some(matches.group().iter().map(|(target, _)| target).collect())
}

/// Removes an exchange, and makes another's under the same number that would match the reader's message.
fn replace(exchanges: &Exchanges, own: ExchangeId, kind: &ExchangeKind) {
    exchanges.remove(own).expect("it was declared");
    let foreign = declare(exchanges, kind);
    assert_eq!(foreign, own, "the test is about a number that is used again");
    bind(exchanges, foreign, Destination::Target(FOREIGN));
}

#[test]
fn a_destination_that_was_replaced_is_not_visited() {
    for kind in [ExchangeKind::Fanout, ExchangeKind::Direct, ExchangeKind::Topic, ExchangeKind::Headers] {
        let exchanges = Exchanges::new();
        let entry = declare(&exchanges, &ExchangeKind::Fanout);
        let asks = declare(&exchanges, &ExchangeKind::Headers);
        let own = declare(&exchanges, &kind);
        bind(&exchanges, entry, Destination::Exchange(asks));
        bind(&exchanges, entry, Destination::Exchange(own));
        bind(&exchanges, asks, Destination::Target(OWN));
        let found = route_across(&exchanges, entry, &|| replace(&exchanges, own, &kind));
        assert_eq!(found, Some(vec![OWN]), "{kind:?}");
    }
}

#[test]
fn an_exchange_that_was_replaced_does_not_match_by_its_successors_bindings() {
    let exchanges = Exchanges::new();
    let (entry, own) =
        (declare(&exchanges, &ExchangeKind::Fanout), declare(&exchanges, &ExchangeKind::Headers));
    bind(&exchanges, entry, Destination::Exchange(own));
    bind(&exchanges, entry, Destination::Target(OWN));
    let found = route_across(&exchanges, entry, &|| replace(&exchanges, own, &ExchangeKind::Headers));
    assert_eq!(found, Some(vec![OWN]));
    // The same number is found by messages that start afterwards.
    assert_eq!(route_across(&exchanges, own, &|| {}), Some(vec![FOREIGN]));
}

#[test]
fn the_first_exchange_of_a_message_may_be_replaced_too() {
    let exchanges = Exchanges::new();
    let own = declare(&exchanges, &ExchangeKind::Headers);
    let found = route_across(&exchanges, own, &|| replace(&exchanges, own, &ExchangeKind::Headers));
    assert!(found.is_none_or(|found| found.is_empty()));
}

#[test]
fn an_exchange_declared_meanwhile_is_no_dead_end() {
    let exchanges = Exchanges::new();
    let entry = declare(&exchanges, &ExchangeKind::Fanout);
    let [asks, waits] = [(); 2].map(|()| declare(&exchanges, &ExchangeKind::Headers));
    let fallback = declare(&exchanges, &ExchangeKind::Fanout);
    bind(&exchanges, entry, Destination::Exchange(asks));
    bind(&exchanges, entry, Destination::Exchange(waits));
    exchanges.set_alternate(waits, Some(fallback)).unwrap();
    bind(&exchanges, fallback, Destination::Target(TargetId(2)));
    let found = route_across(&exchanges, entry, &|| {
        let late = declare(&exchanges, &ExchangeKind::Fanout);
        bind(&exchanges, late, Destination::Target(TargetId(3)));
        bind(&exchanges, waits, Destination::Exchange(late));
    });
    // As if the message came before, or after; never neither.
    let found = found.expect("the first exchange stays");
    assert!(found == [TargetId(2)] || found == [TargetId(3)], "found {found:?}");
}

/// Replaces a direct exchange again and again beside a reader that looks up many keys in it.
#[test]
fn a_direct_exchange_that_was_replaced_does_not_match_by_its_successors_bindings() {
    let exchanges = Exchanges::new();
    let entry = declare(&exchanges, &ExchangeKind::Fanout);
    bind(&exchanges, entry, Destination::Target(OWN));
    let names: Vec<String> = (0..5_000).map(|number| format!("name-{number}")).collect();
    // The one that matches comes last, so that the exchange can be replaced between.
    let keys: Vec<&[u8]> = names.iter().map(String::as_bytes).chain([&b"key"[..]]).collect();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut scratch, mut matches) = (Scratch::new(), Matches::new());
            let message = Message { more_keys: &keys, ..Message::new(b"") };
            while !is_done.load(Ordering::Relaxed) {
                matches.clear();
                exchanges.route(entry, &message, &mut scratch, &mut matches).expect("the entry stays");
                let found: Vec<_> = matches.group().iter().map(|(target, _)| target).collect();
                assert_eq!(found, [OWN], "a message reached another tenant's target");
            }
        });
        for _ in 0..1_000 {
            let own = declare(&exchanges, &ExchangeKind::Direct);
            bind(&exchanges, entry, Destination::Exchange(own));
            std::thread::yield_now();
            replace(&exchanges, own, &ExchangeKind::Direct);
            std::thread::yield_now();
            exchanges.remove(own).expect("it was declared");
        }
        is_done.store(true, Ordering::Relaxed);
    });
}
