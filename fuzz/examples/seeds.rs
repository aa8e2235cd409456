//! Writes the saved seeds of the corpora: one small file for each kind of packet and each grammar.

use bytes::Bytes;
use meridian_mqtt::encode::encode;
use meridian_mqtt::packet::{
    Ack, Auth, Connack, Connect, Disconnect, FilterRequest, Publish, RetainHandling, Suback, Subscribe,
    Unsubscribe, Will,
};
use meridian_mqtt::{Packet, ReasonCode, Version};
use meridian_types::{PayloadFormat, Properties, Qos};
use meridian_ws::frame::{Opcode, encode_frame};
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (target, version) in [("decode_v311", Version::V311), ("decode_v5", Version::V5)] {
        for (name, packet) in packets(version) {
            let mut bytes = Vec::new();
            encode(&packet, version, &mut bytes);
            write(&corpus.join(target), name, &bytes)?;
        }
    }
    for (target, name, text) in TEXTS {
        write(&corpus.join(target), name, text.as_bytes())?;
    }
    write(&corpus.join("exchanges"), "kinds", &EXCHANGES.concat())?;
    for (name, bytes) in frames() {
        write(&corpus.join("websocket_frames"), name, &bytes)?;
    }
    Ok(())
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(name), bytes)
}

/// Choices that make an exchange of each of five kinds, bind them, and take some of it back.
const EXCHANGES: [&[u8]; 17] = [
    // Three messages.
    &[3, 0, 2, 0, 2, 1, 0, 2],
    &[1, 4, 5, 0, 0],
    &[4, 0, 1, 0, 5, 3],
    // Direct, fanout, topic, headers, a consistent hash.
    &[0, 0, 0, 1, 0, 2, 0, 3, 0, 7],
    // Bindings: a key, a pattern, exchange to exchange, all of two conditions, any of one, two weights.
    &[9, 0, 0, 1, 2, 0, 1, 0, 0],
    &[9, 2, 0, 2, 16, 0, 0, 0, 0],
    &[9, 1, 1, 0, 0, 0, 2, 0, 0],
    &[9, 1, 4, 0, 0, 0, 2, 0, 0],
    &[9, 3, 0, 3, 0, 2, 0, 2, 1, 0, 1, 0, 1],
    &[9, 3, 0, 4, 0, 1, 0, 2, 2, 0, 2],
    &[9, 4, 0, 1, 7, 0, 0, 0, 0],
    &[9, 4, 0, 2, 8, 0, 0, 0, 0],
    // An alternate; a binding made again with other options.
    &[3, 0, 5],
    &[9, 0, 0, 1, 2, 0, 2, 0, 0],
    // A binding, a target and an exchange go.
    &[6, 3],
    &[4, 1],
    &[2, 1],
];

const TEXTS: [(&str, &str, &str); 21] = [
    ("topic_grammar", "wildcards", "sport/+/player1/#\nsport/tennis/player1/ranking"),
    ("topic_grammar", "reserved", "+/monitor\n$SYS/monitor"),
    ("topic_grammar", "shared", "$share/group/a/+\na/b"),
    ("topic_grammar", "empty_levels", "/+//\n/a//"),
    ("index", "route", "i1a/+/c\ni2a/#\ni3#\nm0a/b/c\nr1a/+/c\nm0a/b/c\nx2a/#\nm0$SYS/x"),
    ("index", "store", "p1a/b\np2a/c\np3$SYS/x\nv0a/+\nv0#\nd0a/b\nv0a/#"),
    ("index", "shared_prefixes", "i1abc/d\ni2abd/d\ni3ab\ni4ab/+/+\nm0abc/d\nm0ab/x/y\nr3ab\nm0ab"),
    ("topic_pattern", "wildcards", "*.stock.#\nusd.stock.db"),
    ("topic_pattern", "inner", "a.#.b.*.#.#.c\na.x.y.b.1.2.c"),
    ("match_kinds", "patterns", "i1a.#.b\ni2#.a.#.b\ni3*.b\nka.x.b\nka.b\nr2#.a.#.#.b\nka.b\nk"),
    (
        "match_kinds",
        "prefixes",
        "p1\np2/zeek/event/conn\np3/zeek\nt0/zeek/event/conn/x\nq3/zeek\nt0/zeek/event/conn/x",
    ),
    ("algebra", "filters", "a/+/#\na/b/+\na/b/c"),
    ("algebra", "reserved", "+/#\n$SYS/#\n$SYS/x"),
    ("algebra", "empty_levels", "/+/#\n/#\n/"),
    ("algebra", "patterns", "*.#.a.*.#.b\na.#.a.x.y.b\na.a.x.y.b"),
    ("summary", "regular", "60\nsite/1/state\nsite/2/state\nsite/2/+\nsite/3/alarm/#\n$SYS/a\n$SYS/b/c"),
    ("summary", "wildcards", "20\n+/a/#\n+/#\n/#\n/+/#\na/+\na/#"),
    ("feed", "snapshot", "s0a/b\ns0c\np1\nd0\nu0c\np1\ns0$SYS/+\nc9\nd0\nd0\n=0\nk2"),
    ("feed", "restart", "s0a\np9\nd0\nr0\ns0b\nc9\nd0\np9\no0\nx0\ng1\np9\nd0\n=0"),
    (
        "websocket_handshake",
        "request",
        "GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n",
    ),
    (
        "websocket_handshake",
        "answer",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n",
    ),
];

fn frames() -> Vec<(&'static str, Vec<u8>)> {
    // The first byte: role in bit 0, kinds in bit 1, size of the pieces above.
    let (mut to_server, mut to_client) = (vec![0b0000_1000], vec![0b0001_0111]);
    for (opcode, payload) in [
        (Opcode::Binary, &b"\xC0\x00"[..]),
        (Opcode::Ping, b"are you there"),
        (Opcode::Binary, &[7; 130]),
        (Opcode::Close, b"\x03\xE8bye"),
    ] {
        encode_frame(&mut to_server, opcode, payload, Some([0x12, 0x34, 0x56, 0x78]));
        encode_frame(&mut to_client, opcode, payload, None);
    }
    let fragments = b"\x01\x02\x03abc\x00\x02de\x89\x00\x80\x00\x81\x01x".to_vec();
    let fragments = [&[0b0000_0111][..], &fragments].concat();
    vec![("to_server", to_server), ("to_client", to_client), ("fragments", fragments)]
}

fn packets(version: Version) -> Vec<(&'static str, Packet<'static>)> {
    let mut packets = vec![
        ("connect", Packet::Connect(Box::new(connect(version)))),
        ("connack", Packet::Connack(Box::new(connack()))),
        ("publish_qos0", Packet::Publish(Publish { topic: "a/b", payload: b"hello", ..Publish::default() })),
        ("publish_full", Packet::Publish(publish())),
        ("puback", Packet::Puback(Ack { packet_id: 7, ..Ack::default() })),
        ("pubrec", Packet::Pubrec(ack(ReasonCode::QuotaExceeded))),
        ("pubrel", Packet::Pubrel(ack(ReasonCode::PacketIdentifierNotFound))),
        ("pubcomp", Packet::Pubcomp(Ack { packet_id: 7, ..Ack::default() })),
        ("subscribe", Packet::Subscribe(subscribe())),
        ("suback", Packet::Suback(suback(&[ReasonCode::GrantedQos1, ReasonCode::UnspecifiedError]))),
        ("unsubscribe", Packet::Unsubscribe(unsubscribe())),
        ("unsuback", Packet::Unsuback(suback(&[ReasonCode::Success, ReasonCode::NoSubscriptionExisted]))),
        ("pingreq", Packet::Pingreq),
        ("pingresp", Packet::Pingresp),
        ("disconnect", Packet::Disconnect(disconnect())),
    ];
    if version == Version::V5 {
        packets.push(("auth", Packet::Auth(auth())));
        let by_alias = Publish { topic: "", topic_alias: Some(1), ..Publish::default() };
        packets.push(("publish_alias", Packet::Publish(by_alias)));
    }
    packets
}

fn properties() -> Option<Box<Properties>> {
    Some(Box::new(Properties {
        payload_format: Some(PayloadFormat::Utf8),
        content_type: Some("text/plain".into()),
        response_topic: Some("answers/1".into()),
        correlation_data: Some(Bytes::from_static(b"\0\xFF")),
        user: vec![("name".into(), "value".into()), ("name".into(), "".into())],
    }))
}

fn connect(version: Version) -> Connect<'static> {
    Connect {
        version,
        clean_start: true,
        keep_alive_secs: 60,
        client_id: "client",
        will: Some(Will {
            topic: "gone/client",
            payload: b"bye",
            qos: Qos::AtLeastOnce,
            retain: true,
            delay_secs: 5,
            expiry_secs: Some(60),
            properties: properties(),
        }),
        user_name: Some("user"),
        password: Some(b"secret"),
        session_expiry_secs: Some(u32::MAX),
        receive_maximum: Some(100),
        packet_bytes_max: Some(1 << 20),
        topic_alias_maximum: 10,
        request_response_information: true,
        request_problem_information: false,
        user_properties: vec![("name", "value")],
        authentication_method: Some("method"),
        authentication_data: Some(b"data"),
    }
}

fn connack() -> Connack<'static> {
    Connack {
        session_present: true,
        reason: ReasonCode::Success,
        session_expiry_secs: Some(3600),
        receive_maximum: Some(100),
        qos_maximum: Some(Qos::AtLeastOnce),
        retain_available: Some(true),
        packet_bytes_max: Some(1 << 20),
        assigned_client_id: Some("assigned"),
        topic_alias_maximum: Some(10),
        reason_string: Some("welcome"),
        user_properties: vec![("name", "value")],
        wildcard_available: Some(true),
        subscription_ids_available: Some(true),
        shared_available: Some(false),
        server_keep_alive_secs: Some(30),
        response_information: Some("answers/"),
        server_reference: Some("elsewhere"),
        authentication_method: Some("method"),
        authentication_data: Some(b"data"),
    }
}

fn publish() -> Publish<'static> {
    Publish {
        dup: true,
        qos: Qos::ExactlyOnce,
        retain: true,
        topic: "fleet/\u{e9}/temperature",
        packet_id: 0x0102,
        topic_alias: Some(1),
        expiry_secs: Some(60),
        subscription_ids: vec![1, 300, 268_435_455],
        properties: properties(),
        payload: b"21.5",
    }
}

fn ack(reason: ReasonCode) -> Ack<'static> {
    Ack { packet_id: 7, reason, reason_string: Some("why"), user_properties: vec![("name", "value")] }
}

fn subscribe() -> Subscribe<'static> {
    let request = |filter, qos, retain_handling| FilterRequest {
        filter,
        qos,
        no_local: false,
        retain_as_published: true,
        retain_handling,
    };
    Subscribe {
        packet_id: 7,
        subscription_id: Some(300),
        user_properties: vec![("name", "value")],
        filters: vec![
            request("a/+/#", Qos::ExactlyOnce, RetainHandling::IfNew),
            request("$share/group/b", Qos::AtMostOnce, RetainHandling::Never),
        ],
    }
}

fn suback(reasons: &[ReasonCode]) -> Suback<'static> {
    Suback {
        packet_id: 7,
        reason_string: Some("why"),
        user_properties: vec![("name", "value")],
        reasons: reasons.to_vec(),
    }
}

fn unsubscribe() -> Unsubscribe<'static> {
    Unsubscribe {
        packet_id: 7,
        user_properties: vec![("name", "value")],
        filters: vec!["a/+/#", "$share/group/b"],
    }
}

fn disconnect() -> Disconnect<'static> {
    Disconnect {
        reason: ReasonCode::DisconnectWithWill,
        session_expiry_secs: Some(0),
        reason_string: Some("why"),
        user_properties: vec![("name", "value")],
        server_reference: Some("elsewhere"),
    }
}

fn auth() -> Auth<'static> {
    Auth {
        reason: ReasonCode::ContinueAuthentication,
        authentication_method: Some("method"),
        authentication_data: Some(Bytes::from_static(b"data")),
        reason_string: Some("why"),
        user_properties: vec![("name", "value")],
    }
}
