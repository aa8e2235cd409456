//! What bindings cost to make and to take back, among many: rates, the slowest single change, bytes.
//!
//! `cargo bench -p meridian-router --bench exchange_changes [-- KIND… [rates] [COUNT]]`; without arguments every
//! kind, with a million bindings; with `rates` these alone. Bindings come in random order. Rates are per second of the
//! thread's CPU time; of the slowest change it is the CPU time too, one reading of the clock included, and of several
//! passes the quickest counts, since whatever else the machine does can only add. How long a removal of many holds up
//! others is measured by who waits, by the wall clock.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use meridian_router::exchange::{Binding, ExchangeId, ExchangeKind, HashOn};
use meridian_router::{Destination, Exchanges, TargetId};

#[path = "support/exchanges.rs"]
mod support;

use support::{conditions, device_of, thread_time};

/// Passes for the slowest change.
const PASSES: usize = 3;

/// Bindings of an exchange that picks, which may have no more by default.
const MEMBERS: u32 = 256;

/// The numbers below `count` in an order that is random, and the same each time.
fn shuffled(count: u32) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count).collect();
    let mut state = 7u64;
    for at in (1..numbers.len()).rev() {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        numbers.swap(at, ((u128::from(state) * (at as u128 + 1)) >> 64) as usize);
    }
    numbers
}

/// What is bound, by number.
#[derive(Clone, Copy)]
enum Shape {
    /// A key each.
    Key,
    /// A key for ten.
    SharedKey,
    NoKey,
    Pattern,
    /// Three conditions.
    Conditions(&'static str),
    Weight,
    EvenWeight,
}

/// A kind of exchange with many bindings to change.
struct Subject {
    name: &'static str,
    kind: ExchangeKind,
    shape: Shape,
    count: u32,
}

/// Exchanges, and one of the kind.
struct Held {
    exchanges: Exchanges,
    source: ExchangeId,
}

impl Subject {
    fn all(count: u32) -> Vec<Self> {
        let subject = |name, kind, shape, count| Self { name, kind, shape, count };
        let hash = || ExchangeKind::ConsistentHash(HashOn::Key);
        vec![
            subject("direct", ExchangeKind::Direct, Shape::Key, count),
            subject("shared", ExchangeKind::Direct, Shape::SharedKey, count),
            subject("fanout", ExchangeKind::Fanout, Shape::NoKey, count),
            subject("topic", ExchangeKind::Topic, Shape::Pattern, count),
            subject("all", ExchangeKind::Headers, Shape::Conditions("all"), count),
            subject("any", ExchangeKind::Headers, Shape::Conditions("any"), count),
            subject("hash", hash(), Shape::Weight, count.min(MEMBERS)),
            subject("even", hash(), Shape::EvenWeight, count.min(MEMBERS)),
        ]
    }

    fn declared(&self) -> Held {
        let exchanges = Exchanges::new();
        let source = exchanges.declare(self.kind.clone()).expect("far from the limit");
        Held { exchanges, source }
    }

    /// Hands over the binding of a number to a target.
    fn with_binding<R>(
        &self,
        source: ExchangeId,
        (number, target): (u32, u32),
        act: impl FnOnce(&Binding<'_>) -> R,
    ) -> R {
        let key = match self.shape {
            Shape::Key => format!("plant.{}.oven.{}", number / 10, number % 10),
            Shape::SharedKey => format!("plant.{}.oven", number / 10),
            Shape::Pattern => format!("plant.{}.*.{}", number / 10, number % 10),
            Shape::Weight if number == 0 => "10000".into(),
            Shape::Weight => (1 + number % 7).to_string(),
            Shape::EvenWeight => "1".into(),
            Shape::NoKey | Shape::Conditions(_) => String::new(),
        };
        let binding = Binding::new(source, Destination::Target(TargetId(target)), key.as_bytes());
        let Shape::Conditions(mode) = self.shape else { return act(&binding) };
        let device = device_of(number);
        let arguments = conditions(mode, number, &device);
        act(&binding.with_arguments(&arguments))
    }

    fn bind(&self, held: &Held, number: u32) {
        let bound = self.with_binding(held.source, (number, number), |binding| held.exchanges.bind(binding));
        assert!(bound.expect("far from the limits").previous.is_none());
    }

    fn unbind(&self, held: &Held, number: u32) {
        let unbound =
            self.with_binding(held.source, (number, number), |binding| held.exchanges.unbind(binding));
        assert!(unbound.is_some(), "it was bound");
    }

    /// What making the bindings costs that is not the exchanges'.
    fn own_time(&self, numbers: &[u32]) -> Duration {
        let start = thread_time();
        for &number in numbers {
            self.with_binding(ExchangeId(0), (number, number), |binding| {
                black_box(binding);
            });
        }
        thread_time() - start
    }

    fn measure_rates(&self) {
        let numbers = shuffled(self.count);
        let own = self.own_time(&numbers);
        let held = self.declared();
        let bytes = held.exchanges.memory_bytes();
        let rate = |change: &dyn Fn(u32)| {
            let start = thread_time();
            numbers.iter().for_each(|&number| change(number));
            f64::from(self.count) / (thread_time() - start).saturating_sub(own).as_secs_f64() / 1e6
        };
        let bind = rate(&|number| self.bind(&held, number));
        let bytes = (held.exchanges.memory_bytes() - bytes) / self.count as usize;
        let unbind = rate(&|number| self.unbind(&held, number));
        let again = rate(&|number| self.bind(&held, number));
        drop(held);
        println!(
            "{:7} {:8} bindings: bind {bind:.3} M/s, unbind {unbind:.3} M/s, bind again {again:.3} M/s; {bytes} B each",
            self.name, self.count
        );
    }

    fn measure_slowest(&self) {
        let numbers = shuffled(self.count);
        let slowest = (0..PASSES).map(|_| self.slowest(&numbers));
        let [bind, unbind] =
            slowest.fold([Duration::MAX; 2], |best, pass| [best[0].min(pass[0]), best[1].min(pass[1])]);
        println!("{:7} {:8} slowest bind {bind:?}, slowest unbind {unbind:?}", "", "");
        let waits = (0..PASSES).map(|_| self.longest_waits(&numbers));
        let [target, exchange] =
            waits.fold([Duration::MAX; 2], |best, pass| [best[0].min(pass[0]), best[1].min(pass[1])]);
        println!(
            "{:7} {:8} others wait at most {target:?} for a target's removal, {exchange:?} for the exchange's",
            "", ""
        );
    }

    /// The slowest binding and unbinding of all, by CPU time.
    fn slowest(&self, numbers: &[u32]) -> [Duration; 2] {
        let held = self.declared();
        let slowest = |change: &dyn Fn(u32)| {
            let mut last = thread_time();
            let times = numbers.iter().map(|&number| {
                change(number);
                let now = thread_time();
                let elapsed = now - last;
                last = now;
                elapsed
            });
            times.max().unwrap_or_default()
        };
        [slowest(&|number| self.bind(&held, number)), slowest(&|number| self.unbind(&held, number))]
    }

    /// How long another thread's binding of another exchange takes at most while all bindings go: as those of one
    /// target, and as those of one exchange.
    fn longest_waits(&self, numbers: &[u32]) -> [Duration; 2] {
        let one_target = |number| if matches!(self.shape, Shape::NoKey) { number } else { 0 };
        let by_target = self.longest_wait(numbers, one_target, |held| {
            held.exchanges.remove_target(TargetId(0));
        });
        let by_exchange = self.longest_wait(
            numbers,
            |number| number,
            |held| {
                held.exchanges.remove(held.source);
            },
        );
        [by_target, by_exchange]
    }

    fn longest_wait(
        &self,
        numbers: &[u32],
        target_of: impl Fn(u32) -> u32,
        remove: impl FnOnce(&Held),
    ) -> Duration {
        let held = self.declared();
        for &number in numbers {
            self.with_binding(held.source, (number, target_of(number)), |binding| {
                held.exchanges.bind(binding).expect("far from the limits")
            });
        }
        let beside = held.exchanges.declare(ExchangeKind::Fanout).expect("far from the limit");
        let binding = Binding::new(beside, Destination::Target(TargetId(u32::MAX >> 3)), b"");
        let (is_begun, is_done) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let mut longest = Duration::ZERO;
                is_begun.store(true, Ordering::Release);
                while !is_done.load(Ordering::Acquire) {
                    let start = Instant::now();
                    held.exchanges.bind(&binding).expect("far from the limits");
                    longest = longest.max(start.elapsed());
                    held.exchanges.unbind(&binding);
                }
                longest
            });
            while !is_begun.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            remove(&held);
            is_done.store(true, Ordering::Release);
            waits.join().expect("the other thread does not panic")
        })
    }
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let count = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(1_000_000);
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let subjects = Subject::all(count);
    let is_for_all = !subjects.iter().any(|subject| has(subject.name));
    for subject in subjects.iter().filter(|subject| is_for_all || has(subject.name)) {
        subject.measure_rates();
        if !has("rates") {
            subject.measure_slowest();
        }
    }
}
