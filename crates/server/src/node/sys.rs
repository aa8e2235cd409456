//! `$SYS` topics: what the broker says about itself to those who subscribe.

use super::Node;
use meridian_broker::{Context, Counter, Publication};
use std::sync::atomic::Ordering::Relaxed;

impl Node {
    /// Publishes the report, retained.
    pub(super) fn publish_report(&self, context: &mut Context) {
        let metrics = &self.broker.metrics;
        let sum = |counters: &[Counter]| counters.iter().map(|&counter| metrics.get(counter)).sum::<u64>();
        let received = [Counter::PublishedQos0, Counter::PublishedQos1, Counter::PublishedQos2];
        let dropped: Vec<Counter> =
            Counter::ALL.iter().copied().filter(|counter| counter.family() == "messages_dropped").collect();
        let connected = self.client_count.load(Relaxed);
        let sessions = self.registry.count();
        let report: [(&str, String); 17] = [
            ("version", format!("meridian {}", env!("CARGO_PKG_VERSION"))),
            ("uptime", format!("{} seconds", context.now.as_millis() / 1000)),
            ("clients/connected", connected.to_string()),
            ("clients/disconnected", sessions.saturating_sub(connected).to_string()),
            ("clients/total", sessions.to_string()),
            ("subscriptions/count", self.broker.index().entry_count().to_string()),
            ("shared_subscriptions/count", self.broker.group_count().to_string()),
            ("retained messages/count", self.broker.retained.count().to_string()),
            ("store/messages/bytes", self.broker.retained.bytes().to_string()),
            ("messages/received", metrics.get(Counter::PacketsReceived).to_string()),
            ("publish/messages/received", sum(&received).to_string()),
            ("publish/messages/sent", metrics.get(Counter::Delivered).to_string()),
            ("publish/messages/dropped", sum(&dropped).to_string()),
            ("bytes/received", metrics.get(Counter::BytesReceived).to_string()),
            ("bytes/sent", metrics.get(Counter::BytesSent).to_string()),
            ("connections/accepted", metrics.get(Counter::ConnectionsAccepted).to_string()),
            ("connections/open", self.connection_count.load(Relaxed).to_string()),
        ];
        for (name, value) in &report {
            let topic = format!("$SYS/broker/{name}");
            let mut publication = Publication::new(&topic, value.as_bytes(), context.now, None);
            publication.retain = true;
            self.broker.publish(context, &mut publication);
        }
    }
}
