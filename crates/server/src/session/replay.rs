//! Retained messages on their way to a new subscription.
//!
//! They are read from the store page by page, as fast as the client takes them: a filter with a million matches costs
//! one page of memory, and its event loop one page of time. A replay stands in the session's queue at the place where
//! its SUBSCRIBE came: what waited already goes first, and what is published from then on waits behind it. So a
//! retained message never comes after a newer message of its topic.
//!
//! ```text
//!  queue   m1 m2 │ replay of a/# │ m3 m4 m5      place 2: due when two have left
//!          └ before SUBSCRIBE      └ published since
//! ```

use meridian_broker::retained::KEYS_PER_MESSAGE;
use meridian_broker::target::Delivery;
use meridian_broker::{Retained, Terms};
use meridian_router::Cursor;
use meridian_types::memory::Held;
use meridian_types::{Instant, Message, Qos, TopicFilter};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Retained messages sent, or looked at in vain, before others get their turn.
pub(super) const MESSAGES_PER_TURN: usize = 128;

/// Topics looked at for that, at most.
pub(crate) const PAGE_TOPICS_MAX: usize = MESSAGES_PER_TURN * KEYS_PER_MESSAGE;

/// The places of a page.
const PAGE_BYTES: usize = MESSAGES_PER_TURN * size_of::<Arc<Message>>();

/// The retained messages that one subscription is still owed.
#[derive(Debug)]
pub(crate) struct Replay {
    store: Arc<Retained>,
    filter: Arc<str>,
    terms: Terms,
    /// Whose messages it leaves out: the subscriber's own, with "no local".
    without: Option<u64>,
    page: std::vec::IntoIter<Arc<Message>>,
    cursor: Option<Cursor>,
    is_last_page: bool,
    /// Counts it, with the texts of its filter and cursor and the places of a page.
    _held: Held,
}

impl Replay {
    /// All messages of `store` that match `filter`, without those of the publisher `without`. `None` if a first look
    /// finds that there are none.
    pub(crate) fn new(
        store: &Arc<Retained>,
        filter: TopicFilter<'_>,
        terms: Terms,
        without: Option<u64>,
        now: Instant,
    ) -> Option<Self> {
        let (found, cursor) = store.page(filter, None, 1, now);
        (!found.is_empty() || cursor.is_some()).then(|| Self {
            store: store.clone(),
            filter: filter.as_str().into(),
            terms,
            without,
            page: Vec::new().into_iter(),
            cursor: None,
            is_last_page: false,
            _held: Held::new(size_of::<Self>() + PAGE_BYTES + 2 * filter.as_str().len()),
        })
    }

    /// Reads at most `count_max` messages more. Returns what of `count_max` is used up by that.
    pub(super) fn read_page(&mut self, count_max: usize, now: Instant) -> usize {
        let Ok(filter) = TopicFilter::new(&self.filter) else {
            self.is_last_page = true;
            return 0;
        };
        let (mut found, cursor) = self.store.page(filter, self.cursor.as_ref(), count_max, now);
        let used = if cursor.is_some() { count_max } else { found.len() + 1 };
        found.retain(|message| self.without != Some(message.client_hash));
        self.is_last_page = cursor.is_none();
        self.cursor = cursor;
        self.page = found.into_iter();
        used
    }

    /// The QoS of the next message of the page, if there is one.
    pub(super) fn next_qos(&self) -> Option<Qos> {
        self.page.as_slice().first().map(|message| message.qos.min(self.terms.qos))
    }

    /// The next message of the page.
    pub(super) fn next(&mut self) -> Option<Delivery> {
        let message = self.page.next()?;
        let terms = Terms { qos: message.qos.min(self.terms.qos), ..self.terms.clone() };
        Some(Delivery { message, terms })
    }

    /// Whether nothing is left once the page is used up.
    pub(super) fn is_last_page(&self) -> bool {
        self.is_last_page
    }
}

/// What one SUBSCRIBE is owed, in the order of its filters: for each filter once, however often it is named.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    replays: Vec<Replay>,
    by_filter: HashMap<Arc<str>, usize>,
}

impl Owed {
    /// Adds one, in place of an earlier one of the same filter.
    pub(crate) fn add(&mut self, replay: Replay) {
        match self.by_filter.entry(replay.filter.clone()) {
            Entry::Occupied(entry) => self.replays[*entry.get()] = replay,
            Entry::Vacant(entry) => {
                entry.insert(self.replays.len());
                self.replays.push(replay);
            }
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.replays.is_empty()
    }

    /// All of them.
    pub(super) fn into_replays(self) -> Vec<Replay> {
        self.replays
    }
}

/// What a session's subscriptions are still owed, in the order of their SUBSCRIBEs.
#[derive(Debug, Default)]
pub(super) struct Replays {
    by_number: BTreeMap<u64, (u64, Replay)>,
    /// At most one for each filter: a SUBSCRIBE that comes again starts anew.
    numbers: HashMap<Arc<str>, u64>,
    last_number: u64,
    /// SUBSCRIBEs being handled, and where in the queue the first of them came.
    pub(super) pending: u32,
    pub(super) pending_at: u64,
}

impl Replays {
    /// Adds one at the place in the queue where its SUBSCRIBE came.
    pub(super) fn add(&mut self, place: u64, replay: Replay) {
        self.remove(&replay.filter.clone());
        self.last_number += 1;
        self.numbers.insert(replay.filter.clone(), self.last_number);
        self.by_number.insert(self.last_number, (place, replay));
    }

    /// Removes the one of a filter.
    pub(super) fn remove(&mut self, filter: &str) {
        if let Some(number) = self.numbers.remove(filter) {
            self.by_number.remove(&number);
        }
    }

    /// Removes the first.
    pub(super) fn remove_first(&mut self) {
        if let Some((_, (_, replay))) = self.by_number.pop_first() {
            self.numbers.remove(&replay.filter);
        }
    }

    /// Removes all.
    pub(super) fn remove_all(&mut self) {
        self.by_number.clear();
        self.numbers.clear();
    }

    /// The first, with its place.
    pub(super) fn first(&mut self) -> Option<(u64, &mut Replay)> {
        self.by_number.first_entry().map(|entry| {
            let (place, replay) = entry.into_mut();
            (*place, replay)
        })
    }

    /// Calls `change` with every place, in order.
    pub(super) fn change_places(&mut self, change: impl Fn(u64) -> u64) {
        self.by_number.values_mut().for_each(|(place, _)| *place = change(*place));
        self.pending_at = change(self.pending_at);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_number.is_empty() && self.pending == 0
    }
}
