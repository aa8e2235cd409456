"""Random conversations of a few clients, held step by step against a model of what the specification promises.

After each step every connected client must have been sent exactly what the model says, in that order: no more, no
less, with these flags, packet ids and subscription identifiers. A failure names the seed; `MODEL_SEED=7 MODEL_STEPS=5000`
go on from one, or longer.
"""

from __future__ import annotations

import os
import random
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Callable, Optional

import pytest

from harness.broker import Broker
from harness.client import WAIT, Connection
from harness.wire import Packet

StartBroker = Callable[..., Broker]
STEPS = int(os.environ.get("MODEL_STEPS", 400))
SEEDS = [int(os.environ["MODEL_SEED"])] if "MODEL_SEED" in os.environ else range(1, 7)
CLIENTS = [("a", 5), ("b", 5), ("c", 5), ("d", 4), ("e", 4)]
TOPICS = ["x", "y", "x/y", "x/z", "y/x", "x/y/z", "$x/y", "/", "x/"]
FILTERS = ["#", "+", "x", "x/#", "x/+", "+/y", "+/+", "x/y", "$x/#", "+/+/z", "/+", "x/+/#"]


def matches(filter: str, topic: str) -> bool:
    if topic.startswith("$") and filter[0] in "+#":
        return False
    wanted, levels = filter.split("/"), topic.split("/")
    for number, word in enumerate(wanted):
        if word == "#":
            return True
        if number >= len(levels) or word not in ("+", levels[number]):
            return False
    return len(wanted) == len(levels)


@dataclass
class Delivery:
    topic: str
    payload: bytes
    qos: int
    retain: int
    ids: tuple[int, ...]
    packet_id: int = 0
    #: Once PUBREC was sent, PUBREL is what is sent again.
    is_received: bool = False
    #: On this connection.
    is_sent: bool = False


@dataclass
class Session:
    """What the broker should know of a client."""

    version: int
    persistent: bool = False
    connection: Optional[Connection] = None
    window: int = 65_535
    will: Optional[tuple[str, bytes, int, int]] = None
    #: Filter: QoS, no local, retain as published, subscription identifier.
    subscriptions: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)
    pending: deque[Delivery] = field(default_factory=deque)
    inflight: list[Delivery] = field(default_factory=list)
    aliases: dict[int, str] = field(default_factory=dict)
    #: Packets other than PUBLISH that are still owed.
    replies: list[tuple[str, int]] = field(default_factory=list)
    received: list[Packet] = field(default_factory=list)

    def sends_now(self) -> list[Delivery]:
        """What has to be sent, as far as the window allows: first again what was in flight, then what is new. Only
        QoS 0 need not wait for the window, but for what was there before it."""
        sent = []
        for one in self.inflight:
            if not one.is_sent and sum(other.is_sent for other in self.inflight) < self.window:
                one.is_sent = True
                sent.append(one)
        has_room = all(one.is_sent for one in self.inflight)
        while self.pending and (self.pending[0].qos == 0 or has_room and len(self.inflight) < self.window):
            one = self.pending.popleft()
            sent.append(one)
            if one.qos:
                one.is_sent = True
                self.inflight.append(one)
        return sent


class Model:
    def __init__(self, broker: Broker, seed: int):
        self.broker, self.random, self.seed = broker, random.Random(seed), seed
        self.sessions = {name: Session(version) for name, version in CLIENTS}
        self.retained: dict[str, tuple[bytes, int, str]] = {}
        self.number = self.wills = self.packet_id = self.delivered = 0
        self.sent_by_qos = [0, 0, 0]
        self.steps: list[str] = []

    def chance(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def next_id(self) -> int:
        self.packet_id = self.packet_id % 60_000 + 1
        return self.packet_id

    # What the broker should make of things.

    def published(self, publisher: str, topic: str, payload: bytes, qos: int, retain: int) -> None:
        if retain and payload:
            self.retained[topic] = (payload, qos, publisher)
        elif retain:
            self.retained.pop(topic, None)
        for name, session in self.sessions.items():
            found = [
                terms
                for filter, terms in session.subscriptions.items()
                if matches(filter, topic) and not (terms[1] and name == publisher)
            ]
            if not found:
                continue
            lower = min(qos, max(terms[0] for terms in found))
            keeps = int(bool(retain and any(terms[2] for terms in found)))
            ids = tuple(sorted(terms[3] for terms in found if terms[3]))
            if session.connection or session.persistent and lower:
                self.deliver(session, Delivery(topic, payload, lower, keeps, ids))

    def deliver(self, session: Session, delivery: Delivery) -> None:
        session.pending.append(delivery)
        self.delivered += 1

    def ended(self, name: str, discards_will: bool) -> None:
        """The connection of a client is over."""
        session = self.sessions[name]
        will, session.will, session.connection = session.will, None, None
        session.aliases, session.replies = {}, []
        if not session.persistent:
            self.sessions[name] = Session(session.version)
        if will and not discards_will:
            self.wills += 1
            self.published(name, *will)

    # Steps.

    def connect(self, name: str) -> None:
        session, version = self.sessions[name], self.sessions[name].version
        older = session.connection
        clean, persistent = self.chance(3), not self.chance(3)
        if version == 4:
            persistent = not clean
        properties = {"session_expiry_interval": 1000 if persistent else 0}
        window = self.random.choice([1, 2, 3, 65_535]) if version == 5 else 65_535
        if version == 5:
            properties["receive_maximum"] = window
            if self.chance(2):
                properties["topic_alias_maximum"] = 2
        fields = {"clean_start": int(clean), "version": version}
        will = None
        if self.chance(3):
            self.number += 1
            will = (self.random.choice(TOPICS), b"will %d" % self.number, self.random.randrange(3), int(self.chance(3)))
            fields |= {"will_topic": will[0], "will_payload": will[1], "will_qos": will[2], "will_retain": will[3]}
        connection = self.broker.connection(version)
        connection.send("CONNECT", client_id=name, **fields, **({"properties": properties} if version == 5 else {}))
        connack = connection.expect("CONNACK", reason=0)
        resumes = not clean and session.persistent
        self.steps.append(f"{name} connects: {fields} {properties} {'instead of an older one' if older else ''}")
        if older:
            if version == 5:
                while (packet := older.receive()).kind != "DISCONNECT":
                    pass
                assert packet.reason == 0x8E
            older.drain_to_end()
            older.close()
            # What waits goes to the newer connection, and what the will adds behind it.
            if resumes:
                session.connection = connection
                will_of_older, session.will = session.will, None
            else:
                will_of_older = session.will
                self.sessions[name] = session = Session(version)
                session.connection = connection
            if will_of_older:
                self.wills += 1
                self.published(name, *will_of_older)
        elif not resumes:
            self.sessions[name] = session = Session(version)
        assert connack.session_present == int(resumes), connack
        session.connection, session.persistent, session.window, session.will = connection, persistent, window, will
        session.aliases, session.replies = {}, []
        for one in session.inflight:
            one.is_sent = False

    def disconnect(self, name: str) -> None:
        connection = self.sessions[name].connection
        assert connection
        is_polite = self.chance(2)
        self.steps.append(f"{name} {'disconnects' if is_polite else 'is cut off'}")
        if is_polite:
            connection.send("DISCONNECT")
            connection.drain_to_end()
            connection.close()
        else:
            connection.drop()
        self.ended(name, is_polite)

    def subscribe(self, name: str) -> None:
        session, filter = self.sessions[name], self.random.choice(FILTERS)
        qos, no_local, as_published = self.random.randrange(3), int(self.chance(4)), int(self.chance(2))
        handling, number = self.random.randrange(3), self.random.choice([0, 0, 1, 200, 268_435_455])
        if session.version == 4:
            no_local = as_published = handling = number = 0
        if handling != 2 and (qos or session.pending):
            # A replay that waits for the window reads the store later: only when nothing can hold it up.
            if session.version == 4 and session.pending:
                return
            qos = 0
            if session.pending:
                handling = 2
        is_new = filter not in session.subscriptions
        entry = {"filter": filter, "qos": qos, "nl": no_local, "rap": as_published, "rh": handling}
        properties = {"subscription_identifier": [number]} if number else {}
        packet_id = self.next_id()
        self.steps.append(f"{name} subscribes: {entry} {number}")
        assert session.connection
        session.connection.send("SUBSCRIBE", id=packet_id, filters=[entry], properties=properties)
        session.replies.append(("SUBACK", packet_id))
        session.subscriptions[filter] = (qos, no_local, as_published, number)
        if handling == 0 or handling == 1 and is_new:
            for topic in sorted(self.retained, key=lambda topic: topic.replace("/", "\0")):
                payload, published_qos, publisher = self.retained[topic]
                if matches(filter, topic) and not (no_local and publisher == name):
                    ids = (number,) if number else ()
                    self.deliver(session, Delivery(topic, payload, min(qos, published_qos), 1, ids))

    def unsubscribe(self, name: str) -> None:
        session, filter = self.sessions[name], self.random.choice(FILTERS)
        packet_id = self.next_id()
        self.steps.append(f"{name} unsubscribes: {filter}")
        assert session.connection
        session.connection.send("UNSUBSCRIBE", id=packet_id, filters=[{"filter": filter}])
        session.replies.append(("UNSUBACK", packet_id))
        session.subscriptions.pop(filter, None)

    def publish(self, name: str) -> None:
        session, topic, qos = self.sessions[name], self.random.choice(TOPICS), self.random.randrange(3)
        self.number += 1
        retain = int(self.chance(4))
        payload = b"" if retain and self.chance(3) else b"%d" % self.number
        fields: dict[str, object] = {"topic": topic, "qos": qos, "retain": retain, "payload": payload}
        connection = session.connection
        assert connection
        if session.version == 5 and self.chance(3):
            alias = self.random.randrange(1, 4)
            fields["properties"] = {"topic_alias": alias}
            if alias in session.aliases and self.chance(2):
                topic, fields["topic"] = session.aliases[alias], ""
            session.aliases[alias] = topic
        if qos:
            fields["id"] = packet_id = self.next_id()
            session.replies.append(("PUBACK" if qos == 1 else "PUBREC", packet_id))
        self.steps.append(f"{name} publishes to {topic}: {fields}")
        connection.send("PUBLISH", **fields)
        if qos == 2:
            if self.chance(3):
                connection.send("PUBLISH", **fields, dup=1)
                session.replies.append(("PUBREC", packet_id))
            connection.send("PUBREL", id=packet_id)
            session.replies.append(("PUBCOMP", packet_id))
        self.sent_by_qos[qos] += 1
        self.published(name, topic, payload, qos, retain)

    def acknowledge(self, name: str) -> None:
        session = self.sessions[name]
        assert session.connection
        sent = [one for one in session.inflight if one.is_sent]
        for one in self.random.sample(sent, self.random.randrange(len(sent) + 1)):
            self.steps.append(f"{name} acknowledges {one}")
            if one.qos == 1 or one.is_received:
                session.connection.send("PUBACK" if one.qos == 1 else "PUBCOMP", id=one.packet_id)
                session.inflight.remove(one)
            else:
                session.connection.send("PUBREC", id=one.packet_id)
                session.replies.append(("PUBREL", one.packet_id))
                one.is_received = True

    # Comparison.

    def settle(self) -> None:
        """Until the broker has seen every end of a connection."""
        connected = sum(session.connection is not None for session in self.sessions.values())
        sessions = sum(bool(session.connection or session.persistent) for session in self.sessions.values())
        wanted = {"meridian_clients": connected, "meridian_sessions": sessions, "meridian_wills_published_total": self.wills}
        deadline = time.monotonic() + WAIT
        while any((metrics := self.broker.metrics())[name] != value for name, value in wanted.items()):
            assert time.monotonic() < deadline, {name: (metrics[name], value) for name, value in wanted.items()}

    def compare(self) -> None:
        # A publisher's PINGRESP says that what it published has been handed on; so everybody is asked first.
        connected = [session for session in self.sessions.values() if session.connection]
        for session in connected:
            self.receive(session, [])
        for session in connected:
            assert session.connection
            got: list[Packet] = session.received
            session.received = []
            self.receive(session, got)
            self.compare_one(session, got)

    def receive(self, session: Session, got: list[Packet]) -> None:
        assert session.connection
        session.connection.send("PINGREQ")
        while (packet := session.connection.receive()).kind != "PINGRESP":
            got.append(packet)
        session.received = got

    def compare_one(self, session: Session, got: list[Packet]) -> None:
        connection = session.connection
        assert connection
        sent = iter(session.sends_now())
        expected_again = []
        for packet in got:
            if packet.kind != "PUBLISH":
                continue
            one = next(sent, None)
            while one and one.is_received:
                expected_again.append(("PUBREL", one.packet_id))
                one = next(sent, None)
            assert one, f"unexpected {packet}"
            topic = connection.resolve_topic(packet)
            ids = tuple(sorted(packet.properties.get("subscription_identifier", []))) if session.version == 5 else ()
            dup = int(one.packet_id != 0)
            if one.qos and not one.packet_id:
                assert all(other.packet_id != packet.id for other in session.inflight), f"{packet.id} is in use"
                one.packet_id = packet.id
            found = (topic, packet.payload, packet.qos, packet.retain, packet.dup, ids, packet.fields.get("id") or 0)
            assert found == (one.topic, one.payload, one.qos, one.retain, dup, one.ids, one.packet_id), one
        for one in sent:
            assert one.is_received, f"missing {one}"
            expected_again.append(("PUBREL", one.packet_id))
        others = sorted((packet.kind, packet.id) for packet in got if packet.kind != "PUBLISH")
        assert others == sorted(session.replies + expected_again)
        session.replies = []

    def step(self) -> None:
        name = self.random.choice(list(self.sessions))
        if self.sessions[name].connection is None:
            return self.connect(name)
        weighted = [self.publish] * 8 + [self.acknowledge] * 4 + [self.subscribe] * 3
        self.random.choice([*weighted, self.unsubscribe, self.disconnect, self.connect])(name)

    def run(self) -> None:
        for _ in range(STEPS):
            try:
                self.step()
                self.settle()
                self.compare()
            except Exception as error:
                raise AssertionError("\n".join([f"seed {self.seed}:", *self.steps[-30:]])) from error
        self.check_counters()
        self.check_nothing_is_left()

    def check_counters(self) -> None:
        metrics = self.broker.metrics()
        assert metrics["meridian_messages_delivered_total"] == self.delivered
        for qos, count in enumerate(self.sent_by_qos):
            assert metrics[f'meridian_messages_received_total{{qos="{qos}"}}'] == count
        waiting = sum(len(session.pending) for session in self.sessions.values())
        assert metrics["meridian_queued_messages"] == waiting
        assert metrics["meridian_retained_messages"] == len(self.retained)

    def check_nothing_is_left(self) -> None:
        """When the last session has ended and the last retained message is cleared."""
        for name, session in self.sessions.items():
            with self.broker.client(name, session.version) as last:
                last.send("DISCONNECT")
                last.drain_to_end()
        # Wills that came with those ends may have been retained.
        with self.broker.client("last") as last:
            for topic in TOPICS:
                last.send("PUBLISH", topic=topic, retain=1)
            last.send("DISCONNECT")
            last.drain_to_end()
        gauges = "sessions clients subscriptions filters retained_messages retained_bytes queued_messages memory_held_bytes"
        deadline = time.monotonic() + WAIT
        while any(left := {name: self.broker.metrics()[f"meridian_{name}"] for name in gauges.split()}.values()):
            assert time.monotonic() < deadline, left


@pytest.mark.parametrize("seed", SEEDS)
def test_clients_are_sent_what_the_model_says(start_broker: StartBroker, seed: int) -> None:
    Model(start_broker(settings=["server.threads=2", "server.sys_interval=0s"]), seed).run()
