"""A raw WebSocket client: the handshake and frames are written by hand, so that they can be wrong."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import struct
import time

from .client import WAIT, Closed, Connection

TEXT, BINARY, CONTINUATION, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(opcode: int, payload: bytes, fin: bool = True, mask: bool = True, reserved: int = 0) -> bytes:
    """The bytes of one frame (RFC 6455 §5.2)."""
    first = (0x80 if fin else 0) | reserved << 4 | opcode
    masked = 0x80 if mask else 0
    if len(payload) < 126:
        head = struct.pack(">BB", first, masked | len(payload))
    elif len(payload) < 1 << 16:
        head = struct.pack(">BBH", first, masked | 126, len(payload))
    else:
        head = struct.pack(">BBQ", first, masked | 127, len(payload))
    if not mask:
        return head + payload
    key = os.urandom(4)
    repeated = key * (len(payload) // 4 + 1)
    return head + key + bytes(a ^ b for a, b in zip(payload, repeated))


class WebSocket(Connection):
    """A connection whose MQTT bytes travel in frames. What is sent as packets goes out in one binary frame each."""

    def __init__(self, address: tuple[str, int], version: int = 5, path: str = "/mqtt", headers: dict[str, str] | None = None):
        super().__init__(address, version)
        self.raw = bytearray()
        self.controls: list[tuple[int, bytes]] = []
        self.key = base64.b64encode(os.urandom(16))
        self.status, self.headers = self._handshake(path, address, headers or {})

    def _handshake(self, path: str, address: tuple[str, int], changes: dict[str, str]) -> tuple[int, dict[str, str]]:
        lines = {
            "Host": f"{address[0]}:{address[1]}", "Upgrade": "websocket", "Connection": "Upgrade",
            "Sec-WebSocket-Key": self.key.decode(), "Sec-WebSocket-Version": "13", "Sec-WebSocket-Protocol": "mqtt",
        }  # fmt: skip
        lines.update(changes)
        request = f"GET {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items() if v) + "\r\n"
        self.socket.sendall(request.encode())
        while b"\r\n\r\n" not in self.raw:
            data = self.socket.recv(4096)
            if not data:
                break
            self.raw += data
        head, _, rest = bytes(self.raw).partition(b"\r\n\r\n")
        self.raw = bytearray(rest)
        status, *fields = head.decode().split("\r\n")
        pairs = (line.partition(":") for line in fields)
        return int(status.split()[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}

    def accept_is_right(self) -> bool:
        expected = base64.b64encode(hashlib.sha1(self.key + GUID).digest()).decode()
        return self.headers.get("sec-websocket-accept") == expected

    def send_raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_bytes(self, data: bytes) -> None:
        self.send_raw(frame(BINARY, data))

    def _fill(self, deadline: float) -> None:
        """Reads frames until one carries MQTT bytes; remembers control frames; a close frame ends the stream."""
        while True:
            taken = self._take_frame()
            if taken is None:
                self._read(deadline)
                continue
            opcode, payload = taken
            if opcode in (BINARY, CONTINUATION):
                self.buffer += payload
                return
            self.controls.append((opcode, payload))
            if opcode == CLOSE:
                raise Closed("the broker closed the WebSocket")

    def _read(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no frame came")
        self.socket.settimeout(left)
        try:
            data = self.socket.recv(65536)
        except ConnectionError as error:
            raise Closed(str(error)) from error
        if not data:
            raise Closed("closed")
        self.raw += data

    def _take_frame(self) -> tuple[int, bytes] | None:
        raw = self.raw
        if len(raw) < 2:
            return None
        assert not raw[1] & 0x80, "a server must not mask (RFC 6455 §5.1)"
        assert not raw[0] & 0x70, "reserved bits without an extension"
        length, at = raw[1] & 0x7F, 2
        if length >= 126:
            size = 2 if length == 126 else 8
            if len(raw) < 2 + size:
                return None
            length, at = int.from_bytes(raw[2 : 2 + size], "big"), 2 + size
        if len(raw) < at + length:
            return None
        payload = bytes(raw[at : at + length])
        opcode = raw[0] & 0x0F
        del raw[: at + length]
        return opcode, payload

    def next_control(self, opcode: int) -> bytes:
        """The payload of the next control frame of this kind."""
        deadline = time.monotonic() + WAIT
        while not any(kind == opcode for kind, _ in self.controls):
            try:
                self._fill(deadline)
            except Closed:
                if opcode != CLOSE:
                    raise
        index = [kind for kind, _ in self.controls].index(opcode)
        return self.controls.pop(index)[1]

    def shut(self) -> None:
        """Half-closes the socket."""
        self.socket.shutdown(socket.SHUT_WR)
