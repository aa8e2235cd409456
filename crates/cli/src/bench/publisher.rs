//! Who may publish how much, and when.

use super::packet::{self, Stamp};
use super::plan::Choice;
use super::settings::Settings;
use super::stats::{Shared, run_tag, source_of};
use std::sync::Arc;

/// Without any delivery for so long, a publisher of a closed loop no longer waits for what is missing: it is lost.
const STALL_NS: u64 = 3_000_000_000;

/// What a publishing connection has besides its socket.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) id: u32,
    heads: Arc<[Box<[u8]>]>,
    choice: Choice,
    random: u64,
    source: u32,
    /// Messages published so far, and the number of the last one.
    sent: u64,
    packet_id: u16,
    unacknowledged: usize,
    inflight_max: usize,
    /// When each unacknowledged message was due, by the low bits of its packet id.
    due_by_id: Box<[u64]>,
    /// In an open loop: when the next message is due, and how far they lie apart.
    pub(crate) due_ns: u64,
    interval_ns: f64,
    begin_ns: u64,
    /// Deliveries that no one waits for any longer.
    written_off: u64,
    delivered_seen: u64,
    progress_ns: u64,
}

impl Publisher {
    pub(crate) fn new(
        settings: &Settings,
        publishers: usize,
        id: u32,
        heads: Arc<[Box<[u8]>]>,
        choice: Choice,
    ) -> Self {
        let ring = if settings.qos > 0 { (settings.inflight * 2).next_power_of_two() } else { 0 };
        Self {
            id,
            heads,
            choice,
            random: 0x9e37_79b9_7f4a_7c15 ^ u64::from(id + 1).wrapping_mul(0xd1b5_4a32_d192_ed03),
            source: source_of(id, run_tag()),
            sent: 0,
            packet_id: 0,
            unacknowledged: 0,
            inflight_max: settings.inflight,
            due_by_id: vec![0; ring].into(),
            due_ns: 0,
            interval_ns: settings.rate.map_or(0.0, |rate| publishers as f64 * 1e9 / rate),
            begin_ns: 0,
            written_off: 0,
            delivered_seen: 0,
            progress_ns: 0,
        }
    }

    /// Starts the clock; publishers of an open loop begin one after the other within their interval.
    pub(crate) fn begin(&mut self, begin_ns: u64, publishers: usize) {
        self.begin_ns = begin_ns + (self.interval_ns * f64::from(self.id) / publishers as f64) as u64;
        self.due_ns = self.begin_ns;
        self.progress_ns = begin_ns;
    }

    /// The broker takes no more than so many unacknowledged messages.
    pub(crate) fn limit_inflight(&mut self, receive_maximum: u16) {
        self.inflight_max = self.inflight_max.min(usize::from(receive_maximum).max(1));
    }

    /// A PUBACK or PUBCOMP; returns when its message was due.
    pub(crate) fn acknowledged(&mut self, packet_id: u16) -> u64 {
        self.unacknowledged = self.unacknowledged.saturating_sub(1);
        self.due_by_id[usize::from(packet_id) & (self.due_by_id.len() - 1)]
    }

    /// A PUBREC that refuses.
    pub(crate) fn refused(&mut self) {
        self.unacknowledged = self.unacknowledged.saturating_sub(1);
    }

    /// How many messages may be published now in one write; the second value is how many deliveries were just given
    /// up because nothing came for too long.
    pub(crate) fn room(&mut self, settings: &Settings, shared: &Shared, fan: u64, now_ns: u64) -> (u64, u64) {
        let mut room = settings.batch as u64;
        if settings.qos > 0 {
            room = room.min((self.inflight_max - self.unacknowledged.min(self.inflight_max)) as u64);
        }
        if settings.rate.is_some() {
            if self.due_ns > now_ns {
                return (0, 0);
            }
            room = room.min(((now_ns - self.due_ns) as f64 / self.interval_ns) as u64 + 1);
        }
        let Some(window) = settings.window.filter(|_| fan > 0 && room > 0) else { return (room, 0) };
        let delivered = shared.delivered(self.id);
        if delivered != self.delivered_seen {
            self.delivered_seen = delivered;
            self.progress_ns = now_ns;
        }
        let outstanding = (self.sent * fan).saturating_sub(delivered + self.written_off);
        let open = (window * fan).saturating_sub(outstanding) / fan;
        if open > 0 {
            return (room.min(open), 0);
        }
        if now_ns.saturating_sub(self.progress_ns) < STALL_NS {
            return (0, 0);
        }
        self.written_off += outstanding;
        self.progress_ns = now_ns;
        (0, outstanding)
    }

    /// Appends `count` messages to `out`.
    pub(crate) fn fill(
        &mut self,
        out: &mut Vec<u8>,
        count: u64,
        settings: &Settings,
        padding: &[u8],
        now_ns: u64,
    ) {
        if self.sent == 0 {
            self.progress_ns = now_ns;
        }
        for _ in 0..count {
            let topic = self.next_topic();
            let due_ns = if settings.rate.is_some() { self.due_ns } else { now_ns };
            self.sent += 1;
            if settings.rate.is_some() {
                // From the beginning each time, so that rounding does not add up to another rate.
                self.due_ns = self.begin_ns + (self.interval_ns * self.sent as f64) as u64;
            }
            let packet_id = (settings.qos > 0).then(|| self.take_packet_id(due_ns));
            let stamp = Stamp { due_ns, source: self.source, number: self.sent as u32 };
            packet::put_publish(out, settings.version, &self.heads[topic], packet_id, stamp, padding);
        }
    }

    fn take_packet_id(&mut self, due_ns: u64) -> u16 {
        self.packet_id = self.packet_id.checked_add(1).unwrap_or(1);
        self.unacknowledged += 1;
        self.due_by_id[usize::from(self.packet_id) & (self.due_by_id.len() - 1)] = due_ns;
        self.packet_id
    }

    fn next_topic(&mut self) -> usize {
        match self.choice {
            Choice::InTurn => self.sent as usize % self.heads.len(),
            Choice::Random => {
                // xorshift64, good enough to spread over topics.
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                (self.random >> 11) as usize % self.heads.len()
            }
        }
    }
}
