//! Any valid packet. Packets borrow their strings, so a strategy yields owned parts, and a packet is built of them:
//! the parts leak, which a test run of a few megabytes affords and which keeps every strategy a plain `Strategy`.

use bytes::Bytes;
use meridian_mqtt::packet::{
    Ack, Auth, Connack, Connect, Disconnect, FilterRequest, Packet, Publish, RetainHandling, Suback,
    Subscribe, Unsubscribe, Will,
};
use meridian_mqtt::{ReasonCode, Version};
use meridian_types::{PayloadFormat, Properties, Qos};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

type Pairs = Vec<(&'static str, &'static str)>;

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Text without U+0000, of any script, sometimes empty, sometimes longer than one length byte can say.
fn text() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        8 => "[^\\x00]{0,12}",
        1 => "[a-z\u{e9}\u{20ac}\u{1f600}]{120,300}",
    ]
    .prop_map(leak)
}

fn binary() -> impl Strategy<Value = &'static [u8]> {
    prop_oneof![8 => vec(any::<u8>(), 0..12), 1 => vec(any::<u8>(), 120..300)]
        .prop_map(|bytes| &*Box::leak(bytes.into_boxed_slice()))
}

fn topic_name() -> impl Strategy<Value = &'static str> {
    prop_oneof![8 => "[^\\x00+#]{1,12}", 1 => "[a-z\u{fc}/]{60,127}"].prop_map(leak)
}

fn filter() -> impl Strategy<Value = &'static str> {
    prop_oneof!["[a-z/+#$\u{fc}]{0,12}", Just("$share/group/a/+".to_owned()), Just("#".to_owned())]
        .prop_map(leak)
}

fn pairs() -> impl Strategy<Value = Pairs> {
    prop_oneof![2 => Just(Vec::new()), 1 => vec((text(), text()), 1..4)]
}

fn qos() -> impl Strategy<Value = Qos> {
    select(&[Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce])
}

fn packet_id() -> impl Strategy<Value = u16> {
    1..=u16::MAX
}

fn reason(allowed: &'static [ReasonCode]) -> impl Strategy<Value = ReasonCode> {
    select(allowed)
}

/// What travels on with a message; `None` rather than empty, as decoding has it.
fn properties() -> impl Strategy<Value = Option<Box<Properties>>> {
    let format = of(select(&[PayloadFormat::Bytes, PayloadFormat::Utf8]));
    (format, of(text()), of(topic_name()), of(binary()), pairs()).prop_map(
        |(payload_format, content_type, response_topic, correlation_data, pairs)| {
            let properties = Properties {
                payload_format,
                content_type: content_type.map(Into::into),
                response_topic: response_topic.map(Into::into),
                correlation_data: correlation_data.map(Bytes::from_static),
                user: pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            };
            (!properties.is_empty()).then(|| Box::new(properties))
        },
    )
}

/// Extended authentication: data only with a method.
fn authentication() -> impl Strategy<Value = (Option<&'static str>, Option<&'static [u8]>)> {
    prop_oneof![Just((None, None)), (text().prop_map(Some), of(binary()))]
}

fn will(version: Version) -> impl Strategy<Value = Will<'static>> {
    (topic_name(), binary(), qos(), any::<bool>(), any::<u32>(), of(any::<u32>()), properties()).prop_map(
        move |(topic, payload, qos, retain, delay_secs, expiry_secs, properties)| match version {
            Version::V5 => Will { topic, payload, qos, retain, delay_secs, expiry_secs, properties },
            Version::V311 => {
                Will { topic, payload, qos, retain, delay_secs: 0, expiry_secs: None, properties: None }
            }
        },
    )
}

fn connect_v311() -> impl Strategy<Value = Connect<'static>> {
    let user = prop_oneof![Just((None, None)), (text().prop_map(Some), of(binary()))];
    (any::<bool>(), any::<u16>(), text(), of(will(Version::V311)), user).prop_map(
        |(clean_start, keep_alive_secs, client_id, will, (user_name, password))| Connect {
            version: Version::V311,
            clean_start,
            keep_alive_secs,
            client_id,
            will,
            user_name,
            password,
            session_expiry_secs: None,
            receive_maximum: None,
            packet_bytes_max: None,
            topic_alias_maximum: 0,
            request_response_information: false,
            request_problem_information: true,
            user_properties: Vec::new(),
            authentication_method: None,
            authentication_data: None,
        },
    )
}

fn connect_v5() -> impl Strategy<Value = Connect<'static>> {
    let numbers = (of(any::<u32>()), of(1..=u16::MAX), of(1..=u32::MAX), any::<u16>());
    let rest =
        (any::<(bool, bool)>(), pairs(), authentication(), of(text()), of(binary()), of(will(Version::V5)));
    (connect_v311(), numbers, rest).prop_map(|(base, numbers, rest)| {
        let (session_expiry_secs, receive_maximum, packet_bytes_max, topic_alias_maximum) = numbers;
        let (requests, user_properties, authentication, user_name, password, will) = rest;
        Connect {
            version: Version::V5,
            will,
            user_name,
            password,
            session_expiry_secs,
            receive_maximum,
            packet_bytes_max,
            topic_alias_maximum,
            request_response_information: requests.0,
            request_problem_information: requests.1,
            user_properties,
            authentication_method: authentication.0,
            authentication_data: authentication.1,
            ..base
        }
    })
}

fn connack_v5() -> impl Strategy<Value = Connack<'static>> {
    let head = (any::<bool>(), reason(ReasonCode::IN_CONNACK), pairs(), authentication());
    let numbers = (
        of(any::<u32>()),
        of(1..=u16::MAX),
        of(1..=u32::MAX),
        of(any::<u16>()),
        of(any::<u16>()),
        of(any::<bool>()),
    );
    let texts = (of(text()), of(text()), of(text()), of(text()));
    let flags = (of(any::<bool>()), of(any::<bool>()), of(any::<bool>()), of(any::<bool>()));
    (head, numbers, texts, flags).prop_map(|(head, numbers, texts, flags)| Connack {
        session_present: head.0 && head.1 == ReasonCode::Success,
        reason: head.1,
        session_expiry_secs: numbers.0,
        receive_maximum: numbers.1,
        qos_maximum: numbers.5.map(|one| if one { Qos::AtLeastOnce } else { Qos::AtMostOnce }),
        retain_available: flags.0,
        packet_bytes_max: numbers.2,
        assigned_client_id: texts.0,
        topic_alias_maximum: numbers.3,
        reason_string: texts.1,
        user_properties: head.2,
        wildcard_available: flags.1,
        subscription_ids_available: flags.2,
        shared_available: flags.3,
        server_keep_alive_secs: numbers.4,
        response_information: texts.2,
        server_reference: texts.3,
        authentication_method: head.3.0,
        authentication_data: head.3.1,
    })
}

fn connack_v311() -> impl Strategy<Value = Connack<'static>> {
    (any::<bool>(), 0..=5_u8).prop_map(|(present, code)| Connack {
        session_present: present && code == 0,
        reason: ReasonCode::from_return_code(code).expect("0 to 5 are defined"),
        ..Connack::default()
    })
}

fn publish_v311() -> impl Strategy<Value = Publish<'static>> {
    (any::<(bool, bool)>(), qos(), topic_name(), packet_id(), binary()).prop_map(
        |((dup, retain), qos, topic, packet_id, payload)| Publish {
            dup: dup && qos != Qos::AtMostOnce,
            qos,
            retain,
            topic,
            packet_id: if qos == Qos::AtMostOnce { 0 } else { packet_id },
            payload,
            ..Publish::default()
        },
    )
}

fn publish_v5() -> impl Strategy<Value = Publish<'static>> {
    let ids = prop_oneof![2 => Just(Vec::new()), 1 => vec(1..=268_435_455_u32, 1..4)];
    (publish_v311(), of((1..=u16::MAX, any::<bool>())), of(any::<u32>()), ids, properties()).prop_map(
        |(base, alias, expiry_secs, subscription_ids, properties)| Publish {
            topic: if let Some((_, true)) = alias { "" } else { base.topic },
            topic_alias: alias.map(|(alias, _)| alias),
            expiry_secs,
            subscription_ids,
            properties,
            ..base
        },
    )
}

fn ack(version: Version, allowed: &'static [ReasonCode]) -> impl Strategy<Value = Ack<'static>> {
    (packet_id(), reason(allowed), of(text()), pairs()).prop_map(
        move |(packet_id, reason, reason_string, user_properties)| match version {
            Version::V5 => Ack { packet_id, reason, reason_string, user_properties },
            Version::V311 => Ack { packet_id, ..Ack::default() },
        },
    )
}

fn subscribe(version: Version) -> impl Strategy<Value = Subscribe<'static>> {
    let handling = select(&[RetainHandling::Always, RetainHandling::IfNew, RetainHandling::Never]);
    let request = (filter(), qos(), any::<(bool, bool)>(), handling).prop_map(
        move |(filter, qos, (no_local, retain_as_published), retain_handling)| match version {
            Version::V5 => FilterRequest {
                filter,
                qos,
                no_local: no_local && !filter.starts_with("$share/"),
                retain_as_published,
                retain_handling,
            },
            Version::V311 => FilterRequest {
                filter,
                qos,
                no_local: false,
                retain_as_published: false,
                retain_handling: RetainHandling::Always,
            },
        },
    );
    (packet_id(), of(1..=268_435_455_u32), pairs(), vec(request, 1..5)).prop_map(
        move |(packet_id, subscription_id, user_properties, filters)| match version {
            Version::V5 => Subscribe { packet_id, subscription_id, user_properties, filters },
            Version::V311 => Subscribe { packet_id, filters, ..Subscribe::default() },
        },
    )
}

fn suback(version: Version, allowed: &'static [ReasonCode]) -> impl Strategy<Value = Suback<'static>> {
    (packet_id(), of(text()), pairs(), vec(reason(allowed), 1..5)).prop_map(
        move |(packet_id, reason_string, user_properties, reasons)| match version {
            Version::V5 => Suback { packet_id, reason_string, user_properties, reasons },
            Version::V311 => Suback { packet_id, reasons, ..Suback::default() },
        },
    )
}

fn unsubscribe(version: Version) -> impl Strategy<Value = Unsubscribe<'static>> {
    (packet_id(), pairs(), vec(filter(), 1..5)).prop_map(move |(packet_id, user_properties, filters)| {
        match version {
            Version::V5 => Unsubscribe { packet_id, user_properties, filters },
            Version::V311 => Unsubscribe { packet_id, filters, ..Unsubscribe::default() },
        }
    })
}

fn disconnect() -> impl Strategy<Value = Disconnect<'static>> {
    (reason(ReasonCode::IN_DISCONNECT), of(any::<u32>()), of(text()), pairs(), of(text())).prop_map(
        |(reason, session_expiry_secs, reason_string, user_properties, server_reference)| Disconnect {
            reason,
            session_expiry_secs,
            reason_string,
            user_properties,
            server_reference,
        },
    )
}

fn auth() -> impl Strategy<Value = Auth<'static>> {
    let full = (reason(ReasonCode::IN_AUTH), text(), of(binary()), of(text()), pairs()).prop_map(
        |(reason, method, data, reason_string, user_properties)| Auth {
            reason,
            authentication_method: Some(method),
            authentication_data: data.map(Bytes::from_static),
            reason_string,
            user_properties,
        },
    );
    prop_oneof![1 => Just(Auth::default()), 4 => full]
}

/// Any valid packet of 3.1.1.
pub(crate) fn packet_v311() -> impl Strategy<Value = Packet<'static>> {
    const VERSION: Version = Version::V311;
    prop_oneof![
        connect_v311().prop_map(|connect| Packet::Connect(Box::new(connect))),
        connack_v311().prop_map(|connack| Packet::Connack(Box::new(connack))),
        publish_v311().prop_map(Packet::Publish),
        ack(VERSION, ReasonCode::IN_PUBACK).prop_map(Packet::Puback),
        ack(VERSION, ReasonCode::IN_PUBACK).prop_map(Packet::Pubrec),
        ack(VERSION, ReasonCode::IN_PUBREL).prop_map(Packet::Pubrel),
        ack(VERSION, ReasonCode::IN_PUBREL).prop_map(Packet::Pubcomp),
        subscribe(VERSION).prop_map(Packet::Subscribe),
        suback(VERSION, ReasonCode::IN_SUBACK_V311).prop_map(Packet::Suback),
        unsubscribe(VERSION).prop_map(Packet::Unsubscribe),
        packet_id().prop_map(|packet_id| Packet::Unsuback(Suback { packet_id, ..Suback::default() })),
        Just(Packet::Pingreq),
        Just(Packet::Pingresp),
        Just(Packet::Disconnect(Disconnect::default())),
    ]
}

/// Any valid packet of 5.0.
pub(crate) fn packet_v5() -> impl Strategy<Value = Packet<'static>> {
    const VERSION: Version = Version::V5;
    prop_oneof![
        connect_v5().prop_map(|connect| Packet::Connect(Box::new(connect))),
        connack_v5().prop_map(|connack| Packet::Connack(Box::new(connack))),
        publish_v5().prop_map(Packet::Publish),
        ack(VERSION, ReasonCode::IN_PUBACK).prop_map(Packet::Puback),
        ack(VERSION, ReasonCode::IN_PUBACK).prop_map(Packet::Pubrec),
        ack(VERSION, ReasonCode::IN_PUBREL).prop_map(Packet::Pubrel),
        ack(VERSION, ReasonCode::IN_PUBREL).prop_map(Packet::Pubcomp),
        subscribe(VERSION).prop_map(Packet::Subscribe),
        suback(VERSION, ReasonCode::IN_SUBACK).prop_map(Packet::Suback),
        unsubscribe(VERSION).prop_map(Packet::Unsubscribe),
        suback(VERSION, ReasonCode::IN_UNSUBACK).prop_map(Packet::Unsuback),
        Just(Packet::Pingreq),
        Just(Packet::Pingresp),
        disconnect().prop_map(Packet::Disconnect),
        auth().prop_map(Packet::Auth),
    ]
}

/// A version and any valid packet of it.
pub(crate) fn any_packet() -> impl Strategy<Value = (Version, Packet<'static>)> {
    prop_oneof![
        packet_v311().prop_map(|packet| (Version::V311, packet)),
        packet_v5().prop_map(|packet| (Version::V5, packet)),
    ]
}
