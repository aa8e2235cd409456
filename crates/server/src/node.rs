//! What all event loops of this process share.

mod sys;

use crate::clock;
use crate::inbox::ShardHandle;
use crate::registry::Registry;
use crate::session::{Ended, Session};
use crate::settings::Settings;
use meridian_broker::broker::Handle;
use meridian_broker::{Broker, Context, Counter, Outcome, Publication, Target, Wheel};
use meridian_types::Instant;
use meridian_types::memory::{self, Held, Level};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The farthest a deadline is put into a wheel: what has become pointless by then goes, the rest is put in again.
pub(crate) const TIMER_MILLIS_MAX: u64 = 300_000;

/// The shared state of the process.
pub(crate) struct Node {
    pub(crate) broker: Broker,
    pub(crate) registry: Registry,
    pub(crate) shards: Vec<ShardHandle>,
    /// Connections open now, over all listeners.
    pub(crate) connection_count: AtomicUsize,
    /// Connections open now on each listener.
    pub(crate) listener_counts: Vec<AtomicUsize>,
    /// Connections the process may have.
    pub(crate) connections_max: usize,
    /// Connections that have a session.
    pub(crate) client_count: AtomicUsize,
    pub(crate) is_stopping: AtomicBool,
    settings: RwLock<Arc<Settings>>,
    timers: Mutex<Timers>,
    /// Dropped log lines that the log itself has told of.
    log_lines_reported: AtomicU64,
    /// The level of memory that the log has told of.
    memory_level_reported: AtomicU8,
}

/// The deadlines, and at how many of them those that have become pointless are looked for.
struct Timers {
    wheel: Wheel<Timer>,
    sift_at: usize,
}

/// Fewer deadlines than this are left alone.
const SIFT_MIN: usize = 4096;

/// Deadlines that belong to no connection.
pub(crate) enum Timer {
    /// A session's will or expiry, and when that is.
    Session(Arc<Session>, Instant),
    /// A retained message's expiry: its topic, and when that is. Counts itself.
    Retained(Box<str>, Instant, Held),
    /// The next `$SYS` report.
    Report,
}

impl Node {
    pub(crate) fn new(settings: Settings, shards: Vec<ShardHandle>, connections_max: usize) -> Self {
        Self {
            broker: Broker::new(settings.broker_limits()),
            registry: Registry::new(),
            shards,
            connection_count: AtomicUsize::new(0),
            listener_counts: settings.config.listener.iter().map(|_| AtomicUsize::new(0)).collect(),
            connections_max,
            client_count: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
            settings: RwLock::new(Arc::new(settings)),
            timers: Mutex::new(Timers { wheel: Wheel::default(), sift_at: SIFT_MIN }),
            log_lines_reported: AtomicU64::new(0),
            memory_level_reported: AtomicU8::new(Level::Free as u8),
        }
    }

    /// The configuration in force.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.read().clone()
    }

    /// Puts another configuration in force; event loops take it up at their next turn.
    pub(crate) fn set_settings(&self, settings: Settings) {
        self.broker.set_limits(settings.broker_limits());
        *self.settings.write() = Arc::new(settings);
        for shard in &self.shards {
            shard.wake();
        }
    }

    /// Adds a deadline that belongs to no connection. The first event loop serves them.
    pub(crate) fn add_timer(&self, deadline: Instant, timer: Timer) {
        let deadline = deadline.min(clock::now().plus_millis(TIMER_MILLIS_MAX));
        let mut timers = self.timers.lock();
        timers.wheel.add(deadline, timer);
        if timers.wheel.len() > timers.sift_at {
            timers.wheel.retain(|timer| self.is_live(timer));
            timers.sift_at = (2 * timers.wheel.len()).max(SIFT_MIN);
        }
        drop(timers);
        // It may sleep past the new deadline otherwise.
        self.shards[0].wake();
    }

    fn is_live(&self, timer: &Timer) -> bool {
        match timer {
            Timer::Session(session, due) => session.awaits_timer(*due),
            Timer::Retained(topic, expires, _) => meridian_types::TopicName::new(topic)
                .is_ok_and(|topic| self.broker.retained.expires_at(topic, *expires)),
            Timer::Report => true,
        }
    }

    /// Milliseconds until [`Node::run_timers`] may have something to do.
    pub(crate) fn next_timer_millis(&self, now: Instant) -> Option<u64> {
        self.timers.lock().wheel.next_wait_millis(now)
    }

    /// Serves all deadlines that have passed.
    pub(crate) fn run_timers(&self, context: &mut Context) {
        let mut due = Vec::new();
        self.timers.lock().wheel.advance(context.now, |timer| due.push(timer));
        for timer in due {
            match timer {
                Timer::Session(session, due) => {
                    let ended = session.on_timer(due, context.now);
                    if ended.has_session_ended {
                        context.counters.add(Counter::SessionsExpired, 1);
                    }
                    self.finish(context, &session, ended);
                }
                Timer::Retained(topic, expires, held) => {
                    let is_there = meridian_types::TopicName::new(&topic)
                        .is_ok_and(|name| self.broker.retained.clear_expired(name, expires, context.now));
                    if is_there {
                        self.add_timer(expires, Timer::Retained(topic, expires, held));
                    }
                }
                Timer::Report => {
                    self.report_dropped_lines();
                    self.report_memory();
                    let interval = self.settings().config.server.sys_interval.0;
                    if !interval.is_zero() {
                        self.publish_report(context);
                    }
                    let next = interval.max(std::time::Duration::from_secs(1)).as_millis() as u64;
                    self.timers.lock().wheel.add(context.now.plus_millis(next), Timer::Report);
                }
            }
        }
    }

    /// Says in the log that lines are missing from it.
    fn report_dropped_lines(&self) {
        let dropped = crate::log::lines_dropped();
        let reported = self.log_lines_reported.swap(dropped, Relaxed);
        if dropped > reported {
            let lines = dropped - reported;
            tracing::warn!(lines, "log lines were dropped: what reads standard error does not keep up");
        }
    }

    /// Says in the log when memory has become scarce, and when that is over.
    fn report_memory(&self) {
        let level = memory::level();
        if self.memory_level_reported.swap(level as u8, Relaxed) == level as u8 {
            return;
        }
        let (held, limit) = (memory::held(), memory::limit());
        match level {
            Level::Free => tracing::info!(held, limit, "memory is no longer scarce"),
            Level::Tight => {
                tracing::warn!(held, limit, "memory is scarce: slow and absent clients are kept short")
            }
            Level::Full => tracing::error!(
                held,
                limit,
                "memory is full: nothing more is queued or retained, new clients are refused (server.memory_max)"
            ),
        }
    }

    /// Publishes, and sees to it that a retained message goes when its time is over.
    pub(crate) fn publish(&self, context: &mut Context, publication: &mut Publication<'_>) -> Outcome {
        let outcome = self.broker.publish(context, publication);
        if let Some(due) = outcome.retained_until {
            let held = Held::new(size_of::<Timer>() + publication.topic.len());
            self.add_timer(due, Timer::Retained(publication.topic.into(), due, held));
        }
        outcome
    }

    /// Carries out what is left when a connection or session is over: through the ordinary ways, with no lock held.
    pub(crate) fn finish(&self, context: &mut Context, session: &Arc<Session>, mut ended: Ended) {
        ended.resume_waiting();
        let target = session.clone() as Arc<dyn Target>;
        if ended.has_more {
            context.touch(target.clone());
        }
        for filter in ended.subscriptions.drain(..) {
            self.broker.unsubscribe_handle(&target, session.id, &Handle::Filter(filter));
        }
        for group in ended.groups.drain(..) {
            self.broker.unsubscribe_handle(&target, session.id, &Handle::Group(group));
        }
        if ended.has_session_ended {
            self.broker.redeliver(context, session.id, std::mem::take(&mut ended.deliveries));
            self.registry.remove(session);
        }
        if let Some(will) = ended.will.take() {
            context.counters.add(Counter::WillsPublished, 1);
            let mut message = (*will.message).clone();
            message.received = context.now;
            message.expires =
                will.expiry_secs.map_or(Instant::NEVER, |secs| context.now.plus_secs(u64::from(secs)));
            let message = Arc::new(message);
            let mut publication = Publication::of_message(&message, context.now);
            publication.publisher = session.id;
            self.publish(context, &mut publication);
        }
        if ended.has_session_ended {
            self.broker.unregister(session.id);
        }
        if let Some(due) = ended.timer {
            self.add_timer(due, Timer::Session(session.clone(), due));
        }
    }

    /// A connection is gone.
    pub(crate) fn forget_connection(&self, listener: usize) {
        self.connection_count.fetch_sub(1, Relaxed);
        self.listener_counts[listener].fetch_sub(1, Relaxed);
    }

    /// Whether another connection may be accepted on a listener.
    pub(crate) fn may_accept(&self, listener: usize) -> bool {
        let limit =
            self.settings().config.listener.get(listener).map_or(0, |listener| listener.connections_max);
        let is_full = limit > 0 && self.listener_counts[listener].load(Relaxed) >= limit;
        !is_full && self.connection_count.load(Relaxed) < self.connections_max
    }
}
