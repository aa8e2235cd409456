//! Routes: what the index returned for a topic, resolved to targets.

use crate::share::Group;
use crate::{Target, Terms};
use meridian_router::{MatchCache, TargetId};
use std::sync::Arc;

/// A thread's routes by topic.
pub(crate) type RouteCache = MatchCache<Arc<Route>>;

/// Everybody who gets the messages of one topic.
#[derive(Default)]
pub struct Route {
    /// Targets, each once.
    pub(crate) targets: Box<[RouteTarget]>,
    /// Share groups, each of which picks one member.
    pub(crate) groups: Box<[Arc<Group>]>,
}

/// One target of a route.
pub(crate) struct RouteTarget {
    pub(crate) id: TargetId,
    pub(crate) target: Arc<dyn Target>,
    /// The terms for messages of others.
    pub(crate) terms: Terms,
    /// Whether a subscription says "no local", so that the target's own messages need a look of their own.
    pub(crate) own: Own,
}

/// What a target gets of its own messages.
pub(crate) enum Own {
    /// The same as of others'.
    Same,
    /// Nothing: all its matching subscriptions say "no local".
    Nothing,
    /// Only what the subscriptions without "no local" say.
    Less(Box<Terms>),
}

impl Route {
    /// Whether nobody gets the message.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.groups.is_empty()
    }

    /// Bytes held, targets and groups themselves not counted.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>()
            + self.targets.len() * size_of::<RouteTarget>()
            + self.groups.len() * size_of::<Arc<Group>>()
    }
}
