//! One tree of filters, for one thread at a time: what a shard of the index is, and a tree of topic patterns.

mod matching;
mod patterns;
mod prefixes;
mod shape;
#[cfg(test)]
mod tests;

use meridian_types::TopicFilter;
use smallvec::SmallVec;

use crate::arena::Arena;
use crate::entry::{Entry, TargetId};
use crate::hash::Seeds;
use crate::labels::Labels;
use crate::node::{Branch, NODE_ID_LIMIT, Node, Outline, Shape, Targets};
use crate::table::Table;
use crate::targets::{NO_SET, TargetSets};
use crate::words::{Grammar, Level, MQTT};

/// What an MQTT filter for all levels below ends in.
const MANY_LEVELS: u8 = MQTT.many;

/// The root's id, if there is a root.
const ROOT: u32 = 0;

/// A filter within a tree: a node, and whether `/#` follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilterPlace {
    pub(crate) node: u32,
    pub(crate) is_below: bool,
}

/// What an insertion did.
pub(crate) struct Inserted {
    pub(crate) place: FilterPlace,
    /// The target's previous options, if the filter had it.
    pub(crate) previous: Option<u32>,
    /// Whether the filter had no target before.
    pub(crate) is_new_filter: bool,
}

/// What a removal did.
pub(crate) struct Removed {
    pub(crate) options: u32,
    /// Whether the filter has no target any more.
    pub(crate) was_last: bool,
}

/// Filters by level; see the crate's documentation for the layout.
pub(crate) struct Tree {
    seeds: Seeds,
    nodes: Arena<Node>,
    branches: Arena<Branch>,
    /// Nodes by parent and first word, except children by `+`.
    edges: Table,
    labels: Labels,
    sets: TargetSets,
    filter_count: usize,
    entry_count: usize,
}

/// A filter as the tree sees it.
pub(crate) struct Path<L> {
    /// Its levels, without a last `#`. No two neighbours are wildcards of which the first stands for many words.
    pub(crate) levels: SmallVec<[L; 16]>,
    /// Whether there was a last `#`.
    pub(crate) is_below: bool,
}

impl<'a> From<TopicFilter<'a>> for Path<&'a [u8]> {
    fn from(filter: TopicFilter<'a>) -> Self {
        // A filter with `#` ends in it, and any other ends in a level.
        let text = filter.as_str().as_bytes();
        let (levels, is_below) = match *text {
            [MANY_LEVELS] => return Self { levels: SmallVec::new(), is_below: true },
            [ref levels @ .., _, MANY_LEVELS] => (levels, true),
            _ => (text, false),
        };
        let mut path = Self { levels: SmallVec::new(), is_below };
        path.levels.extend(levels.split(|&byte| byte == MQTT.separator));
        path
    }
}

impl Tree {
    /// An empty tree for filters that are written so.
    pub(crate) fn new(grammar: Grammar) -> Self {
        Self {
            seeds: Seeds::new(),
            nodes: Arena::new(NODE_ID_LIMIT - 1),
            branches: Arena::new(NODE_ID_LIMIT - 1),
            edges: Table::new(),
            labels: Labels::new(grammar),
            sets: TargetSets::new(),
            filter_count: 0,
            entry_count: 0,
        }
    }

    pub(crate) const fn filter_count(&self) -> usize {
        self.filter_count
    }

    pub(crate) const fn entry_count(&self) -> usize {
        self.entry_count
    }

    /// Bytes held outside the struct itself, used or not.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes()
            + self.branches.memory_bytes()
            + self.edges.memory_bytes()
            + self.labels.memory_bytes()
            + self.sets.memory_bytes()
    }

    /// Adds a target to a filter, or replaces its options.
    pub(crate) fn insert(&mut self, filter: &Path<impl Level>, entry: Entry) -> Inserted {
        let place = FilterPlace { node: self.reach(&filter.levels), is_below: filter.is_below };
        let (previous, is_new_filter) = self.insert_target(place, entry);
        self.filter_count += usize::from(is_new_filter);
        self.entry_count += usize::from(previous.is_none());
        Inserted { place, previous, is_new_filter }
    }

    /// Where a filter is, if there is a node for it. It need not have targets.
    pub(crate) fn find(&self, filter: &Path<impl Level>) -> Option<FilterPlace> {
        Some(FilterPlace { node: self.find_node(&filter.levels)?, is_below: filter.is_below })
    }

    /// Removes a target from the filter at a place, and every node that served it alone.
    pub(crate) fn remove(&mut self, place: FilterPlace, target: TargetId) -> Option<Removed> {
        let node = self.nodes.find(place.node)?;
        let mut targets = node.targets();
        let (options, was_last) = match (&mut targets, place.is_below) {
            (Targets::Here(entry), false) | (Targets::Below(entry), true) if entry.target == target => {
                let options = entry.options;
                targets = Targets::None;
                (options, true)
            }
            (Targets::Sets { here: set, .. }, false) | (Targets::Sets { below: set, .. }, true)
                if *set != NO_SET =>
            {
                let options = self.sets.remove(set, target)?;
                let was_last = *set == NO_SET;
                targets = self.inline(targets);
                (options, was_last)
            }
            _ => return None,
        };
        self.set_targets(place.node, targets);
        self.entry_count -= 1;
        self.filter_count -= usize::from(was_last);
        self.prune(place.node);
        Some(Removed { options, was_last })
    }

    /// The text of the filter at a place, if it has a target.
    pub(crate) fn filter_text(&self, place: FilterPlace) -> Option<String> {
        match (self.nodes.find(place.node)?.targets(), place.is_below) {
            (Targets::Here(_), false) | (Targets::Below(_), true) => {}
            (Targets::Sets { here: set, .. }, false) | (Targets::Sets { below: set, .. }, true)
                if set != NO_SET => {}
            _ => return None,
        }
        let mut path: SmallVec<[u32; 16]> = SmallVec::new();
        let mut at = place.node;
        while at != ROOT {
            path.push(at);
            at = self.nodes.get(at).parent();
        }
        let grammar = self.labels.words.grammar;
        let mut text = Vec::with_capacity(64);
        for &at in path.iter().rev() {
            let node = self.nodes.get(at);
            for &word in std::iter::once(&node.word).chain(self.labels.tail(self.tail_of(node))) {
                self.labels.words.append_text(word, &mut text);
                text.push(grammar.separator);
            }
        }
        if place.is_below {
            text.push(grammar.many);
        } else {
            text.pop();
        }
        Some(String::from_utf8(text).expect("words are whole levels of valid filters"))
    }

    /// Adds an entry; returns the target's previous options and whether the filter is new.
    fn insert_target(&mut self, place: FilterPlace, entry: Entry) -> (Option<u32>, bool) {
        let node = self.nodes.get_mut(place.node);
        let mut targets = node.targets();
        let result = match (&mut targets, place.is_below) {
            (Targets::None, _) => {
                targets = if place.is_below { Targets::Below(entry) } else { Targets::Here(entry) };
                (None, true)
            }
            (Targets::Here(held), false) | (Targets::Below(held), true) if held.target == entry.target => {
                (Some(std::mem::replace(&mut held.options, entry.options)), false)
            }
            _ => {
                let (mut here, mut below) = match targets {
                    Targets::Here(held) => (self.sets.create(held), NO_SET),
                    Targets::Below(held) => (NO_SET, self.sets.create(held)),
                    Targets::Sets { here, below } => (here, below),
                    Targets::None => unreachable!("matched above"),
                };
                let set = if place.is_below { &mut below } else { &mut here };
                let is_new_filter = *set == NO_SET;
                let previous = if is_new_filter {
                    *set = self.sets.create(entry);
                    None
                } else {
                    self.sets.insert(set, entry)
                };
                targets = Targets::Sets { here, below };
                (previous, is_new_filter)
            }
        };
        self.set_targets(place.node, targets);
        result
    }

    /// Moves a set of one into the node, if the node holds no other.
    fn inline(&mut self, targets: Targets) -> Targets {
        let Targets::Sets { here, below } = targets else { return targets };
        let (set, is_below) = match (here, below) {
            (NO_SET, NO_SET) => return Targets::None,
            (NO_SET, set) => (set, true),
            (set, NO_SET) => (set, false),
            _ => return targets,
        };
        let Some(entry) = self.sets.only(set) else { return targets };
        self.sets.free(set);
        if is_below { Targets::Below(entry) } else { Targets::Here(entry) }
    }

    fn set_targets(&mut self, at: u32, targets: Targets) {
        let shape = self.shape_of(self.nodes.get(at));
        self.nodes.get_mut(at).set(targets, shape);
    }

    /// How a node goes on.
    #[inline]
    fn shape_of(&self, node: &Node) -> Shape {
        match node.outline() {
            Outline::Whole(shape) => shape,
            Outline::BranchId(id) => {
                let branch = self.branches.get(id);
                Shape::Branch { id, tail: branch.tail, plus: branch.plus }
            }
        }
    }

    /// The tail of a node's label.
    #[inline]
    fn tail_of(&self, node: &Node) -> u32 {
        match self.shape_of(node) {
            Shape::Leaf { tail } | Shape::Branch { tail, .. } => tail,
        }
    }
}
