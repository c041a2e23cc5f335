#!/usr/bin/env python3
"""Tables of bench/esi/run, from what measure.py prints.

  table.py --updates LOAD            how many updates a run of that load made
  table.py --keep FIGURE LOAD WAY CLIENTS TURN    one line of the record
  table.py --line FIGURE LOAD WAY CLIENTS TURN    the same, for people
  table.py --waits                   percentiles of what EXPLAIN ANALYZE says of waits
  table.py --record FOLDER           the tables, and a CSV for each chart
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

# Updates of one run of each script of a load.
UPDATES = {
    "reads": [0],
    "A": [0, 1],
    "B": [0, 1],
    "A-transactions": [0, 2],
    "B-transactions": [0, 2],
}

# What the text says of each figure.
TEXT = {
    "4.6 B": "WEAK 2.5 x SINGLE beyond 600 clients, BASIC two thirds of WEAK, ESI as WEAK",
    "4.6 A": "SINGLE ahead beyond 640 clients; ESI as WEAK, ahead of BASIC",
    "4.7 B-transactions": "ESI nearly as WEAK",
    "4.7 A-transactions": "ESI nearly as WEAK",
    "4.9 B": "without ATA ahead at low load; with ATA far ahead at high load",
}


def number(counted, beginning):
    """The sum of the counters whose names begin so."""
    return sum(value for name, value in counted.items() if name.startswith(beginning))


def summary(run):
    """What one run came to: figures by name."""
    counted, us = run["counted"], run["us"]
    reads = number(counted, "coeval_reads_total")
    label = lambda key, value: sum(  # noqa: E731
        count for name, count in counted.items()
        if name.startswith("coeval_reads_total") and f'{key}="{value}"' in name)
    asked = number(counted, 'coeval_read_questions_total{kind="sent"')
    return {
        "per second": run["per_second"],
        "latency ms": run["latency_ms"],
        "leader": us.get("leader", 0.0),
        "gateway": us.get("gateway", 0.0),
        "other": us.get("other", 0.0),
        "servers": sum(us.values()),
        "client": run["client_us"],
        "all": sum(us.values()) + run["client_us"],
        "busiest": max(us.values()),
        "questions/read": asked / reads if reads else 0.0,
        "local %": 100 * label("route", "local") / reads if reads else 0.0,
        "lacks log %": 100 * label("reason", "lacks_log") / reads if reads else 0.0,
        "uncommitted %": 100 * label("reason", "uncommitted") / reads if reads else 0.0,
        "waited %": 100 * label("stamp", "waited") / reads if reads else 0.0,
        "shared %": 100 * label("stamp", "shared") / reads if reads else 0.0,
        "spared %": 100 * label("stamp", "spared") / reads if reads else 0.0,
    }


COLUMNS = ["per second", "latency ms", "leader", "gateway", "other", "servers", "client", "all",
           "busiest", "questions/read", "local %", "lacks log %", "uncommitted %", "waited %",
           "shared %", "spared %"]


def medians(lines):
    """Medians of all turns, by figure, load, way and clients, in the order of the lines."""
    runs = defaultdict(list)
    for line in lines:
        run = json.loads(line)
        key = (run["figure"], run["load"], run["way"], run["clients"])
        runs[key].append(summary(run))
    return {key: {name: median(each[name] for each in all_of) for name in COLUMNS}
            for key, all_of in runs.items()}


def rows_of(found, figure, load):
    return {(way, clients): row for (f, l, way, clients), row in found.items()
            if (f, l) == (figure, load)}


def table(title, rows, out):
    out.append(title)
    out.append(f"{'way':<10}{'clients':>8}" + "".join(f"{name:>15}" for name in COLUMNS))
    for (way, clients), row in rows.items():
        out.append(f"{way:<10}{clients:>8}" + "".join(f"{row[name]:>15.2f}" for name in COLUMNS))
    out.append("")


def verdict(value, aim, at_most=True):
    reached = value <= aim if at_most else value >= aim
    return f"{value:.2f} (aim {'<=' if at_most else '>='} {aim}: {'reached' if reached else 'missed'})"


def aims(found, out):
    """The aims of reads through a follower."""
    rows, own = rows_of(found, "aims", "reads"), rows_of(found, "own", "reads")
    for clients, servers, leader in [(32, 14, 2), (8, 25, 6)]:
        esi, relayed = rows.get(("esi", clients)), rows.get(("leader", clients))
        if not esi or not relayed:
            continue
        out.append(f"point read through a follower, {clients} clients, us of all servers: "
                   f"{verdict(esi['servers'], servers)}, by the leader {relayed['servers']:.1f}")
        out.append(f"  of the leader: {verdict(esi['leader'], leader)}, "
                   f"by the leader {relayed['leader']:.1f}")
        if clients == 32:
            out.append(f"  questions a read: {verdict(esi['questions/read'], 1 / 8)}")
    for clients, aim in [(32, 1.10), (96, 1.05)]:
        esi, weak = rows.get(("esi", clients)), rows.get(("weak", clients))
        if esi and weak:
            out.append(f"servers and clients together, of WEAK's, {clients} clients: "
                       f"{verdict(esi['all'] / weak['all'], aim)}")
    for clients in (32,):
        one, lead = rows.get(("one", clients)), own.get(("leader", clients))
        if one and lead:
            out.append(f"the leader's own reads, of one node's, {clients} clients: "
                       f"{verdict(lead['leader'] / one['leader'], 1.6)}")
    remote = rows_of(found, "remote", "reads")
    ours, theirs = remote.get(("esi", 8)), remote.get(("remote_apply", 8))
    if ours and theirs:
        out.append("fresh reads a second on a standby, of PostgreSQL's with remote_apply: "
                   f"{verdict(ours['per second'] / theirs['per second'], 3, at_most=False)}")
    out.append("")


def ratios(found, out):
    """What each figure says in the text, and the same here, in processor time."""
    for title, said in TEXT.items():
        figure, load = title.split(" ")
        rows = rows_of(found, figure, load)
        if not rows:
            continue
        out.append(f"figure {title}; the text: {said}")
        for clients in sorted({clients for _, clients in rows}):
            weak = rows.get(("weak", clients))
            if not weak:
                continue
            parts = [f"{way} {weak['all'] / row['all']:.2f} ({weak['busiest'] / row['busiest']:.2f})"
                     for (way, its), row in rows.items() if its == clients and way != "weak"]
            out.append(f"  {clients:>3} clients, of what WEAK does in a second of processor time "
                       f"(of the busiest server's): {', '.join(parts)}")
        out.append("")


def charts(found, folder):
    """A CSV of each chart: series, clients, microseconds of all servers and clients."""
    for figure, load in dict.fromkeys((f, l) for f, l, _, _ in found if f != "remote"):
        with open(Path(folder) / f"esi-{figure}-{load}.lines.csv", "w", encoding="utf-8") as file:
            file.write("way,clients,us\n")
            for (way, clients), row in rows_of(found, figure, load).items():
                file.write(f"{way},{clients},{row['all']:.3f}\n")


def waits(text):
    """Percentiles of the waits in EXPLAIN ANALYZE's words."""
    found = sorted(float(each) for each in re.findall(r"waited ([\d.]+) ms", text))
    if not found:
        return "EXPLAIN says nothing about waits"
    at = lambda percent: found[min(len(found) * percent // 100, len(found) - 1)]  # noqa: E731
    return (f"{len(found)} fresh reads beside 8 writers waited behind their answers: "
            f"p50 {at(50):.3f} ms (aim <= 0.3), p99 {at(99):.3f} ms (aim <= 3)")


def main():
    mode, given = sys.argv[1], sys.argv[2:]
    if mode == "--waits":
        print(waits(sys.stdin.read()))
        return
    if mode == "--record":
        found = medians(sys.stdin)
        out = []
        aims(found, out)
        ratios(found, out)
        for figure, load in dict.fromkeys((f, l) for f, l, _, _ in found):
            table(f"{figure}, load {load}", rows_of(found, figure, load), out)
        charts(found, given[0])
        out.append("medians of all turns; us of processor time a transaction of the leader, the "
                   "node of the clients (gateway), the other one, all servers, the clients, both, "
                   "and the busiest server")
        print("\n".join(out))
        return
    run = json.loads(sys.stdin.read())
    if mode == "--updates":
        print(sum(n * each for n, each in zip(run["scripts"], UPDATES[given[0]])))
        return
    figure, load, way, clients, turn = given
    if mode == "--keep":
        kept = {"figure": figure, "load": load, "way": way, "clients": int(clients),
                "turn": int(turn), **run}
        print(json.dumps(kept))
        return
    got = summary(run)
    print(f"{figure} {load} {way} {clients} turn {turn}: {got['per second']:.0f} a second, us "
          f"leader {got['leader']:.1f} gateway {got['gateway']:.1f} other {got['other']:.1f} "
          f"client {got['client']:.1f}; local {got['local %']:.0f} %, "
          f"questions/read {got['questions/read']:.3f}")


if __name__ == "__main__":
    main()
