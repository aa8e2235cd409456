#!/usr/bin/env python3
"""The brokers that the suites compare: where each is found or how it is installed, and how it is started.

  peers.py install [NAME..]   installs what is missing (Mosquitto by apt, NATS by go, rumqttd by cargo)
  peers.py versions           prints which version of each would run
  peers.py start NAME [PORT]  runs one in the foreground until it is interrupted

A binary that is already there is used: on the PATH, in $PEERS (or ~/.cache/peers), else in the cache,
${XDG_CACHE_HOME:-~/.cache}/meridian-peers. Every broker keeps its state in memory: data directories are on /dev/shm where
there is one, and fresh at every start. Limits are raised as far as each broker lets them, so that the suites measure
its data path and not its overflow policy.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "meridian-peers"
INSTALLED = [Path(os.environ.get("PEERS") or Path.home() / ".cache" / "peers"), CACHE]
NATS_VERSION = "v2.15.2"
RUMQTTD_VERSION = "0.20.0"
START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 10
CONNECT = b"\x10\x11\x00\x04MQTT\x04\x02\x00\x3c\x00\x05ready"


class Missing(Exception):
    """A broker that is not here and cannot be had; says what to do."""


def found(name, *relative):
    """The first executable among the PATH and the given places below the caches."""
    for base in INSTALLED:
        for place in relative:
            if os.access(base / place, os.X_OK):
                return str(base / place)
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def target_dir(default):
    return Path(os.environ.get("CARGO_TARGET_DIR") or default)


def run(*command, **options):
    print("  $", " ".join(map(str, command)), file=sys.stderr, flush=True)
    subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr, **options)


def output(*command):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return result.stdout.strip()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Meridian:
    name = "meridian"

    def find(self):
        path = os.environ.get("MERIDIAN") or target_dir(HERE.parent / "target") / "release" / "meridian"
        return str(path) if os.access(path, os.X_OK) else None

    def install(self):
        if not os.environ.get("MERIDIAN"):
            run("cargo", "build", "--release", "--package", "meridian", cwd=HERE.parent)

    def version(self):
        return output(self.find(), "--version").removeprefix("meridian ")

    def command(self, port, directory):
        return [self.find(), "server", "--listen", f"mqtt://127.0.0.1:{port}", "--listen", "http://127.0.0.1:0"]


class Before(Meridian):
    """Another build of Meridian, to compare with: $MERIDIAN_BEFORE."""

    name = "meridian-before"

    def find(self):
        path = os.environ["MERIDIAN_BEFORE"]
        return path if os.access(path, os.X_OK) else None

    def install(self):
        raise Missing(f"meridian-before: $MERIDIAN_BEFORE is no program: {os.environ['MERIDIAN_BEFORE']}")


class Sketch:
    name = "sketch"
    manifest = HERE / "sketch" / "Cargo.toml"

    def find(self):
        path = target_dir(HERE / "sketch" / "target") / "release" / "meridian-sketch"
        return str(path) if path.exists() else None

    def install(self):
        run("cargo", "build", "--release", "--manifest-path", self.manifest)

    def version(self):
        return "this repository's"

    def command(self, port, directory):
        return [self.find(), str(port)]


class Mosquitto:
    name = "mosquitto"

    def find(self):
        return found("mosquitto", "mosquitto/mosquitto")

    def install(self):
        if not shutil.which("apt-get"):
            raise Missing("mosquitto: install it by the system's package manager")
        root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        options = ["--yes", "--no-install-recommends"]
        try:
            run(*root, "apt-get", "update")
            run(*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", *options, "mosquitto")
        except subprocess.CalledProcessError as error:
            raise Missing("mosquitto: needs root; run: sudo apt-get install mosquitto") from error

    def version(self):
        match = re.search(r"mosquitto version (\S+)", output(self.find(), "-h"))
        return match[1] if match else "unknown"

    def command(self, port, directory):
        lines = [
            f"listener {port} 127.0.0.1",
            "allow_anonymous true",
            "persistence false",
            "set_tcp_nodelay true",
            "max_queued_messages 0",  # no limit; the default of 1,000 would drop
            "max_inflight_messages 1000",
            "log_dest stderr",
            "log_type error",
            "connection_messages false",
        ]
        if os.geteuid() == 0:
            lines.append("user root")
        config = directory / "mosquitto.conf"
        config.write_text("\n".join(lines) + "\n")
        return [self.find(), "-c", str(config)]


class Nats:
    name = "nats"

    def find(self):
        return found("nats-server", "nats/nats-server")

    def install(self):
        if not shutil.which("go"):
            raise Missing("nats: needs go, with which it is built")
        target = CACHE / "nats"
        target.mkdir(parents=True, exist_ok=True)
        run("go", "install", f"github.com/nats-io/nats-server/v2@{NATS_VERSION}", env=dict(os.environ, GOBIN=str(target)))

    def version(self):
        return output(self.find(), "--version").removeprefix("nats-server: ")

    def command(self, port, directory):
        # MQTT needs JetStream, and keeps its streams in files: `directory` is in memory.
        config = directory / "nats.conf"
        config.write_text(
            f"""server_name: peer
host: 127.0.0.1
port: {free_port()}
max_connections: 200000
max_subscriptions: 0
max_pending: 1GB
write_deadline: "60s"
jetstream {{ store_dir: "{directory}", max_mem: 4GB, max_file: 8GB }}
mqtt {{ host: 127.0.0.1, port: {port}, max_ack_pending: 10000, js_api_timeout: "30s" }}
"""
        )
        return [self.find(), "-c", str(config)]


class Rumqttd:
    name = "rumqttd"

    def find(self):
        return found("rumqttd", "rumqttd/bin/rumqttd")

    def install(self):
        # Not --locked: the lock file of 0.20.0 names a crate that current compilers refuse.
        run("cargo", "install", "--version", RUMQTTD_VERSION, "--root", CACHE / "rumqttd", "rumqttd")

    def version(self):
        crates = Path(self.find()).parent.parent / ".crates.toml"
        match = re.search(r'"rumqttd (\S+) ', crates.read_text()) if crates.exists() else None
        return match[1] if match else "unknown"

    def command(self, port, directory):
        # As shipped, without its other listeners; connections raised, no delay between them.
        config = directory / "rumqttd.toml"
        config.write_text(
            f"""id = 0
[router]
id = 0
max_connections = 200000
max_outgoing_packet_count = 200
max_segment_size = 104857600
max_segment_count = 10
[v4.1]
name = "v4-1"
listen = "127.0.0.1:{port}"
next_connection_delay_ms = 0
    [v4.1.connections]
    connection_timeout_ms = 60000
    max_payload_size = 1048576
    max_inflight_count = 65000
    dynamic_filters = true
"""
        )
        return [self.find(), "-c", str(config), "-q"]


ALL = {peer.name: peer for peer in (Meridian(), Sketch(), Mosquitto(), Nats(), Rumqttd())}
if os.environ.get("MERIDIAN_BEFORE"):
    ALL["meridian-before"] = Before()


def install(names):
    """Installs what is missing; returns the names that cannot be had."""
    absent = []
    for name in names:
        try:
            # What this repository builds is brought up to date in any case.
            if name in ("meridian", "sketch") or not ALL[name].find():
                ALL[name].install()
        except (Missing, subprocess.CalledProcessError, OSError) as error:
            print(f"peers: {error}", file=sys.stderr)
        if not ALL[name].find():
            absent.append(name)
    return absent


def rss_bytes(pid):
    """Resident memory of a process, 0 if it is gone."""
    try:
        match = re.search(r"VmRSS:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(match[1]) * 1024 if match else 0


def answers(port):
    """Whether a broker on the port accepts a CONNECT."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as probe:
            probe.sendall(CONNECT)
            reply = probe.recv(4)
            probe.sendall(b"\xe0\x00")
            return len(reply) == 4 and reply[0] == 0x20 and reply[3] == 0
    except OSError:
        return False


class Running:
    """A started broker; stop it by `with`, or by stop()."""

    def __init__(self, name, port=None, rss_max_bytes=None):
        self.name = name
        self.port = port or free_port()
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.directory = Path(tempfile.mkdtemp(prefix=f"meridian-bench-{name}-", dir=memory))
        self.log = self.directory / "output"
        self.killed = ""
        self.over = threading.Event()
        command = ALL[name].command(self.port, self.directory)
        start = time.monotonic()
        with open(self.log, "wb") as log:
            # A session of its own: an interrupt at the terminal ends the suite, which then ends the broker.
            self.process = subprocess.Popen(
                command, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.pid = self.process.pid
        while not answers(self.port):
            if self.process.poll() is not None or time.monotonic() - start > START_SECONDS_MAX:
                tail = self.log.read_text(errors="replace")[-2000:]
                self.stop()
                raise RuntimeError(f"{name} did not start: {' '.join(command)}\n{tail}")
            time.sleep(0.001)
        self.ready_ms = (time.monotonic() - start) * 1000
        if rss_max_bytes:
            threading.Thread(target=self.guard, args=(rss_max_bytes,), daemon=True).start()

    def guard(self, rss_max_bytes):
        """Kills the broker before it takes the machine's memory."""
        while not self.over.wait(0.2):
            if rss_bytes(self.pid) > rss_max_bytes:
                self.killed = f"killed above {rss_max_bytes >> 30} GiB"
                self.process.kill()
                return

    def stop(self):
        self.over.set()
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.process.kill()
            self.process.wait()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def end_in_order():
    """Lets SIGTERM unwind as an interrupt does, so that no broker stays behind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def main(arguments):
    end_in_order()
    action, names = (arguments or ["help"])[0], arguments[1:]
    if action == "install":
        return 1 if install(names or ALL) else 0
    if action == "versions":
        for name, peer in ALL.items():
            print(f"{name}: {peer.version() if peer.find() else 'missing'}")
        return 0
    if action == "start" and names:
        with Running(names[0], int(names[1]) if names[1:] else None) as broker:
            print(f"{broker.name}: pid {broker.pid}, port {broker.port}, ready in {broker.ready_ms:.0f} ms", flush=True)
            try:
                signal.pause()
            except KeyboardInterrupt:
                pass
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
