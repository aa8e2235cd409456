//! The opening handshake, for both roles (RFC 6455 §4).
//!
//! A server parses the request's head with `httparse` and calls [`accept`]; a client writes
//! [`ClientHandshake::write_request`] and reads the answer with [`ClientHandshake::check`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use httparse::{EMPTY_HEADER, Request, Response, Status};
use sha1::{Digest as _, Sha1};

/// Header lines a client reads at most in an answer.
pub const HEADERS_MAX: usize = 64;
/// Bytes a client reads at most for the head of an answer.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Appended to the key before hashing (RFC 6455 §1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A request that is accepted: what the 101 response says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept<'a> {
    /// Value of `Sec-WebSocket-Accept`.
    key: String,
    /// The subprotocol chosen; `None` if the client offered none.
    pub subprotocol: Option<&'a str>,
}

impl Accept<'_> {
    /// Appends the 101 response, after which frames begin.
    pub fn write_response(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
        );
        push_header(out, "Sec-WebSocket-Accept", &self.key);
        if let Some(subprotocol) = self.subprotocol {
            push_header(out, "Sec-WebSocket-Protocol", subprotocol);
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Why a request to upgrade is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Not GET (§4.1).
    #[error("a WebSocket opens with GET, not {method}")]
    Method {
        /// The method used.
        method: String,
    },
    /// Not HTTP/1.1 (§4.1).
    #[error("a WebSocket opens with HTTP/1.1")]
    HttpVersion,
    /// No `Upgrade: websocket` with `Connection: upgrade`: an ordinary request.
    #[error(
        "this address speaks WebSocket: the request must carry `Upgrade: websocket` and `Connection: Upgrade`"
    )]
    NotUpgrade,
    /// No `Host` (§4.2.1).
    #[error("the request has no Host header")]
    NoHost,
    /// Another version than 13 (§4.4).
    #[error("WebSocket version 13 is spoken here, the request asks for {asked}")]
    Version {
        /// The version asked for, or "none".
        asked: String,
    },
    /// The key is missing, repeated, or not 16 bytes of base64 (§4.2.1).
    #[error("Sec-WebSocket-Key must occur once and hold 16 bytes in base64")]
    Key,
    /// None of the subprotocols offered is spoken here.
    #[error("the subprotocol must be {spoken}, the request offers {offered}")]
    Subprotocol {
        /// What is spoken here.
        spoken: String,
        /// What the request offers.
        offered: String,
    },
}

impl Refusal {
    /// The HTTP status that says it.
    pub const fn status(&self) -> (u16, &'static str) {
        match self {
            Self::Method { .. } => (405, "Method Not Allowed"),
            Self::HttpVersion => (505, "HTTP Version Not Supported"),
            Self::NotUpgrade | Self::Version { .. } => (426, "Upgrade Required"),
            _ => (400, "Bad Request"),
        }
    }

    /// Appends a whole HTTP response with the reason as its body; the connection is closed after it.
    pub fn write_response(&self, out: &mut Vec<u8>) {
        let (status, phrase) = self.status();
        let body = format!("{self}\n");
        out.extend_from_slice(format!("HTTP/1.1 {status} {phrase}\r\n").as_bytes());
        match self {
            Self::Method { .. } => push_header(out, "Allow", "GET"),
            Self::NotUpgrade | Self::Version { .. } => {
                push_header(out, "Upgrade", "websocket");
                push_header(out, "Sec-WebSocket-Version", "13");
            }
            _ => {}
        }
        push_header(out, "Content-Type", "text/plain; charset=utf-8");
        push_header(out, "Content-Length", &body.len().to_string());
        out.extend_from_slice(b"Connection: close\r\n\r\n");
        out.extend_from_slice(body.as_bytes());
    }
}

/// Checks a parsed request; its path is the caller's affair. `subprotocols` are those spoken here: the first that
/// the client offers is chosen. A client that offers none is accepted without one.
///
/// # Errors
/// [`Refusal`] says what is wrong and writes the response that tells the client.
pub fn accept<'a>(request: &Request<'_, '_>, subprotocols: &[&'a str]) -> Result<Accept<'a>, Refusal> {
    let method = request.method.unwrap_or("nothing");
    if method != "GET" {
        return Err(Refusal::Method { method: method.to_owned() });
    }
    if request.version != Some(1) {
        return Err(Refusal::HttpVersion);
    }
    if !is_upgrade(request) {
        return Err(Refusal::NotUpgrade);
    }
    if values(request.headers, "Host").next().is_none() {
        return Err(Refusal::NoHost);
    }
    let versions: Vec<_> = tokens(request.headers, "Sec-WebSocket-Version").collect();
    if versions != ["13"] {
        let asked = if versions.is_empty() { "none".to_owned() } else { versions.join(", ") };
        return Err(Refusal::Version { asked });
    }
    let key = read_key(request).ok_or(Refusal::Key)?;
    let offered: Vec<_> = tokens(request.headers, "Sec-WebSocket-Protocol").collect();
    let subprotocol = subprotocols.iter().copied().find(|spoken| offered.contains(spoken));
    if subprotocol.is_none() && !offered.is_empty() {
        return Err(Refusal::Subprotocol { spoken: subprotocols.join(" or "), offered: offered.join(", ") });
    }
    Ok(Accept { key: accept_value(key), subprotocol })
}

/// Whether a request asks to become a WebSocket: `Upgrade` names it and `Connection` names `Upgrade`.
pub fn is_upgrade(request: &Request<'_, '_>) -> bool {
    let names = |header, wanted: &str| {
        tokens(request.headers, header).any(|token| token.eq_ignore_ascii_case(wanted))
    };
    names("Upgrade", "websocket") && names("Connection", "upgrade")
}

/// Why a server's answer is not a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// It is not HTTP, or its head is too long.
    #[error("the answer is not HTTP/1.1: {what}")]
    NotHttp {
        /// What is wrong.
        what: String,
    },
    /// A status other than 101.
    #[error("the server answers {status} {phrase}, not 101: is the path right?")]
    Status {
        /// The status.
        status: u16,
        /// Its phrase.
        phrase: String,
    },
    /// A header is missing or wrong (§4.1).
    #[error("the server's {header} header is missing or wrong")]
    Header {
        /// Name of the header.
        header: &'static str,
    },
    /// A subprotocol that was not offered.
    #[error("the server chose the subprotocol {chosen}, which was not offered")]
    Subprotocol {
        /// The server's choice.
        chosen: String,
    },
}

/// What the server agreed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Bytes of the head; frames begin after them.
    pub consumed: usize,
    /// Whether the server took the subprotocol offered.
    pub subprotocol: bool,
}

/// A client's side of the handshake.
#[derive(Clone, Debug)]
pub struct ClientHandshake<'a> {
    key: String,
    subprotocol: &'a str,
}

impl<'a> ClientHandshake<'a> {
    /// Begins a handshake. `nonce` must be random (§4.1); `subprotocol` is the one offered.
    pub fn new(nonce: [u8; 16], subprotocol: &'a str) -> Self {
        Self { key: BASE64.encode(nonce), subprotocol }
    }

    /// Appends the request. `host` as in a URL, with a port unless it is 80; `path` begins with `/`.
    pub fn write_request(&self, host: &str, path: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("GET {path} HTTP/1.1\r\n").as_bytes());
        push_header(out, "Host", host);
        out.extend_from_slice(b"Upgrade: websocket\r\nConnection: Upgrade\r\n");
        push_header(out, "Sec-WebSocket-Key", &self.key);
        push_header(out, "Sec-WebSocket-Protocol", self.subprotocol);
        out.extend_from_slice(b"Sec-WebSocket-Version: 13\r\n\r\n");
    }

    /// Reads the server's answer; `None` as long as its head is incomplete.
    ///
    /// # Errors
    /// [`AnswerError`] if this is not the answer of a WebSocket server to this request.
    pub fn check(&self, buf: &[u8]) -> Result<Option<Agreed>, AnswerError> {
        let not_http = |what: String| AnswerError::NotHttp { what };
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut response = Response::new(&mut headers);
        let consumed = match response.parse(buf) {
            Ok(Status::Complete(consumed)) => consumed,
            Ok(Status::Partial) if buf.len() < HEAD_BYTES_MAX => return Ok(None),
            Ok(Status::Partial) => return Err(not_http(format!("its head is above {HEAD_BYTES_MAX} bytes"))),
            Err(error) => return Err(not_http(error.to_string())),
        };
        let status = response.code.unwrap_or_default();
        if status != 101 {
            let phrase = response.reason.unwrap_or_default().to_owned();
            return Err(AnswerError::Status { status, phrase });
        }
        let names =
            |header, wanted: &str| tokens(response.headers, header).any(|it| it.eq_ignore_ascii_case(wanted));
        if !names("Upgrade", "websocket") {
            return Err(AnswerError::Header { header: "Upgrade" });
        }
        if !names("Connection", "upgrade") {
            return Err(AnswerError::Header { header: "Connection" });
        }
        if values(response.headers, "Sec-WebSocket-Accept").next() != Some(&accept_value(&self.key)) {
            return Err(AnswerError::Header { header: "Sec-WebSocket-Accept" });
        }
        if values(response.headers, "Sec-WebSocket-Extensions").next().is_some() {
            return Err(AnswerError::Header { header: "Sec-WebSocket-Extensions" });
        }
        let chosen = values(response.headers, "Sec-WebSocket-Protocol").next();
        match chosen {
            Some(chosen) if chosen != self.subprotocol => {
                Err(AnswerError::Subprotocol { chosen: chosen.to_owned() })
            }
            _ => Ok(Some(Agreed { consumed, subprotocol: chosen.is_some() })),
        }
    }
}

/// Values of all headers of this name that are text, trimmed.
fn values<'a>(headers: &'a [httparse::Header<'a>], name: &'a str) -> impl Iterator<Item = &'a str> {
    let named = headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    named.filter_map(|header| std::str::from_utf8(header.value).ok()).map(str::trim)
}

/// The members of a header that is a comma-separated list, which may be spread over several lines.
fn tokens<'a>(headers: &'a [httparse::Header<'a>], name: &'a str) -> impl Iterator<Item = &'a str> {
    values(headers, name).flat_map(|value| value.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

fn read_key<'a>(request: &'a Request<'_, '_>) -> Option<&'a str> {
    let mut keys = values(request.headers, "Sec-WebSocket-Key");
    let key = keys.next()?;
    let is_valid =
        keys.next().is_none() && key.len() == 24 && BASE64.decode(key).is_ok_and(|key| key.len() == 16);
    is_valid.then_some(key)
}

fn accept_value(key: &str) -> String {
    let mut hash = Sha1::new();
    hash.update(key.as_bytes());
    hash.update(GUID);
    BASE64.encode(hash.finalize())
}

fn push_header(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests;
