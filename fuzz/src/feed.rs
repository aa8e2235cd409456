//! A feed, a follower, and a link between them that does its worst.

use std::collections::BTreeSet;

use meridian_router::feed::{Agreement, Change, Epoch, HashKey, Interest, Page, Replica, Sequence, Since};
use meridian_router::{Index, TargetId};
use meridian_types::TopicFilter;

const KEY: HashKey = HashKey([3; 16]);

const RING_BYTES_MAX: usize = 400;

/// What travels.
#[derive(Clone)]
enum Message {
    Page(Page),
    /// The changes: whether it was added, and what.
    Changes(Epoch, Sequence, Vec<(bool, String)>),
    Behind,
}

struct World {
    interest: Interest,
    subscribers: Vec<String>,
    /// The feed's set by epoch and sequence.
    history: Vec<Vec<BTreeSet<String>>>,
    replica: Replica,
    index: Index,
    /// What the replica said of the index.
    routes: BTreeSet<String>,
    link: Vec<Message>,
}

/// Carries out `script`: each line is an operation, a digit, and for the first two a filter.
///
/// ```text
/// s  subscribe to a filter          d  deliver the oldest message
/// u  unsubscribe from it            o  deliver message DIGIT, and keep it
/// r  the feed starts anew           x  lose all messages
/// p  ask for what is needed,        k  drop DIGIT stale routes
///    a page first                   =  compare
/// c  ask for changes                g  take the feed for gone, drop DIGIT of its routes
/// ```
pub fn check_script(script: &str) {
    let mut world = World {
        interest: Interest::new(Epoch(0), KEY, RING_BYTES_MAX),
        subscribers: Vec::new(),
        history: vec![vec![BTreeSet::new()]],
        replica: Replica::new(TargetId(1), 0, KEY),
        index: Index::new(),
        routes: BTreeSet::new(),
        link: Vec::new(),
    };
    for line in script.lines() {
        let mut letters = line.chars();
        let (Some(operation), Some(digit)) = (letters.next(), letters.next()) else { continue };
        world.apply(operation, digit as usize % 10, letters.as_str());
        world.check();
    }
    world.settle();
}

impl World {
    fn apply(&mut self, operation: char, number: usize, text: &str) {
        match operation {
            's' | 'u' => {
                if let Ok(filter) = TopicFilter::new(text) {
                    self.subscribe(operation, filter);
                }
            }
            'r' => {
                self.interest = Interest::new(Epoch(self.history.len() as u64), KEY, RING_BYTES_MAX);
                self.history.push(vec![BTreeSet::new()]);
                self.subscribers.clear();
            }
            'p' => self.ask(number * 8),
            'c' => {
                if let Some((epoch, after)) = self.replica.needs().changes {
                    let answer = self.changes(epoch, after, number * 80);
                    self.link.push(answer);
                }
            }
            'd' if !self.link.is_empty() => {
                let message = self.link.remove(0);
                self.deliver(message);
            }
            'o' if !self.link.is_empty() => {
                let message = self.link[number % self.link.len()].clone();
                self.deliver(message);
            }
            'x' => self.link.clear(),
            'k' => {
                let routes = &mut self.routes;
                self.replica.drop_stale(&self.index, number, &mut |change| mirror(routes, change));
            }
            'g' => {
                let routes = &mut self.routes;
                self.replica.drop_owner(&self.index, number, &mut |change| mirror(routes, change));
            }
            '=' => assert_ne!(self.replica.check(self.interest.state()), Ok(Agreement::Differs)),
            _ => {}
        }
    }

    fn subscribe(&mut self, operation: char, filter: TopicFilter<'_>) {
        let text = filter.as_str();
        let held = self.subscribers.iter().position(|held| held == text);
        let published = match (operation, held) {
            ('s', _) => {
                self.subscribers.push(text.to_owned());
                self.interest.add(filter)
            }
            (_, Some(at)) => {
                self.subscribers.swap_remove(at);
                self.interest.remove(filter).expect("it is held")
            }
            (_, None) => {
                self.interest.remove(filter).expect_err("it is not held");
                None
            }
        };
        let set: BTreeSet<String> = self.subscribers.iter().cloned().collect();
        let history = self.history.last_mut().expect("there is an epoch");
        assert_eq!(published.is_some(), set != *history.last().expect("there is a first set"));
        if published.is_some() {
            history.push(set);
        }
        assert_eq!(self.interest.state().sequence.0 as usize, history.len() - 1);
    }

    fn ask(&mut self, bytes_max: usize) {
        let needs = self.replica.needs();
        let answer = match (needs.page, needs.changes) {
            (Some(start), _) => Message::Page(self.interest.snapshot_page(start, bytes_max)),
            (None, Some((epoch, after))) => self.changes(epoch, after, bytes_max * 10),
            (None, None) => panic!("a replica always needs something"),
        };
        self.link.push(answer);
    }

    fn changes(&self, epoch: Epoch, after: Sequence, bytes_max: usize) -> Message {
        let Since::Changes(changes) = self.interest.changes_since(epoch, after, bytes_max) else {
            return Message::Behind;
        };
        let owned =
            |change: Change<'_>| (matches!(change, Change::Add(_)), change.filter().as_str().to_owned());
        Message::Changes(epoch, after, changes.map(owned).collect())
    }

    /// Hands a message over; a refusal is as good an answer as any.
    fn deliver(&mut self, message: Message) {
        let routes = &mut self.routes;
        let mut changed = |change: Change<'_>| mirror(routes, change);
        match message {
            Message::Page(page) => {
                let filters = page.filters.iter().map(|text| filter_of(text));
                let _ = self.replica.apply_page(&self.index, page.head, filters, &mut changed);
            }
            Message::Changes(epoch, after, changes) => {
                let changes = changes.iter().map(|(is_add, text)| match is_add {
                    true => Change::Add(filter_of(text)),
                    false => Change::Remove(filter_of(text)),
                });
                let _ = self.replica.apply_changes(&self.index, epoch, after, changes, &mut changed);
            }
            Message::Behind => self.replica.fall_behind(),
        }
    }

    fn check(&self) {
        assert_eq!(self.index.filter_count(), self.routes.len());
        assert_eq!(self.replica.route_count() + self.replica.stale_count(), self.routes.len());
        if self.replica.is_complete() {
            let (epoch, sequence) = self.replica.position().expect("what is complete is somewhere");
            let expected = &self.history[epoch.0 as usize][sequence.0 as usize];
            assert!(self.routes.is_superset(expected) && self.replica.route_count() == expected.len());
        }
    }

    /// A link that works, and a feed at rest.
    fn settle(&mut self) {
        self.link.clear();
        let state = self.interest.state();
        while !self.replica.is_complete() || self.replica.position() != Some((state.epoch, state.sequence)) {
            self.ask(30);
            let answer = self.link.remove(0);
            self.deliver(answer);
            self.check();
        }
        assert_eq!(self.replica.check(state), Ok(Agreement::Agrees));
        while self.replica.stale_count() > 0 {
            self.apply('k', 3, "");
        }
        assert_eq!(Some(&self.routes), self.history.last().and_then(|history| history.last()));
    }
}

fn mirror(routes: &mut BTreeSet<String>, change: Change<'_>) {
    let text = change.filter().as_str();
    let is_news = match change {
        Change::Add(_) => routes.insert(text.to_owned()),
        Change::Remove(_) => routes.remove(text),
    };
    assert!(is_news, "{change:?} is no change");
}

fn filter_of(text: &str) -> TopicFilter<'_> {
    TopicFilter::new(text).expect("only valid filters travel")
}
