"""The bound over everything that clients can make grow: what counts, what happens at it, and that all of it comes back."""

from __future__ import annotations

import signal
import struct
import time
from pathlib import Path
from typing import Callable

import pytest

from harness.broker import Broker
from harness.client import WAIT, Connection

StartBroker = Callable[..., Broker]
MIB = 1 << 20
KEEP = {"clean_start": 0, "properties": {"session_expiry_interval": 1000}}


def start(start_broker: StartBroker, limit: str, *more: str) -> Broker:
    settings = [f"server.memory_max={limit}", "server.sys_interval=0s", "queue.messages_max=1000000", *more]
    return start_broker(settings=["queue.bytes_max=1 GiB", *settings])


def held(broker: Broker) -> int:
    return int(broker.metrics()["meridian_memory_held_bytes"])


def away(broker: Broker, client_id: str, topic: str) -> None:
    """A session that collects while its client is away."""
    with broker.client(client_id, **KEEP) as client:
        client.subscribe(topic, qos=1)
        client.send("DISCONNECT")
        client.drain_to_end()


def publish(publisher: Connection, topic: str, size: int, **fields: object) -> int:
    publisher.send("PUBLISH", topic=topic, payload=bytes(size), qos=1, id=1, **fields)
    return publisher.expect("PUBACK").reason


def until_held(broker: Broker, least: int, most: int) -> None:
    """An event loop adds up what it counts at the end of its turn, so the sum may come after the answer."""
    deadline = time.monotonic() + WAIT
    while not least <= (bytes_held := held(broker)) <= most:
        assert time.monotonic() < deadline, f"{bytes_held} bytes, not {least} to {most}"


def fill(broker: Broker, publisher: Connection) -> int:
    """Retains until no more is; how many."""
    count = 0
    while publish(publisher, f"full/{count}", 16 << 10, retain=1) != 0x97:
        count += 1
    return count


def test_a_message_counts_once_however_many_wait_for_it(start_broker: StartBroker) -> None:
    broker = start(start_broker, "8 MiB")
    for number in range(50):
        away(broker, f"away-{number}", "t")
    with broker.client("publisher") as publisher:
        for _ in range(32):
            assert publish(publisher, "t", 32 << 10) == 0
    until_held(broker, MIB, 2 * MIB)
    assert broker.metrics()["meridian_queued_bytes"] > 50 * MIB
    assert broker.metric_sum("meridian_messages_dropped_total") == 0


@pytest.mark.parametrize("policy", ["drop-oldest", "drop-newest", "block"])
def test_queues_together_stay_inside_the_bound(start_broker: StartBroker, policy: str) -> None:
    broker = start(start_broker, "4 MiB", f"queue.overflow={policy}")
    for number in range(4):
        away(broker, f"away-{number}", f"t/{number}")
    with broker.client("publisher") as publisher, broker.client("reader") as reader:
        reader.subscribe("live", qos=0)
        for number in range(1600):
            publish(publisher, f"t/{number % 4}", 16 << 10)
        assert held(broker) < 4 * MIB
        # Who keeps up is served as ever.
        publish(publisher, "live", 100)
        reader.expect("PUBLISH", topic="live")
    waiting = broker.metrics()["meridian_queued_messages"]
    assert waiting + broker.metric_sum("meridian_messages_dropped_total") == 1600 and waiting > 100
    for number in range(4):
        with broker.client(f"away-{number}", **KEEP) as client:
            client.send("DISCONNECT", properties={"session_expiry_interval": 0})
            client.drain_to_end()
    until_held(broker, 0, 0)


def test_what_is_larger_than_a_share_costs_nobody_what_waits_for_them(start_broker: StartBroker) -> None:
    broker = start(start_broker, "4 MiB", "queue.overflow=drop-oldest")
    away(broker, "away", "t")
    for number in range(200):
        away(broker, f"idle-{number}", "nothing")
    with broker.client("publisher") as publisher:
        for _ in range(5):
            publish(publisher, "t", 100)
        for number in range(220):
            publish(publisher, f"full/{number}", 16 << 10, retain=1)
        until_held(broker, 3 * MIB, 4 * MIB)
        # Of the last mebibyte each session has some five kilobytes.
        publish(publisher, "t", 16 << 10)
    with broker.client("away", **KEEP) as client:
        for _ in range(5):
            assert len(client.expect("PUBLISH").payload) == 100
        client.quiet()
    assert broker.metric_sum("meridian_messages_dropped_total", '"memory"') == 1


def test_a_full_process_refuses_what_is_new_and_serves_what_is_known(start_broker: StartBroker) -> None:
    broker = start(start_broker, "2 MiB")
    away(broker, "known", "kept")
    publisher, reader = broker.client("publisher"), broker.client("reader")
    reader.subscribe("#", qos=0)
    reader.send("UNSUBSCRIBE", id=2, filters=[{"filter": "#"}])
    reader.expect("UNSUBACK")
    count = fill(broker, publisher)
    assert count > 100
    until_held(broker, 2 * MIB, 3 * MIB)
    # Nothing more is queued: counted, and the publisher goes on.
    assert publish(publisher, "kept", 1000) < 0x80
    assert broker.metric_sum("meridian_messages_dropped_total", '"memory"') == 1
    for version, reason in ((5, 0x97), (4, 3)):
        with broker.connection(version) as stranger:
            stranger.send("CONNECT", client_id="stranger")
            packet = stranger.expect("CONNACK", reason=reason)
            if version == 5:
                assert "server.memory_max" in packet.properties["reason_string"]
            stranger.expect_closed()
    # A large packet is refused from its header.
    with broker.client("known", **KEEP) as known:
        known.send_bytes(b"\x30" + bytes([0x80, 0x80, 0x40]) + struct.pack(">H", 1) + b"t")
        packet = known.expect("DISCONNECT", reason=0x97)
        assert "server.memory_max" in packet.properties["reason_string"]
        known.expect_closed()
    metrics = broker.metrics()
    assert metrics['meridian_sessions_refused_total{reason="memory"}'] == 2
    assert metrics['meridian_disconnects_total{reason="memory"}'] == 1
    assert metrics['meridian_retained_refused_total{reason="memory"}'] == 1
    # Clearing is always possible, and what was refused works again.
    reader.subscribe("kept", qos=0, packet_id=3)
    publish(publisher, "kept", 1000)
    reader.expect("PUBLISH", topic="kept")
    for number in range(count):
        publish(publisher, f"full/{number}", 0, retain=1)
    until_held(broker, 0, 64 << 10)


def test_long_filters_count_and_a_full_process_takes_only_small_ones(start_broker: StartBroker) -> None:
    broker = start(start_broker, "8 MiB")
    with broker.client("greedy") as greedy, broker.client("modest") as modest:
        reasons, count = set(), 0
        while reasons <= {0} and count < 1000:
            greedy.send("SUBSCRIBE", id=1, filters=[{"filter": f"{count}/{'x' * 60_000}"}])
            reasons.add(greedy.expect("SUBACK").reasons[0])
            count += 1
        assert reasons == {0, 0x97} and 100 < count < 200
        until_held(broker, 8 * MIB, 9 * MIB)
        modest.subscribe("short", qos=1)
        modest.subscribe("$share/group/short", qos=1, packet_id=2)
        assert broker.metrics()['meridian_subscriptions_refused_total{reason="memory"}'] == 1
        # What is there may change its options, and what ends makes room.
        greedy.subscribe(f"0/{'x' * 60_000}", qos=1)
        for number in range(count - 1):
            greedy.send("UNSUBSCRIBE", id=2, filters=[{"filter": f"{number}/{'x' * 60_000}"}])
            greedy.expect("UNSUBACK")
        until_held(broker, 0, 4096)
        greedy.subscribe(f"again/{'x' * 60_000}")
        until_held(broker, 60_000, 70_000)
    until_held(broker, 0, 0)


def test_topic_aliases_count_both_ways(start_broker: StartBroker) -> None:
    broker = start(start_broker, "4 MiB", "mqtt.topic_alias_maximum=100", "mqtt.topic_alias_outgoing=100")
    topic = "x" * 50_000
    with broker.client("setter") as setter, broker.client("taker", properties={"topic_alias_maximum": 10}) as taker:
        taker.subscribe("#")
        until_held(broker, 1, 4096)
        before = held(broker)
        for number in range(1, 11):
            setter.send("PUBLISH", topic=f"{number}/{topic}", properties={"topic_alias": number})
            taker.expect("PUBLISH")
        until_held(broker, before + 20 * 50_000, MIB + 20 * 50_000)
        number = 10
        with pytest.raises((ConnectionError, AssertionError)):
            while number < 100:
                number += 1
                setter.send("PUBLISH", topic=f"{number}/{topic}", properties={"topic_alias": number})
                setter.quiet()
                taker.expect("PUBLISH")
    assert number < 90
    metrics = broker.metrics()
    assert metrics['meridian_disconnects_total{reason="memory"}'] == 1
    until_held(broker, 0, 0)


def test_what_is_in_flight_counts_for_each_client(start_broker: StartBroker) -> None:
    broker = start(start_broker, "64 MiB")
    clients = [broker.client(f"slow-{number}", **KEEP) for number in range(20)]
    for client in clients:
        client.subscribe("t", qos=1)
    with broker.client("publisher") as publisher:
        for _ in range(1000):
            publish(publisher, "t", 1)
    # Of each of the 20,000 deliveries its terms and its packet id, besides the 1,000 messages.
    until_held(broker, 20_000 * 64, 20_000 * 500)
    for client in clients:
        client.send("DISCONNECT", properties={"session_expiry_interval": 0})
        client.drain_to_end()
    until_held(broker, 0, 0)


def test_topics_of_retained_messages_count_besides_the_messages(start_broker: StartBroker) -> None:
    broker = start(start_broker, "64 MiB")
    topic = "x" * 30_000
    with broker.client("publisher") as publisher:
        for number in range(100):
            publish(publisher, f"{number}/{topic}", 1, retain=1, properties={"message_expiry_interval": 1000})
        # In the message, in the store, and in the list of what expires.
        until_held(broker, 100 * 3 * 30_000, 100 * 4 * 30_000)
        for number in range(100):
            publish(publisher, f"{number}/{topic}", 0, retain=1)
    until_held(broker, 0, 100 * 31_000)


def test_outboxes_and_incomplete_packets_count_until_they_are_gone(start_broker: StartBroker) -> None:
    broker = start(start_broker, "64 MiB", "queue.outbox_bytes_max=1 MiB")
    slow = broker.connection(receive_buffer=4096)
    slow.connect("slow")
    slow.subscribe("t", qos=0)
    with broker.client("publisher") as publisher:
        for _ in range(10_000):
            publisher.send("PUBLISH", topic="t", payload=bytes(900))
        publisher.quiet()
    # An outbox of a mebibyte, and the rest in the queue; what the socket took is not held.
    until_held(broker, 2 * MIB, 20 * MIB)
    with broker.client("slow"):
        slow.close()
        with broker.client("uploader") as uploader:
            uploader.send_bytes(b"\x30" + bytes([0x80, 0x80, 0x80, 0x01]) + struct.pack(">H", 1) + b"u" + bytes(MIB))
            until_held(broker, MIB, 4 * MIB)
            uploader.drop()
        until_held(broker, 0, 0)


def test_the_limit_is_part_of_the_machine_unless_set_and_changes_with_a_reload(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    config = tmp_path / "meridian.toml"
    config.write_text("")
    broker = start_broker("--config", str(config))
    assert broker.metrics()["meridian_memory_limit_bytes"] > 16 * MIB
    mark = len(broker.log)
    config.write_text('[server]\nmemory_max = "5 MiB"\n')
    broker.signal(signal.SIGHUP)
    broker.wait_for_log(r"server\.memory_max.*5 MiB", mark)
    assert broker.metrics()["meridian_memory_limit_bytes"] == 5 * MIB
