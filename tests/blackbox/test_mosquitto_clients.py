"""mosquitto_pub, mosquitto_sub and mosquitto_rr, as people use them."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from harness.broker import Broker
from harness.client import WAIT

VERSIONS = pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])


def command(program: str, broker: Broker, version: str, *arguments: str) -> list[str]:
    host, port = broker.address()
    return [f"mosquitto_{program}", "-h", host, "-p", str(port), "-V", version, *arguments]


def run(*arguments: Any, text: str | None = None) -> str:
    done = subprocess.run(command(*arguments), input=text, capture_output=True, text=True, timeout=WAIT * 2)
    assert done.returncode == 0, f"{done.args}: {done.stderr}"
    return done.stdout


class Subscriber:
    """A running mosquitto_sub that has its subscription: `-d` prints the SUBACK."""

    def __init__(self, broker: Broker, version: str, *arguments: str):
        line = command("sub", broker, version, "-d", "-W", str(int(WAIT)), *arguments)
        self.process = subprocess.Popen(["stdbuf", "-oL", *line], stdout=subprocess.PIPE, text=True)
        for output in self.process.stdout:
            if output.startswith("Subscribed"):
                return
        raise AssertionError(f"{line} ended without a subscription")

    def lines(self) -> list[str]:
        """What it printed when it has ended, without the chatter of `-d`."""
        output, _ = self.process.communicate(timeout=WAIT * 2)
        chatter = ("Client ", "Subscribed", "Subscribing")
        return [line for line in output.splitlines() if not line.startswith(chatter)]


@VERSIONS
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_pub_reaches_sub(broker: Broker, version: str, qos: str) -> None:
    sub = Subscriber(broker, version, "-t", "m/#", "-q", qos, "-C", "1", "-F", "%t %q %r %p")
    run("pub", broker, version, "-t", "m/x", "-q", qos, "-m", "hello")
    assert sub.lines() == [f"m/x {qos} 0 hello"]


@VERSIONS
def test_lines_of_standard_input(broker: Broker, version: str) -> None:
    sub = Subscriber(broker, version, "-t", "lines", "-q", "1", "-C", "100")
    run("pub", broker, version, "-t", "lines", "-q", "1", "-l", text="".join(f"{i}\n" for i in range(100)))
    assert sub.lines() == [str(i) for i in range(100)]


@VERSIONS
def test_retained_message(broker: Broker, version: str) -> None:
    run("pub", broker, version, "-t", "kept", "-m", "state", "-r", "-q", "1")
    assert run("sub", broker, version, "-t", "kept", "-C", "1", "-F", "%r %p") == "1 state\n"
    run("pub", broker, version, "-t", "kept", "-n", "-r", "-q", "1")
    run("pub", broker, version, "-t", "kept/other", "-m", "later", "-r", "-q", "1")
    assert run("sub", broker, version, "-t", "kept/#", "-C", "1", "-F", "%t") == "kept/other\n"


@VERSIONS
def test_persistent_session(broker: Broker, version: str) -> None:
    keep = ["-c", "-i", "keeper", *(["-x", "100"] if version == "mqttv5" else [])]
    run("sub", broker, version, *keep, "-t", "queue", "-q", "2", "-E")
    run("pub", broker, version, "-t", "queue", "-q", "2", "-m", "while away")
    assert run("sub", broker, version, *keep, "-t", "queue", "-q", "2", "-C", "1") == "while away\n"


@VERSIONS
def test_will_of_a_killed_client(broker: Broker, version: str) -> None:
    sub = Subscriber(broker, version, "-t", "will", "-q", "1", "-C", "1")
    will = ["--will-topic", "will", "--will-payload", "gone", "--will-qos", "1"]
    doomed = Subscriber(broker, version, "-t", "nothing", *will)
    doomed.process.kill()
    doomed.process.wait()
    assert sub.lines() == ["gone"]


@VERSIONS
def test_shared_subscription(broker: Broker, version: str) -> None:
    members = [Subscriber(broker, version, "-t", "$share/g/work", "-q", "1", "-C", "2") for _ in range(2)]
    run("pub", broker, version, "-t", "work", "-q", "1", "-l", text="1\n2\n3\n4\n")
    assert sorted(members[0].lines() + members[1].lines()) == ["1", "2", "3", "4"]


def test_properties(broker: Broker) -> None:
    sub = Subscriber(broker, "mqttv5", "-t", "p", "-C", "1", "-F", "%j")
    properties = ["-D", "publish", "content-type", "text/plain", "-D", "publish", "user-property", "k", "v"]
    run("pub", broker, "mqttv5", "-t", "p", "-m", "x", *properties)
    got = json.loads(sub.lines()[0])["properties"]
    assert got["content-type"] == "text/plain" and got["user-properties"] == {"k": "v"}


def test_request_and_response(broker: Broker) -> None:
    """mosquitto_rr asks; a client of ours answers to the response topic, with the correlation data."""
    with broker.client("server") as server:
        server.subscribe("ask")
        line = command("rr", broker, "mqttv5", "-t", "ask", "-e", "answer/me", "-m", "ping", "-W", str(int(WAIT)))
        asker = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        request = server.expect("PUBLISH", topic="ask", payload=b"ping")
        assert request.properties["response_topic"] == "answer/me"
        kept = {key: value for key, value in request.properties.items() if key == "correlation_data"}
        server.send("PUBLISH", topic="answer/me", payload=b"pong", properties=kept)
        assert asker.communicate(timeout=WAIT)[0] == "pong\n"


def test_refused_subscription_is_told(broker: Broker) -> None:
    done = subprocess.run(
        command("sub", broker, "mqttv5", "-t", "$share/g", "-W", "5"), capture_output=True, text=True, timeout=WAIT
    )
    assert "denied" in done.stderr
