//! What `/metrics` and `/readyz` report.

use crate::http::{Observe, Readiness, Sample};
use crate::node::Node;
use crate::{clock, log};
use meridian_broker::Counter;
use meridian_types::memory;
use std::sync::atomic::Ordering::Relaxed;

impl Observe for Node {
    fn readiness(&self) -> Readiness {
        if self.is_stopping.load(Relaxed) { Readiness::ShuttingDown } else { Readiness::Ready }
    }

    fn sample(&self, out: &mut Vec<Sample>) {
        out.push(Sample::info(
            "meridian_build",
            "The version that runs.",
            vec![("version", env!("CARGO_PKG_VERSION").into())],
        ));
        for &counter in Counter::ALL {
            let sample = Sample::counter(counter.metric(), counter.help(), self.broker.metrics.get(counter));
            out.push(match counter.label() {
                Some((name, value)) => sample.with(name, value),
                None => sample,
            });
        }
        let index = self.broker.index();
        let queued = self.queued();
        let gauges: [(&'static str, &'static str, usize); 12] = [
            ("meridian_connections", "Connections open now.", self.connection_count.load(Relaxed)),
            ("meridian_connections_limit", "Connections there may be.", self.connections_max),
            ("meridian_clients", "Connected clients.", self.client_count.load(Relaxed)),
            ("meridian_sessions", "Sessions, connected or not.", self.registry.count()),
            ("meridian_sessions_limit", "Sessions there may be.", self.settings().config.mqtt.sessions_max),
            ("meridian_subscriptions", "Subscriptions, each share group counted once.", index.entry_count()),
            ("meridian_filters", "Distinct topic filters.", index.filter_count()),
            ("meridian_share_groups", "Share groups.", self.broker.group_count()),
            ("meridian_retained_messages", "Retained messages.", self.broker.retained.count()),
            ("meridian_retained_bytes", "Bytes of retained messages.", self.broker.retained.bytes()),
            ("meridian_queued_messages", "Messages that wait for slow or absent clients.", queued.0),
            ("meridian_queued_bytes", "Bytes of them, a shared message counted for each queue.", queued.1),
        ];
        out.extend(gauges.map(|(name, help, value)| Sample::gauge(name, help, value as u64)));
        let held =
            "Bytes of messages, outboxes, incomplete packets, subscriptions and aliases, each counted once.";
        out.push(Sample::gauge("meridian_memory_held_bytes", held, memory::held() as u64));
        let limit = "Bytes of them that there may be.";
        out.push(Sample::gauge("meridian_memory_limit_bytes", limit, memory::limit() as u64));
        let lines = "Log lines dropped because standard error did not take them.";
        out.push(Sample::counter("meridian_log_lines_dropped", lines, log::lines_dropped()));
        let uptime = clock::now().as_millis() / 1000;
        out.push(Sample::gauge("meridian_uptime_seconds", "Seconds since the start.", uptime));
    }
}

impl Node {
    /// Messages queued over all sessions, and their bytes. Cost: a look at each session.
    fn queued(&self) -> (usize, usize) {
        let mut sum = (0, 0);
        self.registry.for_each(|session| {
            let (messages, bytes) = session.queued();
            sum = (sum.0 + messages, sum.1 + bytes);
        });
        sum
    }
}
