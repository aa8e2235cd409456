"""Starts the real binary on free ports, waits until it says it is ready, and holds it to its word afterwards."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import urllib.request
from pathlib import Path
from typing import Sequence

from .client import WAIT, Connection

ROOT = Path(__file__).resolve().parents[2]
LISTENING = re.compile(r"\b(mqtt|ws|http)://(\[[0-9a-fA-F:]+\]|[0-9.]+):([0-9]+)")
READY = re.compile(r"ready in \d+")
COMPLAINT = re.compile(r"panicked at|RUST_BACKTRACE|stack overflow|assertion .*failed")
LISTENERS = ("mqtt://127.0.0.1:0", "ws://127.0.0.1:0", "http://127.0.0.1:0")


def binary() -> Path:
    """The program under test: `$MERIDIAN`, or the release build."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = Path(os.environ.get("MERIDIAN", target / "release" / "meridian"))
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; `cargo build --release` makes it, $MERIDIAN names another")
    return path


class Broker:
    """A broker process. `log` grows with its output; `stop` checks that it neither died nor panicked."""

    def __init__(self, *arguments: str, settings: Sequence[str] = (), listeners: Sequence[str] = LISTENERS):
        command = [str(binary()), "server", *arguments]
        for url in listeners:
            command += ["--listen", url]
        for setting in settings:
            command += ["--set", setting]
        self._start(command)

    def _start(self, command: list[str]) -> None:
        self.command, self.log = command, ""
        self.addresses: dict[str, list[tuple[str, int]]] = {}
        self.changed = threading.Condition()
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.wait_for_log(READY)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self.changed:
                self.log += line
                if "listening" in line:
                    for scheme, host, port in LISTENING.findall(line):
                        self.addresses.setdefault(scheme, []).append((host.strip("[]"), int(port)))
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def wait_for_log(self, pattern: str | re.Pattern[str], since: int = 0) -> None:
        """Until the log, from offset `since` on, matches `pattern`."""
        with self.changed:
            found = self.changed.wait_for(
                lambda: re.search(pattern, self.log[since:]) or not self.reader.is_alive(), WAIT
            )
            if not found or not re.search(pattern, self.log[since:]):
                raise AssertionError(f"no {pattern!r} in the log of {' '.join(self.command)}:\n{self.log}")

    def address(self, scheme: str = "mqtt", index: int = 0) -> tuple[str, int]:
        return self.addresses[scheme][index]

    @property
    def port(self) -> int:
        return self.address()[1]

    def url(self, scheme: str) -> str:
        host, port = self.address(scheme)
        return f"{scheme}://{host}:{port}"

    def connection(self, version: int = 5, **options: int) -> Connection:
        """An open connection that has not yet sent CONNECT."""
        return Connection(self.address(), version, **options)

    def client(self, client_id: str = "", version: int = 5, **fields: object) -> Connection:
        """A connection that has been accepted."""
        connection = self.connection(version)
        connection.connect(client_id, **fields)
        return connection

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url("http") + path, timeout=WAIT) as answer:
            return answer.read().decode()

    def metrics(self) -> dict[str, float]:
        """Every sample of /metrics, by name with labels, as printed."""
        samples = {}
        for line in self.get("/metrics").splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)
        return samples

    def metric_sum(self, name: str, label: str = "") -> float:
        """The sum of a metric's samples whose labels contain `label`."""
        return sum(
            value for key, value in self.metrics().items() if key.split("{")[0] == name and label in key
        )

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def probe(self) -> None:
        """A full round trip by fresh clients of both versions: the broker still serves."""
        for version in (4, 5):
            with self.client(f"probe-sub-{version}", version) as sub, self.client(f"probe-pub-{version}", version) as pub:
                sub.subscribe("probe/#", qos=1)
                pub.send("PUBLISH", topic="probe/still-here", payload=b"?", qos=1, id=1)
                pub.expect("PUBACK", id=1)
                message = sub.expect("PUBLISH", topic="probe/still-here", payload=b"?", qos=1)
                sub.send("PUBACK", id=message.id)
                pub.send("DISCONNECT")
                sub.send("DISCONNECT")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def check(self) -> None:
        """It is alive and has not complained."""
        assert self.process.poll() is None, f"the broker died with {self.process.returncode}:\n{self.log}"
        self.check_log()

    def check_log(self) -> None:
        complaint = COMPLAINT.search(self.log)
        assert complaint is None, f"the broker panicked:\n{self.log}"

    def stop(self) -> None:
        """Checks it, then kills it."""
        try:
            self.check()
        finally:
            self.kill()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()


class Mosquitto(Broker):
    """Mosquitto in Meridian's place, to try the tests themselves: `TEST_BROKER=mosquitto`. Not used in CI."""

    def __init__(self, *_: str, settings: Sequence[str] = (), listeners: Sequence[str] = LISTENERS):
        program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.config = ROOT / "tests" / ".cache" / f"mosquitto-{port}.conf"
        self.config.parent.mkdir(exist_ok=True)
        self.config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
        self._start([program, "-v", "-c", str(self.config)])
        self.addresses = {"mqtt": [("127.0.0.1", port)]}

    def wait_for_log(self, pattern: str | re.Pattern[str], since: int = 0) -> None:
        super().wait_for_log("running" if pattern is READY else pattern, since)

    def kill(self) -> None:
        super().kill()
        self.config.unlink(missing_ok=True)


def start(*arguments: str, **options: Sequence[str]) -> Broker:
    """The broker under test."""
    kind = Mosquitto if os.environ.get("TEST_BROKER") == "mosquitto" else Broker
    return kind(*arguments, **options)
