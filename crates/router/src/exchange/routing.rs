//! The reading side: what an exchange is while it routes, and the walk from exchange to exchange.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::arguments::{self, HeaderTexts, Mode};
use super::destination::{Dest, NO_EXCHANGE, Sink, Work};
use super::message::Message;
use super::pages::Element;
use super::pointers::{ArcSwap, ArcSwapOption};
use super::pool::{Pick, Pool, next_random, stable_hash};
use super::rows::{Item, Place, RowTable};
use super::set::Set;
use super::spine::Spine;
use super::topic::Patterns;
use super::{ExchangeId, ExchangeKind, HashOn};
use crate::Entry;
use crate::hash::Seeds;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, KeyHasher, Ordering};

/// Times that a walk starts anew because it came to an exchange younger than itself; then it leaves out such exchanges.
const RESTARTS_MAX: usize = 8;

/// A headers binding, under one of its conditions.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) dest: Dest,
    /// Which of the binding's conditions this is, by its place in the block.
    pub(super) condition: u32,
    /// The block of its arguments.
    pub(super) block: Arc<[u8]>,
}

impl Element for Candidate {
    // A copy visits the blocks.
    type Page = [Self; if cfg!(all(test, loom)) { 2 } else { 8 }];
}

/// A row of candidates is known by the condition that they have in common, which each has in its block.
impl Item for Candidate {
    type Key = ();

    fn key_of(_: &[u8]) {}

    #[inline]
    fn has_key((): &(), witness: &Self, key: &[u8]) -> bool {
        witness.text() == key
    }

    fn heap_bytes((): &()) -> usize {
        0
    }
}

impl Candidate {
    /// The text of the condition this is registered under.
    #[inline]
    fn text(&self) -> &[u8] {
        arguments::text_at(&self.block, self.condition)
    }

    /// Whether a message matches that satisfies that condition.
    #[inline]
    fn matches(&self, headers: &HeaderTexts) -> bool {
        arguments::mode_of(&self.block) == Mode::Any
            || (arguments::conditions(&self.block))
                .all(|condition| condition.at == self.condition || headers.satisfy(condition))
    }
}

/// An exchange: what routing needs that is not in the tables of keys and of header pairs.
pub(super) struct Exchange {
    pub(super) state: State,
    /// When it was declared, by the graph's clock: no two are alike, though their numbers may be.
    born: u64,
    /// Where messages go that find no destination, or [`NO_EXCHANGE`].
    pub(super) alternate: AtomicU32,
}

/// The bindings of an exchange, by its kind.
pub(super) enum State {
    /// In the table of keys.
    Direct,
    Fanout(ArcSwap<Set<Dest>>),
    Topic(Box<Patterns>),
    /// Those with conditions are in the table of pairs.
    Headers {
        /// Those without, which match every message.
        always: ArcSwap<Set<Dest>>,
        /// Registrations under a condition of presence: without any, no look-up for one is needed.
        presence_count: AtomicUsize,
    },
    Picking(ArcSwap<Pool>, HashOn),
}

impl Exchange {
    fn new(kind: &ExchangeKind, born: u64) -> Self {
        let pool = |pick| ArcSwap::from_pointee(Pool::new(pick));
        let state = match kind {
            ExchangeKind::Direct => State::Direct,
            ExchangeKind::Fanout => State::Fanout(ArcSwap::default()),
            ExchangeKind::Topic => State::Topic(Box::new(Patterns::new())),
            ExchangeKind::Headers => {
                State::Headers { always: ArcSwap::default(), presence_count: AtomicUsize::new(0) }
            }
            ExchangeKind::ConsistentHash(on) => State::Picking(pool(Pick::Consistent), on.clone()),
            ExchangeKind::ModulusHash => State::Picking(pool(Pick::Modulus), HashOn::Key),
            ExchangeKind::Random => State::Picking(pool(Pick::Random), HashOn::Key),
            ExchangeKind::LocalRandom => State::Picking(pool(Pick::LocalRandom), HashOn::Key),
        };
        Self { state, born, alternate: AtomicU32::new(NO_EXCHANGE) }
    }
}

/// The place of an exchange.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) exchange: ArcSwapOption<Exchange>,
    /// When the latest exchange of this number was declared.
    born: AtomicU64,
    /// Counts changes that concern every key, of this exchange and of those it leads to. Never starts anew, since an
    /// exchange's number is used again.
    pub(super) version: AtomicU64,
}

/// What readers see.
///
/// **Invariant:** a message never passes from an exchange to one that has got its number since, though readers hold no
/// lock. An exchange's number is free only when nothing that readers can reach names it, and the clock goes on when it
/// is given out again. So who read the clock before cannot come to the new exchange unawares: it is younger than the
/// walk. And who is still in the old one, whose rows in the shared tables are found by number, sees after looking there
/// that the slot has another date of birth.
pub(super) struct Graph {
    pub(super) slots: Spine<Slot>,
    /// Declarations so far.
    clock: AtomicU64,
    /// Direct bindings by (exchange, key).
    pub(super) keys: RowTable<Dest>,
    /// Headers bindings by (exchange, condition).
    pub(super) pairs: RowTable<Candidate>,
    pub(super) hasher: KeyHasher,
    seeds: Seeds,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routed {
    /// Whether any message with this exchange and routing key gets the same result until the
    /// [generation](super::Exchanges::generation) changes. It does not if headers, properties or chance had a say, or
    /// if the message has more keys than one.
    pub is_cacheable: bool,
    /// Exchanges that the message went through.
    pub exchange_count: usize,
}

/// What routing works with: made once per thread and used again, so that routing allocates nothing.
pub struct Scratch {
    work: Work,
    headers: HeaderTexts,
    bytes: Vec<u8>,
    random: u64,
}

impl Scratch {
    /// Room, and a random seed for exchanges that pick by chance.
    pub fn new() -> Self {
        Self::with_seed(RandomState::default().hash_one(0))
    }

    /// Room, and a seed for exchanges that pick by chance: with the same seed they make the same choices.
    pub fn with_seed(seed: u64) -> Self {
        Self { work: Work::default(), headers: HeaderTexts::default(), bytes: Vec::new(), random: seed }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Graph {
    pub(super) fn new() -> Self {
        Self {
            slots: Spine::new(),
            clock: AtomicU64::new(0),
            keys: RowTable::new(),
            pairs: RowTable::new(),
            hasher: KeyHasher::default(),
            seeds: Seeds::new(),
        }
    }

    /// Lets readers see a new exchange under a number that nothing they can reach names.
    pub(super) fn declare(&self, id: u32, kind: &ExchangeKind) {
        let slot = self.slots.get_or_make(id as usize);
        let born = self.clock.fetch_add(1, Ordering::AcqRel) + 1;
        slot.born.store(born, Ordering::Release);
        slot.exchange.store(Some(Arc::new(Exchange::new(kind, born))));
        slot.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Walks from an exchange to all destinations. None if there is no such exchange.
    pub(super) fn route(
        &self,
        from: ExchangeId,
        message: &Message<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<Entry>,
    ) -> Option<Routed> {
        // A number that was never an exchange's must not make room for all below it.
        self.slots.get(from.0 as usize)?;
        let start = out.len();
        let mut walk = Walk {
            graph: self,
            message,
            headers: &mut scratch.headers,
            has_headers: false,
            bytes: &mut scratch.bytes,
            random: &mut scratch.random,
            is_cacheable: message.more_keys.is_empty(),
        };
        let mut sink = Sink { out, work: &mut scratch.work, found: false };
        let asked = self.clock.load(Ordering::Acquire);
        let mut clock = asked;
        for restarts in 0.. {
            sink.out.truncate(start);
            sink.work.clear();
            sink.work.push(from.0);
            match walk.run(&mut sink, asked, clock) {
                Step::Unknown => return None,
                Step::Younger if restarts < RESTARTS_MAX => clock = self.clock.load(Ordering::Acquire),
                _ => break,
            }
        }
        Some(Routed { is_cacheable: walk.is_cacheable, exchange_count: sink.work.len() })
    }

    /// The place of a direct key.
    #[inline]
    pub(super) fn place_of_key<'a>(&self, exchange: u32, key: &'a [u8]) -> Place<'a> {
        self.place(exchange, key, self.hasher.hash_one(key))
    }

    /// The place of a key or condition with this hash.
    #[inline]
    pub(super) fn place<'a>(&self, exchange: u32, key: &'a [u8], hash: u64) -> Place<'a> {
        Place { hash: self.seeds.mix(hash, u64::from(exchange)), exchange, key }
    }

    /// The place of a condition.
    pub(super) fn place_of_condition<'a>(&self, exchange: u32, text: &'a [u8]) -> Place<'a> {
        self.place(exchange, text, self.hasher.hash_one(text))
    }
}

/// One message on its way through the exchanges.
struct Walk<'a> {
    graph: &'a Graph,
    message: &'a Message<'a>,
    headers: &'a mut HeaderTexts,
    /// Whether `headers` are this message's.
    has_headers: bool,
    bytes: &'a mut Vec<u8>,
    random: &'a mut u64,
    is_cacheable: bool,
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Done,
    /// The first exchange is not there, or another has its number.
    Unknown,
    /// It came to exchanges that were declared after it began, and left them out.
    Younger,
}

impl Walk<'_> {
    /// Visits the exchanges that are to be visited, the first of which was there when the clock was `asked`, and the
    /// others when it was `clock`.
    fn run(&mut self, sink: &mut Sink<'_>, asked: u64, clock: u64) -> Step {
        let mut step = Step::Unknown;
        while let Some(at) = sink.work.pop() {
            let Some(slot) = self.graph.slots.get(at as usize) else { continue };
            let exchange = slot.exchange.load();
            let Some(exchange) = &*exchange else {
                if step == Step::Unknown {
                    return step;
                }
                continue;
            };
            match step {
                Step::Unknown if exchange.born > asked => return step,
                Step::Unknown => step = Step::Done,
                _ if exchange.born > clock => {
                    step = Step::Younger;
                    continue;
                }
                _ => {}
            }
            let (entry_count, work_count) = (sink.out.len(), sink.work.len());
            sink.found = false;
            self.visit(at, &exchange.state, sink);
            if slot.born.load(Ordering::Acquire) != exchange.born {
                // It went meanwhile, and what was found may be its successor's.
                sink.out.truncate(entry_count);
                sink.work.truncate(work_count);
                continue;
            }
            let alternate = exchange.alternate.load(Ordering::Acquire);
            if !sink.found && alternate != NO_EXCHANGE {
                sink.work.push(alternate);
            }
        }
        step
    }

    /// Delivers to what one exchange's own bindings say.
    #[inline]
    fn visit(&mut self, at: u32, state: &State, sink: &mut Sink<'_>) {
        match state {
            State::Direct => {
                for key in self.message.keys() {
                    let place = self.graph.place_of_key(at, key);
                    self.graph.keys.find(place, |set| sink.deliver_all(set));
                }
            }
            State::Fanout(set) => sink.deliver_all(&set.load()),
            State::Topic(patterns) => self.message.keys().for_each(|key| patterns.route(key, sink)),
            State::Headers { always, presence_count } => {
                self.is_cacheable = false;
                sink.deliver_all(&always.load());
                self.visit_pairs(at, presence_count.load(Ordering::Acquire) > 0, sink);
            }
            State::Picking(pool, on) => {
                if let Some(dest) = self.pick(&pool.load(), on) {
                    sink.deliver(dest);
                }
            }
        }
    }

    /// Delivers to headers bindings with conditions: looks up what each header could satisfy.
    fn visit_pairs(&mut self, at: u32, has_presence: bool, sink: &mut Sink<'_>) {
        if !std::mem::replace(&mut self.has_headers, true) {
            self.headers.load(self.message.attributes, &self.graph.hasher);
        }
        for header in self.headers.iter() {
            self.visit_condition(at, header.pair, sink);
            if has_presence {
                self.visit_condition(at, header.name, sink);
            }
        }
    }

    /// Delivers to the bindings registered under a condition that is met, if their others are met too.
    #[inline]
    fn visit_condition(&self, at: u32, (text, hash): (&[u8], u64), sink: &mut Sink<'_>) {
        self.graph.pairs.find(self.graph.place(at, text, hash), |candidates| {
            candidates.visit(&mut |run: &[Candidate]| {
                let matching = run.iter().filter(|candidate| candidate.matches(self.headers));
                matching.for_each(|candidate| sink.deliver(candidate.dest));
            });
        });
    }

    fn pick(&mut self, pool: &Pool, on: &HashOn) -> Option<Dest> {
        if !pool.has_choice() {
            return pool.pick(0);
        }
        if pool.is_random() {
            self.is_cacheable = false;
            return pool.pick(next_random(self.random));
        }
        let attributes = self.message.attributes;
        self.bytes.clear();
        match on {
            HashOn::Key => return pool.pick(stable_hash(self.message.key)),
            HashOn::Header(wanted) => attributes.visit_headers(&mut |name, value| {
                if *name == **wanted {
                    self.bytes.clear();
                    value.append_canonical(self.bytes);
                }
            }),
            HashOn::Property(property) => attributes.property(*property).append_canonical(self.bytes),
        }
        self.is_cacheable = false;
        pool.pick(stable_hash(self.bytes))
    }
}
