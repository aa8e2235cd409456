"""An MQTT 3.1.1 and 5.0 codec that shares nothing with the broker's.

It is lenient on purpose: it encodes what it is told, also what the specification forbids, so that tests can
send it. Packets are `Packet(kind, fields)`; the field names are those of the transcripts (see README.md).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

KINDS = (
    "RESERVED CONNECT CONNACK PUBLISH PUBACK PUBREC PUBREL PUBCOMP SUBSCRIBE SUBACK UNSUBSCRIBE UNSUBACK "
    "PINGREQ PINGRESP DISCONNECT AUTH"
).split()

# name: (identifier, type); the types are those of MQTT 5.0 §2.2.2.2.
PROPERTIES = {
    "payload_format_indicator": (0x01, "byte"),
    "message_expiry_interval": (0x02, "u32"),
    "content_type": (0x03, "string"),
    "response_topic": (0x08, "string"),
    "correlation_data": (0x09, "binary"),
    "subscription_identifier": (0x0B, "varint"),
    "session_expiry_interval": (0x11, "u32"),
    "assigned_client_identifier": (0x12, "string"),
    "server_keep_alive": (0x13, "u16"),
    "authentication_method": (0x15, "string"),
    "authentication_data": (0x16, "binary"),
    "request_problem_information": (0x17, "byte"),
    "will_delay_interval": (0x18, "u32"),
    "request_response_information": (0x19, "byte"),
    "response_information": (0x1A, "string"),
    "server_reference": (0x1C, "string"),
    "reason_string": (0x1F, "string"),
    "receive_maximum": (0x21, "u16"),
    "topic_alias_maximum": (0x22, "u16"),
    "topic_alias": (0x23, "u16"),
    "maximum_qos": (0x24, "byte"),
    "retain_available": (0x25, "byte"),
    "user_property": (0x26, "pair"),
    "maximum_packet_size": (0x27, "u32"),
    "wildcard_subscription_available": (0x28, "byte"),
    "subscription_identifier_available": (0x29, "byte"),
    "shared_subscription_available": (0x2A, "byte"),
}
PROPERTY_BY_ID = {number: (name, kind) for name, (number, kind) in PROPERTIES.items()}
REPEATABLE = {"user_property", "subscription_identifier"}


class WireError(Exception):
    """The broker sent bytes that are no MQTT."""


@dataclass
class Packet:
    """A control packet. `fields["properties"]` maps names to values; repeatable ones to lists of values."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(f"{self.kind} has no field {name}") from None

    @property
    def properties(self) -> dict[str, Any]:
        return self.fields.get("properties", {})

    def __str__(self) -> str:
        parts = [f"{k}={v!r}" for k, v in self.fields.items() if k != "properties"]
        parts += [f"{k}={v!r}" for k, v in self.properties.items()]
        return " ".join([self.kind, *parts])


# --- encoding -------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """A variable byte integer in its shortest form."""
    out = bytearray()
    while True:
        value, low = divmod(value, 128)
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def text(value: str | bytes) -> bytes:
    """A length-prefixed string or binary; bytes go out as they are, well-formed or not."""
    data = value.encode("utf-8") if isinstance(value, str) else value
    return struct.pack(">H", len(data)) + data


def frame(first_byte: int, body: bytes) -> bytes:
    return bytes([first_byte]) + varint(len(body)) + body


def encode_property(name: str, value: Any) -> bytes:
    number, kind = PROPERTIES[name]
    head = bytes([number])
    match kind:
        case "byte":
            return head + bytes([value])
        case "u16":
            return head + struct.pack(">H", value)
        case "u32":
            return head + struct.pack(">I", value)
        case "varint":
            return head + varint(value)
        case "pair":
            return head + text(value[0]) + text(value[1])
        case _:
            return head + text(value)


def encode_properties(properties: dict[str, Any]) -> bytes:
    out = b""
    for name, value in properties.items():
        values = value if name in REPEATABLE and isinstance(value, list) else [value]
        out += b"".join(encode_property(name, one) for one in values)
    return varint(len(out)) + out


def encode(packet: Packet, version: int) -> bytes:
    """The bytes of a packet in protocol version 4 (3.1.1) or 5."""
    f = packet.fields
    props = encode_properties(packet.properties) if version == 5 else b""
    match packet.kind:
        case "CONNECT":
            return _encode_connect(f, props, version)
        case "PUBLISH":
            return _encode_publish(f, props)
        case "PUBACK" | "PUBREC" | "PUBREL" | "PUBCOMP":
            flags = f.get("flags", 2 if packet.kind == "PUBREL" else 0)
            body = struct.pack(">H", f["id"])
            if version == 5 and (f.get("reason", 0) or packet.properties):
                body += bytes([f.get("reason", 0)])
                body += props if packet.properties else b""
            return frame(KINDS.index(packet.kind) << 4 | flags, body)
        case "SUBSCRIBE":
            body = struct.pack(">H", f["id"]) + props
            for entry in f["filters"]:
                body += text(entry["filter"]) + bytes([_options(entry)])
            return frame(0x80 | f.get("flags", 2), body)
        case "UNSUBSCRIBE":
            body = struct.pack(">H", f["id"]) + props
            body += b"".join(text(entry["filter"]) for entry in f["filters"])
            return frame(0xA0 | f.get("flags", 2), body)
        case "PINGREQ":
            return frame(0xC0 | f.get("flags", 0), b"")
        case "DISCONNECT" | "AUTH":
            body = b""
            if version == 5 and (f.get("reason", 0) or packet.properties):
                body = bytes([f.get("reason", 0)]) + (props if packet.properties else b"")
            return frame(KINDS.index(packet.kind) << 4 | f.get("flags", 0), body)
    raise ValueError(f"no encoding for {packet.kind}")


def _options(entry: dict[str, Any]) -> int:
    if "options" in entry:
        return entry["options"]
    return entry.get("qos", 0) | entry.get("nl", 0) << 2 | entry.get("rap", 0) << 3 | entry.get("rh", 0) << 4


def _encode_connect(f: dict[str, Any], props: bytes, version: int) -> bytes:
    will = "will_topic" in f
    flags = f.get("clean_start", 1) << 1
    if will:
        flags |= 0x04 | f.get("will_qos", 0) << 3 | f.get("will_retain", 0) << 5
    flags |= 0x40 if "password" in f else 0
    flags |= 0x80 if "username" in f else 0
    flags = f.get("connect_flags", flags)
    body = text(f.get("protocol", "MQTT")) + bytes([f.get("level", version), flags])
    body += struct.pack(">H", f.get("keep_alive", 0)) + props + text(f.get("client_id", ""))
    if will:
        if version == 5:
            body += encode_properties(f.get("will_properties", {}))
        body += text(f["will_topic"]) + text(f.get("will_payload", b""))
    if "username" in f:
        body += text(f["username"])
    if "password" in f:
        body += text(f["password"])
    return frame(0x10 | f.get("flags", 0), body)


def _encode_publish(f: dict[str, Any], props: bytes) -> bytes:
    qos = f.get("qos", 0)
    body = text(f.get("topic", ""))
    if qos or "id" in f:
        body += struct.pack(">H", f.get("id", 0))
    payload = f.get("payload", b"")
    body += props + (payload.encode() if isinstance(payload, str) else payload)
    return frame(0x30 | f.get("dup", 0) << 3 | qos << 1 | f.get("retain", 0), body)


# --- decoding -------------------------------------------------------------------------------------------


class Reader:
    """A cursor over one packet's body that refuses to read past its end."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise WireError(f"packet ends early: {self.data.hex(' ')}")
        self.at += count
        return self.data[self.at - count : self.at]

    def left(self) -> int:
        return len(self.data) - self.at

    def byte(self) -> int:
        return self.take(1)[0]

    def u16(self) -> int:
        return struct.unpack(">H", self.take(2))[0]

    def varint(self) -> int:
        value = 0
        for shift in (0, 7, 14, 21):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if shift and not byte:
                    raise WireError("variable byte integer is longer than it need be [MQTT-1.5.5-1]")
                return value
        raise WireError("variable byte integer of more than four bytes")

    def binary(self) -> bytes:
        return self.take(self.u16())

    def text(self) -> str:
        value = self.binary().decode("utf-8")
        if "\0" in value:
            raise WireError("string with U+0000 [MQTT-1.5.4-2]")
        return value

    def properties(self) -> dict[str, Any]:
        inner = Reader(self.take(self.varint()))
        out: dict[str, Any] = {}
        while inner.left():
            name, kind = PROPERTY_BY_ID[inner.byte()]
            match kind:
                case "byte":
                    value: Any = inner.byte()
                case "u16":
                    value = inner.u16()
                case "u32":
                    value = struct.unpack(">I", inner.take(4))[0]
                case "varint":
                    value = inner.varint()
                case "pair":
                    value = (inner.text(), inner.text())
                case "binary":
                    value = inner.binary()
                case _:
                    value = inner.text()
            if name in REPEATABLE:
                out.setdefault(name, []).append(value)
            elif name in out:
                raise WireError(f"property {name} twice")
            else:
                out[name] = value
        return out


def split_frame(buffer: bytes) -> tuple[int, bytes, int] | None:
    """(first byte, body, bytes used) of the first whole packet in `buffer`, or None."""
    value = 0
    for index in range(1, min(len(buffer), 5)):
        value |= (buffer[index] & 0x7F) << 7 * (index - 1)
        if buffer[index] < 0x80:
            if index > 1 and buffer[index] == 0:
                raise WireError("remaining length is longer than it need be")
            end = index + 1 + value
            return (buffer[0], bytes(buffer[index + 1 : end]), end) if len(buffer) >= end else None
    if len(buffer) >= 5:
        raise WireError(f"remaining length of more than four bytes: {bytes(buffer[:8]).hex(' ')}")
    return None


def decode(first_byte: int, body: bytes, version: int) -> Packet:
    """What the broker sent. Strict: anything a server may not send is a WireError."""
    kind, flags = KINDS[first_byte >> 4], first_byte & 0x0F
    r = Reader(body)
    f: dict[str, Any] = {}
    if kind != "PUBLISH" and flags != (2 if kind == "PUBREL" else 0):
        raise WireError(f"{kind} with flags {flags:#x} [MQTT-2.1.3-1]")
    match kind:
        case "CONNACK":
            ack_flags = r.byte()
            if ack_flags > 1:
                raise WireError(f"CONNACK flags {ack_flags:#x} [MQTT-3.2.2-1]")
            f = {"session_present": ack_flags, "reason": r.byte()}
            if version == 5:
                f["properties"] = r.properties()
        case "PUBLISH":
            f = {"dup": flags >> 3, "qos": flags >> 1 & 3, "retain": flags & 1, "topic": r.text()}
            if f["qos"] == 3:
                raise WireError("PUBLISH with QoS 3 [MQTT-3.3.1-4]")
            if f["qos"]:
                f["id"] = r.u16()
                if not f["id"]:
                    raise WireError("PUBLISH with packet id 0 [MQTT-2.2.1-4]")
            if version == 5:
                f["properties"] = r.properties()
            f["payload"] = r.take(r.left())
        case "PUBACK" | "PUBREC" | "PUBREL" | "PUBCOMP":
            f = {"id": r.u16(), "reason": 0}
            if version == 5 and r.left():
                f["reason"] = r.byte()
                f["properties"] = r.properties() if r.left() else {}
        case "SUBACK" | "UNSUBACK":
            f = {"id": r.u16()}
            if version == 5:
                f["properties"] = r.properties()
            f["reasons"] = list(r.take(r.left()))
        case "PINGRESP":
            pass
        case "DISCONNECT" | "AUTH":
            if version == 4:
                raise WireError(f"{kind} to a 3.1.1 client")
            f = {"reason": r.byte() if r.left() else 0}
            f["properties"] = r.properties() if r.left() else {}
        case _:
            raise WireError(f"a server may not send {kind}")
    if r.left():
        raise WireError(f"{kind} with {r.left()} bytes too many: {body.hex(' ')}")
    return Packet(kind, f)
