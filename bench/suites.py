#!/usr/bin/env python3
"""Runs one suite against Meridian and its peers side by side, with `meridian bench` as the generator.

  suites.py SUITE [--quick] [--brokers a,b] [--cases TEXT] [--runs N] [--seconds S]

SUITE is mqtt, latency, memory, storm or idle-peers; ../README.md and RESULTS.md say what each asks. Every run has a
freshly started broker, and the brokers of a case take turns, so that what else the machine does hits all of them alike.
A figure is the median of its runs; runs during which other processes took over 0.15 of a core are repeated, and left
out where quiet ones exist. bench/out/SUITE.json gets an array of records: case, broker, metric, value, unit
("noisy": true where no quiet run was had); bench/out/SUITE.env.json gets versions, machine and settings.

Environment: MERIDIAN (its binary; else this repository's release build), MERIDIAN_BEFORE (another build, which becomes
the broker meridian-before), GENERATOR (the binary whose `bench` drives the load; else Meridian's), PEERS and
CARGO_TARGET_DIR as in peers.py.
"""
import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import peers

OUT = peers.HERE / "out"
OTHER_CORES_MAX = 0.15
RSS_MAX_SHARE = 0.6
RUN_SECONDS_MAX = 300

# Shapes and windows: a window is what a publisher may have under way, small enough that no broker must drop.
SHAPES = [
    ("1->1", "fan-out --window 200", 1),
    ("1->100", "fan-out --subscribers 100 --window 50", 100),
    ("5->1000", "fan-out --publishers 5 --subscribers 1000 --window 5", 1000),
    ("100->1", "fan-in --publishers 100 --window 20 --inflight 20", 1),
    ("500x 1->1", "pairs --pairs 500 --window 10 --inflight 10", 1),
    ("1->100 a/+/c/#", "fan-out --wildcard --subscribers 100 --window 50", 100),
]
MQTT_QUICK = ["1->1 q0 16B", "1->1 q1 16B", "1->100 q0 16B", "1->100 q0 1024B", "5->1000 q0 16B", "100->1 q0 16B"]
# Name, arguments, msg/s, or a share of a peak: the broker's own, or that of the best peer, which all then get.
LATENCIES = [
    ("1->1 q0 16B 10% of peak", "fan-out", None, ("1->1", 0.1, "own")),
    ("1->1 q0 16B 10% of best peer's peak", "fan-out", None, ("1->1", 0.1, "best")),
    ("1->1 q0 16B 5000/s", "fan-out", 5000, None),
    ("1->1 q1 16B 5000/s", "fan-out --qos 1", 5000, None),
    ("1->100 q0 16B 10% of peak", "fan-out --subscribers 100", None, ("1->100", 0.1, "own")),
    ("1->100 q0 16B 10% of best peer's peak", "fan-out --subscribers 100", None, ("1->100", 0.1, "best")),
    ("1->100 q0 16B 100/s", "fan-out --subscribers 100", 100, None),
]
UNITS = {
    "cpu_us_per_delivered": "us",
    "delivered_per_s": "1/s",
    "lost": "messages",
    "p50_us": "us",
    "p99_us": "us",
    "p999_us": "us",
    "rate_per_s": "1/s",
    "idle_rss_bytes": "bytes",
    "bytes_per_connection": "bytes",
    "bytes_per_subscription": "bytes",
    "filters_per_s": "1/s",
    "cpu_us_per_client": "us",
    "clients_per_s": "1/s",
    "connections_failed": "connections",
    "ready_ms": "ms",
    "cpu_change_percent": "%",
    "rate_change_percent": "%",
    "rss_peak_bytes": "bytes",
}


class Records:
    """The results of a suite, written anew after every case so that an interrupted suite leaves what it has."""

    def __init__(self, suite, options):
        self.path = OUT / f"{suite}.json"
        self.rows = []
        OUT.mkdir(exist_ok=True)
        if options.resume and self.path.exists():
            self.rows = json.loads(self.path.read_text())

    def has(self, case, broker):
        return any(row["case"] == case and row["broker"] == broker for row in self.rows)

    def add(self, case, broker, runs):
        """Adds the medians of `runs`, each a dict of metrics with `other_cores` besides."""
        quiet = [run for run in runs if run.get("other_cores", 0) <= OTHER_CORES_MAX]
        for metric in UNITS:
            values = [run[metric] for run in quiet or runs if run.get(metric) is not None]
            if not values:
                continue
            # Loss is not excused by a busy machine, nor by a median.
            worst = [run[metric] for run in runs if run.get(metric) is not None]
            value = max(worst) if metric in ("lost", "connections_failed") else statistics.median(values)
            row = {"case": case, "broker": broker, "metric": metric, "value": round(value, 3), "unit": UNITS[metric]}
            if not quiet:
                row["noisy"] = True
            self.rows.append(row)
        self.path.write_text(json.dumps(self.rows, indent=1) + "\n")


class Suite:
    """What the cases of a suite share: options, brokers, generator."""

    def __init__(self, options):
        self.options = options
        self.records = Records(options.suite, options)
        self.brokers = options.brokers
        self.generator = os.environ.get("GENERATOR") or peers.ALL["meridian"].find()
        self.rss_max_bytes = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * RSS_MAX_SHARE)

    def start(self, name):
        broker = peers.Running(name, rss_max_bytes=self.rss_max_bytes)
        # Whatever it still does at its start is not part of any figure.
        time.sleep(0.3)
        return broker

    def load(self, broker, arguments):
        """One run of the generator: its result, or None and why."""
        command = [self.generator, "bench", *arguments.split(), "--url", f"mqtt://127.0.0.1:{broker.port}"]
        command += ["--pid", str(broker.pid), "--json", "-"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return None, f"no end within {RUN_SECONDS_MAX} s {broker.killed}"
        if done.returncode:
            return None, f"{broker.killed} {done.stderr.strip()[-300:]}"
        result = json.loads(done.stdout)
        return result, "; ".join(result["troubles"][:2])

    def timing(self):
        options = self.options
        return f"--duration {options.seconds} --warm-up {options.warm_up}"

    def wanted(self, case):
        return self.options.cases in case

    def in_turn(self, case, measure, runs=None):
        """Measures a case `runs` times with every broker in turn, and again those that others disturbed."""
        runs = self.options.runs if runs is None else runs
        results = {name: [] for name in self.brokers if not self.records.has(case, name)}
        for attempt in range(2 * runs):
            for name, done in results.items():
                quiet = [run for run in done if run.get("other_cores", 0) <= OTHER_CORES_MAX]
                if len(quiet) >= runs or (attempt >= runs and self.options.quick):
                    continue
                if attempt >= 2 and not done:
                    continue  # it fails, again and again
                run, note = measure(name)
                self.say(case, name, run, note)
                if run:
                    done.append(run)
        for name, done in results.items():
            self.records.add(case, name, done)

    def say(self, case, name, run, note):
        shown = "  ".join(f"{metric} {value:,.2f}" for metric, value in (run or {}).items() if value is not None)
        print(f"{case:32} {name:10} {shown} {note}", file=sys.stderr, flush=True)

    def delivered(self, name, arguments):
        """A run with messages on a fresh broker."""
        with self.start(name) as broker:
            result, note = self.load(broker, arguments)
        return result and figures(result), note


def figures(result):
    """The metrics of a run with messages."""
    latency, loss = result["latency_us"], result["loss"]
    return {
        "cpu_us_per_delivered": result["server"]["cpu_us_per_delivered"],
        "delivered_per_s": result["delivered_per_s"],
        "p50_us": latency["p50"],
        "p99_us": latency["p99"],
        "p999_us": latency["p999"],
        "lost": loss["lost"],
        "connections_failed": loss["connections_failed"] + loss["connections_closed"],
        "other_cores": result["other_cores"],
    }


def mqtt(suite):
    for shape, arguments, _ in SHAPES:
        for qos in (0, 1):
            for size in (16, 1024):
                case = f"{shape} q{qos} {size}B"
                if not suite.wanted(case) or ("#" in case and size > 16):
                    continue
                if suite.options.quick and case not in MQTT_QUICK:
                    continue
                line = f"{arguments} --qos {qos} --size {size} {suite.timing()}"
                suite.in_turn(case, lambda name: suite.delivered(name, line))


def latency(suite):
    peaks = {}

    def peak(name, shape):
        """Messages per second that a broker takes of a shape, measured in this run."""
        if (name, shape) not in peaks:
            arguments, fan = next((arguments, fan) for known, arguments, fan in SHAPES if known == shape)
            run, note = suite.delivered(name, f"{arguments} --duration 2 --warm-up 0.7")
            suite.say(f"{shape} peak", name, run, note)
            peaks[name, shape] = run["delivered_per_s"] / fan if run else None
        return peaks[name, shape]

    for case, arguments, rate, share in LATENCIES:
        if not suite.wanted(case) or (suite.options.quick and "->100" in case):
            continue

        def measure(name):
            published = rate
            if share:
                shape, part, whose = share
                others = [other for other in suite.brokers if other not in ("meridian", "meridian-before", "sketch")]
                names = [name] if whose == "own" or not others else others
                top = max((peak(each, shape) or 0 for each in names), default=0)
                if not top:
                    return None, "no peak"
                published = max(1, round(top * part))
            run, note = suite.delivered(name, f"{arguments} --rate {published} {suite.timing()}")
            if run:
                del run["delivered_per_s"]
                run["rate_per_s"] = published
            return run, note

        suite.in_turn(case, measure)


def memory(suite):
    connections = 2_000 if suite.options.quick else 10_000
    holders, filters = (200, 500) if suite.options.quick else (1_000, 1_000)

    def idle(name):
        with suite.start(name) as broker:
            time.sleep(2)
            return {"idle_rss_bytes": peers.rss_bytes(broker.pid)}, ""

    def connected(name):
        with suite.start(name) as broker:
            result, note = suite.load(broker, f"idle --connections {connections} --duration 3")
        return result and {
            "bytes_per_connection": result["server"]["bytes_per_connection"],
            "connections_failed": result["loss"]["connections_failed"],
        }, note

    def subscribed(name):
        line = f"wildcard --connections {holders} --filters {filters} --prefix dev --window 20 --duration 3 --warm-up 1"
        with suite.start(name) as broker:
            result, note = suite.load(broker, line)
        if not result:
            return None, note
        run = figures(result)
        kept = {metric: run[metric] for metric in ("cpu_us_per_delivered", "lost", "other_cores")}
        kept["bytes_per_subscription"] = result["server"]["bytes_per_filter"]
        kept["filters_per_s"] = result["filters_per_s"]
        return kept, note

    cases = [
        ("idle", idle),
        (f"{connections:,} connections", connected),
        (f"{holders:,} connections x {filters:,} filters", subscribed),
    ]
    for case, measure in cases:
        if suite.wanted(case):
            suite.in_turn(case, measure)


#: Closed connections that the kernel may still remember when a storm begins. With many more it searches long for a free
#: port, and the generator would be measured in place of the broker.
REMEMBERED_MAX = 4_000


def wait_for_ports():
    """Waits until the kernel has forgotten most closed connections, which takes a minute after each storm."""
    while True:
        tcp = next(line.split() for line in open("/proc/net/sockstat") if line.startswith("TCP:"))
        if int(tcp[tcp.index("tw") + 1]) <= REMEMBERED_MAX:
            return
        time.sleep(1)


def storm(suite):
    clients = 3_000 if suite.options.quick else 10_000
    case = f"{clients:,} clients, 100 at a time"

    def come_and_go(name):
        wait_for_ports()
        with suite.start(name) as broker:
            result, note = suite.load(broker, f"connect-storm --clients {clients} --at-once 100 --warm-up 1")
        return result and {
            "cpu_us_per_client": result["server"]["cpu_us_per_client"],
            "clients_per_s": result["clients_per_s"],
            "connections_failed": result["loss"]["connections_failed"],
            "other_cores": result["other_cores"],
        }, note

    def ready(name):
        with peers.Running(name) as broker:
            return {"ready_ms": broker.ready_ms}, ""

    if suite.wanted(case):
        suite.in_turn(case, come_and_go)
    if suite.wanted("start to ready"):
        suite.in_turn("start to ready", ready, runs=3 if suite.options.quick else 9)


def idle_peers(suite):
    rounds = max(suite.options.runs, 1 if suite.options.quick else 5)
    to_one = f"fan-out --rate 20000 {suite.timing()}"
    idle = f"{to_one} --idle-subscribers 20 --idle-topics 100"
    name = "20,000/s to one"
    variants = [(name, to_one), (f"{name}, 20 x 100 idle, same", idle)]
    variants.append((f"{name}, 20 x 100 idle, different", f"{idle} --idle-distinct"))
    changed(suite, variants, "cpu_us_per_delivered", "cpu_change_percent", rounds)
    seconds = suite.options.seconds
    # Long enough for the kernel's buffers of the blocked one to fill before the measurement.
    wide = f"fan-out --subscribers 1000 --window 20 --size 1024 --duration {seconds} --warm-up {3 * seconds}"
    variants = [("1->1000 q0 1024B", wide), ("1->1000 q0 1024B, one blocked", f"{wide} --blocked-subscribers 1")]
    changed(suite, variants, "delivered_per_s", "rate_change_percent", rounds)


def changed(suite, variants, metric, change_metric, rounds):
    """Measures variants of a load right after one another; each further one also by its change against the first."""
    if not any(suite.wanted(case) for case, _ in variants):
        return
    results = {(case, name): [] for case, _ in variants for name in suite.brokers}
    for number in range(rounds):
        for name in suite.brokers:
            # Every other round backwards, so that a drift of the machine does not look like an effect.
            order = variants if number % 2 == 0 else variants[::-1]
            around = {}
            for case, arguments in order:
                with suite.start(name) as broker:
                    result, note = suite.load(broker, arguments)
                run = result and {kind: figures(result)[kind] for kind in ("other_cores", "lost", metric)}
                if run:
                    run["rss_peak_bytes"] = result["server"]["rss_peak_bytes"]
                suite.say(case, name, run, note)
                if run:
                    around[case] = run
            base = around.get(variants[0][0])
            for case, run in around.items():
                if run is not base and base:
                    run[change_metric] = (run[metric] / base[metric] - 1) * 100
                results[case, name].append(run)
    for (case, name), runs in results.items():
        suite.records.add(case, name, runs)


SUITES = {"mqtt": mqtt, "latency": latency, "memory": memory, "storm": storm, "idle-peers": idle_peers}


def environment(options):
    """Where and with what the figures came about."""
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "suite": options.suite,
        "quick": options.quick,
        "runs": options.runs,
        "seconds": options.seconds,
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "machine": f"{os.cpu_count()} cores, {cpu}, {memory >> 30} GiB, {platform.system()} {platform.release()}",
        "versions": {name: peers.ALL[name].version() for name in options.brokers},
    }


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--quick", action="store_true", help="fewer cases, one short run each: shows that it works")
    parser.add_argument("--brokers", default=",".join(peers.ALL), help="default: %(default)s")
    parser.add_argument("--cases", default="", help="only cases whose name contains this")
    parser.add_argument("--runs", type=int, help="runs of each case and broker")
    parser.add_argument("--seconds", type=float, help="length of a run")
    parser.add_argument("--resume", action="store_true", help="keep what bench/out has and measure what is missing")
    options = parser.parse_args(arguments)
    options.brokers = options.brokers.split(",")
    unknown = [name for name in options.brokers if name not in peers.ALL]
    if unknown:
        parser.error(f"unknown broker {unknown[0]}; there are {', '.join(peers.ALL)}")
    if options.runs is None:
        options.runs = 1 if options.quick or options.suite == "memory" else 3
    if options.seconds is None:
        options.seconds = 1.5 if options.quick else 3
    options.warm_up = 0.5 if options.quick else 0.7
    return options


def main(arguments):
    options = parse(arguments)
    peers.end_in_order()
    absent = peers.install(options.brokers)
    for name in absent:
        print(f"suites: {name} is left out: it is not here and could not be installed", file=sys.stderr)
    options.brokers = [name for name in options.brokers if name not in absent]
    # Ten thousand connections need as many open files, here and in the brokers.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    suite = Suite(options)
    if not suite.generator:
        print("suites: no generator: build meridian, or set GENERATOR", file=sys.stderr)
        return 1
    (OUT / f"{options.suite}.env.json").write_text(json.dumps(environment(options), indent=1) + "\n")
    SUITES[options.suite](suite)
    print(f"suites: wrote {suite.records.path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
