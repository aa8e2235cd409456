"""Eclipse Paho's Python client: 3.1.1 and 5.0, over TCP and WebSocket."""

from __future__ import annotations

import queue
import socket
from typing import Any, Iterator

import pytest
from paho.mqtt import client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from harness.broker import Broker
from harness.client import WAIT

VERSIONS = {"3.1.1": paho.MQTTv311, "5.0": paho.MQTTv5}


class Client:
    """A paho client whose callbacks feed queues, so that a test reads from top to bottom."""

    def __init__(self, broker: Broker, version: str, transport: str, client_id: str, **options: Any):
        self.version = VERSIONS[version]
        legacy = {"clean_session": options.get("clean", True)} if version == "3.1.1" else {}
        self.paho = paho.Client(
            paho.CallbackAPIVersion.VERSION2, client_id, protocol=self.version, transport=transport, **legacy
        )
        self.messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self.events: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.paho.on_message = lambda _client, _data, message: self.messages.put(message)
        self.paho.on_connect = lambda _c, _d, flags, reason, props: self.events.put(("connect", (flags, reason, props)))
        self.paho.on_subscribe = lambda _c, _d, _id, reasons, _props: self.events.put(("subscribe", reasons))
        self.paho.on_unsubscribe = lambda _c, _d, _id, reasons, _props: self.events.put(("unsubscribe", reasons))
        self.paho.on_disconnect = lambda _c, _d, _flags, reason, _props: self.events.put(("disconnect", reason))
        if "will" in options:
            self.paho.will_set(**options["will"])
        host, port = broker.address("ws" if transport == "websockets" else "mqtt")
        connect: dict[str, Any] = {}
        if version == "5.0":
            connect["clean_start"] = options.get("clean", True)
            if "session_expiry" in options:
                connect["properties"] = Properties(PacketTypes.CONNECT)
                connect["properties"].SessionExpiryInterval = options["session_expiry"]
        self.paho.connect(host, port, **connect)
        self.paho.loop_start()
        self.flags, self.reason, self.properties = self.event("connect")
        assert not self.reason.is_failure, self.reason

    def event(self, kind: str) -> Any:
        got, value = self.events.get(timeout=WAIT)
        assert got == kind, f"expected {kind}, got {got} {value}"
        return value

    def subscribe(self, *arguments: Any, **options: Any) -> Any:
        self.paho.subscribe(*arguments, **options)
        return self.event("subscribe")

    def publish(self, *arguments: Any, **options: Any) -> None:
        info = self.paho.publish(*arguments, **options)
        info.wait_for_publish(WAIT)
        assert info.is_published()

    def next(self) -> paho.MQTTMessage:
        return self.messages.get(timeout=WAIT)

    def disconnect(self) -> None:
        self.paho.disconnect()
        self.event("disconnect")
        self.paho.loop_stop()

    def drop(self) -> None:
        """Cuts the connection below the client, which must not notice first and say DISCONNECT."""
        self.paho.reconnect_delay_set(1000, 1000)
        outer = self.paho.socket()
        getattr(outer, "_socket", outer).shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()


class Factory:
    """Makes clients of one version and transport and stops them all in the end."""

    def __init__(self, broker: Broker, version: str, transport: str):
        self.broker, self.version, self.transport = broker, version, transport
        self.clients: list[Client] = []

    def __call__(self, client_id: str, **options: Any) -> Client:
        self.clients.append(Client(self.broker, self.version, self.transport, client_id, **options))
        return self.clients[-1]


@pytest.fixture(params=["3.1.1-tcp", "5.0-tcp", "3.1.1-websockets", "5.0-websockets"])
def connect(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Factory]:
    version, transport = request.param.split("-")
    factory = Factory(broker, version, transport)
    yield factory
    for client in factory.clients:
        client.stop()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_arrive_at_every_qos(connect: Factory, qos: int) -> None:
    sub, pub = connect("sub"), connect("pub")
    sub.subscribe("a/+", qos=qos)
    pub.publish("a/b", "payload", qos=qos)
    message = sub.next()
    assert (message.topic, message.payload, message.qos, message.retain) == ("a/b", b"payload", qos, False)


def test_large_payload_arrives_whole(connect: Factory) -> None:
    both = connect("both")
    both.subscribe("large", qos=1)
    payload = bytes(range(256)) * 4096
    both.publish("large", payload, qos=1)
    assert both.next().payload == payload


def test_retained_message_is_kept_and_cleared(connect: Factory) -> None:
    pub = connect("pub")
    pub.publish("kept", "state", qos=1, retain=True)
    sub = connect("sub")
    sub.subscribe("kept", qos=1)
    message = sub.next()
    assert (message.payload, message.retain) == (b"state", True)
    pub.publish("kept", b"", qos=1, retain=True)
    assert sub.next().payload == b""
    late = connect("late")
    late.subscribe("#", qos=1)
    pub.publish("other", "first", qos=1)
    assert late.next().topic == "other"


def test_will_is_published_when_the_connection_is_cut(connect: Factory) -> None:
    sub = connect("sub")
    sub.subscribe("will", qos=1)
    doomed = connect("doomed", will={"topic": "will", "payload": "gone", "qos": 1})
    doomed.drop()
    message = sub.next()
    assert (message.topic, message.payload, message.qos) == ("will", b"gone", 1)


def test_persistent_session_is_resumed(connect: Factory) -> None:
    keeper = connect("keeper", clean=False, session_expiry=100)
    assert not keeper.flags.session_present
    keeper.subscribe("queue", qos=2)
    keeper.disconnect()
    pub = connect("pub")
    for index in range(10):
        pub.publish("queue", str(index), qos=2)
    keeper = connect("keeper", clean=False, session_expiry=100)
    assert keeper.flags.session_present
    assert [keeper.next().payload for _ in range(10)] == [str(index).encode() for index in range(10)]


def test_shared_subscription_splits_messages(connect: Factory) -> None:
    members = [connect(f"member-{index}") for index in range(2)]
    for member in members:
        member.subscribe("$share/group/work", qos=1)
    pub = connect("pub")
    for index in range(10):
        pub.publish("work", str(index), qos=1)
    shares = [[member.next().payload for _ in range(5)] for member in members]
    assert sorted(shares[0] + shares[1]) == [str(index).encode() for index in range(10)]


def test_unsubscribe_ends_delivery(connect: Factory) -> None:
    both = connect("both")
    both.subscribe("gone", qos=0)
    both.subscribe("here", qos=0)
    both.paho.unsubscribe("gone")
    both.event("unsubscribe")
    both.publish("gone", "x", qos=1)
    both.publish("here", "y", qos=1)
    assert both.next().topic == "here"


@pytest.mark.parametrize("transport", ["tcp", "websockets"])
def test_properties_of_5_0(broker: Broker, transport: str) -> None:
    both = Client(broker, "5.0", transport, "both")
    subscribe = Properties(PacketTypes.SUBSCRIBE)
    subscribe.SubscriptionIdentifier = 42
    both.subscribe("p", options=SubscribeOptions(qos=1, retainAsPublished=True), properties=subscribe)
    publish = Properties(PacketTypes.PUBLISH)
    publish.ContentType, publish.ResponseTopic, publish.CorrelationData = "text/plain", "reply", b"\x00\xff"
    publish.PayloadFormatIndicator, publish.MessageExpiryInterval = 1, 600
    publish.UserProperty = [("b", "2"), ("a", "1")]
    both.publish("p", "x", qos=1, retain=True, properties=publish)
    message = both.next()
    got = message.properties
    assert message.retain
    assert (got.ContentType, got.ResponseTopic, got.CorrelationData) == ("text/plain", "reply", b"\x00\xff")
    assert (got.PayloadFormatIndicator, got.SubscriptionIdentifier) == (1, [42])
    assert got.UserProperty == [("b", "2"), ("a", "1")] and 0 < got.MessageExpiryInterval <= 600
    both.stop()


def test_no_local_of_5_0(broker: Broker) -> None:
    one, other = Client(broker, "5.0", "tcp", "one"), Client(broker, "5.0", "tcp", "other")
    one.subscribe("n", options=SubscribeOptions(qos=1, noLocal=True))
    one.publish("n", "mine", qos=1)
    other.publish("n", "theirs", qos=1)
    assert one.next().payload == b"theirs"
    one.stop(), other.stop()


def test_takeover_tells_the_older_client_why(broker: Broker) -> None:
    older = Client(broker, "5.0", "tcp", "same")
    older.paho.reconnect_delay_set(1000, 1000)
    newer = Client(broker, "5.0", "tcp", "same")
    assert older.event("disconnect").value == 0x8E
    older.stop(), newer.stop()


def test_messages_of_5_0_reach_clients_of_3_1_1(broker: Broker) -> None:
    old, new = Client(broker, "3.1.1", "tcp", "old"), Client(broker, "5.0", "websockets", "new")
    old.subscribe("x/#", qos=2), new.subscribe("x/#", qos=2)
    properties = Properties(PacketTypes.PUBLISH)
    properties.UserProperty = ("k", "v")
    new.publish("x/1", "from new", qos=2, properties=properties)
    old.publish("x/2", "from old", qos=2)
    for client in (old, new):
        got = {(message.topic, message.payload) for message in (client.next(), client.next())}
        assert got == {("x/1", b"from new"), ("x/2", b"from old")}
    old.stop(), new.stop()
