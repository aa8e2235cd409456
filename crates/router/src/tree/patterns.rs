//! The walk of a routing key through a tree of topic patterns.
//!
//! A node whose label holds [`MANY`] *floats*: the words behind the label's last `MANY`, its *segment*, may stand
//! anywhere from some depth on, a depth being a number of words of the key. Everything else is at one depth for each
//! depth of its parent.
//!
//! **Invariant: a node is visited at each depth at most once.** The walk goes down before it goes on, and tries the
//! places of a segment from left to right, so the visits of a node come in rising order of depth, if those of its
//! parent do; at the root there is one. A floating node is therefore entered first where its segment has the most room,
//! and any later entry would find again what this one finds: it is passed by. So the walk costs no more than the key's
//! words, times the words of all labels.

use std::collections::HashSet;

use foldhash::fast::RandomState;
use smallvec::{SmallVec, smallvec};

use crate::entry::Entry;
use crate::node::{NONE, Outline, Shape, Targets};
use crate::targets::NO_SET;
use crate::words::{AMQP, MANY, PLUS, UNKNOWN};

use super::{ROOT, Tree};

/// A word that has not been looked up yet. No word of a key is the wildcard, so its id is free for this.
const UNRESOLVED: u32 = PLUS;

/// Marks a node's id, which has 27 bits, in [`Seen`]: the node floats and was entered. Without it, the targets below
/// the node were appended.
const ENTERED: u32 = 1 << 31;

/// Words of a key that are held without allocation.
const ORDINARY_WORDS: usize = 32;

/// What is still to be done.
#[derive(Clone, Copy)]
enum Step {
    /// Visit a node whose path matches the first `depth` words.
    Visit {
        node: u32,
        depth: u32,
        /// Whether a node above floats, so that there may be other visits.
        is_repeated: bool,
    },
    /// Find places for a floating node's segment, from this depth on.
    Float { node: u32, from: u32 },
}

/// What need not be done again: little, but for hostile patterns.
#[derive(Default)]
struct Seen {
    few: SmallVec<[u32; 16]>,
    many: HashSet<u32, RandomState>,
}

impl Seen {
    /// Whether this is the first time.
    fn insert(&mut self, node: u32) -> bool {
        if self.few.contains(&node) {
            return false;
        }
        if self.few.len() < self.few.inline_size() {
            self.few.push(node);
            return true;
        }
        self.many.insert(node)
    }
}

/// The state of one walk.
struct Walker<'a> {
    tree: &'a Tree,
    key: &'a [u8],
    /// Where each word ends.
    ends: SmallVec<[u32; ORDINARY_WORDS]>,
    /// Each word's id, looked up when first needed.
    words: SmallVec<[u32; ORDINARY_WORDS]>,
    /// A stack. Each node on the way to the one that is visited leaves three at most.
    pending: SmallVec<[Step; 16]>,
    /// Floating nodes that were entered, and nodes whose targets below were appended, where that can happen again.
    seen: Seen,
}

impl Tree {
    /// Appends the entries of every pattern that matches `key`. A tree of topic patterns only.
    pub(crate) fn matches_key(&self, key: &[u8], out: &mut Vec<Entry>) {
        if self.filter_count == 0 {
            return;
        }
        let mut ends = SmallVec::new();
        if !key.is_empty() {
            let separators = (0..).zip(key).filter(|&(_, &byte)| byte == AMQP.separator);
            ends.extend(separators.map(|(at, _): (u32, _)| at));
            ends.push(key.len() as u32);
        }
        let words = smallvec![UNRESOLVED; ends.len()];
        let pending = smallvec![Step::Visit { node: ROOT, depth: 0, is_repeated: false }];
        Walker { tree: self, key, ends, words, pending, seen: Seen::default() }.walk(out);
    }
}

impl<'a> Walker<'a> {
    fn walk(&mut self, out: &mut Vec<Entry>) {
        while let Some(step) = self.pending.pop() {
            match step {
                Step::Visit { node, depth, is_repeated } => {
                    self.visit(node, depth as usize, is_repeated, out)
                }
                Step::Float { node, from } => self.float(node, from as usize, out),
            }
        }
    }

    /// Appends what ends at a node and goes on to its children.
    fn visit(&mut self, at: u32, depth: usize, is_repeated: bool, out: &mut Vec<Entry>) {
        let tree = self.tree;
        let node = tree.nodes.get(at);
        let is_end = depth == self.words.len();
        match node.targets() {
            Targets::None => {}
            Targets::Here(entry) => {
                if is_end {
                    out.push(entry);
                }
            }
            targets => self.append(at, targets, is_end, is_repeated, out),
        }
        let (plus, has_others) = match node.outline() {
            // Whatever a child starts with, it needs one more word.
            _ if is_end => return,
            Outline::Whole(Shape::Leaf { .. }) => return,
            Outline::Whole(Shape::Branch { plus, .. }) => (plus, true),
            Outline::BranchId(id) => {
                let branch = tree.branches.get(id);
                (branch.plus, branch.literal_count > 0)
            }
        };
        if node.leads_to_many()
            && let Some(child) = tree.literal_child(at, MANY)
        {
            self.enter(child, depth, is_repeated);
        }
        if plus != NONE {
            self.enter(plus, depth, is_repeated);
        }
        if has_others {
            let word = self.word(depth);
            if word != UNKNOWN
                && let Some(child) = tree.literal_child(at, word)
            {
                self.enter(child, depth, is_repeated);
            }
        }
    }

    /// Appends the targets of a node that has some below.
    fn append(&mut self, at: u32, targets: Targets, is_end: bool, is_repeated: bool, out: &mut Vec<Entry>) {
        match targets {
            Targets::Below(entry) => {
                if !is_repeated || self.seen.insert(at) {
                    out.push(entry);
                }
            }
            Targets::Sets { here, below } => {
                if is_end && here != NO_SET {
                    self.tree.sets.append(here, out);
                }
                if below != NO_SET && (!is_repeated || self.seen.insert(at)) {
                    self.tree.sets.append(below, out);
                }
            }
            Targets::None | Targets::Here(_) => {}
        }
    }

    /// Compares a child's label as far as it is at one depth; its first word, if literal, is known to match.
    fn enter(&mut self, child: u32, depth: usize, is_repeated: bool) {
        let node = self.tree.nodes.get(child);
        let tail = self.tree.labels.tail(self.tree.tail_of(node));
        let mut depth = depth;
        let mut floating = Some(tail);
        if node.word != MANY {
            depth += 1;
            let fixed = tail.iter().position(|&word| word == MANY);
            if !self.segment_is_at(&tail[..fixed.unwrap_or(tail.len())], depth) {
                return;
            }
            depth += fixed.unwrap_or(tail.len());
            floating = fixed.map(|fixed| &tail[fixed + 1..]);
        }
        let Some(mut rest) = floating else {
            self.pending.push(Step::Visit { node: child, depth: depth as u32, is_repeated });
            return;
        };
        if is_repeated && !self.seen.insert(child | ENTERED) {
            return;
        }
        while let Some(len) = rest.iter().position(|&word| word == MANY) {
            // All that follows may stand anywhere behind this segment, so its first place is as good as any.
            let Some(place) = self.find_segment(&rest[..len], depth) else { return };
            depth = place + len;
            rest = &rest[len + 1..];
        }
        self.pending.push(Step::Float { node: child, from: depth as u32 });
    }

    /// Visits a floating node at the next place of its segment, and leaves a step for the places behind.
    fn float(&mut self, at: u32, from: usize, out: &mut Vec<Entry>) {
        let node = self.tree.nodes.get(at);
        let shape = self.tree.shape_of(node);
        let (Shape::Leaf { tail } | Shape::Branch { tail, .. }) = shape;
        let tail = self.tree.labels.tail(tail);
        let segment = &tail[tail.iter().rposition(|&word| word == MANY).map_or(0, |last| last + 1)..];
        if let Shape::Leaf { .. } = shape {
            self.float_leaf(segment, from, node.targets(), out);
            return;
        }
        let Some(place) = self.find_segment(segment, from) else { return };
        self.pending.push(Step::Float { node: at, from: place as u32 + 1 });
        let depth = (place + segment.len()) as u32;
        self.pending.push(Step::Visit { node: at, depth, is_repeated: true });
    }

    /// Appends what a floating node without children has: at the key's end, and wherever its segment is.
    fn float_leaf(&mut self, segment: &[u32], from: usize, targets: Targets, out: &mut Vec<Entry>) {
        let (here, below) = match targets {
            Targets::None => return,
            Targets::Here(_) => (true, false),
            Targets::Below(_) => (false, true),
            Targets::Sets { here, below } => (here != NO_SET, below != NO_SET),
        };
        let last = self.words.len().checked_sub(segment.len()).filter(|&last| last >= from);
        let here = here && last.is_some_and(|last| self.segment_is_at(segment, last));
        let below = below && self.find_segment(segment, from).is_some();
        match targets {
            Targets::Here(entry) | Targets::Below(entry) if here || below => out.push(entry),
            Targets::Sets { here: set, .. } if here => self.tree.sets.append(set, out),
            _ => {}
        }
        if let Targets::Sets { below: set, .. } = targets
            && below
        {
            self.tree.sets.append(set, out);
        }
    }

    /// The first place of a segment, from a depth on. A segment starts with a literal word, if it has any.
    fn find_segment(&mut self, segment: &[u32], from: usize) -> Option<usize> {
        let last = self.words.len().checked_sub(segment.len())?;
        (from..=last).find(|&place| self.segment_is_at(segment, place))
    }

    /// Whether the words from `depth` on are these.
    #[inline]
    fn segment_is_at(&mut self, segment: &[u32], depth: usize) -> bool {
        depth + segment.len() <= self.words.len()
            && (depth..).zip(segment).all(|(depth, &word)| word == PLUS || word == self.word(depth))
    }

    /// The id of a word of the key, by the tree's dictionary.
    #[inline]
    fn word(&mut self, depth: usize) -> u32 {
        if self.words[depth] == UNRESOLVED {
            let start = if depth == 0 { 0 } else { self.ends[depth - 1] as usize + 1 };
            let text = &self.key[start..self.ends[depth] as usize];
            // Interned text is padded with zeros, and no pattern's word holds one.
            self.words[depth] = if text.contains(&0) { UNKNOWN } else { self.tree.labels.words.find(text) };
        }
        self.words[depth]
    }
}
