//! The configuration as the data path uses it: resolved once, shared by reference.

pub(crate) use crate::config::Overflow;
use crate::config::{Class, Config, ShareStrategy};
use meridian_broker::Limits;
use std::sync::Arc;

/// A configuration with everything worked out that connections need.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    queue: Arc<QueueLimits>,
    classes: Vec<ClassRule>,
}

/// What may wait for one session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueueLimits {
    pub(crate) messages_max: usize,
    pub(crate) bytes_max: usize,
    pub(crate) outbox_bytes_max: usize,
    pub(crate) overflow: Overflow,
    pub(crate) offline_qos0: bool,
}

#[derive(Debug)]
struct ClassRule {
    name: String,
    client_id: Option<String>,
    user_name: Option<String>,
    limits: Arc<QueueLimits>,
}

impl Settings {
    pub(crate) fn new(config: Config) -> Self {
        let queue = Arc::new(queue_limits(&config, &Class::default()));
        let rule = |class: &Class| ClassRule {
            name: class.name.clone(),
            client_id: class.client_id.clone(),
            user_name: class.user_name.clone(),
            limits: Arc::new(queue_limits(&config, class)),
        };
        Self { queue, classes: config.class.iter().map(rule).collect(), config }
    }

    /// The limits of a client: of the first class that matches it, else of its listener's class, else `[queue]`.
    pub(crate) fn queue_for(
        &self,
        listener: usize,
        client_id: &str,
        user_name: Option<&str>,
    ) -> Arc<QueueLimits> {
        let matches = |rule: &&ClassRule| {
            (rule.client_id.is_some() || rule.user_name.is_some())
                && rule.client_id.as_ref().is_none_or(|pattern| is_like(pattern, client_id))
                && rule.user_name.as_ref().is_none_or(|pattern| is_like(pattern, user_name.unwrap_or("")))
        };
        let by_listener = || {
            let class = self.config.listener.get(listener)?.class.as_ref()?;
            self.classes.iter().find(|rule| rule.name == *class)
        };
        self.classes
            .iter()
            .find(matches)
            .or_else(by_listener)
            .map_or(&self.queue, |rule| &rule.limits)
            .clone()
    }

    /// The broker's own limits.
    pub(crate) fn broker_limits(&self) -> Limits {
        use meridian_broker::ShareStrategy as To;
        Limits {
            retained_count_max: self.config.retained.messages_max,
            retained_bytes_max: size(self.config.retained.bytes_max.0),
            share_strategy: match self.config.mqtt.share_strategy {
                ShareStrategy::RoundRobin => To::RoundRobin,
                ShareStrategy::Random => To::Random,
                ShareStrategy::LeastInflight => To::LeastInflight,
                ShareStrategy::Sticky => To::Sticky,
                ShareStrategy::HashClient => To::HashClient,
                ShareStrategy::HashTopic => To::HashTopic,
            },
        }
    }
}

fn queue_limits(config: &Config, class: &Class) -> QueueLimits {
    let queue = &config.queue;
    QueueLimits {
        messages_max: class.messages_max.unwrap_or(queue.messages_max),
        bytes_max: size(class.bytes_max.unwrap_or(queue.bytes_max).0),
        outbox_bytes_max: size(class.outbox_bytes_max.unwrap_or(queue.outbox_bytes_max).0),
        overflow: class.overflow.unwrap_or(queue.overflow),
        offline_qos0: class.offline_qos0.unwrap_or(queue.offline_qos0),
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Whether `text` matches `pattern`, in which `*` stands for any characters. Cost: linear in both, greedy.
fn is_like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(middle) = last.replace(part) {
            let Some(at) = rest.find(middle) else { return false };
            rest = &rest[at + middle.len()..];
        }
    }
    match last {
        None => rest.is_empty(),
        Some(end) => rest.ends_with(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_a_shell_would() {
        for (pattern, text, expected) in [
            ("dash-*", "dash-7", true),
            ("dash-*", "dash", false),
            ("*", "", true),
            ("*-x-*", "a-x-b", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("exact", "exact", true),
            ("exact", "exactly", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(is_like(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_class_by_client_id_comes_before_the_class_of_the_listener() {
        let mut config = Config::default();
        config.listener[0].class = Some("slow".to_owned());
        let class = |name: &str, client_id: Option<&str>, messages_max| Class {
            name: name.to_owned(),
            client_id: client_id.map(str::to_owned),
            messages_max: Some(messages_max),
            ..Class::default()
        };
        config.class = vec![class("slow", None, 1), class("dash", Some("dash-*"), 2)];
        let settings = Settings::new(config);
        let messages_max = |listener, client_id| settings.queue_for(listener, client_id, None).messages_max;
        assert_eq!(messages_max(0, "dash-1"), 2);
        assert_eq!(messages_max(0, "other"), 1);
        assert_eq!(messages_max(1, "other"), Config::default().queue.messages_max);
    }
}
