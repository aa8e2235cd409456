"""A raw connection: sends packets or bytes, receives packets. No threads; every wait has a deadline."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from .wire import Packet, WireError, decode, encode, split_frame

#: How long to wait for something that must come, in seconds. Generous: it is only spent on failure.
WAIT = 15.0


class Closed(Exception):
    """The broker closed the connection."""


class Connection:
    """One TCP connection that speaks MQTT `version` once a CONNECT of that version was sent."""

    def __init__(self, address: tuple[str, int], version: int = 5, receive_buffer: int | None = None):
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket = socket.socket(family)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(WAIT)
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.version, self.buffer = version, bytearray()
        # What this client promised in CONNECT; the broker is held to it in every packet that follows.
        self.packet_bytes_max, self.alias_max, self.aliases = 0, 0, {}

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send(self, kind: str, **fields: Any) -> None:
        """Sends a packet; `properties` go in by the name `properties`."""
        if kind == "CONNECT":
            self.version = fields.pop("version", self.version)
            properties = fields.get("properties", {})
            self.packet_bytes_max = properties.get("maximum_packet_size", 0)
            self.alias_max, self.aliases = properties.get("topic_alias_maximum", 0), {}
        self.send_bytes(encode(Packet(kind, fields), self.version))

    def receive(self, wait: float = WAIT) -> Packet:
        """The next packet. Raises Closed at the end of the stream, TimeoutError after `wait` seconds."""
        deadline = time.monotonic() + wait
        while True:
            found = split_frame(self.buffer)
            if found:
                first_byte, body, used = found
                del self.buffer[:used]
                packet = decode(first_byte, body, self.version)
                if 0 < self.packet_bytes_max < used:
                    raise WireError(f"{used} bytes, over the maximum packet size [MQTT-3.1.2-24]: {packet}")
                return packet
            self._fill(deadline)

    def resolve_topic(self, packet: Packet) -> str:
        """The topic of a PUBLISH, by its alias if it has one."""
        alias = packet.properties.get("topic_alias")
        if alias is None:
            return packet.topic
        if not 0 < alias <= self.alias_max:
            raise WireError(f"topic alias {alias} of {self.alias_max} [MQTT-3.1.2-26]")
        if packet.topic:
            self.aliases[alias] = packet.topic
        return self.aliases[alias]

    def _fill(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"nothing more came; pending bytes: {bytes(self.buffer).hex(' ')}")
        self.socket.settimeout(left)
        try:
            data = self.socket.recv(65536)
        except ConnectionError as error:
            raise Closed(f"connection lost: {error}") from error
        if not data:
            raise Closed("connection closed by the broker")
        self.buffer += data

    def expect(self, kind: str, **fields: Any) -> Packet:
        """The next packet, which must be of `kind` and have these fields."""
        packet = self.receive()
        assert packet.kind == kind, f"expected {kind}, got {packet}"
        for name, value in fields.items():
            assert packet.fields.get(name) == value, f"expected {name}={value!r}, got {packet}"
        return packet

    def expect_closed(self, wait: float = WAIT) -> None:
        """The broker closes, having sent nothing more (a DISCONNECT excepted, which must be the last)."""
        try:
            packet = self.receive(wait)
        except Closed:
            return
        assert packet.kind == "DISCONNECT", f"expected the end of the connection, got {packet}"
        try:
            packet = self.receive(wait)
        except Closed:
            return
        raise AssertionError(f"packet after DISCONNECT [MQTT-3.14.4-1]: {packet}")

    def drain_to_end(self) -> None:
        """Reads whatever comes until the broker closes."""
        self.socket.settimeout(WAIT)
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            pass

    def quiet(self) -> None:
        """Nothing is under way to this client: a PINGRESP is the next packet."""
        self.send("PINGREQ")
        self.expect("PINGRESP")

    def connect(self, client_id: str = "", **fields: Any) -> Packet:
        """CONNECT, and the CONNACK that must accept it."""
        self.send("CONNECT", client_id=client_id, **fields)
        return self.expect("CONNACK", reason=0)

    def subscribe(self, *filters: str, qos: int = 0, packet_id: int = 1, **options: Any) -> Packet:
        entries = [{"filter": one, "qos": qos, **options} for one in filters]
        self.send("SUBSCRIBE", id=packet_id, filters=entries)
        return self.expect("SUBACK", id=packet_id, reasons=[qos] * len(filters))

    def drop(self) -> None:
        """Ends the connection with a reset, as a crashed client or a cut network would."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self.socket.close()
