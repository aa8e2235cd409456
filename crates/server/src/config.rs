//! What the operator can set. Every key has a default; `meridian config show` prints the whole.

use serde::{Deserialize, Serialize};

/// The whole configuration, resolved.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Threads and shutdown.
    pub server: Server,
    /// Logs.
    pub log: Log,
    /// Where to listen. TOML: `[[listener]]`.
    pub listener: Vec<Listener>,
    /// What MQTT clients may do.
    pub mqtt: Mqtt,
    /// What may wait for a client, unless its class says otherwise.
    pub queue: Queue,
    /// Classes of clients with queues of their own. TOML: `[[class]]`; the first that matches counts.
    pub class: Vec<Class>,
    /// Retained messages.
    pub retained: Retained,
}

/// `[server]`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Event loops; 0 means one for each core.
    pub threads: usize,
    /// How long a shutdown waits for outboxes to drain.
    pub shutdown_grace: Duration,
    /// Connections at once, over all listeners; 0 means as many as open files allow.
    pub connections_max: usize,
    /// How often `$SYS` topics are published; zero switches them off.
    pub sys_interval: Duration,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,meridian_server=debug`.
    pub level: String,
    /// Text, JSON, or whichever fits standard error.
    pub format: LogFormat,
}

/// A listener.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listener {
    /// `mqtt://host:port`, `ws://host:port` or `http://host:port`; port 0 takes a free one.
    pub url: String,
    /// The class of its clients, unless one matches by client id or user name.
    pub class: Option<String>,
    /// Connections at once; 0 means no limit of its own.
    pub connections_max: usize,
    /// How long a connection may take to send CONNECT.
    pub connect_timeout: Duration,
    /// Connections the kernel may hold until they are accepted.
    pub backlog: u32,
}

/// `[mqtt]`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mqtt {
    /// Largest packet accepted.
    pub packet_bytes_max: ByteSize,
    /// Unacknowledged QoS 1 and 2 messages a client may have in flight to the server.
    pub receive_maximum: u16,
    /// Unacknowledged messages the server has in flight to a client that names no receive maximum.
    pub inflight_max: u16,
    /// Topic aliases a client may set.
    pub topic_alias_maximum: u16,
    /// Topic aliases the server sets towards a client that takes them.
    pub topic_alias_outgoing: u16,
    /// Longest keep alive; a longer one, or none, is lowered to it (5.0). Zero means any.
    pub keep_alive_max: Duration,
    /// Longest session expiry interval; a longer one is lowered to it.
    pub session_expiry_max: Duration,
    /// Session expiry of 3.1.1 clients that connect with clean session 0.
    pub session_expiry_v311: Duration,
    /// Sessions at once, connected or not.
    pub sessions_max: usize,
    /// Subscriptions of one session.
    pub subscriptions_max: usize,
    /// Longest client id, in bytes.
    pub client_id_bytes_max: usize,
    /// How a share group picks a member.
    pub share_strategy: ShareStrategy,
}

/// `[queue]`: what may wait for one client.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Queue {
    /// Messages that wait while the client is slow or away.
    pub messages_max: usize,
    /// Bytes of them.
    pub bytes_max: ByteSize,
    /// Encoded bytes that wait for the socket before messages begin to queue.
    pub outbox_bytes_max: ByteSize,
    /// What happens to a message for which there is no room.
    pub overflow: Overflow,
    /// Whether QoS 0 messages wait for a client that is away.
    pub offline_qos0: bool,
}

/// `[[class]]`: clients with a queue of their own.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Class {
    /// Name, for listeners to refer to.
    pub name: String,
    /// Client ids it matches; `*` stands for any characters.
    pub client_id: Option<String>,
    /// User names it matches; `*` stands for any characters.
    pub user_name: Option<String>,
    /// Instead of `[queue]`; keys left out are taken from there.
    pub messages_max: Option<usize>,
    /// See [`Queue::bytes_max`].
    pub bytes_max: Option<ByteSize>,
    /// See [`Queue::outbox_bytes_max`].
    pub outbox_bytes_max: Option<ByteSize>,
    /// See [`Queue::overflow`].
    pub overflow: Option<Overflow>,
    /// See [`Queue::offline_qos0`].
    pub offline_qos0: Option<bool>,
}

/// `[retained]`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retained {
    /// Retained messages at once.
    pub messages_max: usize,
    /// Bytes of them.
    pub bytes_max: ByteSize,
}

/// What happens to a message that finds a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// The message that has waited longest makes room.
    DropOldest,
    /// The incoming message is refused.
    DropNewest,
    /// The client is disconnected.
    Disconnect,
    /// The publisher's socket is not read until there is room.
    Block,
}

/// How a share group picks a member for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareStrategy {
    /// In turn.
    RoundRobin,
    /// By chance.
    Random,
    /// The member with the fewest unacknowledged and waiting messages.
    LeastInflight,
    /// The same member until it leaves.
    Sticky,
    /// By hash of the publisher's client id.
    HashClient,
    /// By hash of the topic.
    HashTopic,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// One readable line each.
    Text,
    /// One JSON object each.
    Json,
}

/// A span of time, written as "30s", "5 min", "1h" or "2d". Zero is "0s".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct Duration(pub std::time::Duration);

/// A size, written as "512", "64 KiB", "10 MiB" or "1 GiB".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct ByteSize(pub u64);

const fn secs(secs: u64) -> Duration {
    Duration(std::time::Duration::from_secs(secs))
}

impl Default for Config {
    fn default() -> Self {
        let listen = |url: &str| Listener { url: url.to_owned(), ..Listener::default() };
        Self {
            server: Server::default(),
            log: Log::default(),
            listener: vec![listen("mqtt://127.0.0.1:1883"), listen("http://127.0.0.1:7070")],
            mqtt: Mqtt::default(),
            queue: Queue::default(),
            class: Vec::new(),
            retained: Retained::default(),
        }
    }
}

impl Default for Server {
    fn default() -> Self {
        Self { threads: 0, shutdown_grace: secs(5), connections_max: 0, sys_interval: secs(10) }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Auto }
    }
}

impl Default for Listener {
    fn default() -> Self {
        Self {
            url: String::new(),
            class: None,
            connections_max: 0,
            connect_timeout: secs(10),
            backlog: 4096,
        }
    }
}

impl Default for Mqtt {
    fn default() -> Self {
        Self {
            packet_bytes_max: ByteSize(16 << 20),
            receive_maximum: 1024,
            inflight_max: 65_535,
            topic_alias_maximum: 64,
            topic_alias_outgoing: 16,
            keep_alive_max: secs(0),
            session_expiry_max: secs(7 * 86_400),
            session_expiry_v311: secs(86_400),
            sessions_max: 1_000_000,
            subscriptions_max: 100_000,
            client_id_bytes_max: 256,
            share_strategy: ShareStrategy::RoundRobin,
        }
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            messages_max: 10_000,
            bytes_max: ByteSize(16 << 20),
            outbox_bytes_max: ByteSize(1 << 20),
            overflow: Overflow::DropOldest,
            offline_qos0: false,
        }
    }
}

impl Default for Class {
    fn default() -> Self {
        Self {
            name: String::new(),
            client_id: None,
            user_name: None,
            messages_max: None,
            bytes_max: None,
            outbox_bytes_max: None,
            overflow: None,
            offline_qos0: None,
        }
    }
}

impl Default for Retained {
    fn default() -> Self {
        Self { messages_max: 1_000_000, bytes_max: ByteSize(1 << 30) }
    }
}
