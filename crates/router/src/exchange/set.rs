//! Immutable lists that share what they have in common, so that a change copies little and readers keep what they have.

use std::sync::Arc;

/// Children of a full branch. Few, since a change of one copies the pointers to all, and counts a holder more for each.
const BRANCH: usize = 8;

/// A list of items. Cloning is O(1); a changed copy shares all but one or two paths with the original.
///
/// ```text
/// 1 item          in the set itself
/// up to LEAF      one leaf
/// more            branches of 8 over full leaves; only the last of each level may be less than full
/// ```
#[derive(Clone)]
pub(super) struct Set<T> {
    root: Node<T>,
}

#[derive(Clone)]
enum Node<T> {
    None,
    One(T),
    Leaf(Arc<[T]>),
    Branch {
        children: Arc<[Self]>,
        /// Items below.
        len: u32,
    },
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self { root: Node::None }
    }
}

impl<T> Set<T> {
    /// Items of a full leaf. Large items refer to something, which a copy of them has to visit.
    const LEAF: usize = if size_of::<T>() > 16 { 16 } else { 64 };

    pub(super) fn len(&self) -> usize {
        self.root.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        matches!(self.root, Node::None)
    }

    /// Levels of branches.
    fn height(&self) -> u32 {
        let leaves = self.len().div_ceil(Self::LEAF);
        let mut height = 0;
        let mut capacity = 1;
        while capacity < leaves {
            capacity *= BRANCH;
            height += 1;
        }
        height
    }

    /// Items that a child of a node of this height holds when it is full.
    const fn capacity_below(height: u32) -> usize {
        if height == 0 { 1 } else { Self::LEAF * BRANCH.pow(height - 1) }
    }

    /// The capacity below a child, of the capacity below its parent.
    const fn child_of(below: usize) -> usize {
        if below == Self::LEAF { 1 } else { below / BRANCH }
    }
}

impl<T: Clone> Set<T> {
    /// Shows every item, a run at a time, in order.
    #[inline]
    pub(super) fn visit(&self, visit: &mut impl FnMut(&[T])) {
        match &self.root {
            Node::None => {}
            Node::One(item) => visit(std::slice::from_ref(item)),
            Node::Leaf(items) => visit(items),
            Node::Branch { .. } => visit_node(&self.root, visit),
        }
    }

    /// The first item, if there is one. O(log n).
    #[inline]
    pub(super) fn first(&self) -> Option<&T> {
        let mut node = &self.root;
        loop {
            match node {
                Node::None => return None,
                Node::One(item) => return Some(item),
                Node::Leaf(items) => return items.first(),
                Node::Branch { children, .. } => node = children.first()?,
            }
        }
    }

    /// The item at a place that exists. O(log n).
    pub(super) fn get(&self, at: u32) -> &T {
        let mut node = &self.root;
        let mut at = at as usize;
        let mut below = Self::capacity_below(self.height());
        loop {
            match node {
                Node::One(item) => return item,
                Node::Leaf(items) => return &items[at],
                Node::Branch { children, .. } => {
                    node = &children[at / below];
                    at %= below;
                    below = Self::child_of(below);
                }
                Node::None => unreachable!("a place that exists is in a leaf"),
            }
        }
    }

    /// A copy with one more item at the end. O(log n).
    pub(super) fn with(&self, item: T) -> Self {
        let height = self.height();
        let is_full = !self.is_empty() && self.len() == Self::LEAF * BRANCH.pow(height);
        let root = match &self.root {
            Node::None => Node::One(item),
            root if is_full => branch([root.clone(), path_to(item, height)].into_iter().collect()),
            root => Self::pushed(root, item, Self::capacity_below(height)),
        };
        Self { root }
    }

    /// A copy with another item at a place that exists. O(log n).
    pub(super) fn with_replaced(&self, at: u32, item: T) -> Self {
        Self { root: Self::replaced(&self.root, at as usize, item, Self::capacity_below(self.height())) }
    }

    /// A copy without the item at a place that exists; the last item takes the place and is returned, unless it was
    /// the one to go. O(log n).
    pub(super) fn without(&self, at: u32) -> (Self, Option<T>) {
        let last = self.len() as u32 - 1;
        let moved = (at != last).then(|| self.get(last).clone());
        let put = moved.clone().map(|item| (at as usize, item));
        let root = Self::shortened(&self.root, put, Self::capacity_below(self.height()));
        // A branch with one child is that child, and a leaf of one item that item.
        let root = match root {
            Node::Branch { children, .. } if children.len() == 1 => children[0].clone(),
            Node::Leaf(items) if items.len() == 1 => Node::One(items[0].clone()),
            root => root,
        };
        (Self { root }, moved)
    }

    /// Bytes on the heap, those shared with other copies included. A step for each leaf.
    pub(super) fn memory_bytes(&self) -> usize {
        node_bytes(&self.root)
    }

    /// The node, which is not full, with an item more.
    fn pushed(node: &Node<T>, item: T, below: usize) -> Node<T> {
        match node {
            Node::None => Node::Leaf([item].into()),
            Node::One(first) => Node::Leaf([first.clone(), item].into()),
            Node::Leaf(items) => Node::Leaf(items.iter().cloned().chain([item]).collect()),
            Node::Branch { children, .. } => {
                let (last, kept) = children.split_last().expect("a branch has children");
                if last.len() == below {
                    let path = path_to(item, (below / Self::LEAF).ilog(BRANCH));
                    return branch(children.iter().cloned().chain([path]).collect());
                }
                let last = Self::pushed(last, item, Self::child_of(below));
                branch(kept.iter().cloned().chain([last]).collect())
            }
        }
    }

    fn replaced(node: &Node<T>, at: usize, item: T, below: usize) -> Node<T> {
        match node {
            Node::None => Node::None,
            Node::One(_) => Node::One(item),
            Node::Leaf(items) => Node::Leaf(replaced_in(items, at, item)),
            Node::Branch { children, len } => {
                let (place, at) = (at / below, at % below);
                let child = Self::replaced(&children[place], at, item, Self::child_of(below));
                Node::Branch { children: replaced_in(children, place, child), len: *len }
            }
        }
    }

    /// The node without its last item, and with another one at an earlier place.
    fn shortened(node: &Node<T>, put: Option<(usize, T)>, below: usize) -> Node<T> {
        match node {
            Node::None | Node::One(_) => Node::None,
            Node::Leaf(items) => match (&items[..items.len() - 1], put) {
                ([], _) => Node::None,
                (kept, None) => Node::Leaf(kept.into()),
                (kept, Some((at, item))) => Node::Leaf(replaced_in(kept, at, item)),
            },
            Node::Branch { children, .. } => {
                let (last, kept) = children.split_last().expect("a branch has children");
                let (mut put_in_kept, mut put_in_last) = (None, None);
                match put {
                    Some((at, item)) if at / below < kept.len() => {
                        let (place, at) = (at / below, at % below);
                        let child = Self::replaced(&kept[place], at, item, Self::child_of(below));
                        put_in_kept = Some((place, child));
                    }
                    put => put_in_last = put.map(|(at, item)| (at % below, item)),
                }
                let last = match Self::shortened(last, put_in_last, Self::child_of(below)) {
                    Node::None => None,
                    last => Some(last),
                };
                if kept.is_empty() && last.is_none() {
                    return Node::None;
                }
                branch(match put_in_kept {
                    None => kept.iter().cloned().chain(last).collect(),
                    Some((place, child)) => {
                        let before = kept[..place].iter().cloned();
                        let behind = kept[place + 1..].iter().cloned();
                        before.chain([child]).chain(behind).chain(last).collect()
                    }
                })
            }
        }
    }
}

impl<T> Node<T> {
    fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(_) => 1,
            Self::Leaf(items) => items.len(),
            Self::Branch { len, .. } => *len as usize,
        }
    }
}

fn branch<T>(children: Arc<[Node<T>]>) -> Node<T> {
    let len = children.iter().map(Node::len).sum::<usize>() as u32;
    Node::Branch { children, len }
}

fn visit_node<T>(node: &Node<T>, visit: &mut impl FnMut(&[T])) {
    match node {
        Node::None => {}
        Node::One(item) => visit(std::slice::from_ref(item)),
        Node::Leaf(items) => visit(items),
        Node::Branch { children, .. } => children.iter().for_each(|child| visit_node(child, visit)),
    }
}

fn path_to<T>(item: T, height: u32) -> Node<T> {
    (0..height).fold(Node::Leaf([item].into()), |node, _| branch([node].into()))
}

/// A copy of a slice with another item at a place.
fn replaced_in<U: Clone>(slice: &[U], at: usize, item: U) -> Arc<[U]> {
    slice[..at].iter().cloned().chain([item]).chain(slice[at + 1..].iter().cloned()).collect()
}

fn node_bytes<T>(node: &Node<T>) -> usize {
    // An `Arc` keeps two counts before its content.
    let counts = 2 * size_of::<usize>();
    match node {
        Node::None | Node::One(_) => 0,
        Node::Leaf(items) => counts + size_of_val(&**items),
        Node::Branch { children, .. } => {
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
        // Past 64 × 8 × 8 × 8 there are four levels of branches.
        let len_max = 64 * 8 * 8 * 8 + 130;
        let mut set = Set::default();
        let mut vector = Vec::new();
        let mut versions = Vec::new();
        for item in 0..len_max {
            if [0, 1, 2, 63, 64, 65, 512, 513, 4096, 4097].contains(&item) {
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
        for len in [1u32, 2, 64, 65, 512, 513, 4097, 5000] {
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
