"""Start, stop, reload, addresses, and what the broker says about itself while it runs."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Callable

import pytest

from harness.broker import Broker, binary, start
from harness.client import WAIT, Closed, Connection
from harness.websocket import WebSocket

StartBroker = Callable[..., Broker]


def wait_for_end(broker: Broker) -> int:
    code = broker.process.wait(WAIT)
    broker.reader.join()
    broker.check_log()
    return code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_shutdown_says_0x8b_to_clients_of_5_0_and_ends_with_0(number: signal.Signals) -> None:
    broker = start()
    new, old, ws = broker.client("new"), broker.client("old", version=4), WebSocket(broker.address("ws"))
    ws.connect("ws")
    broker.signal(number)
    for client in (new, ws):
        packet = client.expect("DISCONNECT", reason=0x8B)
        assert packet.properties.get("reason_string")
        client.expect_closed()
    with pytest.raises(Closed):
        old.receive()
    assert wait_for_end(broker) == 0


def test_shutdown_drains_what_was_published() -> None:
    """All that was acknowledged before the signal reaches a subscriber that reads."""
    broker = start()
    sub, pub = broker.client("sub"), broker.client("pub")
    sub.subscribe("t", qos=1)
    for index in range(500):
        pub.send("PUBLISH", topic="t", payload=str(index).encode().ljust(2000), qos=1, id=index + 1)
    for index in range(500):
        pub.expect("PUBACK", id=index + 1)
    broker.signal(signal.SIGTERM)
    for index in range(500):
        assert int(sub.expect("PUBLISH").payload) == index
    sub.expect("DISCONNECT", reason=0x8B)
    assert wait_for_end(broker) == 0


@pytest.mark.parametrize("qos", [0, 1])
def test_shutdown_drains_the_queues_of_slow_clients(qos: int) -> None:
    """What waits behind a full socket or window is sent as long as the client takes it, and only then DISCONNECT."""
    broker = start(settings=["server.shutdown_grace=60s", "queue.outbox_bytes_max=64 KiB"])
    count, size = 3000, 2000
    slow = broker.connection(receive_buffer=4096)
    slow.connect("slow", properties={"receive_maximum": 5})
    slow.subscribe("t", qos=qos)
    with broker.client("pub") as pub:
        for number in range(count):
            pub.send("PUBLISH", topic="t", payload=str(number).encode().ljust(size), qos=qos, **({"id": 1} if qos else {}))
            if qos:
                pub.expect("PUBACK")
        pub.quiet()
        assert broker.metrics()["meridian_queued_messages"] > count / 3
        broker.signal(signal.SIGTERM)
        # Nothing waits for this one.
        pub.expect("DISCONNECT", reason=0x8B)
    for number in range(count):
        message = slow.expect("PUBLISH")
        assert int(message.payload) == number
        if qos:
            slow.send("PUBACK", id=message.id)
    slow.expect("DISCONNECT", reason=0x8B)
    assert wait_for_end(broker) == 0


def test_shutdown_tells_a_client_whose_queue_does_not_drain() -> None:
    """It acknowledges nothing, so that its window stays full; its socket takes DISCONNECT before the grace time ends."""
    broker = start(settings=["server.shutdown_grace=4s"])
    silent = broker.client("silent", properties={"receive_maximum": 1})
    silent.subscribe("t", qos=1)
    with broker.client("pub") as pub:
        for _ in range(2):
            pub.send("PUBLISH", topic="t", qos=1, id=1)
            pub.expect("PUBACK")
        pub.send("DISCONNECT")
    broker.signal(signal.SIGTERM)
    silent.expect("PUBLISH")
    silent.expect("DISCONNECT", reason=0x8B)
    assert wait_for_end(broker) == 0


def test_shutdown_does_not_wait_for_a_stuck_client() -> None:
    """One that never reads is given up after the grace time."""
    broker = start(settings=["server.shutdown_grace=1s"])
    stuck = broker.connection(receive_buffer=4096)
    stuck.connect("stuck")
    stuck.subscribe("t")
    with broker.client("pub") as pub:
        for _ in range(3000):
            pub.send("PUBLISH", topic="t", payload=bytes(4096))
        pub.quiet()
    broker.signal(signal.SIGTERM)
    assert wait_for_end(broker) == 0


def test_shutdown_is_not_held_up_by_wills() -> None:
    """A will that is due when all clients are told to leave must not hang the shutdown."""
    broker = start()
    broker.client("doomed", will_topic="will", will_payload=b"x")
    broker.signal(signal.SIGTERM)
    assert wait_for_end(broker) == 0


def test_banner_tells_addresses_limits_and_time(broker: Broker) -> None:
    assert re.search(r"^ready in \d+ ms$", broker.log, re.MULTILINE)
    assert re.search(r"\d+ open files", broker.log)
    for scheme in ("mqtt", "ws", "http"):
        host, port = broker.address(scheme)
        assert f"listening on {scheme}://{host}:{port}" in broker.log and port != 0


def test_many_listeners_and_ipv6(start_broker: StartBroker) -> None:
    """TCP and WebSocket, each an ordered, lossless stream of bytes [MQTT-4.2-1] [MQTT3-7.1.1-1]."""
    urls = ["mqtt://127.0.0.1:0", "mqtt://127.0.0.1:0", "mqtt://[::1]:0", "ws://[::1]:0"]
    broker = start_broker(listeners=urls)
    addresses = [broker.address("mqtt", index) for index in range(3)]
    assert len(set(addresses)) == 3
    with Connection(addresses[2]) as sub, Connection(addresses[0]) as one, Connection(addresses[1]) as two:
        sub.connect("sub"), one.connect("one"), two.connect("two")
        sub.subscribe("t")
        one.send("PUBLISH", topic="t", payload=b"1")
        sub.expect("PUBLISH", payload=b"1")
        two.send("PUBLISH", topic="t", payload=b"2")
        sub.expect("PUBLISH", payload=b"2")
        with WebSocket(broker.address("ws")) as ws:
            ws.connect("ws")
            ws.send("PUBLISH", topic="t", payload=b"3")
            sub.expect("PUBLISH", payload=b"3")


def test_burst_of_connections_waits_in_the_backlog(broker: Broker) -> None:
    """More connections than one accept loop takes at once, opened without waiting, are all served."""
    sockets = []
    for _ in range(2000):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(broker.address())
        sockets.append(one)
    for one in sockets:
        one.settimeout(WAIT)
        one.sendall(b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00")
    for one in sockets:
        assert one.recv(4) == b"\x20\x02\x00\x00"
        one.close()


def test_log_says_readably_why_a_connection_was_refused(broker: Broker) -> None:
    with broker.connection() as stranger:
        stranger.send("PINGREQ")
        stranger.expect_closed()
    broker.wait_for_log("connection refused: the first packet of a connection must be CONNECT")
    line = next(line for line in broker.log.splitlines() if "connection refused" in line)
    assert '"reason":"protocol error"' in line.lower() and "Protocol {" not in line, line


def test_log_tells_lifecycle_and_not_messages(broker: Broker) -> None:
    with broker.client("chatty") as client:
        client.subscribe("t")
        broker.wait_for_log(r"client connected.*chatty")
        mark = len(broker.log)
        for _ in range(100):
            client.send("PUBLISH", topic="t", payload=b"x")
            client.expect("PUBLISH")
        client.quiet()
        assert broker.log[mark:] == ""
        client.send("DISCONNECT")
        client.expect_closed()
    broker.wait_for_log(r"client disconnected.*chatty", mark)


def test_reload_takes_what_can_change_and_prints_it(start_broker: StartBroker, tmp_path: Path) -> None:
    config = tmp_path / "meridian.toml"
    config.write_text("[mqtt]\nreceive_maximum = 10\n")
    broker = start_broker("--config", str(config))
    with broker.connection() as client:
        assert client.connect("before").properties["receive_maximum"] == 10
    mark = len(broker.log)
    config.write_text("[mqtt]\nreceive_maximum = 20\n")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log(r"mqtt\.receive_maximum.*10.*20", mark)
    with broker.connection() as client:
        assert client.connect("after").properties["receive_maximum"] == 20


def test_reload_leaves_connected_clients_what_they_were_told(start_broker: StartBroker, tmp_path: Path) -> None:
    """A lower limit of packets holds from the next CONNACK on, where it is told."""
    file = tmp_path / "meridian.toml"
    file.write_text("")
    broker = start_broker("--config", str(file))
    with broker.client("before") as before:
        since = len(broker.log)
        file.write_text('[mqtt]\npacket_bytes_max = "1 KiB"\n')
        broker.signal(signal.SIGHUP)
        broker.wait_for_log("packet_bytes_max", since)
        with broker.connection() as after:
            assert after.connect("after").properties["maximum_packet_size"] == 1024
            for client in (before, after):
                client.send("PUBLISH", topic="t", payload=bytes(2000), qos=1, id=1)
            before.expect("PUBACK", id=1)
            after.expect("DISCONNECT", reason=0x95)


def test_reload_of_a_wrong_file_changes_nothing(start_broker: StartBroker, tmp_path: Path) -> None:
    config = tmp_path / "meridian.toml"
    config.write_text("[mqtt]\nreceive_maximum = 10\n")
    broker = start_broker("--config", str(config))
    mark = len(broker.log)
    config.write_text("[mqtt]\nreceive_maximum = 20\ntopic_alias_maximun = 3\n")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log(r"topic_alias_maximum", mark)
    assert '"code":"E0102"' in broker.log[mark:]
    with broker.connection() as client:
        assert client.connect("after").properties["receive_maximum"] == 10


def test_sys_topics_tell_about_the_broker(start_broker: StartBroker) -> None:
    broker = start_broker(settings=["server.sys_interval=1s"])
    with broker.client("reader") as reader:
        reader.subscribe("$SYS/#")
        seen = {}
        while not {"$SYS/broker/version", "$SYS/broker/uptime", "$SYS/broker/clients/connected"} <= set(seen):
            message = reader.expect("PUBLISH")
            seen[message.topic] = message.payload.decode()
            assert len(seen) < 500, f"not all there: {sorted(seen)}"
        assert "0." in seen["$SYS/broker/version"]
        assert seen["$SYS/broker/clients/connected"].startswith("1")


def test_a_session_that_came_and_went_expires_among_many_deadlines(broker: Broker) -> None:
    """Deadlines that mean nothing any more are sifted out; the session's own must not be missed afterwards."""
    watch, publisher = broker.client("watch"), broker.client("publisher")
    watch.subscribe("gone")
    session = {"clean_start": 0, "properties": {"session_expiry_interval": 2}}
    with broker.client("fleeting", **session) as fleeting:
        fleeting.send("DISCONNECT")
        fleeting.expect_closed()
    will = {"will_topic": "gone", "will_payload": b"", "will_properties": {"will_delay_interval": 1000}}
    fleeting = broker.client("fleeting", **session, **will)
    for number in range(5000):
        publisher.send("PUBLISH", topic=f"r/{number}", payload=b"x", retain=1, properties={"message_expiry_interval": 900})
    publisher.quiet()
    fleeting.drop()
    # The will comes with the end of the session.
    watch.expect("PUBLISH", topic="gone")
    assert broker.metrics()["meridian_sessions"] == 2


def test_a_session_that_is_replaced_while_it_subscribes_leaves_nothing_behind(start_broker: StartBroker) -> None:
    """Else its last filter would belong to whoever gets its number. Two loops: one subscribes, the other replaces."""
    broker = start_broker(settings=["server.threads=2"])
    others = [broker.client(f"other-{number}") for number in range(2)]
    for _ in range(15):
        # The first loop has its pair, so this one and its neighbour go to the second.
        old, neighbour, new = broker.client("same"), broker.connection(), broker.connection()
        old.send("SUBSCRIBE", id=1, filters=[{"filter": f"f/{number}"} for number in range(10_000)])
        new.connect("same")
        old.drain_to_end()
        new.send("DISCONNECT")
        new.expect_closed()
        old.close(), neighbour.close()
        assert broker.metrics()["meridian_subscriptions"] == 0
    for other in others:
        other.quiet()


def wake_ups(broker: Broker) -> list[int]:
    """How often each event loop has gone to sleep so far."""
    counts = {}
    for task in Path(f"/proc/{broker.process.pid}/task").iterdir():
        name, status = (task / "comm").read_text(), (task / "status").read_text()
        counts[name.strip()] = int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)$", status, re.MULTILINE)[1])
    # One that has not run yet has no name of its own.
    return [counts.get("loop-0", 0), counts.get("loop-1", 0)]


def wake_ups_of_talk(broker: Broker, sub: Connection, pub: Connection) -> list[int]:
    """How often each event loop goes to sleep while two clients exchange 300 messages; the busier one last."""
    sub.connect("sub"), pub.connect("pub")
    sub.subscribe("t", qos=1)
    before = wake_ups(broker)
    for _ in range(300):
        pub.send("PUBLISH", topic="t", qos=1, id=1)
        sub.send("PUBACK", id=sub.expect("PUBLISH").id)
        pub.expect("PUBACK", id=1)
    return sorted(after - since for after, since in zip(wake_ups(broker), before))


@pytest.mark.parametrize("probe", ["closed", "reset", "page"])
def test_a_health_check_does_not_part_a_pair(probe: str) -> None:
    """The first two clients share an event loop, so that the other one sleeps while they talk."""
    broker = start(settings=["server.threads=2", "server.sys_interval=0s"])
    if probe == "page":
        page = http.client.HTTPConnection(*broker.address("http"), timeout=WAIT)
        page.request("GET", "/healthz")
        assert page.getresponse().read()
        sub, pub = broker.connection(), broker.connection()
    else:
        # All three are there when the broker looks, so that it cannot have seen the end of the first before.
        broker.signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(broker.process.pid, os.WUNTRACED)[1])
        check = broker.connection()
        check.drop() if probe == "reset" else check.close()
        sub, pub = broker.connection(), broker.connection()
        broker.signal(signal.SIGCONT)
    counts = wake_ups_of_talk(broker, sub, pub)
    assert counts[0] < 100 <= counts[1], counts
    if probe != "page":
        assert broker.metrics()["meridian_connections"] == 3
        assert broker.metric_sum("meridian_connections_refused_total", "connect-refused") == 1
    broker.stop()


def test_a_connection_that_stays_silent_does_not_part_pairs_for_ever() -> None:
    broker = start(settings=["server.threads=2", "server.sys_interval=0s"])
    deadline = time.monotonic() + WAIT
    with broker.connection():
        while True:
            with broker.connection() as sub, broker.connection() as pub:
                counts = wake_ups_of_talk(broker, sub, pub)
            if counts[0] < 100 <= counts[1]:
                break
            assert time.monotonic() < deadline, counts
    broker.stop()


class Unread:
    """A broker whose standard error is a pipe that the test reads when it likes."""

    def __init__(self, *settings: str):
        with socket.socket() as free, socket.socket() as other:
            free.bind(("127.0.0.1", 0)), other.bind(("127.0.0.1", 0))
            self.mqtt, self.http = free.getsockname()[1], other.getsockname()[1]
        command = [str(binary()), "--listen", f"mqtt://127.0.0.1:{self.mqtt}", "--listen", f"http://127.0.0.1:{self.http}"]
        for setting in settings:
            command += ["--set", setting]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE)
        assert self.process.stderr is not None
        while b'"ready"' not in (line := self.process.stderr.readline()):
            assert line, "it ended"

    def connects(self, count: int) -> None:
        for number in range(count):
            with Connection(("127.0.0.1", self.mqtt), 4) as client:
                client.connect(f"a-client-with-a-long-name-{number}")

    def dropped(self) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=WAIT) as answer:
            text = answer.read().decode()
        return int(re.search(r"^meridian_log_lines_dropped_total (\d+)$", text, re.MULTILINE)[1])


def test_a_log_that_nobody_reads_holds_nobody_up() -> None:
    """The pipe and the queue of lines are full: clients are served, the metric and later the log say what is missing."""
    broker = Unread("log.level=trace", "server.sys_interval=1s")
    while broker.dropped() == 0:
        broker.connects(200)
    text = b""
    while b"log lines were dropped" not in text:
        text += broker.process.stderr.readline()
    broker.process.send_signal(signal.SIGTERM)
    rest = broker.process.stderr.read()
    assert broker.process.wait(WAIT) == 0
    assert b'"stopped' in rest.splitlines()[-1], "the last line is written before the end"


def test_a_log_that_nobody_reads_does_not_keep_the_process_from_ending() -> None:
    broker = Unread()
    while broker.dropped() == 0:
        broker.connects(200)
    broker.process.send_signal(signal.SIGTERM)
    assert broker.process.wait(WAIT) == 0
    broker.process.stderr.close()
