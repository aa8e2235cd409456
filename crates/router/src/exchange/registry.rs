//! The writing side: every binding with its identity, and who is connected to whom. One thread at a time.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::hint::black_box;

use foldhash::fast::RandomState;

use super::bytes::Bytes;
use super::destination::{EXCHANGE, NO_EXCHANGE};
use super::{ExchangeKind, arguments};
use crate::arena::{self, Arena};
use crate::table::Table;

/// No record.
pub(super) const NONE: u32 = u32::MAX;

/// The largest number of a record.
const RECORD_MAX: u32 = (1 << 27) - 3;

/// Where a binding is in the structure that routes by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spots {
    /// At a place of its set, or the number of a twin; [`NONE`] if it is found without. Of a headers binding that takes
    /// all of its conditions also which one that set is of, by its place in the block, or [`NONE`] without any.
    One { condition: u32, at: u32 },
    /// The place in the set of each of its conditions.
    Many(Box<[u32]>),
}

impl Spots {
    /// Found without.
    pub(super) const NOWHERE: Self = Self::One { condition: NONE, at: NONE };

    /// A place in the only set there is, or the number of a twin.
    pub(super) const fn at(at: u32) -> Self {
        Self::One { condition: NONE, at }
    }
}

/// One binding.
pub(super) struct Record {
    pub(super) source: u32,
    /// A target, or an exchange with [`EXCHANGE`].
    pub(super) to: u32,
    pub(super) options: u32,
    /// Key and arguments, as [`arguments::encode`] writes them.
    pub(super) block: Bytes,
    pub(super) spots: Spots,
    /// Among the bindings from its source.
    by_source: Links,
    /// Among the bindings to its destination.
    by_destination: Links,
}

#[derive(Clone, Copy)]
struct Links {
    previous: u32,
    next: u32,
}

impl Record {
    fn identity(&self) -> Identity<'_> {
        Identity { source: self.source, to: self.to, block: &self.block }
    }

    pub(super) fn key(&self) -> &[u8] {
        arguments::key_of(&self.block)
    }
}

const UNLINKED: Links = Links { previous: NONE, next: NONE };

enum RecordSlot {
    Free(u32),
    Used(Record),
}

impl arena::Slot for RecordSlot {
    fn free(next: u32) -> Self {
        Self::Free(next)
    }

    fn next_free(&self) -> Option<u32> {
        match self {
            Self::Free(next) => Some(*next),
            Self::Used(_) => None,
        }
    }
}

/// The hash by which a binding is found as the first of its target.
fn target_hash<'a>(records: &'a Arena<RecordSlot>, hasher: &'a RandomState) -> impl Fn(u32) -> u64 + 'a {
    |id| hasher.hash_one(record_of(records, id).to)
}

fn record_of(records: &Arena<RecordSlot>, id: u32) -> &Record {
    match records.get(id) {
        RecordSlot::Used(record) => record,
        RecordSlot::Free(_) => unreachable!("only live bindings are referred to"),
    }
}

/// What identifies a binding.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Identity<'a> {
    pub(super) source: u32,
    pub(super) to: u32,
    /// Key and arguments.
    pub(super) block: &'a [u8],
}

/// An exchange as a node of the graph.
pub(super) struct Node {
    pub(super) kind: ExchangeKind,
    /// When it was declared, by the registry's clock: no two are alike, though their numbers may be.
    pub(super) born: u64,
    /// Being removed: it takes no more bindings.
    pub(super) is_going: bool,
    pub(super) alternate: u32,
    pub(super) first_from: u32,
    pub(super) first_to: u32,
    /// Bindings from it.
    pub(super) binding_count: usize,
    /// Exchanges with bindings to it or with it for an alternate, and how many such edges each has.
    pub(super) parents: HashMap<u32, u32, RandomState>,
    /// Exchanges that have it among their parents.
    pub(super) child_count: usize,
}

/// All bindings and exchanges.
pub(super) struct Registry {
    records: Arena<RecordSlot>,
    by_identity: Table,
    /// The first binding of each target, by the target's number.
    by_target: Table,
    nodes: Vec<Option<Node>>,
    free_nodes: Vec<u32>,
    hasher: RandomState,
    record_count: usize,
    /// Pairs of exchanges of which one leads to the other.
    edge_count: usize,
    /// Exchanges declared so far.
    declared_count: u64,
    /// Bytes of keys and arguments.
    text_bytes: usize,
    /// Steps taken so far, of whatever is not bounded by a constant. Who removes much gives way after so many.
    pub(super) work: usize,
    /// Exchanges met while a change is noted for all that lead to its source.
    pub(super) met: Vec<u32>,
}

impl Registry {
    pub(super) fn new() -> Self {
        Self {
            records: Arena::new(RECORD_MAX),
            by_identity: Table::new(),
            by_target: Table::new(),
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            hasher: RandomState::default(),
            record_count: 0,
            edge_count: 0,
            declared_count: 0,
            text_bytes: 0,
            work: 0,
            met: Vec::new(),
        }
    }

    pub(super) fn add_node(&mut self, kind: ExchangeKind) -> u32 {
        self.declared_count += 1;
        let node = Node {
            kind,
            born: self.declared_count,
            is_going: false,
            alternate: NO_EXCHANGE,
            first_from: NONE,
            first_to: NONE,
            binding_count: 0,
            parents: HashMap::default(),
            child_count: 0,
        };
        let id = self.free_nodes.pop().unwrap_or(self.nodes.len() as u32);
        if id as usize == self.nodes.len() {
            self.nodes.push(Some(node));
        } else {
            self.nodes[id as usize] = Some(node);
        }
        id
    }

    /// Frees a node that has no bindings left.
    pub(super) fn remove_node(&mut self, id: u32) {
        self.nodes[id as usize] = None;
        self.free_nodes.push(id);
        if self.free_nodes.len() == self.nodes.len() {
            self.nodes = Vec::new();
            self.free_nodes = Vec::new();
        }
    }

    /// Exchanges held.
    pub(super) const fn node_count(&self) -> usize {
        self.nodes.len() - self.free_nodes.len()
    }

    /// A node that is not being removed.
    pub(super) fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.get(id as usize)?.as_ref().filter(|node| !node.is_going)
    }

    /// A node that is known to be there, though it may be going.
    pub(super) fn any_node(&self, id: u32) -> &Node {
        self.nodes[id as usize].as_ref().expect("an exchange is there while anything refers to it")
    }

    /// As [`any_node`](Self::any_node), to be changed.
    pub(super) fn node_mut(&mut self, id: u32) -> &mut Node {
        self.nodes[id as usize].as_mut().expect("an exchange is there while anything refers to it")
    }

    /// Bindings held.
    pub(super) const fn record_count(&self) -> usize {
        self.record_count
    }

    pub(super) fn record(&self, id: u32) -> &Record {
        record_of(&self.records, id)
    }

    pub(super) fn record_mut(&mut self, id: u32) -> &mut Record {
        match self.records.get_mut(id) {
            RecordSlot::Used(record) => record,
            RecordSlot::Free(_) => unreachable!("only live bindings are referred to"),
        }
    }

    /// The binding with this identity, and the identity's hash.
    pub(super) fn find(&self, identity: Identity<'_>) -> (Option<u32>, u64) {
        let hash = self.hasher.hash_one(identity);
        let is_it = |id| self.record(id).identity() == identity;
        (self.by_identity.find(hash, is_it), hash)
    }

    /// Takes up a binding that is not there, whose identity has this hash, and connects it.
    pub(super) fn add(&mut self, identity: Identity<'_>, options: u32, hash: u64) -> u32 {
        let Identity { source, to, block } = identity;
        let block = Bytes::from(block);
        self.text_bytes += block.heap_bytes();
        let id = self.records.insert(RecordSlot::Used(Record {
            source,
            to,
            options,
            block,
            spots: Spots::NOWHERE,
            by_source: UNLINKED,
            by_destination: UNLINKED,
        }));
        self.record_count += 1;
        let Self { records, by_identity, hasher, .. } = self;
        by_identity.insert(hash, id, |id| hasher.hash_one(record_of(records, id).identity()));
        self.link(id, source, to);
        id
    }

    /// Forgets a binding, and gives what was known of it.
    pub(super) fn remove(&mut self, id: u32) -> Record {
        self.unlink(id);
        let hash = self.hasher.hash_one(self.record(id).identity());
        self.by_identity.remove(hash, id);
        let slot = std::mem::replace(self.records.get_mut(id), RecordSlot::Free(NONE));
        self.records.remove(id);
        self.record_count -= 1;
        match slot {
            RecordSlot::Used(record) => {
                self.text_bytes -= record.block.heap_bytes();
                record
            }
            RecordSlot::Free(_) => unreachable!("the binding was there"),
        }
    }

    /// One of a target's bindings.
    pub(super) fn first_to_target(&self, target: u32) -> Option<u32> {
        self.by_target.find(self.hash_of_target(target), |id| self.record(id).to == target)
    }

    /// Looks where a change of a binding to this destination will look, so that the memory is on its way while the
    /// processor waits for other memory.
    #[inline]
    pub(super) fn foresee_target(&self, to: u32) {
        black_box(self.by_target.find(self.hash_of_target(to), |_| false));
    }

    /// Counts an edge from one exchange to another.
    pub(super) fn add_edge(&mut self, from: u32, to: u32) {
        let count = self.node_mut(to).parents.entry(from).or_insert(0);
        *count += 1;
        if *count == 1 {
            self.node_mut(from).child_count += 1;
            self.edge_count += 1;
        }
    }

    /// Whether one exchange leads to another.
    pub(super) fn has_edge(&self, from: u32, to: u32) -> bool {
        self.node(to).is_some_and(|node| node.parents.contains_key(&from))
    }

    /// Pairs of exchanges of which one leads to the other.
    pub(super) const fn edge_count(&self) -> usize {
        self.edge_count
    }

    /// Takes back an edge.
    pub(super) fn remove_edge(&mut self, from: u32, to: u32) {
        let parents = &mut self.node_mut(to).parents;
        let count = parents.get_mut(&from).expect("an edge that goes was counted");
        *count -= 1;
        if *count == 0 {
            parents.remove(&from);
            if parents.is_empty() {
                parents.shrink_to_fit();
            }
            self.node_mut(from).child_count -= 1;
            self.edge_count -= 1;
        }
    }

    /// Collects an exchange and all that lead to it in `met`. Cost: the exchanges and the edges between them.
    pub(super) fn meet_ancestors(&mut self, of: u32) {
        self.met.clear();
        self.met.push(of);
        let no_parents = |node: &Node| node.parents.is_empty();
        if self.nodes[of as usize].as_ref().is_none_or(no_parents) {
            return;
        }
        let mut seen = HashSet::<u32, RandomState>::default();
        seen.insert(of);
        let mut next = 0;
        while let Some(&at) = self.met.get(next) {
            next += 1;
            let Some(node) = &self.nodes[at as usize] else { continue };
            self.work += 1 + node.parents.len();
            self.met.extend(node.parents.keys().copied().filter(|&parent| seen.insert(parent)));
        }
    }

    /// Bytes held, without keys, arguments and parents.
    pub(super) fn memory_bytes(&self) -> usize {
        self.records.memory_bytes()
            + self.by_identity.memory_bytes()
            + self.by_target.memory_bytes()
            + self.nodes.capacity() * size_of::<Option<Node>>()
            + self.free_nodes.capacity() * size_of::<u32>()
    }

    /// Bytes of keys and arguments. O(1).
    pub(super) const fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    fn hash_of_target(&self, target: u32) -> u64 {
        self.hasher.hash_one(target)
    }

    fn link(&mut self, id: u32, source: u32, to: u32) {
        let node = self.node_mut(source);
        node.binding_count += 1;
        let next = std::mem::replace(&mut node.first_from, id);
        self.record_mut(id).by_source.next = next;
        if next != NONE {
            self.record_mut(next).by_source.previous = id;
        }
        let next = if to & EXCHANGE != 0 {
            self.add_edge(source, to & !EXCHANGE);
            std::mem::replace(&mut self.node_mut(to & !EXCHANGE).first_to, id)
        } else {
            self.lead_target(to, id)
        };
        self.record_mut(id).by_destination.next = next;
        if next != NONE {
            self.record_mut(next).by_destination.previous = id;
        }
    }

    /// Makes a binding the first of its target; returns the one that was.
    fn lead_target(&mut self, target: u32, id: u32) -> u32 {
        let hash = self.hash_of_target(target);
        match self.first_to_target(target) {
            Some(first) => {
                let Self { records, by_target, hasher, .. } = self;
                by_target.replace(hash, first, id, target_hash(records, hasher));
                first
            }
            None => {
                let Self { records, by_target, hasher, .. } = self;
                by_target.insert(hash, id, target_hash(records, hasher));
                NONE
            }
        }
    }

    fn unlink(&mut self, id: u32) {
        let Record { source, to, by_source, by_destination, .. } = *self.record(id);
        self.node_mut(source).binding_count -= 1;
        match by_source.previous {
            NONE => self.node_mut(source).first_from = by_source.next,
            previous => self.record_mut(previous).by_source.next = by_source.next,
        }
        if by_source.next != NONE {
            self.record_mut(by_source.next).by_source.previous = by_source.previous;
        }
        match by_destination.previous {
            NONE if to & EXCHANGE != 0 => self.node_mut(to & !EXCHANGE).first_to = by_destination.next,
            NONE => self.follow_target(to, id, by_destination.next),
            previous => self.record_mut(previous).by_destination.next = by_destination.next,
        }
        if by_destination.next != NONE {
            self.record_mut(by_destination.next).by_destination.previous = by_destination.previous;
        }
        if to & EXCHANGE != 0 {
            self.remove_edge(source, to & !EXCHANGE);
        }
    }

    /// Makes the next binding the first of a target, or forgets the target.
    fn follow_target(&mut self, target: u32, id: u32, next: u32) {
        let hash = self.hash_of_target(target);
        if next == NONE {
            self.by_target.remove(hash, id);
        } else {
            let Self { records, by_target, hasher, .. } = self;
            by_target.replace(hash, id, next, target_hash(records, hasher));
        }
    }
}
