//! Sessions over a loopback socket whose other end the test holds.

mod replays;

use super::{Acknowledgement, Attach, Kind, Received, Session, SubscriptionError};
use crate::link::Link;
use crate::outbox::Framing;
use crate::settings::{Overflow, QueueLimits};
use meridian_broker::broker::Handle;
use meridian_broker::{Encodings, Publication, Readiness, Target, Terms, Verdict, Waiter};
use meridian_mqtt::decode::decode;
use meridian_mqtt::frame::Peek;
use meridian_mqtt::{Frame, Packet, ReasonCode, Version};
use meridian_router::{FilterId, TargetId};
use meridian_types::{Instant, Qos};
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const LIMITS: QueueLimits = QueueLimits {
    messages_max: 3,
    bytes_max: 1 << 20,
    outbox_bytes_max: 1 << 20,
    overflow: Overflow::DropOldest,
    offline_qos0: false,
};

struct Peer {
    session: Arc<Session>,
    link: Arc<Link>,
    socket: TcpStream,
}

fn connect(session: &Arc<Session>, limits: QueueLimits, window: u16, expiry_secs: u32) -> Peer {
    connect_with(session, limits, window, expiry_secs, |_| ())
}

fn connect_with(
    session: &Arc<Session>,
    limits: QueueLimits,
    window: u16,
    expiry_secs: u32,
    change: impl FnOnce(&mut Attach),
) -> Peer {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, peer) = listener.accept().unwrap();
    accepted.set_nonblocking(true).unwrap();
    let link = Arc::new(Link::new(mio::net::TcpStream::from_std(accepted), Framing::Plain, peer));
    let mut attach = Attach {
        link: link.clone(),
        version: Version::V5,
        window,
        packet_bytes_max: 1 << 28,
        alias_maximum: 0,
        expiry_secs,
        will: None,
        limits: Arc::new(limits),
    };
    change(&mut attach);
    assert!(session.attach(&attach, &[]).is_some());
    Peer { session: session.clone(), link, socket }
}

fn new_session() -> Arc<Session> {
    Arc::new(Session::new(TargetId(1), "test", Arc::new(LIMITS)))
}

fn offer(session: &Session, qos: Qos, payload: &str) -> Verdict {
    offer_until(session, qos, payload, None)
}

fn offer_until(session: &Session, qos: Qos, payload: &str, expiry_secs: Option<u32>) -> Verdict {
    let mut publication = Publication::new("t", payload.as_bytes(), Instant::from_millis(1), expiry_secs);
    publication.qos = qos;
    let terms = Terms { qos, ..Terms::default() };
    session.offer(&mut publication, &terms, &mut Encodings::default())
}

impl Peer {
    fn ack(&self, id: u16) {
        self.session.acknowledge(&self.link, &[Acknowledgement { kind: Kind::Puback, id, is_error: false }]);
    }

    /// Everything the session has sent: `payload`, `payload!` with DUP, or the packet's reason.
    fn received(&mut self) -> Vec<String> {
        self.session.flush();
        self.socket.set_nonblocking(true).unwrap();
        let mut bytes = Vec::new();
        match self.socket.read_to_end(&mut bytes) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => panic!("{error}"),
            _ => {}
        }
        let mut texts = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let Peek::Whole(frame) = Frame::peek(rest, usize::MAX).unwrap() else { panic!("half a packet") };
            match decode(Version::V5, frame.first_byte, &rest[frame.header_len..frame.len()]).unwrap() {
                Packet::Publish(publish) => {
                    let text = std::str::from_utf8(publish.payload).unwrap();
                    texts.push(format!("{text}{}", if publish.dup { "!" } else { "" }));
                }
                Packet::Disconnect(disconnect) => {
                    assert!(disconnect.reason_string.is_some(), "a refusal says why");
                    texts.push(disconnect.reason.name().to_owned());
                }
                other => texts.push(format!("{other:?}")),
            }
            rest = &rest[frame.len()..];
        }
        texts
    }
}

#[test]
fn a_full_window_queues_and_acknowledgements_let_the_queue_go_on_in_order() {
    let session = new_session();
    let mut peer = connect(&session, LIMITS, 2, 0);
    for payload in ["1", "2", "3", "4"] {
        offer(&session, Qos::AtLeastOnce, payload);
    }
    // Behind queued messages even QoS 0 waits its turn.
    offer(&session, Qos::AtMostOnce, "5");
    assert_eq!(peer.received(), ["1", "2"]);
    peer.ack(1);
    assert_eq!(peer.received(), ["3"]);
    peer.ack(2);
    assert_eq!(peer.received(), ["4", "5"]);
}

#[test]
fn each_overflow_policy_does_what_it_says() {
    for (overflow, verdict, kept) in [
        (Overflow::DropOldest, Verdict::TakenForOldest { dropped: 1 }, vec!["sent", "2", "3", "4"]),
        (Overflow::DropNewest, Verdict::DroppedFull, vec!["sent", "1", "2", "3"]),
        (Overflow::Block, Verdict::TakenButFull, vec!["sent", "1", "2", "3", "4"]),
    ] {
        let session = new_session();
        let mut peer = connect(&session, QueueLimits { overflow, ..LIMITS }, 1, 0);
        let verdicts: Vec<_> =
            ["sent", "1", "2", "3", "4"].iter().map(|text| offer(&session, Qos::AtLeastOnce, text)).collect();
        assert_eq!(verdicts[4], verdict);
        let mut received = peer.received();
        for id in 1..=5 {
            peer.ack(id);
            received.extend(peer.received());
        }
        assert_eq!(received, kept, "{overflow:?}");
    }
}

#[test]
fn limits_in_bytes_count_as_those_in_messages_do() {
    let session = new_session();
    let _peer = connect(&session, QueueLimits { bytes_max: 1000, messages_max: 1_000_000, ..LIMITS }, 1, 0);
    offer(&session, Qos::AtLeastOnce, "sent");
    assert_eq!(offer(&session, Qos::AtLeastOnce, &"x".repeat(600)), Verdict::Taken { first: false });
    assert_eq!(offer(&session, Qos::AtLeastOnce, &"x".repeat(600)), Verdict::TakenForOldest { dropped: 1 });
    assert_eq!(offer(&session, Qos::AtLeastOnce, &"x".repeat(2000)), Verdict::DroppedFull);
}

#[test]
fn a_session_cut_off_is_told_why_and_takes_nothing_more() {
    let session = new_session();
    let mut peer = connect(&session, QueueLimits { overflow: Overflow::Disconnect, ..LIMITS }, 1, 0);
    let verdicts: Vec<_> = (0..5).map(|_| offer(&session, Qos::AtLeastOnce, "x")).collect();
    assert_eq!(verdicts[4], Verdict::CutOff);
    session.cut_off();
    assert_eq!(peer.received(), ["x", "quota exceeded"]);
    assert_eq!(offer(&session, Qos::AtLeastOnce, "x"), Verdict::Gone);
    assert_eq!(peer.link.end_reason(), Some(ReasonCode::QuotaExceeded));
    assert!(session.detach(&peer.link, Instant::from_millis(2)).has_session_ended);
}

#[test]
fn what_was_not_acknowledged_is_sent_again_before_what_is_new() {
    let session = new_session();
    let mut peer = connect(&session, LIMITS, 9, 60);
    offer(&session, Qos::AtLeastOnce, "1");
    offer(&session, Qos::AtLeastOnce, "2");
    assert_eq!(peer.received(), ["1", "2"]);
    peer.ack(1);
    session.detach(&peer.link, Instant::from_millis(2));
    assert_eq!(offer(&session, Qos::AtLeastOnce, "3"), Verdict::Taken { first: false });
    assert_eq!(offer(&session, Qos::AtMostOnce, "lost"), Verdict::DroppedAway);
    let mut peer = connect(&session, LIMITS, 9, 60);
    assert_eq!(peer.received(), ["2!", "3"]);
}

#[test]
fn messages_that_expire_in_the_queue_are_dropped() {
    let session = new_session();
    let mut peer = connect(&session, LIMITS, 9, 60);
    session.detach(&peer.link, Instant::from_millis(2));
    // Counted from the first millisecond of the process: over before the clock starts.
    assert_eq!(offer_until(&session, Qos::AtLeastOnce, "expired", Some(0)), Verdict::Taken { first: false });
    offer(&session, Qos::AtLeastOnce, "lasting");
    peer = connect(&session, LIMITS, 9, 60);
    assert_eq!(peer.received(), ["lasting"]);
    assert_eq!(super::take_pumped().expired, 1);
}

#[test]
fn a_takeover_evicts_the_older_connection_with_its_reason() {
    let session = new_session();
    let mut old = connect(&session, LIMITS, 9, 60);
    let mut new = connect(&session, LIMITS, 9, 60);
    assert_eq!(old.received(), ["session taken over"]);
    offer(&session, Qos::AtMostOnce, "x");
    assert_eq!(new.received(), ["x"]);
    assert!(!session.detach(&old.link, Instant::from_millis(2)).has_session_ended);
    assert_eq!(session.readiness(), Readiness::Ready);
}

#[test]
fn a_waiting_publisher_goes_on_when_half_the_queue_is_gone() {
    let session = new_session();
    let peer = connect(&session, QueueLimits { overflow: Overflow::Block, ..LIMITS }, 1, 0);
    for _ in 0..5 {
        offer(&session, Qos::AtLeastOnce, "x");
    }
    let resumed = Arc::new(AtomicBool::new(false));
    let flag = resumed.clone();
    let resume = Box::new(move || flag.store(true, Relaxed));
    assert!(session.when_there_is_room(Waiter { id: 1, resume }));
    for (id, expected) in [(1, false), (2, false), (3, true)] {
        peer.ack(id);
        assert_eq!(resumed.load(Relaxed), expected, "after {id}");
    }
}

#[test]
fn publishers_that_wait_for_room_go_on_when_a_subscription_ends() {
    let session = new_session();
    let handle = Handle::Filter(FilterId(7));
    session.add_subscription(&handle, "f", 10).unwrap();
    let _peer = connect(&session, QueueLimits { overflow: Overflow::Block, ..LIMITS }, 1, 0);
    for _ in 0..4 {
        offer(&session, Qos::AtLeastOnce, "x");
    }
    let resumed = Arc::new(AtomicBool::new(false));
    let flag = resumed.clone();
    let resume = Box::new(move || flag.store(true, Relaxed));
    assert!(session.when_there_is_room(Waiter { id: 1, resume }));
    session.forget_subscriptions(&[]).resume_waiting();
    assert!(!resumed.load(Relaxed), "nothing has ended");
    session.forget_subscriptions(&[(handle, "f")]).resume_waiting();
    assert!(resumed.load(Relaxed));
}

#[test]
fn an_expired_session_ends_at_its_timer_and_not_before() {
    let session = new_session();
    let peer = connect(&session, LIMITS, 9, 10);
    let detached = session.detach(&peer.link, Instant::from_millis(1000));
    assert_eq!(detached.timer, Some(Instant::from_millis(11_000)));
    let due = Instant::from_millis(11_000);
    // A deadline far off fires early, and is put into the wheel again.
    let early = session.on_timer(due, Instant::from_millis(10_999));
    assert!(!early.has_session_ended && early.timer == Some(due));
    assert!(session.on_timer(due, due).has_session_ended);
    assert_eq!(session.readiness(), Readiness::Gone);
}

#[test]
fn a_session_has_one_entry_in_the_timing_wheel_however_often_it_comes_and_goes() {
    let session = new_session();
    let at = |secs: u64| Instant::from_millis(secs * 1000);
    let peer = connect(&session, LIMITS, 9, 100);
    assert_eq!(session.detach(&peer.link, at(0)).timer, Some(at(100)));
    // The entry is there already, and early enough.
    let peer = connect(&session, LIMITS, 9, 100);
    assert_eq!(session.detach(&peer.link, at(10)).timer, None);
    assert!(session.awaits_timer(at(100)));
    assert_eq!(session.on_timer(at(100), at(100)).timer, Some(at(110)));
    // An earlier deadline makes the entry stale.
    let peer = connect(&session, LIMITS, 9, 5);
    assert_eq!(session.detach(&peer.link, at(101)).timer, Some(at(106)));
    assert!(!session.awaits_timer(at(110)) && session.awaits_timer(at(106)));
    let stale = session.on_timer(at(110), at(105));
    assert!(stale.timer.is_none() && !stale.has_session_ended);
    // An entry that is dropped because the client is there is missed when it goes.
    let peer = connect(&session, LIMITS, 9, 100);
    assert!(!session.awaits_timer(at(106)));
    assert_eq!(session.detach(&peer.link, at(105)).timer, Some(at(205)));
    assert!(session.on_timer(at(205), at(205)).has_session_ended);
}

#[test]
fn a_client_with_a_smaller_window_is_sent_the_rest_when_it_acknowledges() {
    let session = new_session();
    let mut peer = connect(&session, LIMITS, 9, 60);
    for payload in ["1", "2", "3"] {
        offer(&session, Qos::AtLeastOnce, payload);
    }
    assert_eq!(peer.received(), ["1", "2", "3"]);
    let mut peer = connect(&session, LIMITS, 1, 60);
    offer(&session, Qos::AtLeastOnce, "4");
    assert_eq!(peer.received(), ["1!"]);
    peer.ack(1);
    assert_eq!(peer.received(), ["2!"]);
    peer.ack(2);
    assert_eq!(peer.received(), ["3!"]);
    peer.ack(3);
    assert_eq!(peer.received(), ["4"]);
}

#[test]
fn an_older_connection_has_no_say_in_the_session_any_more() {
    let session = new_session();
    let old = connect(&session, LIMITS, 9, 60);
    let new = connect(&session, LIMITS, 9, 60);
    assert!(session.say_goodbye(&old.link, false, Some(0)));
    assert_eq!(session.receive(&old.link, 1, 9), Received::Stale);
    assert_eq!(session.receive(&new.link, 1, 9), Received::New);
    assert!(!session.release(&old.link, 1) && session.release(&new.link, 1));
    assert!(!session.detach(&new.link, Instant::from_millis(2)).has_session_ended);
}

#[test]
fn a_session_that_has_ended_takes_no_connection_and_no_subscription() {
    let session = new_session();
    let peer = connect(&session, LIMITS, 9, 0);
    session.detach(&peer.link, Instant::from_millis(2));
    assert!(!session.is_resumable());
    let handle = Handle::Filter(meridian_router::FilterId(1));
    assert_eq!(session.add_subscription(&handle, "f", 10), Err(SubscriptionError::Ended));
}

#[test]
fn a_message_larger_than_the_whole_queue_drops_nothing_else() {
    let session = new_session();
    let mut peer = connect(&session, QueueLimits { bytes_max: 1000, ..LIMITS }, 1, 0);
    offer(&session, Qos::AtLeastOnce, "sent");
    offer(&session, Qos::AtLeastOnce, "waiting");
    assert_eq!(offer(&session, Qos::AtLeastOnce, &"x".repeat(2000)), Verdict::DroppedFull);
    assert_eq!(peer.received(), ["sent"]);
    peer.ack(1);
    assert_eq!(peer.received(), ["waiting"]);
}

#[test]
fn a_queue_takes_packets_as_large_as_the_client_does_and_no_alias_makes_them_larger() {
    // PUBLISH with QoS 1, topic "t" and no properties: 8 bytes and the payload.
    let packet_bytes_max = 108;
    for alias_maximum in [0, 9] {
        let session = new_session();
        let limits = |attach: &mut Attach| {
            (attach.packet_bytes_max, attach.alias_maximum) = (packet_bytes_max, alias_maximum);
        };
        let mut peer = connect_with(&session, LIMITS, 1, 0, limits);
        let mut received = 0;
        // The first goes to the outbox at once, the second through the queue, the third is too large for either.
        for payload_len in [100, 100, 101] {
            offer(&session, Qos::AtLeastOnce, &"x".repeat(payload_len));
        }
        for id in 1..=3 {
            let payloads = peer.received();
            assert!(payloads.iter().all(|payload| payload.len() == 100), "{payloads:?}");
            received += payloads.len();
            peer.ack(id);
        }
        assert_eq!((received, super::take_pumped().too_large), (2, 1), "{alias_maximum}");
    }
}

#[test]
fn subscriptions_are_forgotten_one_by_one_or_together() {
    let session = new_session();
    let kept = |session: &Session| {
        let mut kept = session.state.lock().subscriptions.clone();
        kept.sort_unstable();
        kept
    };
    let handles = |ids: &[u32]| ids.iter().map(|&id| (Handle::Filter(FilterId(id)), "f")).collect::<Vec<_>>();
    // 7 twice: a filter that is being forgotten, and the one that has its place in the index by now.
    for (handle, filter) in handles(&[5, 7, 1, 9, 7, 3]) {
        session.add_subscription(&handle, filter, 10).unwrap();
    }
    session.forget_subscriptions(&handles(&[1]));
    assert_eq!(kept(&session), [3, 5, 7, 7, 9].map(FilterId));
    session.forget_subscriptions(&handles(&[7, 3]));
    assert_eq!(kept(&session), [5, 7, 9].map(FilterId));
    session.forget_subscriptions(&handles(&[]));
    session.forget_subscriptions(&handles(&[9, 7, 5]));
    assert_eq!(kept(&session), []);
    assert_eq!(session.state.lock().subscriptions_held.bytes(), 0);
}

#[test]
fn nothing_is_sent_after_disconnect_and_the_next_connection_gets_it() {
    let session = new_session();
    let mut peer = connect(&session, LIMITS, 9, 60);
    offer(&session, Qos::ExactlyOnce, "x");
    assert_eq!(peer.received(), ["x"]);
    let disconnect = [0xE0, 0];
    session.say_last(&peer.link, &disconnect);
    for id in [1, 2] {
        let pubrec = Acknowledgement { kind: Kind::Pubrec, id, is_error: false };
        session.acknowledge(&peer.link, &[pubrec]);
    }
    session.flush();
    let mut bytes = [0; 8];
    assert_eq!(peer.socket.read(&mut bytes).unwrap(), disconnect.len());
    assert_eq!(peer.socket.read(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
    let mut peer = connect(&session, LIMITS, 9, 60);
    assert!(matches!(&peer.received()[..], [pubrel] if pubrel.starts_with("Pubrel(Ack { packet_id: 1,")));
}
