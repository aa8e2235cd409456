//! A feed and a follower of it, over a link that loses, repeats and reorders: whenever the follower calls itself complete
//! it has the feed's set of that moment, and in the end it has the feed's set.

use std::collections::BTreeSet;

use meridian_router::feed::{
    Agreement, Change, Epoch, HashKey, Interest, NotHeld, Page, PageStart, Refusal, Replica, Sequence, Since,
};
use meridian_router::{Index, TargetId};
use meridian_types::{TopicFilter, TopicName};
use proptest::collection::vec;
use proptest::prelude::*;

const KEY: HashKey = HashKey(*b"0123456789abcdef");
const TARGET: TargetId = TargetId(7);
const OPTIONS: u32 = 3;

/// Without wildcards, so that a look-up of the same text shows whether a filter is in the index.
const FILTERS: [&str; 12] =
    ["a", "b", "a/b", "a/b/c", "$SYS/x", "", "plant/1", "plant/2", "plant/3", "1", "2", "temperature/in"];

fn filter(at: usize) -> TopicFilter<'static> {
    let text = FILTERS[at % FILTERS.len()];
    TopicFilter::new(if text.is_empty() { "/" } else { text }).unwrap()
}

/// The feed's side, with everything that it ever was.
struct Feed {
    interest: Interest,
    epoch: u64,
    ring_bytes_max: usize,
    /// By epoch and sequence.
    history: Vec<Vec<BTreeSet<String>>>,
    /// What subscribers hold, each as often as they do.
    subscribers: Vec<usize>,
}

impl Feed {
    fn new(ring_bytes_max: usize) -> Self {
        Self {
            interest: Interest::new(Epoch(0), KEY, ring_bytes_max),
            epoch: 0,
            ring_bytes_max,
            history: vec![vec![BTreeSet::new()]],
            subscribers: Vec::new(),
        }
    }

    fn set(&self) -> &BTreeSet<String> {
        self.history.last().unwrap().last().unwrap()
    }

    fn note(&mut self, published: Option<Sequence>) {
        let set: BTreeSet<String> =
            self.subscribers.iter().map(|&at| filter(at).as_str().to_owned()).collect();
        let is_change = set != *self.set();
        assert_eq!(published.is_some(), is_change, "a change is published when the set changes");
        if let Some(sequence) = published {
            let history = self.history.last_mut().unwrap();
            history.push(set);
            assert_eq!(sequence.0 as usize, history.len() - 1);
        }
        assert_eq!(self.interest.filter_count(), self.set().len());
        assert!(self.interest.ring_bytes() <= self.ring_bytes_max);
    }

    fn subscribe(&mut self, at: usize) {
        self.subscribers.push(at % FILTERS.len());
        let published = self.interest.add(filter(at));
        self.note(published);
    }

    fn unsubscribe(&mut self, pick: usize) {
        if self.subscribers.is_empty() {
            assert_eq!(self.interest.remove(filter(pick)), Err(NotHeld));
            return;
        }
        let at = self.subscribers.swap_remove(pick % self.subscribers.len());
        let published = self.interest.remove(filter(at)).unwrap();
        self.note(published);
    }

    fn restart(&mut self) {
        self.epoch += 1;
        self.interest = Interest::new(Epoch(self.epoch), KEY, self.ring_bytes_max);
        self.history.push(vec![BTreeSet::new()]);
        self.subscribers.clear();
    }

    fn answer_changes(&self, epoch: Epoch, after: Sequence, bytes_max: usize) -> Message {
        match self.interest.changes_since(epoch, after, bytes_max) {
            Since::Changes(changes) => {
                let after = changes.after;
                let changes = changes.map(|change| match change {
                    Change::Add(filter) => (true, filter.as_str().to_owned()),
                    Change::Remove(filter) => (false, filter.as_str().to_owned()),
                });
                Message::Changes(epoch, after, changes.collect())
            }
            Since::Behind => Message::Behind,
        }
    }
}

#[derive(Clone, Debug)]
enum Message {
    Page(Page),
    /// The changes: whether it was added, and what.
    Changes(Epoch, Sequence, Vec<(bool, String)>),
    Behind,
}

/// The follower's side.
struct Follower {
    replica: Replica,
    index: Index,
    /// What the replica said of the index.
    routes: BTreeSet<String>,
    link: Vec<Message>,
}

impl Follower {
    fn new() -> Self {
        Self {
            replica: Replica::new(TARGET, OPTIONS, KEY),
            index: Index::new(),
            routes: BTreeSet::new(),
            link: Vec::new(),
        }
    }

    fn deliver(&mut self, message: &Message) -> Result<(), Refusal> {
        let routes = &mut self.routes;
        let mut changed = |change: Change<'_>| mirror(routes, change);
        match message {
            Message::Page(page) => {
                let filters = page.filters.iter().map(|text| TopicFilter::new(text).unwrap());
                self.replica.apply_page(&self.index, page.head, filters, &mut changed)
            }
            Message::Changes(epoch, after, changes) => {
                let changes = changes.iter().map(|(is_add, text)| {
                    let filter = TopicFilter::new(text).unwrap();
                    if *is_add { Change::Add(filter) } else { Change::Remove(filter) }
                });
                self.replica.apply_changes(&self.index, *epoch, *after, changes, &mut changed).map(|_| ())
            }
            Message::Behind => {
                self.replica.fall_behind();
                Ok(())
            }
        }
    }

    fn drop_stale(&mut self, routes_max: usize) {
        let before = self.replica.stale_count();
        let routes = &mut self.routes;
        let dropped = self.replica.drop_stale(&self.index, routes_max, &mut |change| mirror(routes, change));
        assert!(dropped.routes <= routes_max);
        assert_eq!(dropped.routes + dropped.left, before);
    }

    fn drop_owner(&mut self, routes_max: usize) -> usize {
        let routes = &mut self.routes;
        self.replica.drop_owner(&self.index, routes_max, &mut |change| mirror(routes, change)).left
    }

    fn check(&self, feed: &Feed) {
        assert_eq!(self.index.filter_count(), self.routes.len());
        let mut entries = Vec::new();
        for text in &self.routes {
            self.index.matches(TopicName::new(text).unwrap(), &mut entries);
        }
        assert_eq!(entries.len(), self.routes.len(), "the index does not hold what it was said to");
        assert!(entries.iter().all(|entry| entry.target == TARGET && entry.options == OPTIONS));
        assert_eq!(self.replica.route_count() + self.replica.stale_count(), self.routes.len());
        if self.replica.is_complete() {
            let (epoch, sequence) = self.replica.position().unwrap();
            let expected = &feed.history[epoch.0 as usize][sequence.0 as usize];
            assert_eq!(self.replica.route_count(), expected.len());
            assert!(self.routes.is_superset(expected), "{:?} lacks of {expected:?}", self.routes);
        }
    }
}

fn mirror(routes: &mut BTreeSet<String>, change: Change<'_>) {
    let is_news = match change {
        Change::Add(filter) => routes.insert(filter.as_str().to_owned()),
        Change::Remove(filter) => routes.remove(filter.as_str()),
    };
    assert!(is_news, "{change:?} is no change");
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Subscribe(usize),
    Unsubscribe(usize),
    /// The feed's node starts anew.
    Restart,
    /// The follower asks for what it needs, a page if it can choose.
    AskForPage(usize),
    /// The same, changes if it can choose.
    AskForChanges(usize),
    /// The feed sends changes by itself, from some sequence on.
    Push(u64, usize),
    /// The oldest message arrives.
    Deliver,
    /// Any message arrives, and stays to arrive again.
    DeliverOutOfOrder(usize),
    Disconnect,
    DropStale(usize),
    Compare,
    /// The follower takes the feed's node for gone.
    DropOwner(usize),
}

fn operation(delivery: impl Strategy<Value = Operation> + 'static) -> impl Strategy<Value = Operation> {
    prop_oneof![
        10 => any::<usize>().prop_map(Operation::Subscribe),
        8 => any::<usize>().prop_map(Operation::Unsubscribe),
        1 => Just(Operation::Restart),
        6 => (1..60usize).prop_map(Operation::AskForPage),
        4 => (1..600usize).prop_map(Operation::AskForChanges),
        4 => (0..4u64, 1..600usize).prop_map(|(back, bytes)| Operation::Push(back, bytes)),
        8 => Just(Operation::Deliver),
        10 => delivery,
        1 => Just(Operation::Disconnect),
        3 => (0..4usize).prop_map(Operation::DropStale),
        4 => Just(Operation::Compare),
        1 => (0..9usize).prop_map(Operation::DropOwner),
    ]
}

fn step(feed: &mut Feed, follower: &mut Follower, operation: Operation) {
    match operation {
        Operation::Subscribe(at) => feed.subscribe(at),
        Operation::Unsubscribe(pick) => feed.unsubscribe(pick),
        Operation::Restart => feed.restart(),
        Operation::AskForPage(bytes_max) => {
            let needs = follower.replica.needs();
            let answer = match (needs.page, needs.changes) {
                (Some(start), _) => Message::Page(feed.interest.snapshot_page(start, bytes_max)),
                (None, Some((epoch, after))) => feed.answer_changes(epoch, after, bytes_max),
                (None, None) => panic!("a replica always needs something"),
            };
            follower.link.push(answer);
        }
        Operation::AskForChanges(bytes_max) => {
            if let Some((epoch, after)) = follower.replica.needs().changes {
                follower.link.push(feed.answer_changes(epoch, after, bytes_max));
            }
        }
        Operation::Push(back, bytes_max) => {
            let state = feed.interest.state();
            let after = Sequence(state.sequence.0.saturating_sub(back));
            if let changes @ Message::Changes(..) = feed.answer_changes(state.epoch, after, bytes_max) {
                follower.link.push(changes);
            }
        }
        Operation::Deliver if !follower.link.is_empty() => {
            let message = follower.link.remove(0);
            let _ = follower.deliver(&message);
        }
        Operation::DeliverOutOfOrder(pick) if !follower.link.is_empty() => {
            let message = follower.link[pick % follower.link.len()].clone();
            let _ = follower.deliver(&message);
        }
        Operation::Deliver | Operation::DeliverOutOfOrder(_) => {}
        Operation::Disconnect => follower.link.clear(),
        Operation::DropStale(routes_max) => follower.drop_stale(routes_max),
        Operation::Compare => {
            let agreement = follower.replica.check(feed.interest.state());
            assert_ne!(agreement, Ok(Agreement::Differs), "a complete replica is not the feed's set");
        }
        Operation::DropOwner(routes_max) => {
            follower.drop_owner(routes_max);
        }
    }
}

/// A link that works: what is needed is asked for, in pages of `bytes_max`, until the follower is done.
fn settle(feed: &Feed, follower: &mut Follower, bytes_max: usize) {
    follower.link.clear();
    let state = feed.interest.state();
    let mut rounds = 0;
    while !follower.replica.is_complete()
        || follower.replica.position() != Some((state.epoch, state.sequence))
    {
        rounds += 1;
        assert!(rounds < 1_000, "it never settles: {:?}", follower.replica.needs());
        let needs = follower.replica.needs();
        let answer = match (needs.page, needs.changes) {
            (Some(start), _) => Message::Page(feed.interest.snapshot_page(start, bytes_max)),
            (None, Some((epoch, after))) => feed.answer_changes(epoch, after, bytes_max),
            (None, None) => panic!("a replica always needs something"),
        };
        let _ = follower.deliver(&answer);
        follower.check(feed);
    }
    while follower.replica.stale_count() > 0 {
        follower.drop_stale(2);
    }
    assert_eq!(follower.routes, *feed.set());
    assert_eq!(follower.replica.check(state), Ok(Agreement::Agrees));
}

fn run(operations: &[Operation], ring_bytes_max: usize) {
    let mut feed = Feed::new(ring_bytes_max);
    let mut follower = Follower::new();
    for &operation in operations {
        step(&mut feed, &mut follower, operation);
        follower.check(&feed);
    }
    settle(&feed, &mut follower, 40);
    while follower.drop_owner(3) > 0 {}
    assert!(follower.routes.is_empty() && follower.index.filter_count() == 0);
    assert_eq!(follower.replica.needs().page, Some(PageStart::FIRST));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_follower_over_an_ordered_link_ends_with_the_same_set(
        operations in vec(operation(Just(Operation::Deliver)), 0..150), ring_bytes_max in 0..2_000usize,
    ) {
        run(&operations, ring_bytes_max);
    }

    #[test]
    fn a_follower_over_any_link_is_complete_only_with_the_same_set(
        operations in vec(operation(any::<usize>().prop_map(Operation::DeliverOutOfOrder)), 0..150), ring_bytes_max in 0..2_000usize,
    ) {
        run(&operations, ring_bytes_max);
    }
}

fn interest_of(epoch: u64, filters: &[&str]) -> Interest {
    let mut interest = Interest::new(Epoch(epoch), KEY, 1_000);
    for text in filters {
        interest.add(TopicFilter::new(text).unwrap());
    }
    interest
}

fn load(replica: &mut Replica, index: &Index, interest: &Interest) {
    while let Some(start) = replica.needs().page {
        let page = interest.snapshot_page(start, 1);
        assert!(page.filters.len() <= 1, "a page of at most one byte has one filter");
        let filters = page.filters.iter().map(|text| TopicFilter::new(text).unwrap());
        replica.apply_page(index, page.head, filters, &mut |_| {}).unwrap();
    }
}

#[test]
fn a_copy_that_differs_is_found_by_its_hash_and_mended_without_a_gap() {
    let (index, mut replica) = (Index::new(), Replica::new(TARGET, OPTIONS, KEY));
    // Two feeds at the same place with other filters: what must never be, and is found all the same.
    let (held, wanted) = (interest_of(1, &["a", "b"]), interest_of(1, &["a", "c"]));
    load(&mut replica, &index, &held);
    assert_eq!(replica.check(held.state()), Ok(Agreement::Agrees));
    assert_eq!(replica.check(wanted.state()), Ok(Agreement::Differs));
    assert_eq!((replica.route_count(), replica.stale_count(), index.filter_count()), (0, 2, 2));
    assert_eq!(replica.drop_stale(&index, 9, &mut |_| {}).routes, 0, "nothing is dropped while it loads");
    let mut dropped = Vec::new();
    load(&mut replica, &index, &wanted);
    replica.drop_stale(&index, 9, &mut |change| dropped.push(change.filter().as_str().to_owned()));
    assert_eq!(dropped, ["b"]);
    assert_eq!(replica.check(wanted.state()), Ok(Agreement::Agrees));
}

#[test]
fn a_route_that_the_pages_missed_stays_until_the_changes_have_brought_it_back() {
    let (index, mut replica) = (Index::new(), Replica::new(TARGET, OPTIONS, KEY));
    let mut interest = interest_of(1, &["a", "b"]);
    load(&mut replica, &index, &interest);
    replica.fall_behind();
    let apply = |replica: &mut Replica, page: &Page| {
        let filters = page.filters.iter().map(|text| TopicFilter::new(text).unwrap());
        replica.apply_page(&index, page.head, filters, &mut |_| {}).unwrap();
    };
    let first = interest.snapshot_page(PageStart::FIRST, 1);
    apply(&mut replica, &first);
    let next = first.head.next.unwrap();
    // The other filter goes while its page is read, and comes back after that.
    let missed = interest.snapshot_page(next, 1).filters.remove(0);
    interest.remove(TopicFilter::new(&missed).unwrap()).unwrap();
    let last = interest.snapshot_page(next, 1);
    assert!(last.filters.is_empty() && last.head.next.is_none());
    interest.add(TopicFilter::new(&missed).unwrap());
    apply(&mut replica, &last);
    assert_eq!(replica.drop_stale(&index, 9, &mut |_| {}).routes, 0, "{missed} is still wanted");
    let (epoch, after) = replica.needs().changes.unwrap();
    let Since::Changes(changes) = interest.changes_since(epoch, after, 1_000) else {
        panic!("the ring holds them")
    };
    assert_eq!(replica.apply_changes(&index, epoch, after, changes, &mut |_| {}), Ok(2));
    assert_eq!(replica.stale_count(), 0);
    assert_eq!(replica.check(interest.state()), Ok(Agreement::Agrees));
}

#[test]
fn a_page_that_was_overtaken_by_changes_is_refused() {
    let (index, mut replica) = (Index::new(), Replica::new(TARGET, OPTIONS, KEY));
    let mut interest = interest_of(1, &["a", "b"]);
    let apply = |replica: &mut Replica, page: &Page| {
        let filters = page.filters.iter().map(|text| TopicFilter::new(text).unwrap());
        replica.apply_page(&index, page.head, filters, &mut |_| {})
    };
    let first = interest.snapshot_page(PageStart::FIRST, 1);
    apply(&mut replica, &first).unwrap();
    let overtaken = interest.snapshot_page(first.head.next.unwrap(), 1);
    // The filter of the second page goes, and its place with it, before the page arrives.
    interest.remove(TopicFilter::new(&overtaken.filters[0]).unwrap()).unwrap();
    let (epoch, after) = replica.needs().changes.unwrap();
    let Since::Changes(changes) = interest.changes_since(epoch, after, 1_000) else {
        panic!("the ring holds them")
    };
    assert_eq!(replica.apply_changes(&index, epoch, after, changes, &mut |_| {}), Ok(1));
    let refusal = Refusal::OldPage { applied: Sequence(3), got: Sequence(2) };
    assert_eq!(apply(&mut replica, &overtaken), Err(refusal));
    load(&mut replica, &index, &interest);
    assert_eq!(index.filter_count(), 1);
    assert_eq!(replica.check(interest.state()), Ok(Agreement::Agrees));
}

#[test]
fn a_follower_that_misses_more_than_the_ring_holds_is_behind() {
    let interest = interest_of(1, &["a", "b", "c"]);
    assert!(
        matches!(interest.changes_since(Epoch(1), Sequence(0), 1), Since::Changes(changes) if changes.len() == 1)
    );
    assert!(
        matches!(interest.changes_since(Epoch(1), Sequence(3), 1), Since::Changes(changes) if changes.len() == 0)
    );
    assert!(matches!(interest.changes_since(Epoch(1), Sequence(4), 1), Since::Behind));
    assert!(matches!(interest.changes_since(Epoch(0), Sequence(3), 1), Since::Behind));
    let mut short = Interest::new(Epoch(1), KEY, 100);
    short.add(TopicFilter::new("a").unwrap());
    short.add(TopicFilter::new("b").unwrap());
    assert_eq!(short.ring_count(), 1);
    assert!(matches!(short.changes_since(Epoch(1), Sequence(0), 1_000), Since::Behind));
    assert!(matches!(short.changes_since(Epoch(1), Sequence(1), 1_000), Since::Changes(_)));
}

#[test]
fn refusals_say_what_came_and_what_is_needed() {
    let (index, mut replica) = (Index::new(), Replica::new(TARGET, OPTIONS, KEY));
    let interest = interest_of(5, &["a"]);
    let apply = |replica: &mut Replica, epoch, after| {
        replica
            .apply_changes(&index, Epoch(epoch), Sequence(after), [], &mut |_| {})
            .map_err(|refusal| refusal.to_string())
    };
    assert_eq!(apply(&mut replica, 0, 0), Err("changes came before the snapshot".to_owned()));
    load(&mut replica, &index, &interest);
    assert_eq!(
        apply(&mut replica, 5, 2),
        Err("changes after 2 came while those after 1 are needed".to_owned())
    );
    assert_eq!(apply(&mut replica, 4, 0), Err("it is of epoch 4, which ended before 5".to_owned()));
    let page = interest.snapshot_page(PageStart::FIRST, 1);
    let refusal = replica.apply_page(&index, page.head, [], &mut |_| {}).unwrap_err();
    assert_eq!(refusal.to_string(), "a page from 0 came after the last one");
    assert_eq!(apply(&mut replica, 6, 0), Err("it is of epoch 6, which starts over".to_owned()));
    assert_eq!(replica.needs().page, Some(PageStart::FIRST));
}
