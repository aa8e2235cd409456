"""Health, readiness and metrics."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request

import pytest

from harness.broker import Broker
from harness.client import WAIT

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
SAMPLE = re.compile(r'^([a-zA-Z_][a-zA-Z0-9_]*)(?:\{([a-z_]+="[^"]*"(?:,[a-z_]+="[^"]*")*)\})? (\S+)$')


def test_health_and_readiness(broker: Broker) -> None:
    assert broker.get("/healthz").strip() == "ok"
    assert broker.get("/readyz").strip() == "ready"


def test_unknown_path_is_404(broker: Broker) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        broker.get("/nothing-here")
    assert caught.value.code == 404


def test_metrics_are_open_metrics(broker: Broker) -> None:
    """Each family has TYPE before its samples, counters end in _total, and the text ends with EOF."""
    with urllib.request.urlopen(broker.url("http") + "/metrics", timeout=WAIT) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        text = answer.read().decode()
    assert text.endswith("# EOF\n")
    kinds: dict[str, str] = {}
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds, f"{name} twice"
            kinds[name] = kind
        elif not line.startswith("# "):
            found = SAMPLE.match(line)
            assert found, line
            name = found[1]
            family = next((name.removesuffix(end) for end in ("_total", "_info", "") if name.removesuffix(end) in kinds), None)
            assert family, f"{name} has no TYPE"
            assert kinds[family] != "counter" or name.endswith("_total"), name
            assert name.startswith("meridian_")
            float(found[3])


def test_metrics_count_what_happens(broker: Broker) -> None:
    with broker.client("sub") as sub, broker.client("pub") as pub:
        sub.subscribe("a/#", qos=1)
        for number in range(5):
            pub.send("PUBLISH", topic="a/b", payload=b"12345", qos=1, id=number + 1)
            pub.expect("PUBACK")
            sub.send("PUBACK", id=sub.expect("PUBLISH").id)
        pub.send("PUBLISH", topic="nobody", retain=1, payload=b"x")
        sub.quiet(), pub.quiet()
        metrics = broker.metrics()
        assert metrics["meridian_clients"] == 2
        assert metrics["meridian_subscriptions"] == 1
        assert metrics["meridian_retained_messages"] == 1
        assert metrics['meridian_messages_received_total{qos="1"}'] == 5
        assert metrics['meridian_messages_received_total{qos="0"}'] == 1
        assert metrics["meridian_messages_delivered_total"] == 5
        assert metrics["meridian_messages_unmatched_total"] == 1
        assert metrics["meridian_bytes_received_total"] > 0 and metrics["meridian_bytes_sent_total"] > 0
        pub.send("DISCONNECT")
        pub.expect_closed()
        assert broker.metric_sum("meridian_disconnects_total", '"client"') == 1


def test_labels_never_hold_what_clients_send(broker: Broker) -> None:
    with broker.client("peculiar-client-id", username="peculiar-user") as client:
        client.subscribe("peculiar/filter")
        client.send("PUBLISH", topic="peculiar/topic", retain=1)
        client.quiet()
        assert "peculiar" not in broker.get("/metrics")


def test_requests_share_a_connection(broker: Broker) -> None:
    with socket.create_connection(broker.address("http"), WAIT) as plain:
        for _ in range(3):
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b"ok\n") and not answer.endswith(b"ok"):
                data = plain.recv(4096)
                assert data, "closed after a request without Connection: close"
                answer += data
            assert answer.startswith(b"HTTP/1.1 200")


def test_other_methods_are_refused(broker: Broker) -> None:
    request = urllib.request.Request(broker.url("http") + "/metrics", data=b"x", method="POST")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=WAIT)
    assert caught.value.code == 405
