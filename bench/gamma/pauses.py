"""Pauses of the nodes: what their virtual machines logged, and what this benchmark stopped.

A safepoint's line is written at its end, with the monotonic clock in front, and says how long it
took in all, reaching it included. Collections that stop the world are safepoints, so they are not
read a second time.
"""

import re
from typing import NamedTuple

SAFEPOINT = re.compile(
    r'^\[(\d+)ns\].*?\] Safepoint "([^"]*)",.* Total: *(\d+) ns'
)


class Pause(NamedTuple):
    """One node's pause, on the monotonic clock in nanoseconds."""

    node: int
    start: int
    end: int
    reason: str

    @property
    def length(self):
        return self.end - self.start


def of_log(node, lines):
    """The safepoints of a node's log."""
    found = []
    for line in lines:
        match = SAFEPOINT.match(line)
        if match:
            end, reason, total = int(match[1]), match[2], int(match[3])
            found.append(Pause(node, end - total, end, reason))
    return found


def between(pauses, begin, end, at_least_ns):
    """Those that touch a time and are not too short, in order."""
    return sorted(
        (pause for pause in pauses
         if pause.end >= begin and pause.start < end and pause.length >= at_least_ns),
        key=lambda pause: (pause.start, pause.node),
    )


def shadow_end(pause, least_ns):
    """Until when a pause can be the reason of a spike: as long again as it was, or a least time."""
    return pause.end + max(pause.length, least_ns)


def covered(pauses, begin, end, least_ns):
    """The share of a time that lies in the shadow of any pause."""
    total, reached = 0, begin
    for pause in sorted(pauses, key=lambda pause: pause.start):
        start = max(reached, min(pause.start, end))
        stop = min(shadow_end(pause, least_ns), end)
        if stop > start:
            total += stop - start
            reached = stop
    return total / (end - begin)
