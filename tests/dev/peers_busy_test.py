#!/usr/bin/env python3
"""bench/peers/report_busy.py: what a cell must reach, and the table."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"))
import report_busy as report  # noqa: E402


def subject(per_s, median, p99):
    return {"per_s": per_s, "median_ms": median, "p99_ms": p99, "runs": 100}


def cell(load=False, ours=subject(100, 10, 20), one=subject(100, 10, 20),
         peer=subject(50, 20, 40)):
    return {"shape": "1x16", "sessions": 4, "kind": "threads", "load": load, "vernier": ours,
            "one": one, "onnxruntime": peer}


class Busy(unittest.TestCase):
    def test_a_summary_counts_runs_of_all_sessions(self):
        summary = report.summary([[[1, 2, 3]], [[4, 6], [5]], [[7]]])
        self.assertEqual(summary, {"per_s": 400.0, "median_ms": 4, "p99_ms": 6, "runs": 7})

    def test_a_session_is_counted_with_its_own_time(self):
        # Two sessions of 1 s: the last run of one began at 0.9 s and took 1.6 s.
        self.assertEqual(report.rate([[500, 500], [900, 1600], []]), 2 / 1.0 + 2 / 2.5)

    def test_cells_that_reach_everything_miss_nothing(self):
        cells = [cell(), cell(load=True, ours=subject(96, 25, 40))]
        self.assertEqual(report.missed(cells), [])
        self.assertEqual(report.verdict_lines(cells, []), ["all 2 cells reach the goals"])

    def test_less_than_the_peer_or_than_one_thread_each(self):
        lines = report.missed([cell(ours=subject(40, 10, 20))])
        self.assertEqual(lines, ["1x16, 4 in threads, idle: 40.0 runs/s, ONNX Runtime 50.0",
                                 "1x16, 4 in threads, idle: 40.0 runs/s, one thread per session "
                                 "100.0"])
        self.assertIn("goals missed: 2", report.verdict_lines([cell()], lines))

    def test_under_load_median_and_p99_count(self):
        lines = report.missed([cell(), cell(load=True, ours=subject(100, 26, 41))])
        self.assertEqual(lines, ["1x16, 4 in threads, load = cores: p99 41.0 ms, ONNX Runtime 40.0",
                                 "1x16, 4 in threads, load = cores: median 26.00 ms, 2.5 times "
                                 "idle is 25.00"])

    def test_a_median_is_held_against_the_same_cell_only(self):
        idle = cell() | {"sessions": 2}
        self.assertEqual(report.missed([idle, cell(load=True, ours=subject(100, 99, 40))]), [])

    def test_a_row_is_as_wide_as_its_head(self):
        self.assertLessEqual(len(report.row(cell(load=True))), len(report.HEAD) + 2)


if __name__ == "__main__":
    unittest.main()
