//! Dropping filters that others cover.
//!
//! One walk over the trie carries, for each node, the *frontier*: the nodes of as many levels whose levels cover the
//! node's own, itself among them. A child's frontier follows from its parent's in two look-ups for each node of it, so
//! filters are never compared in pairs.
//!
//! ```text
//! at      frontier              filters that cover those at or below it: of the frontier's other nodes
//! a       a  +                  a filter that ends in # there covers all
//! a/b     a/b  a/+  +/b  +/+    a filter that ends there covers the one that ends here
//! ```
//!
//! What covers something that has been dropped is covered by what it was dropped for, or is that itself, so the order
//! of the walk does not matter. `a/#` and what is below it are at one node.

use super::trie::{NONE, Node, PLUS, Size, Trie};

/// The most nodes in a frontier besides its own. Where filters are so placed that more paths of wildcards lead on, some
/// that others cover are kept, which costs bytes but nothing else.
const FRONTIER_MAX: usize = 64;

/// A node still to be visited.
struct Visit {
    node: u32,
    /// Where its parent's frontier lies.
    start: usize,
    end: usize,
}

/// Drops every filter at or below `root` that another one there covers. Cost: a step for each node there and each node
/// of its frontier.
pub(super) fn drop_covered(trie: &mut Trie<'_>, root: u32) {
    let mut frontier = vec![root];
    let mut stack = Vec::new();
    enter(trie, root, 0, 1, &frontier, &mut stack);
    while let Some(Visit { node, start, end }) = stack.pop() {
        // Visits come depth first, so all behind the parent's frontier belongs to its other children.
        frontier.truncate(end);
        extend(trie, node, start, &mut frontier);
        enter(trie, node, end, frontier.len(), &frontier, &mut stack);
    }
}

/// Appends the frontier of `node`; its parent's is what lies behind `start`. The most general come first, the node
/// itself is the last.
fn extend(trie: &Trie<'_>, node: u32, start: usize, frontier: &mut Vec<u32>) {
    let end = frontier.len();
    let word = trie.nodes[node as usize].word;
    let words = [PLUS, word];
    // What leading wildcards do not match, only its own word does.
    for word in &words[usize::from(word == PLUS || trie.is_reserved(node))..] {
        for at in start..end {
            if let Some(child) = trie.child(frontier[at], *word)
                && child != node
                && frontier.len() - end < FRONTIER_MAX
            {
                frontier.push(child);
            }
        }
    }
    frontier.push(node);
}

/// Drops what is covered at and below `node`, whose frontier is given, and puts what is left below it on the stack.
fn enter(trie: &mut Trie<'_>, node: u32, start: usize, end: usize, frontier: &[u32], stack: &mut Vec<Visit>) {
    let others =
        || frontier[start..end].iter().filter(|&&general| general != node).map(|&general| general as usize);
    // `/#` is `/+/#`: what covers it may be one level further down.
    let is_more = trie.is_open(node) && trie.nodes[node as usize].ends_below;
    let is_covered = |general: usize| {
        let Node { ends_below, plus, .. } = trie.nodes[general];
        ends_below || is_more && plus != NONE && trie.nodes[plus as usize].ends_below
    };
    if others().any(is_covered) {
        trie.remove_subtree(node);
        return;
    }
    let is_ended = others().any(|general| trie.nodes[general].ends);
    let Size { mut filters, bytes } = trie.nodes[node as usize].size;
    let ends_below = trie.nodes[node as usize].ends_below;
    if trie.nodes[node as usize].ends && (is_ended || ends_below) {
        trie.nodes[node as usize].ends = false;
        filters -= 1;
        trie.change_size(node, Size { filters, bytes });
    }
    if ends_below {
        let covered: Vec<u32> = trie.children_of(node).filter(|&child| !trie.is_reserved(child)).collect();
        covered.into_iter().for_each(|child| trie.remove_subtree(child));
    }
    stack.extend(trie.children_of(node).map(|node| Visit { node, start, end }));
}
