//! What can go wrong with a connection, and what to do about it.

use meridian_mqtt::{DecodeError, FrameError, ReasonCode};
use meridian_ws::handshake::AnswerError;
use std::io;

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The host name leads nowhere.
    #[error("cannot find {host}")]
    Resolve {
        /// As given.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// Nobody there.
    #[error("cannot connect to {url}")]
    Connect {
        /// Where.
        url: String,
        /// Why.
        source: io::Error,
    },
    /// Not the WebSocket of a broker.
    #[error("no MQTT over WebSocket at {url}")]
    WebSocket {
        /// Where.
        url: String,
        /// Why.
        source: AnswerError,
    },
    /// The CONNECT was refused.
    #[error("the server refuses the connection: {}{}", .reason.name(), in_words(.words))]
    Refused {
        /// Its code.
        reason: ReasonCode,
        /// Its words, if any.
        words: Option<String>,
    },
    /// A DISCONNECT from the server.
    #[error("the server disconnects: {}{}", .reason.name(), in_words(.words))]
    Disconnected {
        /// Its code.
        reason: ReasonCode,
        /// Its words, if any.
        words: Option<String>,
    },
    /// The socket was closed without a word.
    #[error("the server closed the connection {when}")]
    Closed {
        /// At which stage.
        when: &'static str,
    },
    /// Nothing came in time.
    #[error("no answer from the server within {secs} s {when}")]
    Silent {
        /// How long it took.
        secs: u64,
        /// At which stage.
        when: &'static str,
    },
    /// Bytes that are no MQTT.
    #[error("what the server sends is not MQTT: {0}")]
    Malformed(String),
    /// The socket failed.
    #[error("the connection broke")]
    Io(#[from] io::Error),
}

fn in_words(words: &Option<String>) -> String {
    words.as_ref().map_or_else(String::new, |words| format!(" ({words})"))
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error.to_string())
    }
}

impl From<FrameError> for Error {
    fn from(error: FrameError) -> Self {
        Self::Malformed(error.to_string())
    }
}

impl From<meridian_ws::Error> for Error {
    fn from(error: meridian_ws::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

impl Error {
    /// Whether a connection that had been accepted was lost, so that another may do better.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Disconnected { reason, .. } => *reason != ReasonCode::SessionTakenOver,
            Self::Closed { .. } | Self::Silent { .. } | Self::Io(_) | Self::Connect { .. } => true,
            Self::Refused { reason, .. } => matches!(
                reason,
                ReasonCode::ServerUnavailable | ReasonCode::ServerBusy | ReasonCode::ConnectionRateExceeded
            ),
            _ => false,
        }
    }

    /// What to try next, where that can be told.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Resolve { .. } => Some("check the name after -h or --url".to_owned()),
            Self::Connect { source, .. } => match source.kind() {
                io::ErrorKind::ConnectionRefused => {
                    Some("is a broker running there? `meridian server` starts one on port 1883".to_owned())
                }
                io::ErrorKind::TimedOut => {
                    Some("is the address right, and does a firewall let it through?".to_owned())
                }
                _ => None,
            },
            Self::Closed { when: IN_HANDSHAKE }
            | Self::WebSocket { source: AnswerError::NotHttp { .. }, .. } => {
                Some("if that is MQTT's own port, use mqtt:// instead of ws://".to_owned())
            }
            Self::Malformed(what) if what == HTTP_ANSWER => Some("use ws://host:port/mqtt".to_owned()),
            Self::WebSocket { .. } => Some("brokers serve it at /mqtt, some at / or /ws".to_owned()),
            Self::Refused { reason, .. } => refusal_hint(*reason),
            Self::Closed { when: BEFORE_CONNACK } | Self::Malformed(_) => Some(
                "is it an MQTT broker? -V 3.1.1 may help with an old one; ws:// with a WebSocket port"
                    .to_owned(),
            ),
            Self::Disconnected { reason: ReasonCode::SessionTakenOver, .. } => {
                Some("another client uses the same client id: leave -i out, or give another".to_owned())
            }
            _ => None,
        }
    }
}

/// A stage: the WebSocket is not open yet.
pub(super) const IN_HANDSHAKE: &str = "during the WebSocket handshake";
/// What is wrong with an answer that is HTTP.
pub(super) const HTTP_ANSWER: &str = "it speaks HTTP";
/// A stage: the server has not answered CONNECT yet.
pub(super) const BEFORE_CONNACK: &str = "before it answered CONNECT";

fn refusal_hint(reason: ReasonCode) -> Option<String> {
    match reason {
        ReasonCode::UnsupportedProtocolVersion => Some("try -V 3.1.1".to_owned()),
        ReasonCode::BadUserNameOrPassword | ReasonCode::NotAuthorized => {
            Some("give a user with -u and a password with -P".to_owned())
        }
        ReasonCode::ClientIdentifierNotValid => Some("try another client id with -i".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_connection_names_the_address_and_what_starts_a_broker() {
        let source = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = Error::Connect { url: "mqtt://localhost:1883".to_owned(), source };
        assert_eq!(error.to_string(), "cannot connect to mqtt://localhost:1883");
        assert!(error.hint().unwrap().contains("`meridian server`"));
    }

    #[test]
    fn refusals_say_the_reason_and_the_words() {
        let words = Some("quota of 3".to_owned());
        let error = Error::Refused { reason: ReasonCode::QuotaExceeded, words };
        assert_eq!(error.to_string(), "the server refuses the connection: quota exceeded (quota of 3)");
        assert_eq!(refusal_hint(ReasonCode::UnsupportedProtocolVersion).as_deref(), Some("try -V 3.1.1"));
    }
}
