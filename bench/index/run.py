#!/usr/bin/env python3
"""Measures routing indexes side by side: memory, rates, latencies, the slowest single operation.

  run.py [--quick] [--cases a,c,amqp] [--rows meridian,nats] [--runs N] [--resume]

A row is an index, a case a workload; README.md beside this file says what they are. Every figure comes from a fresh process;
within a case the rows take turns. Several runs give the median. bench/out/index.json gets an array of records: case, broker
(the row), metric, value, unit; bench/out/index.env.json gets versions and machine.

Environment: CARGO_TARGET_DIR (else target/ beside this file). Needs cargo; go for NATS; git for the row meridian-before.
"""
import argparse
import io
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCH = HERE.parent
sys.path.insert(0, str(BENCH))
import peers  # noqa: E402

ROOT = BENCH.parent
OUT = BENCH / "out"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or HERE / "target")
# The last commit before the index was widened beyond MQTT filters.
BEFORE = "f8fd695"
BEFORE_TREE = OUT / "before"
CRATES = ["mqtt_topic_tree", "mqtt-topic-engine", "quill-pubsub"]
ROWS = ["meridian", "meridian-before", "nats", *CRATES, "hashmap"]
# On request only: its crate is a whole server of 280 crates, five minutes of compilation for one module.
ON_REQUEST = ["rmqtt"]
OURS = ("meridian", "meridian-before")
# Where the others are churned too, which takes most of the time; ours are everywhere but among ten million filters.
CHURNED = ["a", "b", "c"]
CASES = ["a", "b", "c", "d", "e", "f", "g", "h"]
CASES_QUICK = ["a", "b"]
# Cases that the other indexes have nothing for, by meridian-alone.
ALONE = ["amqp", "hostile", "headers", "prefix", "exchange", "summary", "owner"]
RUN_SECONDS_MAX, RUN_SECONDS_MAX_QUICK = 600, 120
LEFT_OUT = {
    ("f", "mqtt_topic_tree"): "its look-up ends in a panic where three branches match",
    ("f", "mqtt-topic-engine"): "an insertion visits all subscribers of the filter, a look-up a second table for each target",
    ("g", "hashmap"): "it keeps one target for a topic",
    ("g", "mqtt-topic-engine"): "each insertion visits all subscribers of the filter: a million times a million steps",
}


def say(text):
    print(f"index: {text}", file=sys.stderr, flush=True)


def why_not(case, row):
    """Why a row has no figures of a case; none if it has."""
    if case == "e" and row not in OURS:
        return "ten million filters would take it over 4 GB, and most others over 8"
    if case == "h" and row not in OURS:
        return "it is case c with other words, which differ in Meridian's index alone"
    if case in ALONE and row != "meridian":
        return "others have nothing for it"
    return LEFT_OUT.get((case, row))


class Builder:
    """Builds the programs of the rows; forgets rows whose programs cannot be built."""

    def __init__(self, rows):
        self.rows = rows

    def build(self):
        self.attempt("meridian", lambda: self.cargo(HERE, "--package", "index-harness", "--package", "index-meridian"))
        self.attempt("meridian-before", self.before)
        self.attempt("nats", self.nats)
        if any(row in self.rows for row in (*CRATES, "hashmap")):
            self.attempt((*CRATES, "hashmap"), lambda: self.cargo(HERE, "--package", "index-others"))
        self.attempt("rmqtt", lambda: self.cargo(HERE / "rmqtt"))
        return self.rows

    def attempt(self, names, make):
        names = names if isinstance(names, tuple) else (names,)
        if not any(name in self.rows for name in names) and "meridian" not in names:
            return
        try:
            make()
        except (subprocess.CalledProcessError, OSError, peers.Missing) as error:
            if names == ("meridian",):
                raise
            say(f"{', '.join(names)}: left out, it cannot be built: {error}")
            self.rows = [row for row in self.rows if row not in names]

    def cargo(self, directory, *options, target=TARGET):
        peers.run("cargo", "build", "--release", "--quiet", "--target-dir", target, *options, cwd=directory)

    def before(self):
        """The same harness, compiled against the older tree."""
        git = ["git", "-C", str(ROOT)]
        found = subprocess.run([*git, "cat-file", "-e", f"{BEFORE}^{{commit}}"], capture_output=True)
        if found.returncode:
            raise peers.Missing(f"commit {BEFORE} is not in this repository; a full clone has it")
        if not (BEFORE_TREE / "Cargo.toml").exists():
            packed = subprocess.run([*git, "archive", BEFORE, "Cargo.toml", "crates", "xtask"], check=True, stdout=subprocess.PIPE)
            with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
                archive.extractall(BEFORE_TREE, filter="data")
        copy = BEFORE_TREE / "bench" / "index"
        shutil.copytree(HERE, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("target", "nats", "rmqtt", "run.py"))
        self.cargo(copy, "--package", "index-meridian", "--no-default-features", target=TARGET / "before")

    def nats(self):
        if not shutil.which("go"):
            raise peers.Missing("it needs go")
        peers.run("go", "build", "-o", TARGET / "nats-index", ".", cwd=HERE / "nats")


def command(row, kind, case):
    """The program of a row for one kind of measurement, and what feeds it, if anything does."""
    release = TARGET / "release"
    if row == "nats":
        return [TARGET / "nats-index", kind, case], [release / "index-workload", case]
    if kind == "alone":
        return [release / "meridian-alone", row, case], None
    if row in OURS:
        release = release if row == "meridian" else TARGET / "before" / "release"
        return [release / f"meridian-{kind}", row, case], None
    return [release / f"{'rmqtt' if row == 'rmqtt' else 'others'}-{kind}", row, case], None


def measure(row, kind, case, quick):
    """The figures of one fresh process: (case, metric) to (value, unit). None of them if it fails, which is said."""
    program, feed = command(row, kind, case)
    environment = dict(os.environ)
    if kind == "bytes":
        # Large blocks that the harness has freed go back to the kernel, so that what the index adds can be seen.
        environment["MALLOC_MMAP_THRESHOLD_"] = str(128 * 1024)
    seconds = RUN_SECONDS_MAX_QUICK if quick else RUN_SECONDS_MAX
    arguments = [str(part) for part in program] + (["--quick"] if quick else [])
    if case == "e" or (row not in OURS and (quick or case not in CHURNED)):
        arguments.append("--no-churn")
    feeder = subprocess.Popen([str(part) for part in feed], stdout=subprocess.PIPE) if feed else None
    try:
        done = subprocess.run(
            arguments,
            stdin=feeder.stdout if feeder else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=seconds,
            env=environment,
        )
        output, trouble = done.stdout, f"ended with {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired as stuck:
        output, trouble = (stuck.stdout or b"").decode(), f"no end within {seconds} s; kept is what it had measured"
    finally:
        if feeder:
            feeder.stdout.close()
            feeder.terminate()
            feeder.wait()
    if trouble:
        say(f"{case} {row} {kind}: {trouble}")
    records = [json.loads(line) for line in output.splitlines() if line.endswith("}")]
    return {(record["case"], record["metric"]): (record["value"], record["unit"]) for record in records}


class Suite:
    """The measurement of all cases, and its records."""

    def __init__(self, options):
        self.options = options
        self.path = OUT / "index.json"
        self.rows = []
        if options.resume and self.path.exists():
            self.rows = json.loads(self.path.read_text())
        self.done = {(record.get("of") or record["case"], record["broker"]) for record in self.rows}

    def run(self):
        for case in self.options.cases:
            rows = []
            for row in self.options.rows:
                reason = why_not(case, row)
                if reason and case not in ALONE:
                    say(f"{case} {row}: left out: {reason}")
                if not reason and (case, row) not in self.done:
                    rows.append(row)
            self.measure_case(case, rows)

    def measure_case(self, case, rows):
        kinds = ["alone"] if case in ALONE else ["times"]
        figures = {row: {} for row in rows}
        for number in range(1 if case == "e" else self.options.runs):
            # Bytes hardly differ from run to run.
            for kind in kinds + (["bytes"] if number == 0 and case not in ALONE else []):
                for row in rows:
                    start = time.monotonic()
                    for key, figure in measure(row, kind, case, self.options.quick).items():
                        figures[row].setdefault(key, []).append(figure)
                    say(f"{case} {row} {kind}: {time.monotonic() - start:.0f} s{self.shown(figures[row])}")
        for row, found in figures.items():
            for (name, metric), values in found.items():
                value = statistics.median(value for value, _ in values)
                record = {"case": name, "broker": row, "metric": metric, "value": round(value, 3), "unit": values[0][1]}
                if name != case:
                    record["of"] = case
                self.rows.append(record)
        # After every case, so that an interrupted suite leaves what it has.
        self.path.write_text(json.dumps(self.rows, indent=1) + "\n")

    @staticmethod
    def shown(figures):
        names = ("bytes_per_filter", "match_p50_ns", "match_p99_ns", "insert_random_per_s", "worst_op_us")
        found = {metric: values[-1][0] for (_, metric), values in figures.items() if metric in names}
        return "".join(f"  {metric} {value:,.0f}" for metric, value in found.items())


def environment(options):
    """Where and with what the figures came about."""
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    ours = peers.output("git", "-C", ROOT, "describe", "--always", "--dirty")
    locked = (HERE / "Cargo.lock").read_text()
    versions = {"meridian": ours, "meridian-before": BEFORE, "hashmap": peers.output("rustc", "--version").split()[1]}
    for crate in CRATES:
        match = re.search(rf'name = "{crate}"\nversion = "([^"]+)"', locked)
        versions[crate] = match[1] if match else "unknown"
    match = re.search(r"nats-server/v2 (\S+)", (HERE / "nats" / "go.mod").read_text())
    versions["nats"] = match[1] if match else "unknown"
    if "rmqtt" in options.rows:
        match = re.search(r'^rmqtt = .*?"=([^"]+)"', (HERE / "rmqtt" / "Cargo.toml").read_text(), re.MULTILINE)
        versions["rmqtt"] = match[1] if match else "unknown"
    return {
        "suite": "index",
        "quick": options.quick,
        "runs": options.runs,
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "machine": f"{os.cpu_count()} cores, {cpu}, {memory >> 30} GiB, {platform.system()} {platform.release()}",
        "versions": {row: versions[row] for row in options.rows},
    }


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few cases, one pass each: shows that it works")
    parser.add_argument("--cases", help=f"of {','.join(CASES + ALONE)}; default: all")
    parser.add_argument("--rows", help=f"of {','.join(ROWS)}, and {','.join(ON_REQUEST)}; default: all but the latter")
    parser.add_argument("--runs", type=int, default=1, help="processes for each case and row (default: %(default)s)")
    parser.add_argument("--resume", action="store_true", help="keep what bench/out has and measure what is missing")
    options = parser.parse_args(arguments)
    default = CASES_QUICK + ALONE if options.quick else CASES + ALONE
    options.cases = options.cases.split(",") if options.cases else default
    options.rows = options.rows.split(",") if options.rows else ROWS
    for name, known in [(name, CASES + ALONE) for name in options.cases] + [(name, ROWS + ON_REQUEST) for name in options.rows]:
        if name not in known:
            parser.error(f"unknown: {name}; there are {', '.join(known)}")
    return options


def main(arguments):
    options = parse(arguments)
    peers.end_in_order()
    OUT.mkdir(exist_ok=True)
    options.rows = Builder(options.rows).build()
    (OUT / "index.env.json").write_text(json.dumps(environment(options), indent=1) + "\n")
    suite = Suite(options)
    suite.run()
    say(f"wrote {suite.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
