//! Counters: a closed set, each an atomic that threads add to once a turn.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$meta:meta])* $name:ident: $family:literal $({$label:literal = $value:literal})?, $help:literal;)+) => {
        /// Something that is counted from the start of the process on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter { $($(#[$meta])* $name,)+ }

        impl Counter {
            /// All counters, those of one family together.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// Its metric family, without `meridian_` and `_total`.
            pub const fn family(self) -> &'static str {
                match self { $(Self::$name => $family,)+ }
            }

            /// The full name of its metric family.
            pub const fn metric(self) -> &'static str {
                match self { $(Self::$name => concat!("meridian_", $family, "_total"),)+ }
            }

            /// Its label and value, if the family has several members.
            pub const fn label(self) -> Option<(&'static str, &'static str)> {
                match self { $(Self::$name => counters!(@label $($label $value)?),)+ }
            }

            /// What the family counts.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$name => $help,)+ }
            }
        }
    };
    (@label) => { None };
    (@label $label:literal $value:literal) => { Some(($label, $value)) };
}

counters! {
    /// Connections accepted.
    ConnectionsAccepted: "connections_accepted", "TCP connections accepted.";
    /// Refused: the limit of connections.
    ConnectionsRefusedLimit: "connections_refused" {"reason" = "limit"}, "Connections closed before CONNECT was accepted.";
    /// Refused: no file descriptor was left.
    ConnectionsRefusedFiles: "connections_refused" {"reason" = "open-files"}, "Connections closed before CONNECT was accepted.";
    /// No CONNECT in time.
    ConnectionsRefusedTimeout: "connections_refused" {"reason" = "connect-timeout"}, "Connections closed before CONNECT was accepted.";
    /// CONNECT was not acceptable.
    ConnectionsRefusedConnect: "connections_refused" {"reason" = "connect-refused"}, "Connections closed before CONNECT was accepted.";
    /// CONNECT accepted.
    ClientsConnected: "clients_connected", "CONNECT packets accepted.";
    /// Ended by DISCONNECT.
    DisconnectsNormal: "disconnects" {"reason" = "client"}, "Ends of accepted connections.";
    /// Ended by the client's side without DISCONNECT.
    DisconnectsLost: "disconnects" {"reason" = "connection-lost"}, "Ends of accepted connections.";
    /// Ended by the keep alive.
    DisconnectsKeepAlive: "disconnects" {"reason" = "keep-alive"}, "Ends of accepted connections.";
    /// Ended by a malformed packet or a protocol error.
    DisconnectsProtocol: "disconnects" {"reason" = "protocol-error"}, "Ends of accepted connections.";
    /// Ended by an oversize packet.
    DisconnectsPacketTooLarge: "disconnects" {"reason" = "packet-too-large"}, "Ends of accepted connections.";
    /// Ended by another connection with the same client id.
    DisconnectsTakenOver: "disconnects" {"reason" = "taken-over"}, "Ends of accepted connections.";
    /// Ended because its queue was full and the policy says so.
    DisconnectsSlow: "disconnects" {"reason" = "slow-consumer"}, "Ends of accepted connections.";
    /// Ended by a shutdown.
    DisconnectsShutdown: "disconnects" {"reason" = "shutdown"}, "Ends of accepted connections.";
    /// Ended because an incomplete packet was more than the process could hold.
    DisconnectsMemory: "disconnects" {"reason" = "memory"}, "Ends of accepted connections.";
    /// Bytes read.
    BytesReceived: "bytes_received", "Bytes read from clients.";
    /// Bytes written.
    BytesSent: "bytes_sent", "Bytes written to clients.";
    /// Packets read.
    PacketsReceived: "packets_received", "MQTT packets read from clients.";
    /// Messages published, QoS 0.
    PublishedQos0: "messages_received" {"qos" = "0"}, "Messages published by clients.";
    /// Messages published, QoS 1.
    PublishedQos1: "messages_received" {"qos" = "1"}, "Messages published by clients.";
    /// Messages published, QoS 2.
    PublishedQos2: "messages_received" {"qos" = "2"}, "Messages published by clients.";
    /// Messages nobody was subscribed to.
    Unmatched: "messages_unmatched", "Messages that matched no subscription.";
    /// Deliveries to an outbox or queue.
    Delivered: "messages_delivered", "Messages handed to a session's outbox or queue.";
    /// Dropped: the oldest, to make room.
    DroppedOldest: "messages_dropped" {"reason" = "queue-full-oldest"}, "Messages dropped for one session.";
    /// Dropped: the incoming one.
    DroppedNewest: "messages_dropped" {"reason" = "queue-full-newest"}, "Messages dropped for one session.";
    /// Dropped: QoS 0 while the client is away.
    DroppedOffline: "messages_dropped" {"reason" = "client-away"}, "Messages dropped for one session.";
    /// Dropped: its expiry interval passed while it waited.
    DroppedExpired: "messages_dropped" {"reason" = "expired"}, "Messages dropped for one session.";
    /// Dropped: larger than the client takes.
    DroppedTooLarge: "messages_dropped" {"reason" = "packet-too-large"}, "Messages dropped for one session.";
    /// Dropped: the consumer was cut off.
    DroppedCutOff: "messages_dropped" {"reason" = "slow-consumer"}, "Messages dropped for one session.";
    /// Dropped: the process holds as much as it may.
    DroppedMemory: "messages_dropped" {"reason" = "memory"}, "Messages dropped for one session.";
    /// Dropped: the session ended with messages waiting.
    DroppedSessionEnd: "messages_dropped" {"reason" = "session-end"}, "Messages dropped for one session.";
    /// Dropped: no member of the share group could take it.
    DroppedNoMember: "messages_dropped" {"reason" = "no-share-member"}, "Messages dropped for one session.";
    /// Refused: the topic is the broker's own.
    PublishRefusedReserved: "messages_refused" {"reason" = "reserved-topic"}, "Messages of clients that were not published.";
    /// Publishers that had to wait.
    PublishersBlocked: "publishers_blocked", "Times a publisher's socket was not read because a target was full.";
    /// Retained messages refused.
    RetainedRefusedLimit: "retained_refused" {"reason" = "limit"}, "Messages not retained.";
    /// Retained messages refused: the process holds as much as it may.
    RetainedRefusedMemory: "retained_refused" {"reason" = "memory"}, "Messages not retained.";
    /// Subscriptions made.
    Subscribed: "subscriptions_made", "Filters subscribed to.";
    /// Subscriptions refused: a limit.
    SubscribeRefusedLimit: "subscriptions_refused" {"reason" = "limit"}, "Filters refused.";
    /// Subscriptions refused: the process holds as much as it may.
    SubscribeRefusedMemory: "subscriptions_refused" {"reason" = "memory"}, "Filters refused.";
    /// Subscriptions refused: not a valid filter.
    SubscribeRefusedInvalid: "subscriptions_refused" {"reason" = "invalid-filter"}, "Filters refused.";
    /// Sessions refused: a limit.
    SessionsRefusedLimit: "sessions_refused" {"reason" = "limit"}, "Sessions refused.";
    /// Sessions refused: the process holds as much as it may.
    SessionsRefusedMemory: "sessions_refused" {"reason" = "memory"}, "Sessions refused.";
    /// Sessions that ended because their expiry interval passed.
    SessionsExpired: "sessions_expired", "Sessions whose expiry interval passed.";
    /// Wills published.
    WillsPublished: "wills_published", "Will messages published.";
    /// Routes found in a thread's cache.
    RouteCacheHits: "route_cache" {"result" = "hit"}, "Look-ups of a topic's route.";
    /// Routes looked up in the index.
    RouteCacheMisses: "route_cache" {"result" = "miss"}, "Look-ups of a topic's route.";
}

/// The shared counters.
#[derive(Debug)]
pub struct Metrics {
    values: [AtomicU64; Counter::COUNT],
}

impl Default for Metrics {
    fn default() -> Self {
        Self { values: [const { AtomicU64::new(0) }; Counter::COUNT] }
    }
}

impl Metrics {
    /// Adds to a counter at once. Cost: one atomic; on hot paths count in [`LocalCounters`].
    pub fn add(&self, counter: Counter, amount: u64) {
        self.values[counter as usize].fetch_add(amount, Relaxed);
    }

    /// Its value now.
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize].load(Relaxed)
    }
}

/// What one thread has counted since it last added to the shared counters.
#[derive(Debug)]
pub struct LocalCounters {
    values: [u64; Counter::COUNT],
}

impl Default for LocalCounters {
    fn default() -> Self {
        Self { values: [0; Counter::COUNT] }
    }
}

impl LocalCounters {
    /// Counts. Cost: one addition.
    #[inline]
    pub fn add(&mut self, counter: Counter, amount: u64) {
        self.values[counter as usize] += amount;
    }

    /// Adds everything to `metrics` and starts anew.
    pub fn drain_into(&mut self, metrics: &Metrics) {
        for (value, shared) in self.values.iter_mut().zip(&metrics.values) {
            if *value != 0 {
                shared.fetch_add(*value, Relaxed);
                *value = 0;
            }
        }
    }
}
