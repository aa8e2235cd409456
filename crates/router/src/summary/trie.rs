//! The filters of a summary by their levels.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// The node of no levels.
pub(super) const ROOT: u32 = 0;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// The word `+`.
pub(super) const PLUS: u32 = 0;

/// What the filters that end at a node and below it take.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) filters: u64,
    /// Bytes of their texts behind the node's own levels.
    pub(super) bytes: u64,
}

impl Size {
    pub(super) const fn plus(self, other: Self) -> Self {
        Self { filters: self.filters + other.filters, bytes: self.bytes + other.bytes }
    }

    pub(super) const fn minus(self, other: Self) -> Self {
        Self { filters: self.filters - other.filters, bytes: self.bytes - other.bytes }
    }
}

/// A row of levels.
pub(super) struct Node {
    pub(super) parent: u32,
    pub(super) word: u32,
    /// The child by `+`.
    pub(super) plus: u32,
    /// The first of the children by literal words, and the node's own neighbours among its parent's.
    pub(super) first: u32,
    next: u32,
    previous: u32,
    /// The filter of these levels is in the set.
    pub(super) ends: bool,
    /// The filter of these levels and `#` is in the set.
    pub(super) ends_below: bool,
    pub(super) is_removed: bool,
    child_count: u32,
    /// The most children by literal words that it has had.
    pub(super) word_count: u32,
    pub(super) size: Size,
}

/// Filters by their levels, with sizes.
///
/// **Invariant:** each node's `size` is that of its own filters and its children's, and a child's filters are longer by
/// its word and a separator.
pub(super) struct Trie<'t> {
    pub(super) nodes: Vec<Node>,
    /// Children by literal words; those by `+` are in their parent.
    children: HashMap<(u32, u32), u32, RandomState>,
    words: Vec<&'t str>,
}

impl<'t> Trie<'t> {
    /// The trie of filters that are sorted by their bytes; nodes and words are numbered in that order.
    pub(super) fn new(texts: &[&'t str]) -> Self {
        let mut trie = Self { nodes: Vec::new(), children: HashMap::default(), words: vec!["+"] };
        trie.add_node(NONE, PLUS);
        let mut word_ids: HashMap<&str, u32, RandomState> = HashMap::default();
        word_ids.insert("+", PLUS);
        // The path of the filter before, by where its levels end: the next one mostly goes the same way for a while.
        let mut path: Vec<(usize, u32)> = Vec::new();
        let mut before = "";
        for &text in texts {
            let common = text.bytes().zip(before.bytes()).take_while(|(one, other)| one == other).count();
            let is_same =
                |end: usize| end <= common && text.as_bytes().get(end).is_none_or(|&byte| byte == b'/');
            path.truncate(path.iter().take_while(|&&(end, _)| is_same(end)).count());
            let (mut start, mut node) = path.last().map_or((0, ROOT), |&(end, node)| (end + 1, node));
            let mut ends_below = false;
            while start <= text.len() {
                let end = text[start..].find('/').map_or(text.len(), |len| start + len);
                let word = &text[start..end];
                start = end + 1;
                if word == "#" {
                    ends_below = true;
                    break;
                }
                let next_id = trie.words.len() as u32;
                let id = *word_ids.entry(word).or_insert(next_id);
                if id == next_id {
                    trie.words.push(word);
                }
                node = trie.child(node, id).unwrap_or_else(|| trie.add_node(node, id));
                path.push((end, node));
            }
            let node = &mut trie.nodes[node as usize];
            if ends_below {
                node.ends_below = true
            } else {
                node.ends = true
            }
            before = text;
        }
        trie.size_up();
        trie
    }

    /// Bytes of all filters, with `overhead` for each.
    pub(super) fn total_bytes(&self, overhead: usize) -> usize {
        let Size { filters, bytes } = self.nodes[ROOT as usize].size;
        // A filter's first level has no separator before it.
        (bytes + filters * overhead as u64 - filters) as usize
    }

    /// The text of every filter, in order.
    pub(super) fn texts(&self) -> Vec<String> {
        let mut texts = Vec::new();
        let mut text = String::new();
        // Nodes with how much of the text is their parent's.
        let mut stack = vec![(ROOT, 0)];
        while let Some((id, parent_len)) = stack.pop() {
            text.truncate(parent_len);
            let node = &self.nodes[id as usize];
            if id != ROOT {
                if node.parent != ROOT {
                    text.push('/');
                }
                text.push_str(self.words[node.word as usize]);
            }
            if node.ends {
                texts.push(text.clone());
            }
            if node.ends_below {
                texts.push(if id == ROOT { "#".to_owned() } else { format!("{text}/#") });
            }
            stack.extend(self.children_of(id).map(|child| (child, text.len())));
        }
        texts.sort_unstable();
        texts
    }

    /// The child by a word, literal or not.
    pub(super) fn child(&self, parent: u32, word: u32) -> Option<u32> {
        if word == PLUS {
            let plus = self.nodes[parent as usize].plus;
            return (plus != NONE).then_some(plus);
        }
        self.children.get(&(parent, word)).copied()
    }

    /// The children by literal words, the latest first.
    pub(super) fn literal_children(&self, parent: u32) -> impl Iterator<Item = u32> + '_ {
        let mut next = self.nodes[parent as usize].first;
        std::iter::from_fn(move || {
            let child = next;
            (child != NONE).then(|| {
                next = self.nodes[child as usize].next;
                child
            })
        })
    }

    /// All children.
    pub(super) fn children_of(&self, parent: u32) -> impl Iterator<Item = u32> + '_ {
        let plus = self.nodes[parent as usize].plus;
        self.literal_children(parent).chain((plus != NONE).then_some(plus))
    }

    /// Bytes of a node's word.
    pub(super) fn word_len(&self, node: u32) -> usize {
        self.words[self.nodes[node as usize].word as usize].len()
    }

    /// Whether leading wildcards do not match what is below a child of the root.
    pub(super) fn is_reserved(&self, node: u32) -> bool {
        let node = &self.nodes[node as usize];
        node.parent == ROOT && self.words[node.word as usize].starts_with('$')
    }

    /// Whether no topic ends at a node, since that would be the empty one: `#` there is `+/#`.
    pub(super) fn is_open(&self, node: u32) -> bool {
        node == ROOT || self.nodes[node as usize].parent == ROOT && self.word_len(node) == 0
    }

    /// Adds an empty node that is nobody's child yet by this word.
    pub(super) fn add_node(&mut self, parent: u32, word: u32) -> u32 {
        let id = u32::try_from(self.nodes.len()).expect("filters of fewer than four billion levels");
        self.nodes.push(Node {
            parent: NONE,
            word,
            plus: NONE,
            first: NONE,
            next: NONE,
            previous: NONE,
            ends: false,
            ends_below: false,
            is_removed: false,
            child_count: 0,
            word_count: 0,
            size: Size::default(),
        });
        if parent != NONE {
            self.link(id, parent);
        }
        id
    }

    /// Makes a node without parent a child by its word, which must be free there. Sizes are left as they are.
    pub(super) fn link(&mut self, id: u32, parent: u32) {
        let word = self.nodes[id as usize].word;
        self.nodes[id as usize].parent = parent;
        if word == PLUS {
            self.nodes[parent as usize].plus = id;
            return;
        }
        let above = &mut self.nodes[parent as usize];
        above.child_count += 1;
        above.word_count = above.word_count.max(above.child_count);
        let next = std::mem::replace(&mut above.first, id);
        self.nodes[id as usize].next = next;
        self.nodes[id as usize].previous = NONE;
        if next != NONE {
            self.nodes[next as usize].previous = id;
        }
        self.children.insert((parent, word), id);
    }

    /// Takes a node from its parent. Sizes are left as they are.
    pub(super) fn unlink(&mut self, id: u32) {
        let Node { parent, word, next, previous, .. } = self.nodes[id as usize];
        self.nodes[id as usize].parent = NONE;
        if word == PLUS {
            self.nodes[parent as usize].plus = NONE;
            return;
        }
        self.nodes[parent as usize].child_count -= 1;
        match previous {
            NONE => self.nodes[parent as usize].first = next,
            previous => self.nodes[previous as usize].next = next,
        }
        if next != NONE {
            self.nodes[next as usize].previous = previous;
        }
        self.children.remove(&(parent, word));
    }

    /// Removes a node that is linked, and all below it, from the trie and from the sizes above.
    pub(super) fn remove_subtree(&mut self, id: u32) {
        self.change_size(id, Size::default());
        self.unlink(id);
        self.mark_removed(id);
    }

    /// Notes of a node that is nobody's child that it is gone, and all below it.
    pub(super) fn mark_removed(&mut self, id: u32) {
        let mut stack = vec![id];
        while let Some(id) = stack.pop() {
            stack.extend(self.children_of(id));
            // What is removed can no longer be reached, and its number is not used again.
            self.nodes[id as usize].is_removed = true;
        }
    }

    /// Sets a node's size and corrects the sizes above it.
    pub(super) fn change_size(&mut self, id: u32, size: Size) {
        let before = std::mem::replace(&mut self.nodes[id as usize].size, size);
        let filters = size.filters.wrapping_sub(before.filters);
        let mut bytes = size.bytes.wrapping_sub(before.bytes);
        let mut node = id;
        while node != ROOT && (filters != 0 || bytes != 0) {
            bytes = bytes.wrapping_add(filters.wrapping_mul(1 + self.word_len(node) as u64));
            node = self.nodes[node as usize].parent;
            let above = &mut self.nodes[node as usize].size;
            above.filters = above.filters.wrapping_add(filters);
            above.bytes = above.bytes.wrapping_add(bytes);
        }
    }

    /// What the filters that end at a node itself take.
    pub(super) fn own_size(&self, id: u32) -> Size {
        let node = &self.nodes[id as usize];
        Size {
            filters: u64::from(node.ends) + u64::from(node.ends_below),
            bytes: if node.ends_below { 2 } else { 0 },
        }
    }

    /// What a child's filters take as its parent counts them.
    pub(super) fn size_in_parent(&self, child: u32) -> Size {
        let Size { filters, bytes } = self.nodes[child as usize].size;
        Size { filters, bytes: bytes + filters * (1 + self.word_len(child) as u64) }
    }

    /// Sets all sizes of a trie in which each parent is older than its children.
    fn size_up(&mut self) {
        for id in (0..self.nodes.len() as u32).rev() {
            let own = self.own_size(id);
            let size = &mut self.nodes[id as usize].size;
            size.filters += own.filters;
            size.bytes += own.bytes;
            if id != ROOT {
                let Size { filters, bytes } = self.size_in_parent(id);
                let parent = self.nodes[id as usize].parent;
                let above = &mut self.nodes[parent as usize].size;
                above.filters += filters;
                above.bytes += bytes;
            }
        }
    }
}
