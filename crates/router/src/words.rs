//! The words of filters as 32-bit ids.
//!
//! ```text
//! 0 .. 1,111,111,110              a word of up to nine decimal digits (or none): the word is in the id
//! 1,111,111,111 + 1 .. + 2^28-1   a word of up to four ASCII characters: likewise
//! 2^31 .. 2^31 + 2^27             an interned word
//! 2^32 - 3                        MANY: the wildcard for any number of words, inside a filter
//! 2^32 - 2                        UNKNOWN: a word that no filter here holds
//! 2^32 - 1                        PLUS: the wildcard for one word
//! ```
//!
//! **Invariant:** one word has one id. Numbers and short words, which is what most levels of most topics are, cost no
//! memory and no look-up.

use crate::interner::{Interner, Text};

/// The id of the wildcard for one word: `+` in MQTT, `*` in AMQP.
pub(crate) const PLUS: u32 = u32::MAX;

/// The id of a word that no filter in the dictionary holds.
pub(crate) const UNKNOWN: u32 = u32::MAX - 1;

/// The id of the wildcard for zero or more words, where it is not a filter's last. MQTT has none.
pub(crate) const MANY: u32 = u32::MAX - 2;

/// Ids from here on are interned.
const INTERNED_BASE: u32 = 1 << 31;

/// The longest number that is its own id.
const DIGITS_MAX: usize = 9;

/// The longest other word that is its own id.
const ASCII_MAX: usize = 4;

/// The id of the first number of each length: those of `n` digits follow the ones of fewer.
const DIGITS_BASE: [u32; DIGITS_MAX + 2] =
    [0, 1, 11, 111, 1_111, 11_111, 111_111, 1_111_111, 11_111_111, 111_111_111, 1_111_111_111];

/// Ids of short words that are not numbers follow the numbers.
const ASCII_BASE: u32 = DIGITS_BASE[DIGITS_MAX + 1];

/// How the filters of one tree are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grammar {
    /// What stands between words.
    pub(crate) separator: u8,
    /// The whole of a level that stands for one word.
    pub(crate) one: u8,
    /// The whole of a level that stands for zero or more words.
    pub(crate) many: u8,
}

/// MQTT topic filters [MQTT-4.7.1].
pub(crate) const MQTT: Grammar = Grammar { separator: b'/', one: b'+', many: b'#' };

/// AMQP topic patterns (AMQP 0-9-1 §3.1.3.3).
pub(crate) const AMQP: Grammar = Grammar { separator: b'.', one: b'*', many: b'#' };

/// Strings of bytes, of which none is a wildcard.
pub(crate) const BYTES: Grammar = Grammar { separator: 0, one: 0, many: 0 };

/// One level of the filters of a tree; all of a tree's are of one type.
pub(crate) trait Level: Copy {
    /// Its id, or [`UNKNOWN`] if no filter holds it.
    fn find(self, words: &Words) -> u32;
    /// Its id, used once more from now on.
    fn intern(self, words: &mut Words) -> u32;
}

/// A word, or a wildcard of the tree's grammar.
impl Level for &[u8] {
    fn find(self, words: &Words) -> u32 {
        words.find_level(self)
    }

    fn intern(self, words: &mut Words) -> u32 {
        words.intern_level(self)
    }
}

/// A byte, which is its own id. For trees of [`BYTES`] alone: in others the ids stand for other words.
impl Level for u8 {
    fn find(self, _: &Words) -> u32 {
        u32::from(self)
    }

    fn intern(self, _: &mut Words) -> u32 {
        u32::from(self)
    }
}

/// The words of one tree.
pub(crate) struct Words {
    pub(crate) grammar: Grammar,
    interner: Interner,
}

/// The id that a word is by itself, if it is short enough.
#[inline]
fn packed(word: &[u8]) -> Option<u32> {
    if word.len() > DIGITS_MAX {
        return None;
    }
    let mut number = 0u32;
    let mut is_number = true;
    for &byte in word {
        let digit = byte.wrapping_sub(b'0');
        is_number &= digit < 10;
        number = number.wrapping_mul(10).wrapping_add(u32::from(digit));
    }
    if is_number {
        return Some(DIGITS_BASE[word.len()] + number);
    }
    if word.len() > ASCII_MAX || !word.is_ascii() {
        return None;
    }
    let septets = word.iter().rev().fold(0, |septets, &byte| septets << 7 | u32::from(byte));
    Some(ASCII_BASE + septets)
}

impl Words {
    pub(crate) fn new(grammar: Grammar) -> Self {
        Self { grammar, interner: Interner::new() }
    }

    /// The id of a level that is a wildcard.
    fn wildcard(&self, level: &[u8]) -> Option<u32> {
        match *level {
            [byte] if byte == self.grammar.one => Some(PLUS),
            [byte] if byte == self.grammar.many => Some(MANY),
            _ => None,
        }
    }

    /// The id of a word as a topic has it: [`UNKNOWN`] if no filter holds it.
    #[inline]
    pub(crate) fn find(&self, word: &[u8]) -> u32 {
        packed(word)
            .or_else(|| self.interner.find(Text(word)).map(|id| INTERNED_BASE + id))
            .unwrap_or(UNKNOWN)
    }

    /// The id of a level of a filter: [`PLUS`] or [`MANY`] for a wildcard.
    pub(crate) fn find_level(&self, level: &[u8]) -> u32 {
        self.wildcard(level).unwrap_or_else(|| self.find(level))
    }

    /// The id of a level of a filter, used once more from now on.
    pub(crate) fn intern_level(&mut self, level: &[u8]) -> u32 {
        self.wildcard(level)
            .or_else(|| packed(level))
            .unwrap_or_else(|| INTERNED_BASE + self.interner.intern(Text(level)).0)
    }

    /// Uses a word once more.
    pub(crate) fn retain(&mut self, word: u32) {
        if is_interned(word) {
            self.interner.retain(word - INTERNED_BASE);
        }
    }

    /// Uses a word once less; with its last use it is forgotten.
    pub(crate) fn release(&mut self, word: u32) {
        if is_interned(word) {
            self.interner.release(word - INTERNED_BASE, |_| {});
        }
    }

    /// Appends the text of a word in use, or of a wildcard.
    pub(crate) fn append_text(&self, word: u32, text: &mut Vec<u8>) {
        if word == PLUS {
            text.push(self.grammar.one);
        } else if word == MANY {
            text.push(self.grammar.many);
        } else if is_interned(word) {
            let units = self.interner.get(word - INTERNED_BASE);
            text.extend(units.iter().flat_map(|unit| unit.to_le_bytes()).filter(|&byte| byte != 0));
        } else if word > ASCII_BASE {
            let mut septets = word - ASCII_BASE;
            while septets > 0 {
                text.push((septets & 0x7F) as u8);
                septets >>= 7;
            }
        } else {
            let len = DIGITS_BASE.partition_point(|&base| base <= word) - 1;
            let mut number = word - DIGITS_BASE[len];
            let end = text.len() + len;
            text.resize(end, b'0');
            for place in (end - len..end).rev() {
                text[place] = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
    }

    /// Bytes held, used or not.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.interner.memory_bytes()
    }
}

const fn is_interned(word: u32) -> bool {
    word >= INTERNED_BASE && word < MANY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: &Words, word: u32) -> String {
        let mut text = Vec::new();
        words.append_text(word, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn every_word_has_one_id_and_its_text_back() {
        let mut words = Words::new(MQTT);
        let long = "x".repeat(5000);
        let samples = [
            "",
            "0",
            "00",
            "9",
            "10",
            "007",
            "999999999",
            "1000000000",
            "0123456789",
            "a",
            "ab",
            "abc",
            "abcd",
            "abcde",
            "1a",
            "\u{1}",
            "\u{7f}\u{7f}\u{7f}\u{7f}",
            "é",
            "温度",
            "12345678é",
            "+",
            "#",
            "*",
            "temperature",
            &long,
        ];
        let ids: Vec<u32> = samples.iter().map(|word| words.intern_level(word.as_bytes())).collect();
        for (at, (&id, &word)) in ids.iter().zip(&samples).enumerate() {
            assert_eq!(text(&words, id), word);
            assert_eq!(words.find_level(word.as_bytes()), id);
            assert!(!ids[..at].contains(&id), "{word} shares its id");
        }
        for &id in &ids {
            words.release(id);
        }
        assert_eq!(words.find(b"temperature"), UNKNOWN);
        assert_eq!(words.memory_bytes(), 0);
    }

    #[test]
    fn a_word_lives_as_long_as_its_last_use() {
        let mut words = Words::new(MQTT);
        let id = words.intern_level(b"temperature");
        assert_eq!(words.intern_level(b"temperature"), id);
        words.release(id);
        assert_eq!(words.find(b"temperature"), id);
        words.release(id);
        assert_eq!(words.find(b"temperature"), UNKNOWN);
    }
}
