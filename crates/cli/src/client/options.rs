//! The options `pub` and `sub` share.

use super::address::Transport;
use super::random::Random;
use super::{Address, PropertySet};
use crate::failure::{Failure, usage};
use meridian_mqtt::Version;
use meridian_mqtt::packet::{Connect, Will};
use meridian_types::{Qos, TopicName};

/// How to reach a broker, and as whom.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ClientOptions {
    /// Broker: mqtt://user:password@host:port/topic or ws://host:port/path; only the host is needed
    #[arg(short = 'L', long, value_name = "URL", conflicts_with_all = ["host", "port"])]
    pub(crate) url: Option<Address>,
    /// Broker's name or address [default: localhost]
    #[arg(short = 'h', long, value_name = "HOST")]
    host: Option<String>,
    /// Broker's port [default: 1883]
    #[arg(short = 'p', long, value_name = "PORT")]
    port: Option<u16>,
    /// Client id [default: one made up]
    #[arg(short = 'i', long = "id", value_name = "ID")]
    client_id: Option<String>,
    /// User name
    #[arg(short = 'u', long, alias = "user-name", value_name = "NAME")]
    username: Option<String>,
    /// Password; on the command line other users of the machine can see it
    #[arg(short = 'P', long, value_name = "PASSWORD")]
    password: Option<String>,
    /// Seconds without traffic after which the connection is checked; 0 never
    #[arg(short = 'k', long, value_name = "SECONDS", default_value_t = 60)]
    keepalive: u16,
    /// Keep the session, its subscriptions and what comes in meanwhile, when this client leaves
    #[arg(short = 'c', long, requires = "client_id")]
    disable_clean_session: bool,
    /// Seconds the session outlives the connection [default: 0; for ever with -c]
    #[arg(short = 'x', long, value_name = "SECONDS")]
    session_expiry: Option<u32>,
    /// MQTT version: 5 or 3.1.1
    #[arg(short = 'V', long = "mqtt-version", value_name = "VERSION", default_value = "5", value_parser = parse_version)]
    pub(crate) version: Version,
    /// Seconds to wait for the connection
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connect_timeout: u32,
    /// MQTT 5 property: -D publish content-type text/plain, -D connect user-property NAME VALUE
    #[arg(short = 'D', long = "property", value_names = ["PACKET", "PROPERTY", "VALUE"], num_args = 3..=4)]
    properties: Vec<String>,
    /// Topic of the will: what the broker publishes if this client vanishes
    #[arg(long, value_name = "TOPIC", help_heading = "Will")]
    will_topic: Option<String>,
    /// Payload of the will [default: empty]
    #[arg(long, value_name = "TEXT", requires = "will_topic", help_heading = "Will")]
    will_payload: Option<String>,
    /// QoS of the will
    #[arg(long, value_name = "QOS", default_value = "0", value_parser = parse_qos, help_heading = "Will")]
    will_qos: Qos,
    /// Retain the will
    #[arg(long, requires = "will_topic", help_heading = "Will")]
    will_retain: bool,
    /// Print packets as they are sent and received, on standard error
    #[arg(short = 'd', long)]
    pub(crate) debug: bool,
}

/// Options that are checked, and what the CONNECT borrows from.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) address: Address,
    pub(crate) properties: PropertySet,
    client_id: String,
    options: ClientOptions,
}

impl ClientOptions {
    /// Checks what belongs together. `role` becomes part of a client id that is made up.
    pub(crate) fn session(&self, role: &str) -> Result<Session, Failure> {
        let mut address = self.url.clone().unwrap_or_default();
        if let Some(host) = &self.host {
            address.host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        }
        address.port = self.port.unwrap_or(address.port);
        let properties = PropertySet::parse(&self.properties).map_err(usage)?;
        if self.version == Version::V311 && (!self.properties.is_empty() || self.session_expiry.is_some()) {
            return Err(usage("MQTT 3.1.1 has no properties (-D) and no session expiry (-x)"));
        }
        if let Some(topic) = &self.will_topic {
            TopicName::new(topic).map_err(|error| usage(format!("--will-topic \"{topic}\": {error}")))?;
        }
        // A subscriber that comes back finds its session by its id; one made up must not meet another.
        let made_up = || format!("meridian-{role}-{:08x}", Random::default().next() as u32);
        let client_id = self.client_id.clone().unwrap_or_else(made_up);
        Ok(Session { address, properties, client_id, options: self.clone() })
    }
}

impl Session {
    /// The CONNECT to send.
    pub(crate) fn connect(&self) -> Connect<'_> {
        let (options, properties) = (&self.options, &self.properties.connect);
        let user_name = options.username.as_deref().or(self.address.user_name.as_deref());
        let password = options.password.as_deref().or(self.address.password.as_deref());
        let default_expiry = options.disable_clean_session.then_some(u32::MAX);
        Connect {
            version: options.version,
            clean_start: !options.disable_clean_session,
            keep_alive_secs: options.keepalive,
            client_id: &self.client_id,
            will: self.will(),
            user_name,
            password: password.map(str::as_bytes),
            session_expiry_secs: options.session_expiry.or(properties.session_expiry_secs).or(default_expiry),
            receive_maximum: properties.receive_maximum,
            packet_bytes_max: properties.packet_bytes_max,
            topic_alias_maximum: properties.topic_alias_maximum,
            request_response_information: properties.request_response_information,
            request_problem_information: properties.request_problem_information.unwrap_or(true),
            user_properties: borrow(&properties.user),
            authentication_method: None,
            authentication_data: None,
        }
    }

    fn will(&self) -> Option<Will<'_>> {
        let will = &self.properties.will;
        Some(Will {
            topic: self.options.will_topic.as_deref()?,
            payload: self.options.will_payload.as_deref().unwrap_or_default().as_bytes(),
            qos: self.options.will_qos,
            retain: self.options.will_retain,
            delay_secs: will.delay_secs,
            expiry_secs: will.expiry_secs,
            properties: will.boxed(),
        })
    }

    /// The options it was made of.
    pub(crate) const fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// Whether it travels in frames.
    pub(crate) fn is_websocket(&self) -> bool {
        self.address.transport == Transport::WebSocket
    }
}

/// Names and values as a packet takes them.
pub(crate) fn borrow(pairs: &[(String, String)]) -> Vec<(&str, &str)> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Reads a QoS.
pub(crate) fn parse_qos(text: &str) -> Result<Qos, String> {
    let qos = text.parse().ok().and_then(Qos::from_bits);
    qos.ok_or_else(|| "the QoS must be 0 (at most once), 1 (at least once) or 2 (exactly once)".to_owned())
}

fn parse_version(text: &str) -> Result<Version, String> {
    match text {
        "5" | "5.0" | "mqttv5" | "v5" => Ok(Version::V5),
        "3.1.1" | "311" | "4" | "mqttv311" | "v311" => Ok(Version::V311),
        _ => Err("the version must be 5 or 3.1.1".to_owned()),
    }
}
