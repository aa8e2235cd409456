"""Clients that break the rules. One broker serves the whole file: after each test it must still serve."""

from __future__ import annotations

import random
import selectors
import socket
import threading
from contextlib import ExitStack
from typing import Iterator

import pytest

from harness.broker import Broker, start
from harness.client import WAIT, Closed
from harness.wire import Packet, encode, varint

CONNECT = encode(Packet("CONNECT", {"client_id": "hostile"}), 5)
SETTINGS = ["mqtt.packet_bytes_max=64 KiB", "server.sys_interval=0s"]


@pytest.fixture(scope="module")
def victim() -> Iterator[Broker]:
    broker = start(settings=SETTINGS)
    yield broker
    broker.stop()


@pytest.fixture(autouse=True)
def still_serves(victim: Broker) -> Iterator[None]:
    yield
    victim.check()
    victim.probe()


def ends(victim: Broker, data: bytes) -> None:
    """These bytes end the connection, with or without a refusal."""
    with victim.connection() as connection:
        try:
            connection.send_bytes(data)
        except ConnectionError:
            return
        while True:
            try:
                packet = connection.receive()
            except Closed:
                return
            assert packet.kind in {"CONNACK", "DISCONNECT", "PINGRESP"}, packet


@pytest.mark.parametrize("cut", range(1, len(CONNECT)))
def test_truncated_connect(victim: Broker, cut: int) -> None:
    with victim.connection() as connection:
        connection.send_bytes(CONNECT[:cut])
        connection.drop()


@pytest.mark.parametrize("kind", ["PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE", "PUBREL"])
def test_packet_truncated_by_its_own_length(victim: Broker, kind: str) -> None:
    """The remaining length is right for the bytes that come, but what is inside is cut short everywhere."""
    fields = {"topic": "a/b", "qos": 1, "id": 1, "filters": [{"filter": "a/b", "qos": 1}], "payload": b"x", "reason": 1}
    whole = encode(Packet(kind, fields), 5)
    body = whole[2:]
    floor = 2 if kind == "PUBREL" else 0
    for cut in range(floor, len(body) - 1):
        # A PUBLISH whose payload is cut, or a PUBREL that ends after its id, is valid.
        if kind == "PUBREL" and cut >= 2 or kind == "PUBLISH" and cut >= len(body) - 1:
            continue
        ends(victim, CONNECT + bytes([whole[0]]) + varint(cut) + body[:cut])


def test_oversize_packet_is_refused_from_its_header(victim: Broker) -> None:
    with victim.connection() as connection:
        connection.connect("hostile")
        connection.send_bytes(b"\x30" + varint(64 * 1024 + 1))
        connection.expect("DISCONNECT", reason=0x95)
        connection.expect_closed()


def test_oversize_connect_is_refused_from_its_header(victim: Broker) -> None:
    ends(victim, b"\x10" + varint(200_000_000))


def test_packet_of_exactly_the_maximum_is_accepted(victim: Broker) -> None:
    with victim.client("hostile") as connection:
        overhead = len(encode(Packet("PUBLISH", {"topic": "t"}), 5)) + 2
        connection.send("PUBLISH", topic="t", payload=bytes(64 * 1024 - overhead))
        connection.quiet()


@pytest.mark.parametrize("first", ["PUBLISH", "PUBACK", "SUBSCRIBE", "UNSUBSCRIBE", "PINGREQ", "DISCONNECT", "AUTH"])
def test_packet_before_connect(victim: Broker, first: str) -> None:
    fields = {"topic": "t", "id": 1, "filters": [{"filter": "t"}]}
    ends(victim, encode(Packet(first, fields), 5))


def test_second_connect(victim: Broker) -> None:
    ends(victim, CONNECT + CONNECT)


@pytest.mark.parametrize("first_byte", [0x00, 0x20, 0x90, 0xB0, 0xD0, *range(0xF1, 0x100)])
def test_packet_that_no_client_sends(victim: Broker, first_byte: int) -> None:
    ends(victim, CONNECT + bytes([first_byte, 2, 0, 1]))


def test_byte_by_byte(victim: Broker) -> None:
    """A slow but correct client is served."""
    with victim.connection() as connection:
        stream = CONNECT + encode(Packet("SUBSCRIBE", {"id": 1, "filters": [{"filter": "slow"}]}), 5)
        stream += encode(Packet("PUBLISH", {"topic": "slow", "payload": b"done"}), 5)
        for byte in stream:
            connection.send_bytes(bytes([byte]))
        connection.expect("CONNACK", reason=0)
        connection.expect("SUBACK")
        connection.expect("PUBLISH", payload=b"done")


def test_half_open_connection_still_gets_its_messages(victim: Broker) -> None:
    """The client has shut down its sending side: whatever the broker makes of that, it must not hang or spin."""
    with victim.connection() as connection:
        connection.connect("half-open")
        connection.socket.shutdown(socket.SHUT_WR)
        connection.expect_closed()


def test_hundreds_of_silent_connections(victim: Broker) -> None:
    with ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(victim.connection())
        victim.probe()


def test_hundreds_of_connections_dropped_at_once(victim: Broker) -> None:
    for _ in range(500):
        victim.connection().drop()


def test_hundreds_of_clients_dropped_in_the_middle(victim: Broker) -> None:
    for index in range(200):
        connection = victim.client(f"flood-{index}", will_topic="flood/will", will_payload=b"x")
        connection.send_bytes(b"\x32\xff\x7f\x00\x05flood")
        connection.drop()


def test_flood_of_garbage(victim: Broker) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    print("seed", seed)
    for _ in range(300):
        connection = victim.connection()
        try:
            connection.send_bytes(rng.randbytes(rng.randrange(1, 4000)))
        except ConnectionError:
            pass
        connection.drop()


def test_flood_of_mutated_packets(victim: Broker) -> None:
    """Valid streams with one byte changed: near misses reach deeper than garbage."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    print("seed", seed)
    properties = {"user_property": [("k", "v")], "content_type": "c", "message_expiry_interval": 9}
    stream = CONNECT
    stream += encode(Packet("SUBSCRIBE", {"id": 1, "filters": [{"filter": "m/+/#", "qos": 2}]}), 5)
    stream += encode(Packet("PUBLISH", {"topic": "m/1", "qos": 2, "id": 2, "properties": properties}), 5)
    stream += encode(Packet("PUBREL", {"id": 2}), 5) + encode(Packet("PUBREC", {"id": 1}), 5)
    stream += encode(Packet("UNSUBSCRIBE", {"id": 3, "filters": [{"filter": "m/+/#"}]}), 5)
    for _ in range(400):
        data = bytearray(stream)
        data[rng.randrange(len(data))] = rng.randrange(256)
        connection = victim.connection()
        try:
            connection.send_bytes(data)
        except ConnectionError:
            pass
        connection.drop()


def test_flood_of_pings_that_are_never_read(victim: Broker) -> None:
    """The answers pile up; the client's own connection may suffer, nobody else."""
    with victim.connection(receive_buffer=4096) as connection:
        connection.connect("pinger")
        connection.socket.settimeout(1)
        try:
            for _ in range(200):
                connection.send_bytes(b"\xc0\x00" * 10_000)
        except (ConnectionError, TimeoutError):
            pass
        victim.probe()


def test_flood_of_subscriptions(victim: Broker) -> None:
    with victim.client("subscriber") as connection:
        for packet_id in range(1, 101):
            connection.subscribe(*[f"many/{packet_id}/{i}/+/#" for i in range(100)], packet_id=packet_id)


@pytest.mark.parametrize("topic", [b"\xff", b"a/\xc3\x28", b"\xed\xa0\x80", b"a\x00b", b"\xf4\x90\x80\x80", b"\xc0\xaf"])
def test_bad_utf8(victim: Broker, topic: bytes) -> None:
    ends(victim, CONNECT + encode(Packet("PUBLISH", {"topic": topic}), 5))
    ends(victim, CONNECT + encode(Packet("SUBSCRIBE", {"id": 1, "filters": [{"filter": topic}]}), 5))
    ends(victim, encode(Packet("CONNECT", {"client_id": topic}), 5))


@pytest.mark.parametrize("levels", [129, 1_000, 32_000])
def test_topic_of_many_levels(victim: Broker, levels: int) -> None:
    """Refused by name, or served; never a deep recursion."""
    for topic in ("/" * (levels - 1), "/".join(["x"] * levels)):
        with victim.client("deep") as connection:
            connection.send("PUBLISH", topic=topic, qos=1, id=1)
            packet = connection.receive()
            assert packet.kind in {"PUBACK", "DISCONNECT"} and packet.reason, packet
        with victim.client("deep") as connection:
            connection.send("SUBSCRIBE", id=1, filters=[{"filter": topic}])
            packet = connection.receive()
            assert packet.kind == "DISCONNECT" or packet.reasons[0] >= 0x80, packet


def test_filters_of_many_wildcards(victim: Broker) -> None:
    """Exponential for a matcher that backtracks."""
    with victim.client("wild") as connection:
        filters = ["/".join("+" if bits >> i & 1 else "a" for i in range(12)) for bits in range(4096)]
        for start_at in range(0, 4096, 512):
            connection.subscribe(*filters[start_at : start_at + 512], packet_id=start_at + 1)
        for _ in range(20):
            connection.send("PUBLISH", topic="/".join("a" * 12), payload=b"x")
            connection.expect("PUBLISH", payload=b"x")


def test_endless_properties(victim: Broker) -> None:
    pairs = [("k", "v")] * 9_000
    with victim.client("wordy") as connection:
        connection.subscribe("wordy")
        connection.send("PUBLISH", topic="wordy", payload=b"x", properties={"user_property": pairs})
        assert connection.expect("PUBLISH").properties["user_property"] == pairs


@pytest.mark.parametrize("request_line", ["GET / HTTP/1.1", "POST /mqtt HTTP/1.1", "PRI * HTTP/2.0", "OPTIONS * RTSP/1.0"])
def test_http_on_the_mqtt_port(victim: Broker, request_line: str) -> None:
    ends(victim, f"{request_line}\r\nHost: x\r\n\r\n".encode())


def test_tls_on_the_mqtt_port(victim: Broker) -> None:
    ends(victim, bytes.fromhex("160301020001 0001fc0303".replace(" ", "")) + bytes(500))


def test_mqtt_on_the_http_and_websocket_ports(victim: Broker) -> None:
    for scheme in ("http", "ws"):
        with socket.create_connection(victim.address(scheme), WAIT) as plain:
            plain.sendall(CONNECT + b"\r\n\r\n")
            answer = b""
            while data := plain.recv(4096):
                answer += data
            assert not answer or answer.startswith(b"HTTP/1.1 4"), answer


def test_packet_ids_all_in_use(victim: Broker) -> None:
    """QoS 2 messages that are never released: the receive maximum ends it."""
    with victim.client("greedy") as connection:
        for packet_id in range(1, 1026):
            connection.send("PUBLISH", topic="greedy", qos=2, id=packet_id)
        for _ in range(1024):
            connection.expect("PUBREC")
        connection.expect("DISCONNECT", reason=0x93)


def test_takeover_storm(victim: Broker) -> None:
    """Many connections with one client id from several threads: each is accepted, in the end one is alive."""
    connections = []
    lock = threading.Lock()

    def storm() -> None:
        for _ in range(50):
            connection = victim.connection()
            connection.send("CONNECT", client_id="contested", clean_start=0)
            with lock:
                connections.append(connection)

    threads = [threading.Thread(target=storm) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for connection in connections:
        connection.expect("CONNACK", reason=0)
    waiting = selectors.DefaultSelector()
    for connection in connections:
        waiting.register(connection.socket, selectors.EVENT_READ, connection)
    while len(waiting.get_map()) > 1:
        ready = waiting.select(WAIT)
        assert ready, f"{len(waiting.get_map())} connections are alive"
        for key, _ in ready:
            key.data.expect("DISCONNECT", reason=0x8E)
            key.data.expect_closed()
            waiting.unregister(key.data.socket)
    for key in list(waiting.get_map().values()):
        key.data.quiet()
    for connection in connections:
        connection.close()
