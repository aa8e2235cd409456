//! The broker: subscribe, publish, and what both share.

use crate::metrics::Metrics;
use crate::retained::LimitReached;
use crate::route::{Own, Route, RouteTarget};
use crate::share::Member;
use crate::target::Delivery;
use crate::target::is_same;
use crate::{Context, Counter, Group, Publication, Retained, ShareStrategy, Target, Terms, Verdict};
use hashbrown::HashMap;
use meridian_router::{FilterId, Index, Matches, TargetId};
use meridian_types::{Instant, Qos, SharedFilter, TopicFilter, TopicName};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::sync::Arc;

/// What the broker keeps within bounds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Retained messages.
    pub retained_count_max: usize,
    /// Bytes of retained messages.
    pub retained_bytes_max: usize,
    /// How share groups pick.
    pub share_strategy: ShareStrategy,
}

/// A share group's name and filter.
type GroupKey = (Box<str>, Box<str>);

/// The shared state of one broker.
pub struct Broker {
    /// The counters.
    pub metrics: Metrics,
    /// The retained messages.
    pub retained: Arc<Retained>,
    index: Index,
    targets: RwLock<Targets>,
    groups: Mutex<HashMap<GroupKey, Arc<Group>>>,
    limits: RwLock<Limits>,
}

#[derive(Default)]
struct Targets {
    slots: Vec<Registered>,
    free: Vec<u32>,
}

#[derive(Clone, Default)]
enum Registered {
    #[default]
    Nobody,
    Reserved,
    Target(Arc<dyn Target>),
    Group(Arc<Group>),
}

/// How a target wants the messages of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscribeOptions {
    /// Highest QoS.
    pub qos: Qos,
    /// Not its own messages.
    pub no_local: bool,
    /// Retain flag as published.
    pub retain_as_published: bool,
    /// Subscription identifier, 1 to 268,435,455; 0 if there is none.
    pub id: u32,
}

/// What a subscribe did.
#[derive(Clone, Debug)]
pub struct Subscribed {
    /// Whether there was no such subscription before.
    pub is_new: bool,
    /// What the subscriber keeps in order to unsubscribe.
    pub handle: Handle,
}

/// A subscription as its owner remembers it.
#[derive(Clone, Debug)]
pub enum Handle {
    /// An ordinary one.
    Filter(FilterId),
    /// A membership in a share group.
    Group(Arc<Group>),
}

/// What a publish did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether anybody was subscribed.
    pub matched: bool,
    /// Whether it was to be retained and a limit forbade it. It was delivered all the same.
    pub retain_refused: bool,
    /// When the retained message has to be taken out by [`Retained::clear_expired`]; `None` if never.
    pub retained_until: Option<Instant>,
}

impl SubscribeOptions {
    const fn pack(self) -> u32 {
        self.id << 4
            | (self.qos.bits() as u32) << 2
            | (self.no_local as u32) << 1
            | self.retain_as_published as u32
    }

    fn unpack(bits: u32) -> Self {
        Self {
            qos: Qos::from_bits((bits >> 2 & 3) as u8).expect("packed from a valid level"),
            no_local: bits & 2 != 0,
            retain_as_published: bits & 1 != 0,
            id: bits >> 4,
        }
    }
}

impl Broker {
    /// A broker with nothing in it.
    pub fn new(limits: Limits) -> Self {
        // Number 0 stands for "nobody".
        let targets = Targets { slots: vec![Registered::Reserved], free: Vec::new() };
        Self {
            metrics: Metrics::default(),
            retained: Arc::default(),
            index: Index::new(),
            targets: RwLock::new(targets),
            groups: Mutex::new(HashMap::new()),
            limits: RwLock::new(limits),
        }
    }

    /// Replaces the limits; what exceeds a lowered one stays until it goes by itself.
    pub fn set_limits(&self, limits: Limits) {
        *self.limits.write() = limits;
    }

    /// The index, for statistics.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Gives a number to a target that is made from it.
    pub fn register<T: Target + 'static>(&self, make: impl FnOnce(TargetId) -> Arc<T>) -> Arc<T> {
        let id = self.reserve();
        let target = make(id);
        self.targets.write().slots[id.0 as usize] = Registered::Target(target.clone());
        target
    }

    /// Takes a target's number back. It must have unsubscribed from everything before.
    pub fn unregister(&self, id: TargetId) {
        let mut targets = self.targets.write();
        targets.slots[id.0 as usize] = Registered::Nobody;
        targets.free.push(id.0);
    }

    fn reserve(&self) -> TargetId {
        let mut targets = self.targets.write();
        let id = targets.free.pop().unwrap_or_else(|| {
            targets.slots.push(Registered::Nobody);
            u32::try_from(targets.slots.len() - 1).expect("fewer targets than memory")
        });
        targets.slots[id as usize] = Registered::Reserved;
        TargetId(id)
    }

    /// Subscribes a target, or changes the options of its subscription. Visible to every publish that starts after
    /// the call returns. `None`, and nothing happens, if the target is not registered any more.
    ///
    /// A new subscription is handed to `keep`, so that its owner can end it one day. It runs with the targets borrowed,
    /// so that the target's number cannot become another's meanwhile, and must not call the broker.
    ///
    /// # Errors
    /// What `keep` returns; then there is no new subscription.
    pub fn subscribe<E>(
        &self,
        target: &Arc<dyn Target>,
        id: TargetId,
        filter: SharedFilter<'_>,
        options: SubscribeOptions,
        keep: impl FnOnce(&Handle) -> Result<(), E>,
    ) -> Result<Option<Subscribed>, E> {
        let Some(name) = filter.group else {
            // Held over the change: the number cannot pass to another target meanwhile.
            let Some(_registered) = self.registered(target, id) else { return Ok(None) };
            let (filter, before) = self.index.insert(filter.filter, id, options.pack());
            let subscribed = Subscribed { is_new: before.is_none(), handle: Handle::Filter(filter) };
            if subscribed.is_new {
                keep(&subscribed.handle).inspect_err(|_| {
                    self.index.remove_by_id(filter, id);
                })?;
            }
            return Ok(Some(subscribed));
        };
        let (group, is_new) = self.join(name, target, id, filter.filter, options);
        let subscribed = Subscribed { is_new, handle: Handle::Group(group.clone()) };
        if is_new {
            keep(&subscribed.handle).inspect_err(|_| {
                self.leave(&group, target);
            })?;
        }
        Ok(Some(subscribed))
    }

    /// Makes a target a member of a share group, or changes its terms; returns whether it is new there.
    fn join(
        &self,
        name: &str,
        target: &Arc<dyn Target>,
        id: TargetId,
        filter: TopicFilter<'_>,
        options: SubscribeOptions,
    ) -> (Arc<Group>, bool) {
        let mut groups = self.groups.lock();
        let key = (Box::from(name), Box::from(filter.as_str()));
        let group = groups.entry(key).or_insert_with(|| {
            let group = Arc::new(Group::new(self.reserve(), name, filter.as_str()));
            self.targets.write().slots[group.id.0 as usize] = Registered::Group(group.clone());
            self.index.insert(filter, group.id, 0);
            group
        });
        let mut terms = terms_of(options);
        terms.group = Some(group.clone());
        let is_new = group.join(Member { id, target: target.clone(), terms });
        (group.clone(), is_new)
    }

    /// Ends a subscription by its filter. `None` if there was none.
    pub fn unsubscribe(
        &self,
        target: &Arc<dyn Target>,
        id: TargetId,
        filter: SharedFilter<'_>,
    ) -> Option<Handle> {
        let Some(name) = filter.group else {
            let _registered = self.registered(target, id)?;
            return self.index.remove(filter.filter, id).map(|(filter, _)| Handle::Filter(filter));
        };
        let key = (Box::from(name), Box::from(filter.filter.as_str()));
        let group = self.groups.lock().get(&key).cloned()?;
        self.leave(&group, target).then_some(Handle::Group(group))
    }

    /// Ends a subscription by what [`Broker::subscribe`] returned.
    pub fn unsubscribe_handle(&self, target: &Arc<dyn Target>, id: TargetId, handle: &Handle) {
        match handle {
            Handle::Filter(filter) => {
                if let Some(_registered) = self.registered(target, id) {
                    self.index.remove_by_id(*filter, id);
                }
            }
            Handle::Group(group) => {
                self.leave(group, target);
            }
        }
    }

    /// The registered targets, if `id` stands for this very one. As long as they are borrowed, it goes on doing so.
    fn registered(&self, target: &Arc<dyn Target>, id: TargetId) -> Option<RwLockReadGuard<'_, Targets>> {
        let targets = self.targets.read();
        match targets.slots.get(id.0 as usize) {
            Some(Registered::Target(registered)) if is_same(registered, target) => Some(targets),
            _ => None,
        }
    }

    fn leave(&self, group: &Arc<Group>, target: &Arc<dyn Target>) -> bool {
        let mut groups = self.groups.lock();
        let (was_member, is_empty) = group.leave(target);
        if was_member && is_empty {
            groups.remove(&(group.name.clone(), group.filter.clone()));
            if let Ok(filter) = TopicFilter::new(&group.filter) {
                self.index.remove(filter, group.id);
            }
            self.unregister(group.id);
        }
        was_member
    }

    /// Share groups that have members.
    pub fn group_count(&self) -> usize {
        self.groups.lock().len()
    }

    /// Publishes: retains if asked to, looks the topic up once, offers the message to each target, and only then
    /// carries out what the offers entailed. Output waits in `context` for its flush.
    pub fn publish(&self, context: &mut Context, publication: &mut Publication<'_>) -> Outcome {
        let retained = if publication.retain { self.retain(context, publication) } else { Ok(None) };
        let (retain_refused, retained_until) = (retained.is_err(), retained.unwrap_or_default());
        let route = self.route(context, publication.topic);
        if route.is_empty() {
            context.counters.add(Counter::Unmatched, 1);
            return Outcome { matched: false, retain_refused, retained_until };
        }
        context.encodings.clear();
        publication.fan_out = route.targets.len();
        context.offers += route.targets.len() + route.groups.len();
        for entry in &route.targets {
            let terms = match &entry.own {
                Own::Same => &entry.terms,
                _ if entry.id != publication.publisher => &entry.terms,
                Own::Nothing => continue,
                Own::Less(terms) => terms,
            };
            let verdict = entry.target.offer(publication, terms, &mut context.encodings);
            context.note(&entry.target, verdict);
        }
        for group in &route.groups {
            if !self.offer_to_group(context, group, publication, None) {
                context.counters.add(Counter::DroppedNoMember, 1);
            }
        }
        context.settle();
        Outcome { matched: true, retain_refused, retained_until }
    }

    /// Gives the deliveries of a member that left to the others of their groups.
    pub fn redeliver(&self, context: &mut Context, from: TargetId, deliveries: Vec<Delivery>) {
        for delivery in deliveries {
            let Some(group) = &delivery.terms.group else {
                context.counters.add(Counter::DroppedSessionEnd, 1);
                continue;
            };
            if delivery.message.is_expired(context.now) {
                context.counters.add(Counter::DroppedExpired, 1);
                continue;
            }
            context.encodings.clear();
            let mut publication = Publication::of_message(&delivery.message, context.now);
            if !self.offer_to_group(context, group, &mut publication, Some(from)) {
                context.counters.add(Counter::DroppedNoMember, 1);
            }
        }
        context.settle();
    }

    fn offer_to_group(
        &self,
        context: &mut Context,
        group: &Group,
        publication: &mut Publication<'_>,
        avoid: Option<TargetId>,
    ) -> bool {
        let strategy = self.limits.read().share_strategy;
        let (client, topic) = (publication.client_hash, publication.topic);
        group.offer_in_order(strategy, client, topic, avoid, |member| {
            let verdict = member.target.offer(publication, &member.terms, &mut context.encodings);
            // Another member may have the room that this one lacks: its refusal is no loss yet.
            match verdict {
                Verdict::DroppedFull
                | Verdict::DroppedAndFull
                | Verdict::DroppedMemory
                | Verdict::DroppedAway
                | Verdict::Gone => false,
                Verdict::CutOff => {
                    context.note_casualty(&member.target);
                    false
                }
                _ => {
                    context.note(&member.target, verdict);
                    true
                }
            }
        })
    }

    /// Sets or, with an empty payload, clears the retained message; returns when it expires.
    fn retain(
        &self,
        context: &mut Context,
        publication: &mut Publication<'_>,
    ) -> Result<Option<Instant>, LimitReached> {
        let Ok(topic) = TopicName::new(publication.topic) else { return Ok(None) };
        if publication.payload.is_empty() {
            self.retained.clear(topic);
            return Ok(None);
        }
        let limits = *self.limits.read();
        let message = publication.message();
        self.retained
            .set(topic, message, limits.retained_count_max, limits.retained_bytes_max)
            .inspect_err(|limit| context.counters.add(limit.counter(), 1))?;
        Ok((publication.expires != Instant::NEVER).then_some(publication.expires))
    }

    /// The route of a topic, by the thread's cache if nothing has changed that it depends on.
    #[inline]
    fn route(&self, context: &mut Context, topic: &str) -> Arc<Route> {
        let cached = context.cache.get(0, topic.as_bytes(), |guard| self.index.is_current(guard));
        if let Some(route) = cached {
            context.counters.add(Counter::RouteCacheHits, 1);
            return route.clone();
        }
        context.counters.add(Counter::RouteCacheMisses, 1);
        self.look_up(context, topic)
    }

    #[cold]
    fn look_up(&self, context: &mut Context, topic: &str) -> Arc<Route> {
        let Ok(name) = TopicName::new(topic) else { return Arc::default() };
        // Made before the look-up: a change in between makes the cached route stale rather than wrong.
        let guard = self.index.guard(name);
        let route = Arc::new(self.resolve(&mut context.matches, name));
        context.cache.put(0, topic.as_bytes(), guard, route.clone(), route.size());
        route
    }

    /// Makes a route of what the index returns: one entry for each target, its subscriptions taken together.
    fn resolve(&self, matches: &mut Matches, topic: TopicName<'_>) -> Route {
        matches.clear();
        // Held over the look-up: a number that the index still knows cannot pass to another target meanwhile.
        let registered = self.targets.read();
        self.index.matches(topic, matches.entries_mut());
        // Subscriptions with equal options stay apart: each brings its identifier (MQTT 5.0 §3.3.4).
        let found = matches.group_all();
        let mut targets = Vec::with_capacity(found.target_count());
        let mut groups = Vec::new();
        for (id, options) in found.iter() {
            match registered.slots.get(id.0 as usize) {
                Some(Registered::Target(target)) => targets.push(route_target(id, target.clone(), options)),
                Some(Registered::Group(group)) => groups.push(group.clone()),
                // Its owner is leaving: unsubscribed already, seen by the index a moment ago.
                Some(Registered::Nobody | Registered::Reserved) | None => {}
            }
        }
        Route { targets: targets.into_boxed_slice(), groups: groups.into_boxed_slice() }
    }
}

fn route_target(id: TargetId, target: Arc<dyn Target>, options: &[u32]) -> RouteTarget {
    let all = || options.iter().map(|&options| SubscribeOptions::unpack(options));
    let own = if all().all(|options| !options.no_local) {
        Own::Same
    } else if all().all(|options| options.no_local) {
        Own::Nothing
    } else {
        Own::Less(Box::new(merge(all().filter(|options| !options.no_local))))
    };
    RouteTarget { id, target, terms: merge(all()), own }
}

/// One delivery for overlapping subscriptions: the highest QoS, and all identifiers (MQTT 5.0 §3.3.4).
fn merge(all: impl Iterator<Item = SubscribeOptions>) -> Terms {
    let mut terms = Terms::default();
    let mut ids = Vec::new();
    for options in all {
        terms.qos = terms.qos.max(options.qos);
        terms.retain_as_published |= options.retain_as_published;
        if options.id != 0 {
            ids.push(options.id);
        }
    }
    terms.subscription_ids = (!ids.is_empty()).then(|| ids.into());
    terms
}

fn terms_of(options: SubscribeOptions) -> Terms {
    merge(std::iter::once(options))
}
