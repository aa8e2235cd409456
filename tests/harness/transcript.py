"""Runs a scripted transcript against a broker. The language is described in tests/README.md."""

from __future__ import annotations

import re
import shlex
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .broker import Broker
from .client import WAIT, Closed, Connection
from .wire import PROPERTIES, Packet, WireError

LINE = re.compile(r"^(?P<name>[a-z][a-z0-9_]*)?(?P<verb>>>|<<|<~|--)\s*(?P<rest>.*)$")
HEADER = re.compile(r"^(spec|set|why):\s*(.*)$")
SUBSCRIPTION_OPTIONS = {"qos", "nl", "rap", "rh", "options"}
STRICT_DEFAULTS = {
    "CONNACK": {"session_present": 0, "reason": 0},
    "PUBLISH": {"qos": 0, "retain": 0, "dup": 0},
    "PUBACK": {"reason": 0}, "PUBREC": {"reason": 0}, "PUBREL": {"reason": 0}, "PUBCOMP": {"reason": 0},
}  # fmt: skip
#: Properties a server may add to an acknowledgement on its own; a transcript that does not name them ignores them.
FREE_KINDS = {"CONNACK", "DISCONNECT", "AUTH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBACK", "UNSUBACK"}


class TranscriptError(AssertionError):
    """The broker did not do what the transcript says, or the transcript cannot be read."""


@dataclass
class Line:
    number: int
    name: str
    verb: str
    rest: str


@dataclass
class Transcript:
    """A parsed file: the statements it shows, the settings it needs, and its lines."""

    path: Path
    spec: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)


def parse(path: Path) -> Transcript:
    transcript = Transcript(path)
    for number, raw in enumerate(path.read_text().splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if header := HEADER.match(line):
            key, value = header.groups()
            if key == "spec":
                transcript.spec += [one.strip() for one in value.split(",")]
            elif key == "set":
                transcript.settings.append(value)
            continue
        found = LINE.match(line)
        if not found:
            raise TranscriptError(f"{path.name}:{number}: cannot read {line!r}")
        transcript.lines.append(Line(number, found["name"] or "", found["verb"], found["rest"]))
    return transcript


# --- values ---------------------------------------------------------------------------------------------


def parse_bytes(value: str) -> bytes:
    """`hex:00ff`, `repeat:x*1000`, or the text itself in UTF-8."""
    if value.startswith("hex:"):
        return bytes.fromhex(value[4:])
    if value.startswith("repeat:"):
        unit, count = value[7:].rsplit("*", 1)
        return unit.encode() * int(count)
    return value.encode()


def parse_value(name: str, value: str) -> Any:
    """A field's value in the type the codec wants. Text may be `hex:` too, so that it can be ill-formed."""
    kind = PROPERTIES[name][1] if name in PROPERTIES else None
    if name in {"payload", "will_payload", "password"} or kind == "binary":
        return parse_bytes(value)
    if name == "user_property":
        key, _, content = value.partition("=")
        return (as_text(key), as_text(content))
    if name in {"topic", "will_topic", "client_id", "username", "filter", "protocol"} or kind == "string":
        return as_text(value)
    if name == "reason" and "|" in value:
        return {int(one, 0) for one in value.split("|")}
    if name == "reasons":
        return [int(one, 0) for one in value.split(",")]
    return int(value, 0)


def as_text(value: str) -> str | bytes:
    data = parse_bytes(value)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def parse_fields(tokens: list[str], variables: dict[str, Any]) -> tuple[dict[str, Any], set[str], dict[str, str]]:
    """(fields, names that must be absent, names to bind to variables)."""
    fields: dict[str, Any] = {"properties": {}, "will_properties": {}, "filters": []}
    absent: set[str] = set()
    binds: dict[str, str] = {}
    for token in tokens:
        if token.startswith("!"):
            absent.add(token[1:])
            continue
        name, equals, text = token.partition("=")
        if not equals:
            raise TranscriptError(f"{token!r} is no field=value")
        if text.startswith("$") and text[1:].isidentifier():
            if text[1:] not in variables:
                binds[name] = text[1:]
                continue
            value = variables[text[1:]]
        elif text in {"any", "*"} and name != "filter":
            value = text
        else:
            value = parse_value(name.removeprefix("will."), text)
        _store(fields, name, value)
    return fields, absent, binds


def _store(fields: dict[str, Any], name: str, value: Any) -> None:
    if name.startswith("will."):
        target, name = fields["will_properties"], name.removeprefix("will.")
    elif name == "filter":
        fields["filters"].append({"filter": value})
        return
    elif fields["filters"] and name in SUBSCRIPTION_OPTIONS:
        fields["filters"][-1][name] = value
        return
    else:
        target = fields["properties"] if name in PROPERTIES else fields
    if name in {"user_property", "subscription_identifier"}:
        target.setdefault(name, []).append(value)
    else:
        target[name] = value


# --- running --------------------------------------------------------------------------------------------


class Runner:
    """The state of one run: named connections and bound variables."""

    def __init__(self, transcript: Transcript, broker: Broker):
        self.transcript, self.broker = transcript, broker
        self.connections: dict[str, Connection] = {}
        self.variables: dict[str, Any] = {}
        self.history: list[str] = []

    def run(self) -> None:
        lines = self.transcript.lines
        index = 0
        try:
            while index < len(lines):
                group = [lines[index]]
                if group[0].verb == "<~":
                    while index + len(group) < len(lines) and self._same_group(lines[index + len(group)], group[0]):
                        group.append(lines[index + len(group)])
                try:
                    self._step(group)
                except (AssertionError, WireError, TimeoutError, Closed, OSError, ValueError) as error:
                    raise TranscriptError(self._report(group[0], error)) from error
                index += len(group)
        finally:
            for connection in self.connections.values():
                connection.close()

    @staticmethod
    def _same_group(line: Line, first: Line) -> bool:
        return line.verb == "<~" and line.name == first.name

    def _report(self, line: Line, error: Exception) -> str:
        past = "\n".join(f"    {one}" for one in self.history[-12:])
        where = f"{self.transcript.path.parent.name}/{self.transcript.path.name}:{line.number}"
        return f"{where}: {line.name}{line.verb} {line.rest}\n  {type(error).__name__}: {error}\n  seen so far:\n{past}"

    def _step(self, group: list[Line]) -> None:
        line = group[0]
        match line.verb:
            case ">>":
                self._send(line)
            case "<<" | "<~":
                self._receive(group)
            case "--":
                self._control(line)

    def _connection(self, name: str) -> Connection:
        if name not in self.connections:
            self.connections[name] = self.broker.connection()
        return self.connections[name]

    def _send(self, line: Line) -> None:
        connection = self._connection(line.name)
        tokens = shlex.split(line.rest)
        self.history.append(f"{line.name}>> {line.rest}")
        if tokens[0] == "hex":
            connection.send_bytes(bytes.fromhex("".join(tokens[1:])))
            return
        fields, _, binds = parse_fields(tokens[1:], self.variables)
        if binds:
            raise TranscriptError(f"unbound variables: {binds}")
        connection.send(tokens[0], **{k: v for k, v in fields.items() if v != {} and v != []})

    def _receive(self, group: list[Line]) -> None:
        connection = self._connection(group[0].name)
        wanted = list(group)
        while wanted:
            packet = connection.receive()
            self.history.append(f"{group[0].name}<< {packet}")
            reasons = []
            for line in wanted:
                mismatch = self._mismatch(line, packet)
                if mismatch is None:
                    wanted.remove(line)
                    break
                reasons.append(mismatch)
            else:
                raise TranscriptError(f"got {packet}: " + "; ".join(reasons))

    def _mismatch(self, line: Line, packet: Packet) -> str | None:
        """Why the packet is not what the line says; None if it is (then its variables are bound)."""
        tokens = shlex.split(line.rest)
        kind = tokens[0]
        if packet.kind != kind:
            return f"expected {kind}"
        fields, absent, binds = parse_fields(tokens[1:], self.variables)
        properties = fields.pop("properties")
        fields.pop("will_properties"), fields.pop("filters")
        expected = {**STRICT_DEFAULTS.get(kind, {}), **fields}
        for name in binds:
            expected.pop(name, None)
        for name, value in expected.items():
            got = packet.fields.get(name)
            if value != "any" and got != value and not (isinstance(value, set) and got in value):
                return f"{name} should be {value!r}"
        for name, value in properties.items():
            got = packet.properties.get(name)
            if value != "any" and value != ["any"] and not _same(got, value):
                return f"{name} should be {value!r}"
            if got is None:
                return f"{name} is missing"
        for name in absent:
            if name in packet.properties or name in packet.fields:
                return f"{name} should be absent"
        extra = set(packet.properties) - set(properties) - set(binds)
        if kind not in FREE_KINDS and extra:
            return f"unexpected {sorted(extra)}"
        for name, variable in binds.items():
            value = packet.fields.get(name, packet.properties.get(name))
            if value is None:
                return f"{name} is missing"
            self.variables[variable] = value
        return None

    def _control(self, line: Line) -> None:
        verb, *arguments = line.rest.split()
        self.history.append(f"{line.name}-- {line.rest}")
        match verb:
            case "open":
                self._connection(line.name)
            case "closed":
                self._connection(line.name).expect_closed()
                self.connections.pop(line.name).close()
            case "closed-at-once":
                self._closed_at_once(line.name)
            case "refused":
                self._refused(line.name, {int(one, 0) for one in arguments})
            case "deliveries":
                self._deliveries(line.name, arguments)
            case "limit":
                # The client promised to take this much; the connection now checks for less.
                self._connection(line.name).packet_bytes_max = int(arguments[0])
            case "quiet":
                self._connection(line.name).quiet()
            case "drop":
                self.connections.pop(line.name).drop()
            case "close":
                self.connections.pop(line.name).close()
            case "gone":
                # The broker has noticed that the other side of a closed connection is gone.
                self.broker.probe()
            case "version":
                self._connection(line.name).version = int(arguments[0])
            case "pass":
                # Real time, for statements that are about time; never to wait for the broker to do something.
                time.sleep(float(arguments[0].removesuffix("s")))
            case "differ":
                values = [self.variables[one.removeprefix("$")] for one in arguments]
                assert len(set(values)) == len(values), f"should differ: {arguments} = {values}"
            case "between":
                low, name, high = arguments
                value = self.variables[name.removeprefix("$")]
                assert int(low) <= value <= int(high), f"{name} = {value} is not in {low}..{high}"
            case _:
                raise TranscriptError(f"no control called {verb!r}")

    def _refused(self, name: str, codes: set[int]) -> None:
        """Closed, with or without a CONNACK or DISCONNECT; if there is one, it has one of these codes."""
        connection = self._connection(name)
        try:
            packet = connection.receive()
        except Closed:
            self.connections.pop(name).close()
            return
        self.history.append(f"{name}<< {packet}")
        assert packet.kind in {"CONNACK", "DISCONNECT"}, f"expected a refusal, got {packet}"
        assert packet.reason in codes, f"reason should be one of {[hex(one) for one in codes]}, got {packet}"
        connection.expect_closed()
        self.connections.pop(name).close()

    def _deliveries(self, name: str, pairs: list[str]) -> None:
        """PUBLISH packets with these `topic=payload`, in this order, whether or not they use topic aliases."""
        connection = self._connection(name)
        for pair in pairs:
            packet = connection.receive()
            self.history.append(f"{name}<< {packet}")
            topic, _, payload = pair.partition("=")
            assert packet.kind == "PUBLISH", f"expected PUBLISH, got {packet}"
            got = (connection.resolve_topic(packet), packet.payload)
            assert got == (topic, payload.encode()), f"expected {pair}, got {got}"

    def _closed_at_once(self, name: str) -> None:
        """Closed without any packet, as 3.1.1 asks where no return code fits."""
        connection = self._connection(name)
        try:
            packet = connection.receive(WAIT)
        except Closed:
            self.connections.pop(name).close()
            return
        raise AssertionError(f"expected the end of the connection, got {packet}")


def _same(got: Any, wanted: Any) -> bool:
    if isinstance(got, list) and got and isinstance(got[0], int):
        return sorted(got) == sorted(wanted)
    return got == wanted
