"""What a consumer that does not keep up costs itself and the others, under every overflow policy."""

from __future__ import annotations

import selectors
import struct
import time
from pathlib import Path
from typing import Callable

import pytest

from harness.broker import Broker
from harness.client import WAIT, Closed, Connection
from harness.websocket import BINARY, CLOSE, WebSocket, frame
from harness.wire import Packet, encode

StartBroker = Callable[..., Broker]
PAYLOAD = 4096


def dropped(broker: Broker, reason: str) -> int:
    return int(broker.metric_sum("meridian_messages_dropped_total", f'"{reason}"'))


def numbered(number: int, size: int = PAYLOAD) -> bytes:
    return str(number).encode().ljust(size)


def number_of(payload: bytes) -> int:
    return int(payload.decode())


class Readers:
    """Subscribers that read together; knows what each has received."""

    def __init__(self, broker: Broker, count: int, qos: int):
        self.broker, self.qos = broker, qos
        self.received: dict[Connection, list[int]] = {}
        self.add(count)

    def add(self, count: int) -> None:
        for _ in range(count):
            connection = self.broker.client(f"healthy-{len(self.received)}")
            connection.subscribe("load", qos=self.qos)
            self.received[connection] = []

    def read_until(self, count: int) -> None:
        """Until each has `count` messages."""
        waiting = selectors.DefaultSelector()
        for connection, numbers in self.received.items():
            if len(numbers) < count:
                waiting.register(connection.socket, selectors.EVENT_READ, connection)
        while waiting.get_map():
            ready = waiting.select(WAIT)
            assert ready, f"stuck at {[len(numbers) for numbers in self.received.values()]} of {count}"
            for key, _ in ready:
                if self._take(key.data, count):
                    waiting.unregister(key.data.socket)

    def _take(self, connection: Connection, count: int) -> bool:
        numbers = self.received[connection]
        while True:
            message = connection.receive()
            assert message.kind == "PUBLISH", message
            numbers.append(number_of(message.payload))
            if self.qos:
                connection.send("PUBACK", id=message.id)
            if len(numbers) == count or not connection.buffer:
                return len(numbers) == count


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("version", [4, 5])
def test_others_get_every_message_once_while_slow_consumers_are_cut_off(
    start_broker: StartBroker, qos: int, version: int
) -> None:
    """Each slow consumer is cut off in the middle of a fan-out; its will is published to the survivors' side, once."""
    settings = ["queue.overflow=disconnect", "queue.messages_max=50", "queue.outbox_bytes_max=64 KiB"]
    broker = start_broker(settings=settings)
    total, window, slow_count = 3000, 10, 8
    witness = broker.client("witness")
    witness.subscribe("will/+", qos=1)
    healthy = Readers(broker, 12, qos)
    slow = []
    for index in range(slow_count):
        connection = broker.connection(version, receive_buffer=4096)
        connection.connect(f"slow-{index}", will_topic=f"will/{index}", will_payload=b"slow")
        connection.subscribe("load", qos=qos)
        slow.append(connection)
    healthy.add(4)
    publisher = broker.client("publisher")
    for start in range(0, total, window):
        for number in range(start, start + window):
            packet_id = {"id": number % 1000 + 1} if qos else {}
            publisher.send("PUBLISH", topic="load", payload=numbered(number), qos=qos, **packet_id)
        healthy.read_until(start + window)
        for _ in range(window if qos else 0):
            publisher.expect("PUBACK", reason=0)
    for numbers in healthy.received.values():
        assert numbers == list(range(total))
    for connection in healthy.received:
        connection.quiet()
    wills = sorted(witness.expect("PUBLISH").topic for _ in range(slow_count))
    assert wills == [f"will/{index}" for index in range(slow_count)]
    assert broker.metric_sum("meridian_disconnects_total", '"slow-consumer"') == slow_count
    assert broker.metric_sum("meridian_disconnects_total") == slow_count


def offline_queue(broker: Broker, count: int, size: int = 100) -> list[int]:
    """Publishes to a session that is away; what it gets when it is back."""
    keep = {"clean_start": 0, "properties": {"session_expiry_interval": 100}}
    with broker.client("keeper", **keep) as keeper:
        keeper.subscribe("load", qos=1)
        keeper.send("DISCONNECT")
        keeper.expect_closed()
    with broker.client("publisher") as publisher:
        for number in range(count):
            publisher.send("PUBLISH", topic="load", payload=numbered(number, size), qos=1, id=number + 1)
            publisher.expect("PUBACK")
    with broker.client("keeper", **keep) as keeper:
        keeper.send("PINGREQ")
        numbers = []
        while (packet := keeper.receive()).kind == "PUBLISH":
            numbers.append(number_of(packet.payload))
            keeper.send("PUBACK", id=packet.id)
        # The answer to a ping may overtake what is queued.
        keeper.send("PINGREQ")
        while (packet := keeper.receive()).kind == "PUBLISH":
            numbers.append(number_of(packet.payload))
        return numbers


def test_drop_oldest_keeps_the_newest(start_broker: StartBroker) -> None:
    broker = start_broker(settings=["queue.overflow=drop-oldest", "queue.messages_max=10"])
    assert offline_queue(broker, 30) == list(range(20, 30))
    assert dropped(broker, "queue-full-oldest") == 20


def test_drop_newest_keeps_the_oldest(start_broker: StartBroker) -> None:
    broker = start_broker(settings=["queue.overflow=drop-newest", "queue.messages_max=10"])
    assert offline_queue(broker, 30) == list(range(10))
    assert dropped(broker, "queue-full-newest") == 20


def test_bytes_are_limited_too(start_broker: StartBroker) -> None:
    broker = start_broker(settings=["queue.overflow=drop-newest", "queue.bytes_max=10 KiB"])
    kept = offline_queue(broker, 30, size=1024)
    assert kept == list(range(len(kept))) and 5 <= len(kept) <= 10
    assert dropped(broker, "queue-full-newest") == 30 - len(kept)


@pytest.mark.parametrize("policy,reason", [("drop-oldest", "queue-full-oldest"), ("drop-newest", "queue-full-newest")])
def test_every_message_of_a_slow_consumer_is_delivered_or_counted(
    start_broker: StartBroker, policy: str, reason: str
) -> None:
    """It stops reading, then reads on: what it missed is what the metric says, and the order is kept."""
    settings = [f"queue.overflow={policy}", "queue.messages_max=50", "queue.outbox_bytes_max=64 KiB"]
    broker = start_broker(settings=settings)
    total = 3000
    slow = broker.connection(receive_buffer=4096)
    slow.connect("slow")
    slow.subscribe("load")
    publisher = broker.client("publisher")
    for number in range(total):
        publisher.send("PUBLISH", topic="load", payload=numbered(number))
    publisher.quiet()
    lost = dropped(broker, reason)
    assert lost > 0, "the slow consumer was never full"
    numbers = [number_of(slow.expect("PUBLISH").payload) for _ in range(total - lost)]
    slow.quiet()
    assert numbers == sorted(set(numbers))
    assert dropped(broker, reason) == lost
    assert (numbers[-1] == total - 1) == (policy == "drop-oldest")


def test_block_loses_nothing_and_holds_the_publisher_back(start_broker: StartBroker) -> None:
    settings = ["queue.overflow=block", "queue.messages_max=50", "queue.outbox_bytes_max=64 KiB"]
    broker = start_broker(settings=settings)
    slow = broker.connection(receive_buffer=4096)
    slow.connect("slow")
    slow.subscribe("load")
    publisher = broker.client("publisher")
    publisher.socket.settimeout(2)
    sent = 0
    try:
        # Far more than every buffer in between can hold: sending must come to a stand.
        while sent < 20_000:
            publisher.send("PUBLISH", topic="load", payload=numbered(sent))
            sent += 1
    except TimeoutError:
        pass
    assert sent < 20_000, "the publisher was never held back"
    assert broker.metric_sum("meridian_publishers_blocked_total") > 0
    # The message that sending broke off in was not sent whole; all before it arrive, in order.
    assert [number_of(slow.expect("PUBLISH").payload) for _ in range(sent)] == list(range(sent))
    assert broker.metric_sum("meridian_messages_dropped_total") == 0


class Stopped:
    """A broker where so much waits for a slow subscriber, for good, that the next publisher is soon stopped."""

    LIMIT = 20

    def __init__(self, start_broker: StartBroker):
        settings = ["queue.overflow=block", f"queue.messages_max={self.LIMIT}", "queue.outbox_bytes_max=4 KiB"]
        self.broker = start_broker(settings=[*settings, "server.threads=1"])
        self.slow = self.broker.connection(receive_buffer=4096)
        self.slow.connect("slow")
        self.slow.subscribe("load")
        self.sent = 0
        self.first = self.broker.client("first")
        while not self.stands():
            self.first.send_bytes(self.batch(self.LIMIT, PAYLOAD))

    def queued(self) -> int:
        return int(self.broker.metrics()["meridian_queued_messages"])

    def stands(self) -> bool:
        """More than half, below which publishers are let go on."""
        counts = {self.queued() for _ in range(10)}
        return len(counts) == 1 and counts.pop() > self.LIMIT / 2

    def batch(self, count: int, size: int) -> bytes:
        """The bytes of the next `count` messages."""
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        packets = [Packet("PUBLISH", {"topic": "load", "payload": numbered(number, size)}) for number in numbers]
        return b"".join(encode(packet, 5) for packet in packets)

    def expect_all(self) -> None:
        """The slow subscriber reads again, and has missed nothing."""
        received = [number_of(self.slow.expect("PUBLISH").payload) for _ in range(self.sent)]
        assert sorted(received) == list(range(self.sent))
        assert self.broker.metric_sum("meridian_messages_dropped_total") == 0


def test_block_holds_a_publisher_back_that_goes_on_sending(start_broker: StartBroker) -> None:
    """What it sends while it waits is not read, and does not make the broker go on with what was read before."""
    stopped = Stopped(start_broker)
    publisher = stopped.broker.client("publisher")
    # In one read, so that most of it is read and has to wait.
    publisher.send_bytes(stopped.batch(5 * stopped.LIMIT, 10))
    before = stopped.queued()
    for _ in range(stopped.LIMIT):
        publisher.send_bytes(stopped.batch(1, 10))
        # By the time of this answer the broker has seen that there is more. One message may follow every ten seconds.
        assert stopped.queued() < before + stopped.LIMIT / 4
    stopped.expect_all()


def test_block_stops_publishers_however_many_there_are(start_broker: StartBroker) -> None:
    """Those for whose message there is no room, not even beyond the limit, lose that one and wait like the others."""
    stopped = Stopped(start_broker)
    publishers = [stopped.broker.client(f"publisher-{number}") for number in range(3 * stopped.LIMIT)]
    for publisher in publishers:
        publisher.send_bytes(stopped.batch(10, 10))
    stopped.stands()
    # One each, and another every ten seconds.
    assert 0 < dropped(stopped.broker, "queue-full-newest") < 2 * len(publishers)
    numbers = set()
    while len(numbers) < stopped.sent - dropped(stopped.broker, "queue-full-newest"):
        numbers.add(number_of(stopped.slow.expect("PUBLISH").payload))


def test_block_does_not_forget_that_a_publisher_has_closed(start_broker: StartBroker) -> None:
    """A WebSocket's close frame, in one read with more than could be taken, counts when the rest has been."""
    stopped = Stopped(start_broker)
    witness, publisher = stopped.broker.client("witness"), WebSocket(stopped.broker.address("ws"))
    witness.subscribe("will")
    publisher.connect("publisher", will_topic="will", will_payload=b"closed")
    messages = frame(BINARY, stopped.batch(5 * stopped.LIMIT, 10))
    publisher.send_raw(messages + frame(CLOSE, struct.pack(">H", 1000)))
    stopped.expect_all()
    witness.expect("PUBLISH", topic="will", payload=b"closed")


@pytest.mark.parametrize("subscribed", ["$share/g/t", "t"])
def test_block_lets_a_publisher_go_on_when_what_it_waits_for_has_unsubscribed(
    start_broker: StartBroker, subscribed: str
) -> None:
    broker = start_broker(settings=["queue.overflow=block", "queue.messages_max=10", "mqtt.inflight_max=1"])
    with broker.client("full") as full, broker.client("publisher") as publisher:
        full.subscribe(subscribed, qos=1)
        # The first is in flight and never acknowledged, ten wait, the next makes the publisher wait.
        for number in range(12):
            publisher.send("PUBLISH", topic="t", payload=b"x", qos=1, id=number + 1)
            publisher.expect("PUBACK")
        publisher.send("PINGREQ")
        while broker.metric_sum("meridian_publishers_blocked_total") == 0:
            pass
        full.send("UNSUBSCRIBE", id=9, filters=[{"filter": subscribed}])
        # It would be let go anyway, ten seconds after it was stopped.
        publisher.socket.settimeout(5)
        publisher.expect("PINGRESP")


def test_block_does_not_hold_back_other_publishers(start_broker: StartBroker) -> None:
    settings = ["queue.overflow=block", "queue.messages_max=50", "queue.outbox_bytes_max=64 KiB"]
    broker = start_broker(settings=settings)
    slow = broker.connection(receive_buffer=4096)
    slow.connect("slow")
    slow.subscribe("load")
    publisher = broker.client("publisher")
    publisher.socket.settimeout(2)
    with pytest.raises(TimeoutError):
        for number in range(20_000):
            publisher.send("PUBLISH", topic="load", payload=numbered(number))
    broker.probe()


def test_drop_policies_cost_the_others_nothing(start_broker: StartBroker) -> None:
    """With blocked consumers that drop, healthy ones get everything, once."""
    broker = start_broker(settings=["queue.messages_max=50", "queue.outbox_bytes_max=64 KiB"])
    healthy = Readers(broker, 5, 0)
    for index in range(5):
        slow = broker.connection(receive_buffer=4096)
        slow.connect(f"slow-{index}")
        slow.subscribe("load")
    publisher = broker.client("publisher")
    for start in range(0, 3000, 10):
        for number in range(start, start + 10):
            publisher.send("PUBLISH", topic="load", payload=numbered(number))
        healthy.read_until(start + 10)
    for numbers in healthy.received.values():
        assert numbers == list(range(3000))
    assert dropped(broker, "queue-full-oldest") > 0


def test_memory_of_a_blocked_consumer_stays_inside_its_limit(start_broker: StartBroker) -> None:
    broker = start_broker(settings=["queue.bytes_max=1 MiB", "queue.outbox_bytes_max=256 KiB"])
    slow = broker.connection(receive_buffer=4096)
    slow.connect("slow")
    slow.subscribe("load")
    publisher = broker.client("publisher")
    before = broker.resident_bytes()
    for number in range(16_000):
        publisher.send("PUBLISH", topic="load", payload=numbered(number))
    publisher.quiet()
    # 64 MiB were sent; 1 MiB of queue, an outbox, read buffers and what the allocator keeps may stay.
    assert broker.resident_bytes() - before < 16 << 20
    assert dropped(broker, "queue-full-oldest") > 0


def test_class_of_clients_has_its_own_policy(start_broker: StartBroker, tmp_path: Path) -> None:
    config = tmp_path / "meridian.toml"
    config.write_text(
        '[queue]\noverflow = "drop-oldest"\nmessages_max = 10\n\n'
        '[[class]]\nname = "keepers"\nclient_id = "keep*"\noverflow = "drop-newest"\nmessages_max = 3\n'
    )
    broker = start_broker("--config", str(config))
    assert offline_queue(broker, 8) == [0, 1, 2]
    assert dropped(broker, "queue-full-newest") == 5


def test_cut_off_client_of_5_0_is_told_why(start_broker: StartBroker) -> None:
    """When the socket takes it; here it does, because the limit is on messages and the client reads on."""
    settings = ["queue.overflow=disconnect", "queue.messages_max=5"]
    broker = start_broker(settings=settings)
    slow = broker.client("slow", properties={"receive_maximum": 1})
    slow.subscribe("load", qos=1)
    publisher = broker.client("publisher")
    for number in range(20):
        publisher.send("PUBLISH", topic="load", payload=b"x", qos=1, id=number + 1)
    try:
        packet = slow.receive()
        if packet.kind == "PUBLISH":
            packet = slow.receive()
    except Closed:
        pytest.fail("closed without a DISCONNECT")
    assert packet.kind == "DISCONNECT" and packet.reason in {0x97, 0x89}, packet
    assert packet.properties.get("reason_string")


@pytest.mark.parametrize("how", ["drop", "takeover"])
def test_a_connection_that_waits_for_itself_ends_with_its_client(start_broker: StartBroker, how: str) -> None:
    broker = start_broker(settings=["queue.outbox_bytes_max=64 KiB", "server.sys_interval=0s"])
    slow = broker.connection(receive_buffer=4096)
    slow.connect("slow", keep_alive=0, properties={"session_expiry_interval": 0})
    slow.subscribe("t")
    with broker.client("publisher") as publisher:
        for _ in range(5000):
            publisher.send("PUBLISH", topic="t", payload=bytes(2000))
        publisher.quiet()
    for _ in range(3):
        slow.send("PINGREQ")
        broker.probe()
    if how == "drop":
        slow.drop()
    else:
        broker.client("slow").close()
    deadline = time.monotonic() + WAIT
    while broker.metrics()["meridian_clients"] > 0:
        assert time.monotonic() < deadline, "the connection is still there"
