//! CONNECT: from a greeting to a session.

use super::Client;
use super::connack::{self, Granted};
use crate::session::{Attach, EXPIRES_NEVER, Ended, Session, Will};
use crate::settings::Settings;
use crate::shard::{Connection, End, Stage, Turn};
use meridian_broker::Counter;
use meridian_mqtt::decode::{answer_version, decode};
use meridian_mqtt::packet::Connect;
use meridian_mqtt::{AliasesIn, DecodeError, Packet, ReasonCode, Version};
use meridian_types::limits::MQTT_PACKET_BYTES_MAX;
use meridian_types::memory::{self, Level};
use meridian_types::{Instant, Message};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why a CONNECT is refused.
struct Refusal {
    reason: ReasonCode,
    what: String,
}

fn refuse(reason: ReasonCode, what: impl Into<String>) -> Refusal {
    Refusal { reason, what: what.into() }
}

/// The first packet of a connection. That it is a CONNECT has been seen from its first byte [MQTT-3.1.0-1].
pub(super) fn handle_first(
    connection: &mut Connection,
    turn: &mut Turn,
    first_byte: u8,
    body: &[u8],
) -> Result<(), End> {
    let connect = match decode(Version::V5, first_byte, body) {
        Ok(Packet::Connect(connect)) => connect,
        Ok(_) => return Err(super::protocol_error("not a CONNECT")),
        Err(error) => return Err(refuse_undecodable(connection, body, error)),
    };
    match accept(connection, turn, &connect) {
        Ok(()) => Ok(()),
        Err(refusal) => {
            let what = connect.request_problem_information.then_some(refusal.what.as_str());
            let packet_bytes_max = packet_bytes_max(&connect);
            send_refusal(connection, refusal.reason, what, connect.version, packet_bytes_max);
            tracing::info!(
                client_id = connect.client_id,
                peer = %connection.link.peer,
                reason = refusal.reason.name(),
                "CONNECT refused: {}",
                refusal.what
            );
            Err(End::Answered)
        }
    }
}

fn send_refusal(
    connection: &mut Connection,
    reason: ReasonCode,
    what: Option<&str>,
    version: Version,
    packet_bytes_max: usize,
) {
    if let Some(packet) = connack::refusing(reason, what, version, packet_bytes_max) {
        connection.answer(&packet);
    }
}

/// A CONNECT that cannot be decoded is answered in the version it claims, and the connection closed (MQTT 5.0 §4.13).
/// 3.1.1 answers only what its return codes can say, here the unknown version [MQTT-3.1.4-1].
fn refuse_undecodable(connection: &mut Connection, body: &[u8], error: DecodeError) -> End {
    let (version, reason) = (answer_version(body), error.reason);
    let speaks_mqtt = body.starts_with(b"\0\x04MQTT") || body.starts_with(b"\0\x06MQIsdp");
    if version == Version::V5 || speaks_mqtt && reason == ReasonCode::UnsupportedProtocolVersion {
        // What cannot be decoded has no maximum packet size.
        send_refusal(connection, reason, Some(error.what.as_str()), version, MQTT_PACKET_BYTES_MAX);
    }
    End::Protocol { reason, what: error.what }
}

fn accept(connection: &mut Connection, turn: &mut Turn, connect: &Connect<'_>) -> Result<(), Refusal> {
    let settings = turn.settings.clone();
    let granted = grant(&settings, connect)?;
    let client_id = granted.assigned_client_id.as_deref().unwrap_or(connect.client_id);
    let limits = settings.queue_for(connection.listener, client_id, connect.user_name);
    let attach = Attach {
        link: connection.link.clone(),
        version: connect.version,
        window: granted.window,
        packet_bytes_max: granted.packet_bytes_max,
        alias_maximum: granted.aliases_out,
        expiry_secs: granted.expiry_secs,
        will: connect.will.as_ref().map(|_| will_of(connect, client_id, turn.context.now)),
        limits: limits.clone(),
    };
    let node = turn.node.clone();
    let mut ended = Ended::default();
    // A known client may always come back: it takes what waits for it.
    let is_memory_full = memory::level() == Level::Full;
    let sessions_max = if is_memory_full { 0 } else { settings.config.mqtt.sessions_max };
    let claim = node.registry.claim(
        client_id,
        connect.clean_start,
        sessions_max,
        || node.broker.register(|id| Arc::new(Session::new(id, client_id, limits))),
        |claim| {
            let connack = connack::accepting(&settings, connect, &granted, claim.is_resumed)
                .expect("`grant` has seen that it fits");
            let attached = claim.session.attach(&attach, &connack);
            let is_attached = attached.is_some();
            ended = attached.unwrap_or_default();
            is_attached
        },
    );
    let Some(claim) = claim else {
        if is_memory_full {
            turn.context.counters.add(Counter::SessionsRefusedMemory, 1);
            let what = "the server holds as much as it may (server.memory_max); known clients may come back";
            return Err(refuse(ReasonCode::QuotaExceeded, what));
        }
        turn.context.counters.add(Counter::SessionsRefusedLimit, 1);
        let count_max = settings.config.mqtt.sessions_max;
        let what = format!("there are {count_max} sessions, as many as allowed (mqtt.sessions_max)");
        return Err(refuse(ReasonCode::QuotaExceeded, what));
    };
    if let Some(replaced) = claim.replaced {
        let ended = replaced.end(ReasonCode::SessionTakenOver);
        node.finish(&mut turn.context, &replaced, ended);
    }
    node.finish(&mut turn.context, &claim.session, ended);
    node.client_count.fetch_add(1, Relaxed);
    turn.context.counters.add(Counter::ClientsConnected, 1);
    crate::events::connected(client_id, connection.link.peer, connect, claim.is_resumed);
    let mqtt = &settings.config.mqtt;
    connection.stage = Stage::Client(Box::new(Client {
        session: claim.session,
        version: connect.version,
        keep_alive_millis: u64::from(granted.keep_alive_secs) * 1500,
        is_new: true,
        incoming_bytes_max: u32::try_from(mqtt.packet_bytes_max.0).unwrap_or(u32::MAX),
        packet_bytes_max: u32::try_from(granted.packet_bytes_max).unwrap_or(u32::MAX),
        wants_problem_information: connect.request_problem_information,
        aliases: AliasesIn::default(),
        alias_maximum: mqtt.topic_alias_maximum,
        receive_maximum: if connect.version == Version::V5 { mqtt.receive_maximum } else { u16::MAX },
    }));
    Ok(())
}

fn grant(settings: &Settings, connect: &Connect<'_>) -> Result<Granted, Refusal> {
    let mqtt = &settings.config.mqtt;
    if let Some(method) = connect.authentication_method {
        let what = format!("authentication method {method:?} is not offered here");
        return Err(refuse(ReasonCode::BadAuthenticationMethod, what));
    }
    if connect.client_id.len() > mqtt.client_id_bytes_max {
        let what = format!(
            "the client id is longer than {} bytes (mqtt.client_id_bytes_max)",
            mqtt.client_id_bytes_max
        );
        return Err(refuse(ReasonCode::ClientIdentifierNotValid, what));
    }
    if connect.will.as_ref().is_some_and(|will| will.topic.starts_with(super::RESERVED)) {
        let what = format!("the will's topic: only the broker publishes to {}#", super::RESERVED);
        return Err(refuse(ReasonCode::NotAuthorized, what));
    }
    let mut assigned_client_id = None;
    if connect.client_id.is_empty() {
        if connect.version == Version::V311 && !connect.clean_start {
            let what = "an empty client id needs clean session 1 [MQTT-3.1.3-8]";
            return Err(refuse(ReasonCode::ClientIdentifierNotValid, what));
        }
        assigned_client_id = Some(new_client_id());
    }
    let keep_alive_max = u16::try_from(mqtt.keep_alive_max.0.as_secs()).unwrap_or(u16::MAX);
    let is_lowered =
        keep_alive_max > 0 && (connect.keep_alive_secs == 0 || connect.keep_alive_secs > keep_alive_max);
    // 3.1.1 has no way to tell the client, so its own keep alive holds there.
    let keep_alive_secs =
        if is_lowered && connect.version == Version::V5 { keep_alive_max } else { connect.keep_alive_secs };
    let expiry_secs = match connect.version {
        Version::V5 => connect.session_expiry_secs.unwrap_or(0).min(expiry_max(settings)),
        Version::V311 if connect.clean_start => 0,
        Version::V311 => seconds_of(mqtt.session_expiry_v311).max(1),
    };
    let granted = Granted {
        keep_alive_secs,
        expiry_secs,
        window: connect.receive_maximum.unwrap_or(u16::MAX).min(mqtt.inflight_max),
        packet_bytes_max: packet_bytes_max(connect),
        aliases_out: connect.topic_alias_maximum.min(mqtt.topic_alias_outgoing),
        assigned_client_id,
    };
    if connack::accepting(settings, connect, &granted, false).is_none() {
        let what =
            format!("a maximum packet size of {} leaves no room for CONNACK", granted.packet_bytes_max);
        return Err(refuse(ReasonCode::ImplementationSpecificError, what));
    }
    Ok(granted)
}

/// The largest packet the client takes.
fn packet_bytes_max(connect: &Connect<'_>) -> usize {
    let named = connect.packet_bytes_max.map_or(MQTT_PACKET_BYTES_MAX, |bytes| bytes as usize);
    named.min(MQTT_PACKET_BYTES_MAX)
}

/// The longest session expiry interval there may be, in seconds.
pub(super) fn expiry_max(settings: &Settings) -> u32 {
    seconds_of(settings.config.mqtt.session_expiry_max)
}

fn seconds_of(duration: crate::config::Duration) -> u32 {
    u32::try_from(duration.0.as_secs()).unwrap_or(EXPIRES_NEVER)
}

fn will_of(connect: &Connect<'_>, client_id: &str, now: Instant) -> Box<Will> {
    let will = connect.will.as_ref().expect("asked for only if there is one");
    let message = Message {
        topic: will.topic.into(),
        payload: memory::copy(will.payload),
        qos: will.qos,
        retain: will.retain,
        properties: will.properties.clone(),
        received: now,
        expires: Instant::NEVER,
        client_hash: crate::session::client_hash(client_id),
        held: Message::counted(will.topic, will.properties.as_deref()),
    };
    Box::new(Will { message: Arc::new(message), delay_secs: will.delay_secs, expiry_secs: will.expiry_secs })
}

/// A client id for a client that brings none: unique in this process, and hard to guess.
fn new_client_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Relaxed);
    // The standard library seeds each hasher from the operating system.
    let chance = RandomState::new().hash_one(count);
    format!("meridian-{count:x}-{chance:016x}")
}
