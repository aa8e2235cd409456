//! One look-up for whatever can match a message.

use meridian_types::TopicName;

use crate::exchange::{ExchangeError, KeyRegions, Message, Scratch};
use crate::{ExchangeId, Exchanges, Guard, Index, Matches, PrefixIndex};

/// Filters, prefixes and exchanges side by side: what a broker of several protocols asks once per message.
///
/// The three parts are public, since each protocol adds and removes what is its own; they share the numbers of targets,
/// so a target that matches in several ways is found once, with the options of each.
///
/// ```
/// use meridian_router::exchange::{Binding, ExchangeKind, Message, Scratch};
/// use meridian_router::{Destination, Matches, Router, Source, TargetId};
/// use meridian_types::{TopicFilter, TopicName};
///
/// let router = Router::new();
/// router.filters.insert(TopicFilter::new("plant/+")?, TargetId(1), 10);
/// router.prefixes.insert(b"plant/o", TargetId(2), 20);
/// let exchange = router.exchanges.declare(ExchangeKind::Topic)?;
/// let binding = Binding::new(exchange, Destination::Target(TargetId(1)), b"#.oven").with_options(30);
/// router.exchanges.bind(&binding)?;
///
/// let source = Source::of_topic(TopicName::new("plant/oven")?).to(exchange, Message::new(b"plant.oven"));
/// let (mut scratch, mut matches) = (Scratch::new(), Matches::new());
/// router.route(&source, &mut scratch, &mut matches)?;
/// let found: Vec<_> = matches.group().iter().collect();
/// assert_eq!(found, [(TargetId(1), &[10, 30][..]), (TargetId(2), &[20][..])]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Router {
    /// MQTT filters.
    pub filters: Index,
    /// String prefixes.
    pub prefixes: PrefixIndex,
    /// Exchanges and their bindings.
    pub exchanges: Exchanges,
}

/// What names a message: a topic, an exchange and a routing key, or both.
#[derive(Clone, Copy, Default)]
pub struct Source<'a> {
    /// Filters and prefixes are matched against it.
    pub topic: Option<TopicName<'a>>,
    /// The exchange it is published to, and what that goes by.
    pub exchange: Option<(ExchangeId, Message<'a>)>,
}

impl<'a> Source<'a> {
    /// A message of a topic.
    pub const fn of_topic(topic: TopicName<'a>) -> Self {
        Self { topic: Some(topic), exchange: None }
    }

    /// The message also published to an exchange.
    pub const fn to(self, exchange: ExchangeId, message: Message<'a>) -> Self {
        Self { exchange: Some((exchange, message)), ..self }
    }
}

/// What a [`Router::route`] depends on, and how that was before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteGuard {
    topic: Option<(Guard, Guard)>,
    exchange: Option<(KeyRegions, u64)>,
}

impl Router {
    /// Without anything to find.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds to `out` whatever matches; returns whether the result may be kept with a [`guard`](Self::guard) for every
    /// message of the same topic, exchange and routing key. Call [`Matches::group`] then.
    ///
    /// Cost: as of [`Index::matches`] and [`PrefixIndex::matches`] if there is a topic, and of [`Exchanges::route`] if
    /// there is an exchange. Changes by others meanwhile are seen or not, each as a whole.
    ///
    /// # Errors
    /// [`ExchangeError::UnknownExchange`]; what the topic matches is in `out` then.
    pub fn route(
        &self,
        source: &Source<'_>,
        scratch: &mut Scratch,
        out: &mut Matches,
    ) -> Result<bool, ExchangeError> {
        if let Some(topic) = source.topic {
            let entries = out.entries_mut();
            self.filters.matches(topic, entries);
            self.prefixes.matches(topic.as_str().as_bytes(), entries);
        }
        let Some((exchange, message)) = &source.exchange else { return Ok(true) };
        Ok(self.exchanges.route(*exchange, message, scratch, out)?.is_cacheable)
    }

    /// A guard for the result of a look-up. Make it before the look-up. Cost: at most thirteen hashes.
    pub fn guard(&self, source: &Source<'_>) -> RouteGuard {
        let of_topic = |topic: TopicName<'_>| {
            (self.filters.guard(topic), self.prefixes.guard(topic.as_str().as_bytes()))
        };
        let of_exchange = |(exchange, message): &(ExchangeId, Message<'_>)| {
            let regions = self.exchanges.regions(*exchange, message.key);
            (regions, self.exchanges.generation(&regions))
        };
        RouteGuard { topic: source.topic.map(of_topic), exchange: source.exchange.as_ref().map(of_exchange) }
    }

    /// Whether a result is as a look-up would find it now. Cost: five atomic loads for filters, five for prefixes, four
    /// for an exchange.
    #[inline]
    pub fn is_current(&self, guard: &RouteGuard) -> bool {
        let has_topic = |(filters, prefixes): &(Guard, Guard)| {
            self.filters.is_current(filters) && self.prefixes.is_current(prefixes)
        };
        let has_exchange =
            |(regions, generation): &(KeyRegions, u64)| self.exchanges.generation(regions) == *generation;
        guard.topic.as_ref().is_none_or(has_topic) && guard.exchange.as_ref().is_none_or(has_exchange)
    }

    /// Bytes held. For metrics: visits everything.
    pub fn memory_bytes(&self) -> usize {
        self.filters.memory_bytes() + self.prefixes.memory_bytes() + self.exchanges.memory_bytes()
    }
}
