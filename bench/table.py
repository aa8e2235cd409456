#!/usr/bin/env python3
"""Prints the records of a suite as Markdown tables, one for each metric.

  table.py FILE.json ..

The last columns are Meridian's figure over the floor's (the sketch, or the hash map), over its own of before if there is such
a row, and over the best peer's (which none of those is); a peer that lost messages in a case is not its best. Bold: the best peer. Marks: ! lost messages or connections, ~ no run without other
load on the machine.
"""
import json
import sys
from pathlib import Path

OURS, BEFORE = "meridian", "meridian-before"
# What does less than is asked, as a yardstick.
FLOORS = ("sketch", "hashmap")
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
    "bytes_per_filter": "Bytes per filter with its target, by the allocator's count",
    "resident_bytes_per_filter": "Bytes per filter with its target, resident",
    "bytes_per_filter_after_churn": "Bytes per filter after ten rounds of churn, by the allocator's count",
    "resident_bytes_per_filter_after_churn": "Bytes per filter after ten rounds of churn, resident",
    "bytes_total": "Bytes in all, MiB",
    "bytes_left": "Bytes left after everything was removed, KiB",
    "bytes_per_binding": "Bytes per binding, by the structure's own count",
    "match_p50_ns": "Match p50, ns",
    "match_p99_ns": "Match p99, ns",
    "match_max_ns": "Slowest match, ns",
    "match_ns_per_target": "Match, ns per target found",
    "match_p50_under_writes_ns": "Match p50 beside 100,000 writes per second, ns",
    "match_p99_under_writes_ns": "Match p99 beside 100,000 writes per second, ns",
    "cached_match_per_s": "Matches of 1,000 topics through the result cache, million per second",
    "cached_match_wide_per_s": "Matches of 100,000 topics through the result cache, million per second",
    "match_per_s": "Matches of one thread, topics checked before, million per second",
    "match_two_threads": "Matches of two threads, times those of one",
    "match_two_threads_cpu": "The same by the threads' own clocks",
    "insert_per_s": "Inserted in order, million per second",
    "insert_random_per_s": "Inserted in random order, million per second",
    "remove_per_s": "Removed in random order, million per second",
    "worst_op_us": "Slowest single insertion or removal, µs",
    "worst_insert_us": "Slowest single insertion in order, µs",
    "worst_insert_random_us": "Slowest single insertion in random order, µs",
    "worst_remove_us": "Slowest single removal, µs",
    "worst_nothing_us": "Slowest step of a loop that does nothing, µs",
    "time_ms": "The whole operation, ms",
    "ns_per_item": "The whole operation, ns per filter or route",
    "matches_per_topic": "Targets found per topic",
    "filters": "Different filters",
    "own_count_bytes_per_filter": "Bytes per filter by the structure's own count",
    "clock_ns": "One reading of the clock that times matches, ns",
    "thread_clock_ns": "One reading of the clock that times the slowest operations, ns",
}
SCALES = {"delivered_per_s": 1e-3, "filters_per_s": 1e-3, "idle_rss_bytes": 1 / 2**20, "rss_peak_bytes": 1 / 2**20}
SCALES |= {"bytes_total": 1 / 2**20, "bytes_left": 1 / 2**10}
MILLIONS = {"cached_match_per_s", "cached_match_wide_per_s", "match_per_s", "insert_per_s", "insert_random_per_s", "remove_per_s"}
SCALES |= dict.fromkeys(MILLIONS, 1e-6)
# In a closed loop latency follows from window and rate; the file has it, the tables need not.
HIDDEN = {"mqtt": {"p50_us", "p99_us", "p999_us"}}
HIDDEN["index"] = {"worst_insert_us", "worst_insert_random_us", "worst_remove_us", "own_count_bytes_per_filter"}
# More is better in these; compared with nobody are those that say what was asked, or are near 0.
RISING = {"delivered_per_s", "filters_per_s", "clients_per_s", "match_two_threads", "match_two_threads_cpu"} | MILLIONS
UNRANKED = {"lost", "rate_per_s", "connections_failed", "cpu_change_percent", "rate_change_percent"}
UNRANKED |= {"matches_per_topic", "filters", "clock_ns", "thread_clock_ns", "bytes_left", "worst_nothing_us"}


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
    yardsticks = [broker for broker in brokers if broker in (*FLOORS, BEFORE)]
    heads = brokers + ([f"{OURS} / {name}" for name in [*yardsticks, "best peer"]] if ranked else [])
    lines = [f"### {TITLES[metric]}", "", f"| case | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    pick = max if metric in RISING else min
    for case in cases:
        values = {broker: cells[case, broker]["value"] for broker in brokers if (case, broker) in cells}
        sound = {
            broker: value
            for broker, value in values.items()
            if broker not in (OURS, *yardsticks) and (case, broker) not in bad and metric not in UNRANKED
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
            shown += [ratio(ours, values.get(name)) for name in [*yardsticks, best]]
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
            length = f" of {about['seconds']} s" if "seconds" in about else ""
            runs = f"{about['runs']} runs{length}" + (" (quick)" if about["quick"] else "")
            print(f"{about['date']}; {about['machine']}; {runs}.\n{versions}.\n")
        rows = json.loads(path.read_text())
        for metric in (kind for kind in TITLES if kind not in HIDDEN.get(path.stem, ())):
            for line in grid(rows, metric):
                print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
