//! The publish path against targets that record what they are offered.

use meridian_broker::broker::Handle;
use meridian_broker::target::Delivery;
use meridian_broker::{
    Broker, Context, Counter, Encodings, Limits, Publication, Readiness, ShareStrategy, SubscribeOptions,
    Target, Terms, Verdict, Waiter,
};
use meridian_router::TargetId;
use meridian_types::{Instant, Qos, SharedFilter};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

struct Recorder {
    id: TargetId,
    offered: Mutex<Vec<(String, Terms)>>,
    verdict: Mutex<Verdict>,
    readiness: Mutex<Readiness>,
    flushes: AtomicUsize,
    cut_offs: AtomicUsize,
}

impl Recorder {
    fn received(&self) -> Vec<String> {
        self.offered.lock().unwrap().iter().map(|(topic, _)| topic.clone()).collect()
    }

    fn only_terms(&self) -> Terms {
        let offered = self.offered.lock().unwrap();
        assert_eq!(offered.len(), 1, "{offered:?}");
        offered[0].1.clone()
    }

    fn answers(&self, verdict: Verdict) {
        *self.verdict.lock().unwrap() = verdict;
    }

    fn is(&self, readiness: Readiness) {
        *self.readiness.lock().unwrap() = readiness;
    }
}

impl Target for Recorder {
    fn offer(&self, publication: &mut Publication<'_>, terms: &Terms, _: &mut Encodings) -> Verdict {
        self.offered.lock().unwrap().push((publication.topic.to_owned(), terms.clone()));
        *self.verdict.lock().unwrap()
    }

    fn flush(&self) -> bool {
        self.flushes.fetch_add(1, Relaxed);
        false
    }

    fn readiness(&self) -> Readiness {
        *self.readiness.lock().unwrap()
    }

    fn load(&self) -> usize {
        self.offered.lock().unwrap().len()
    }

    fn cut_off(&self) {
        self.cut_offs.fetch_add(1, Relaxed);
    }

    fn when_there_is_room(&self, _: Waiter) -> bool {
        false
    }
}

fn as_target(recorder: &Arc<Recorder>) -> Arc<dyn Target> {
    recorder.clone()
}

struct Setting {
    broker: Broker,
    context: Context,
}

impl Setting {
    fn new() -> Self {
        Self::with_strategy(ShareStrategy::RoundRobin)
    }

    fn with_strategy(share_strategy: ShareStrategy) -> Self {
        let limits = Limits { retained_count_max: 2, retained_bytes_max: 1 << 20, share_strategy };
        Self { broker: Broker::new(limits), context: Context::new(1 << 20) }
    }

    fn target(&self) -> Arc<Recorder> {
        self.broker.register(|id| {
            Arc::new(Recorder {
                id,
                offered: Mutex::default(),
                verdict: Mutex::new(Verdict::Taken { first: true }),
                readiness: Mutex::new(Readiness::Ready),
                flushes: AtomicUsize::new(0),
                cut_offs: AtomicUsize::new(0),
            })
        })
    }

    fn subscribe(&self, target: &Arc<Recorder>, filter: &str) {
        self.subscribe_with(target, filter, SubscribeOptions::default());
    }

    fn subscribe_with(&self, target: &Arc<Recorder>, filter: &str, options: SubscribeOptions) {
        let filter = SharedFilter::parse(filter).unwrap();
        let keep = |_: &Handle| Ok::<_, ()>(());
        let subscribed = self.broker.subscribe(&as_target(target), target.id, filter, options, keep);
        assert!(subscribed.unwrap().is_some());
    }

    fn unsubscribe(&self, target: &Arc<Recorder>, filter: &str) -> bool {
        self.broker.unsubscribe(&as_target(target), target.id, SharedFilter::parse(filter).unwrap()).is_some()
    }

    fn publish(&mut self, topic: &str) -> bool {
        self.publish_as(topic, TargetId(0))
    }

    fn publish_as(&mut self, topic: &str, publisher: TargetId) -> bool {
        let mut publication = Publication::new(topic, b"x", Instant::from_millis(1), None);
        publication.publisher = publisher;
        self.broker.publish(&mut self.context, &mut publication).matched
    }

    fn count(&mut self, counter: Counter) -> u64 {
        self.context.end_turn(&self.broker.metrics);
        self.broker.metrics.get(counter)
    }
}

#[test]
fn overlapping_subscriptions_make_one_delivery_with_the_highest_qos_and_all_identifiers() {
    let mut setting = Setting::new();
    let target = setting.target();
    let options = |qos, id| SubscribeOptions { qos, id, ..SubscribeOptions::default() };
    setting.subscribe_with(&target, "a/+", options(Qos::AtMostOnce, 7));
    setting.subscribe_with(&target, "a/#", options(Qos::ExactlyOnce, 9));
    setting.subscribe_with(&target, "a/b", options(Qos::AtLeastOnce, 0));
    assert!(setting.publish("a/b"));
    let terms = target.only_terms();
    let mut ids = terms.subscription_ids.unwrap().to_vec();
    ids.sort_unstable();
    assert_eq!((terms.qos, ids), (Qos::ExactlyOnce, vec![7, 9]));
}

#[test]
fn subscribing_again_replaces_the_options() {
    let mut setting = Setting::new();
    let target = setting.target();
    setting.subscribe_with(&target, "a", SubscribeOptions { qos: Qos::ExactlyOnce, ..Default::default() });
    setting.publish("a");
    setting.subscribe_with(&target, "a", SubscribeOptions { qos: Qos::AtLeastOnce, ..Default::default() });
    setting.publish("a");
    let levels: Vec<Qos> = target.offered.lock().unwrap().iter().map(|(_, terms)| terms.qos).collect();
    assert_eq!(levels, [Qos::ExactlyOnce, Qos::AtLeastOnce]);
}

#[test]
fn no_local_applies_to_its_own_subscription_alone() {
    let mut setting = Setting::new();
    let target = setting.target();
    let options = |no_local, id| SubscribeOptions { no_local, id, ..SubscribeOptions::default() };
    setting.subscribe_with(&target, "a/b", options(true, 1));
    setting.publish_as("a/b", target.id);
    assert!(target.received().is_empty());
    setting.subscribe_with(&target, "a/#", options(false, 2));
    setting.publish_as("a/b", target.id);
    assert_eq!(target.only_terms().subscription_ids.as_deref(), Some([2].as_slice()));
}

#[test]
fn routes_follow_every_subscribe_and_unsubscribe_at_once() {
    let mut setting = Setting::new();
    let target = setting.target();
    assert!(!setting.publish("a/b/c"));
    for filter in ["#", "+/b/c", "a/+/#", "a/b/c", "a/b/c/#"] {
        setting.subscribe(&target, filter);
        assert!(setting.publish("a/b/c"), "{filter}");
        assert!(setting.unsubscribe(&target, filter));
        assert!(!setting.publish("a/b/c"), "{filter}");
    }
    assert_eq!(target.received().len(), 5);
    assert!(!setting.unsubscribe(&target, "a/b/c"));
}

#[test]
fn churn_elsewhere_leaves_cached_routes_in_use() {
    let mut setting = Setting::new();
    let (target, other) = (setting.target(), setting.target());
    setting.subscribe(&target, "a/b");
    // A topic is kept from its second miss on.
    (0..2).for_each(|_| assert!(setting.publish("a/b")));
    let misses = setting.count(Counter::RouteCacheMisses);
    for number in 0..100 {
        setting.subscribe(&other, &format!("elsewhere/{number}/+"));
        setting.publish("a/b");
    }
    let more = setting.count(Counter::RouteCacheMisses) - misses;
    assert!(more <= 5, "{more} of 100 publishes asked the index again");
}

#[test]
fn targets_found_too_slow_are_cut_off_after_all_others_were_offered_the_message_once() {
    let mut setting = Setting::new();
    let targets: Vec<_> = (0..50).map(|_| setting.target()).collect();
    for target in &targets {
        setting.subscribe(target, "t");
    }
    let slow: Vec<_> = targets.iter().step_by(7).collect();
    slow.iter().for_each(|target| target.answers(Verdict::CutOff));
    setting.publish("t");
    for target in &targets {
        assert_eq!(target.received().len(), 1);
        let is_slow = slow.iter().any(|other| Arc::ptr_eq(other, target));
        assert_eq!(target.cut_offs.load(Relaxed), usize::from(is_slow));
    }
    assert_eq!(setting.count(Counter::DroppedCutOff), slow.len() as u64);
}

#[test]
fn a_target_is_flushed_once_for_all_it_was_offered() {
    let mut setting = Setting::new();
    let target = setting.target();
    setting.subscribe(&target, "#");
    setting.publish("a");
    target.answers(Verdict::Taken { first: false });
    setting.publish("b");
    setting.context.flush();
    setting.context.flush();
    assert_eq!(target.flushes.load(Relaxed), 1);
}

#[test]
fn a_share_group_gives_each_message_to_one_member_in_turn() {
    let mut setting = Setting::new();
    let members: Vec<_> = (0..3).map(|_| setting.target()).collect();
    let outsider = setting.target();
    members.iter().for_each(|member| setting.subscribe(member, "$share/g/t"));
    setting.subscribe(&outsider, "t");
    (0..9).for_each(|_| assert!(setting.publish("t")));
    assert!(members.iter().all(|member| member.received().len() == 3));
    assert_eq!(outsider.received().len(), 9);
}

#[test]
fn members_with_room_come_before_slow_ones_and_those_before_absent_ones() {
    for strategy in [
        ShareStrategy::RoundRobin,
        ShareStrategy::Random,
        ShareStrategy::LeastInflight,
        ShareStrategy::Sticky,
        ShareStrategy::HashClient,
        ShareStrategy::HashTopic,
    ] {
        let mut setting = Setting::with_strategy(strategy);
        let [ready, slow, away] = [(); 3].map(|()| setting.target());
        for member in [&away, &slow, &ready] {
            setting.subscribe(member, "$share/g/t/+");
        }
        slow.is(Readiness::Slow);
        away.is(Readiness::Away);
        (0..10).for_each(|number| assert!(setting.publish(&format!("t/{number}"))));
        assert_eq!(ready.received().len(), 10, "{strategy:?}");
        ready.is(Readiness::Gone);
        setting.publish("t/x");
        assert_eq!(slow.received().len(), 1, "{strategy:?}");
        slow.is(Readiness::Gone);
        setting.publish("t/x");
        assert_eq!(away.received().len(), 1, "{strategy:?}");
    }
}

#[test]
fn sticky_and_hash_strategies_stay_with_a_member() {
    for strategy in [ShareStrategy::Sticky, ShareStrategy::HashTopic, ShareStrategy::HashClient] {
        let mut setting = Setting::with_strategy(strategy);
        let members: Vec<_> = (0..4).map(|_| setting.target()).collect();
        members.iter().for_each(|member| setting.subscribe(member, "$share/g/t"));
        (0..20).for_each(|_| assert!(setting.publish_as("t", TargetId(77))));
        assert_eq!(members.iter().filter(|member| !member.received().is_empty()).count(), 1, "{strategy:?}");
    }
}

#[test]
fn a_group_is_gone_with_its_last_member_and_another_of_the_same_name_starts_anew() {
    let mut setting = Setting::new();
    let (first, second) = (setting.target(), setting.target());
    setting.subscribe(&first, "$share/g/t");
    assert!(setting.unsubscribe(&first, "$share/g/t"));
    assert!(!setting.unsubscribe(&first, "$share/g/t"));
    assert_eq!((setting.broker.group_count(), setting.broker.index().filter_count()), (0, 0));
    assert!(!setting.publish("t"));
    setting.subscribe(&second, "$share/g/t");
    setting.publish("t");
    assert_eq!((first.received().len(), second.received().len()), (0, 1));
}

#[test]
fn what_a_leaving_member_had_goes_to_another() {
    let mut setting = Setting::new();
    let (leaver, stayer) = (setting.target(), setting.target());
    setting.subscribe(&leaver, "$share/g/t");
    setting.publish("t");
    let terms = leaver.only_terms();
    setting.subscribe(&stayer, "$share/g/t");
    let mut publication = Publication::new("t", b"x", Instant::from_millis(1), None);
    let delivery = Delivery { message: publication.message(), terms };
    setting.broker.redeliver(&mut setting.context, leaver.id, vec![delivery]);
    assert_eq!((leaver.received().len(), stayer.received().len()), (1, 1));
}

#[test]
fn the_retained_store_keeps_the_last_message_within_its_limits() {
    let mut setting = Setting::new();
    let mut retain = |topic: &str, payload: &[u8], expiry_secs| {
        let mut publication = Publication::new(topic, payload, Instant::from_millis(1), expiry_secs);
        publication.retain = true;
        setting.broker.publish(&mut setting.context, &mut publication);
    };
    retain("a/1", b"old", None);
    retain("a/1", b"new", None);
    retain("a/2", b"short-lived", Some(10));
    retain("a/3", b"one too many", None);
    let found = |filter: &str, millis| {
        let filter = SharedFilter::parse(filter).unwrap().filter;
        let now = Instant::from_millis(millis);
        let (mut found, _) = setting.broker.retained.page(filter, None, 10, now);
        found.sort_by(|left, right| left.topic.cmp(&right.topic));
        found.iter().map(|message| message.payload.to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(found("a/+", 1), [b"new".to_vec(), b"short-lived".to_vec()]);
    assert_eq!(found("a/+", 10_002), [b"new".to_vec()]);
    assert_eq!(setting.count(Counter::RetainedRefusedLimit), 1);
    let mut publication = Publication::new("a/1", b"", Instant::from_millis(1), None);
    publication.retain = true;
    setting.broker.publish(&mut setting.context, &mut publication);
    assert_eq!(setting.broker.retained.count(), 1);
}

#[test]
fn a_member_that_is_cut_off_costs_its_group_no_message() {
    let mut setting = Setting::new();
    let (slow, quick) = (setting.target(), setting.target());
    setting.subscribe(&slow, "$share/g/t");
    setting.subscribe(&quick, "$share/g/t");
    slow.answers(Verdict::CutOff);
    (0..4).for_each(|_| assert!(setting.publish("t")));
    assert_eq!(quick.received().len(), 4);
    assert!(slow.cut_offs.load(Relaxed) > 0);
}

#[test]
fn a_target_that_is_gone_cannot_subscribe_under_the_number_of_another() {
    let mut setting = Setting::new();
    let gone = setting.target();
    setting.broker.unregister(gone.id);
    let newcomer = setting.target();
    assert_eq!(gone.id, newcomer.id, "numbers are used again");
    setting.subscribe(&newcomer, "mine");
    let filter = SharedFilter::parse("mine").unwrap();
    let keep = |_: &Handle| -> Result<(), ()> { unreachable!("there is nothing to keep") };
    let options = SubscribeOptions::default();
    let subscribed = setting.broker.subscribe(&as_target(&gone), gone.id, filter, options, keep).unwrap();
    assert!(subscribed.is_none() && !setting.unsubscribe(&gone, "mine"));
    setting.publish("mine");
    assert_eq!((newcomer.received().len(), gone.received().len()), (1, 0));
}

#[test]
fn a_subscription_that_its_owner_does_not_keep_is_nobodys() {
    let mut setting = Setting::new();
    for filter in ["t", "$share/g/t"] {
        let leaving = setting.target();
        let filter = SharedFilter::parse(filter).unwrap();
        // The owner ends while it subscribes: its number may be another's at once.
        let subscribed = std::thread::scope(|scope| {
            let keep = |_: &Handle| {
                scope.spawn(|| setting.broker.unregister(leaving.id));
                Err("ended")
            };
            let target = as_target(&leaving);
            setting.broker.subscribe(&target, leaving.id, filter, SubscribeOptions::default(), keep)
        });
        assert_eq!(subscribed.unwrap_err(), "ended");
        let newcomer = setting.target();
        assert!(!setting.publish("t"), "{filter:?}");
        assert_eq!(newcomer.received().len(), 0);
        assert_eq!((setting.broker.index().filter_count(), setting.broker.group_count()), (0, 0));
    }
}

#[test]
fn what_is_there_already_is_not_kept_twice() {
    let setting = Setting::new();
    let target = setting.target();
    for filter in ["t", "$share/g/t"] {
        setting.subscribe(&target, filter);
        let keep = |_: &Handle| -> Result<(), ()> { unreachable!("it is not new") };
        let filter = SharedFilter::parse(filter).unwrap();
        let options = SubscribeOptions { qos: Qos::AtLeastOnce, ..SubscribeOptions::default() };
        let subscribed = setting.broker.subscribe(&as_target(&target), target.id, filter, options, keep);
        assert!(!subscribed.unwrap().unwrap().is_new);
    }
}
