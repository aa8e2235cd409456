"""MQTT over WebSocket (MQTT 5.0 §6, RFC 6455): on the ws listener, and on /mqtt of the http listener."""

from __future__ import annotations

import socket
import struct
from typing import Iterator

import pytest

from harness.broker import Broker
from harness.client import WAIT, Closed
from harness.websocket import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, WebSocket, frame
from harness.wire import Packet, encode

CONNECT = encode(Packet("CONNECT", {"client_id": "ws"}), 5)
SUBSCRIBE = encode(Packet("SUBSCRIBE", {"id": 1, "filters": [{"filter": "t"}]}), 5)
PUBLISH = encode(Packet("PUBLISH", {"topic": "t", "payload": b"x"}), 5)


@pytest.fixture(params=["ws", "http"])
def address(request: pytest.FixtureRequest, shared_broker: Broker) -> Iterator[tuple[str, int]]:
    yield shared_broker.address(request.param)
    shared_broker.check()
    shared_broker.probe()


def test_handshake_selects_the_subprotocol_mqtt(address: tuple[str, int]) -> None:
    """[MQTT-6.0.0-4] [MQTT3-6.0.0-4]"""
    with WebSocket(address) as ws:
        assert ws.status == 101 and ws.accept_is_right()
        assert ws.headers["sec-websocket-protocol"] == "mqtt"
        ws.connect("ws")


def test_handshake_selects_mqtt_from_a_list(address: tuple[str, int]) -> None:
    """[MQTT-6.0.0-4]"""
    with WebSocket(address, headers={"Sec-WebSocket-Protocol": "mqttv3.1, mqtt, other"}) as ws:
        assert ws.status == 101 and ws.headers["sec-websocket-protocol"] == "mqtt"
        ws.connect("ws", version=4)


def test_client_that_does_not_offer_mqtt_is_refused_or_gets_no_subprotocol(address: tuple[str, int]) -> None:
    """[MQTT-6.0.0-3] [MQTT3-6.0.0-3] bind the client; the server selects nothing that was not offered."""
    for offer in ("", "amqp"):
        with WebSocket(address, headers={"Sec-WebSocket-Protocol": offer}) as ws:
            assert ws.status >= 400 or "sec-websocket-protocol" not in ws.headers


def test_text_frame_closes_the_connection(address: tuple[str, int]) -> None:
    """[MQTT-6.0.0-1] [MQTT3-6.0.0-1]"""
    with WebSocket(address) as ws:
        ws.connect("ws")
        ws.send_raw(frame(TEXT, b"\xc0\x00"))
        assert struct.unpack(">H", ws.next_control(CLOSE)[:2])[0] in {1002, 1003}
        ws.expect_closed()


def test_several_packets_in_one_frame(address: tuple[str, int]) -> None:
    """[MQTT-6.0.0-2] [MQTT3-6.0.0-2]"""
    with WebSocket(address) as ws:
        ws.send_bytes(CONNECT + SUBSCRIBE + PUBLISH + PUBLISH)
        ws.expect("CONNACK", reason=0)
        ws.expect("SUBACK")
        ws.expect("PUBLISH"), ws.expect("PUBLISH")


def test_one_packet_in_many_frames(address: tuple[str, int]) -> None:
    """[MQTT-6.0.0-2] [MQTT3-6.0.0-2]"""
    with WebSocket(address) as ws:
        for byte in CONNECT + SUBSCRIBE + PUBLISH:
            ws.send_bytes(bytes([byte]))
        ws.expect("CONNACK", reason=0)
        ws.expect("SUBACK")
        ws.expect("PUBLISH", payload=b"x")


def test_fragmented_message_with_a_ping_in_between(address: tuple[str, int]) -> None:
    """[MQTT-6.0.0-2], RFC 6455 §5.4: control frames may come between the fragments."""
    with WebSocket(address) as ws:
        ws.send_raw(frame(BINARY, CONNECT[:5], fin=False))
        ws.send_raw(frame(PING, b"are you there"))
        ws.send_raw(frame(CONTINUATION, CONNECT[5:9], fin=False))
        ws.send_raw(frame(CONTINUATION, CONNECT[9:] + SUBSCRIBE[:3]))
        ws.send_raw(frame(BINARY, SUBSCRIBE[3:]))
        ws.expect("CONNACK", reason=0)
        ws.expect("SUBACK")
        assert ws.next_control(PONG) == b"are you there"


def test_empty_frames_are_harmless(address: tuple[str, int]) -> None:
    with WebSocket(address) as ws:
        ws.send_bytes(b"")
        ws.connect("ws")
        ws.send_raw(frame(BINARY, b"", fin=False) + frame(CONTINUATION, b""))
        ws.quiet()


def test_close_handshake(address: tuple[str, int]) -> None:
    with WebSocket(address) as ws:
        ws.connect("ws")
        ws.send_raw(frame(CLOSE, struct.pack(">H", 1000)))
        assert ws.next_control(CLOSE)[:2] == struct.pack(">H", 1000)
        ws.expect_closed()


def test_will_after_websocket_close_without_disconnect(shared_broker: Broker, address: tuple[str, int]) -> None:
    with shared_broker.client("witness") as witness, WebSocket(address) as ws:
        witness.subscribe("will")
        ws.connect("ws-will", will_topic="will", will_payload=b"gone")
        ws.send_raw(frame(CLOSE, struct.pack(">H", 1001)))
        witness.expect("PUBLISH", topic="will", payload=b"gone")


def test_large_message_both_ways(address: tuple[str, int]) -> None:
    with WebSocket(address) as ws:
        ws.connect("ws")
        ws.subscribe("large")
        payload = bytes(range(256)) * 3000
        ws.send("PUBLISH", topic="large", payload=payload)
        assert ws.expect("PUBLISH").payload == payload


VIOLATIONS = {
    "unmasked": frame(BINARY, CONNECT, mask=False),
    "reserved bits": frame(BINARY, CONNECT, reserved=4),
    "unknown opcode": frame(3, b""),
    "continuation of nothing": frame(CONTINUATION, CONNECT),
    "new message inside a fragmented one": frame(BINARY, CONNECT[:4], fin=False) + frame(BINARY, CONNECT[4:]),
    "fragmented control frame": frame(PING, b"", fin=False),
    "control frame of 126 bytes": frame(PING, bytes(126)),
    "close with half a code": frame(CLOSE, b"\x03"),
    "frame of 2^62 bytes": b"\x82\xff" + struct.pack(">Q", 1 << 62) + bytes(4),
    "length with the top bit": b"\x82\xff" + struct.pack(">Q", 1 << 63) + bytes(4),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_violation_closes_the_connection(address: tuple[str, int], name: str) -> None:
    with WebSocket(address) as ws:
        ws.send_raw(VIOLATIONS[name])
        try:
            while True:
                packet = ws.receive()
                assert packet.kind in {"CONNACK", "DISCONNECT"}, packet
        except Closed:
            pass


REQUESTS = {
    "another path": ("/elsewhere", {}),
    "no key": ("/mqtt", {"Sec-WebSocket-Key": ""}),
    "short key": ("/mqtt", {"Sec-WebSocket-Key": "c2hvcnQ="}),
    "version 8": ("/mqtt", {"Sec-WebSocket-Version": "8"}),
    "no upgrade": ("/mqtt", {"Upgrade": ""}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_bad_handshake_is_answered_by_an_http_error(address: tuple[str, int], name: str) -> None:
    path, headers = REQUESTS[name]
    with WebSocket(address, path=path, headers=headers) as ws:
        assert 400 <= ws.status < 500
        if name == "version 8":
            assert ws.status == 426 and ws.headers["sec-websocket-version"] == "13"


def test_endless_request_header_is_refused(address: tuple[str, int]) -> None:
    with socket.create_connection(address, WAIT) as plain:
        try:
            plain.sendall(b"GET /mqtt HTTP/1.1\r\n" + b"X: y\r\n" * 200_000)
            answer = plain.recv(4096)
        except ConnectionError:
            return
        assert not answer or answer.startswith(b"HTTP/1.1 4"), answer
