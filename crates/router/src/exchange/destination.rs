//! Where bindings lead, as the routing structures hold it, and what collects it.

use super::bytes::Bytes;
use super::pages::Element;
use super::rows::Item;
use super::set::Set;
use crate::{Entry, TargetId};

/// The bit of a destination's number that marks an exchange.
pub(super) const EXCHANGE: u32 = 1 << 31;

/// The bit that marks a twin in the tree of a topic exchange.
pub(super) const TWIN: u32 = 1 << 30;

/// No exchange.
pub(super) const NO_EXCHANGE: u32 = u32::MAX;

/// Where a binding leads, as the routing structures hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dest {
    /// A target, or an exchange with [`EXCHANGE`].
    pub(super) to: u32,
    pub(super) options: u32,
    /// The binding's record.
    pub(super) binding: u32,
}

impl Element for Dest {
    type Page = [Self; if cfg!(all(test, loom)) { 2 } else { 64 }];
}

impl Item for Dest {
    type Key = Bytes;

    fn key_of(key: &[u8]) -> Bytes {
        key.into()
    }

    #[inline]
    fn has_key(kept: &Bytes, _: &Self, key: &[u8]) -> bool {
        **kept == *key
    }

    fn heap_bytes(kept: &Bytes) -> usize {
        kept.heap_bytes()
    }
}

/// Exchanges to visit, each once.
#[derive(Default)]
pub(super) struct Work {
    /// Visited, and from `next` on to be visited.
    queue: Vec<u32>,
    next: usize,
    /// A bit for each exchange in `queue`.
    seen: Vec<u64>,
}

impl Work {
    #[inline]
    pub(super) fn push(&mut self, exchange: u32) {
        let (word, bit) = (exchange as usize / 64, 1 << (exchange % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit == 0 {
            self.seen[word] |= bit;
            self.queue.push(exchange);
        }
    }

    /// Exchanges visited or to be visited.
    pub(super) const fn len(&self) -> usize {
        self.queue.len()
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        let exchange = *self.queue.get(self.next)?;
        self.next += 1;
        Some(exchange)
    }

    pub(super) fn clear(&mut self) {
        self.truncate(0);
        self.next = 0;
    }

    /// Takes back all but the first `len` exchanges, none of which was visited yet unless all go.
    pub(super) fn truncate(&mut self, len: usize) {
        for exchange in self.queue.drain(len..) {
            self.seen[exchange as usize / 64] &= !(1 << (exchange % 64));
        }
    }
}

/// Where destinations go.
pub(super) struct Sink<'a> {
    pub(super) out: &'a mut Vec<Entry>,
    pub(super) work: &'a mut Work,
    /// Whether the exchange had any destination.
    pub(super) found: bool,
}

impl Sink<'_> {
    #[inline]
    pub(super) fn deliver(&mut self, dest: Dest) {
        self.found = true;
        if dest.to & EXCHANGE == 0 {
            self.out.push(Entry { target: TargetId(dest.to), options: dest.options });
        } else {
            self.work.push(dest.to & !EXCHANGE);
        }
    }

    #[inline]
    pub(super) fn deliver_all(&mut self, set: &Set<Dest>) {
        set.visit(&mut |run: &[Dest]| run.iter().for_each(|&dest| self.deliver(dest)));
    }
}
