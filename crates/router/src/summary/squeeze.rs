//! Making a summary smaller by matching more.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::trie::{NONE, Node, PLUS, ROOT, Size, Trie};
use super::{Budget, cover};

/// How much the interest of a filter is divided by for each literal level, in bits.
const LEVEL_BITS: i32 = 6;

/// How often a step is looked for that is just enough. One is, unless sizes were a little off.
const FINISHES_MAX: usize = 8;

/// A step that could be taken.
#[derive(Clone, Copy)]
struct Step {
    gain: Gain,
    node: u32,
    kind: Kind,
    /// The node's literal levels when the gain was found.
    literal_count: u32,
    /// The node's size when the gain was found.
    size: Size,
}

/// What a step is good for.
#[derive(Clone, Copy)]
struct Gain {
    /// Bytes saved.
    saved: i64,
    /// Interest added.
    added: f64,
}

impl Gain {
    /// Bytes saved for each unit of interest added.
    fn score(self) -> f64 {
        self.saved as f64 / self.added.max(f64::MIN_POSITIVE)
    }
}

/// What a step does at a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// All literal words that follow become `+`.
    Plus,
    /// Everything below becomes `#`.
    Hash,
}

/// Takes steps until the filters are within their budget, or none is left; returns how many.
pub(super) fn squeeze(trie: &mut Trie<'_>, budget: Budget) -> usize {
    let overhead = budget.filter_overhead_bytes;
    if trie.total_bytes(overhead) <= budget.bytes_max {
        return 0;
    }
    let mut squeezer = Squeezer { trie, overhead, steps: BinaryHeap::new(), suffixes: Vec::new() };
    for node in 0..squeezer.trie.nodes.len() as u32 {
        squeezer.offer(node);
    }
    let mut count = 0;
    let mut finish_count = 0;
    while squeezer.missing(budget) > 0 {
        let Some(step) = squeezer.steps.pop() else { break };
        let Some(mut step) = squeezer.renew(step) else { continue };
        if step.gain.saved > squeezer.missing(budget) && finish_count < FINISHES_MAX {
            finish_count += 1;
            step = squeezer.finish_with(step, budget);
        }
        match step.kind {
            Kind::Hash => squeezer.cut(step.node),
            Kind::Plus => squeezer.merge_children(step.node),
        }
        count += 1;
    }
    count
}

struct Squeezer<'s, 't> {
    trie: &'s mut Trie<'t>,
    overhead: usize,
    steps: BinaryHeap<Step>,
    /// Room for [`Self::plus_gain`].
    suffixes: Vec<Suffix>,
}

/// What a filter says behind some node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Suffix {
    hash: u64,
    /// It has it already behind a `+`.
    is_new: bool,
    literal_count: u32,
    bytes: u32,
    ends_below: bool,
}

impl Squeezer<'_, '_> {
    /// Puts the steps at a node on the heap.
    fn offer(&mut self, node: u32) {
        let Node { is_removed, size, .. } = self.trie.nodes[node as usize];
        // With one filter there is nothing to merge; that the longest can be cut to `#` all the same is the root's step.
        if is_removed || size.filters < 2 && node != ROOT && !self.trie.is_reserved(node) {
            return;
        }
        self.offer_kind(node, Kind::Plus);
        self.offer_kind(node, Kind::Hash);
    }

    fn offer_kind(&mut self, node: u32, kind: Kind) {
        let (literal_count, prefix) = self.place(node);
        let gain = match kind {
            Kind::Plus => self.plus_gain(node, literal_count, prefix),
            Kind::Hash => self.hash_gain(node, literal_count, prefix),
        };
        if let Some(gain) = gain {
            let size = self.trie.nodes[node as usize].size;
            self.steps.push(Step { gain, node, kind, literal_count, size });
        }
    }

    /// Bytes that are still too many.
    fn missing(&self, budget: Budget) -> i64 {
        self.trie.total_bytes(self.overhead) as i64 - budget.bytes_max as i64
    }

    /// Of the steps that save enough to be the last, `step` among them, the one that adds least.
    fn finish_with(&mut self, step: Step, budget: Budget) -> Step {
        let missing = self.missing(budget);
        let is_less = |one: &Step, other: &Step| {
            one.gain.added.total_cmp(&other.gain.added).then_with(|| other.cmp(one)) == Ordering::Less
        };
        let enough = self.steps.iter().filter(|other| other.gain.saved >= missing);
        let best = enough.fold(step, |best, other| if is_less(other, &best) { *other } else { best });
        if best.node == step.node && best.kind == step.kind {
            return step;
        }
        let Some(best) = self.refresh(best).filter(|best| best.gain.saved >= missing) else { return step };
        // The other stays on the heap too; when it comes up it is found to be of no more use.
        self.steps.push(step);
        best
    }

    /// How many literal levels lead to a node, and how many bytes its levels have: -1 at the root, where the separator
    /// is missing that all other levels have.
    fn place(&self, node: u32) -> (u32, i64) {
        let (mut literal_count, mut prefix) = (0, -1);
        let mut at = node;
        while at != ROOT {
            prefix += 1 + self.trie.word_len(at) as i64;
            literal_count += u32::from(self.trie.nodes[at as usize].word != PLUS);
            at = self.trie.nodes[at as usize].parent;
        }
        (literal_count, prefix)
    }

    /// The gain of [`Kind::Hash`] at a node.
    fn hash_gain(&self, node: u32, literal_count: u32, prefix: i64) -> Option<Gain> {
        let mut size = self.trie.nodes[node as usize].size;
        if node == ROOT {
            for child in self.trie.literal_children(ROOT).filter(|&child| self.trie.is_reserved(child)) {
                let Size { filters, bytes } = self.trie.size_in_parent(child);
                size.filters -= filters;
                size.bytes -= bytes;
            }
        }
        let each = prefix + self.overhead as i64;
        let saved = size.bytes as i64 + size.filters as i64 * each - (each + 2);
        (saved > 0 && size.filters > 0).then(|| Gain { saved, added: 2.0 * interest(literal_count) })
    }

    /// The gain of [`Kind::Plus`] at a node. Cost: a step for each node below it, and sorting the filters there.
    fn plus_gain(&mut self, node: u32, literal_count: u32, prefix: i64) -> Option<Gain> {
        let trie = &*self.trie;
        let plus = trie.nodes[node as usize].plus;
        let mut merged_count = 0;
        let mut bytes_before = 0;
        self.suffixes.clear();
        for child in trie.children_of(node).filter(|&child| !trie.is_reserved(child)) {
            let Size { filters, bytes } = trie.size_in_parent(child);
            bytes_before += bytes as i64 + filters as i64 * (prefix + self.overhead as i64);
            merged_count += 1;
            append_suffixes(trie, child, child != plus, &mut self.suffixes);
        }
        if merged_count < 2 {
            return None;
        }
        // Of two that are the same, the one that is there already comes first.
        self.suffixes.sort_unstable();
        self.suffixes.dedup_by_key(|suffix| suffix.hash);
        let (mut bytes_after, mut added) = (0, 0.0);
        for suffix in &self.suffixes {
            bytes_after += prefix + 2 + i64::from(suffix.bytes) + self.overhead as i64;
            if suffix.is_new {
                let times = if suffix.ends_below { 2.0 } else { 1.0 };
                added += times * interest(literal_count + suffix.literal_count);
            }
        }
        let saved = bytes_before - bytes_after;
        (saved > 0).then_some(Gain { saved, added })
    }

    /// The step, if it is still the best as far as is known; otherwise it is offered anew or forgotten.
    fn renew(&mut self, step: Step) -> Option<Step> {
        let step = self.refresh(step)?;
        if self.steps.peek().is_none_or(|best| step.cmp(best) != Ordering::Less) {
            return Some(step);
        }
        self.steps.push(step);
        None
    }

    /// The step as it is now, if there is still anything to gain.
    fn refresh(&mut self, step: Step) -> Option<Step> {
        let Node { is_removed, size, .. } = self.trie.nodes[step.node as usize];
        if is_removed {
            return None;
        }
        let (literal_count, prefix) = self.place(step.node);
        let gain = match step.kind {
            Kind::Hash => self.hash_gain(step.node, literal_count, prefix)?,
            // Found again, at the price of reading all that is below, when that has shrunk by a quarter: a gain that is
            // a little off costs a little interest at most.
            Kind::Plus if size.bytes < step.size.bytes / 4 * 3 || size.bytes > step.size.bytes => {
                self.plus_gain(step.node, literal_count, prefix)?
            }
            Kind::Plus if self.mergeable(step.node).nth(1).is_none() => return None,
            Kind::Plus => {
                let ratio = interest(literal_count) / interest(step.literal_count);
                Gain { added: step.gain.added * ratio, ..step.gain }
            }
        };
        Some(Step { gain, literal_count, size, ..step })
    }

    /// The children of a node that a `+` covers.
    fn mergeable(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        self.trie.children_of(node).filter(|&child| !self.trie.is_reserved(child))
    }

    /// Makes everything below a node one filter.
    fn cut(&mut self, node: u32) {
        let Node { parent, word, .. } = self.trie.nodes[node as usize];
        // `+/#` is `#`, and `/+/#` is `/#`.
        let is_all = node != ROOT && word == PLUS && self.trie.is_open(parent);
        let node = if is_all { parent } else { node };
        let covered: Vec<u32> = self.mergeable(node).collect();
        covered.into_iter().for_each(|child| self.trie.remove_subtree(child));
        self.trie.nodes[node as usize].ends = false;
        self.trie.nodes[node as usize].ends_below = true;
        let left = self.trie.children_of(node).map(|child| self.trie.size_in_parent(child));
        let size = left.fold(self.trie.own_size(node), Size::plus);
        self.trie.change_size(node, size);
    }

    /// Makes the words that follow a node one `+`.
    fn merge_children(&mut self, node: u32) {
        let plus = match self.trie.nodes[node as usize].plus {
            NONE => self.trie.add_node(node, PLUS),
            plus => plus,
        };
        let merged: Vec<u32> = self.mergeable(node).filter(|&child| child != plus).collect();
        let mut changed = Vec::new();
        for child in merged {
            self.trie.change_size(child, Size::default());
            self.trie.unlink(child);
            self.absorb(plus, child, &mut changed);
        }
        cover::drop_covered(self.trie, plus);
        if self.trie.nodes[plus as usize].ends_below && self.trie.is_open(node) {
            self.cut(node);
        }
        changed.sort_unstable();
        changed.dedup();
        changed.into_iter().for_each(|node| self.offer(node));
    }

    /// Moves all filters at and below `from`, which is nobody's child, to the same places at and below `to`. The nodes
    /// there that have changed are appended to `changed`.
    fn absorb(&mut self, to: u32, from: u32, changed: &mut Vec<u32>) {
        let trie = &mut *self.trie;
        let mut stack = vec![(to, from)];
        while let Some((to, from)) = stack.pop() {
            let children: Vec<u32> = trie.children_of(from).collect();
            let before = trie.own_size(to);
            let Node { ends, ends_below, .. } = trie.nodes[from as usize];
            let node = &mut trie.nodes[to as usize];
            node.ends_below |= ends_below;
            node.ends = (node.ends | ends) && !node.ends_below;
            let is_below = node.ends_below;
            let size = trie.nodes[to as usize].size.plus(trie.own_size(to)).minus(before);
            trie.change_size(to, size);
            changed.push(to);
            trie.nodes[from as usize].is_removed = true;
            if is_below {
                let covered: Vec<u32> = trie.children_of(to).collect();
                covered.into_iter().for_each(|child| trie.remove_subtree(child));
                children.into_iter().for_each(|child| trie.mark_removed(child));
                continue;
            }
            for child in children {
                let word = trie.nodes[child as usize].word;
                if let Some(same) = trie.child(to, word) {
                    stack.push((same, child));
                    continue;
                }
                trie.link(child, to);
                let size = trie.nodes[to as usize].size.plus(trie.size_in_parent(child));
                trie.change_size(to, size);
            }
        }
    }
}

/// The interest that a filter of so many literal levels is thought to be of.
fn interest(literal_count: u32) -> f64 {
    f64::exp2(f64::from(-LEVEL_BITS * literal_count as i32))
}

/// Appends what each filter at and below `node` says behind it.
fn append_suffixes(trie: &Trie<'_>, node: u32, is_new: bool, suffixes: &mut Vec<Suffix>) {
    let here = Suffix { hash: 0, is_new, literal_count: 0, bytes: 0, ends_below: false };
    let mut stack = vec![(node, here)];
    while let Some((id, suffix)) = stack.pop() {
        let node = &trie.nodes[id as usize];
        if node.ends {
            suffixes.push(suffix);
        }
        if node.ends_below {
            let hash = mix(suffix.hash, u32::MAX);
            suffixes.push(Suffix { hash, bytes: suffix.bytes + 2, ends_below: true, ..suffix });
        }
        stack.extend(trie.children_of(id).map(|child| {
            let word = trie.nodes[child as usize].word;
            let literal_count = suffix.literal_count + u32::from(word != PLUS);
            let bytes = suffix.bytes + 1 + trie.word_len(child) as u32;
            (child, Suffix { hash: mix(suffix.hash, word), literal_count, bytes, ..suffix })
        }));
    }
}

/// A hash that is the same in every run: two suffixes with the same one are counted as one, which costs no more than a
/// step that is not the best.
const fn mix(hash: u64, word: u32) -> u64 {
    let mixed = (hash ^ (word as u64 + 1)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) ^ mixed >> 32
}

impl Ord for Step {
    fn cmp(&self, other: &Self) -> Ordering {
        // The best is the greatest; of equal ones that which says more, of the filters that come first.
        (self.gain.score().total_cmp(&other.gain.score()))
            .then_with(|| other.kind.cmp(&self.kind))
            .then_with(|| other.node.cmp(&self.node))
    }
}

impl PartialOrd for Step {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Step {}
