//! Random numbers that are the same in every run.

/// A generator of the xorshift family.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator; `seed` must not be 0.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `limit`, which is at most 2³².
    pub fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 32) as usize * limit) >> 32
    }

    /// A number below `limit`, the lower, the likelier, as by Zipf.
    pub fn skewed(&mut self, limit: usize) -> usize {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((limit as f64).powf(unit) - 1.0) as usize
    }

    /// Puts items into random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }

    /// The numbers below `count`, in random order.
    pub fn order(&mut self, count: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count as u32).collect();
        self.shuffle(&mut order);
        order
    }
}
