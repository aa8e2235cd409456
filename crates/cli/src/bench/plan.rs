//! What each mode needs: its connections, and what every one subscribes and publishes.

use super::packet::{self, PUBLISHERS_MAX, STAMP_LEN};
use super::settings::Settings;
use std::sync::Arc;

/// Smallest payload: the stamp.
pub(crate) const SIZE_MIN: usize = STAMP_LEN;
/// Largest payload, leaving room for the topic in an MQTT packet (MQTT 5.0 §2.1.4).
pub(crate) const SIZE_MAX: usize = 268_435_455 - 65_536;
/// So many topics are written out at most for random choice; more would cost the generator more memory than they show.
const RANDOM_TOPICS_MAX: usize = 20_000;

/// How a run proceeds once its connections stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// Publish: warm-up, measurement, drain.
    Messages,
    /// Clients come and go until so many were through.
    Visits { clients: u64 },
    /// All subscribe; ends when they have.
    Subscriptions,
    /// Nothing happens.
    Rest,
}

/// A run, laid out.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Name of the mode on the command line.
    pub(crate) mode: &'static str,
    /// The shape in a few words.
    pub(crate) shape: String,
    pub(crate) course: Course,
    pub(crate) connections: Vec<Spec>,
    pub(crate) publishers: usize,
    /// Connections that receive messages.
    pub(crate) subscribers: usize,
    /// Deliveries of one published message.
    pub(crate) fan: u64,
    /// Whether a subscriber sees every message of a publisher whose topic it has, so that gaps can be told.
    pub(crate) in_sequence: bool,
}

impl Plan {
    /// Filters that all connections subscribe together.
    pub(crate) fn filters(&self) -> usize {
        self.connections.iter().map(|spec| spec.filters.count()).sum()
    }
}

/// One connection.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) client_id: String,
    pub(crate) duty: Duty,
    pub(crate) filters: Filters,
}

/// What a connection does.
#[derive(Clone, Debug)]
pub(crate) enum Duty {
    Publish {
        publisher: u32,
        /// Heads of the messages to each of its topics.
        heads: Arc<[Box<[u8]>]>,
        choice: Choice,
    },
    Receive,
    /// Subscribes, then never reads again.
    Block,
    /// Connects, subscribes, leaves, and comes again as another.
    Visit,
    /// Nothing, or subscriptions only.
    Rest,
}

/// How a publisher picks the topic of its next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    InTurn,
    Random,
}

/// The filters of a connection, made as they are needed: a million of them as strings would outweigh the generator.
#[derive(Clone, Debug)]
pub(crate) enum Filters {
    None,
    One(String),
    /// `BASE/0` to `BASE/COUNT-1`.
    Numbered {
        base: String,
        count: usize,
    },
    /// `BASE/+/0/#` to `BASE/+/COUNT-1/#`.
    Wild {
        base: String,
        count: usize,
    },
}

impl Filters {
    /// How many.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(_) => 1,
            Self::Numbered { count, .. } | Self::Wild { count, .. } => *count,
        }
    }

    /// The filter of an index below [`Self::count`].
    pub(crate) fn get(&self, index: usize) -> String {
        match self {
            Self::None => String::new(),
            Self::One(filter) => filter.clone(),
            Self::Numbered { base, .. } => format!("{base}/{index}"),
            Self::Wild { base, .. } => format!("{base}/+/{index}/#"),
        }
    }
}

/// Shape of a fan-out.
pub(crate) struct FanOut {
    pub(crate) publishers: usize,
    pub(crate) topics: usize,
    pub(crate) subscribers: usize,
    pub(crate) wildcard: bool,
    pub(crate) idle_subscribers: usize,
    pub(crate) idle_topics: usize,
    pub(crate) idle_distinct: bool,
    pub(crate) blocked_subscribers: usize,
}

/// Client ids start with it, so that two runs at a time do not take each other's connections over.
pub(crate) fn run_id() -> String {
    format!("b{:x}", std::process::id())
}

fn spec(kind: &str, index: usize, duty: Duty, filters: Filters) -> Spec {
    Spec { client_id: format!("{}{kind}{index}", run_id()), duty, filters }
}

fn heads(settings: &Settings, topics: impl IntoIterator<Item = String>) -> Arc<[Box<[u8]>]> {
    topics
        .into_iter()
        .map(|topic| packet::publish_head(settings.version, settings.qos, &topic, settings.size))
        .collect()
}

fn publisher(index: usize, heads: Arc<[Box<[u8]>]>, choice: Choice) -> anyhow::Result<Spec> {
    let id = u32::try_from(index).ok().filter(|_| index < PUBLISHERS_MAX);
    let id = id.ok_or_else(|| anyhow::anyhow!("at most {PUBLISHERS_MAX} publishers can be told apart"))?;
    Ok(spec("p", index, Duty::Publish { publisher: id, heads, choice }, Filters::None))
}

/// `publishers` to `topics`, each with `subscribers`, and those who are only there.
pub(crate) fn fan_out(settings: &Settings, shape: &FanOut) -> anyhow::Result<Plan> {
    let prefix = &settings.prefix;
    let topic = |index: usize| match shape.wildcard {
        true => format!("{prefix}/{index}/c/d"),
        false => format!("{prefix}/{index}"),
    };
    let filter = |index: usize| match shape.wildcard {
        true => format!("{prefix}/+/c/#"),
        false => topic(index % shape.topics),
    };
    let subscribers = if shape.wildcard { shape.subscribers } else { shape.topics * shape.subscribers };
    let mut connections = Vec::new();
    for index in 0..subscribers {
        connections.push(spec("s", index, Duty::Receive, Filters::One(filter(index))));
    }
    for index in 0..shape.idle_subscribers {
        let base = match shape.idle_distinct {
            true => format!("{prefix}/idle/{index}"),
            false => format!("{prefix}/idle"),
        };
        connections.push(spec("i", index, Duty::Rest, Filters::Numbered { base, count: shape.idle_topics }));
    }
    for index in 0..shape.blocked_subscribers {
        connections.push(spec("x", index, Duty::Block, Filters::One(filter(index))));
    }
    for index in 0..shape.publishers {
        let heads = heads(settings, [topic(index % shape.topics)]);
        connections.push(publisher(index, heads, Choice::InTurn)?);
    }
    let wildcard = if shape.wildcard { " by wildcard" } else { "" };
    Ok(Plan {
        mode: "fan-out",
        shape: format!(
            "{} to {} to {}{wildcard}",
            count(shape.publishers, "publisher"),
            count(shape.topics, "topic"),
            count(subscribers, "subscriber"),
        ),
        course: Course::Messages,
        connections,
        publishers: shape.publishers,
        subscribers,
        fan: shape.subscribers as u64,
        in_sequence: true,
    })
}

/// `publishers`, a topic each, to `subscribers` of all of them.
pub(crate) fn fan_in(
    settings: &Settings,
    publishers: usize,
    subscribers: usize,
    shared: bool,
) -> anyhow::Result<Plan> {
    let prefix = &settings.prefix;
    let filter = if shared { format!("$share/bench/{prefix}/#") } else { format!("{prefix}/#") };
    let mut connections: Vec<Spec> =
        (0..subscribers).map(|index| spec("s", index, Duty::Receive, Filters::One(filter.clone()))).collect();
    for index in 0..publishers {
        connections.push(publisher(index, heads(settings, [format!("{prefix}/{index}")]), Choice::InTurn)?);
    }
    let sharing = if shared { " that share" } else { "" };
    Ok(Plan {
        mode: "fan-in",
        shape: format!("{} to {}{sharing}", count(publishers, "publisher"), count(subscribers, "subscriber")),
        course: Course::Messages,
        connections,
        publishers,
        subscribers,
        fan: if shared { 1 } else { subscribers as u64 },
        in_sequence: !shared,
    })
}

/// `pairs` of a publisher and a subscriber.
pub(crate) fn pairs(settings: &Settings, pairs: usize) -> anyhow::Result<Plan> {
    let topic = |index: usize| format!("{}/{index}", settings.prefix);
    let mut connections: Vec<Spec> =
        (0..pairs).map(|index| spec("s", index, Duty::Receive, Filters::One(topic(index)))).collect();
    for index in 0..pairs {
        connections.push(publisher(index, heads(settings, [topic(index)]), Choice::InTurn)?);
    }
    Ok(Plan {
        mode: "pairs",
        shape: count(pairs, "pair"),
        course: Course::Messages,
        connections,
        publishers: pairs,
        subscribers: pairs,
        fan: 1,
        in_sequence: true,
    })
}

fn device(settings: &Settings, connection: usize) -> String {
    format!("{}/device/{connection}", settings.prefix)
}

/// `connections` with `filters` wildcard filters each; every message matches one of them.
pub(crate) fn wildcard(
    settings: &Settings,
    connections: usize,
    filters: usize,
    publishers: usize,
) -> anyhow::Result<Plan> {
    let mut specs = Vec::new();
    let mut topics = Vec::new();
    let step = (connections * filters / RANDOM_TOPICS_MAX).max(1);
    for connection in 0..connections {
        let base = device(settings, connection);
        topics.extend((0..filters).step_by(step).map(|number| format!("{base}/foo/{number}/bar")));
        specs.push(spec("s", connection, Duty::Receive, Filters::Wild { base, count: filters }));
    }
    let heads = heads(settings, topics);
    for index in 0..publishers {
        specs.push(publisher(index, Arc::clone(&heads), Choice::Random)?);
    }
    Ok(Plan {
        mode: "wildcard",
        shape: format!(
            "{} to {} of {} each",
            count(publishers, "publisher"),
            count(connections, "connection"),
            count(filters, "filter")
        ),
        course: Course::Messages,
        connections: specs,
        publishers,
        subscribers: connections,
        fan: 1,
        in_sequence: false,
    })
}

/// `clients` that connect, subscribe one topic and leave, `at_once` at a time.
pub(crate) fn connect_storm(settings: &Settings, clients: u64, at_once: usize, subscribe: bool) -> Plan {
    let visitor = |index| match subscribe {
        true => spec("v", index, Duty::Visit, Filters::One(format!("{}/storm/{index}", settings.prefix))),
        false => spec("v", index, Duty::Visit, Filters::None),
    };
    let connections = (0..at_once).map(visitor).collect();
    let act = if subscribe { "connect, subscribe and leave" } else { "connect and leave" };
    Plan {
        mode: "connect-storm",
        shape: format!("{clients} clients {act}, {at_once} at a time"),
        course: Course::Visits { clients },
        connections,
        publishers: 0,
        subscribers: 0,
        fan: 0,
        in_sequence: false,
    }
}

/// `connections` that subscribe `filters` wildcard filters each.
pub(crate) fn subscribe_storm(settings: &Settings, connections: usize, filters: usize) -> Plan {
    let specs = (0..connections)
        .map(|index| {
            let base = device(settings, index);
            spec("s", index, Duty::Rest, Filters::Wild { base, count: filters })
        })
        .collect();
    Plan {
        mode: "subscribe-storm",
        shape: format!("{} subscribe {} each", count(connections, "connection"), count(filters, "filter")),
        course: Course::Subscriptions,
        connections: specs,
        publishers: 0,
        subscribers: 0,
        fan: 0,
        in_sequence: false,
    }
}

/// `connections` that rest, with or without one subscription.
pub(crate) fn idle(settings: &Settings, connections: usize, subscribe: bool) -> Plan {
    let specs = (0..connections)
        .map(|index| {
            let filters = match subscribe {
                true => Filters::One(format!("{}/idle/{index}", settings.prefix)),
                false => Filters::None,
            };
            spec("i", index, Duty::Rest, filters)
        })
        .collect();
    let with = if subscribe { " with a subscription each" } else { "" };
    Plan {
        mode: "idle",
        shape: format!("{}{with}", count(connections, "connection")),
        course: Course::Rest,
        connections: specs,
        publishers: 0,
        subscribers: 0,
        fan: 0,
        in_sequence: false,
    }
}

fn count(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
