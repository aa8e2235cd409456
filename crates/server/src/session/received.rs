//! Packet ids of QoS 2 messages received and not yet released.

use std::collections::BTreeMap;

/// A set of packet ids. Clients hand them out in sequence, so they are kept as bitmaps of 256 neighbours: all there are
/// take 12 KiB at most, which is why they count against no bound of memory.
#[derive(Debug, Default)]
pub(super) struct PacketIds {
    pages: BTreeMap<u8, [u64; 4]>,
    count: usize,
}

impl PacketIds {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Whether `id` is among them.
    pub(super) fn contains(&self, id: u16) -> bool {
        let (page, word, bit) = place(id);
        self.pages.get(&page).is_some_and(|words| words[word] & bit != 0)
    }

    /// Adds `id`; nothing happens if it is there.
    pub(super) fn insert(&mut self, id: u16) {
        let (page, word, bit) = place(id);
        let words = self.pages.entry(page).or_default();
        self.count += usize::from(words[word] & bit == 0);
        words[word] |= bit;
    }

    /// Removes `id`. Returns whether it was there.
    pub(super) fn remove(&mut self, id: u16) -> bool {
        let (page, word, bit) = place(id);
        let Some(words) = self.pages.get_mut(&page).filter(|words| words[word] & bit != 0) else {
            return false;
        };
        words[word] &= !bit;
        self.count -= 1;
        if *words == [0; 4] {
            self.pages.remove(&page);
        }
        true
    }
}

/// Page, word of the page, bit of the word.
fn place(id: u16) -> (u8, usize, u64) {
    let [page, rest] = id.to_be_bytes();
    (page, usize::from(rest / 64), 1 << (rest % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn it_is_a_set() {
        let (mut ids, mut model) = (PacketIds::default(), HashSet::new());
        let mut chance = 1_u32;
        for _ in 0..20_000 {
            chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Few enough that half of them are there, spread over pages and words.
            let id = (chance >> 16) as u16 & 0xC3C3;
            if chance & 0x8000 == 0 {
                ids.insert(id);
                model.insert(id);
            } else {
                assert_eq!(ids.remove(id), model.remove(&id));
            }
            assert_eq!((ids.contains(id), ids.len()), (model.contains(&id), model.len()));
        }
        assert!(!model.is_empty());
        model.iter().for_each(|&id| assert!(ids.remove(id)));
        assert!(ids.pages.is_empty(), "its memory is given back");
    }
}
