#!/usr/bin/env python3
"""bench/peers/report.py: quantiles, differences that must not pass, the table and the verdict."""
import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"))
import report  # noqa: E402


def cell(floor, peer, ours, worst=1e-7, batch=1):
    times = {"floor": floor, "onnxruntime": peer, "vernier": ours}
    made = {subject: report.summary([[ms, ms]]) for subject, ms in times.items()}
    return {"model": "mini", "batch": batch, "length": 128,
            "difference": {"max_abs": worst, "worst": worst}, **made}


class Peers(unittest.TestCase):
    def test_quantiles_are_values_that_were_measured(self):
        self.assertEqual(report.quantile([3, 1, 2], 0.5), 2)
        self.assertEqual(report.quantile([3, 1, 2], 0), 1)
        self.assertEqual(report.quantile([3, 1, 2], 1), 3)

    def test_a_summary_pools_the_windows_and_tells_their_drift(self):
        summary = report.summary([[1, 1, 2], [2, 2, 2]])
        self.assertEqual(summary["median_ms"], 2)
        self.assertEqual(summary["runs"], 6)
        self.assertEqual(summary["window_medians_ms"], [1, 2])
        self.assertEqual(summary["drift"], 1)

    def test_differences_are_absolute_and_scaled(self):
        gap = report.difference([1.0, 3.5], [1.0, 3.0])
        self.assertEqual(gap["max_abs"], 0.5)
        self.assertEqual(gap["worst"], 0.125)

    def test_answers_that_show_nothing_never_agree(self):
        for got, want in (([math.nan, 1.0], [0.5, 1.0]), ([0.5, 1.0], [math.nan, 1.0]),
                          ([0.0, 0.0], [0.0, 0.0]), ([1.0], [1.0, 2.0]), ([], []),
                          ([2.0, 2.0], [2.0, 2.0])):
            self.assertEqual(report.difference(got, want)["worst"], math.inf, (got, want))

    def test_a_row_has_both_ratios_and_says_what_differs(self):
        line = report.row(cell(10, 30, 12))
        self.assertIn("1.20x", line)
        self.assertIn("2.50x", line)
        self.assertNotIn("DIFFERS", line)
        self.assertIn("DIFFERS", report.row(cell(10, 30, 12, worst=1e-3)))

    def test_models_are_summed_up_by_geometric_means(self):
        lines = report.model_lines([cell(10, 40, 10), cell(10, 10, 10)])
        self.assertEqual(len(lines), 1)
        self.assertIn("2.00x as fast as ONNX Runtime", lines[0])
        self.assertIn("worst cell 1.00x", lines[0])

    def test_the_batch_line_holds_cost_and_bits_against_the_goal(self):
        self.assertIn("7.90x of b1 s128 (goal 8.0x: yes), rows bitwise equal: yes",
                      report.batch_line({"model": "m", "cost": 7.9, "rows_equal": True}))
        self.assertIn("8.10x of b1 s128 (goal 8.0x: NO), rows bitwise equal: NO",
                      report.batch_line({"model": "m", "cost": 8.1, "rows_equal": False}))

    def test_wrong_outputs_and_wrong_bits_fail_and_times_do_not(self):
        slow = cell(10, 1, 100)
        same, different = ({"model": "m", "cost": 9, "rows_equal": e} for e in (True, False))
        self.assertEqual(report.verdict([slow], [same]), 0)
        self.assertEqual(report.verdict([slow], [different]), 1)
        self.assertEqual(report.verdict([slow, cell(1, 1, 1, worst=1e-3)], [same]), 1)


if __name__ == "__main__":
    unittest.main()
