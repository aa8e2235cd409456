//! Listening sockets: from a URL to something that accepts.

use crate::ErrorCode;
use crate::config::{ListenUrl, Scheme, UrlError};
use crate::http::Surface;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;

/// What a listener's connections speak first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// MQTT.
    Mqtt,
    /// HTTP, which may be upgraded to MQTT over WebSocket.
    Http(Surface),
}

/// A listening socket, of which each event loop has a copy.
#[derive(Debug)]
pub(crate) struct Bound {
    socket: Option<mio::net::TcpListener>,
    kind: Kind,
    url: String,
}

/// Why a listener cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The URL is not one.
    #[error("{url}: {source}")]
    BadUrl {
        /// As written.
        url: String,
        /// Which part is wrong.
        source: UrlError,
    },
    /// The host name leads nowhere.
    #[error("{url}: the host cannot be resolved: {source}")]
    Resolve {
        /// As written.
        url: String,
        /// Why.
        source: io::Error,
    },
    /// The address is taken.
    #[error("{url}: the port is in use by another process")]
    InUse {
        /// As written.
        url: String,
        /// The port.
        port: u16,
    },
    /// The operating system refuses.
    #[error("{url}: cannot listen: {source}")]
    Io {
        /// As written.
        url: String,
        /// Why.
        source: io::Error,
    },
}

impl ListenError {
    /// Its stable code.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::BadUrl { .. } => ErrorCode::BadUrl,
            Self::Resolve { .. } => ErrorCode::HostUnknown,
            Self::InUse { .. } => ErrorCode::PortInUse,
            Self::Io { .. } => ErrorCode::CannotListen,
        }
    }
}

impl Bound {
    /// Opens the listener for `url`. IPv6 addresses stand in brackets.
    ///
    /// # Errors
    /// [`ListenError`] if the URL is malformed, the host unknown, or the address not to be had.
    pub(crate) fn open(url: &str, backlog: u32) -> Result<Self, ListenError> {
        let parsed =
            ListenUrl::parse(url).map_err(|source| ListenError::BadUrl { url: url.to_owned(), source })?;
        let kind = match parsed.scheme {
            Scheme::Mqtt => Kind::Mqtt,
            Scheme::Ws => Kind::Http(Surface::WebSocket),
            Scheme::Http => Kind::Http(Surface::Full),
        };
        let resolve_error = |source| ListenError::Resolve { url: url.to_owned(), source };
        let addresses = parsed.resolve().map_err(resolve_error)?;
        let address = *addresses.first().ok_or_else(|| resolve_error(io::ErrorKind::NotFound.into()))?;
        let socket = Self::listen(address, backlog).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => ListenError::InUse { url: url.to_owned(), port: address.port() },
            _ => ListenError::Io { url: url.to_owned(), source },
        })?;
        let socket = mio::net::TcpListener::from_std(socket.into());
        let address =
            socket.local_addr().map_err(|source| ListenError::Io { url: url.to_owned(), source })?;
        Ok(Self { socket: Some(socket), kind, url: format!("{}://{address}", parsed.scheme.name()) })
    }

    fn listen(address: SocketAddr, backlog: u32) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // A restarted broker must not wait for the connections of the old one to time out.
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        // Small packets must not wait for the acknowledgement of the last one. Accepted sockets inherit it.
        socket.set_tcp_nodelay(true)?;
        socket.bind(&address.into())?;
        socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        Ok(socket)
    }

    /// Another handle on the same socket, for another event loop.
    ///
    /// # Errors
    /// What the operating system reports.
    pub(crate) fn share(&self) -> io::Result<Self> {
        use std::os::fd::AsFd;
        let socket = match &self.socket {
            Some(socket) => {
                Some(mio::net::TcpListener::from_std(socket.as_fd().try_clone_to_owned()?.into()))
            }
            None => None,
        };
        Ok(Self { socket, kind: self.kind, url: self.url.clone() })
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.socket.as_mut().map_or(Ok(()), |socket| registry.register(socket, token, Interest::READABLE))
    }

    /// Accepts nothing more; when all copies are closed, the kernel refuses connections.
    pub(crate) fn close(&mut self, registry: &Registry) {
        if let Some(mut socket) = self.socket.take() {
            // Fails only if it was not registered, which is as good.
            let _ = registry.deregister(&mut socket);
        }
    }

    pub(crate) fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.socket.as_ref().ok_or(io::ErrorKind::WouldBlock)?.accept()
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The URL with the address really bound.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}
