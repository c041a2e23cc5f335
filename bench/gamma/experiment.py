"""One run: a fresh cluster, the workload against it, and what came of it in a folder.

setup.json      all that was set, and the machine's load at the beginning
result.json     the numbers
scores.csv      the positive scores of values: seconds, key, ms, when it began
pauses.csv      pauses of 5 ms and more: seconds, node, ms, reason
latencies.csv   each half second: median, 99th percentile, greatest, of reads and of writes
history.jsonl   what clients did and saw; vm-N.log the log of each node's virtual machine; both if
                they are to be kept
agent-N.log     the agent's log of each node
"""

import csv
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import judging
import pauses
from cassandra import Cluster
from judging import MS

SO_FAR = re.compile(
    r"so far: reads (\d+), held (\d+) for ([\d.]+) ms together and ([\d.]+) ms at most, released"
    r" early (\d+); pauses by pause (\d+), heap (\d+), gc (\d+); failures (\d+)"
)


class Stopper(threading.Thread):
    """Stops a node by SIGSTOP at times: the control, whose pauses no virtual machine knows of."""

    def __init__(self, nodes, every_ms, length_ms, seed):
        super().__init__(daemon=True)
        self.nodes = nodes
        self.every_s = every_ms / 1000
        self.length_s = length_ms / 1000
        self.random = random.Random(seed)
        self.pauses = []
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(self.every_s * self.random.uniform(0.7, 1.3)):
            node = self.random.choice(self.nodes)
            start = time.monotonic_ns()
            node.signal(signal.SIGSTOP)
            try:
                time.sleep(self.length_s)
            finally:
                node.signal(signal.SIGCONT)
            self.pauses.append(pauses.Pause(node.index, start, time.monotonic_ns(), "SIGSTOP"))

    def end(self):
        self.ended.set()
        self.join()


class Processors:
    """Processor time of the nodes and of the machine, from one moment to another."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.begin = self._now()

    def _now(self):
        with open("/proc/stat", encoding="utf-8") as lines:
            fields = [int(field) for field in next(lines).split()[1:9]]
        return sum(node.processor_seconds() for node in self.nodes), sum(fields), fields[3] + fields[4]

    def end(self):
        """Seconds of the nodes, and the share of all processors that was not idle."""
        nodes, total, idle = (now - then for now, then in zip(self._now(), self.begin))
        return nodes, 1 - idle / total


def run(setup, tools, out, keep_all=False):
    """Makes one run into a new folder; returns its result."""
    out = Path(out)
    with tempfile.TemporaryDirectory(prefix="gamma-") as scratch:
        scratch = Path(scratch)
        load = os.getloadavg()[0]
        cluster = Cluster(setup, tools.jars(setup["version"]), tools.agent_jar, scratch)
        try:
            with cluster:
                measured = drive(setup, tools, cluster, scratch)
        except Exception:
            keep_logs(cluster, out.with_name(out.name + ".failed"))
            raise
        partial = out.with_name(out.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        result = evaluate(setup, tools, cluster, scratch, partial, measured)
        result["load_average_before"] = load
        result["java"] = tools.java
        (partial / "setup.json").write_text(json.dumps(setup, indent=1) + "\n")
        (partial / "result.json").write_text(json.dumps(result, indent=1) + "\n")
        if keep_all:
            shutil.copy(scratch / "history.jsonl", partial)
            for node in cluster.nodes:
                shutil.copy(node.vm_log, partial / f"vm-{node.index + 1}.log")
        for node in cluster.nodes:
            if node.agent_log.exists():
                shutil.copy(node.agent_log, partial / f"agent-{node.index + 1}.log")
        partial.rename(out)
    return result


def keep_logs(cluster, out):
    """Keeps what the nodes have said: the run has no result that would tell why."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for node in cluster.nodes:
        for name in ("output.log", "system.log"):
            if (node.folder / name).exists():
                shutil.copy(node.folder / name, out / f"{node.index + 1}-{name}")


def drive(setup, tools, cluster, scratch):
    """Runs the workload; returns when the measured time began and ended, and what was used."""
    command = [
        "nice", "-n", str(setup["nice_of_workload"]), "java", "-XX:+UseSerialGC",
        "-Xms192m", "-Xmx192m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp", f"{tools.workload}/workload.jar:{tools.workload}/lib/*", "coeval.gamma.Workload",
        "--nodes", ",".join(node.address for node in cluster.nodes),
        "--port", str(cluster.native_port),
        "--history", str(scratch / "history.jsonl"),
        "--slips", str(scratch / "slips.csv"),
    ]
    for name in ("replication", "rate", "keys", "hot_keys_percent", "hot_operations_percent",
                 "read_percent", "payload_bytes", "warm_up_s", "seconds", "seed"):
        command += ["--" + name.replace("_", "-"), str(setup[name])]
    stopper = processors = used = None
    said = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as workload:
        try:
            for line in workload.stdout:
                event, _, nanos = line.strip().partition(" ")
                said[event] = int(nanos)
                if event == "measuring":
                    processors = Processors(cluster.nodes)
                    if setup["stops"]:
                        stopper = Stopper(cluster.nodes, seed=setup["seed"], **setup["stops"])
                        stopper.start()
                elif event == "measured":
                    if stopper:
                        stopper.end()
                    used = processors.end()
        except BaseException:
            workload.kill()
            raise
    if workload.returncode != 0:
        raise RuntimeError(f"the workload ended with {workload.returncode}")
    for node in cluster.nodes:
        if node.process.poll() is not None:
            raise RuntimeError(f"{node.address} ended during the run")
    return said["measuring"], said["measured"], used, stopper.pauses if stopper else []


def evaluate(setup, tools, cluster, scratch, out, measured):
    """The numbers of a run, and the tables that its picture is drawn from."""
    begin, end, (node_seconds, busy), stops = measured
    history = scratch / "history.jsonl"
    scored = [
        score
        for score in judging.scores(tools.coeval, history, scratch / "scores.csv")
        if begin <= score.begin < end
    ]
    found = judging.operations(history, begin, end)
    paused = list(stops)
    for node in cluster.nodes:
        with open(node.vm_log, encoding="utf-8", errors="replace") as lines:
            paused += pauses.of_log(node.index, lines)
    # A violation at the beginning may have its reason before it.
    paused = pauses.between(paused, begin - 2_000 * MS, end, judging.LEAST_MS * MS)
    over = [score for score in scored if score.gamma > judging.LEAST_MS * MS]
    finished = sum(finish is not None for _, finish, _ in found)
    write_rows(out / "scores.csv", "s,key,ms,begins_s", (
        (f"{((score.begin + score.end) // 2 - begin) / 1e9:.4f}", score.key,
         f"{score.gamma / MS:.3f}", f"{(score.begin - begin) / 1e9:.6f}") for score in scored))
    write_rows(out / "pauses.csv", "s,node,ms,reason", (
        (f"{(pause.start - begin) / 1e9:.4f}", pause.node + 1, f"{pause.length / MS:.3f}",
         pause.reason) for pause in paused))
    write_rows(out / "latencies.csv", "s,kind,median_ms,p99_ms,greatest_ms", (
        (f"{at:.1f}", kind, f"{median:.3f}", f"{high:.3f}", f"{greatest:.3f}")
        for at, kind, median, high, greatest in judging.latency_series(found, begin)))
    return {
        "schedule": judging.schedule(scratch / "slips.csv", begin, end),
        "throughput": finished / setup["seconds"],
        "without_answer": len(found) - finished,
        "gamma_ms": max((score.gamma for score in scored), default=0) / MS,
        "positive_scores": len(scored),
        "pauses": len(paused),
        "longest_pause_ms": max((pause.length for pause in paused), default=0) / MS,
        "correlation": judging.correlation(over, paused, begin, end),
        "latencies": judging.latencies(found),
        "processor_us_per_operation": node_seconds * 1e6 / max(1, finished),
        "machine_busy": busy,
        "agent": [held(node) for node in cluster.nodes],
    }


def held(node):
    """What the agent of a node said last, if there is one."""
    if not node.agent_log.exists():
        return None
    text = node.agent_log.read_text(encoding="utf-8", errors="replace")
    advised = sorted(re.findall(r"(\S+) holds reads", text))
    found = SO_FAR.findall(text)
    if not found:
        return {"advised": advised, "reads": 0}
    reads, waited, together, most, early, by_pause, by_heap, by_gc, failures = found[-1]
    return {
        "advised": advised,
        "reads": int(reads),
        "reads_held": int(waited),
        "held_ms": float(together),
        "longest_held_ms": float(most),
        "released_early": int(early),
        "pauses": {"pause": int(by_pause), "heap": int(by_heap), "gc": int(by_gc)},
        "failures": int(failures),
    }


def write_rows(file, head, rows):
    with open(file, "w", encoding="utf-8", newline="") as out:
        out.write(head + "\n")
        csv.writer(out, lineterminator="\n").writerows(rows)
