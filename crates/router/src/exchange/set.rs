//! Immutable lists that share what they have in common, so that a change copies little and readers keep what they have.

use std::sync::Arc;

/// Items of a full leaf.
const LEAF: usize = 64;

/// Children of a full branch.
const BRANCH: usize = 32;

/// A list of items. Cloning is O(1); a changed copy shares all but one path with the original.
///
/// ```text
/// 1 item          in the node itself
/// up to 64        one leaf
/// more            branches of 32 over full leaves; only the last of each level may be less than full
/// ```
#[derive(Clone)]
pub(super) struct Set<T> {
    root: Node<T>,
    len: u32,
}

#[derive(Clone)]
enum Node<T> {
    None,
    One(T),
    Leaf(Arc<[T]>),
    Branch(Arc<[Self]>),
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self { root: Node::None, len: 0 }
    }
}

impl<T: Clone> Set<T> {
    pub(super) const fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Shows every item, a run at a time, in order.
    #[inline]
    pub(super) fn visit(&self, visit: &mut impl FnMut(&[T])) {
        match &self.root {
            Node::None => {}
            Node::One(item) => visit(std::slice::from_ref(item)),
            Node::Leaf(items) => visit(items),
            Node::Branch(_) => visit_node(&self.root, visit),
        }
    }

    /// The item at a place that exists. O(log n).
    pub(super) fn get(&self, at: u32) -> &T {
        let mut node = &self.root;
        let mut at = at as usize;
        let mut below = capacity_below(self.height());
        loop {
            match node {
                Node::One(item) => return item,
                Node::Leaf(items) => return &items[at],
                Node::Branch(children) => {
                    node = &children[at / below];
                    at %= below;
                    below /= BRANCH;
                }
                Node::None => unreachable!("a place that exists is in a leaf"),
            }
        }
    }

    /// A copy with one more item at the end. O(log n).
    pub(super) fn with(&self, item: T) -> Self {
        let root = match &self.root {
            Node::None => Node::One(item),
            root if self.len() == LEAF * BRANCH.pow(self.height()) => {
                let path = path_to(item, self.height());
                Node::Branch([root.clone(), path].into_iter().collect())
            }
            root => pushed(root, item, self.len(), capacity_below(self.height())),
        };
        Self { root, len: self.len + 1 }
    }

    /// A copy with another item at a place that exists. O(log n).
    pub(super) fn with_replaced(&self, at: u32, item: T) -> Self {
        let root = replaced(&self.root, at as usize, item, capacity_below(self.height()));
        Self { root, len: self.len }
    }

    /// A copy without the item at a place that exists; the last item takes the place and is returned, unless it was
    /// the one to go. O(log n).
    pub(super) fn without(&self, at: u32) -> (Self, Option<T>) {
        let last = self.len - 1;
        let shorter = self.without_last();
        if at == last {
            return (shorter, None);
        }
        let moved = self.get(last).clone();
        (shorter.with_replaced(at, moved.clone()), Some(moved))
    }

    /// Bytes on the heap, those shared with other copies included. O(n / 64).
    pub(super) fn memory_bytes(&self) -> usize {
        node_bytes(&self.root)
    }

    fn without_last(&self) -> Self {
        let len = self.len - 1;
        let mut root = match &self.root {
            _ if len == 0 => Node::None,
            root => popped(root, self.len(), capacity_below(self.height())),
        };
        // A branch with one child is that child.
        if let Node::Branch(children) = &root
            && let [child] = &**children
        {
            root = child.clone();
        }
        Self { root, len }
    }

    /// Levels of branches.
    const fn height(&self) -> u32 {
        let leaves = self.len().div_ceil(LEAF);
        let mut height = 0;
        let mut capacity = 1;
        while capacity < leaves {
            capacity *= BRANCH;
            height += 1;
        }
        height
    }
}

/// Items that a child of a node of this height holds when it is full.
const fn capacity_below(height: u32) -> usize {
    if height == 0 { 1 } else { LEAF * BRANCH.pow(height - 1) }
}

fn visit_node<T>(node: &Node<T>, visit: &mut impl FnMut(&[T])) {
    match node {
        Node::None => {}
        Node::One(item) => visit(std::slice::from_ref(item)),
        Node::Leaf(items) => visit(items),
        Node::Branch(children) => children.iter().for_each(|child| visit_node(child, visit)),
    }
}

fn path_to<T: Clone>(item: T, height: u32) -> Node<T> {
    let leaf = Node::Leaf(std::iter::once(item).collect());
    (0..height).fold(leaf, |node, _| Node::Branch(std::iter::once(node).collect()))
}

/// The node with an item more. `len` is the count of items in it, less than it can hold.
fn pushed<T: Clone>(node: &Node<T>, item: T, len: usize, below: usize) -> Node<T> {
    match node {
        Node::None => Node::Leaf(std::iter::once(item).collect()),
        Node::One(first) => Node::Leaf([first.clone(), item].into_iter().collect()),
        Node::Leaf(items) => Node::Leaf(items.iter().cloned().chain([item]).collect()),
        Node::Branch(children) => {
            let in_last = len - (children.len() - 1) * below;
            if in_last == below {
                let height = (below / LEAF).ilog(BRANCH);
                return Node::Branch(children.iter().cloned().chain([path_to(item, height)]).collect());
            }
            let last = pushed(&children[children.len() - 1], item, in_last, child_of(below));
            let kept = &children[..children.len() - 1];
            Node::Branch(kept.iter().cloned().chain([last]).collect())
        }
    }
}

/// The node without its last item. `len` is the count of items in it, at least two.
fn popped<T: Clone>(node: &Node<T>, len: usize, below: usize) -> Node<T> {
    match node {
        Node::None | Node::One(_) => Node::None,
        Node::Leaf(items) if len == 2 => Node::One(items[0].clone()),
        Node::Leaf(items) => Node::Leaf(items[..items.len() - 1].iter().cloned().collect()),
        Node::Branch(children) => {
            let (last, kept) = children.split_last().expect("a branch has children");
            let in_last = len - kept.len() * below;
            if in_last == 1 {
                return Node::Branch(kept.iter().cloned().collect());
            }
            let last = match popped(last, in_last, child_of(below)) {
                // Leaves below a branch stay leaves.
                Node::One(item) => Node::Leaf(std::iter::once(item).collect()),
                last => last,
            };
            Node::Branch(kept.iter().cloned().chain([last]).collect())
        }
    }
}

fn replaced<T: Clone>(node: &Node<T>, at: usize, item: T, below: usize) -> Node<T> {
    let but = |place: usize, len: usize| (0..len).map(move |index| (index, index == place));
    match node {
        Node::None => Node::None,
        Node::One(_) => Node::One(item),
        Node::Leaf(items) => {
            let pick =
                |(index, is_it): (usize, bool)| if is_it { item.clone() } else { items[index].clone() };
            Node::Leaf(but(at, items.len()).map(pick).collect())
        }
        Node::Branch(children) => {
            let child = replaced(&children[at / below], at % below, item, child_of(below));
            let pick = |(index, is_it): (usize, bool)| if is_it { &child } else { &children[index] };
            Node::Branch(but(at / below, children.len()).map(pick).cloned().collect())
        }
    }
}

/// The capacity below a child, of the capacity below its parent.
const fn child_of(below: usize) -> usize {
    if below == LEAF { 1 } else { below / BRANCH }
}

fn node_bytes<T>(node: &Node<T>) -> usize {
    // An `Arc` keeps two counts before its content.
    let counts = 2 * size_of::<usize>();
    match node {
        Node::None | Node::One(_) => 0,
        Node::Leaf(items) => counts + size_of_val(&**items),
        Node::Branch(children) => {
            counts + size_of_val(&**children) + children.iter().map(node_bytes).sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(set: &Set<u32>) -> Vec<u32> {
        let mut items = Vec::new();
        set.visit(&mut |run: &[u32]| items.extend_from_slice(run));
        items
    }

    #[test]
    fn sets_of_every_height_agree_with_a_vector() {
        // Past 64 × 32 × 32 there are three levels of branches.
        let len_max = 64 * 32 * 32 + 130;
        let mut set = Set::default();
        let mut vector = Vec::new();
        let mut versions = Vec::new();
        for item in 0..len_max {
            if [0, 1, 2, 63, 64, 65, 2048, 2049].contains(&item) {
                versions.push((set.clone(), vector.clone()));
            }
            set = set.with(item);
            vector.push(item);
        }
        assert_eq!(items(&set), vector);
        let mut state = 1u64;
        while !vector.is_empty() {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            let at = (state >> 33) as usize % vector.len();
            assert_eq!(*set.get(at as u32), vector[at]);
            let is_last = at + 1 == vector.len();
            let (shorter, moved) = set.without(at as u32);
            vector.swap_remove(at);
            assert_eq!(moved, if is_last { None } else { Some(vector[at]) });
            set = shorter;
            if vector.len().is_multiple_of(4096) || vector.len() < 70 {
                assert_eq!(items(&set), vector);
            }
            assert_eq!(set.len(), vector.len());
        }
        assert!(set.is_empty() && set.memory_bytes() == 0);
        for (set, vector) in versions {
            assert_eq!(items(&set), vector, "an older version changed");
        }
    }

    #[test]
    fn an_item_is_replaced_in_place() {
        for len in [1u32, 2, 64, 65, 2048, 2049, 5000] {
            let mut set = (0..len).fold(Set::default(), |set, item| set.with(item));
            for at in [0, len / 2, len - 1] {
                set = set.with_replaced(at, at + 100_000);
            }
            for at in 0..len {
                let is_replaced = [0, len / 2, len - 1].contains(&at);
                assert_eq!(*set.get(at), if is_replaced { at + 100_000 } else { at });
            }
        }
    }
}
