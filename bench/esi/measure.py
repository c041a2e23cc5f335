#!/usr/bin/env python3
"""Runs pgbench at several nodes at once, and prints what it came to: one line of JSON.

  measure.py --seconds 5 --clients 32 --port 5432 --port 5433 --process leader=PID
             --process gateway=PID --metrics 127.0.0.1:9001 --script read.sql@95
             --script update.sql@5 --records 100000 --options '-c coeval.read_from=fresh'

Processor time is that of each named process and of all pgbench together, in microseconds for
each transaction. Where servers and clients share the cores it can be compared, and throughput
cannot. Counters are what the nodes at --metrics have counted meanwhile, summed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import urllib.request

TICKS = os.sysconf("SC_CLK_TCK")
# Nodes report what they ask of the leader five times a second.
REPORTED = 0.5


def processor_seconds(process):
    """Processor time of a process, in seconds, with that of threads that have ended.

    By the process's processor clock, which counts nanoseconds; of threads that have ended,
    /proc/PID/task tells nothing. The clock's id is Linux's (clock_getcpuclockid).
    """
    return time.clock_gettime_ns(~process << 3 | 2) / 1e9


def family(process):
    """A process and those that it has started, as PostgreSQL does for each client."""
    found = [process]
    for each in found:
        for task in os.listdir(f"/proc/{each}/task"):
            try:
                with open(f"/proc/{each}/task/{task}/children", encoding="ascii") as file:
                    found += [int(child) for child in file.read().split()]
            except FileNotFoundError:
                pass
    return found


def ticks_of_family(process):
    """Processor seconds of a process, those it has started and those that have ended."""
    total = 0
    for each in family(process):
        try:
            with open(f"/proc/{each}/stat", encoding="ascii") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except FileNotFoundError:
            continue
        # utime, stime, and of children that were waited for, cutime and cstime.
        total += sum(int(field) for field in fields[11:15])
    return total / TICKS


def counters(addresses):
    """The series of /metrics at these addresses, summed by name."""
    sums = {}
    for address in addresses:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith("coeval_read"):
                    name, value = line.rsplit(" ", 1)
                    sums[name] = sums.get(name, 0) + float(value)
    return sums


def parse(output):
    """Transactions, their mean latency, and how often each script ran, of pgbench's output."""
    done = re.search(r"number of transactions actually processed: (\d+)", output)
    failed = re.search(r"number of failed transactions: (\d+)", output)
    latency = re.search(r"latency average = ([\d.]+) ms", output)
    if not done or not latency or (failed and int(failed.group(1))) or not int(done.group(1)):
        sys.exit(f"pgbench has failed transactions, or none:\n{output}")
    scripts = [int(n) for n in re.findall(r"^ - (\d+) transactions", output, re.M)]
    return int(done.group(1)), float(latency.group(1)), scripts or [int(done.group(1))]


def shares(clients, ports):
    """How many clients each port gets."""
    each, more = divmod(clients, ports)
    return [each + (port < more) for port in range(ports)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--clients", type=int, required=True)
    parser.add_argument("--port", action="append", required=True)
    parser.add_argument("--process", action="append", default=[])
    parser.add_argument("--family", action="store_true", help="processes start others")
    parser.add_argument("--metrics", action="append", default=[])
    parser.add_argument("--script", action="append", required=True)
    parser.add_argument("--records", required=True)
    parser.add_argument("--options", default="")
    parser.add_argument("--pgbench", default="pgbench")
    given = parser.parse_args()
    processes = {name: int(pid) for name, pid in (each.split("=") for each in given.process)}
    spent = ticks_of_family if given.family else processor_seconds
    environment = dict(os.environ, PGOPTIONS=given.options)
    commands = []
    for port, clients in zip(given.port, shares(given.clients, len(given.port))):
        if clients:
            command = [given.pgbench, "-n", "-M", "prepared", "-p", port, "-c", str(clients)]
            # Threads of one pgbench count transactions of a script without a lock.
            command += ["-j", "1", "-T", str(given.seconds)]
            command += ["-D", f"records={given.records}"]
            for script in given.script:
                command += ["-f", script]
            commands.append(command)
    counted = counters(given.metrics)
    before = {name: spent(process) for name, process in processes.items()}
    own = os.times()
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         env=environment)
        for command in commands
    ]
    outputs = [each.communicate()[0] for each in running]
    after = {name: spent(process) for name, process in processes.items()}
    now = os.times()
    time.sleep(REPORTED)
    counted = {name: value - counted.get(name, 0) for name, value in counters(given.metrics).items()}
    parsed = [parse(output) for output in outputs]
    done = sum(transactions for transactions, _, _ in parsed)
    client = now.children_user + now.children_system - own.children_user - own.children_system
    print(json.dumps({
        "transactions": done,
        "per_second": done / given.seconds,
        "latency_ms": sum(n * latency for n, latency, _ in parsed) / done,
        "scripts": [sum(counts) for counts in zip(*(scripts for _, _, scripts in parsed))],
        "us": {name: (after[name] - before[name]) / done * 1e6 for name in processes},
        "client_us": client / done * 1e6,
        "counted": {name: value for name, value in counted.items() if value},
    }))


if __name__ == "__main__":
    main()
