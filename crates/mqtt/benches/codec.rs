//! What it costs to decode and encode one PUBLISH with a payload of 16 bytes, and its acknowledgement.
//!
//! Run it with `cargo bench -p meridian-mqtt --bench codec`.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use meridian_mqtt::decode::decode;
use meridian_mqtt::encode::{PublishHead, encode, encode_publish_head};
use meridian_mqtt::frame::{Frame, Peek};
use meridian_mqtt::packet::{Ack, Publish};
use meridian_mqtt::{Packet, Version};
use meridian_types::{PayloadFormat, Properties, Qos};
use std::hint::black_box;

const VERSIONS: [(&str, Version); 2] = [("3.1.1", Version::V311), ("5.0", Version::V5)];
const TOPICS: [(&str, &str); 2] =
    [("short topic", "fan/1"), ("long topic", "fleet/eu-central/depot-17/vehicle/4711/engine/temperature")];

fn publish(topic: &str, qos: Qos) -> Packet<'_> {
    let packet_id = if qos == Qos::AtMostOnce { 0 } else { 4711 };
    Packet::Publish(Publish { topic, qos, packet_id, payload: b"0123456789abcdef", ..Publish::default() })
}

fn encoded(packet: &Packet<'_>, version: Version) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(packet, version, &mut bytes);
    bytes
}

/// Peek and decode, as a connection does it.
fn read(version: Version, bytes: &[u8]) -> Packet<'_> {
    let Ok(Peek::Whole(frame)) = Frame::peek(bytes, usize::MAX) else { unreachable!("the packet is whole") };
    decode(version, frame.first_byte, &bytes[frame.header_len..frame.len()]).expect("the packet is valid")
}

fn decode_benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    for (version_name, version) in VERSIONS {
        for (topic_name, topic) in TOPICS {
            let bytes = encoded(&publish(topic, Qos::AtMostOnce), version);
            group.bench_function(format!("publish 16 B, {topic_name}, {version_name}"), |bencher| {
                bencher.iter(|| drop(black_box(read(version, black_box(&bytes)))));
            });
        }
        let bytes = encoded(&Packet::Puback(Ack { packet_id: 4711, ..Ack::default() }), version);
        group.bench_function(format!("puback, {version_name}"), |bencher| {
            bencher.iter(|| drop(black_box(read(version, black_box(&bytes)))));
        });
    }
    let properties = Properties {
        payload_format: Some(PayloadFormat::Utf8),
        content_type: Some("text/plain".into()),
        user: vec![("trace".into(), "4bf92f3577b34da6".into())],
        ..Properties::default()
    };
    let Packet::Publish(mut rich) = publish("fan/1", Qos::AtLeastOnce) else { unreachable!("it is one") };
    rich.expiry_secs = Some(60);
    rich.properties = Some(Box::new(properties));
    let bytes = encoded(&Packet::Publish(rich), Version::V5);
    group.bench_function("publish 16 B, four properties, 5.0", |bencher| {
        bencher.iter(|| drop(black_box(read(Version::V5, black_box(&bytes)))));
    });
    group.finish();
}

fn encode_benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode");
    for (version_name, version) in VERSIONS {
        for (topic_name, topic) in TOPICS {
            let head = PublishHead {
                topic,
                dup: false,
                qos: Qos::AtLeastOnce,
                retain: false,
                packet_id: 4711,
                topic_alias: None,
                expiry_secs: None,
                subscription_ids: &[],
                properties: None,
            };
            let mut out = Vec::with_capacity(1 << 12);
            group.bench_function(format!("publish head, {topic_name}, {version_name}"), |bencher| {
                bencher.iter(|| {
                    out.clear();
                    black_box(encode_publish_head(black_box(&head), 16, version, &mut out))
                });
            });
        }
        let packet = publish("fan/1", Qos::AtLeastOnce);
        group.bench_function(format!("publish 16 B with a buffer of its own, {version_name}"), |bencher| {
            bencher.iter_batched(
                Vec::new,
                |mut out| {
                    encode(black_box(&packet), version, &mut out);
                    out
                },
                BatchSize::SmallInput,
            );
        });
        let ack = Packet::Puback(Ack { packet_id: 4711, ..Ack::default() });
        let mut out = Vec::with_capacity(64);
        group.bench_function(format!("puback, {version_name}"), |bencher| {
            bencher.iter(|| {
                out.clear();
                encode(black_box(&ack), version, &mut out);
                black_box(out.len())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decode_benches, encode_benches);
criterion_main!(benches);
