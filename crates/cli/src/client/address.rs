//! Where a broker is.

/// How MQTT travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// TCP.
    Tcp,
    /// WebSocket over TCP.
    WebSocket,
}

/// What a URL says: `mqtt://[user[:password]@]host[:port][/topic]` or `ws://[user[:password]@]host[:port][/path]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// By scheme.
    pub(crate) transport: Transport,
    /// A name or an address, without brackets.
    pub(crate) host: String,
    /// 1883 for `mqtt`, 80 for `ws` unless given.
    pub(crate) port: u16,
    /// Of a WebSocket; begins with `/`. A URL without any means `/mqtt`.
    pub(crate) path: String,
    /// If the URL names one.
    pub(crate) user_name: Option<String>,
    /// If the URL has one.
    pub(crate) password: Option<String>,
    /// What follows the first `/` of a `mqtt` URL, if anything.
    pub(crate) topic: Option<String>,
}

/// Why a URL is none; printed as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("\"{0}\" is no URL; mqtt://host:1883 and ws://host:port/mqtt are")]
    NoScheme(String),
    #[error("{0}:// is not spoken here: mqtt:// and ws:// are")]
    Scheme(String),
    #[error("\"{0}\" names no host")]
    NoHost(String),
    #[error("\"{0}\" is no port")]
    Port(String),
}

impl Default for Address {
    fn default() -> Self {
        Self {
            transport: Transport::Tcp,
            host: "localhost".to_owned(),
            port: 1883,
            path: "/mqtt".to_owned(),
            user_name: None,
            password: None,
            topic: None,
        }
    }
}

impl std::str::FromStr for Address {
    type Err = AddressError;

    fn from_str(url: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| AddressError::NoScheme(url.to_owned()))?;
        let (transport, port) = match scheme {
            "mqtt" | "tcp" => (Transport::Tcp, 1883),
            "ws" => (Transport::WebSocket, 80),
            other => return Err(AddressError::Scheme(other.to_owned())),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, place) =
            authority.rsplit_once('@').map_or((None, authority), |(user, at)| (Some(user), at));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, digits)) if !digits.ends_with(']') => {
                (host, digits.parse().map_err(|_| AddressError::Port(digits.to_owned()))?)
            }
            _ => (place, port),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(AddressError::NoHost(url.to_owned()));
        }
        let (user_name, password) = user.map_or((None, None), |user| match user.split_once(':') {
            Some((user, password)) => (Some(user.to_owned()), Some(password.to_owned())),
            None => (Some(user.to_owned()), None),
        });
        let after_slash = path.strip_prefix('/').filter(|topic| !topic.is_empty());
        Ok(Self {
            transport,
            host: host.to_owned(),
            port,
            path: if path.is_empty() { Self::default().path } else { path.to_owned() },
            user_name,
            password,
            topic: after_slash.filter(|_| transport == Transport::Tcp).map(str::to_owned),
        })
    }
}

impl Address {
    /// `host:port`, an IPv6 address in brackets.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// As a URL, without the password.
impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.transport {
            Transport::Tcp => write!(f, "mqtt://{}", self.authority()),
            Transport::WebSocket => write!(f, "ws://{}{}", self.authority(), self.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Address {
        url.parse().unwrap()
    }

    #[test]
    fn urls_are_taken_apart() {
        assert_eq!(parse("mqtt://localhost"), Address::default());
        let address = parse("mqtt://ann:s3:cret@[::1]:1884/a/b");
        assert_eq!((address.host.as_str(), address.port), ("::1", 1884));
        assert_eq!(
            (address.user_name.as_deref(), address.password.as_deref()),
            (Some("ann"), Some("s3:cret"))
        );
        assert_eq!(address.topic.as_deref(), Some("a/b"));
        assert_eq!(address.to_string(), "mqtt://[::1]:1884");
    }

    #[test]
    fn a_websocket_has_a_path_and_no_topic() {
        let address = parse("ws://broker:8083");
        assert_eq!(
            (address.transport, address.path.as_str(), address.port),
            (Transport::WebSocket, "/mqtt", 8083)
        );
        let address = parse("ws://broker/x/y");
        assert_eq!((address.path.as_str(), address.port, address.topic), ("/x/y", 80, None));
        assert_eq!(parse("ws://broker/").path, "/");
    }

    #[test]
    fn what_is_no_url_says_why() {
        let error = |url: &str| url.parse::<Address>().unwrap_err().to_string();
        assert!(error("localhost:1883").contains("is no URL"));
        assert!(error("mqtts://a").contains("mqtts:// is not spoken"));
        assert!(error("mqtt://:1").contains("names no host"));
        assert!(error("mqtt://a:b").contains("is no port"));
    }
}
