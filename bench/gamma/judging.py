"""Judging a run: scores by `coeval check`, and how they lie to the pauses, as numbers."""

import bisect
import csv
import json
import statistics
import subprocess

import pauses as pauses_module

MS = 1_000_000
# Violations that count, and pauses that are looked at, as in the text.
LEAST_MS = 5
# How long after a pause its backlog may last, if the pause was shorter than that.
LEAST_SHADOW_MS = 50
# A run whose own schedule slipped by more than this, for more than this share, is void.
SLIP_MS = 5
SLIP_SHARE = 0.01


class Score:
    """A value's score: two values each had to last beyond the other, from a moment on."""

    def __init__(self, key, gamma, begin):
        self.key = key
        self.gamma = gamma
        # The first moment at which both values had to hold. The middle of the times at which both
        # had to says nothing of it: a value that was overwritten during a pause has a zone within
        # that of the stale value, and lasted for less than the score.
        self.begin = begin
        # When the stale read began.
        self.end = begin + gamma


def scores(coeval, history, file):
    """The positive scores of a history, in the order of their times."""
    done = subprocess.run(
        [coeval, "check", str(history), "--model", "gamma", "--threshold-ms", str(LEAST_MS),
         "--json", "--scores", str(file)],
        capture_output=True, text=True, check=False,
    )
    # 0: none above the threshold; 1: some are, or a value was read that was never written; anything
    # else is no verdict.
    if done.returncode not in (0, 1):
        raise RuntimeError(f"coeval check: {done.stderr or done.stdout}")
    impossible = json.loads(done.stdout)["impossible"]
    if impossible:
        raise RuntimeError(f"{impossible} values were read that were never written")
    with open(file, encoding="utf-8") as lines:
        return scores_of(lines)


def scores_of(lines):
    """The scores of a table that `coeval check --model gamma --scores` has written."""
    return [
        Score(int(row["key"]), int(row["gamma_ns"]), int(row["begins_ns"]))
        for row in csv.DictReader(lines)
    ]


def correlation(scored, paused, begin, end):
    """How violations lie to pauses; both of the measured time."""
    least = LEAST_SHADOW_MS * MS
    starts = [pause.start for pause in paused]
    after_start, after_end, inside, not_longer = [], [], 0, 0
    for score in scored:
        reason = None
        # The latest pause that began before and whose shadow reaches the violation's begin.
        for index in range(bisect.bisect_right(starts, score.begin) - 1, -1, -1):
            if pauses_module.shadow_end(paused[index], least) >= score.begin:
                reason = paused[index]
                break
        if reason is None:
            continue
        inside += 1
        after_start.append((score.begin - reason.start) / MS)
        after_end.append((score.end - reason.end) / MS)
        not_longer += score.gamma <= reason.length
    return {
        "violations": len(scored),
        "in_shadow": inside,
        "outside": len(scored) - inside,
        "share_in_shadow": inside / len(scored) if scored else None,
        "share_of_time_in_shadow": pauses_module.covered(paused, begin, end, least),
        "share_not_longer_than_pause": not_longer / inside if inside else None,
        "begins_after_pause_start_ms": spread(after_start),
        "ends_after_pause_end_ms": spread(after_end),
    }


def spread(values):
    """Least, median, 95th percentile and greatest."""
    if not values:
        return None
    ordered = sorted(values)
    return {
        "least": ordered[0],
        "median": statistics.median(ordered),
        "p95": percentile(ordered, 95),
        "greatest": ordered[-1],
    }


def percentile(ordered, percent):
    """The nearest rank in values that are in order."""
    rank = max(0, -(-len(ordered) * percent // 100) - 1)
    return ordered[int(rank)]


def operations(history, begin, end):
    """The operations that began in the measured time: (start, finish or None, whether a read)."""
    found = []
    with open(history, encoding="utf-8") as lines:
        for line in lines:
            one = json.loads(line)
            if begin <= one["started"] < end:
                found.append(
                    (one["started"], one.get("finished"), one["operations"][0][0] == "read")
                )
    return found


def latencies(found):
    """Mean, 95th and 99th percentile and greatest, in milliseconds, of reads, writes and all."""
    result = {}
    for name, wanted in (("read", (True,)), ("write", (False,)), ("all", (True, False))):
        values = sorted(
            (finish - start) / MS
            for start, finish, is_read in found
            if finish is not None and is_read in wanted
        )
        result[name] = {
            "count": len(values),
            "mean_ms": statistics.fmean(values) if values else None,
            "p95_ms": percentile(values, 95) if values else None,
            "p99_ms": percentile(values, 99) if values else None,
            "greatest_ms": values[-1] if values else None,
        }
    return result


def latency_series(found, begin, step_ns=500 * MS):
    """For each half second and kind: (seconds, kind, median, 99th percentile, greatest)."""
    steps = {}
    for start, finish, is_read in found:
        if finish is not None:
            steps.setdefault(((start - begin) // step_ns, is_read), []).append(
                (finish - start) / MS
            )
    rows = []
    for (step, is_read), values in sorted(steps.items()):
        values.sort()
        rows.append(
            (step * step_ns / 1e9, "read" if is_read else "write", percentile(values, 50),
             percentile(values, 99), values[-1])
        )
    return rows


def schedule(slips, begin, end):
    """Whether the run kept its own schedule in the measured time."""
    late = total = greatest = 0
    with open(slips, encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            if begin <= int(row["due_ns"]) < end:
                slip = int(row["slip_ns"])
                total += 1
                late += slip > SLIP_MS * MS
                greatest = max(greatest, slip)
    share = late / total if total else 1.0
    return {
        "operations": total,
        "late_share": share,
        "greatest_slip_ms": greatest / MS,
        "void": share > SLIP_SHARE,
    }
