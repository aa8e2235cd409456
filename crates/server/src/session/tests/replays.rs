//! Retained messages on their way to new subscriptions.

use super::super::{Draining, Owed, Replay, replay::MESSAGES_PER_TURN};
use super::{LIMITS, Peer, connect, new_session, offer};
use crate::settings::QueueLimits;
use meridian_broker::broker::Handle;
use meridian_broker::{Broker, Context, Encodings, Limits, Publication, ShareStrategy};
use meridian_broker::{SubscribeOptions, Target, Terms, Verdict, Waiter};
use meridian_types::{Instant, Qos, SharedFilter, TopicFilter};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const NOW: Instant = Instant::from_millis(1);

/// A broker that retains `count` messages, `0` to `count - 1`, at `r/00000` and on; of each of two publishers every
/// other.
fn retaining(count: usize) -> Broker {
    let limits = Limits {
        retained_count_max: usize::MAX,
        retained_bytes_max: usize::MAX,
        share_strategy: ShareStrategy::RoundRobin,
    };
    let broker = Broker::new(limits);
    let mut context = Context::new(1 << 20);
    for number in 0..count {
        let (topic, payload) = (format!("r/{number:05}"), number.to_string());
        let mut publication = Publication::new(&topic, payload.as_bytes(), NOW, None);
        (publication.retain, publication.qos) = (true, Qos::AtLeastOnce);
        publication.client_hash = number as u64 % 2;
        broker.publish(&mut context, &mut publication);
    }
    broker
}

impl Peer {
    fn subscribe(&self, broker: &Broker, filter: &str, qos: Qos, without: Option<u64>) {
        self.session.begin_subscribe();
        let terms = Terms { qos, from_retained: true, ..Terms::default() };
        let filter = TopicFilter::new(filter).unwrap();
        let mut owed = Owed::default();
        Replay::new(&broker.retained, filter, terms, without, NOW).into_iter().for_each(|one| owed.add(one));
        self.session.end_subscribe(&self.link, owed);
    }

    /// What is received once nothing is left to be flushed.
    fn received_in_all(&mut self) -> Vec<String> {
        let mut received = self.received();
        while self.session.flush() {
            received.extend(self.received());
        }
        received
    }
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[test]
fn a_long_replay_comes_in_pages_between_which_others_get_their_turn() {
    let (session, broker) = (new_session(), retaining(2000));
    let mut peer = connect(&session, LIMITS, 9, 0);
    peer.subscribe(&broker, "r/+", Qos::AtMostOnce, None);
    let mut turns = 0;
    let mut received = Vec::new();
    loop {
        let has_more = session.flush();
        let page = peer.received();
        assert!(page.len() <= MESSAGES_PER_TURN * 10, "{} messages in one turn", page.len());
        received.extend(page);
        turns += 1;
        if !has_more && !session.flush() {
            break;
        }
    }
    assert_eq!(received, numbers(0..2000));
    assert!(turns > 1);
    assert_eq!(super::super::take_pumped().replayed, 2000);
}

#[test]
fn what_is_published_during_a_replay_comes_after_it_and_costs_it_nothing() {
    let (session, broker) = (new_session(), retaining(5));
    let mut peer = connect(&session, QueueLimits { messages_max: 2, ..LIMITS }, 1, 0);
    peer.subscribe(&broker, "r/+", Qos::AtLeastOnce, None);
    let verdicts = ["dropped", "live", "newest"].map(|text| offer(&session, Qos::AtMostOnce, text));
    assert_eq!(verdicts[2], Verdict::TakenForOldest { dropped: 1 });
    let mut received = peer.received_in_all();
    for id in 1..=5 {
        peer.ack(id);
        received.extend(peer.received_in_all());
    }
    assert_eq!(received, ["0", "1", "2", "3", "4", "live", "newest"]);
}

#[test]
fn what_is_published_while_the_subscribe_is_handled_does_not_overtake() {
    let (session, broker) = (new_session(), retaining(1));
    let mut peer = connect(&session, LIMITS, 9, 0);
    offer(&session, Qos::AtMostOnce, "before");
    session.begin_subscribe();
    offer(&session, Qos::AtMostOnce, "after");
    peer.subscribe(&broker, "r/+", Qos::AtMostOnce, None);
    assert_eq!(peer.received_in_all(), ["before"], "the first SUBSCRIBE is not yet answered");
    session.end_subscribe(&peer.link, Owed::default());
    assert_eq!(peer.received_in_all(), ["0", "after"]);
}

#[test]
fn a_replay_waits_for_what_was_queued_before_it() {
    let (session, broker) = (new_session(), retaining(1));
    let mut peer = connect(&session, LIMITS, 1, 0);
    let target = session.clone() as Arc<dyn Target>;
    let filter = SharedFilter::parse("$share/g/t").unwrap();
    let keep = |handle: &Handle| session.add_subscription(handle, "f", 1);
    let options = SubscribeOptions::default();
    let subscribed = broker.subscribe(&target, session.id, filter, options, keep).unwrap().unwrap();
    let Handle::Group(group) = &subscribed.handle else { panic!("not a group") };
    let mut publication = Publication::new("t", b"shared", NOW, None);
    publication.qos = Qos::AtLeastOnce;
    let shared = Terms { qos: Qos::AtLeastOnce, group: Some(group.clone()), ..Terms::default() };
    offer(&session, Qos::AtLeastOnce, "sent");
    offer(&session, Qos::AtLeastOnce, "queued");
    session.offer(&mut publication, &shared, &mut Encodings::default());
    peer.subscribe(&broker, "r/+", Qos::AtLeastOnce, None);
    offer(&session, Qos::AtLeastOnce, "later");
    // What leaves the middle of the queue leaves the replay between the same two messages.
    assert_eq!(session.forget_subscriptions(&[(subscribed.handle, "f")]).deliveries.len(), 1);
    let mut received = peer.received_in_all();
    for id in 1..=3 {
        peer.ack(id);
        received.extend(peer.received_in_all());
    }
    assert_eq!(received, ["sent", "queued", "0", "later"]);
}

#[test]
fn unsubscribing_ends_a_replay_and_subscribing_again_starts_it_anew() {
    let (session, broker) = (new_session(), retaining(3));
    let mut peer = connect(&session, LIMITS, 1, 0);
    peer.subscribe(&broker, "r/+", Qos::AtLeastOnce, None);
    peer.subscribe(&broker, "r/+", Qos::AtLeastOnce, None);
    offer(&session, Qos::AtLeastOnce, "live");
    let mut received = peer.received_in_all();
    for id in 1..=2 {
        peer.ack(id);
        received.extend(peer.received_in_all());
    }
    // The first was sent for the first SUBSCRIBE; the second began anew.
    assert_eq!(received, ["0", "0", "1"]);
    session.cancel_replay("r/+");
    peer.ack(3);
    assert_eq!(peer.received_in_all(), ["live"]);
}

#[test]
fn a_replay_goes_on_over_the_next_connection() {
    let (session, broker) = (new_session(), retaining(4));
    let mut peer = connect(&session, LIMITS, 1, 60);
    peer.subscribe(&broker, "r/+", Qos::AtLeastOnce, None);
    assert_eq!(peer.received_in_all(), ["0"]);
    session.detach(&peer.link, Instant::from_millis(2));
    offer(&session, Qos::AtLeastOnce, "live");
    let mut peer = connect(&session, LIMITS, 9, 60);
    assert_eq!(peer.received_in_all(), ["0!", "1", "2", "3", "live"]);
}

#[test]
fn no_local_leaves_out_pages_of_the_subscribers_own() {
    let (session, broker) = (new_session(), retaining(MESSAGES_PER_TURN * 3));
    let mut peer = connect(&session, LIMITS, 9, 0);
    peer.subscribe(&broker, "r/+", Qos::AtMostOnce, Some(0));
    let received = peer.received_in_all();
    assert_eq!(received.len(), MESSAGES_PER_TURN * 3 / 2);
    assert!(received.iter().all(|number| number.parse::<usize>().unwrap() % 2 == 1));
}

#[test]
fn a_filter_that_one_subscribe_names_again_is_owed_once_on_its_last_terms() {
    let broker = retaining(1);
    let mut owed = Owed::default();
    for (filter, qos) in [("r/+", Qos::AtMostOnce), ("r/#", Qos::AtMostOnce), ("r/+", Qos::AtLeastOnce)] {
        let terms = Terms { qos, from_retained: true, ..Terms::default() };
        let filter = TopicFilter::new(filter).unwrap();
        owed.add(Replay::new(&broker.retained, filter, terms, None, NOW).unwrap());
    }
    let mut replays = owed.into_replays();
    let mut next_qos = |index: usize| {
        replays[index].read_page(1, NOW);
        replays[index].next_qos()
    };
    assert_eq!([next_qos(0), next_qos(1)], [Some(Qos::AtLeastOnce), Some(Qos::AtMostOnce)]);
    assert_eq!(replays.len(), 2);
}

#[test]
fn a_client_that_reads_slowly_is_heard_before_its_replay_is_over() {
    let (session, broker) = (new_session(), retaining(0));
    let mut context = Context::new(1 << 20);
    let count = 4000;
    for number in 0..count {
        let (topic, payload) = (format!("r/{number:05}"), [b'x'; 4096]);
        let mut publication = Publication::new(&topic, &payload, NOW, None);
        publication.retain = true;
        broker.publish(&mut context, &mut publication);
    }
    let mut peer = connect(&session, LIMITS, 9, 0);
    // The socket takes a small part of the outbox at a time.
    socket2::SockRef::from(&peer.link.socket).set_send_buffer_size(4096).unwrap();
    peer.subscribe(&broker, "r/+", Qos::AtMostOnce, None);
    while session.flush() {}
    let was_heard = Arc::new(AtomicBool::new(false));
    let flag = was_heard.clone();
    let resume = Box::new(move || flag.store(true, Relaxed));
    assert!(
        session.when_outbox_is_low(Waiter { id: 1, resume }),
        "the socket takes the whole replay at once"
    );
    peer.socket.set_nonblocking(true).unwrap();
    let mut part = vec![0; 4 * 1024];
    while !was_heard.load(Relaxed) {
        // Nothing may be there yet.
        let _ = peer.socket.read(&mut part);
        while session.on_writable() {}
    }
    assert!(session.draining(&peer.link) == Draining::Untold { has_queue: true }, "the replay is over");
}
