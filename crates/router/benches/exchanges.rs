//! Routing through exchanges of each kind, with few bindings and with many, and changing them.
//!
//! `cargo bench -p meridian-router --bench exchanges`. Times are the thread's CPU time, so that a busy machine does not
//! count. Keys come in an order that defeats the caches. Between the timings it prints what two threads at once cost
//! each other. What many bindings cost to make and to take back is for the benchmark `exchange_changes`.

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, criterion_group, criterion_main};
use meridian_router::exchange::{Binding, ExchangeId, ExchangeKind, HashOn, Headers, Message, Scratch};
use meridian_router::{Destination, Exchanges, Matches, TargetId};

#[path = "support/exchanges.rs"]
mod support;

use support::{conditions, device_of, thread_time};

/// Bindings of exchanges that are not asked.
const ELSEWHERE: u32 = 10_000;

/// Messages that a benchmark goes through in turn.
const MESSAGES: u32 = 100_000;

/// CPU time of this thread.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        thread_time()
    }

    fn end(&self, start: Duration) -> Duration {
        thread_time() - start
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

fn to(number: u32) -> Destination {
    Destination::Target(TargetId(number))
}

/// Spreads numbers below `count` over it, each number to one.
fn scattered(number: u32, count: u32) -> u32 {
    (u64::from(number) * 7_919 % u64::from(count)) as u32
}

/// An exchange with `count` bindings that `bind` makes.
fn filled(
    exchanges: &Exchanges,
    kind: ExchangeKind,
    count: u32,
    bind: impl Fn(ExchangeId, u32),
) -> ExchangeId {
    let id = exchanges.declare(kind).expect("far from the limit");
    (0..count).for_each(|number| bind(id, scattered(number, count)));
    id
}

/// Says what a message costs where one thread routes, and where two do through the same exchange.
fn beside_another(name: &str, exchanges: &Exchanges, from: ExchangeId, key: &str) {
    const ROUNDS: u32 = 1_000_000;
    let run = || {
        let (mut scratch, mut matches) = (Scratch::with_seed(1), Matches::new());
        let start = thread_time();
        for _ in 0..ROUNDS {
            matches.clear();
            let message = Message::new(black_box(key.as_bytes()));
            exchanges.route(from, &message, &mut scratch, &mut matches).expect("an exchange");
            black_box(matches.group().target_count());
        }
        (thread_time() - start) / ROUNDS
    };
    let alone = run();
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(run);
        (run(), other.join().expect("routing does not panic"))
    });
    println!("{name}: {alone:?} alone, {one:?} and {other:?} in two threads at once");
}

/// The key of a binding.
fn key_of(number: u32) -> String {
    format!("plant.{}.oven.{}", number / 10, number % 10)
}

fn bind_key(exchanges: &Exchanges, source: ExchangeId, number: u32, key: &str) {
    exchanges.bind(&Binding::new(source, to(number), key.as_bytes())).expect("a binding");
}

/// Times routing of messages with the keys given.
fn route_keys(
    criterion: &mut Criterion<CpuTime>,
    name: &str,
    exchanges: &Exchanges,
    from: ExchangeId,
    keys: &[String],
) {
    let (mut scratch, mut matches) = (Scratch::with_seed(1), Matches::new());
    let mut next = keys.iter().cycle();
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            matches.clear();
            let message = Message::new(next.next().expect("a cycle").as_bytes());
            exchanges.route(from, &message, &mut scratch, &mut matches).expect("an exchange");
            black_box(matches.group().target_count())
        });
    });
}

/// Exchanges with bindings beside those that are asked.
fn crowded() -> Exchanges {
    let exchanges = Exchanges::new();
    for kind in [ExchangeKind::Direct, ExchangeKind::Fanout, ExchangeKind::Topic] {
        filled(&exchanges, kind, ELSEWHERE, |id, number| bind_key(&exchanges, id, number, &key_of(number)));
    }
    exchanges
}

fn by_key(criterion: &mut Criterion<CpuTime>) {
    for (name, exchanges) in [("alone", Exchanges::new()), ("10,000 elsewhere", crowded())] {
        for count in [10u32, 10_000, 1_000_000] {
            if count == 1_000_000 && name != "alone" {
                continue;
            }
            let keys: Vec<String> =
                (0..MESSAGES).map(|at| key_of(scattered(at, count.max(10)) % count)).collect();
            let direct = filled(&exchanges, ExchangeKind::Direct, count, |id, number| {
                bind_key(&exchanges, id, number, &key_of(number));
            });
            route_keys(criterion, &format!("direct/{count} keys, {name}"), &exchanges, direct, &keys);
            beside_another("direct", &exchanges, direct, &keys[0]);
            let topic = filled(&exchanges, ExchangeKind::Topic, count, |id, number| {
                bind_key(&exchanges, id, number, &format!("plant.{}.*.{}", number / 10, number % 10));
            });
            route_keys(criterion, &format!("topic/{count} patterns, {name}"), &exchanges, topic, &keys);
            beside_another("topic", &exchanges, topic, &keys[0]);
        }
        for count in [1u32, 10, 10_000] {
            let bind = |id, number| bind_key(&exchanges, id, number, "");
            let fanout = filled(&exchanges, ExchangeKind::Fanout, count, bind);
            let keys = [String::new()];
            route_keys(criterion, &format!("fanout/{count} targets, {name}"), &exchanges, fanout, &keys);
        }
    }
}

fn chains(criterion: &mut Criterion<CpuTime>) {
    let exchanges = Exchanges::new();
    let ids: Vec<_> =
        (0..10).map(|_| exchanges.declare(ExchangeKind::Fanout).expect("an exchange")).collect();
    for pair in ids.windows(2) {
        exchanges.bind(&Binding::new(pair[0], Destination::Exchange(pair[1]), b"")).expect("a binding");
    }
    exchanges.bind(&Binding::new(ids[9], to(1), b"")).expect("a binding");
    route_keys(criterion, "chain/10 fanouts", &exchanges, ids[0], &[String::new()]);
    let regions = exchanges.regions(ids[0], b"some.key");
    criterion
        .bench_function("generation", |bencher| bencher.iter(|| exchanges.generation(black_box(&regions))));
}

fn picks(criterion: &mut Criterion<CpuTime>) {
    let exchanges = Exchanges::new();
    let keys: Vec<String> = (0..MESSAGES).map(key_of).collect();
    let kinds = [
        (ExchangeKind::ConsistentHash(HashOn::Key), "1"),
        (ExchangeKind::ModulusHash, ""),
        (ExchangeKind::Random, ""),
    ];
    for (kind, key) in kinds {
        let name = format!("{kind:?}/100 targets");
        let id = filled(&exchanges, kind, 100, |id, number| bind_key(&exchanges, id, number, key));
        route_keys(criterion, &name, &exchanges, id, &keys);
    }
}

fn bind_conditions(exchanges: &Exchanges, source: ExchangeId, number: u32) {
    let device = device_of(number);
    let arguments = conditions("all", number, &device);
    let binding = Binding::new(source, to(number), b"").with_arguments(&arguments);
    exchanges.bind(&binding).expect("a binding");
}

fn by_headers(criterion: &mut Criterion<CpuTime>) {
    for count in [10u32, 10_000, 1_000_000] {
        let exchanges = Exchanges::new();
        let headers = filled(&exchanges, ExchangeKind::Headers, count, |id, number| {
            bind_conditions(&exchanges, id, number);
        });
        let (mut scratch, mut matches) = (Scratch::with_seed(1), Matches::new());
        let devices: Vec<(u32, String)> = (0..MESSAGES)
            .map(|at| scattered(at, count.max(MESSAGES)) % count)
            .map(|number| (number, device_of(number)))
            .collect();
        let mut next = devices.iter().cycle();
        let (mut routed_count, mut found_count) = (0, 0);
        criterion.bench_function(&format!("headers/all of 3, {count} bindings"), |bencher| {
            bencher.iter(|| {
                let (number, device) = next.next().expect("a cycle");
                let fields = conditions("all", *number, device);
                matches.clear();
                // Without `x-match`.
                let headers_of = Headers(&fields[1..]);
                let message = Message::new(b"").with(&headers_of);
                exchanges.route(headers, &message, &mut scratch, &mut matches).expect("an exchange");
                let count = matches.group().target_count();
                routed_count += 1;
                found_count += count;
                black_box(count)
            });
        });
        assert!(routed_count == 0 || found_count > 0, "nothing matched");
    }
}

fn changes(criterion: &mut Criterion<CpuTime>) {
    for count in [10u32, 10_000] {
        let exchanges = Exchanges::new();
        for (kind, key) in [
            (ExchangeKind::Direct, "plant.0.oven.new"),
            (ExchangeKind::Fanout, ""),
            (ExchangeKind::Topic, "plant.0.*.new"),
        ] {
            let name = format!("bind and unbind/{kind:?} with {count}");
            let id = filled(&exchanges, kind, count, |id, number| {
                bind_key(&exchanges, id, number, &key_of(number));
            });
            let binding = Binding::new(id, to(count), key.as_bytes());
            criterion.bench_function(&name, |bencher| {
                bencher.iter(|| {
                    exchanges.bind(&binding).expect("a binding");
                    exchanges.unbind(&binding)
                });
            });
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = by_key, chains, picks, by_headers, changes
}
criterion_main!(benches);
