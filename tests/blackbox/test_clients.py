"""Clients in Go (Eclipse Paho), Rust (rumqttc) and JavaScript (MQTT.js in Chromium), built by `xtask install-test-deps`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.broker import Broker, start
from harness.client import WAIT

TESTS = Path(__file__).resolve().parents[1]
CACHE = TESTS / ".cache"
SCENARIOS = ["qos", "retained", "will", "session", "shared"]
BOTH = [(version, scenario) for version in ("v3", "v5") for scenario in SCENARIOS] + [("v5", "properties")]


def run(*line: Any, seconds: float = WAIT * 4) -> str:
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout


@pytest.mark.parametrize("version,scenario", [*BOTH, ("v3", "websocket")])
def test_go_client(broker: Broker, version: str, scenario: str) -> None:
    tcp = broker.url("mqtt").replace("mqtt:", "tcp:")
    assert run(CACHE / "go-client", version, tcp, broker.url("ws") + "/mqtt", scenario) == "ok\n"


@pytest.mark.parametrize("version,scenario", BOTH)
def test_rust_client(broker: Broker, version: str, scenario: str) -> None:
    program = CACHE / "rust-client" / "debug" / "rust-client"
    assert run(program, version, *broker.address(), scenario) == "ok\n"


@pytest.fixture(scope="module", params=["ws", "http"])
def browser_results(request: pytest.FixtureRequest) -> Any:
    """All scenarios in one page: through the WebSocket listener, and through `/mqtt` of the HTTP listener."""
    broker = start()
    host, port = broker.address(request.param)
    try:
        output = run("node", TESTS / "browser" / "run.mjs", f"ws://{host}:{port}/mqtt", seconds=300)
        broker.check()
    finally:
        broker.kill()
    return json.loads(output)["results"]


@pytest.mark.parametrize("name", [f"{version} {name}" for version in ("v4", "v5") for name in SCENARIOS] + ["v5 properties"])
def test_browser(browser_results: dict[str, str], name: str) -> None:
    assert browser_results[name] == "ok"
