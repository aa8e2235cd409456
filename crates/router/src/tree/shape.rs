//! Nodes come and go: labels split where filters part, and join where only one way is left.
//!
//! **Invariant:** a node other than the root has a target or at least two children. **Invariant:** a node where a
//! filter ends keeps its id while the filter has a target: splitting adds a node above, joining removes one above.

use crate::arena::Arena;
use crate::hash::Seeds;
use crate::labels::WordRow;
use crate::node::{Branch, NONE, Node, Shape, Targets};
use crate::words::{Level, MANY, PLUS, UNKNOWN};

use super::{ROOT, Tree};

/// What a node is found by among the children of its parent.
fn edge_hash(seeds: Seeds, nodes: &Arena<Node>, id: u32) -> u64 {
    let node = nodes.get(id);
    seeds.hash_pair(node.parent(), node.word)
}

impl Tree {
    /// The node for a row of levels, made if need be.
    pub(super) fn reach(&mut self, levels: &[impl Level]) -> u32 {
        if self.nodes.find(ROOT).is_none() {
            let root = self.nodes.insert(Node::new(ROOT, PLUS, NONE));
            assert_eq!(root, ROOT, "a tree without a root has no nodes");
        }
        let mut at = ROOT;
        let mut rest = levels;
        while let Some((first, below)) = rest.split_first() {
            let word = first.find(&self.labels.words);
            let Some(child) = self.child(at, word) else {
                return self.add_leaf(at, rest);
            };
            let tail = self.labels.tail(self.tail_of(self.nodes.get(child)));
            let words = &self.labels.words;
            let shared =
                tail.iter().zip(below).take_while(|&(&word, level)| level.find(words) == word).count();
            at = if shared < tail.len() { self.split(child, shared) } else { child };
            rest = &below[shared..];
        }
        at
    }

    /// The node for a row of levels, if there is one.
    pub(super) fn find_node(&self, levels: &[impl Level]) -> Option<u32> {
        let mut at = ROOT;
        self.nodes.find(ROOT)?;
        let mut rest = levels;
        while let Some((first, below)) = rest.split_first() {
            at = self.child(at, first.find(&self.labels.words))?;
            let tail = self.labels.tail(self.tail_of(self.nodes.get(at)));
            let words = &self.labels.words;
            if tail.len() > below.len()
                || !tail.iter().zip(below).all(|(&word, level)| level.find(words) == word)
            {
                return None;
            }
            rest = &below[tail.len()..];
        }
        Some(at)
    }

    /// The child whose label starts with `word`.
    pub(super) fn child(&self, parent: u32, word: u32) -> Option<u32> {
        match self.shape_of(self.nodes.get(parent)) {
            Shape::Branch { plus, .. } if word == PLUS => (plus != NONE).then_some(plus),
            Shape::Branch { .. } if word != UNKNOWN => self.literal_child(parent, word),
            _ => None,
        }
    }

    /// The child whose label starts with a literal word, or with the wildcard for many words.
    #[inline(always)]
    pub(super) fn literal_child(&self, parent: u32, word: u32) -> Option<u32> {
        self.edges.find(self.seeds.hash_pair(parent, word), |id| {
            let child = self.nodes.get(id);
            child.word == word && child.parent() == parent
        })
    }

    /// Removes nodes that hold no targets and lead to at most one other, from `at` upwards.
    pub(super) fn prune(&mut self, at: u32) {
        let mut at = at;
        loop {
            let node = *self.nodes.get(at);
            let has_targets = node.targets() != Targets::None;
            let tail = self.tail_of(&node);
            if let Shape::Branch { id, .. } = self.shape_of(&node) {
                let branch = *self.branches.get(id);
                if !branch.is_childless() {
                    if let Some(child) = branch.only_child()
                        && at != ROOT
                        && !has_targets
                    {
                        self.join(at, child);
                    }
                    return;
                }
                self.branches.remove(id);
                self.nodes.get_mut(at).set(node.targets(), Shape::Leaf { tail });
            }
            if has_targets {
                return;
            }
            if at == ROOT {
                self.nodes.remove(ROOT);
                return;
            }
            self.detach(node.parent(), at);
            self.labels.release_tail(tail);
            self.labels.words.release(node.word);
            self.nodes.remove(at);
            at = node.parent();
        }
    }

    /// Adds a leaf below `parent`, which has no child that starts like it.
    fn add_leaf(&mut self, parent: u32, levels: &[impl Level]) -> u32 {
        let (word, tail) = self.labels.intern(levels);
        let leaf = self.nodes.insert(Node::new(parent, word, tail));
        self.attach(parent, leaf);
        leaf
    }

    /// Puts a node between `child` and its parent that takes the label's first word and `shared` words of its tail.
    fn split(&mut self, child: u32, shared: usize) -> u32 {
        let node = *self.nodes.get(child);
        let old_tail = self.tail_of(&node);
        let row: WordRow = self.labels.tail(old_tail).into();
        let upper_tail = self.labels.intern_tail(&row[..shared]);
        let lower_tail = self.labels.intern_tail(&row[shared + 1..]);
        self.labels.words.retain(row[shared]);
        self.labels.release_tail(old_tail);

        let middle = self.nodes.insert(Node::new(node.parent(), node.word, upper_tail));
        self.replace_child(node.parent(), node.word, child, middle);
        self.set_label(child, row[shared], lower_tail);
        self.attach(middle, child);
        middle
    }

    /// Removes `upper`, which has no targets and no child but `child`, and gives its label's words to the child.
    fn join(&mut self, upper: u32, child: u32) {
        let upper_node = *self.nodes.get(upper);
        let child_node = *self.nodes.get(child);
        let (upper_tail, child_tail) = (self.tail_of(&upper_node), self.tail_of(&child_node));
        let mut row: WordRow = self.labels.tail(upper_tail).into();
        row.push(child_node.word);
        row.extend_from_slice(self.labels.tail(child_tail));
        let tail = self.labels.intern_tail(&row);
        self.labels.release_tail(upper_tail);
        self.labels.release_tail(child_tail);

        self.detach(upper, child);
        self.labels.words.release(child_node.word);
        self.replace_child(upper_node.parent(), upper_node.word, upper, child);
        self.set_label(child, upper_node.word, tail);
        self.nodes.get_mut(child).set_parent(upper_node.parent());
        self.branches.remove(self.branch_of(upper));
        self.nodes.remove(upper);
    }

    /// The branch of a node that has children.
    fn branch_of(&self, at: u32) -> u32 {
        match self.shape_of(self.nodes.get(at)) {
            Shape::Branch { id, .. } => id,
            Shape::Leaf { .. } => panic!("node {at} has no children"),
        }
    }

    fn set_label(&mut self, at: u32, word: u32, new_tail: u32) {
        let mut shape = self.shape_of(self.nodes.get(at));
        match &mut shape {
            Shape::Leaf { tail } => *tail = new_tail,
            Shape::Branch { id, tail, .. } => {
                *tail = new_tail;
                self.branches.get_mut(*id).tail = new_tail;
            }
        }
        let node = self.nodes.get_mut(at);
        node.word = word;
        node.set(node.targets(), shape);
    }

    /// Sets a branch's child by `+`, or that it has none.
    fn set_plus(&mut self, at: u32, plus: u32) {
        let id = self.branch_of(at);
        let branch = self.branches.get_mut(id);
        branch.plus = plus;
        let shape = Shape::Branch { id, tail: branch.tail, plus };
        let node = self.nodes.get_mut(at);
        node.set(node.targets(), shape);
    }

    /// Makes `child` a child of `parent` by its word.
    fn attach(&mut self, parent: u32, child: u32) {
        if let Shape::Leaf { tail } = self.shape_of(self.nodes.get(parent)) {
            let id = self.branches.insert(Branch::new(tail));
            let node = self.nodes.get_mut(parent);
            node.set(node.targets(), Shape::Branch { id, tail, plus: NONE });
        }
        let node = self.nodes.get_mut(child);
        node.set_parent(parent);
        let word = node.word;
        if word == PLUS {
            self.set_plus(parent, child);
            return;
        }
        if word == MANY {
            self.nodes.get_mut(parent).set_leads_to_many(true);
        }
        let branch = self.branch_of(parent);
        let branch = self.branches.get_mut(branch);
        branch.literal_count += 1;
        branch.literal_xor ^= child;
        let Self { edges, nodes, seeds, .. } = self;
        edges.insert(seeds.hash_pair(parent, word), child, |id| edge_hash(*seeds, nodes, id));
    }

    /// Makes `child` no longer a child of `parent`. Its own fields stay as they are.
    fn detach(&mut self, parent: u32, child: u32) {
        let word = self.nodes.get(child).word;
        if word == PLUS {
            self.set_plus(parent, NONE);
            return;
        }
        if word == MANY {
            self.nodes.get_mut(parent).set_leads_to_many(false);
        }
        let branch = self.branch_of(parent);
        let branch = self.branches.get_mut(branch);
        branch.literal_count -= 1;
        branch.literal_xor ^= child;
        self.edges.remove(self.seeds.hash_pair(parent, word), child);
    }

    /// Puts `new` in the place of `old` below `parent`; both start with `word`.
    fn replace_child(&mut self, parent: u32, word: u32, old: u32, new: u32) {
        if word == PLUS {
            self.set_plus(parent, new);
        } else {
            let branch = self.branch_of(parent);
            self.branches.get_mut(branch).literal_xor ^= old ^ new;
            let Self { edges, nodes, seeds, .. } = self;
            edges.replace(seeds.hash_pair(parent, word), old, new, |id| edge_hash(*seeds, nodes, id));
        }
    }
}
