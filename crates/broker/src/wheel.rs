//! A hierarchical timing wheel (Varghese and Lauck, 1987): deadlines that cost nothing until they fall due.

use meridian_types::Instant;

const SLOT_BITS: u32 = 6;
const SLOT_COUNT: usize = 1 << SLOT_BITS;
const LEVEL_COUNT: usize = 4;

/// The resolution: an entry fires at most this much after its deadline, and never before.
pub const TICK_MILLIS: u64 = 64;

/// Deadlines with a value each.
///
/// Adding is O(1); an entry moves down at most three levels before it fires. There is no cancel: whoever gets an
/// entry back checks whether it still means anything, and may add it again with a later deadline. That makes a keep
/// alive cost one entry for a connection, however many packets arrive.
#[derive(Debug)]
pub struct Wheel<T> {
    levels: [[Vec<(Instant, T)>; SLOT_COUNT]; LEVEL_COUNT],
    occupied: [u64; LEVEL_COUNT],
    tick: u64,
    len: usize,
}

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Self {
            levels: std::array::from_fn(|_| std::array::from_fn(|_| Vec::new())),
            occupied: [0; LEVEL_COUNT],
            tick: 0,
            len: 0,
        }
    }
}

impl<T> Wheel<T> {
    /// Entries waiting.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an entry. One that is due already fires at the next [`Wheel::advance`] to a later tick.
    pub fn add(&mut self, deadline: Instant, value: T) {
        self.len += 1;
        self.place(deadline, value);
    }

    fn place(&mut self, deadline: Instant, value: T) {
        let due = deadline.as_millis().div_ceil(TICK_MILLIS).max(self.tick + 1);
        let span = due - self.tick;
        let level = (0..LEVEL_COUNT)
            .find(|level| span < 1 << (SLOT_BITS * (*level as u32 + 1)))
            .unwrap_or(LEVEL_COUNT - 1);
        let shift = SLOT_BITS * level as u32;
        // Beyond the top level's reach the entry waits in its farthest slot and is placed again from there.
        let farthest = (self.tick >> shift) + SLOT_COUNT as u64 - 1;
        let slot = ((due >> shift).min(farthest) % SLOT_COUNT as u64) as usize;
        self.levels[level][slot].push((deadline, value));
        self.occupied[level] |= 1 << slot;
    }

    /// Drops every entry for which `keep` says no. Cost: a look at each.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for (level, occupied) in self.levels.iter_mut().zip(&mut self.occupied) {
            for (number, slot) in level.iter_mut().enumerate() {
                let before = slot.len();
                slot.retain(|(_, value)| keep(value));
                self.len -= before - slot.len();
                if slot.is_empty() {
                    *occupied &= !(1 << number);
                    *slot = Vec::new();
                }
            }
        }
    }

    /// Moves on to `now` and gives every entry whose deadline has passed to `fire`.
    pub fn advance(&mut self, now: Instant, mut fire: impl FnMut(T)) {
        let end = now.as_millis() / TICK_MILLIS;
        while self.tick < end {
            if self.occupied == [0; LEVEL_COUNT] {
                self.tick = end;
                return;
            }
            if self.occupied[0] == 0 {
                // Nothing before the next turn of the finest level.
                self.tick = (self.tick | (SLOT_COUNT as u64 - 1)).min(end - 1);
            }
            self.tick += 1;
            self.cascade();
            let slot = (self.tick % SLOT_COUNT as u64) as usize;
            if self.occupied[0] & 1 << slot == 0 {
                continue;
            }
            self.occupied[0] &= !(1 << slot);
            for (_, value) in std::mem::take(&mut self.levels[0][slot]) {
                self.len -= 1;
                fire(value);
            }
        }
    }

    /// At the turn of a level's slot its entries move to finer levels.
    fn cascade(&mut self) {
        for level in (1..LEVEL_COUNT).rev() {
            let shift = SLOT_BITS * level as u32;
            if self.tick.trailing_zeros() < shift {
                continue;
            }
            let slot = ((self.tick >> shift) % SLOT_COUNT as u64) as usize;
            if self.occupied[level] & 1 << slot == 0 {
                continue;
            }
            self.occupied[level] &= !(1 << slot);
            for (deadline, value) in std::mem::take(&mut self.levels[level][slot]) {
                // Due at this very tick: fires in the slot that is about to be emptied.
                if deadline.as_millis().div_ceil(TICK_MILLIS) <= self.tick {
                    let slot = (self.tick % SLOT_COUNT as u64) as usize;
                    self.levels[0][slot].push((deadline, value));
                    self.occupied[0] |= 1 << slot;
                } else {
                    self.place(deadline, value);
                }
            }
        }
    }

    /// Milliseconds from `now` until [`Wheel::advance`] may have something to do; `None` if nothing waits.
    pub fn next_wait_millis(&self, now: Instant) -> Option<u64> {
        let mut next: Option<u64> = None;
        for level in 0..LEVEL_COUNT {
            if self.occupied[level] == 0 {
                continue;
            }
            let shift = SLOT_BITS * level as u32;
            let position = self.tick >> shift;
            let from_here = self.occupied[level].rotate_right(((position + 1) % SLOT_COUNT as u64) as u32);
            let slot_start = (position + 1 + u64::from(from_here.trailing_zeros())) << shift;
            next = Some(next.map_or(slot_start, |next| next.min(slot_start)));
        }
        next.map(|tick| (tick * TICK_MILLIS).saturating_sub(now.as_millis()).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_fire_once_never_early_and_at_most_a_tick_late() {
        let mut wheel = Wheel::default();
        let deadlines: Vec<u64> = (0..400)
            .map(|step: u64| step * step * step * 3 + step)
            .chain([0, 1, 64, 4095, 4096, 1 << 31])
            .collect();
        for (index, &millis) in deadlines.iter().enumerate() {
            wheel.add(Instant::from_millis(millis), index);
        }
        let mut fired = vec![0; deadlines.len()];
        let mut now = 0;
        while !wheel.is_empty() {
            let wait = wheel.next_wait_millis(Instant::from_millis(now)).unwrap();
            now += wait;
            wheel.advance(Instant::from_millis(now), |index: usize| {
                fired[index] += 1;
                assert!(deadlines[index] <= now, "{} fired early at {now}", deadlines[index]);
                assert!(
                    now <= deadlines[index].max(1) + 2 * TICK_MILLIS,
                    "{} fired late at {now}",
                    deadlines[index]
                );
            });
        }
        assert!(fired.iter().all(|&count| count == 1));
    }

    #[test]
    fn an_entry_added_while_time_stands_fires_at_a_later_tick() {
        let mut wheel = Wheel::default();
        wheel.advance(Instant::from_millis(1_000_000), |()| unreachable!());
        wheel.add(Instant::from_millis(5), ());
        let mut fired = 0;
        wheel.advance(Instant::from_millis(1_000_000 + 2 * TICK_MILLIS), |()| fired += 1);
        assert_eq!(fired, 1);
    }

    #[test]
    fn entries_dropped_do_not_fire() {
        let mut wheel = Wheel::default();
        (0..10_000).for_each(|number: u64| wheel.add(Instant::from_millis(number * number), number));
        wheel.retain(|number| number % 3 == 0);
        assert_eq!(wheel.len(), 3334);
        let mut fired = 0;
        wheel.advance(Instant::from_millis(100_000_100), |number| {
            assert_eq!(number % 3, 0);
            fired += 1;
        });
        assert_eq!((fired, wheel.len()), (3334, 0));
    }

    #[test]
    fn an_empty_wheel_asks_for_no_wait() {
        assert_eq!(Wheel::<()>::default().next_wait_millis(Instant::from_millis(7)), None);
    }
}
