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
