//! The bindings of a topic exchange.

use super::ExchangeError;
use super::destination::{Dest, EXCHANGE, Sink, TWIN};
use crate::lock::Lock;
use crate::pattern::{PatternTree, RoutingPattern};
use crate::{Entry, TargetId};

/// Patterns to destinations, for any number of threads.
///
/// The tree holds one entry for each normalised pattern and destination. A further binding with the same of both (`#.#`
/// beside `#`, or other arguments) is a *twin*: it goes into the tree under a number of its own that leads to its
/// destination.
pub(super) struct Patterns {
    inner: Lock<Inner>,
}

struct Inner {
    tree: PatternTree,
    /// What the numbers of twins stand for.
    twins: Vec<Dest>,
    free_twins: Vec<u32>,
}

impl Patterns {
    pub(super) fn new() -> Self {
        Self {
            inner: Lock::new(Inner { tree: PatternTree::new(), twins: Vec::new(), free_twins: Vec::new() }),
        }
    }

    /// Delivers to the destinations of every pattern that the key matches. Holds the read lock for that long.
    pub(super) fn route(&self, key: &[u8], sink: &mut Sink<'_>) {
        self.inner.read(|inner| inner.route(key, sink));
    }

    /// Adds a binding; returns its number if it is a twin.
    pub(super) fn insert(&self, pattern: &[u8], dest: Dest) -> Option<u32> {
        self.inner.write(|inner| inner.insert(pattern, dest))
    }

    /// Changes the options of a binding that is there.
    pub(super) fn replace(&self, pattern: &[u8], dest: Dest, twin: Option<u32>) {
        self.inner.write(|inner| inner.replace(pattern, dest, twin));
    }

    /// Removes a binding that is there.
    pub(super) fn remove(&self, pattern: &[u8], to: u32, twin: Option<u32>) {
        self.inner.write(|inner| inner.remove(pattern, to, twin));
    }

    /// Bytes held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.inner.heap_bytes() + self.inner.read(Inner::memory_bytes)
    }
}

impl Inner {
    fn route(&self, key: &[u8], sink: &mut Sink<'_>) {
        let start = sink.out.len();
        self.tree.matches(key, sink.out);
        sink.found |= sink.out.len() > start;
        let is_special = |entry: &Entry| entry.target.0 & (EXCHANGE | TWIN) != 0;
        if !sink.out[start..].iter().any(is_special) {
            return;
        }
        let mut kept = start;
        for at in start..sink.out.len() {
            let Entry { target, options } = sink.out[at];
            let (to, options) = match target.0 {
                number if number & TWIN != 0 => {
                    let twin = self.twins[(number & !TWIN) as usize];
                    (twin.to, twin.options)
                }
                to => (to, options),
            };
            if to & EXCHANGE != 0 {
                sink.work.push(to & !EXCHANGE);
            } else {
                sink.out[kept] = Entry { target: TargetId(to), options };
                kept += 1;
            }
        }
        sink.out.truncate(kept);
    }

    fn insert(&mut self, pattern: &[u8], dest: Dest) -> Option<u32> {
        let previous = self.tree.insert(checked(pattern), TargetId(dest.to), dest.options)?;
        self.tree.insert(checked(pattern), TargetId(dest.to), previous);
        let twin = self.free_twins.pop().unwrap_or(self.twins.len() as u32);
        if twin as usize == self.twins.len() {
            self.twins.push(dest);
        } else {
            self.twins[twin as usize] = dest;
        }
        self.tree.insert(checked(pattern), TargetId(twin | TWIN), 0);
        Some(twin)
    }

    fn replace(&mut self, pattern: &[u8], dest: Dest, twin: Option<u32>) {
        match twin {
            Some(twin) => self.twins[twin as usize] = dest,
            None => {
                self.tree.insert(checked(pattern), TargetId(dest.to), dest.options);
            }
        }
    }

    fn remove(&mut self, pattern: &[u8], to: u32, twin: Option<u32>) {
        let number = twin.map_or(to, |twin| twin | TWIN);
        let removed = self.tree.remove(checked(pattern), TargetId(number));
        assert!(removed.is_some(), "a topic binding is in its exchange's tree");
        if let Some(twin) = twin {
            self.free_twins.push(twin);
            if self.free_twins.len() == self.twins.len() {
                self.twins = Vec::new();
                self.free_twins = Vec::new();
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes()
            + self.twins.capacity() * size_of::<Dest>()
            + self.free_twins.capacity() * size_of::<u32>()
    }
}

/// Checks a binding key.
///
/// # Errors
/// [`ExchangeError::Pattern`].
pub(super) fn check(pattern: &[u8]) -> Result<(), ExchangeError> {
    RoutingPattern::new(pattern)?;
    Ok(())
}

fn checked(pattern: &[u8]) -> RoutingPattern<'_> {
    RoutingPattern::new(pattern).expect("the pattern was checked before it was bound")
}

/// The words before the first wildcard, two at most, and their count; none if there is no wildcard.
pub(super) fn literal_prefix(pattern: &[u8]) -> Option<(usize, &[u8])> {
    let (mut end, mut prefix_end) = (0, 0);
    for (count, word) in pattern.split(|byte| *byte == b'.').enumerate() {
        if matches!(word, b"*" | b"#") {
            return Some((count.min(2), &pattern[..prefix_end]));
        }
        end += word.len();
        if count < 2 {
            prefix_end = end;
        }
        end += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_ends_before_the_first_wildcard() {
        for (pattern, prefix) in [
            ("#", Some((0, ""))),
            ("*.a", Some((0, ""))),
            ("a.#", Some((1, "a"))),
            ("a.b.*", Some((2, "a.b"))),
            ("a.b.c.#", Some((2, "a.b"))),
            (".#", Some((1, ""))),
            ("a..#", Some((2, "a."))),
            ("a.b.c", None),
            ("a*.#b", None),
            ("", None),
        ] {
            let expected = prefix.map(|(count, text): (usize, &str)| (count, text.as_bytes()));
            assert_eq!(literal_prefix(pattern.as_bytes()), expected, "{pattern}");
        }
    }
}
