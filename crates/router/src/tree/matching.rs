//! The walk of a topic through a tree.

use meridian_types::TopicName;
use meridian_types::limits::TOPIC_LEVELS_MAX;

use crate::entry::Entry;
use crate::node::{NONE, Outline, Shape, Targets};
use crate::targets::NO_SET;
use crate::words::{PLUS, UNKNOWN};

use super::{ROOT, Tree};

/// A level whose word has not been looked up yet. No level of a topic is the wildcard, so its id is free for this.
const UNRESOLVED: u32 = PLUS;

/// Topics with up to this many levels use the small walker.
const SHALLOW_LEVELS: usize = 16;

/// The state of one walk, on the stack. A topic has at most `N` levels.
struct Walker<'a, const N: usize> {
    tree: &'a Tree,
    text: &'a [u8],
    level_count: usize,
    /// Where each level ends.
    ends: [u16; N],
    /// Each level's word, looked up when first needed.
    words: [u32; N],
    /// Nodes still to visit, with the number of levels their path takes. Each level leaves at most one.
    pending: [(u32, u8); N],
    pending_count: usize,
}

impl Tree {
    /// Appends the entries of every filter that matches.
    ///
    /// Visits each node whose whole path matches a prefix of the topic, once; allocates nothing but room in `out`.
    pub(crate) fn matches(&self, topic: TopicName<'_>, out: &mut Vec<Entry>) {
        if self.filter_count == 0 {
            return;
        }
        let text = topic.as_str().as_bytes();
        let level_count = 1 + text.iter().filter(|&&byte| byte == b'/').count();
        if level_count <= SHALLOW_LEVELS {
            Walker::<SHALLOW_LEVELS>::new(self, text, level_count).walk(topic.is_reserved(), out);
        } else {
            Walker::<TOPIC_LEVELS_MAX>::new(self, text, level_count).walk(topic.is_reserved(), out);
        }
    }
}

impl<'a, const N: usize> Walker<'a, N> {
    fn new(tree: &'a Tree, text: &'a [u8], level_count: usize) -> Self {
        let mut ends = [0; N];
        let mut depth = 0;
        for (at, &byte) in text.iter().enumerate() {
            if byte == b'/' {
                // A topic has at most 65,535 bytes.
                ends[depth] = at as u16;
                depth += 1;
            }
        }
        ends[depth] = text.len() as u16;
        Self { tree, text, level_count, ends, words: [UNRESOLVED; N], pending: [(0, 0); N], pending_count: 0 }
    }

    fn walk(&mut self, is_reserved: bool, out: &mut Vec<Entry>) {
        let tree = self.tree;
        let (mut at, mut depth) = (ROOT, 0);
        loop {
            let node = tree.nodes.get(at);
            // Leading wildcards do not match reserved topics [MQTT-4.7.2-1].
            let wildcards_match = depth > 0 || !is_reserved;
            let is_end = depth == self.level_count;
            match node.targets() {
                Targets::None => {}
                Targets::Here(entry) if is_end => out.push(entry),
                Targets::Below(entry) if wildcards_match => out.push(entry),
                Targets::Sets { here, below } => {
                    if is_end && here != NO_SET {
                        tree.sets.append(here, out);
                    }
                    if wildcards_match && below != NO_SET {
                        tree.sets.append(below, out);
                    }
                }
                Targets::Here(_) | Targets::Below(_) => {}
            }
            let mut next = None;
            let (plus, has_literals) = match node.outline() {
                _ if is_end => (NONE, false),
                Outline::Whole(Shape::Leaf { .. }) => (NONE, false),
                // Without targets it has two children or more, of which one at most is by `+`.
                Outline::Whole(Shape::Branch { plus, .. }) => (plus, true),
                Outline::BranchId(id) => {
                    let branch = tree.branches.get(id);
                    (branch.plus, branch.literal_count > 0)
                }
            };
            if has_literals {
                let word = self.word(depth);
                if word != UNKNOWN {
                    let child = tree.literal_child(at, word);
                    next = child.and_then(|child| self.enter(child, depth));
                }
            }
            if plus != NONE
                && wildcards_match
                && let Some(other) = self.enter(plus, depth)
            {
                match next {
                    None => next = Some(other),
                    Some(_) => {
                        self.pending[self.pending_count] = (other.0, other.1 as u8);
                        self.pending_count += 1;
                    }
                }
            }
            (at, depth) = match next {
                Some(next) => next,
                None if self.pending_count == 0 => return,
                None => {
                    self.pending_count -= 1;
                    let (at, depth) = self.pending[self.pending_count];
                    (at, usize::from(depth))
                }
            };
        }
    }

    /// Compares the rest of a child's label, whose first word matches the level at `depth`. Returns the child and the
    /// levels taken with it.
    ///
    /// The levels are counted up one by one, rather than by the tail's length: so their number is a matter of branches,
    /// which the processor predicts, and it starts to look for the next child before this one has come from memory.
    #[inline(always)]
    fn enter(&mut self, child: u32, depth: usize) -> Option<(u32, usize)> {
        let tree = self.tree;
        let tail = tree.tail_of(tree.nodes.get(child));
        let mut depth = depth + 1;
        if tail != NONE {
            for &word in tree.labels.tail(tail) {
                if depth == self.level_count || (word != PLUS && word != self.word(depth)) {
                    return None;
                }
                depth += 1;
            }
        }
        Some((child, depth))
    }

    /// The word of a level, by the tree's dictionary.
    #[inline]
    fn word(&mut self, depth: usize) -> u32 {
        if self.words[depth] == UNRESOLVED {
            let start = if depth == 0 { 0 } else { usize::from(self.ends[depth - 1]) + 1 };
            let end = usize::from(self.ends[depth]);
            self.words[depth] = self.tree.labels.words.find(&self.text[start..end]);
        }
        self.words[depth]
    }
}
