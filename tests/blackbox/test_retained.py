"""Retained messages that one SUBSCRIBE asks for in great number: sent as the client takes them, and before what is new."""

from __future__ import annotations

import pytest
from typing import Callable

from harness.broker import Broker
from harness.client import Connection
from harness.wire import Packet

StartBroker = Callable[..., Broker]
COUNT, SIZE = 5000, 2000
KEEP = {"clean_start": 0, "properties": {"session_expiry_interval": 100, "receive_maximum": 20}}


@pytest.fixture
def filled(start_broker: StartBroker) -> Broker:
    """10 MB under r/+, far more than socket and outbox hold, on one event loop."""
    settings = ["server.threads=1", "queue.outbox_bytes_max=64 KiB", "queue.messages_max=100", "server.sys_interval=0s"]
    broker = start_broker(settings=settings)
    with broker.client("filler") as filler:
        for number in range(COUNT):
            filler.send("PUBLISH", topic=f"r/{number:05}", payload=b"old".ljust(SIZE), retain=1)
        filler.quiet()
    assert broker.metrics()["meridian_retained_messages"] == COUNT
    return broker


def subscribe(connection: Connection, qos: int) -> None:
    connection.send("SUBSCRIBE", id=1, filters=[{"filter": "r/+", "qos": qos}])
    connection.expect("SUBACK", reasons=[qos])


def take(connection: Connection, count: int) -> list[Packet]:
    """The next messages, acknowledged."""
    messages = []
    for _ in range(count):
        message = connection.expect("PUBLISH")
        if message.qos:
            connection.send("PUBACK", id=message.id)
        messages.append(message)
    return messages


def numbers(messages: list[Packet]) -> list[int]:
    return [int(message.topic.removeprefix("r/")) for message in messages]


def test_replay_waits_for_its_reader_without_queueing(filled: Broker) -> None:
    """Nothing is dropped, others are served, and what is published meanwhile comes after all of it. [MQTT-3.3.1-9]"""
    slow = filled.connection(receive_buffer=4096)
    slow.connect("slow")
    subscribe(slow, qos=0)
    filled.probe()
    assert filled.metrics()["meridian_queued_messages"] == 0
    with filled.client("publisher") as publisher:
        publisher.send("PUBLISH", topic=f"r/{COUNT - 1:05}", payload=b"new")
        publisher.send("PUBLISH", topic="r/00000", payload=b"new")
        publisher.quiet()
    messages = take(slow, COUNT)
    assert numbers(messages) == list(range(COUNT))
    assert all(message.retain and message.payload.startswith(b"old") for message in messages)
    live = take(slow, 2)
    assert numbers(live) == [COUNT - 1, 0] and all(not message.retain for message in live)
    slow.quiet()
    assert filled.metric_sum("meridian_messages_dropped_total") == 0


def test_retained_message_never_comes_after_a_newer_one_of_its_topic(filled: Broker) -> None:
    """A retained message that is replaced before its turn comes as the newer one, twice at most."""
    slow = filled.connection(receive_buffer=4096)
    slow.connect("slow")
    subscribe(slow, qos=0)
    with filled.client("publisher") as publisher:
        publisher.send("PUBLISH", topic=f"r/{COUNT - 1:05}", payload=b"new", retain=1)
        publisher.quiet()
    messages = take(slow, COUNT + 1)
    slow.quiet()
    last = [message.payload for message in messages if message.topic == f"r/{COUNT - 1:05}"]
    assert last == [b"new", b"new"]


def test_unsubscribe_ends_a_replay(filled: Broker) -> None:
    slow = filled.connection(receive_buffer=4096)
    slow.connect("slow")
    subscribe(slow, qos=0)
    slow.send("UNSUBSCRIBE", id=2, filters=[{"filter": "r/+"}])
    # A round trip of others: the broker, which reads from clients in turn, has seen the request.
    filled.probe()
    slow.send("PINGREQ")
    kinds = []
    while kinds[-1:] != ["PINGRESP"]:
        kinds.append(slow.receive().kind)
    assert kinds.count("PUBLISH") < COUNT and kinds[-2] == "UNSUBACK"


@pytest.mark.parametrize("how", ["disconnect", "drop", "takeover"])
def test_replay_goes_on_over_the_next_connection(start_broker: StartBroker, how: str) -> None:
    broker = start_broker(settings=["server.sys_interval=0s"])
    count = 500
    with broker.client("filler") as filler:
        for number in range(count):
            filler.send("PUBLISH", topic=f"r/{number:05}", payload=b"old", retain=1, qos=1, id=number + 1)
            filler.expect("PUBACK")
    first = broker.client("keeper", **KEEP)
    subscribe(first, qos=1)
    seen = set(numbers(take(first, 30)))
    if how == "disconnect":
        first.send("DISCONNECT")
        first.drain_to_end()
    elif how == "drop":
        first.drop()
    second = broker.client("keeper", **KEEP)
    while len(seen) < count:
        message = second.expect("PUBLISH", retain=1)
        second.send("PUBACK", id=message.id)
        seen |= set(numbers([message]))
    assert seen == set(range(count))
    second.quiet()


def test_leaving_a_share_group_leaves_the_replay_of_the_same_filter_alone(start_broker: StartBroker) -> None:
    broker = start_broker(settings=["server.sys_interval=0s"])
    with broker.client("filler") as filler:
        for number in range(5):
            filler.send("PUBLISH", topic=f"r/{number:05}", payload=b"old", retain=1, qos=1, id=number + 1)
            filler.expect("PUBACK")
    with broker.client("slow", properties={"receive_maximum": 1}) as slow:
        slow.subscribe("$share/group/r/+", qos=1)
        subscribe(slow, qos=1)
        first = slow.expect("PUBLISH")
        slow.send("UNSUBSCRIBE", id=2, filters=[{"filter": "$share/group/r/+"}])
        slow.expect("UNSUBACK")
        slow.send("PUBACK", id=first.id)
        assert numbers(take(slow, 4)) == [1, 2, 3, 4]
