//! Packets as values. Strings and payloads borrow from the buffer they were read from.

use crate::ReasonCode;
use bytes::Bytes;
use meridian_types::{Properties, Qos};

/// A protocol version this crate speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// MQTT 3.1.1, protocol level 4.
    V311,
    /// MQTT 5.0, protocol level 5.
    V5,
}

/// Any control packet, in either direction (MQTT 5.0 §2.1.2).
#[derive(Clone, Debug, PartialEq)]
pub enum Packet<'a> {
    /// §3.1
    Connect(Box<Connect<'a>>),
    /// §3.2
    Connack(Box<Connack<'a>>),
    /// §3.3
    Publish(Publish<'a>),
    /// §3.4
    Puback(Ack<'a>),
    /// §3.5
    Pubrec(Ack<'a>),
    /// §3.6
    Pubrel(Ack<'a>),
    /// §3.7
    Pubcomp(Ack<'a>),
    /// §3.8
    Subscribe(Subscribe<'a>),
    /// §3.9
    Suback(Suback<'a>),
    /// §3.10
    Unsubscribe(Unsubscribe<'a>),
    /// §3.11
    Unsuback(Suback<'a>),
    /// §3.12
    Pingreq,
    /// §3.13
    Pingresp,
    /// §3.14
    Disconnect(Disconnect<'a>),
    /// §3.15, 5.0 only
    Auth(Auth<'a>),
}

/// The specification's name of the packet type in the upper half of `first_byte`.
pub const fn packet_name(first_byte: u8) -> &'static str {
    const NAMES: [&str; 16] = [
        "packet of type 0",
        "CONNECT",
        "CONNACK",
        "PUBLISH",
        "PUBACK",
        "PUBREC",
        "PUBREL",
        "PUBCOMP",
        "SUBSCRIBE",
        "SUBACK",
        "UNSUBSCRIBE",
        "UNSUBACK",
        "PINGREQ",
        "PINGRESP",
        "DISCONNECT",
        "AUTH",
    ];
    NAMES[(first_byte >> 4) as usize]
}

/// CONNECT. What 3.1.1 does not have is left at its default.
#[derive(Clone, Debug, PartialEq)]
pub struct Connect<'a> {
    /// The version the client speaks.
    pub version: Version,
    /// Clean start (5.0) or clean session (3.1.1).
    pub clean_start: bool,
    /// Seconds; 0 switches it off.
    pub keep_alive_secs: u16,
    /// May be empty: the server then assigns one.
    pub client_id: &'a str,
    /// What to publish if the connection ends without DISCONNECT.
    pub will: Option<Will<'a>>,
    /// User name.
    pub user_name: Option<&'a str>,
    /// Password: any bytes.
    pub password: Option<&'a [u8]>,
    /// Seconds the session outlives the connection; `None` if absent, `u32::MAX` for ever.
    pub session_expiry_secs: Option<u32>,
    /// Unacknowledged QoS 1 and 2 messages the client takes; `None` means 65,535.
    pub receive_maximum: Option<u16>,
    /// The largest packet the client takes; `None` means no limit of its own.
    pub packet_bytes_max: Option<u32>,
    /// Topic aliases the server may use towards the client.
    pub topic_alias_maximum: u16,
    /// Whether the client asks for response information.
    pub request_response_information: bool,
    /// Whether reason strings and user properties may be sent on any packet; 5.0 default is yes.
    pub request_problem_information: bool,
    /// User properties of the connection.
    pub user_properties: Vec<(&'a str, &'a str)>,
    /// Extended authentication.
    pub authentication_method: Option<&'a str>,
    /// Data for the method.
    pub authentication_data: Option<&'a [u8]>,
}

/// The will of a CONNECT.
#[derive(Clone, Debug, PartialEq)]
pub struct Will<'a> {
    /// A valid topic name.
    pub topic: &'a str,
    /// May be empty.
    pub payload: &'a [u8],
    /// QoS it is published with.
    pub qos: Qos,
    /// Whether it is published as retained.
    pub retain: bool,
    /// Seconds to wait after the connection ended.
    pub delay_secs: u32,
    /// Expiry interval of the message.
    pub expiry_secs: Option<u32>,
    /// Everything else that travels with it.
    pub properties: Option<Box<Properties>>,
}

/// CONNACK.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connack<'a> {
    /// Whether the server still has a session.
    pub session_present: bool,
    /// The outcome. In 3.1.1 encoded as the nearest of its return codes 0 to 5.
    pub reason: ReasonCode,
    /// All below is 5.0 only; `None` leaves a property out.
    pub session_expiry_secs: Option<u32>,
    /// Unacknowledged messages the server takes.
    pub receive_maximum: Option<u16>,
    /// The highest QoS the server takes, if not 2.
    pub qos_maximum: Option<Qos>,
    /// Whether retained messages are supported, if said.
    pub retain_available: Option<bool>,
    /// The largest packet the server takes.
    pub packet_bytes_max: Option<u32>,
    /// The client id the server chose.
    pub assigned_client_id: Option<&'a str>,
    /// Topic aliases the client may use.
    pub topic_alias_maximum: Option<u16>,
    /// What went wrong, in words.
    pub reason_string: Option<&'a str>,
    /// User properties.
    pub user_properties: Vec<(&'a str, &'a str)>,
    /// Whether wildcard subscriptions are supported, if said.
    pub wildcard_available: Option<bool>,
    /// Whether subscription identifiers are supported, if said.
    pub subscription_ids_available: Option<bool>,
    /// Whether shared subscriptions are supported, if said.
    pub shared_available: Option<bool>,
    /// Keep alive the client must use instead of its own.
    pub server_keep_alive_secs: Option<u16>,
    /// Basis for response topics.
    pub response_information: Option<&'a str>,
    /// Another server to use.
    pub server_reference: Option<&'a str>,
    /// Extended authentication.
    pub authentication_method: Option<&'a str>,
    /// Data for the method.
    pub authentication_data: Option<&'a [u8]>,
}

/// PUBLISH.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Publish<'a> {
    /// Sent before.
    pub dup: bool,
    /// Level of this delivery.
    pub qos: Qos,
    /// To be retained (to the server); was retained (to the client).
    pub retain: bool,
    /// Valid name, or empty if `topic_alias` stands for it.
    pub topic: &'a str,
    /// 0 at QoS 0.
    pub packet_id: u16,
    /// Alias to use or to set.
    pub topic_alias: Option<u16>,
    /// Message expiry interval in seconds.
    pub expiry_secs: Option<u32>,
    /// Identifiers of the subscriptions that matched (server to client only).
    pub subscription_ids: Vec<u32>,
    /// What travels on unchanged; `None` if there is nothing.
    pub properties: Option<Box<Properties>>,
    /// The application's bytes.
    pub payload: &'a [u8],
}

/// PUBACK, PUBREC, PUBREL or PUBCOMP.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ack<'a> {
    /// The message acknowledged; not 0.
    pub packet_id: u16,
    /// Always success in 3.1.1.
    pub reason: ReasonCode,
    /// In words.
    pub reason_string: Option<&'a str>,
    /// User properties.
    pub user_properties: Vec<(&'a str, &'a str)>,
}

/// SUBSCRIBE.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subscribe<'a> {
    /// Not 0.
    pub packet_id: u16,
    /// Identifier for all filters of the packet.
    pub subscription_id: Option<u32>,
    /// User properties.
    pub user_properties: Vec<(&'a str, &'a str)>,
    /// At least one.
    pub filters: Vec<FilterRequest<'a>>,
}

/// One filter of a SUBSCRIBE. The filter is UTF-8 but not yet checked as a filter: a bad one is refused alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterRequest<'a> {
    /// As written, with any `$share/name/`.
    pub filter: &'a str,
    /// Highest QoS wanted.
    pub qos: Qos,
    /// Do not send the client its own messages.
    pub no_local: bool,
    /// Keep the retain flag as published.
    pub retain_as_published: bool,
    /// When to send retained messages.
    pub retain_handling: RetainHandling,
}

/// When a subscription gets retained messages (MQTT 5.0 §3.8.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum RetainHandling {
    /// At each SUBSCRIBE.
    #[default]
    Always = 0,
    /// Only if the subscription is new.
    IfNew = 1,
    /// Never.
    Never = 2,
}

/// SUBACK or UNSUBACK.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Suback<'a> {
    /// Of the request.
    pub packet_id: u16,
    /// In words.
    pub reason_string: Option<&'a str>,
    /// User properties.
    pub user_properties: Vec<(&'a str, &'a str)>,
    /// One for each filter, in order. A 3.1.1 UNSUBACK carries none.
    pub reasons: Vec<ReasonCode>,
}

/// UNSUBSCRIBE.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unsubscribe<'a> {
    /// Not 0.
    pub packet_id: u16,
    /// User properties.
    pub user_properties: Vec<(&'a str, &'a str)>,
    /// At least one, as written.
    pub filters: Vec<&'a str>,
}

/// DISCONNECT.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disconnect<'a> {
    /// Always normal in 3.1.1.
    pub reason: ReasonCode,
    /// A new session expiry (client to server only).
    pub session_expiry_secs: Option<u32>,
    /// In words.
    pub reason_string: Option<&'a str>,
    /// User properties.
    pub user_properties: Vec<(&'a str, &'a str)>,
    /// Another server to use.
    pub server_reference: Option<&'a str>,
}

/// AUTH.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Auth<'a> {
    /// Success, continue or re-authenticate.
    pub reason: ReasonCode,
    /// Method in use.
    pub authentication_method: Option<&'a str>,
    /// Data for the method.
    pub authentication_data: Option<Bytes>,
    /// In words.
    pub reason_string: Option<&'a str>,
    /// User properties.
    pub user_properties: Vec<(&'a str, &'a str)>,
}
