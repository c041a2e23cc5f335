"""The commands of bench/gamma/run."""

import argparse
import datetime
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import experiment
import tables
from cassandra import fetch

ROOT = Path(__file__).resolve().parent.parent.parent
BUILT = ROOT / "target" / "bench-gamma"
VERSIONS = ("4.1.9", "5.0.4")

AGENT = {
    "off": None,
    "gc": "method=gc,report-every-s=5",
    "heap": "method=heap,heap-jump-mb=100,heap-hold-ms=50,report-every-s=5",
    "pause": "method=pause,report-every-s=5",
    # What the hold costs grows with the pause, and the backlog is small beside it.
    "pause-50": "method=pause,longest-hold-ms=50,report-every-s=5",
}
# The modes of every set; "parallel" has them all.
MAIN_MODES = ("off", "gc", "heap", "pause")

# The workload of the text; the heaps make pauses of its size.
SETUP = {
    "version": "4.1.9", "nodes": 3, "replication": 3, "collector": "Parallel",
    "heap_mb": 300, "young_mb": 192, "memtable_mb": 24, "vm": [],
    "mode": "off", "agent": None, "stops": None,
    "rate": 800.0, "keys": 500, "hot_keys_percent": 20, "hot_operations_percent": 80,
    "read_percent": 80, "payload_bytes": 10_000,
    "warm_up_s": 30, "seconds": 120, "seed": 1,
    "nice": -5, "nice_of_workload": -10,
}
# Five nodes on the same processors, so a lower rate. The heaps are those of three nodes, small
# already: the young generation has to free 100 MB at once, or the text's threshold is not reached.
FIVE = {"nodes": 5, "replication": 5, "rate": 300.0}
# The sets whose loads are measured, with the number of repetitions; all of them without one.
LOADS = {"parallel": None, "five": 1}
LOADS_PERCENT = (40, 60, 80, 100)
STOPS = {"every_ms": 3000, "length_ms": 200}
# How often a run is made that is void, or fails.
TRIES = 3


class Tools:
    """Where the programs are."""

    def __init__(self, arguments):
        self.agent_jar = arguments.agent_jar
        self.coeval = arguments.coeval
        self.workload = BUILT / "workload"
        self.java = java_version()

    @staticmethod
    def jars(version):
        return fetch(version, BUILT)


def java_version():
    """The version of the Java that the nodes run on, as it says itself."""
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    found = re.search(r'version "([^"]+)"', said)
    return found[1] if found else said.strip()


def parsed(arguments):
    parser = argparse.ArgumentParser(
        prog="bench/gamma/run", description="Consistency spikes of Apache Cassandra.")
    parser.add_argument("--agent-jar", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--coeval", required=True, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", required=True)

    figures = commands.add_parser(
        "figures", help="figures 5.2 to 5.4 and table 5.1, with control; continues where it ended")
    figures.add_argument("--out", type=Path, default=BUILT / "figures")
    figures.add_argument("--runs", type=int, default=5, help="repetitions (default 5)")
    figures.add_argument("--seconds", type=int, default=SETUP["seconds"])
    figures.add_argument("--warm-up-s", type=int, default=SETUP["warm_up_s"])
    figures.add_argument("--rate", type=float, default=SETUP["rate"], help="with three nodes")
    figures.add_argument("--rate-of-five", type=float, default=FIVE["rate"])
    figures.add_argument("--only", nargs="*", default=[], metavar="SET",
                         help="of parallel, g1, five, cassandra-5")
    figures.add_argument("--keep-record", action="store_true",
                         help="copies what was made to bench/record")

    one = commands.add_parser("one", help="one run with settings of its own")
    one.add_argument("--out", type=Path, required=True, help="a folder that is not there yet")
    one.add_argument("--mode", choices=sorted(AGENT), default="off")
    one.add_argument("--agent", help="options of the agent, instead of the mode's")
    one.add_argument("--stop", action="store_true", help="SIGSTOP of 200 ms at times")
    one.add_argument("--five", action="store_true", help="five nodes, replication factor 5")
    one.add_argument("--keep-all", action="store_true",
                     help="the history and the logs of the virtual machines, too")
    for name in ("version", "collector", "heap_mb", "young_mb", "memtable_mb", "rate",
                 "payload_bytes", "warm_up_s", "seconds", "seed"):
        one.add_argument("--" + name.replace("_", "-"), type=type(SETUP[name]))

    both = commands.add_parser(
        "against-both", help="the agent on Cassandra 4.1 and 5.0, with nodes stopped: does it hold?")
    both.add_argument("--seconds", type=int, default=30)
    both.add_argument("--rate", type=float, default=500.0)
    both.add_argument("--out", type=Path, default=BUILT / "against-both")

    draw = commands.add_parser("draw", help="pictures and tables anew, of runs that are there")
    draw.add_argument("--out", type=Path, default=BUILT / "figures")
    return parser.parse_args(arguments)


def planned(arguments):
    """(set, name, setup) of every run of the figures."""
    base = {**SETUP, "seconds": arguments.seconds, "warm_up_s": arguments.warm_up_s,
            "rate": arguments.rate}
    five = {**base, **FIVE, "rate": arguments.rate_of_five}
    sets = {
        "parallel": base,
        "g1": {**base, "collector": "G1", "heap_mb": 384},
        "five": five,
        "cassandra-5": {**base, "version": "5.0.4"},
    }
    for name in arguments.only:
        if name not in sets:
            sys.exit(f"there is no set {name}; there are {', '.join(sets)}")
    for seed in range(1, arguments.runs + 1):
        for group, setup in sets.items():
            if arguments.only and group not in arguments.only:
                continue
            # The order of the modes turns with the seed, lest one always has the cold machine.
            modes = list(AGENT if group == "parallel" else MAIN_MODES)
            turn = seed % len(modes)
            for mode in modes[turn:] + modes[:turn]:
                yield group, f"{mode}-{seed}", {
                    **setup, "mode": mode, "agent": AGENT[mode], "seed": seed}
            if group in LOADS and seed <= (LOADS[group] or seed):
                for share in LOADS_PERCENT[:-1]:
                    yield group, f"load{share}-{seed}", {
                        **setup, "rate": setup["rate"] * share / 100, "seed": seed}
            if group == "parallel":
                for mode in ("off", "pause"):
                    yield group, f"stop-{mode}-{seed}", {
                        **setup, "mode": mode, "agent": AGENT[mode], "seed": seed, "stops": STOPS}


def figures(arguments, tools):
    commit = said_by_common("commit")
    runs = list(planned(arguments))
    refuse_other_setups(arguments.out, runs)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with open(arguments.out / "machine.txt", "a", encoding="utf-8") as facts:
        facts.write(f"{said_by_common('machine_facts')}\nJava: {tools.java}\n\n")
    missing = 0
    for number, (group, name, setup) in enumerate(runs, 1):
        folder = arguments.out / group / name
        for tries in range(1, TRIES + 1):
            if folder.exists():
                break
            say(f"{number} of {len(runs)}: {group}/{name}")
            try:
                result = experiment.run(setup, tools, folder)
            except (RuntimeError, OSError) as failure:
                # One node that did not start is no reason to lose the hours that follow.
                say(f"FAILED: {failure}")
                continue
            say(summary(result))
            if result["schedule"]["void"] and tries < TRIES:
                void = 1
                while folder.with_name(f"{name}.void{void}").exists():
                    void += 1
                folder.rename(folder.with_name(f"{name}.void{void}"))
        missing += not folder.exists()
    draw(arguments.out)
    if arguments.keep_record:
        keep(arguments.out, commit)
    if missing:
        sys.exit(f"{missing} of {len(runs)} runs are missing, as they failed")


def refuse_other_setups(out, runs):
    """Ends the program if a run is there that was made with other settings than are asked for:
    violations of runs of different lengths are not to be averaged."""
    for group, name, setup in runs:
        file = out / group / name / "setup.json"
        there = json.loads(file.read_text()) if file.exists() else setup
        other = sorted(key for key in setup if there.get(key) != setup[key])
        if other:
            sys.exit(f"{group}/{name} is there with another {', '.join(other)}:"
                     " choose another --out")


def said_by_common(function):
    """What a function of bench/common.sh prints."""
    script = f". bench/common.sh && {function}"
    return subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True,
                          check=True).stdout.strip()


def draw(out):
    """Pictures beside the runs, and all tables in one document."""
    import drawing

    text = ["# Consistency spikes of Apache Cassandra, measured", ""]
    for group in sorted(folder for folder in out.iterdir() if folder.is_dir()):
        every = {
            folder.name: drawing.Run(folder)
            for folder in sorted(group.iterdir())
            if (folder / "result.json").exists()
        }
        valid = {name: run for name, run in every.items() if not run.is_void}
        text += [f"## {group.name}", ""]
        if every:
            text += [drawing.conditions(next(iter(every.values()))), ""]
        text += [f"{len(valid)} runs; {len(every) - len(valid)} more are void.", ""]
        if not valid:
            continue
        busy = [100 * run.result["machine_busy"] for run in valid.values()]
        text += [f"The processors were busy for {min(busy):.0f} to {max(busy):.0f} % of the measured"
                 " time, by the nodes, the clients and all else.", ""]
        draw_group(drawing, group, valid)
        modes = by(valid, lambda run: run.setup["mode"], is_main)
        text += ["### Table 5.1", "", TEXT_IS_OF_FIVE, "", tables.of_modes(modes), ""]
        loads = by(valid, lambda run: load_of(run, valid), lambda name, run: is_load(name))
        if len(loads) > 1:
            text += ["### Figure 5.3, by load", "", tables.of_loads(loads), ""]
        stops = by(valid, lambda run: run.setup["mode"], lambda name, run: bool(run.setup["stops"]))
        if stops:
            text += ["### Control: SIGSTOP of 200 ms", "", tables.of_modes(stops, {}), ""]
        text += ["### Violations and pauses", "", tables.of_shares(modes), "",
                 tables.of_correlation((name, run.result) for name, run in valid.items()), ""]
    (out / "tables.md").write_text("\n".join(text), encoding="utf-8")
    say(f"pictures and {out / 'tables.md'}")


# Beside which numbers the text's stand.
TEXT_IS_OF_FIVE = ("The text's numbers are of five machines at replication factor 5 under a closed"
                   " loop, with the CMS collector.")


def is_main(name, run):
    return not run.setup["stops"] and not name.startswith("load")


def is_load(name):
    return name.startswith(("load", "off-"))


def load_of(run, runs):
    full = max(other.setup["rate"] for other in runs.values())
    return round(100 * run.setup["rate"] / full)


def by(runs, key, wanted):
    """Results with their setups, grouped."""
    groups = {}
    for name, run in runs.items():
        if wanted(name, run):
            groups.setdefault(key(run), []).append({**run.result, "setup": run.setup})
    return groups


def draw_group(drawing, group, runs):
    for name, run in runs.items():
        drawing.draw_run(run, group / name / "run", f"{group.name}/{name}")

    def first(kind):
        return next((run for name, run in runs.items() if name.rpartition("-")[0] == kind), None)

    off = first("off")
    if off:
        drawing.draw_run(off, group / "figure-5.2", "Figure 5.2: scores and pauses")
    loads = [first(f"load{share}") for share in LOADS_PERCENT[:-1]] + [off]
    if all(loads):
        drawing.draw_panels(loads, group / "figure-5.3", "Figure 5.3: scores and pauses by load")
    modes = [run for run in (first(mode) for mode in AGENT if mode != "off") if run]
    if off and modes:
        drawing.draw_panels([off, *modes], group / "figure-5.4",
                            "Figure 5.4: reads delayed after a pause; (a) is without, on the same"
                            " axes")
    stops = [run for run in (first(f"stop-{mode}") for mode in ("off", "pause")) if run]
    if len(stops) == 2:
        drawing.draw_panels(stops, group / "control", "Control: nodes stopped by SIGSTOP")


def one(arguments, tools):
    if arguments.out.exists():
        sys.exit(f"{arguments.out} is there already")
    setup = {**SETUP, **(FIVE if arguments.five else {})}
    for name in setup:
        said = getattr(arguments, name, None)
        if name not in ("agent", "mode") and said is not None:
            setup[name] = said
    setup["mode"] = arguments.mode
    setup["agent"] = arguments.agent or AGENT[arguments.mode]
    setup["stops"] = STOPS if arguments.stop else None
    result = experiment.run(setup, tools, arguments.out, arguments.keep_all)
    import drawing

    run = drawing.Run(arguments.out)
    drawing.draw_run(run, arguments.out / "run", arguments.out.name)
    text = tables.of_correlation([(arguments.out.name, run.result)])
    say(summary(result))
    say(text)


def against_both(arguments, tools):
    """Whether the agent is at work on both versions; ends with an error where it is not."""
    shutil.rmtree(arguments.out, ignore_errors=True)
    said, is_right = [], True
    for version in VERSIONS:
        setup = {**SETUP, "version": version, "mode": "pause", "agent": AGENT["pause"],
                 "rate": arguments.rate, "seconds": arguments.seconds, "warm_up_s": 10,
                 "stops": STOPS}
        result = experiment.run(setup, tools, arguments.out / version)
        for number, node in enumerate(result["agent"], 1):
            wrong = complaints(node)
            is_right = is_right and not wrong
            said.append(f"Cassandra {version}, node {number}: " + (
                "; ".join(wrong) or
                f"both methods are advised, {node['reads_held']} of {node['reads']} reads were"
                f" held, {node['longest_held_ms']:.0f} ms at most"))
            say(said[-1])
        if result["without_answer"]:
            is_right = False
            said.append(f"Cassandra {version}: {result['without_answer']} operations had no answer")
            say(said[-1])
    # For a record.
    facts = f"{said_by_common('machine_facts')}\nJava: {tools.java}\n\n"
    (arguments.out / "against-both.txt").write_text(facts + "\n".join(said) + "\n")
    if not is_right:
        sys.exit(1)


def complaints(node):
    """What is wrong with what a node's agent says."""
    if node is None:
        return ["there is no log of the agent"]
    wrong = []
    if len(node["advised"]) != 2:
        wrong.append(f"advised is only {node['advised']}")
    if not node.get("reads_held"):
        wrong.append("no read was held")
    if node.get("failures"):
        wrong.append(f"{node['failures']} failures")
    return wrong


def summary(result):
    found, kept = result["correlation"], result["schedule"]
    share = found["share_in_shadow"]
    return (
        f"{'VOID, ' if kept['void'] else ''}late {100 * kept['late_share']:.2f} %,"
        f" {result['throughput']:.0f} operations/s, machine busy"
        f" {100 * result['machine_busy']:.0f} %, {result['pauses']} pauses of at most"
        f" {result['longest_pause_ms']:.0f} ms, Γ {result['gamma_ms']:.0f} ms,"
        f" {found['violations']} violations > 5 ms,"
        f" {'–' if share is None else f'{100 * share:.0f} %'} of them in a shadow"
        f" ({100 * found['share_of_time_in_shadow']:.0f} % of the time)"
    )


def keep(out, commit):
    """Copies everything but logs and the pictures of single runs, which `draw` makes anew, into
    the record of the commit that was measured."""
    today = datetime.datetime.now(datetime.timezone.utc).date()
    record = ROOT / "bench" / "record" / f"{today}-{commit}" / "gamma"
    shutil.copytree(out, record, dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("*.log", "*.partial", "*.failed", "history.jsonl",
                                                  "run.svg", "run.png"))
    say(f"kept in {record.relative_to(ROOT)}")


def say(text):
    print(text, flush=True)


def main():
    # An end from outside ends the nodes, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    arguments = parsed(sys.argv[1:])
    tools = Tools(arguments)
    if arguments.command == "figures":
        figures(arguments, tools)
    elif arguments.command == "one":
        one(arguments, tools)
    elif arguments.command == "against-both":
        against_both(arguments, tools)
    else:
        draw(arguments.out)


if __name__ == "__main__":
    main()
