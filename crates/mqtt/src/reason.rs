//! Reason codes (MQTT 5.0 §2.4).

macro_rules! reason_codes {
    ($($(#[$meta:meta])+ $name:ident = $value:literal, $text:literal;)+) => {
        /// The outcome of an operation. Values below 0x80 are success.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum ReasonCode {
            $($(#[$meta])+ $name = $value,)+
        }

        impl ReasonCode {
            /// The code for a wire value; `None` if the specification defines none.
            pub const fn from_byte(byte: u8) -> Option<Self> {
                match byte { $($value => Some(Self::$name),)+ _ => None }
            }

            /// Its name in the specification, in lower case.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// All codes, in order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];
        }
    };
}

impl ReasonCode {
    /// The wire value.
    #[inline]
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Whether it reports a failure (0x80 and above).
    #[inline]
    pub const fn is_error(self) -> bool {
        self as u8 >= 0x80
    }
}

/// Which codes a packet may carry. The tables of MQTT 5.0.
impl ReasonCode {
    /// CONNACK (§3.2.2.2).
    pub const IN_CONNACK: &'static [Self] = &[
        Self::Success,
        Self::UnspecifiedError,
        Self::MalformedPacket,
        Self::ProtocolError,
        Self::ImplementationSpecificError,
        Self::UnsupportedProtocolVersion,
        Self::ClientIdentifierNotValid,
        Self::BadUserNameOrPassword,
        Self::NotAuthorized,
        Self::ServerUnavailable,
        Self::ServerBusy,
        Self::Banned,
        Self::BadAuthenticationMethod,
        Self::TopicNameInvalid,
        Self::PacketTooLarge,
        Self::QuotaExceeded,
        Self::PayloadFormatInvalid,
        Self::RetainNotSupported,
        Self::QosNotSupported,
        Self::UseAnotherServer,
        Self::ServerMoved,
        Self::ConnectionRateExceeded,
    ];

    /// PUBACK (§3.4.2.1) and PUBREC (§3.5.2.1).
    pub const IN_PUBACK: &'static [Self] = &[
        Self::Success,
        Self::NoMatchingSubscribers,
        Self::UnspecifiedError,
        Self::ImplementationSpecificError,
        Self::NotAuthorized,
        Self::TopicNameInvalid,
        Self::PacketIdentifierInUse,
        Self::QuotaExceeded,
        Self::PayloadFormatInvalid,
    ];

    /// PUBREL (§3.6.2.1) and PUBCOMP (§3.7.2.1).
    pub const IN_PUBREL: &'static [Self] = &[Self::Success, Self::PacketIdentifierNotFound];

    /// SUBACK (§3.9.3).
    pub const IN_SUBACK: &'static [Self] = &[
        Self::Success,
        Self::GrantedQos1,
        Self::GrantedQos2,
        Self::UnspecifiedError,
        Self::ImplementationSpecificError,
        Self::NotAuthorized,
        Self::TopicFilterInvalid,
        Self::PacketIdentifierInUse,
        Self::QuotaExceeded,
        Self::SharedSubscriptionsNotSupported,
        Self::SubscriptionIdentifiersNotSupported,
        Self::WildcardSubscriptionsNotSupported,
    ];

    /// The return codes of a 3.1.1 SUBACK (MQTT 3.1.1 §3.9.3).
    pub const IN_SUBACK_V311: &'static [Self] =
        &[Self::Success, Self::GrantedQos1, Self::GrantedQos2, Self::UnspecifiedError];

    /// UNSUBACK (§3.11.3).
    pub const IN_UNSUBACK: &'static [Self] = &[
        Self::Success,
        Self::NoSubscriptionExisted,
        Self::UnspecifiedError,
        Self::ImplementationSpecificError,
        Self::NotAuthorized,
        Self::TopicFilterInvalid,
        Self::PacketIdentifierInUse,
    ];

    /// DISCONNECT from a client (§3.14.2.1, column "sent by", and §4.12.1 for a failed re-authentication).
    pub const IN_CLIENT_DISCONNECT: &'static [Self] = &[
        Self::Success,
        Self::DisconnectWithWill,
        Self::UnspecifiedError,
        Self::MalformedPacket,
        Self::ProtocolError,
        Self::ImplementationSpecificError,
        Self::BadAuthenticationMethod,
        Self::TopicNameInvalid,
        Self::ReceiveMaximumExceeded,
        Self::TopicAliasInvalid,
        Self::PacketTooLarge,
        Self::MessageRateTooHigh,
        Self::QuotaExceeded,
        Self::AdministrativeAction,
        Self::PayloadFormatInvalid,
    ];

    /// DISCONNECT in either direction (§3.14.2.1, and §2.4 for a bad authentication method).
    pub const IN_DISCONNECT: &'static [Self] = &[
        Self::Success,
        Self::DisconnectWithWill,
        Self::UnspecifiedError,
        Self::MalformedPacket,
        Self::ProtocolError,
        Self::ImplementationSpecificError,
        Self::NotAuthorized,
        Self::ServerBusy,
        Self::ServerShuttingDown,
        Self::BadAuthenticationMethod,
        Self::KeepAliveTimeout,
        Self::SessionTakenOver,
        Self::TopicFilterInvalid,
        Self::TopicNameInvalid,
        Self::ReceiveMaximumExceeded,
        Self::TopicAliasInvalid,
        Self::PacketTooLarge,
        Self::MessageRateTooHigh,
        Self::QuotaExceeded,
        Self::AdministrativeAction,
        Self::PayloadFormatInvalid,
        Self::RetainNotSupported,
        Self::QosNotSupported,
        Self::UseAnotherServer,
        Self::ServerMoved,
        Self::SharedSubscriptionsNotSupported,
        Self::ConnectionRateExceeded,
        Self::MaximumConnectTime,
        Self::SubscriptionIdentifiersNotSupported,
        Self::WildcardSubscriptionsNotSupported,
    ];

    /// AUTH (§3.15.2.1).
    pub const IN_AUTH: &'static [Self] = &[Self::Success, Self::ContinueAuthentication, Self::ReAuthenticate];
}

/// The return codes of a 3.1.1 CONNACK (MQTT 3.1.1 §3.2.2.3).
impl ReasonCode {
    /// The return code 0 to 5 that comes nearest to it in a CONNACK. What 3.1.1 has no word for is "server
    /// unavailable".
    pub const fn return_code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::UnsupportedProtocolVersion => 1,
            Self::ClientIdentifierNotValid => 2,
            Self::BadUserNameOrPassword => 4,
            Self::NotAuthorized | Self::Banned | Self::BadAuthenticationMethod => 5,
            _ => 3,
        }
    }

    /// The code for a return code of a CONNACK; `None` above 5.
    pub const fn from_return_code(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Success),
            1 => Some(Self::UnsupportedProtocolVersion),
            2 => Some(Self::ClientIdentifierNotValid),
            3 => Some(Self::ServerUnavailable),
            4 => Some(Self::BadUserNameOrPassword),
            5 => Some(Self::NotAuthorized),
            _ => None,
        }
    }
}

reason_codes! {
    /// Success; also normal disconnection and granted QoS 0.
    #[default] Success = 0x00, "success";
    /// Granted QoS 1.
    GrantedQos1 = 0x01, "granted QoS 1";
    /// Granted QoS 2.
    GrantedQos2 = 0x02, "granted QoS 2";
    /// The client wants its will published.
    DisconnectWithWill = 0x04, "disconnect with will message";
    /// Accepted, but nobody is subscribed.
    NoMatchingSubscribers = 0x10, "no matching subscribers";
    /// There was no such subscription.
    NoSubscriptionExisted = 0x11, "no subscription existed";
    /// Another step of authentication follows.
    ContinueAuthentication = 0x18, "continue authentication";
    /// The client asks to authenticate again.
    ReAuthenticate = 0x19, "re-authenticate";
    /// The reason is not told, or no other fits.
    UnspecifiedError = 0x80, "unspecified error";
    /// The packet cannot be parsed.
    MalformedPacket = 0x81, "malformed packet";
    /// The packet may not be sent here or now.
    ProtocolError = 0x82, "protocol error";
    /// Valid, but not accepted by this server.
    ImplementationSpecificError = 0x83, "implementation specific error";
    /// The version of the protocol is not spoken here.
    UnsupportedProtocolVersion = 0x84, "unsupported protocol version";
    /// The client id is not allowed.
    ClientIdentifierNotValid = 0x85, "client identifier not valid";
    /// Wrong user name or password.
    BadUserNameOrPassword = 0x86, "bad user name or password";
    /// Not allowed to do this.
    NotAuthorized = 0x87, "not authorized";
    /// The server cannot be used now.
    ServerUnavailable = 0x88, "server unavailable";
    /// The server is busy; try again later.
    ServerBusy = 0x89, "server busy";
    /// This client has been banned.
    Banned = 0x8A, "banned";
    /// The server is shutting down.
    ServerShuttingDown = 0x8B, "server shutting down";
    /// The authentication method is unknown or not the one in use.
    BadAuthenticationMethod = 0x8C, "bad authentication method";
    /// Nothing was heard for one and a half times the keep alive.
    KeepAliveTimeout = 0x8D, "keep alive timeout";
    /// Another connection uses the same client id.
    SessionTakenOver = 0x8E, "session taken over";
    /// The filter is well formed but not accepted.
    TopicFilterInvalid = 0x8F, "topic filter invalid";
    /// The topic name is well formed but not accepted.
    TopicNameInvalid = 0x90, "topic name invalid";
    /// The packet identifier is in use.
    PacketIdentifierInUse = 0x91, "packet identifier in use";
    /// The packet identifier is unknown.
    PacketIdentifierNotFound = 0x92, "packet identifier not found";
    /// More unacknowledged messages than agreed.
    ReceiveMaximumExceeded = 0x93, "receive maximum exceeded";
    /// The alias is 0 or above the agreed maximum.
    TopicAliasInvalid = 0x94, "topic alias invalid";
    /// Larger than agreed.
    PacketTooLarge = 0x95, "packet too large";
    /// More messages than this client may send.
    MessageRateTooHigh = 0x96, "message rate too high";
    /// A limit of the server or its administrator was reached.
    QuotaExceeded = 0x97, "quota exceeded";
    /// Closed by an administrator.
    AdministrativeAction = 0x98, "administrative action";
    /// The payload is not what its format indicator says.
    PayloadFormatInvalid = 0x99, "payload format invalid";
    /// No retained messages here.
    RetainNotSupported = 0x9A, "retain not supported";
    /// Above the server's maximum QoS.
    QosNotSupported = 0x9B, "QoS not supported";
    /// Use another server for now.
    UseAnotherServer = 0x9C, "use another server";
    /// Use another server from now on.
    ServerMoved = 0x9D, "server moved";
    /// No shared subscriptions here.
    SharedSubscriptionsNotSupported = 0x9E, "shared subscriptions not supported";
    /// Too many connections in a time.
    ConnectionRateExceeded = 0x9F, "connection rate exceeded";
    /// Connected for as long as is allowed.
    MaximumConnectTime = 0xA0, "maximum connect time";
    /// No subscription identifiers here.
    SubscriptionIdentifiersNotSupported = 0xA1, "subscription identifiers not supported";
    /// No wildcard subscriptions here.
    WildcardSubscriptionsNotSupported = 0xA2, "wildcard subscriptions not supported";
}
