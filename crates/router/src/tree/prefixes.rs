//! The walk of a text through a tree of prefixes, in which every level is a byte.

use crate::entry::Entry;
use crate::node::{Outline, Shape, Targets};
use crate::targets::NO_SET;

use super::{ROOT, Tree};

impl Tree {
    /// Appends the entries of every prefix of `text`, shorter ones first. A tree of prefixes only.
    ///
    /// Cost: the bytes of the longest prefix in common, and a step for each node on the way: one where prefixes part.
    pub(crate) fn matches_text(&self, text: &[u8], out: &mut Vec<Entry>) {
        if self.filter_count == 0 {
            return;
        }
        let (mut at, mut rest) = (ROOT, text);
        loop {
            let node = self.nodes.get(at);
            match node.targets() {
                Targets::Below(entry) => out.push(entry),
                Targets::Sets { below, .. } if below != NO_SET => self.sets.append(below, out),
                _ => {}
            }
            if let Outline::Whole(Shape::Leaf { .. }) = node.outline() {
                return;
            }
            let Some((&first, behind)) = rest.split_first() else { return };
            let Some(child) = self.literal_child(at, u32::from(first)) else { return };
            let tail = self.labels.tail(self.tail_of(self.nodes.get(child)));
            let Some((label, behind)) = behind.split_at_checked(tail.len()) else { return };
            if tail.iter().zip(label).any(|(&word, &byte)| word != u32::from(byte)) {
                return;
            }
            (at, rest) = (child, behind);
        }
    }
}
