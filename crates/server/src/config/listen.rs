//! Addresses to listen on.

use super::schema::nearest;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// What is spoken at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// MQTT over TCP.
    Mqtt,
    /// MQTT over WebSocket, at the path `/mqtt`.
    Ws,
    /// HTTP: health, metrics, and MQTT over WebSocket at `/mqtt`.
    Http,
}

impl Scheme {
    const ALL: [(&'static str, Self, u16); 3] =
        [("mqtt", Self::Mqtt, 1883), ("ws", Self::Ws, 8083), ("http", Self::Http, 7070)];

    /// As written in a URL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mqtt => "mqtt",
            Self::Ws => "ws",
            Self::Http => "http",
        }
    }
}

/// Why a URL is no address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// No `scheme://`.
    #[error("a URL such as mqtt://127.0.0.1:1883 is needed, found \"{url}\"")]
    NoScheme {
        /// The whole.
        url: String,
    },
    /// A scheme that is not spoken here.
    #[error("the scheme must be mqtt, ws or http, found \"{scheme}\"")]
    UnknownScheme {
        /// As written.
        scheme: String,
    },
    /// No host.
    #[error("the host is missing")]
    NoHost,
    /// Neither a name nor an address.
    #[error("the host must be a name, an IPv4 address, or an IPv6 address in brackets, found \"{host}\"")]
    BadHost {
        /// As written.
        host: String,
    },
    /// No port, or none from 0 to 65535.
    #[error("a port from 0 to 65535 must follow the host, found \"{port}\"")]
    BadPort {
        /// As written; empty if there is none.
        port: String,
    },
    /// A path that is not served.
    #[error("a listener's URL ends after the port, found \"{path}\"; WebSocket is served at /mqtt")]
    Path {
        /// As written.
        path: String,
    },
}

impl UrlError {
    /// What to write instead, where that can be told.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::NoScheme { url } => {
                let url = if url.contains(':') { url.clone() } else { format!("{url}:1883") };
                ListenUrl::parse(&format!("mqtt://{url}")).ok().map(|url| format!("write {url}"))
            }
            Self::UnknownScheme { scheme } => match scheme.as_str() {
                "tcp" | "tcp4" | "tcp6" => Some("write mqtt:// for MQTT over TCP".to_owned()),
                "mqtts" | "wss" | "https" | "ssl" | "tls" => Some(
                    "TLS is not served yet: put a TLS proxy in front of a mqtt, ws or http listener"
                        .to_owned(),
                ),
                other => {
                    nearest(other, Scheme::ALL.map(|(name, ..)| name)).map(|name| format!("write {name}://"))
                }
            },
            Self::NoHost => Some("write 0.0.0.0 or [::] for all addresses of this machine".to_owned()),
            Self::BadHost { host } if host == "*" => {
                Some("write 0.0.0.0 or [::] for all addresses of this machine".to_owned())
            }
            Self::BadHost { host } if host.parse::<Ipv6Addr>().is_ok() => Some(format!("write [{host}]")),
            Self::BadPort { .. } => Some("port 0 takes a free one; MQTT's own is 1883".to_owned()),
            _ => None,
        }
    }
}

/// A URL to listen on, taken apart: `mqtt://127.0.0.1:1883`, `ws://[::1]:8083`, `http://localhost:7070`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenUrl {
    /// What is spoken.
    pub scheme: Scheme,
    /// A name or an address, without brackets.
    pub host: String,
    /// 0 takes a free one.
    pub port: u16,
}

impl ListenUrl {
    /// Takes a URL apart.
    ///
    /// # Errors
    /// [`UrlError`] says which part is wrong; [`UrlError::help`] what to write.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(UrlError::NoScheme { url: url.to_owned() });
        };
        let known = Scheme::ALL.iter().find(|(name, ..)| name.eq_ignore_ascii_case(scheme));
        let &(_, scheme, _) = known.ok_or_else(|| UrlError::UnknownScheme { scheme: scheme.to_owned() })?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_served = matches!(path, "" | "/") || (path == "/mqtt" && scheme == Scheme::Ws);
        if !is_served {
            return Err(UrlError::Path { path: path.to_owned() });
        }
        let (host, port) = split_port(authority);
        let host = check_host(host)?;
        let port = port.parse().map_err(|_| UrlError::BadPort { port: port.to_owned() })?;
        Ok(Self { scheme, host, port })
    }

    /// The addresses it stands for. A name is looked up, which may block for seconds.
    ///
    /// # Errors
    /// If the name is not known.
    pub fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }

    /// Whether only this machine can reach it: a loopback address, or `localhost`.
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }
}

impl fmt::Display for ListenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.scheme.name();
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

/// Cuts an authority at the colon of its port; an IPv6 address keeps its own.
fn split_port(authority: &str) -> (&str, &str) {
    let is_bare_ipv6 = authority.parse::<Ipv6Addr>().is_ok();
    match authority.rsplit_once(':') {
        Some((host, port)) if !is_bare_ipv6 && !port.ends_with(']') => (host, port),
        _ => (authority, ""),
    }
}

fn check_host(host: &str) -> Result<String, UrlError> {
    let bad = || UrlError::BadHost { host: host.to_owned() };
    if host.is_empty() {
        return Err(UrlError::NoHost);
    }
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']').ok_or_else(bad)?;
        let address = inner.split('%').next().unwrap_or_default();
        return if address.parse::<Ipv6Addr>().is_ok() { Ok(inner.to_owned()) } else { Err(bad()) };
    }
    let is_name = host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    // Digits and dots alone are meant as an address, and have to be one.
    let is_numeric = host.chars().all(|c| c.is_ascii_digit() || c == '.');
    if !is_name || (is_numeric && host.parse::<IpAddr>().is_err()) { Err(bad()) } else { Ok(host.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_and_printed_back() {
        for (url, scheme, host, port) in [
            ("mqtt://127.0.0.1:1883", Scheme::Mqtt, "127.0.0.1", 1883),
            ("ws://[::1]:0", Scheme::Ws, "::1", 0),
            ("http://broker-1.example.com:65535", Scheme::Http, "broker-1.example.com", 65_535),
        ] {
            let parsed = ListenUrl::parse(url).unwrap();
            assert_eq!(parsed, ListenUrl { scheme, host: host.to_owned(), port });
            assert_eq!(parsed.to_string(), url);
        }
        assert!(ListenUrl::parse("ws://localhost:80/mqtt").is_ok());
        assert!(ListenUrl::parse("MQTT://localhost:80/").is_ok());
    }

    #[test]
    fn wrong_urls_say_which_part_is_wrong_and_what_to_write() {
        for (url, error, help) in [
            ("127.0.0.1:1883", "a URL such as", "write mqtt://127.0.0.1:1883"),
            ("localhost", "a URL such as", "write mqtt://localhost:1883"),
            ("tcp://a:1", "found \"tcp\"", "mqtt:// for MQTT over TCP"),
            ("mqtts://a:1", "found \"mqtts\"", "TLS is not served yet"),
            ("mqt://a:1", "found \"mqt\"", "write mqtt://"),
            ("mqtt://:1883", "host is missing", "0.0.0.0"),
            ("mqtt://*:1883", "found \"*\"", "0.0.0.0"),
            ("mqtt://::1", "found \"::1\"", "write [::1]"),
            ("mqtt://a", "a port from 0 to 65535", "1883"),
            ("mqtt://a:65536", "found \"65536\"", "1883"),
            ("mqtt://[::1]", "a port from 0 to 65535", "1883"),
        ] {
            let why = ListenUrl::parse(url).unwrap_err();
            assert!(why.to_string().contains(error), "{url}: {why}");
            assert!(why.help().is_some_and(|text| text.contains(help)), "{url}: {:?}", why.help());
        }
        for url in ["mqtt://256.0.0.1:1", "mqtt://[::g]:1", "mqtt://a b:1", "mqtt://a:1/mqtt", "ws://a:1/x"] {
            assert!(ListenUrl::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn loopback_is_told_from_the_rest() {
        let is_loopback = |url| ListenUrl::parse(url).unwrap().is_loopback();
        assert!(
            is_loopback("mqtt://127.0.0.9:1")
                && is_loopback("mqtt://[::1]:1")
                && is_loopback("ws://localhost:1")
        );
        assert!(
            !is_loopback("mqtt://0.0.0.0:1") && !is_loopback("mqtt://[::]:1") && !is_loopback("ws://a:1")
        );
    }
}
