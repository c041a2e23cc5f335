"""Tests of what becomes a number: `python3 -m unittest discover -s bench/gamma/tests`."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

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


if __name__ == "__main__":
    unittest.main()
