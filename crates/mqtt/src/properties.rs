//! The properties of MQTT 5.0 (§2.2.2.2): their identifiers, names and typed values.

use meridian_types::{PayloadFormat, Qos};

macro_rules! property_ids {
    ($($name:ident = $value:literal, $text:literal;)+) => {
        /// A property identifier. Its discriminant is the wire value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum PropertyId { $($name = $value,)+ }

        impl PropertyId {
            /// The identifier for a wire value. All of them fit the first byte of their variable byte integer.
            pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
                match byte { $($value => Some(Self::$name),)+ _ => None }
            }

            /// Its name in the specification, in lower case, for error texts.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

property_ids! {
    PayloadFormat = 0x01, "payload format indicator";
    MessageExpiry = 0x02, "message expiry interval";
    ContentType = 0x03, "content type";
    ResponseTopic = 0x08, "response topic";
    CorrelationData = 0x09, "correlation data";
    SubscriptionId = 0x0B, "subscription identifier";
    SessionExpiry = 0x11, "session expiry interval";
    AssignedClientId = 0x12, "assigned client identifier";
    ServerKeepAlive = 0x13, "server keep alive";
    AuthenticationMethod = 0x15, "authentication method";
    AuthenticationData = 0x16, "authentication data";
    RequestProblemInformation = 0x17, "request problem information";
    WillDelay = 0x18, "will delay interval";
    RequestResponseInformation = 0x19, "request response information";
    ResponseInformation = 0x1A, "response information";
    ServerReference = 0x1C, "server reference";
    ReasonString = 0x1F, "reason string";
    ReceiveMaximum = 0x21, "receive maximum";
    TopicAliasMaximum = 0x22, "topic alias maximum";
    TopicAlias = 0x23, "topic alias";
    QosMaximum = 0x24, "maximum QoS";
    RetainAvailable = 0x25, "retain available";
    User = 0x26, "user property";
    PacketBytesMax = 0x27, "maximum packet size";
    WildcardAvailable = 0x28, "wildcard subscription available";
    SubscriptionIdsAvailable = 0x29, "subscription identifiers available";
    SharedAvailable = 0x2A, "shared subscription available";
}

/// One property with its value, checked as far as that does not depend on the packet it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Property<'a> {
    PayloadFormat(PayloadFormat),
    MessageExpiry(u32),
    ContentType(&'a str),
    ResponseTopic(&'a str),
    CorrelationData(&'a [u8]),
    SubscriptionId(u32),
    SessionExpiry(u32),
    AssignedClientId(&'a str),
    ServerKeepAlive(u16),
    AuthenticationMethod(&'a str),
    AuthenticationData(&'a [u8]),
    RequestProblemInformation(bool),
    WillDelay(u32),
    RequestResponseInformation(bool),
    ResponseInformation(&'a str),
    ServerReference(&'a str),
    ReasonString(&'a str),
    ReceiveMaximum(u16),
    TopicAliasMaximum(u16),
    TopicAlias(u16),
    QosMaximum(Qos),
    RetainAvailable(bool),
    User(&'a str, &'a str),
    PacketBytesMax(u32),
    WildcardAvailable(bool),
    SubscriptionIdsAvailable(bool),
    SharedAvailable(bool),
}

impl Property<'_> {
    /// Which one it is.
    pub(crate) const fn id(&self) -> PropertyId {
        match self {
            Self::PayloadFormat(_) => PropertyId::PayloadFormat,
            Self::MessageExpiry(_) => PropertyId::MessageExpiry,
            Self::ContentType(_) => PropertyId::ContentType,
            Self::ResponseTopic(_) => PropertyId::ResponseTopic,
            Self::CorrelationData(_) => PropertyId::CorrelationData,
            Self::SubscriptionId(_) => PropertyId::SubscriptionId,
            Self::SessionExpiry(_) => PropertyId::SessionExpiry,
            Self::AssignedClientId(_) => PropertyId::AssignedClientId,
            Self::ServerKeepAlive(_) => PropertyId::ServerKeepAlive,
            Self::AuthenticationMethod(_) => PropertyId::AuthenticationMethod,
            Self::AuthenticationData(_) => PropertyId::AuthenticationData,
            Self::RequestProblemInformation(_) => PropertyId::RequestProblemInformation,
            Self::WillDelay(_) => PropertyId::WillDelay,
            Self::RequestResponseInformation(_) => PropertyId::RequestResponseInformation,
            Self::ResponseInformation(_) => PropertyId::ResponseInformation,
            Self::ServerReference(_) => PropertyId::ServerReference,
            Self::ReasonString(_) => PropertyId::ReasonString,
            Self::ReceiveMaximum(_) => PropertyId::ReceiveMaximum,
            Self::TopicAliasMaximum(_) => PropertyId::TopicAliasMaximum,
            Self::TopicAlias(_) => PropertyId::TopicAlias,
            Self::QosMaximum(_) => PropertyId::QosMaximum,
            Self::RetainAvailable(_) => PropertyId::RetainAvailable,
            Self::User(_, _) => PropertyId::User,
            Self::PacketBytesMax(_) => PropertyId::PacketBytesMax,
            Self::WildcardAvailable(_) => PropertyId::WildcardAvailable,
            Self::SubscriptionIdsAvailable(_) => PropertyId::SubscriptionIdsAvailable,
            Self::SharedAvailable(_) => PropertyId::SharedAvailable,
        }
    }
}
