//! The nodes of a tree.

use crate::arena::Slot;
use crate::entry::{Entry, TargetId};
use crate::targets::{NO_SET, SetId};

/// Node ids are below this.
pub(crate) const NODE_ID_LIMIT: u32 = crate::table::ID_LIMIT;

/// No node, no tail.
pub(crate) const NONE: u32 = u32::MAX;

const PARENT_MASK: u32 = (1 << 27) - 1;
const BRANCH: u32 = 1 << 27;
const KIND_SHIFT: u32 = 28;
const KIND_MASK: u32 = 0b11 << KIND_SHIFT;
const LEADS_TO_MANY: u32 = 1 << 30;
const FREE: u32 = 1 << 31;

const KIND_NONE: u32 = 0;
const KIND_HERE: u32 = 1;
const KIND_BELOW: u32 = 2;
const KIND_SETS: u32 = 3;

/// A place in the tree, 20 bytes:
///
/// ```text
///          31    30    29..28  27      26 .. 0
/// up       free  many  kind    branch  parent
/// word     the label's first word
///
///          leaf            branch with targets   branch without
/// link     tail            branch id             tail
/// first    target or set   target or set         child by `+`
/// second   options or set  options or set        branch id
/// ```
///
/// With kind one, `first` and `second` are the target and its options; with kind sets, the set of the filter that ends
/// here and of the one that ends in `#` below, or [`NO_SET`]. A branch without targets, which most are, repeats here
/// what a look-up needs of its [`Branch`], so as not to read it.
///
/// Bit `many` says that a child's label starts with the wildcard for many words, which is found as a literal word is.
///
/// The label is the row of words from the parent to here: the word, then the tail's.
#[derive(Clone, Copy)]
pub(crate) struct Node {
    up: u32,
    /// The first word of the label.
    pub(crate) word: u32,
    link: u32,
    first: u32,
    second: u32,
}

/// How a node goes on.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// Without children.
    Leaf {
        /// The rest of its label, or [`NONE`].
        tail: u32,
    },
    /// With children, and a [`Branch`] whose `tail` and `plus` are repeated here.
    Branch {
        /// The branch's id.
        id: u32,
        /// The rest of its label, or [`NONE`].
        tail: u32,
        /// The child by `+`, or [`NONE`].
        plus: u32,
    },
}

/// What a node says of its shape by itself.
#[derive(Clone, Copy)]
pub(crate) enum Outline {
    /// All there is to know.
    Whole(Shape),
    /// It is the branch with this id.
    BranchId(u32),
}

/// The targets of the two filters that may end at a node: `node` and `node/#`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Targets {
    /// Neither filter is held.
    None,
    /// `node`, for one target.
    Here(Entry),
    /// `node/#`, for one target.
    Below(Entry),
    /// Anything more. Not both are [`NO_SET`].
    Sets {
        /// The targets of `node`.
        here: SetId,
        /// The targets of `node/#`.
        below: SetId,
    },
}

impl Node {
    /// A leaf without targets.
    pub(crate) const fn new(parent: u32, word: u32, tail: u32) -> Self {
        Self { up: parent, word, link: tail, first: 0, second: 0 }
    }

    #[inline]
    pub(crate) const fn parent(&self) -> u32 {
        self.up & PARENT_MASK
    }

    pub(crate) const fn set_parent(&mut self, parent: u32) {
        self.up = self.up & !PARENT_MASK | parent;
    }

    /// Whether a child's label starts with the wildcard for many words.
    #[inline]
    pub(crate) const fn leads_to_many(&self) -> bool {
        self.up & LEADS_TO_MANY != 0
    }

    pub(crate) const fn set_leads_to_many(&mut self, leads: bool) {
        self.up = if leads { self.up | LEADS_TO_MANY } else { self.up & !LEADS_TO_MANY };
    }

    #[inline]
    const fn kind(&self) -> u32 {
        (self.up & KIND_MASK) >> KIND_SHIFT
    }

    #[inline]
    pub(crate) const fn outline(&self) -> Outline {
        if self.up & BRANCH == 0 {
            Outline::Whole(Shape::Leaf { tail: self.link })
        } else if self.kind() == KIND_NONE {
            Outline::Whole(Shape::Branch { id: self.second, tail: self.link, plus: self.first })
        } else {
            Outline::BranchId(self.link)
        }
    }

    #[inline]
    pub(crate) const fn targets(&self) -> Targets {
        let entry = Entry { target: TargetId(self.first), options: self.second };
        match self.kind() {
            KIND_NONE => Targets::None,
            KIND_HERE => Targets::Here(entry),
            KIND_BELOW => Targets::Below(entry),
            _ => Targets::Sets { here: self.first, below: self.second },
        }
    }

    /// Sets everything but parent, word and the bit `many`.
    pub(crate) const fn set(&mut self, targets: Targets, shape: Shape) {
        let kind;
        (kind, self.first, self.second) = match targets {
            Targets::None | Targets::Sets { here: NO_SET, below: NO_SET } => (KIND_NONE, 0, 0),
            Targets::Here(entry) => (KIND_HERE, entry.target.0, entry.options),
            Targets::Below(entry) => (KIND_BELOW, entry.target.0, entry.options),
            Targets::Sets { here, below } => (KIND_SETS, here, below),
        };
        self.up = self.up & (PARENT_MASK | LEADS_TO_MANY) | kind << KIND_SHIFT;
        match shape {
            Shape::Leaf { tail } => self.link = tail,
            Shape::Branch { id, tail, plus } => {
                self.up |= BRANCH;
                if kind == KIND_NONE {
                    (self.link, self.first, self.second) = (tail, plus, id);
                } else {
                    self.link = id;
                }
            }
        }
    }
}

impl Slot for Node {
    fn free(next: u32) -> Self {
        Self { up: FREE, word: next, link: NONE, first: 0, second: 0 }
    }

    fn next_free(&self) -> Option<u32> {
        (self.up & FREE != 0).then_some(self.word)
    }
}

/// What a node with children has besides, 16 bytes.
#[derive(Clone, Copy)]
pub(crate) struct Branch {
    /// The rest of the node's label, or [`NONE`].
    pub(crate) tail: u32,
    /// The child whose label starts with `+`, or [`NONE`].
    pub(crate) plus: u32,
    /// Children whose labels start with anything else; they are found in the table of edges.
    pub(crate) literal_count: u32,
    /// Their ids, exclusive-ored: with one child, its id.
    pub(crate) literal_xor: u32,
}

impl Branch {
    /// Without children.
    pub(crate) const fn new(tail: u32) -> Self {
        Self { tail, plus: NONE, literal_count: 0, literal_xor: 0 }
    }

    /// The only child, if there is just one.
    pub(crate) const fn only_child(&self) -> Option<u32> {
        match (self.literal_count, self.plus) {
            (1, NONE) => Some(self.literal_xor),
            (0, NONE) => None,
            (0, plus) => Some(plus),
            _ => None,
        }
    }

    /// Whether it has no child.
    pub(crate) const fn is_childless(&self) -> bool {
        self.literal_count == 0 && self.plus == NONE
    }
}

impl Slot for Branch {
    fn free(next: u32) -> Self {
        Self { tail: next, plus: NONE, literal_count: u32::MAX, literal_xor: 0 }
    }

    fn next_free(&self) -> Option<u32> {
        (self.literal_count == u32::MAX).then_some(self.tail)
    }
}
