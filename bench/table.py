#!/usr/bin/env python3
"""Prints the records of a suite as Markdown tables, one for each metric.

  table.py FILE.json ..

The last two columns are Meridian's figure over the sketch's, and over the best peer's (the sketch is none); a peer that
lost messages in a case is not its best. Bold: the best peer. Marks: ! lost messages or connections, ~ no run without other
load on the machine.
"""
import json
import sys
from pathlib import Path

OURS, FLOOR = "meridian", "sketch"
TITLES = {
    "cpu_us_per_delivered": "Broker CPU per delivered message, µs",
    "delivered_per_s": "Delivered, thousand messages per second",
    "p50_us": "Latency p50, µs",
    "p99_us": "Latency p99, µs",
    "p999_us": "Latency p99.9, µs",
    "lost": "Messages lost",
    "rate_per_s": "Published, messages per second",
    "idle_rss_bytes": "Resident memory idle, MiB",
    "bytes_per_connection": "Bytes per connection",
    "bytes_per_subscription": "Bytes per subscription",
    "filters_per_s": "Subscriptions added, thousand per second",
    "cpu_us_per_client": "Broker CPU per client, µs",
    "clients_per_s": "Clients per second",
    "connections_failed": "Connections failed or closed",
    "ready_ms": "Start to ready, ms",
    "cpu_change_percent": "Change of CPU per delivered message against the load alone, %",
    "rate_change_percent": "Change of the delivery rate against the load alone, %",
    "rss_peak_bytes": "Peak resident memory, MiB",
}
SCALES = {"delivered_per_s": 1e-3, "filters_per_s": 1e-3, "idle_rss_bytes": 1 / 2**20, "rss_peak_bytes": 1 / 2**20}
# In a closed loop latency follows from window and rate; the file has it, the tables need not.
HIDDEN = {"mqtt": {"p50_us", "p99_us", "p999_us"}}
# More is better in these; compared with nobody are those that say what was asked, or are near 0.
RISING = {"delivered_per_s", "filters_per_s", "clients_per_s"}
UNRANKED = {"lost", "rate_per_s", "connections_failed", "cpu_change_percent", "rate_change_percent"}


def number(value):
    if value is None:
        return "–"
    digits = 0 if abs(value) >= 1000 or value == int(value) else 1 if abs(value) >= 100 else 2
    return f"{value:,.{digits}f}"


def ratio(ours, other):
    return f"{ours / other:.2f}" if ours and other else "–"


def grid(rows, metric):
    """The lines of one metric's table; none if nothing but zeros is to be shown."""
    cells = {(row["case"], row["broker"]): row for row in rows if row["metric"] == metric}
    if not cells or (metric in ("lost", "connections_failed") and not any(row["value"] for row in cells.values())):
        return []
    cases = list(dict.fromkeys(case for case, _ in cells))
    brokers = list(dict.fromkeys(broker for _, broker in cells))
    bad = {
        (row["case"], row["broker"]) for row in rows if row["metric"] in ("lost", "connections_failed") and row["value"]
    }
    ranked = metric not in UNRANKED and OURS in brokers
    heads = brokers + ([f"{OURS} / {FLOOR}", f"{OURS} / best peer"] if ranked else [])
    lines = [f"### {TITLES[metric]}", "", f"| case | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    pick = max if metric in RISING else min
    for case in cases:
        values = {broker: cells[case, broker]["value"] for broker in brokers if (case, broker) in cells}
        sound = {
            broker: value
            for broker, value in values.items()
            if broker not in (OURS, FLOOR) and (case, broker) not in bad and metric not in UNRANKED
        }
        best = pick(sound, key=sound.get) if sound else None
        shown = []
        for broker in brokers:
            if broker not in values:
                shown.append("–")
                continue
            text = number(values[broker] * SCALES.get(metric, 1))
            text = f"**{text}**" if broker == best else text
            marks = ("!" if (case, broker) in bad else "") + ("~" if cells[case, broker].get("noisy") else "")
            shown.append(f"{text} {marks}".strip())
        if ranked:
            ours = values.get(OURS)
            shown += [ratio(ours, values.get(FLOOR)), ratio(ours, values.get(best))]
        lines.append(f"| {case} | {' | '.join(shown)} |")
    return lines + [""]


def main(paths):
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    for path in map(Path, paths):
        environment = path.with_suffix(".env.json")
        print(f"## Suite {path.stem}\n")
        if environment.exists():
            about = json.loads(environment.read_text())
            versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
            runs = f"{about['runs']} runs of {about['seconds']} s" + (" (quick)" if about["quick"] else "")
            print(f"{about['date']}; {about['machine']}; {runs}.\n{versions}.\n")
        rows = json.loads(path.read_text())
        for metric in (kind for kind in TITLES if kind not in HIDDEN.get(path.stem, ())):
            for line in grid(rows, metric):
                print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
