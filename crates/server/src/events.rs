//! Log lines of clients' lives: one when they come, one when they go.

use crate::shard::End;
use meridian_mqtt::packet::Connect;
use std::net::SocketAddr;

/// A CONNECT was accepted.
pub(crate) fn connected(client_id: &str, peer: SocketAddr, connect: &Connect<'_>, is_resumed: bool) {
    tracing::info!(
        client_id,
        %peer,
        version = ?connect.version,
        clean_start = connect.clean_start,
        keep_alive_secs = connect.keep_alive_secs,
        session_present = is_resumed,
        "client connected"
    );
}

/// A client's connection is over.
pub(crate) fn disconnected(client_id: &str, peer: SocketAddr, end: &End) {
    match end {
        End::Client | End::Drained | End::Shutdown | End::Answered => {
            tracing::info!(client_id, %peer, "client disconnected");
        }
        End::Lost => tracing::info!(client_id, %peer, reason = "connection lost", "client disconnected"),
        End::KeepAlive => {
            tracing::info!(client_id, %peer, reason = "keep alive timeout", "client disconnected")
        }
        End::ConnectTimeout => {
            tracing::info!(client_id, %peer, reason = "no CONNECT in time", "client disconnected")
        }
        End::Told(reason) => tracing::info!(client_id, %peer, reason = reason.name(), "client disconnected"),
        End::Protocol { reason, what } => {
            tracing::warn!(client_id, %peer, reason = reason.name(), "client disconnected: {what}");
        }
        End::MemoryFull { what } => {
            tracing::warn!(client_id, %peer, reason = "memory full", "client disconnected: {what}");
        }
    }
}

/// A connection is over that never had a client.
pub(crate) fn refused(peer: SocketAddr, end: &End) {
    match end {
        End::ConnectTimeout => tracing::info!(%peer, reason = "no CONNECT in time", "connection refused"),
        End::Protocol { reason, what } => {
            tracing::info!(%peer, reason = reason.name(), "connection refused: {what}");
        }
        End::MemoryFull { what } => {
            tracing::info!(%peer, reason = "memory full", "connection refused: {what}")
        }
        // Its peer went, or it has been told of elsewhere.
        End::Client
        | End::Lost
        | End::Answered
        | End::KeepAlive
        | End::Told(_)
        | End::Drained
        | End::Shutdown => {}
    }
}
