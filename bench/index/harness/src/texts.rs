//! Many short strings in one block of memory.

/// Strings one after another: reading them in order misses no cache, and no allocator sees them one by one, so that what
/// is measured is the index.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    bytes: String,
    ends: Vec<u32>,
}

impl Texts {
    /// Appends a string. All together must stay under 4 GiB.
    pub fn push(&mut self, text: &str) {
        self.bytes.push_str(text);
        self.ends.push(u32::try_from(self.bytes.len()).expect("a workload is smaller than 4 GiB"));
    }

    /// Strings held.
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string with a number below [`len`](Self::len).
    #[inline]
    pub fn get(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start as usize..self.ends[at] as usize]
    }

    /// All strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// The strings with these numbers, in this order.
    pub fn picked(&self, order: &[u32]) -> Self {
        let mut picked = Self::default();
        order.iter().for_each(|&at| picked.push(self.get(at as usize)));
        picked
    }
}
