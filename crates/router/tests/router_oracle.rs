//! Every kind of match in one router against the definitions, binding by binding, and the cache of its results.

use std::collections::{BTreeMap, BTreeSet};

use meridian_router::exchange::{Binding, ExchangeKind, HeaderValue, Headers, Message, Scratch};
use meridian_router::{Destination, ExchangeId, MatchCache, Matches, RouteGuard, Router, Source, TargetId};
use meridian_types::{TopicFilter, TopicName};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// The kinds of the exchanges, by number; each is also bound to the next, the last to the first.
const KINDS: [ExchangeKind; 4] =
    [ExchangeKind::Direct, ExchangeKind::Fanout, ExchangeKind::Topic, ExchangeKind::Headers];

/// The headers of every message.
const HEADERS: [(&[u8], HeaderValue<'static>); 2] =
    [(b"a", HeaderValue::Bool(true)), (b"b", HeaderValue::Bool(false))];

/// One thing that is held, for a target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    Filter(String),
    Prefix(String),
    /// Exchange and key; by which direct and topic exchanges go.
    Binding(usize, String),
}

fn words(separator: &'static str, wildcards: &'static [&'static str]) -> impl Strategy<Value = String> {
    let word = prop_oneof![3 => select(&["a", "b", ""][..]), 1 => select(wildcards)];
    vec(word, 1..5).prop_map(move |words| words.join(separator))
}

fn held() -> impl Strategy<Value = Held> {
    let filter = words("/", &["+"]).prop_flat_map(|text| {
        prop_oneof![Just(format!("{text}/#")), Just(text)].prop_filter("not empty", |text| !text.is_empty())
    });
    prop_oneof![
        filter.prop_map(Held::Filter),
        words("/", &["a"]).prop_map(Held::Prefix),
        (0..KINDS.len(), words(".", &["*", "#"])).prop_map(|(exchange, key)| Held::Binding(exchange, key)),
    ]
}

/// The definition of a match of rows of words, `many` standing for any number of them.
fn matches_words(pattern: &[&str], words: &[&str], one: &str, many: &str) -> bool {
    match pattern.split_first() {
        None => words.is_empty(),
        Some((&first, rest)) if first == many => {
            (0..=words.len()).any(|taken| matches_words(rest, &words[taken..], one, many))
        }
        Some((&first, rest)) => words.split_first().is_some_and(|(&word, words)| {
            (first == one || first == word) && matches_words(rest, words, one, many)
        }),
    }
}

/// The words of an AMQP key: the empty key has none.
fn key_words(key: &str) -> Vec<&str> {
    if key.is_empty() { Vec::new() } else { key.split('.').collect() }
}

/// What a binding of the headers exchange asks for: a header that is as it says, one that is not, or nothing.
fn arguments(exchange: usize, key: &str) -> &'static [(&'static [u8], HeaderValue<'static>)] {
    match (&KINDS[exchange], key.as_bytes().first()) {
        (ExchangeKind::Headers, Some(b'a')) => &[(b"a", HeaderValue::Bool(true))],
        (ExchangeKind::Headers, Some(b'b')) => &[(b"b", HeaderValue::Bool(true))],
        _ => &[],
    }
}

/// Whether a binding of an exchange takes a message with this routing key and [`HEADERS`].
fn takes(exchange: usize, binding: &str, key: &str) -> bool {
    match KINDS[exchange] {
        ExchangeKind::Direct => binding == key,
        ExchangeKind::Topic => matches_words(&key_words(binding), &key_words(key), "*", "#"),
        _ => arguments(exchange, binding).iter().all(|wanted| HEADERS.contains(wanted)),
    }
}

type Oracle = BTreeMap<(Held, u32), u32>;

/// What a message finds that is published to a topic and to an exchange.
fn expected(oracle: &Oracle, topic: &str, exchange: usize, key: &str) -> BTreeSet<(u32, u32)> {
    let levels: Vec<&str> = topic.split('/').collect();
    let is_found = |held: &Held| match held {
        Held::Filter(filter) => matches_words(&filter.split('/').collect::<Vec<_>>(), &levels, "+", "#"),
        Held::Prefix(prefix) => topic.starts_with(prefix),
        // The direct exchange, number 0, ends the circle: its binding to the next has a key that no message has.
        Held::Binding(at, binding) => {
            let is_reached = *at == 0 || exchange != 0 && *at >= exchange;
            is_reached && takes(*at, binding, key)
        }
    };
    oracle
        .iter()
        .filter(|((held, _), _)| is_found(held))
        .map(|((_, target), &options)| (*target, options))
        .collect()
}

fn add(router: &Router, exchanges: &[ExchangeId], held: &Held, target: TargetId, options: u32) {
    match held {
        Held::Filter(filter) => {
            router.filters.insert(TopicFilter::new(filter).unwrap(), target, options);
        }
        Held::Prefix(prefix) => {
            router.prefixes.insert(prefix.as_bytes(), target, options);
        }
        Held::Binding(exchange, key) => {
            let binding = Binding::new(exchanges[*exchange], Destination::Target(target), key.as_bytes());
            let binding = binding.with_arguments(arguments(*exchange, key)).with_options(options);
            router.exchanges.bind(&binding).unwrap();
        }
    }
}

fn remove(router: &Router, exchanges: &[ExchangeId], held: &Held, target: TargetId) {
    match held {
        Held::Filter(filter) => {
            router.filters.remove(TopicFilter::new(filter).unwrap(), target).unwrap();
        }
        Held::Prefix(prefix) => {
            router.prefixes.remove(prefix.as_bytes(), target).unwrap();
        }
        Held::Binding(exchange, key) => {
            let binding = Binding::new(exchanges[*exchange], Destination::Target(target), key.as_bytes());
            router.exchanges.unbind(&binding.with_arguments(arguments(*exchange, key))).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn one_look_up_finds_every_kind(
        pool in vec(held(), 1..25),
        messages in vec((words("/", &["a"]), 0..KINDS.len(), words(".", &["a"])), 1..8),
        operations in vec((any::<bool>(), 0..1000usize, 0..6u32, 0..3u32), 1..60),
    ) {
        let router = Router::new();
        let exchanges: Vec<_> =
            KINDS.iter().map(|kind| router.exchanges.declare(kind.clone()).unwrap()).collect();
        for at in 0..KINDS.len() {
            let next = Destination::Exchange(exchanges[(at + 1) % KINDS.len()]);
            let key: &[u8] = if at == 0 { b"no message has this key" } else { b"#" };
            router.exchanges.bind(&Binding::new(exchanges[at], next, key)).unwrap();
        }
        let mut oracle = Oracle::new();
        let mut cache = MatchCache::<BTreeSet<(u32, u32)>, RouteGuard>::new(1 << 20);
        let mut scratch = Scratch::with_seed(1);
        for (removes, at, target, options) in operations {
            let held = &pool[at % pool.len()];
            if !removes {
                add(&router, &exchanges, held, TargetId(target), options);
                oracle.insert((held.clone(), target), options);
            } else if oracle.remove(&(held.clone(), target)).is_some() {
                remove(&router, &exchanges, held, TargetId(target));
            }
            for (topic, exchange, key) in messages.iter().filter(|(topic, ..)| !topic.is_empty()) {
                let headers = Headers(&HEADERS);
                let message = Message::new(key.as_bytes()).with(&headers);
                let name = TopicName::new(topic).unwrap();
                let source = Source::of_topic(name).to(exchanges[*exchange], message);
                let expected = expected(&oracle, topic, *exchange, key);
                let cache_key = format!("{topic}\0{key}");
                let space = exchanges[*exchange].0;
                if let Some(cached) = cache.get(space, cache_key.as_bytes(), |guard| router.is_current(guard)) {
                    prop_assert_eq!(cached, &expected, "cached: {:?}", (topic, exchange, key));
                }
                let guard = router.guard(&source);
                let mut matches = Matches::new();
                let is_cacheable = router.route(&source, &mut scratch, &mut matches).unwrap();
                let found: BTreeSet<_> = (matches.group().iter())
                    .flat_map(|(target, options)| options.iter().map(move |&options| (target.0, options)))
                    .collect();
                prop_assert_eq!(&found, &expected, "{:?}", (topic, exchange, key));
                if is_cacheable {
                    cache.put(space, cache_key.as_bytes(), guard, found, 0);
                }
            }
        }
    }
}
