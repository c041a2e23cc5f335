"""Tests of what becomes a number: `python3 -m unittest discover -s bench/gamma/tests`."""

import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import experiment  # noqa: E402
import gamma  # noqa: E402
import judging  # noqa: E402
import pauses  # noqa: E402
import tables  # noqa: E402
from judging import MS, Score  # noqa: E402
from pauses import Pause  # noqa: E402

LOG = """\
[12625879367321ns][info][gc,start       ] GC(6) Pause Young (Allocation Failure)
[12625973629329ns][info][gc             ] GC(6) Pause Young (Allocation Failure) 225M->58M(608M) 94.257ms
[12625974000000ns][info][safepoint      ] Safepoint "ParallelGCFailedAllocation", Time since last: 1 ns, Reaching safepoint: 2 ns, Cleanup: 3 ns, At safepoint: 4 ns, Total: 94500000 ns
[12659424442272ns][info][safepoint      ] Safepoint "Cleanup", Time since last: 1027972005 ns, Reaching safepoint: 18478 ns, Cleanup: 124995 ns, At safepoint: 6209 ns, Total: 149682 ns
[12659424442273ns][info][safepoint,stats] VM Operation [ threads: total initial_running ]
"""


class Pauses(unittest.TestCase):
    def test_a_safepoint_ends_where_its_line_was_written(self):
        found = pauses.of_log(2, LOG.splitlines())
        self.assertEqual(
            found[0],
            Pause(2, 12625974000000 - 94500000, 12625974000000, "ParallelGCFailedAllocation"),
        )
        self.assertEqual(len(found), 2)

    def test_short_pauses_and_those_of_another_time_are_left_out(self):
        found = pauses.of_log(2, LOG.splitlines())
        self.assertEqual(len(pauses.between(found, 0, 10**15, 5 * MS)), 1)
        self.assertEqual(pauses.between(found, 0, 1000, 0), [])

    def test_shadows_that_overlap_cover_their_time_once(self):
        paused = [Pause(0, 100, 200, ""), Pause(1, 250, 260, ""), Pause(2, 900, 950, "")]
        # [100, 300], [250, 270], [900, 1000]: 200 and 100 of 1000.
        self.assertAlmostEqual(pauses.covered(paused, 0, 1000, 10), 0.3)


class Correlation(unittest.TestCase):
    def test_a_violation_belongs_to_the_pause_in_whose_shadow_it_begins(self):
        paused = [Pause(0, 1000 * MS, 1200 * MS, "")]
        during = Score(1, 100 * MS, 1100 * MS)
        after = Score(1, 20 * MS, 1380 * MS)
        before = Score(1, 20 * MS, 990 * MS)
        late = Score(1, 20 * MS, 1410 * MS)
        found = judging.correlation([before, during, after, late], paused, 0, 10_000 * MS)
        self.assertEqual(found["in_shadow"], 2)
        self.assertEqual(found["outside"], 2)
        self.assertEqual(found["begins_after_pause_start_ms"]["least"], 100)
        self.assertEqual(found["ends_after_pause_end_ms"]["greatest"], 200)
        self.assertAlmostEqual(found["share_of_time_in_shadow"], 0.04)

    def test_a_long_pause_is_found_behind_a_short_one(self):
        paused = [Pause(0, 1000 * MS, 2000 * MS, ""), Pause(1, 1100 * MS, 1105 * MS, "")]
        found = judging.correlation([Score(1, 10 * MS, 2495 * MS)], paused, 0, 10_000 * MS)
        self.assertEqual(found["in_shadow"], 1)

    def test_a_value_that_was_overwritten_during_the_pause_begins_within_it(self):
        # Written and acknowledged at 1,100 ms, overwritten at 1,300, and missed by a read at 1,650:
        # both values had to hold from 1,100 to 1,300 ms, with 1,200 ms in the middle.
        table = ["time_ns,key,value,gamma_ns,begins_ns,ends_ns",
                 f"{1200 * MS},7,41,{550 * MS},{1100 * MS},{1300 * MS}"]
        scored = judging.scores_of(table)
        self.assertEqual(
            [(score.key, score.gamma, score.begin, score.end) for score in scored],
            [(7, 550 * MS, 1100 * MS, 1650 * MS)])
        paused = [Pause(0, 1000 * MS, 1700 * MS, "")]
        found = judging.correlation(scored, paused, 0, 10_000 * MS)
        self.assertEqual((found["in_shadow"], found["outside"]), (1, 0))

    def test_without_violations_there_is_no_share(self):
        self.assertIsNone(judging.correlation([], [], 0, 10)["share_in_shadow"])


class Schedules(unittest.TestCase):
    def slips(self, slips):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "slips.csv"
            rows = [f"{at},{slip}" for at, slip in enumerate(slips)]
            file.write_text("due_ns,slip_ns\n" + "\n".join(rows) + "\n")
            return judging.schedule(file, 0, 1000)

    def test_one_in_a_hundred_may_be_late(self):
        self.assertFalse(self.slips([6 * MS] + [0] * 99)["void"])
        self.assertTrue(self.slips([6 * MS] * 2 + [0] * 98)["void"])
        self.assertFalse(self.slips([5 * MS] * 100)["void"])

    def test_a_run_without_operations_is_void(self):
        self.assertTrue(self.slips([])["void"])


class Numbers(unittest.TestCase):
    def test_percentiles_are_nearest_ranks(self):
        self.assertEqual(judging.percentile(list(range(1, 101)), 95), 95)
        self.assertEqual(judging.percentile([7], 95), 7)

    def test_the_interval_of_equal_values_is_empty(self):
        self.assertEqual(tables.interval([3, 3, 3]), (3, 0))

    def test_the_interval_is_students(self):
        mean, half = tables.interval([1, 2, 3])
        self.assertEqual(mean, 2)
        self.assertAlmostEqual(half, 4.303 / 3**0.5, places=3)

    def test_one_run_has_no_interval(self):
        self.assertEqual(tables.interval([3]), (3, None))

    def test_the_share_that_is_gone_has_the_interval_of_resampled_runs(self):
        share, low, high = tables.gone([100, 110, 90], [1, 2, 0])
        self.assertAlmostEqual(share, 0.99)
        self.assertLessEqual(low, share)
        self.assertGreaterEqual(high, share)
        self.assertIsNone(tables.gone([0], [0]))


    def test_what_chance_puts_into_shadows_is_as_dense_as_elsewhere(self):
        found = {"outside": 9, "share_of_time_in_shadow": 0.1}
        self.assertAlmostEqual(tables.by_chance(found), 1)


def a_run(seed, in_shadow, share_in_shadow):
    """A result that tables are made of."""
    latency = {"mean_ms": 6.0 + seed, "p95_ms": 9.0, "greatest_ms": 300.0}
    return {
        "setup": {"seed": seed, "rate": 800.0},
        "correlation": {
            "violations": in_shadow + 1, "in_shadow": in_shadow, "outside": 1,
            "share_in_shadow": share_in_shadow, "share_of_time_in_shadow": 0.1,
            "share_not_longer_than_pause": None, "begins_after_pause_start_ms": None,
            "ends_after_pause_end_ms": None,
        },
        "throughput": 796.0, "without_answer": 0, "latencies": {"read": latency},
        "processor_us_per_operation": 1800.0, "machine_busy": 0.8, "pauses": 20,
        "schedule": {"late_share": 0.001},
    }


class Tables(unittest.TestCase):
    RESULTS = {"off": [a_run(1, 100, 0.99), a_run(2, 100, 0.99)],
               "heap": [a_run(1, 1, 0.5), a_run(2, 1, None)]}

    def rows(self, table):
        head, line, *rows = (line.strip("|").split("|") for line in table.split("\n"))
        for row in (line, *rows):
            self.assertEqual(len(row), len(head))
        named = [name.strip() for name in head]
        return [dict(zip(named, (cell.strip() for cell in row))) for row in rows]

    def test_the_texts_values_stand_beside_ours(self):
        off, heap = self.rows(tables.of_modes(self.RESULTS))
        self.assertEqual(off["violations > 5 ms: text"], "133")
        self.assertEqual(heap["gone, of all: text"], "98.5 %")
        self.assertEqual(heap["of those: ours"], "99.0 % (99.0 to 99.0)")
        self.assertEqual(heap["of the rate that was offered"], "99.5 ± 0.0 %")
        self.assertEqual(heap["mean read vs. no delay"], "0.0 ± 0.0 %")

    def test_shares_of_a_mode_are_of_the_runs_that_have_some(self):
        off, heap = self.rows(tables.of_shares(self.RESULTS))
        self.assertEqual(off["share of violations in a shadow"], "99.0 ± 0.0 %")
        self.assertEqual(heap["share of violations in a shadow"], "50.0 %")
        self.assertEqual(heap["of them by chance"], "0.1 ± 0.0")

    def test_each_run_has_its_line(self):
        named = [("off-1", self.RESULTS["off"][0]), ("heap-2", self.RESULTS["heap"][1])]
        off, heap = self.rows(tables.of_correlation(named))
        self.assertEqual((off["in a shadow"], heap["in a shadow"]), ("99.0 %", "–"))
        self.assertEqual(off["started late"], "0.10 %")


class Plans(unittest.TestCase):
    TOLD = ["--agent-jar", "a", "--coeval", "c", "figures"]

    def planned(self, *more):
        return list(gamma.planned(gamma.parsed([*self.TOLD, *more])))

    def test_all_that_is_compared_is_in_the_plan(self):
        runs = self.planned("--runs", "2")
        names = [f"{group}/{name}" for group, name, _ in runs]
        self.assertEqual(len(set(names)), len(names))
        for group in ("parallel", "g1", "five", "cassandra-5"):
            for mode in gamma.MAIN_MODES:
                for seed in (1, 2):
                    self.assertIn(f"{group}/{mode}-{seed}", names)
        self.assertIn("parallel/load40-2", names)
        self.assertIn("five/load40-1", names)
        self.assertNotIn("five/load40-2", names)
        self.assertNotIn("g1/load40-1", names)
        self.assertIn("parallel/stop-pause-2", names)
        setups = {f"{group}/{name}": setup for group, name, setup in runs}
        self.assertEqual(setups["cassandra-5/heap-1"]["version"], "5.0.4")
        self.assertEqual(setups["five/load40-1"]["rate"], 120)
        self.assertEqual(setups["five/off-1"]["replication"], 5)

    def test_runs_of_other_settings_are_not_taken_for_those_that_are_asked(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder)
            runs = self.planned("--runs", "1", "--only", "parallel")
            group, name, setup = runs[0]
            (out / group / name).mkdir(parents=True)
            (out / group / name / "setup.json").write_text(json.dumps(setup))
            gamma.refuse_other_setups(out, runs)
            other = self.planned("--runs", "1", "--only", "parallel", "--seconds", "40")
            with self.assertRaises(SystemExit) as ended:
                gamma.refuse_other_setups(out, other)
            self.assertIn("another seconds", str(ended.exception))


class Failures(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def figures(self, run):
        """Makes figures of runs that `run` makes, without pictures."""
        told = [*Plans.TOLD, "--runs", "1", "--only", "g1", "--out", str(self.folder)]
        tools = mock.Mock(java="17")
        with mock.patch.object(experiment, "run", run), mock.patch.object(gamma, "draw") as draw, \
                mock.patch.object(gamma, "say"), mock.patch.object(gamma, "said_by_common"):
            gamma.said_by_common.return_value = "facts"
            try:
                gamma.figures(gamma.parsed(told), tools)
            finally:
                self.assertEqual(draw.call_count, 1)

    def make(self, is_void, fails=()):
        """A maker of runs: those of these numbers, counted from 1, fail, and others may be void."""
        self.made = []

        def run(setup, tools, folder):
            self.made.append(folder.name)
            if len(self.made) in fails:
                raise RuntimeError("127.0.0.2 ended during the run")
            folder.mkdir(parents=True)
            return {**a_run(1, 1, 0.5), "schedule": {"void": is_void, "late_share": 0.0},
                    "longest_pause_ms": 1.0, "gamma_ms": 1.0}

        return run

    def test_a_run_that_fails_is_made_again_and_the_others_are_made(self):
        self.figures(self.make(False, fails=(1,)))
        self.assertEqual(self.made, ["gc-1", "gc-1", "heap-1", "pause-1", "off-1"])
        self.assertTrue((self.folder / "machine.txt").read_text().startswith("facts\nJava: 17"))

    def test_runs_that_are_missing_are_an_error_at_the_end(self):
        with self.assertRaises(SystemExit) as ended:
            self.figures(self.make(False, fails=(1, 2, 3)))
        self.assertIn("1 of 4 runs are missing", str(ended.exception))
        self.assertEqual(self.made, ["gc-1"] * 3 + ["heap-1", "pause-1", "off-1"])

    def test_void_runs_are_kept_and_made_again(self):
        self.figures(self.make(True))
        self.assertEqual(self.made[:3], ["gc-1"] * 3)
        self.assertEqual(sorted(path.name for path in (self.folder / "g1").glob("gc*")),
                         ["gc-1", "gc-1.void1", "gc-1.void2"])

    def test_the_nodes_logs_outlive_a_run_that_fails(self):
        node = mock.Mock(index=0)

        class Fake:
            def __init__(self, setup, jars, agent_jar, scratch):
                node.folder = scratch
                self.nodes = [node]

            def __enter__(self):
                (node.folder / "system.log").write_text("why")

            def __exit__(self, *_):
                pass

        setup = {"version": "4.1.9"}
        with mock.patch.object(experiment, "Cluster", Fake), \
                mock.patch.object(experiment, "drive", side_effect=RuntimeError("ended")):
            with self.assertRaises(RuntimeError):
                experiment.run(setup, mock.Mock(), self.folder / "off-1")
        self.assertEqual((self.folder / "off-1.failed" / "1-system.log").read_text(), "why")


if __name__ == "__main__":
    unittest.main()
