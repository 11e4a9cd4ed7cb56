#!/usr/bin/env python3
"""bench/peers/report_busy.py: what a cell must reach, and the table."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"))
import report_busy as report  # noqa: E402


def subject(per_s, median, p99):
    return {"per_s": per_s, "median_ms": median, "p99_ms": p99, "runs": 100}


def share(median, high=None):
    return {"median": median, "low": median - 0.1, "high": high or median + 0.01}


def cell(load=False, ours=subject(100, 10, 20), of_one=share(1.0), of_peer=share(2.0)):
    return {"shape": "1x16", "sessions": 4, "kind": "threads", "load": load, "vernier": ours,
            "one": subject(100, 10, 20), "onnxruntime": subject(50, 20, 40), "of_one": of_one,
            "of_peer": of_peer}


class Busy(unittest.TestCase):
    def test_a_summary_counts_runs_of_all_sessions(self):
        summary = report.summary([[[1, 2, 3]], [[4, 6], [5]], [[7]]])
        self.assertEqual(summary, {"per_s": 400.0, "median_ms": 4, "p99_ms": 6, "runs": 7})

    def test_a_session_is_counted_with_its_own_time(self):
        # Two sessions of 1 s: the last run of one began at 0.9 s and took 1.6 s.
        self.assertEqual(report.rate([[500, 500], [900, 1600], []]), 2 / 1.0 + 2 / 2.5)

    def test_a_ratio_is_of_windows_side_by_side(self):
        ours, others = [[[10] * 9]] * 5, [[[20] * 9]] * 4 + [[[10] * 9]]
        got = report.ratio(ours, others)
        self.assertEqual((got["median"], got["high"]), (2.0, 2.0))
        self.assertIn(got["low"], (1.0, 2.0))

    def test_cells_that_reach_everything_miss_nothing(self):
        cells = [cell(), cell(load=True, ours=subject(96, 25, 40), of_one=share(0.96))]
        self.assertEqual(report.judged(cells), ([], []))
        self.assertEqual(report.verdict_lines(cells, [], []), ["all 2 cells reach the goals"])

    def test_less_than_the_peer_or_than_one_thread_each(self):
        missed, undecided = report.judged([cell(of_one=share(0.5), of_peer=share(0.8))])
        self.assertEqual(missed, ["1x16, 4 in threads, idle: 0.800 (0.700 to 0.810) of the runs of "
                                  "ONNX Runtime, goal 1.0",
                                  "1x16, 4 in threads, idle: 0.500 (0.400 to 0.510) of the runs of "
                                  "one thread per session, goal 0.95"])
        self.assertEqual(undecided, [])
        self.assertIn("goals missed: 2", report.verdict_lines([cell()], missed, undecided))

    def test_an_interval_around_the_goal_decides_nothing(self):
        missed, undecided = report.judged([cell(of_one=share(0.94, high=0.97))])
        self.assertEqual((missed, len(undecided)), ([], 1))
        self.assertIn("goals within the noise: 1", report.verdict_lines([cell()], [], undecided))

    def test_under_load_median_and_p99_count(self):
        missed, _ = report.judged([cell(), cell(load=True, ours=subject(100, 26, 41))])
        self.assertEqual(missed, ["1x16, 4 in threads, load = cores: p99 41.0 ms, ONNX Runtime "
                                  "40.0",
                                  "1x16, 4 in threads, load = cores: median 26.00 ms, 2.5 times "
                                  "idle is 25.00"])

    def test_a_median_is_held_against_the_same_cell_only(self):
        idle = cell() | {"sessions": 2}
        self.assertEqual(report.judged([idle, cell(load=True, ours=subject(100, 99, 40))])[0], [])

    def test_a_row_is_as_wide_as_its_head(self):
        self.assertLessEqual(len(report.row(cell(load=True))), len(report.HEAD) + 2)


if __name__ == "__main__":
    unittest.main()
