#!/usr/bin/env python3
"""bench/peers: whose weights are whose (onnx_weights.py), cells, histograms of lengths, operations,
errors, table and verdict of the comparison on a GPU (report_gpu.py). Needs no packages;
`bench/peers/gpu.py --check` compares answers where PyTorch is installed.
"""
import math
import pathlib
import sys
import unittest
from types import SimpleNamespace

PEERS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"
sys.path.insert(0, str(PEERS))
import onnx_weights  # noqa: E402
import report_gpu  # noqa: E402

QUERY = "/bert/encoder/layer.0/attention/self/query/"


def graph(initialisers, *nodes):
    """`nodes`: (name, operator, inputs, epsilon or None)."""
    def node(name, operator, inputs, epsilon=None):
        attributes = [SimpleNamespace(name="epsilon", f=epsilon)] if epsilon else []
        return SimpleNamespace(name=name, op_type=operator, input=inputs, attribute=attributes)
    return SimpleNamespace(initializer=[SimpleNamespace(name=name) for name in initialisers],
                           node=[node(*values) for values in nodes])


class Weights(unittest.TestCase):
    def test_parameters_keep_their_names_and_anonymous_ones_get_their_module_s(self):
        found = onnx_weights.state_names(graph(
            ["onnx::MatMul_97", "bert.encoder.layer.0.attention.self.query.bias",
             "classifier.weight"],
            (QUERY + "MatMul", "MatMul", ["x", "onnx::MatMul_97"]),
            (QUERY + "Add", "Add", ["bert.encoder.layer.0.attention.self.query.bias", "y"]),
            ("/classifier/Gemm", "Gemm", ["z", "classifier.weight"])))
        self.assertEqual(found, {
            "onnx::MatMul_97": ("encoder.layer.0.attention.self.query.weight", True),
            "bert.encoder.layer.0.attention.self.query.bias":
                ("encoder.layer.0.attention.self.query.bias", False),
            "classifier.weight": ("classifier.weight", False)})

    def test_the_prefix_of_xlmr_goes_too_and_minilm_has_none(self):
        name = onnx_weights.state_name
        self.assertEqual(name("onnx::MatMul_9", "/roberta/encoder/layer.1/output/dense/MatMul"),
                         ("encoder.layer.1.output.dense.weight", True))
        self.assertEqual(name("onnx::MatMul_9", "/encoder/layer.1/output/dense/MatMul"),
                         ("encoder.layer.1.output.dense.weight", True))

    def test_every_initialiser_is_used_exactly_once(self):
        with self.assertRaisesRegex(ValueError, "no node uses w"):
            onnx_weights.state_names(graph(["w"], ("/a/Gemm", "Gemm", ["x"])))
        with self.assertRaisesRegex(ValueError, "'w' is used by '/b/Gemm' and before"):
            onnx_weights.state_names(graph(["w"], ("/a/Gemm", "Gemm", ["w"]),
                                           ("/b/Gemm", "Gemm", ["w"])))
        with self.assertRaisesRegex(ValueError, "several initialisers are 'a.weight'"):
            onnx_weights.state_names(graph(["onnx::MatMul_1", "a.weight"],
                                           ("/a/MatMul", "MatMul", ["onnx::MatMul_1"]),
                                           ("/a/Gemm", "Gemm", ["a.weight"])))

    def test_all_norms_have_one_epsilon(self):
        norm = "LayerNormalization"
        self.assertEqual(onnx_weights.epsilon(graph([], ("a", norm, [], 0.5), ("b", norm, [], 0.5))),
                         0.5)
        with self.assertRaisesRegex(ValueError, "one epsilon"):
            onnx_weights.epsilon(graph([], ("a", norm, [], 0.5), ("b", norm, [], 0.25)))


def cell(ours=2.0, name="b32s512"):
    return {"model": "large", "cell": name, "type": "fp16", "flops": 1e12, "floor_ms": 1.0,
            "pytorch": {"median_ms": 4.0}, "vernier": {"median_ms": ours}}


def engine(rms=1e-3, equal=True, same=True):
    peer = {"rms": 1e-3, "max_abs": 2e-3, "rows_equal": False, "first_equal": False}
    return {"model": "large", "type": "fp16",
            "build": {"seconds": 9, "first_result_s": 10, "fallback_steps": 0, "again_s": 8,
                      "same_bytes": same},
            "accuracy": {"rows": 64, "pytorch": peer,
                         "vernier": {**peer, "rms": rms, "rows_equal": equal, "first_equal": equal}}}


def result(*engines, failures=()):
    return {"engines": list(engines), "cells": [cell()], "failures": list(failures)}


class Report(unittest.TestCase):
    def test_cells_are_batch_and_length_or_mixed(self):
        self.assertEqual(report_gpu.cell_lengths("b3s40"), [40, 40, 40])
        for wrong in ("b0s4", "s4", "b4", "b4s4x", "all"):
            with self.assertRaisesRegex(ValueError, f"there is no cell '{wrong}'"):
                report_gpu.cell_lengths(wrong)

    def test_mixed_lengths_have_their_mean_and_their_longest_and_stay_the_same(self):
        lengths = report_gpu.cell_lengths("mixed")
        self.assertEqual((len(lengths), sum(lengths), max(lengths)), (64, 64 * 175, 512))
        self.assertGreater(min(lengths), 0)
        self.assertEqual(lengths[:4], [422, 266, 150, 143])

    def test_rows_of_unlike_lengths_are_mixed_and_onelong_has_a_dense_cell_of_as_many_tokens(self):
        self.assertEqual(report_gpu.cell_lengths("40+3+17"), [40, 3, 17])
        self.assertEqual(report_gpu.cell_lengths("onelong"), [512] + [8] * 63)
        for cell, dense in report_gpu.DENSE.items():
            self.assertEqual(sum(report_gpu.cell_lengths(cell)),
                             sum(report_gpu.cell_lengths(dense)))
            self.assertTrue(report_gpu.is_mixed(report_gpu.cell_lengths(cell)))
            self.assertFalse(report_gpu.is_mixed(report_gpu.cell_lengths(dense)))
        self.assertEqual(report_gpu.with_dense(["mixed", "onelong", "b1s8"]),
                         ["mixed", "onelong", "b8s127", "b1s8"])

    def test_lengths_are_drawn_from_a_histogram_and_stay_the_same(self):
        squad = report_gpu.read_histogram((PEERS / "squad.txt").read_text(encoding="utf-8"))
        mean = (sum((low + high) / 2 * share for low, high, share in squad)
                / sum(share for *_, share in squad))
        self.assertAlmostEqual(mean, 172.1, delta=0.05)  # as the file says
        lengths = report_gpu.drawn_lengths(squad, 2048)
        self.assertEqual(lengths, report_gpu.drawn_lengths(squad, 2048))
        self.assertAlmostEqual(sum(lengths) / len(lengths), mean, delta=4)
        self.assertTrue(36 <= min(lengths) and max(lengths) == 384)
        self.assertEqual(report_gpu.drawn_lengths([(7, 7, 1)], 3), [7, 7, 7])
        for text, why in (("1 2", "three numbers"), ("# nothing", "needs lines"),
                          ("3 2 1", "needs lines"), ("1 2 0", "needs lines")):
            with self.assertRaisesRegex(ValueError, why):
                report_gpu.read_histogram(text)

    def test_operations_are_those_of_products_and_attention(self):
        sizes = {"layers": 24, "hidden": 1024, "ffn": 4096}
        self.assertEqual(report_gpu.flops(sizes, [128]),
                         24 * (2 * 128 * (4 * 1024**2 + 2 * 1024 * 4096) + 4 * 1024 * 128**2))
        self.assertAlmostEqual(
            report_gpu.flops(sizes, report_gpu.cell_lengths("mixed")) / 1e12, 7.0, delta=0.1)

    def test_errors_that_show_nothing_are_infinite(self):
        self.assertEqual(report_gpu.errors([1.0, 3.0], [1.0, 2.0])["max_abs"], 1)
        self.assertAlmostEqual(report_gpu.errors([3.0, 4.5], [3.0, 4.0])["rms"], 0.1)
        for got in ([math.nan, 1.0], [1.0]):
            self.assertEqual(report_gpu.errors(got, [1.0, 2.0])["rms"], math.inf)

    def test_a_row_has_ratios_rates_and_the_goal_and_dashes_for_what_is_missing(self):
        line = report_gpu.row(cell(), ceiling=1000)
        for part in ("2.00x", "18.3", "250.0", "500.0", "50 %"):
            self.assertIn(part, line)
        bare = report_gpu.row({"model": "base", "cell": "b1s128", "type": "bf16", "flops": 1})
        self.assertEqual(bare.split()[3:], ["-"] * 15)

    def test_a_row_has_the_other_peers_and_the_best_of_all_beside_vernier(self):
        others = {"unpadded": {"median_ms": 2.5}, "unpadded_compiled": {"median_ms": 2.25},
                  "ort_packed": {"median_ms": 3.0}}
        fields = report_gpu.row({**cell(name="mixed"), **others}).split()
        self.assertEqual(fields[3:11], ["1.000", "4.000", "-", "2.500", "2.250", "-", "3.000",
                                        "2.000"])
        self.assertEqual(fields[12:14], ["2.00x", "1.12x"])

    def test_dense_lines_compare_cells_of_as_many_tokens(self):
        self.assertEqual(report_gpu.dense_lines([cell(name="onelong")]), [])
        [line] = report_gpu.dense_lines([cell(3.0, "onelong"), cell(2.0, "b8s127")])
        self.assertIn("onelong takes 1.50 of Vernier's time for b8s127", line)

    def test_engine_lines_tell_what_is_wrong(self):
        good = "\n".join(report_gpu.engine_lines(engine()))
        self.assertNotIn("WRONG", good)
        self.assertIn("the same bytes: yes", good)
        self.assertIn("PyTorch NO, Vernier yes", good)
        self.assertIn("WRONG", "\n".join(report_gpu.engine_lines(engine(rms=3e-3))))
        self.assertEqual(report_gpu.engine_lines({"model": "large", "type": "fp16"}), [])

    def test_engine_lines_tell_what_peers_do_why_they_are_left_out_and_rows_per_second(self):
        told = engine()
        told["accuracy"]["unpadded"] = {"rms": 2e-3, "max_abs": 1, "rows_equal": True}
        told["accuracy"]["ort"] = {"rms": 5e-3, "max_abs": 1, "rows_equal": False}
        told["left_out"] = {"ort_packed": "no provider"}
        told["offline"] = {"lengths": "squad", "rows": 4, "tokens": 10, "batch": 2,
                           "rows_per_second": {"vernier": [5.0, 7.0, 6.0]}}
        *_, unpadded, ort, left_out, offline = report_gpu.engine_lines(told)
        self.assertNotIn("NO PEER", unpadded)
        self.assertIn("NO PEER", ort)
        self.assertEqual(left_out, "large fp16: ORT packed: not measured: no provider")
        self.assertIn("squad, 4 rows of 2.5 tokens in batches of 2, rows per second: vernier 6",
                      offline)
        self.assertEqual(report_gpu.verdict(result(told)), 1)
        del told["accuracy"]["ort"]
        self.assertEqual(report_gpu.verdict(result(told)), 0)

    def test_the_verdict_is_of_answers_bits_bytes_and_failures_not_of_times(self):
        self.assertEqual(report_gpu.verdict(result(engine())), 0)
        for bad in (engine(rms=3e-3), engine(rms=math.inf), engine(equal=False),
                    engine(same=False)):
            self.assertEqual(report_gpu.verdict(result(engine(), bad)), 1)
        self.assertEqual(report_gpu.verdict(result(engine(), failures=["out of memory"])), 1)


if __name__ == "__main__":
    unittest.main()
