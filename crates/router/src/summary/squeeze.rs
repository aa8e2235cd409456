//! Making a summary smaller by matching more.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::trie::{NONE, Node, PLUS, ROOT, Size, Trie};
use super::{Budget, cover};

/// How many words there are thought to be at the first level at least. It mostly names what it is all about.
const WORDS_MIN: u64 = 64;

/// What a `#` is thought to be of more interest than a `+`.
const HASH_TIMES: f64 = 2.0;

/// Which steps are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// Always the best.
    Best,
    /// The best that does not leave half of the budget unused, as long as there is one.
    Small,
    /// Always the best if the words of which there are many were no more telling than others. So levels at which very
    /// many differ go first, and then others may stay that had gone before them.
    Wide,
}

/// A step that could be taken.
#[derive(Clone, Copy)]
struct Step {
    gain: Gain,
    node: u32,
    kind: Kind,
    /// The interest in all below the node when the gain was found.
    interest: f64,
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
    /// The same at a place of `times` the interest.
    fn at(self, times: f64) -> Self {
        // Where interest is too little for a number, it stays so.
        Self { added: if times.is_nan() { self.added } else { self.added * times }, ..self }
    }

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
pub(super) fn squeeze(trie: &mut Trie<'_>, budget: Budget, plan: Plan) -> usize {
    let overhead = budget.filter_overhead_bytes;
    let mut squeezer = Squeezer { trie, plan, overhead, steps: BinaryHeap::new(), suffixes: Vec::new() };
    for node in 0..squeezer.trie.nodes.len() as u32 {
        squeezer.offer(node);
    }
    let mut count = 0;
    // Steps that save too much, the best first.
    let mut large = Vec::new();
    loop {
        let total = squeezer.trie.total_bytes(squeezer.overhead);
        if total <= budget.bytes_max {
            return count;
        }
        let Some(step) = squeezer.steps.pop() else {
            // Nothing less will do.
            let Some(step) = squeezer.take_least(&mut large) else { return count };
            squeezer.take(&step);
            count += 1;
            continue;
        };
        let Some(step) = squeezer.renew(step) else { continue };
        if plan == Plan::Small && total as i64 - step.gain.saved < budget.bytes_max as i64 / 2 {
            large.push(step);
            continue;
        }
        squeezer.take(&step);
        count += 1;
    }
}

/// What the filters of a trie are thought to be of interest together.
pub(super) fn interest_in(trie: &Trie<'_>) -> f64 {
    let mut total = 0.0;
    let mut stack = vec![(ROOT, 1.0)];
    while let Some((id, interest)) = stack.pop() {
        let node = &trie.nodes[id as usize];
        let times = f64::from(u8::from(node.ends)) + HASH_TIMES * f64::from(u8::from(node.ends_below));
        total += times * interest;
        stack.extend(trie.children_of(id).map(|child| (child, interest * share(trie, Plan::Best, child))));
    }
    total
}

struct Squeezer<'s, 't> {
    trie: &'s mut Trie<'t>,
    plan: Plan,
    overhead: usize,
    steps: BinaryHeap<Step>,
    /// Room for [`Self::plus_gain`].
    suffixes: Vec<Suffix>,
}

/// What a filter says behind some node.
#[derive(Clone, Copy)]
struct Suffix {
    hash: u64,
    /// There is no such filter behind the node's `+` yet.
    is_new: bool,
    /// Which part of the interest in all behind the node it is thought to have.
    interest: f64,
    bytes: u32,
}

impl Squeezer<'_, '_> {
    /// Puts the steps at a node on the heap.
    fn offer(&mut self, node: u32) {
        let Node { is_removed, size, .. } = self.trie.nodes[node as usize];
        // With one filter there is nothing to merge; that the longest can be cut to `#` all the same is the root's
        // step.
        if is_removed || size.filters < 2 && node != ROOT && !self.trie.is_reserved(node) {
            return;
        }
        self.offer_kind(node, Kind::Plus);
        self.offer_kind(node, Kind::Hash);
    }

    fn offer_kind(&mut self, node: u32, kind: Kind) {
        let (interest, prefix) = self.place(node);
        let gain = match kind {
            Kind::Plus => self.plus_gain(node, interest, prefix),
            Kind::Hash => self.hash_gain(node, interest, prefix),
        };
        if let Some(gain) = gain {
            let size = self.trie.nodes[node as usize].size;
            self.steps.push(Step { gain, node, kind, interest, size });
        }
    }

    /// The interest in all below a node, and how many bytes its levels have: -1 at the root, where the separator is
    /// missing that all other levels have.
    fn place(&self, node: u32) -> (f64, i64) {
        let (mut interest, mut prefix) = (1.0, -1);
        let mut at = node;
        while at != ROOT {
            prefix += 1 + self.trie.word_len(at) as i64;
            interest *= share(self.trie, self.plan, at);
            at = self.trie.nodes[at as usize].parent;
        }
        (interest, prefix)
    }

    /// The gain of [`Kind::Hash`] at a node.
    fn hash_gain(&self, node: u32, interest: f64, prefix: i64) -> Option<Gain> {
        let mut size = self.trie.nodes[node as usize].size;
        if node == ROOT {
            for child in self.trie.literal_children(ROOT).filter(|&child| self.trie.is_reserved(child)) {
                size = size.minus(self.trie.size_in_parent(child));
            }
        }
        let each = prefix + self.overhead as i64;
        let saved = size.bytes as i64 + size.filters as i64 * each - (each + 2);
        (saved > 0 && size.filters > 0).then_some(Gain { saved, added: HASH_TIMES * interest })
    }

    /// The gain of [`Kind::Plus`] at a node. Cost: a step for each node below it, and sorting the filters there.
    fn plus_gain(&mut self, node: u32, interest: f64, prefix: i64) -> Option<Gain> {
        let trie = &*self.trie;
        let plus = trie.nodes[node as usize].plus;
        let mut merged_count = 0;
        let mut bytes_before = 0;
        self.suffixes.clear();
        for child in trie.children_of(node).filter(|&child| !trie.is_reserved(child)) {
            let Size { filters, bytes } = trie.size_in_parent(child);
            bytes_before += bytes as i64 + filters as i64 * (prefix + self.overhead as i64);
            merged_count += 1;
            append_suffixes(trie, self.plan, child, child != plus, &mut self.suffixes);
        }
        if merged_count < 2 {
            return None;
        }
        // Of those that are the same, one that is there already comes first.
        self.suffixes.sort_unstable_by_key(|suffix| (suffix.hash, suffix.is_new));
        let (mut bytes_after, mut added) = (0, 0.0);
        for same in self.suffixes.chunk_by(|one, other| one.hash == other.hash) {
            bytes_after += prefix + 2 + i64::from(same[0].bytes) + self.overhead as i64;
            if same[0].is_new {
                let unseen = 1.0 - same.len() as f64 / words(trie, self.plan, node) as f64;
                added += interest * same[0].interest * unseen;
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
        let (interest, prefix) = self.place(step.node);
        let gain = match step.kind {
            Kind::Hash => self.hash_gain(step.node, interest, prefix)?,
            // Found again, at the price of reading all that is below, when that has shrunk by a quarter: a gain that is
            // a little off costs a little interest at most.
            Kind::Plus if size.bytes < step.size.bytes / 4 * 3 || size.bytes > step.size.bytes => {
                self.plus_gain(step.node, interest, prefix)?
            }
            Kind::Plus if self.mergeable(step.node).nth(1).is_none() => return None,
            Kind::Plus => {
                return Some(Step { gain: step.gain.at(interest / step.interest), interest, ..step });
            }
        };
        Some(Step { gain, interest, size, ..step })
    }

    /// Takes from steps that all save too much the one that adds least; the others go back to the heap.
    fn take_least(&mut self, large: &mut Vec<Step>) -> Option<Step> {
        let steps: Vec<Step> = large.drain(..).filter_map(|step| self.refresh(step)).collect();
        let least = steps
            .iter()
            .copied()
            .min_by(|one, other| one.gain.added.total_cmp(&other.gain.added).then_with(|| other.cmp(one)));
        self.steps.extend(steps);
        least
    }

    fn take(&mut self, step: &Step) {
        match step.kind {
            Kind::Hash => self.cut(step.node),
            Kind::Plus => self.merge_children(step.node),
        }
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

/// How many words there are thought to be at the level behind a node: those named there, and the more besides the more
/// these are. 3 for 2, 60 for 20, 5,500 for 1,000, 900,000 for 100,000.
fn words(trie: &Trie<'_>, plan: Plan, node: u32) -> u64 {
    let count = u64::from(trie.nodes[node as usize].word_count.max(1));
    let (words, least) = match plan {
        Plan::Wide => (count * 4, WORDS_MIN),
        Plan::Best | Plan::Small => (count * u64::from(2 + count.ilog2()) / 2, 2),
    };
    words.max(if node == ROOT { WORDS_MIN } else { least })
}

/// Which part of the interest in all below its parent a node is thought to have.
fn share(trie: &Trie<'_>, plan: Plan, node: u32) -> f64 {
    let Node { word, parent, .. } = trie.nodes[node as usize];
    if word == PLUS { 1.0 } else { 1.0 / words(trie, plan, parent) as f64 }
}

/// Appends what each filter at and below `node` says behind it.
fn append_suffixes(trie: &Trie<'_>, plan: Plan, node: u32, is_new: bool, suffixes: &mut Vec<Suffix>) {
    let mut stack = vec![(node, Suffix { hash: 0, is_new, interest: 1.0, bytes: 0 })];
    while let Some((id, suffix)) = stack.pop() {
        let node = &trie.nodes[id as usize];
        if node.ends {
            suffixes.push(suffix);
        }
        if node.ends_below {
            let Suffix { hash, interest, bytes, .. } = suffix;
            let hash = mix(hash, u32::MAX);
            suffixes.push(Suffix { hash, is_new, interest: HASH_TIMES * interest, bytes: bytes + 2 });
        }
        stack.extend(trie.children_of(id).map(|child| {
            let hash = mix(suffix.hash, trie.nodes[child as usize].word);
            let bytes = suffix.bytes + 1 + trie.word_len(child) as u32;
            (child, Suffix { hash, is_new, interest: suffix.interest * share(trie, plan, child), bytes })
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
