"""Limits and refusals: each uses the protocol's reason code and says, where allowed, what and which limit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable

import pytest

from harness.broker import Broker
from harness.client import Closed, Connection
from harness.wire import Packet

SETTINGS = [
    "mqtt.packet_bytes_max=1000", "mqtt.receive_maximum=2", "mqtt.client_id_bytes_max=30", "mqtt.subscriptions_max=2",
    "mqtt.topic_alias_maximum=3",
]  # fmt: skip


def unacceptable_connect(**fields: Any) -> Callable[[Connection], Packet]:
    def act(connection: Connection) -> Packet:
        connection.send("CONNECT", **fields)
        return connection.receive()

    return act


def after_connect(*packets: tuple[str, dict[str, Any]]) -> Callable[[Connection], Packet]:
    """Connects, sends, and returns the first DISCONNECT or refusing acknowledgement."""

    def act(connection: Connection) -> Packet:
        connection.connect("limited")
        for kind, fields in packets:
            connection.send(kind, **fields)
        while True:
            packet = connection.receive()
            codes = packet.fields.get("reasons") or [packet.fields.get("reason", 0)]
            if max(codes) >= 0x80:
                return packet

    return act


def filters(*names: str) -> dict[str, Any]:
    return {"id": 1, "filters": [{"filter": name} for name in names]}


# Name: (what is done, reason code, what the reason string must say).
REFUSALS = {
    "long client id": (unacceptable_connect(client_id="x" * 31), 0x85, r"\b30\b"),
    "version": (unacceptable_connect(client_id="x", level=9), 0x84, r"\b9\b"),
    "authentication method": (
        unacceptable_connect(client_id="x", properties={"authentication_method": "magic"}), 0x8C, "magic"),
    "large packet": (after_connect(("PUBLISH", {"topic": "t", "payload": bytes(2000)})), 0x95, r"\b1000\b"),
    "receive maximum": (
        after_connect(*[("PUBLISH", {"topic": "t", "qos": 2, "id": number}) for number in (1, 2, 3)]), 0x93, r"\b2\b"),
    "topic alias": (after_connect(("PUBLISH", {"topic": "t", "properties": {"topic_alias": 4}})), 0x94, r"\b3\b"),
    "topic name": (after_connect(("PUBLISH", {"topic": "a/#"})), 0x90, "#"),
    "second CONNECT": (after_connect(("CONNECT", {"client_id": "x"})), 0x82, "CONNECT"),
    "many subscriptions": (after_connect(("SUBSCRIBE", filters("a", "b", "c"))), 0x97, r"\b2\b"),
    "topic filter": (after_connect(("SUBSCRIBE", filters("a#b"))), 0x8F, "#"),
    "keep alive": (unacceptable_connect(client_id="x", keep_alive=1), 0x8D, "keep alive"),
    "malformed": (after_connect(("PINGREQ", {"flags": 1})), 0x81, "PINGREQ"),
}  # fmt: skip


@pytest.fixture(scope="module")
def limited() -> Any:
    from harness.broker import start

    broker = start(settings=SETTINGS)
    yield broker
    broker.stop()


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal_names_its_reason(limited: Broker, name: str) -> None:
    act, code, words = REFUSALS[name]
    with limited.connection() as connection:
        packet = act(connection)
        if packet.kind == "CONNACK" and packet.reason == 0:
            packet = connection.receive()
        assert code in (packet.fields.get("reasons") or [packet.reason]), packet
        assert re.search(words, packet.properties.get("reason_string", "")), packet
        if packet.kind != "SUBACK":
            connection.expect_closed()
    limited.probe()


def test_takeover_says_so(limited: Broker) -> None:
    with limited.client("same") as older, limited.client("same"):
        packet = older.expect("DISCONNECT", reason=0x8E)
        assert "client id" in packet.properties.get("reason_string", "")


def test_refusal_without_problem_information_has_no_words_in_acks(limited: Broker) -> None:
    with limited.connection() as connection:
        connection.connect("quiet", properties={"request_problem_information": 0})
        connection.send("SUBSCRIBE", **filters("a", "b", "c"))
        assert connection.expect("SUBACK").properties == {}


def test_subscribe_names_no_more_filters_than_a_session_may_have(limited: Broker) -> None:
    with limited.connection() as connection:
        connection.connect("repeats")
        connection.send("SUBSCRIBE", **filters("a", "a", "a"))
        assert connection.expect("SUBACK").fields["reasons"] == [0, 0, 0x97]


def test_one_unsubscribe_ends_many_subscriptions(broker: Broker) -> None:
    """Those it names and no others, shared ones among them; what waited because of a share group goes to the others."""
    count = 2000
    with broker.client("watch") as watch, broker.client("publisher") as publisher:
        with broker.client("many", properties={"receive_maximum": 1}) as many:
            many.subscribe(*[f"f/{number}" for number in range(count)], "$share/a/s/a", "$share/b/s/b", qos=1)
            for topic in ("s/a", "s/a", "s/b", "f/1"):
                publisher.send("PUBLISH", topic=topic, payload=b"before", qos=1, id=1)
                publisher.expect("PUBACK", reason=0)
            watch.subscribe("$share/a/s/a", "$share/b/s/b", qos=1)
            ended = [f"f/{number}" for number in range(0, count, 2)]
            many.send("UNSUBSCRIBE", **filters("$share/a/s/a", *ended, "f/none", "f/0", "$share/b/s/b"))
            first = many.expect("PUBLISH", topic="s/a")
            unsuback = many.expect("UNSUBACK")
            assert unsuback.reasons == [0] + [0] * len(ended) + [0x11, 0x11, 0]
            # One of the group's messages is under way to the member that left; the others are not.
            for topic in ("s/a", "s/b"):
                watch.send("PUBACK", id=watch.expect("PUBLISH", topic=topic, payload=b"before").id)
            watch.quiet()
            assert broker.metrics()["meridian_subscriptions"] == count - len(ended) + 2
            many.send("PUBACK", id=first.id)
            many.send("PUBACK", id=many.expect("PUBLISH", topic="f/1").id)
            for number in (0, 1, count - 2, count - 1):
                publisher.send("PUBLISH", topic=f"f/{number}", qos=1, id=1)
                publisher.expect("PUBACK", reason=0 if number % 2 else 0x10)
            for number in (1, count - 1):
                many.send("PUBACK", id=many.expect("PUBLISH", topic=f"f/{number}").id)
            many.send("DISCONNECT")
            many.expect_closed()
        watch.quiet()
        assert broker.metrics()["meridian_subscriptions"] == 2


def test_retained_store_is_limited(start_broker: Callable[..., Broker]) -> None:
    broker = start_broker(settings=["retained.messages_max=2"])
    with broker.client("pub") as pub:
        for number in range(4):
            pub.send("PUBLISH", topic=f"kept/{number}", payload=b"x", retain=1, qos=1, id=number + 1)
            reason = pub.expect("PUBACK").reason
            assert (reason == 0x97) == (number >= 2)
        # Replacing and clearing need no room.
        pub.send("PUBLISH", topic="kept/0", payload=b"y", retain=1, qos=1, id=9)
        assert pub.expect("PUBACK").reason < 0x80
    assert broker.metrics()["meridian_retained_messages"] == 2
    assert broker.metric_sum("meridian_retained_refused_total") == 2


def test_sessions_are_limited(start_broker: Callable[..., Broker]) -> None:
    broker = start_broker(settings=["mqtt.sessions_max=3"])
    clients = [broker.client(f"client-{number}") for number in range(3)]
    with broker.connection() as fourth:
        fourth.send("CONNECT", client_id="fourth")
        packet = fourth.expect("CONNACK")
        assert packet.reason in {0x97, 0x88, 0x89}, packet
        assert re.search(r"\b3\b", packet.properties.get("reason_string", "")), packet
        fourth.expect_closed()
    # A known client may come back, and one that leaves makes room.
    with broker.client("client-0"):
        clients[1].send("DISCONNECT")
        clients[1].expect_closed()
        broker.client("fifth").close()
    assert broker.metric_sum("meridian_sessions_refused_total") == 1


def test_connections_of_a_listener_are_limited(start_broker: Callable[..., Broker], tmp_path: Path) -> None:
    config = tmp_path / "meridian.toml"
    config.write_text(
        '[[listener]]\nurl = "mqtt://127.0.0.1:0"\nconnections_max = 2\n\n[[listener]]\nurl = "mqtt://127.0.0.1:0"\n\n'
        '[[listener]]\nurl = "http://127.0.0.1:0"\n'
    )
    broker = start_broker("--config", str(config), listeners=())
    with broker.client("one") as one, broker.client("two"):
        with Connection(broker.address("mqtt", 0)) as third, pytest.raises((Closed, ConnectionError)):
            third.send("CONNECT", client_id="three")
            packet = third.receive()
            assert packet.kind == "CONNACK" and packet.reason in {0x97, 0x88, 0x89, 0x9F}, packet
            third.receive()
        with Connection(broker.address("mqtt", 1)) as elsewhere:
            elsewhere.connect("three")
        one.send("DISCONNECT")
        one.expect_closed()
        broker.client("again").close()
    assert broker.metric_sum("meridian_connections_refused_total", '"limit"') >= 1


def test_connection_without_connect_is_closed(start_broker: Callable[..., Broker], tmp_path: Path) -> None:
    config = tmp_path / "meridian.toml"
    config.write_text(
        '[[listener]]\nurl = "mqtt://127.0.0.1:0"\nconnect_timeout = "1s"\n\n'
        '[[listener]]\nurl = "ws://127.0.0.1:0"\nconnect_timeout = "1s"\n\n[[listener]]\nurl = "http://127.0.0.1:0"\n'
    )
    broker = start_broker("--config", str(config), listeners=())
    for scheme in ("mqtt", "ws"):
        with Connection(broker.address(scheme)) as silent:
            silent.expect_closed()
        with Connection(broker.address(scheme)) as slow:
            slow.send_bytes(b"\x10\x20" if scheme == "mqtt" else b"GET /mqtt HTTP/1.1\r\n")
            slow.drain_to_end()
    assert broker.metric_sum("meridian_connections_refused_total", '"connect-timeout"') == 4


def test_topics_of_the_server_cannot_be_written(start_broker: Callable[..., Broker]) -> None:
    broker = start_broker(settings=["server.sys_interval=0s"])
    with broker.client("reader") as reader, broker.client("writer") as writer:
        reader.subscribe("$SYS/#")
        writer.send("PUBLISH", topic="$SYS/broker/version", payload=b"forged", qos=1, id=1, retain=1)
        assert writer.expect("PUBACK").reason >= 0x80
        writer.quiet(), reader.quiet()
    assert broker.metric_sum("meridian_messages_refused_total") == 1


def test_acks_of_many_filters_fit_the_client(broker: Broker) -> None:
    """The reason string goes first; an ack that is too large without it ends the connection before anything is done.
    [MQTT-3.1.2-24] [MQTT-3.9.2-1] [MQTT-3.11.2-1]"""
    many = [f"f/{number}" for number in range(200)]
    with broker.connection() as client:
        client.connect("fits", properties={"maximum_packet_size": 210})
        client.send("SUBSCRIBE", **filters(*many[:199], "a#b"))
        suback = client.expect("SUBACK")
        assert suback.reasons[-1] == 0x8F and len(suback.reasons) == 200 and suback.properties == {}
        client.send("UNSUBSCRIBE", **filters(*many[:199], "a#b"))
        unsuback = client.expect("UNSUBACK")
        assert unsuback.reasons[-1] == 0x8F and unsuback.properties == {}
    for kind in ("SUBSCRIBE", "UNSUBSCRIBE"):
        with broker.connection() as client, broker.client("publisher") as publisher:
            client.connect("bursts", properties={"maximum_packet_size": 205, "session_expiry_interval": 100}, clean_start=0)
            if kind == "UNSUBSCRIBE":
                client.subscribe("f/0", qos=1)
            client.send(kind, **filters(*many))
            packet = client.expect("DISCONNECT", reason=0x95)
            assert re.search(r"\b205\b", packet.properties["reason_string"]), packet
            client.expect_closed()
            publisher.send("PUBLISH", topic="f/0", qos=1, id=1)
            reason = publisher.expect("PUBACK").reason
            assert reason == (0x10 if kind == "SUBSCRIBE" else 0), f"{kind} took effect"
