//! Exchanges.

use index_harness::{Random, Report};
use meridian_router::exchange::{Binding, ExchangeKind, Field, HeaderValue, Headers, Message, Scratch};
use meridian_router::{Destination, ExchangeId, Exchanges, Matches, TargetId};

use crate::{Context, rate, slowest};

/// Messages that are looked up, at most.
const MESSAGES: usize = 100_000;

/// Headers bindings: a thousand and a million, each with two conditions that one message in as many meets.
pub(crate) fn run_headers(context: &Context) {
    for x_match in ["all", "any"] {
        for count in [1_000, context.scaled(1_000_000)] {
            let report = context.report(&format!("headers {x_match}, {count} bindings"));
            measure_headers(context, &report, x_match, count);
        }
    }
}

/// The header that only one binding asks for, as a message has it too.
fn device(at: usize) -> Vec<u8> {
    format!("device-{at}").into_bytes()
}

fn measure_headers(context: &Context, report: &Report, x_match: &str, count: usize) {
    let exchanges = Exchanges::new();
    let source = exchanges.declare(ExchangeKind::Headers).expect("within limits");
    let empty = exchanges.memory_bytes();
    let devices: Vec<Vec<u8>> = (0..count).map(device).collect();
    let bind = |at: usize, device: &[u8], is_there: bool| {
        let arguments: [Field<'_>; 3] = [
            (b"x-match", HeaderValue::Bytes(x_match.as_bytes())),
            (b"device", HeaderValue::Bytes(device)),
            (b"serial", HeaderValue::Integer(at as i64)),
        ];
        let target = Destination::Target(TargetId(at as u32));
        let binding = Binding::new(source, target, b"").with_arguments(&arguments);
        if is_there {
            exchanges.unbind(&binding).expect("it was bound");
        } else {
            exchanges.bind(&binding).expect("within limits");
        }
    };
    let order = Random::new(9).order(count);
    let insert = rate(&order, |_, &at| bind(at as usize, &devices[at as usize], false));
    report.add("insert_random_per_s", insert, "1/s");
    report.add("bytes_per_binding", (exchanges.memory_bytes() - empty) as f64 / count as f64, "B");

    let wanted: Vec<(i64, Vec<u8>)> =
        order.iter().take(MESSAGES).map(|&at| (i64::from(at), device(at as usize))).collect();
    let mut router = Router::new(&exchanges, source);
    context.report_latencies(report, &wanted, |(serial, device)| {
        let fields: [Field<'_>; 3] = [
            (b"device", HeaderValue::Bytes(device)),
            (b"serial", HeaderValue::Integer(*serial)),
            (b"content", HeaderValue::Bytes(b"nobody asks for this")),
        ];
        router.route(&Message::new(b"").with(&Headers(&fields)))
    });

    let remove = rate(&order, |_, &at| bind(at as usize, &devices[at as usize], true));
    report.add("remove_per_s", remove, "1/s");
    let insert = |_, &at: &u32| bind(at as usize, &devices[at as usize], false);
    let remove = |_, &at: &u32| bind(at as usize, &devices[at as usize], true);
    report.add("worst_op_us", slowest(context.effort.worst_passes, &order, insert, remove), "us");
}

/// A fanout and a direct exchange with ten bindings each, alone and beside exchanges with many.
pub(crate) fn run_keyless(context: &Context) {
    for others in [10, 10_000] {
        let exchanges = Exchanges::new();
        let fanout = exchanges.declare(ExchangeKind::Fanout).expect("within limits");
        let direct = exchanges.declare(ExchangeKind::Direct).expect("within limits");
        for at in 0..10 {
            bind(&exchanges, fanout, at, "");
            bind(&exchanges, direct, at, &format!("key-{at}"));
        }
        for kind in [ExchangeKind::Fanout, ExchangeKind::Direct, ExchangeKind::Topic] {
            let other = exchanges.declare(kind).expect("within limits");
            (0..others).for_each(|at| bind(&exchanges, other, at as u32, &format!("key-{at}")));
        }
        let mut random = Random::new(13);
        let keys: Vec<String> = (0..MESSAGES).map(|_| format!("key-{}", random.below(10))).collect();
        for (name, source) in [("fanout to 10", fanout), ("direct to one of 10", direct)] {
            let report = context.report(&format!("{name}, three others with {others} bindings"));
            let mut router = Router::new(&exchanges, source);
            context.report_latencies(&report, &keys, |key| router.route(&Message::new(key.as_bytes())));
        }
    }
}

fn bind(exchanges: &Exchanges, source: ExchangeId, target: u32, key: &str) {
    let binding = Binding::new(source, Destination::Target(TargetId(target)), key.as_bytes());
    exchanges.bind(&binding).expect("within limits");
}

/// What a thread needs to route.
struct Router<'a> {
    exchanges: &'a Exchanges,
    source: ExchangeId,
    scratch: Scratch,
    matches: Matches,
}

impl<'a> Router<'a> {
    fn new(exchanges: &'a Exchanges, source: ExchangeId) -> Self {
        Self { exchanges, source, scratch: Scratch::new(), matches: Matches::new() }
    }

    /// How many targets a message has, each counted once.
    fn route(&mut self, message: &Message<'_>) -> usize {
        let Self { exchanges, source, scratch, matches } = self;
        matches.clear();
        exchanges.route(*source, message, scratch, matches).expect("the exchange is there");
        matches.group().iter().count()
    }
}
