//! MQTT packets on a connection: what each one asks of the broker.

mod connack;
mod connect;
mod publish;
mod subscribe;

use crate::link::Link;
use crate::session::{Acknowledgement, Kind, Session};
use crate::shard::{Connection, End, Stage, Turn};
use meridian_broker::Counter;
use meridian_mqtt::decode::decode;
use meridian_mqtt::packet::{Ack, Disconnect};
use meridian_mqtt::{AliasesIn, DecodeError, Packet, ReasonCode, Version, encode};
use std::sync::Arc;

/// A connection after CONNECT.
pub(crate) struct Client {
    pub(crate) session: Arc<Session>,
    pub(crate) version: Version,
    /// One and a half times the keep alive; 0 if there is none.
    pub(crate) keep_alive_millis: u64,
    /// Set by CONNECT until the event loop has taken notice.
    pub(crate) is_new: bool,
    /// The largest packet it may send: what CONNACK has told it, whatever has been configured since.
    pub(crate) incoming_bytes_max: u32,
    /// The largest it takes.
    packet_bytes_max: u32,
    wants_problem_information: bool,
    aliases: AliasesIn,
    alias_maximum: u16,
    receive_maximum: u16,
}

/// Topics that only the broker publishes to.
const RESERVED: &str = "$SYS/";

const PUBACK: u8 = 0x40;
const PUBREC: u8 = 0x50;
const PUBCOMP: u8 = 0x70;
const PINGREQ: u8 = 0xC0;
const PINGRESP: [u8; 2] = [0xD0, 0];

/// Handles one packet. Answers gather in `turn.replies` and `turn.acks` until [`end_batch`].
pub(crate) fn handle_packet(
    connection: &mut Connection,
    turn: &mut Turn,
    first_byte: u8,
    body: &[u8],
) -> Result<(), End> {
    turn.context.counters.add(Counter::PacketsReceived, 1);
    let Stage::Client(client) = &mut connection.stage else {
        return connect::handle_first(connection, turn, first_byte, body);
    };
    match (first_byte, body) {
        (0x30..=0x3F, _) => client.handle_publish(&connection.link, turn, first_byte, body),
        // The short form is that of 3.1.1 and of success in 5.0; id 0 is left to the decoder to refuse.
        (PUBACK | PUBREC | PUBCOMP, &[high, low]) if high | low != 0 => {
            let id = u16::from_be_bytes([high, low]);
            turn.acks.push(Acknowledgement { kind: kind_of(first_byte), id, is_error: false });
            Ok(())
        }
        (PINGREQ, []) => {
            turn.replies.extend_from_slice(&PINGRESP);
            Ok(())
        }
        _ => client.handle_other(&connection.link, turn, first_byte, body),
    }
}

/// Hands the answers of a batch of packets to the session's outbox.
/// Returns whether the client was sent anything, so that it may have to wait until it has read more.
pub(crate) fn end_batch(connection: &mut Connection, turn: &mut Turn) -> bool {
    let has_replies = !turn.replies.is_empty() || std::mem::take(&mut turn.has_replied);
    if let Stage::Client(client) = &connection.stage {
        client.send_replies(&connection.link, turn);
    }
    turn.replies.clear();
    turn.acks.clear();
    has_replies
}

fn kind_of(first_byte: u8) -> Kind {
    match first_byte {
        PUBACK => Kind::Puback,
        PUBREC => Kind::Pubrec,
        _ => Kind::Pubcomp,
    }
}

impl From<DecodeError> for End {
    fn from(error: DecodeError) -> Self {
        Self::Protocol { reason: error.reason, what: error.what }
    }
}

fn protocol_error(what: &str) -> End {
    End::Protocol { reason: ReasonCode::ProtocolError, what: what.to_owned() }
}

impl Client {
    fn handle_other(
        &mut self,
        link: &Arc<Link>,
        turn: &mut Turn,
        first_byte: u8,
        body: &[u8],
    ) -> Result<(), End> {
        match decode(self.version, first_byte, body)? {
            Packet::Puback(ack) => self.note_ack(turn, Kind::Puback, &ack),
            Packet::Pubrec(ack) => self.note_ack(turn, Kind::Pubrec, &ack),
            Packet::Pubcomp(ack) => self.note_ack(turn, Kind::Pubcomp, &ack),
            Packet::Pubrel(ack) => self.handle_pubrel(link, turn, ack.packet_id),
            Packet::Subscribe(subscribe) => self.handle_subscribe(link, turn, &subscribe)?,
            Packet::Unsubscribe(unsubscribe) => self.handle_unsubscribe(turn, &unsubscribe)?,
            Packet::Pingreq => turn.replies.extend_from_slice(&PINGRESP),
            Packet::Disconnect(disconnect) => return Err(self.handle_disconnect(link, turn, &disconnect)),
            Packet::Connect(_) => return Err(protocol_error("a second CONNECT on one connection")),
            Packet::Auth(_) => {
                return Err(protocol_error("AUTH without an authentication method in CONNECT"));
            }
            Packet::Publish(_)
            | Packet::Connack(_)
            | Packet::Suback(_)
            | Packet::Unsuback(_)
            | Packet::Pingresp => return Err(protocol_error("a packet that only a server may send")),
        }
        Ok(())
    }

    fn note_ack(&self, turn: &mut Turn, kind: Kind, ack: &Ack<'_>) {
        let is_error = ack.reason.is_error();
        turn.acks.push(Acknowledgement { kind, id: ack.packet_id, is_error });
    }

    fn handle_pubrel(&self, link: &Arc<Link>, turn: &mut Turn, id: u16) {
        let is_known = self.session.release(link, id);
        let [high, low] = id.to_be_bytes();
        if is_known || self.version == Version::V311 {
            turn.replies.extend_from_slice(&[PUBCOMP, 2, high, low]);
        } else {
            let reason = ReasonCode::PacketIdentifierNotFound.byte();
            turn.replies.extend_from_slice(&[PUBCOMP, 3, high, low, reason]);
        }
    }

    fn handle_disconnect(&self, link: &Arc<Link>, turn: &Turn, disconnect: &Disconnect<'_>) -> End {
        if !ReasonCode::IN_CLIENT_DISCONNECT.contains(&disconnect.reason) {
            return protocol_error("DISCONNECT: a reason code that only a server may give");
        }
        let expiry_max = connect::expiry_max(&turn.settings);
        let expiry_secs = disconnect.session_expiry_secs.map(|secs| secs.min(expiry_max));
        // Only a normal disconnection discards the will [MQTT-3.1.2-10].
        let wants_will = disconnect.reason != ReasonCode::Success;
        if self.session.say_goodbye(link, wants_will, expiry_secs) {
            End::Client
        } else {
            protocol_error("DISCONNECT: a session expiry interval after one of 0 in CONNECT")
        }
    }

    /// Sends what has gathered, acknowledgements first.
    fn send_replies(&self, link: &Arc<Link>, turn: &mut Turn) {
        if !turn.acks.is_empty() {
            if self.session.acknowledge(link, &turn.acks) {
                turn.touch(&self.session);
            }
            turn.acks.clear();
        }
        if !turn.replies.is_empty() {
            turn.has_replied = true;
            if self.session.reply(link, &turn.replies) {
                turn.touch(&self.session);
            }
            turn.replies.clear();
        }
    }

    /// Sends a DISCONNECT, where the version has one, as the last thing on the connection. Returns whether the caller
    /// has to flush for the rest.
    pub(crate) fn say_farewell(&self, link: &Arc<Link>, reason: ReasonCode, text: &str) -> bool {
        let mut packet = Vec::new();
        if self.version == Version::V5 {
            // DISCONNECT may say why whatever the client asked about problem information [MQTT-3.1.2-29].
            let fits = text.len() + 64 <= self.packet_bytes_max as usize;
            let reason_string = (fits && !text.is_empty()).then_some(text);
            let disconnect = Disconnect { reason, reason_string, ..Disconnect::default() };
            encode::encode(&Packet::Disconnect(disconnect), self.version, &mut packet);
        }
        self.session.say_last(link, &packet)
    }
}
