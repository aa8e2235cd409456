//! Exchanges that pick one destination for each message.
//!
//! # The consistent hash
//! A ring of [`RING_SLOTS`] slots, each of which belongs to one member: the one that draws the shortest time from an
//! exponential distribution whose rate is its weight, where the draw is a hash of (member, slot). A message's hash
//! names a slot. This is weighted rendezvous hashing (Thaler and Ravishankar, 1998; the weights as by Schindelhauer and
//! Schomaker, 2005), decided once per slot instead of once per message:
//!
//! - a member's share of the slots is its share of the weight, give or take one over the square root of its slots;
//! - who joins takes slots from the others in proportion and moves nothing between them; who leaves gives up its own;
//! - a look-up is one hash and two loads, whatever the members and weights;
//! - who joins costs a comparison per slot; who leaves, a draw of each other member for each of its slots, but at most
//!   [`DRAWS_MAX`] in all. If it had much more than its even share, some of its slots stay *open*: the first message to
//!   one of them makes the draws, about 2 ns each, and notes the owner for those that follow.

use std::sync::atomic::{AtomicU16, Ordering};

use super::destination::Dest;

/// Slots of a consistent hash: 32 KiB for each such exchange with two members or more. With more than about a tenth as
/// many members the shares become uneven.
pub const RING_SLOTS: usize = 1 << RING_BITS;

const RING_BITS: u32 = 14;

/// Draws that a change makes to find owners of slots: some 200 microseconds.
const DRAWS_MAX: usize = 1 << 16;

/// A slot whose owner is still to be found. No member has this place.
const OPEN: u16 = u16::MAX;

/// How an exchange picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    Consistent,
    Modulus,
    Random,
    LocalRandom,
}

/// What decides how often a binding of an exchange that picks is picked, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Draw {
    pub(super) seed: u64,
    /// At least 1.
    pub(super) weight: u32,
    pub(super) is_local: bool,
}

impl Draw {
    pub(super) const fn member(self, dest: Dest) -> Member {
        let Self { seed, weight, is_local } = self;
        Member { dest, seed, weight, is_local }
    }
}

/// A binding of an exchange that picks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) dest: Dest,
    pub(super) seed: u64,
    /// At least 1.
    pub(super) weight: u32,
    pub(super) is_local: bool,
}

/// The bindings of an exchange that picks. Immutable: a change replaces it, in time proportional to the members.
pub(super) struct Pool {
    pick: Pick,
    /// All bindings, the oldest first.
    members: Box<[Member]>,
    /// Places in `members` that can be picked. For a modulus they are in the order of their seeds.
    candidates: Box<[u16]>,
    /// The owner of each slot, as a place in `members`, or [`OPEN`]. Only for consistent hashes with two candidates or
    /// more. Whoever finds an owner notes it: that is the same for everybody, since all else here never changes.
    slots: Box<[AtomicU16]>,
}

impl Pool {
    pub(super) fn new(pick: Pick) -> Self {
        Self { pick, members: Box::default(), candidates: Box::default(), slots: Box::default() }
    }

    /// Whether the choice can depend on more than the bindings.
    #[inline]
    pub(super) fn has_choice(&self) -> bool {
        self.candidates.len() > 1
    }

    /// Whether [`pick`](Self::pick) wants a random number.
    #[inline]
    pub(super) const fn is_random(&self) -> bool {
        matches!(self.pick, Pick::Random | Pick::LocalRandom)
    }

    /// The destination for a hash, or for a random number.
    #[inline]
    pub(super) fn pick(&self, hash: u64) -> Option<Dest> {
        let count = self.candidates.len();
        let place = match self.pick {
            _ if count < 2 => *self.candidates.first()?,
            Pick::Consistent => self.owner_of((hash >> (u64::BITS - RING_BITS)) as usize),
            Pick::Modulus => self.candidates[(hash % count as u64) as usize],
            Pick::Random | Pick::LocalRandom => {
                // The upper half of the product: as even as the number is random, without a division.
                self.candidates[((u128::from(hash) * count as u128) >> 64) as usize]
            }
        };
        Some(self.members[usize::from(place)].dest)
    }

    /// The owner of a slot, which is found first if it is open.
    #[inline]
    fn owner_of(&self, slot: usize) -> u16 {
        match self.slots[slot].load(Ordering::Relaxed) {
            OPEN => {
                let is_even = is_even(&self.members, &self.candidates);
                let owner = winner(&self.members, &self.candidates, slot as u64, is_even);
                self.slots[slot].store(owner, Ordering::Relaxed);
                owner
            }
            owner => owner,
        }
    }

    /// The owners of the slots, to be changed.
    fn owners(&self) -> Vec<u16> {
        self.slots.iter().map(|slot| slot.load(Ordering::Relaxed)).collect()
    }

    /// A copy with one more binding.
    pub(super) fn with(&self, member: Member) -> Self {
        let members: Box<[Member]> = self.members.iter().copied().chain([member]).collect();
        let place = members.len() - 1;
        let candidates = candidates_of(self.pick, &members);
        let mut owners = self.owners();
        if self.pick == Pick::Consistent && candidates.len() > self.candidates.len() {
            join(&mut owners, &members, &candidates, place);
        }
        Self { pick: self.pick, members, candidates, slots: slots_of(owners) }
    }

    /// A copy without the member of this binding.
    pub(super) fn without(&self, binding: u32) -> Self {
        let is_it = |member: &Member| member.dest.binding == binding;
        let gone = self.members.iter().position(is_it).expect("a binding of the exchange is its member");
        let members: Box<[Member]> = self.members.iter().copied().filter(|member| !is_it(member)).collect();
        let candidates = candidates_of(self.pick, &members);
        let mut owners = self.owners();
        if self.pick == Pick::Consistent {
            leave(&mut owners, &members, &candidates, gone);
            // The next binding of the same destination, if there is one, is a candidate from now on.
            let to = self.members[gone].dest.to;
            let heir = candidates.iter().find(|&&place| members[usize::from(place)].dest.to == to);
            if let Some(&heir) = heir.filter(|_| self.candidates.contains(&(gone as u16))) {
                join(&mut owners, &members, &candidates, usize::from(heir));
            }
        }
        if candidates.len() < 2 {
            owners = Vec::new();
        }
        Self { pick: self.pick, members, candidates, slots: slots_of(owners) }
    }

    /// How a binding draws.
    pub(super) fn draw_of(&self, binding: u32) -> Option<Draw> {
        let member = self.members.iter().find(|member| member.dest.binding == binding)?;
        let Member { seed, weight, is_local, .. } = *member;
        Some(Draw { seed, weight, is_local })
    }

    /// A copy in which the binding's member is this one. One with another seed becomes the youngest.
    pub(super) fn with_changed(&self, to: Member) -> Self {
        let mut members = self.members.clone();
        for member in &mut members {
            if member.dest.binding == to.dest.binding {
                if member.seed != to.seed {
                    return self.without(to.dest.binding).with(to);
                }
                *member = to;
            }
        }
        let candidates = candidates_of(self.pick, &members);
        Self { pick: self.pick, members, candidates, slots: slots_of(self.owners()) }
    }

    /// Bytes on the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.members) + size_of_val(&*self.candidates) + size_of_val(&*self.slots)
    }
}

/// The members that can be picked.
fn candidates_of(pick: Pick, members: &[Member]) -> Box<[u16]> {
    let all = 0..members.len() as u16;
    let member = |place: &u16| &members[usize::from(*place)];
    match pick {
        Pick::Random => all.collect(),
        Pick::LocalRandom => all.filter(|place| member(place).is_local).collect(),
        Pick::Consistent | Pick::Modulus => {
            let mut places: Vec<u16> = all.collect();
            places.sort_unstable_by_key(|place| (member(place).dest.to, *place));
            places.dedup_by_key(|place| member(place).dest.to);
            places.sort_unstable_by_key(|place| (member(place).seed, member(place).dest.to));
            places.into()
        }
    }
}

fn slots_of(owners: Vec<u16>) -> Box<[AtomicU16]> {
    owners.into_iter().map(AtomicU16::new).collect()
}

/// Gives a new candidate the slots that it wins.
fn join(owners: &mut Vec<u16>, members: &[Member], candidates: &[u16], place: usize) {
    let [.., _, _] = candidates else { return };
    if owners.is_empty() {
        let other = candidates.iter().copied().find(|&other| usize::from(other) != place);
        *owners = vec![other.expect("there are two"); RING_SLOTS];
    }
    for (slot, owner) in owners.iter_mut().enumerate().filter(|(_, owner)| **owner != OPEN) {
        if beats(&members[place], &members[usize::from(*owner)], slot as u64) {
            *owner = place as u16;
        }
    }
}

/// Gives the slots of a member that left to whom they belong now, or opens them, and closes the gap in the places.
fn leave(owners: &mut [u16], members: &[Member], candidates: &[u16], gone: usize) {
    if candidates.is_empty() {
        return;
    }
    let is_even = is_even(members, candidates);
    let mut found_max = DRAWS_MAX / candidates.len();
    for (slot, owner) in owners.iter_mut().enumerate() {
        match usize::from(*owner) {
            _ if *owner == OPEN => {}
            place if place > gone => *owner -= 1,
            place if place < gone => {}
            _ if found_max > 0 => {
                found_max -= 1;
                *owner = winner(members, candidates, slot as u64, is_even);
            }
            _ => *owner = OPEN,
        }
    }
}

/// Whether all candidates, of which there are some, have one weight.
fn is_even(members: &[Member], candidates: &[u16]) -> bool {
    let weight = |place: u16| members[usize::from(place)].weight;
    candidates.iter().all(|&place| weight(place) == weight(candidates[0]))
}

/// The owner of a slot.
fn winner(members: &[Member], candidates: &[u16], slot: u64, is_even: bool) -> u16 {
    let pick = if is_even { longest_draw } else { shortest_wait };
    pick(members, candidates, slot)
}

/// The owner of a slot among candidates of one weight.
fn longest_draw(members: &[Member], candidates: &[u16], slot: u64) -> u16 {
    let salt = salt_of(slot);
    let claim = |place: &u16| {
        let member = &members[usize::from(*place)];
        (draw_of(member, salt), member.dest.to)
    };
    *candidates.iter().max_by_key(|place| claim(place)).expect("there are candidates")
}

/// The owner of a slot among candidates of several weights.
///
/// A logarithm is taken only for those who may win: `-ln(x)` is at least `1 - x`.
fn shortest_wait(members: &[Member], candidates: &[u16], slot: u64) -> u16 {
    let salt = salt_of(slot);
    let (mut best, mut best_wait) = (candidates[0], f64::INFINITY);
    for &place in candidates {
        let member = &members[usize::from(place)];
        let draw = draw_of(member, salt);
        // The factor is for what rounding may add.
        if (1.0 - share_of(draw)) * 0.999_999 > best_wait * f64::from(member.weight) {
            continue;
        }
        if place == best || beats(member, &members[usize::from(best)], slot) {
            (best, best_wait) = (place, wait_of(draw, member.weight));
        }
    }
    best
}

/// Whether one member's claim to a slot is better than another's.
///
/// Logarithms are taken only if they may decide: `-ln(x)` is between `1 - x` and `1 / x - 1`.
fn beats(one: &Member, other: &Member, slot: u64) -> bool {
    let salt = salt_of(slot);
    let (one_draw, other_draw) = (draw_of(one, salt), draw_of(other, salt));
    if one.weight == other.weight {
        return (one_draw, one.dest.to) > (other_draw, other.dest.to);
    }
    let (one_share, other_share) = (share_of(one_draw), share_of(other_draw));
    let least_of_one = (1.0 - one_share) * 0.999_999 * f64::from(other.weight);
    if least_of_one * other_share > (1.0 - other_share) * f64::from(one.weight) {
        return false;
    }
    wait_of(one_draw, one.weight) < wait_of(other_draw, other.weight)
}

/// What a slot adds to the draws of its candidates.
const fn salt_of(slot: u64) -> u64 {
    mix(slot.wrapping_add(GOLDEN))
}

const fn draw_of(member: &Member, salt: u64) -> u64 {
    mix(member.seed ^ salt)
}

/// A draw as a number between 0 and 1, neither included but for rounding.
fn share_of(draw: u64) -> f64 {
    ((draw >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// A draw as a waiting time.
fn wait_of(draw: u64, weight: u32) -> f64 {
    -share_of(draw).ln() / f64::from(weight)
}

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Mixes 64 bits (the finaliser of Steele, Lea and Flood's SplitMix64, 2014).
pub(super) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// A hash that is the same on every node and in every process: FNV-1a, mixed. It is not proof against prepared keys,
/// which could only send their sender's own messages one way.
pub(super) fn stable_hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    mix(bytes.iter().fold(0xCBF2_9CE4_8422_2325, step))
}

/// The next number of a sequence that passes for random (SplitMix64).
#[inline]
pub(super) const fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(GOLDEN);
    mix(*state)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(number: u32, weight: u32) -> Member {
        Member {
            dest: Dest { to: number, options: 0, binding: number },
            seed: stable_hash(format!("queue {number}").as_bytes()),
            weight,
            is_local: true,
        }
    }

    fn pool(pick: Pick, weights: &[u32]) -> Pool {
        let member = |(number, weight): (usize, &u32)| member(number as u32, *weight);
        weights.iter().enumerate().map(member).fold(Pool::new(pick), |pool, member| pool.with(member))
    }

    /// Where each of many messages goes.
    fn picks(pool: &Pool) -> Vec<u32> {
        (0..40_000).map(|at: u32| pool.pick(stable_hash(&at.to_le_bytes())).unwrap().to).collect()
    }

    fn share(picks: &[u32], number: u32) -> f64 {
        picks.iter().filter(|&&to| to == number).count() as f64 / picks.len() as f64
    }

    #[test]
    fn shares_follow_the_weights() {
        for weights in [&[1; 10][..], &[1, 2, 3, 4, 10], &[1000, 1], &[7; 100]] {
            let picks = picks(&pool(Pick::Consistent, weights));
            let sum: u32 = weights.iter().sum();
            for (number, &weight) in weights.iter().enumerate() {
                let expected = f64::from(weight) / f64::from(sum);
                // Four standard deviations of a draw of all slots, and as much for that of the messages.
                let tolerance =
                    4.0 * (expected / RING_SLOTS as f64).sqrt() + 4.0 * (expected / 40_000.0).sqrt();
                let share = share(&picks, number as u32);
                assert!((share - expected).abs() < tolerance, "{number} of {weights:?}: {share}");
            }
        }
    }

    #[test]
    fn who_comes_takes_its_share_and_moves_nothing_else() {
        for count in [1usize, 2, 9, 50] {
            let before = pool(Pick::Consistent, &vec![3; count]);
            let after = before.with(member(count as u32, 3));
            let (before, after) = (picks(&before), picks(&after));
            let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
            assert!(moved.clone().all(|(_, &after)| after == count as u32));
            let share = moved.count() as f64 / before.len() as f64;
            let expected = 1.0 / (count + 1) as f64;
            assert!((share - expected).abs() < 0.02, "{share} of the keys moved to one of {}", count + 1);
        }
    }

    #[test]
    fn who_leaves_moves_only_its_own_and_history_does_not_count() {
        let weights = [5, 1, 9, 2, 2, 7, 3];
        let before = pool(Pick::Consistent, &weights);
        for gone in 0..weights.len() as u32 {
            let after = before.without(gone);
            for (before, after) in picks(&before).into_iter().zip(picks(&after)) {
                assert!(after != gone && (after == before || before == gone));
            }
            let back = after.with(member(gone, weights[gone as usize]));
            assert_eq!(picks(&back), picks(&before), "leaving and coming back moved a key");
        }
    }

    #[test]
    fn who_leaves_with_most_of_the_weight_leaves_the_ring_that_the_others_make() {
        for weights in [[1, 1, 1, 1, 1, 1, 1_000_000], [3, 1, 4, 1, 5, 9, 1_000_000], [7, 7, 7, 1, 7, 7, 7]] {
            let (rest, last) = (&weights[..6], weights.len() as u32 - 1);
            let left = pool(Pick::Consistent, &weights).without(last);
            let owners = |pool: &Pool| (0..RING_SLOTS).map(|slot| pool.owner_of(slot)).collect::<Vec<_>>();
            assert_eq!(owners(&left), owners(&pool(Pick::Consistent, rest)), "{weights:?}");
        }
    }

    #[test]
    fn slots_that_were_left_open_belong_to_whom_they_would_without_the_member_that_left() {
        let count = 200;
        let weights: Vec<u32> = (0..count).map(|number| 1 + number % 5).collect();
        let rest = pool(Pick::Consistent, &weights);
        let heavy = || rest.with(member(count, 1_000_000));
        let open_count = |pool: &Pool| pool.owners().iter().filter(|owner| **owner == OPEN).count();
        let left = heavy().without(count);
        assert!(open_count(&left) > RING_SLOTS / 2, "all were found at once");
        let owners = |pool: &Pool| (0..RING_SLOTS).map(|slot| pool.owner_of(slot)).collect::<Vec<_>>();
        assert_eq!(owners(&left), owners(&rest));
        assert_eq!(open_count(&left), 0, "an owner was not noted");
        // Whoever comes and goes while slots are open.
        let changed = heavy().without(count).with(member(count, 3)).without(7);
        assert!(open_count(&changed) > RING_SLOTS / 2);
        assert_eq!(picks(&changed), picks(&rest.with(member(count, 3)).without(7)));
    }

    #[test]
    fn the_oldest_binding_of_a_destination_counts() {
        let other =
            |binding, weight| Member { dest: Dest { to: 0, options: 9, binding }, ..member(0, weight) };
        let base = pool(Pick::Consistent, &[1, 1]);
        let twice = base.with(other(7, 1000));
        assert_eq!(picks(&twice), picks(&base));
        let heir = twice.without(0);
        assert!(share(&picks(&heir), 0) > 0.99 && heir.pick(u64::MAX).is_some());
        let both: Vec<u32> = picks(&heir.with(member(5, 1)));
        assert!(both.contains(&5));
    }

    #[test]
    fn random_and_modulus_reach_everybody() {
        for pick in [Pick::Random, Pick::LocalRandom, Pick::Modulus] {
            let picks = picks(&pool(pick, &[1; 8]));
            for number in 0..8 {
                assert!((share(&picks, number) - 0.125).abs() < 0.01, "{pick:?}");
            }
        }
    }

    #[test]
    fn only_local_bindings_are_picked_locally() {
        let remote = Member { is_local: false, ..member(1, 1) };
        let pool = Pool::new(Pick::LocalRandom).with(remote);
        assert!(pool.pick(3).is_none());
        let pool = pool.with(member(2, 1));
        assert!(!pool.has_choice() && picks(&pool).iter().all(|&to| to == 2));
        assert!(picks(&pool.with_changed(member(1, 1))).contains(&1));
    }

    #[test]
    fn the_hash_is_the_same_everywhere() {
        assert_eq!(stable_hash(b""), 0xF52A_15E9_A9B5_E89B);
        assert_eq!(stable_hash(b"orders.eu"), 0xF1E3_629C_F802_CB0A);
    }
}
