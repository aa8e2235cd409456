//! What the operator can set.
//!
//! Each key is one item below: its name, what it means, its default, and whether a reload (SIGHUP) takes it over or
//! a restart is needed. Reading, checking, printing and the reference are derived from these items. A value comes
//! from the default, else the file, else the environment (`MERIDIAN_<SECTION>_<KEY>`, `MERIDIAN_LISTEN`), else flags
//! (`--set section.key=value`, `--listen URL`); the last one counts.
//!
//! [`Config::load`] does all of it; [`Loaded::reload`] does it again; [`diff()`] says what changed.

mod diff;
mod listen;
mod load;
mod problem;
mod schema;
mod show;
mod validate;
mod value;

pub use diff::{Change, diff};
pub use listen::{ListenUrl, Scheme, UrlError};
pub use load::{Loaded, Sources};
pub use problem::{Fault, Location, Origin, Problem, Warning};
pub use schema::Reload;
pub use show::Comments;
pub use value::{ByteSize, Duration};

use schema::table;
use value::{days, secs, word_enum};

/// The whole configuration, resolved.
#[derive(Clone, Debug, PartialEq)]
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

table! {
    /// Threads and shutdown.
    Server {
        /// Event loops; 0 means one for each core.
        threads: usize = 0, Restart;
        /// How long a shutdown waits for clients to take what waits for them.
        shutdown_grace: Duration = secs(5), Restart;
        /// Connections at once, over all listeners; 0 means as many as open files allow.
        connections_max: usize = 0, Restart;
        /// What clients make grow in memory, over all of them: messages, outboxes, incomplete packets, subscriptions; 0
        /// means half of the memory that the machine or container has.
        memory_max: ByteSize = ByteSize(0), Live;
        /// How often `$SYS` topics are published; "0s" switches them off.
        sys_interval: Duration = secs(10), Restart;
    }
}

table! {
    /// Logs, on standard error.
    Log {
        /// `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,meridian_server=debug`.
        level: String = "info".to_owned(), Live;
        /// Text, JSON, or `auto`: text on a terminal, JSON otherwise.
        format: LogFormat = LogFormat::Auto, Restart;
    }
}

table! {
    /// Where to listen; one `[[listener]]` for each address. Any listener in the file replaces the default ones,
    /// and `--listen` or MERIDIAN_LISTEN replaces all of them.
    Listener {
        /// `mqtt://host:port`, `ws://host:port` or `http://host:port`; port 0 takes a free one.
        url: String = String::new(), Restart;
        /// The class of its clients, unless one matches by client id or user name.
        class: Option<String> = None, Restart;
        /// Connections at once; 0 means no limit of its own.
        connections_max: usize = 0, Restart;
        /// How long a connection may take to send CONNECT.
        connect_timeout: Duration = secs(10), Restart;
        /// Connections the kernel may hold until they are accepted.
        backlog: u32 = 4096, Restart;
    }
}

table! {
    /// What MQTT clients may do.
    Mqtt {
        /// Largest packet accepted.
        packet_bytes_max: ByteSize = ByteSize(16 << 20), Live;
        /// Unacknowledged QoS 1 and 2 messages a client may have in flight to the server.
        receive_maximum: u16 = 1024, Live;
        /// Unacknowledged messages the server has in flight to a client that names no receive maximum.
        inflight_max: u16 = 65_535, Live;
        /// Topic aliases a client may set.
        topic_alias_maximum: u16 = 64, Live;
        /// Topic aliases the server sets towards a client that takes them.
        topic_alias_outgoing: u16 = 16, Live;
        /// Longest keep alive; a longer one, or none, is lowered to it (5.0). "0s" means any.
        keep_alive_max: Duration = secs(0), Live;
        /// Longest session expiry interval; a longer one is lowered to it.
        session_expiry_max: Duration = days(7), Live;
        /// Session expiry of 3.1.1 clients that connect with clean session 0.
        session_expiry_v311: Duration = days(1), Live;
        /// Sessions at once, connected or not.
        sessions_max: usize = 1_000_000, Live;
        /// Subscriptions of one session.
        subscriptions_max: usize = 100_000, Live;
        /// Longest client id, in bytes.
        client_id_bytes_max: usize = 256, Live;
        /// How a share group picks a member.
        share_strategy: ShareStrategy = ShareStrategy::RoundRobin, Live;
    }
}

table! {
    /// What may wait for one client, unless its class says otherwise.
    Queue {
        /// Messages that wait while the client is slow or away.
        messages_max: usize = 10_000, Live;
        /// Bytes of them.
        bytes_max: ByteSize = ByteSize(16 << 20), Live;
        /// Encoded bytes that wait for the socket before messages begin to queue.
        outbox_bytes_max: ByteSize = ByteSize(1 << 20), Live;
        /// What happens to a message for which there is no room.
        overflow: Overflow = Overflow::DropOldest, Live;
        /// Whether QoS 0 messages wait for a client that is away.
        offline_qos0: bool = false, Live;
    }
}

table! {
    /// Clients with a queue of their own; one `[[class]]` for each. The first that matches counts; keys left out
    /// are taken from `[queue]`.
    Class {
        /// Name, for listeners to refer to.
        name: String = String::new(), Live;
        /// Client ids it matches; `*` stands for any characters.
        client_id: Option<String> = None, Live;
        /// User names it matches; `*` stands for any characters.
        user_name: Option<String> = None, Live;
        /// Messages that wait while the client is slow or away.
        messages_max: Option<usize> = None, Live;
        /// Bytes of them.
        bytes_max: Option<ByteSize> = None, Live;
        /// Encoded bytes that wait for the socket before messages begin to queue.
        outbox_bytes_max: Option<ByteSize> = None, Live;
        /// What happens to a message for which there is no room.
        overflow: Option<Overflow> = None, Live;
        /// Whether QoS 0 messages wait for a client that is away.
        offline_qos0: Option<bool> = None, Live;
    }
}

table! {
    /// Retained messages.
    Retained {
        /// Retained messages at once.
        messages_max: usize = 1_000_000, Live;
        /// Bytes of them.
        bytes_max: ByteSize = ByteSize(1 << 30), Live;
    }
}

word_enum! {
    /// What happens to a message that finds a full queue.
    Overflow {
        /// The message that has waited longest makes room.
        DropOldest = "drop-oldest",
        /// The incoming message is refused.
        DropNewest = "drop-newest",
        /// The client is disconnected.
        Disconnect = "disconnect",
        /// The publisher's socket is not read until there is room.
        Block = "block",
    }
}

word_enum! {
    /// How a share group picks a member for a message.
    ShareStrategy {
        /// In turn.
        RoundRobin = "round-robin",
        /// By chance.
        Random = "random",
        /// The member with the fewest unacknowledged and waiting messages.
        LeastInflight = "least-inflight",
        /// The same member until it leaves.
        Sticky = "sticky",
        /// By hash of the publisher's client id.
        HashClient = "hash-client",
        /// By hash of the topic.
        HashTopic = "hash-topic",
    }
}

word_enum! {
    /// How log lines look.
    LogFormat {
        /// Text on a terminal, JSON otherwise.
        Auto = "auto",
        /// One readable line each.
        Text = "text",
        /// One JSON object each.
        Json = "json",
    }
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

#[cfg(test)]
mod tests;
