//! AMQP topic patterns: `*` is one word, `#` any number of words, anywhere and often.
//!
//! What decides whether `general` covers `special` are the stretches of `general` between its `#`s:
//!
//! ```text
//! general   a . * . # . b . * . c . # . * . d         special   a . x . b . # . b . y . c . d . d
//!           ╰┬╯       ╰────┬────╯       ┬                       ╰┬╯             ╰────┬────╯       ┬
//!           start        inner         end                     start               inner         end
//!           and one word at least between each: a `*` beside a `#` asks for one word more, wherever it comes
//! ```
//!
//! The first must be what `special` starts with, the last what it ends with, each other one is looked for behind the
//! one before, and the earliest place is the best. No stretch may reach over a `#` of `special`: where it does, words
//! can be put there that are in no pattern and so fit nothing. A gap counts a `#` of `special` as no words, since it
//! may be none. For each `#` of `special` at most one of these is asked, so together they are exact: if a place is
//! refused, there is a key that `special` matches and `general` does not.

use smallvec::SmallVec;

use crate::pattern::{RoutingPattern, words_of};

const ONE: &[u8] = b"*";
const MANY: &[u8] = b"#";

type Words<'a> = SmallVec<[&'a [u8]; 16]>;

/// Whether every key that `special` matches is matched by `general` (AMQP 0-9-1 §3.1.3.3).
///
/// Cost: at most the words of one times the words of the other in comparisons of words, and near their sum unless
/// `general` repeats itself; two allocations for patterns of more than 16 words.
///
/// ```
/// use meridian_router::RoutingPattern;
/// use meridian_router::algebra::pattern_covers;
///
/// let pattern = |text: &'static str| RoutingPattern::new(text.as_bytes()).unwrap();
/// assert!(pattern_covers(pattern("#.error"), pattern("*.db.#.error")));
/// assert!(pattern_covers(pattern("#.*"), pattern("*.#")));
/// assert!(!pattern_covers(pattern("*.#"), pattern("#")));
/// ```
pub fn pattern_covers(general: RoutingPattern<'_>, special: RoutingPattern<'_>) -> bool {
    let general: Words<'_> = words_of(general.as_bytes()).collect();
    let special = Target::of(special);
    let mut parts = general.split(|&word| word == MANY);
    let first = parts.next().expect("a split has a first part");
    let Some(last) = parts.next_back() else {
        return special.is_closed() && first.len() == special.words.len() && special.has_at(0, first);
    };
    let start = trim_end(first);
    if !start.is_empty() && (special.is_open[0] || !special.has_at(0, start)) {
        return false;
    }
    let mut position = start.len();
    // Words that the gap before the next stretch must have.
    let mut gap = first.len() - start.len();
    for part in parts {
        let from_literal = trim_start(part);
        gap += part.len() - from_literal.len();
        let stretch = trim_end(from_literal);
        if stretch.is_empty() {
            continue;
        }
        let Some(place) = special.find(position + gap, stretch) else { return false };
        position = place + stretch.len();
        gap = from_literal.len() - stretch.len();
    }
    let end = trim_start(last);
    gap += last.len() - end.len();
    let Some(place) = special.words.len().checked_sub(end.len()) else { return false };
    place >= position + gap
        && (end.is_empty() || !special.is_open[special.words.len()] && special.has_at(place, end))
}

/// Whether some key is matched by both patterns.
///
/// Cost: the words of one times the words of the other in steps, each at most one comparison of words; two allocations
/// for patterns of more than 64 words.
///
/// ```
/// use meridian_router::RoutingPattern;
/// use meridian_router::algebra::pattern_intersects;
///
/// let pattern = |text: &'static str| RoutingPattern::new(text.as_bytes()).unwrap();
/// assert!(pattern_intersects(pattern("db.#"), pattern("#.error")));
/// assert!(!pattern_intersects(pattern("db.*"), pattern("db")));
/// ```
pub fn pattern_intersects(one: RoutingPattern<'_>, other: RoutingPattern<'_>) -> bool {
    let one: Words<'_> = words_of(one.as_bytes()).collect();
    let other: Words<'_> = words_of(other.as_bytes()).collect();
    // Whether the rest of both can be the same key, for one rest of `one` and every rest of `other`, from the end.
    let mut below: SmallVec<[bool; 65]> = SmallVec::from_elem(false, other.len() + 1);
    let mut row = below.clone();
    for at in (0..=one.len()).rev() {
        let word = one.get(at).copied();
        for column in (0..=other.len()).rev() {
            let facing = other.get(column).copied();
            row[column] = match (word, facing) {
                (None, None) => true,
                (Some(MANY), None) => below[column],
                (None, Some(MANY)) => row[column + 1],
                // The `#` ends here, or it takes the word that faces it.
                (Some(MANY), Some(_)) | (Some(_), Some(MANY)) => below[column] || row[column + 1],
                (Some(word), Some(facing)) => {
                    below[column + 1] && (word == ONE || facing == ONE || word == facing)
                }
                _ => false,
            };
        }
        std::mem::swap(&mut row, &mut below);
    }
    below[0]
}

/// A pattern as that which is to be covered.
struct Target<'a> {
    /// Its words but for the `#`s.
    words: Words<'a>,
    /// Whether there is a `#` before each word, and at last behind all.
    is_open: SmallVec<[bool; 17]>,
}

impl<'a> Target<'a> {
    fn of(pattern: RoutingPattern<'a>) -> Self {
        let mut target = Self { words: SmallVec::new(), is_open: SmallVec::from_elem(false, 1) };
        for word in words_of(pattern.as_bytes()) {
            if word == MANY {
                *target.is_open.last_mut().expect("never empty") = true;
            } else {
                target.words.push(word);
                target.is_open.push(false);
            }
        }
        target
    }

    /// Whether it matches keys of one length only.
    fn is_closed(&self) -> bool {
        !self.is_open.contains(&true)
    }

    /// Whether a stretch without `#` takes the words at a place, with no `#` in between.
    fn has_at(&self, place: usize, stretch: &[&[u8]]) -> bool {
        let end = place + stretch.len();
        end <= self.words.len()
            && stretch
                .iter()
                .zip(&self.words[place..end])
                .all(|(&wanted, &word)| wanted == ONE || wanted == word)
            && !self.is_open[place..end].iter().skip(1).any(|&is_open| is_open)
    }

    /// The first place from `from` on where a stretch fits.
    fn find(&self, from: usize, stretch: &[&[u8]]) -> Option<usize> {
        (from..=self.words.len().checked_sub(stretch.len())?).find(|&place| self.has_at(place, stretch))
    }
}

/// Without the `*`s at its beginning.
fn trim_start<'a, 'w>(part: &'a [&'w [u8]]) -> &'a [&'w [u8]] {
    let count = part.iter().take_while(|&&word| word == ONE).count();
    &part[count..]
}

/// Without the `*`s at its end.
fn trim_end<'a, 'w>(part: &'a [&'w [u8]]) -> &'a [&'w [u8]] {
    let count = part.iter().rev().take_while(|&&word| word == ONE).count();
    &part[..part.len() - count]
}
