"""Pictures of runs: scores, pauses and latencies on one time axis, as SVG and PNG."""

import csv
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

matplotlib.rcParams.update({"svg.hashsalt": "gamma", "font.size": 8, "axes.titlesize": 8, "svg.fonttype": "none"})

MODES = {"off": "reads not delayed", "gc": "reads delayed by GC notification",
         "heap": "reads delayed by free-heap jump", "pause": "reads delayed by measured pause",
         "pause-50": "reads delayed by measured pause, 50 ms at most"}


class Run:
    """A run as its folder has it."""

    def __init__(self, folder):
        folder = Path(folder)
        self.setup = json.loads((folder / "setup.json").read_text())
        self.result = json.loads((folder / "result.json").read_text())
        self.scores = rows(folder / "scores.csv")
        self.pauses = rows(folder / "pauses.csv")
        self.latencies = rows(folder / "latencies.csv")

    @property
    def is_void(self):
        return self.result["schedule"]["void"]

    def title(self):
        setup, found = self.setup, self.result["correlation"]
        stops = setup["stops"]
        text = (
            f"{MODES[setup['mode']]}; {setup['rate']:g} operations/s;"
            f" {found['violations']} scores > 5 ms, {found['in_shadow']} of them in a pause's shadow"
        )
        if stops:
            text += f"; control: SIGSTOP of {stops['length_ms']} ms"
        return text + ("; VOID: the schedule was not kept" if self.is_void else "")


def rows(file):
    with open(file, encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def conditions(run):
    """What has to be known to read the picture, and how it differs from the text's."""
    setup = run.setup
    return (
        f"Cassandra {setup['version']} on Java {run.result.get('java', 'of a version not noted')},"
        f" {setup['nodes']} nodes on one machine,"
        f" replication factor {setup['replication']}, consistency ONE, {setup['collector']}"
        f" collector, heap {setup['heap_mb']} MB, {setup['keys']} keys,"
        f" {setup['read_percent']} % reads, rows of {setup['payload_bytes']} bytes, open loop."
        " The text: 2.0.9 on Java 7, five machines, replication factor 5 (figure 5.2: 3), CMS (gone"
        " since Java 14), closed loop."
    )


def draw_run(run, file, heading):
    """One run: scores and pauses above, latencies below."""
    figure, (above, below) = plt.subplots(
        2, 1, sharex=True, figsize=(9, 5.5), height_ratios=(3, 2), layout="constrained")
    draw_scores(above, run)
    above.set_title(f"{heading}\n{run.title()}")
    for kind, colour in (("read", "tab:blue"), ("write", "tab:orange")):
        own = [row for row in run.latencies if row["kind"] == kind]
        seconds = [float(row["s"]) for row in own]
        below.plot(seconds, [float(row["median_ms"]) for row in own], color=colour,
                   label=f"{kind}: median")
        below.plot(seconds, [float(row["greatest_ms"]) for row in own], color=colour,
                   linestyle=":", label=f"{kind}: greatest")
    below.set_yscale("log")
    below.set_ylabel("latency, ms, by half second")
    below.set_xlabel("seconds of the measured time")
    below.legend(loc="upper right", ncols=4, fontsize=6)
    save(figure, file, conditions(run))


def draw_panels(runs, file, heading):
    """Several runs above each other, scores and pauses only."""
    figure, axes = plt.subplots(
        len(runs), 1, sharex=True, sharey=True, figsize=(9, 0.6 + 2.1 * len(runs)),
        layout="constrained", squeeze=False)
    for number, (run, axis) in enumerate(zip(runs, axes[:, 0])):
        draw_scores(axis, run)
        axis.set_title(f"({chr(ord('a') + number)}) {run.title()}")
    axes[-1, 0].set_xlabel("seconds of the measured time")
    figure.suptitle(heading)
    save(figure, file, conditions(runs[0]))


def draw_scores(axis, run):
    """Per-value scores as points; pauses as lines whose height is their length."""
    for node in range(1, run.setup["nodes"] + 1):
        own = [row for row in run.pauses if int(row["node"]) == node]
        axis.vlines([float(row["s"]) for row in own], 0, [float(row["ms"]) for row in own],
                    colors=f"C{node + 1}", linestyles="dotted", linewidth=1.2,
                    label=f"pauses of node {node}" if own else None)
    axis.plot([float(row["s"]) for row in run.scores], [float(row["ms"]) for row in run.scores],
              linestyle="none", marker="x", markersize=3, color="black", label="Γ of a value")
    axis.axhline(5, color="grey", linewidth=0.5)
    axis.set_xlim(0, run.setup["seconds"])
    # Room for the legend.
    axis.margins(y=0.25)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("Γ, pause, ms")
    axis.legend(loc="upper right", fontsize=6, ncols=3)


def save(figure, file, text):
    # In one line it is wider than the picture.
    text = text.replace(" The text:", "\nThe text:")
    figure.text(0.01, -0.02, text, fontsize=5.5, va="top")
    # No suffix is replaced: the name of figure 5.2 has a point in it.
    svg = Path(f"{file}.svg")
    figure.savefig(svg, metadata={"Date": None}, bbox_inches="tight")
    figure.savefig(f"{file}.png", dpi=130, metadata={"Software": None}, bbox_inches="tight")
    plt.close(figure)
    # Ends of lines with blanks are a nuisance in diffs.
    svg.write_text("\n".join(line.rstrip() for line in svg.read_text().splitlines()) + "\n")
