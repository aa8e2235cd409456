//! The hash of a set, kept while the set changes.

use std::hash::Hasher;

use meridian_types::TopicFilter;
use siphasher::sip128::{Hasher128, SipHasher13};

/// The secret of set hashes. All who compare hashes must have the same; clients, who choose the filters, must not know
/// it.
#[derive(Clone, Copy)]
pub struct HashKey(pub [u8; 16]);

/// The sum, modulo 2¹²⁸, of SipHash-1-3 with 128 bits of every filter in a set.
///
/// It does not depend on the order in which filters came. Of two sets that differ, both have the same hash with a
/// chance of 2⁻¹²⁸.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetHash(pub u128);

impl SetHash {
    /// Counts a filter in. Cost: one pass over its bytes.
    pub(crate) fn add(&mut self, key: &HashKey, filter: TopicFilter<'_>) {
        self.0 = self.0.wrapping_add(hash(key, filter));
    }

    /// Counts a filter out again. Cost: one pass over its bytes.
    pub(crate) fn remove(&mut self, key: &HashKey, filter: TopicFilter<'_>) {
        self.0 = self.0.wrapping_sub(hash(key, filter));
    }
}

fn hash(key: &HashKey, filter: TopicFilter<'_>) -> u128 {
    let mut hasher = SipHasher13::new_with_key(&key.0);
    hasher.write(filter.as_str().as_bytes());
    hasher.finish128().as_u128()
}
