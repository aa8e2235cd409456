//! The trie of filters.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use meridian_types::{TopicFilter, TopicName};
use smallvec::{SmallVec, smallvec};

use crate::index::{Entry, FilterId, TargetId};

/// One level of at least one filter; `#` and `+` are children like any other.
#[derive(Default)]
struct Node {
    parent: u32,
    word: Box<str>,
    children: HashMap<Box<str>, u32, foldhash::fast::RandomState>,
    targets: BTreeMap<TargetId, u32>,
}

/// Filters by level.
pub(crate) struct Tree {
    nodes: Vec<Node>,
    free: Vec<u32>,
    filter_count: usize,
    entry_count: usize,
}

const ROOT: u32 = 0;

impl Tree {
    pub(crate) fn new() -> Self {
        Self { nodes: vec![Node::default()], free: Vec::new(), filter_count: 0, entry_count: 0 }
    }

    pub(crate) const fn filter_count(&self) -> usize {
        self.filter_count
    }

    pub(crate) const fn entry_count(&self) -> usize {
        self.entry_count
    }

    pub(crate) fn insert(
        &mut self,
        filter: TopicFilter<'_>,
        target: TargetId,
        options: u32,
    ) -> (FilterId, Option<u32>) {
        let mut at = ROOT;
        for word in filter.levels() {
            at = match self.node(at).children.get(word) {
                Some(&child) => child,
                None => self.add_child(at, word),
            };
        }
        let targets = &mut self.nodes[at as usize].targets;
        let is_new_filter = targets.is_empty();
        let previous = targets.insert(target, options);
        self.filter_count += usize::from(is_new_filter);
        self.entry_count += usize::from(previous.is_none());
        (FilterId(at), previous)
    }

    pub(crate) fn remove(&mut self, filter: TopicFilter<'_>, target: TargetId) -> Option<(FilterId, u32)> {
        let mut at = ROOT;
        for word in filter.levels() {
            at = *self.node(at).children.get(word)?;
        }
        let options = self.nodes[at as usize].targets.remove(&target)?;
        self.entry_count -= 1;
        self.filter_count -= usize::from(self.node(at).targets.is_empty());
        let id = FilterId(at);
        while at != ROOT && self.node(at).targets.is_empty() && self.node(at).children.is_empty() {
            let Node { parent, word, .. } = std::mem::take(&mut self.nodes[at as usize]);
            self.nodes[parent as usize].children.remove(&word);
            self.free.push(at);
            at = parent;
        }
        Some((id, options))
    }

    pub(crate) fn filter_text(&self, filter: FilterId) -> Option<String> {
        let mut at = filter.0;
        if self.nodes.get(at as usize)?.targets.is_empty() {
            return None;
        }
        let mut words: Vec<&str> = Vec::new();
        while at != ROOT {
            words.push(&self.node(at).word);
            at = self.node(at).parent;
        }
        words.reverse();
        Some(words.join("/"))
    }

    pub(crate) fn matches(&self, topic: TopicName<'_>, out: &mut Vec<Entry>) {
        let levels: SmallVec<[&str; 16]> = topic.levels().collect();
        let mut pending: SmallVec<[(u32, usize); 16]> = smallvec![(ROOT, 0)];
        while let Some((at, depth)) = pending.pop() {
            let node = self.node(at);
            let wildcards_match = depth > 0 || !topic.is_reserved();
            if wildcards_match && let Some(&child) = node.children.get("#") {
                self.emit(child, out);
            }
            let Some(&word) = levels.get(depth) else {
                self.emit(at, out);
                continue;
            };
            if wildcards_match && let Some(&child) = node.children.get("+") {
                pending.push((child, depth + 1));
            }
            if let Some(&child) = node.children.get(word) {
                pending.push((child, depth + 1));
            }
        }
    }

    fn emit(&self, at: u32, out: &mut Vec<Entry>) {
        out.extend(self.node(at).targets.iter().map(|(&target, &options)| Entry { target, options }));
    }

    fn add_child(&mut self, parent: u32, word: &str) -> u32 {
        let node = Node { parent, word: word.into(), ..Node::default() };
        let child = if let Some(free) = self.free.pop() {
            self.nodes[free as usize] = node;
            free
        } else {
            self.nodes.push(node);
            u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 nodes")
        };
        self.nodes[parent as usize].children.insert(word.into(), child);
        child
    }

    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }
}
