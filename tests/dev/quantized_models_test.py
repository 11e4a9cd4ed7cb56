#!/usr/bin/env python3
"""Models that other tools quantized build, are right, and run on integer kernels.

Usage: quantized_models_test.py VERNIER SOURCE_DIR [--folder FOLDER] [CASE...]

Two kinds of cases. A product is one node with what quantizers put around it, compared with exact
numbers. A model is one of tests/models after ONNX Runtime's quantizers or NNCF: `vernier verify`
must pass, and ONNX Runtime, which reads the file without our importer, must agree. Each case has the
number of ONNX products that must have run on the kernel of QuantizedLinear, by the engine's ledger.
CASE: only cases whose name holds it. --folder keeps the files. Exit code 0: all well, or SKIP where
onnx, onnxruntime or numpy are missing; 1: a case failed. Without nncf its cases are left out.
"""
import argparse
import contextlib
import io
import json
import logging
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime.quantization import (CalibrationDataReader, QuantFormat, QuantType,
                                          quantize_dynamic, quantize_static)
except ImportError as missing:
    print(f"SKIP: {missing}")
    sys.exit(0)

KERNEL = "cpu.quantized_linear."
PRODUCTS = ("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul")
I8, U8, I16 = np.int8, np.uint8, np.int16
TOLERANCE = 1e-5  # of 1 + |expected|: what CI allows float outputs (docs/testing.md)


class Failure(Exception):
    pass


class Vernier:
    """The program, on files of one folder."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def call(self, *words):
        command = [str(self.program), *(str(word) for word in words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise Failure(f"exit code {done.returncode} of: {shlex.join(command)}\n"
                          f"    {(done.stderr or done.stdout).strip()[:2000]}")
        return done.stdout

    def build(self, model):
        """The engine, its number of QuantizedLinear steps and of ONNX products on their kernel."""
        engine = model.with_suffix(".vn")
        self.call("build", model, "-o", engine)
        steps = json.loads(self.call("inspect", engine, "--plan", "--json"))["steps"]
        rows = json.loads(self.call("inspect", engine, "--ledger", "--json"))["rows"]
        return (engine, sum(step["op"] == "QuantizedLinear" for step in steps),
                sum(row["op"] in PRODUCTS and row["kernel"].startswith(KERNEL) for row in rows))

    def run(self, engine, feeds):
        inputs, outputs = engine.with_suffix(".in.npz"), engine.with_suffix(".out.npz")
        np.savez(inputs, **feeds)
        self.call("run", engine, "--inputs", inputs, "-o", outputs)
        with np.load(outputs) as arrays:
            return {name: arrays[name] for name in arrays}

    def verify(self, engine, model, feeds):
        inputs = engine.with_suffix(".in.npz")
        np.savez(inputs, **feeds)
        report = json.loads(self.call("verify", engine, "--model", model, "--inputs", inputs,
                                      "--json"))
        if report["verdict"] != "pass":
            raise Failure(f"verify {engine.name}: {report['verdict']}: {report['explanation']}")


def peer(model, feeds):
    """ONNX Runtime's outputs. It runs the nodes as they stand: its fusions round elsewhere."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return [dict(zip(names, session.run(None, given))) for given in feeds]


# ---- products ---------------------------------------------------------------------------------

def real(values, scale, zero=0):
    """What quantized numbers stand for, exactly; scale and zero point broadcast."""
    return (values.astype(np.float64) - np.asarray(zero, np.float64)) * np.asarray(scale, np.float64)


class Graph:
    """A small model, its inputs' values, and beside each value what it is exactly."""

    def __init__(self, opset=17):
        self.random = np.random.default_rng(7)
        self.opset, self.nodes, self.constants, self.inputs, self.feeds = opset, [], [], [], {}
        self.result_type = TensorProto.FLOAT

    def constant(self, array):
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op, inputs, outputs=1, **attributes):
        names = [f"{op}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=names[0], **attributes))
        return names[0] if outputs == 1 else names

    def input(self, array, fixed=False):
        name = f"input_{len(self.inputs)}"
        dims = array.shape if fixed else ("rows", *array.shape[1:])
        self.inputs.append(helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), dims))
        self.feeds[name] = array
        return name

    def integers(self, shape, dtype):
        limits = np.iinfo(dtype)
        return self.random.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)

    def points(self, scale, zero, dtype, has_zero=True):
        """Scale and zero point as operands, the zero point left out where there is none."""
        zeros = np.broadcast_to(zero, np.shape(scale)).astype(dtype)
        return [self.constant(scale), *([self.constant(zeros)] if has_zero else [])]

    def activation(self, shape, dtype=I8, zero=0, form="float", scale=np.float32(0.02),
                   domain="", axis=None):
        """DequantizeLinear of QuantizeLinear of an input, or of an input: of integers, or of
        integers with fixed sizes."""
        q = self.integers(shape, dtype)
        points = self.points(scale, zero, dtype)
        attributes = {"domain": domain} | ({} if axis is None else {"axis": axis})
        if form != "float":
            name = self.input(q, form == "fixed")
        else:  # well inside the steps; some beyond the last one
            inside = q + self.random.uniform(-0.4, 0.4, shape)
            inside[..., 0] *= 3
            x = ((inside - zero) * scale).astype(np.float32)
            limits = np.iinfo(dtype)
            q = np.clip(np.rint(x / scale) + zero, limits.min, limits.max).astype(dtype)
            name = self.node("QuantizeLinear", [self.input(x), *points], **attributes)
        return self.node("DequantizeLinear", [name, *points], **attributes), real(q, scale, zero)

    def weight(self, shape, dtype=I8, scale=None, zero=0, axis=None, has_zero=True, domain="",
               in_graph=False):
        """DequantizeLinear of a constant; lists of scales and zero points run along `axis`."""
        count = 1 if axis is None else shape[axis]
        if scale is None:
            scale = self.random.uniform(0.0005, 0.0015, count).astype(np.float32)
            scale = scale[0] if axis is None else scale
        q = self.integers(shape, dtype)
        spread = [1] * len(shape)
        spread[axis or 0] = -1
        along = [v if axis is None else np.reshape(np.broadcast_to(v, count), spread)
                 for v in (scale, zero)]
        points = self.points(scale, zero, dtype, has_zero)
        attributes = {"domain": domain} | ({} if axis is None else {"axis": axis})
        if in_graph:  # as exporters of QAT write it: floats, QuantizeLinear
            q = np.clip(q, -127, 127)
            name = self.node("QuantizeLinear",
                             [self.constant(real(q, *along).astype(np.float32)), *points],
                             **attributes)
        else:
            name = self.constant(q)
        return self.node("DequantizeLinear", [name, *points], **attributes), real(q, *along)

    def vector(self, count):
        values = self.random.normal(size=count).astype(np.float32)
        return self.constant(values), values.astype(np.float64)

    def save(self, path, result):
        info = [helper.make_tensor_value_info(result, self.result_type, None)]
        graph = helper.make_graph(self.nodes, "product", self.inputs, info, self.constants)
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        onnx.save(model, path)


M, K, N = 5, 67, 35


def dequantized(x, w, opset=17, x_shape=(M, K), w_shape=(K, N)):
    """MatMul of two dequantized operands."""
    def make():
        g = Graph(opset)
        (a, x_real), (b, w_real) = g.activation(x_shape, **x), g.weight(w_shape, **w)
        return g, g.node("MatMul", [a, b]), x_real @ w_real
    return make


def transposed(after=True, **w):
    """The weight is stored [N, K], its Transpose stands before or behind DequantizeLinear."""
    def make():
        g = Graph()
        a, x_real = g.activation((M, K), U8, 121)
        b, w_real = g.weight((N, K), axis=0, **w)
        if after:
            b = g.node("Transpose", [b], perm=[1, 0])
        else:
            dequantize = g.nodes.pop()
            columns = g.node("Transpose", [dequantize.input[0]], perm=[1, 0])
            b = g.node("DequantizeLinear", [columns, *dequantize.input[1:]], axis=1)
        return g, g.node("MatMul", [a, b]), x_real @ w_real.T
    return make


def gemm(trans=True, axis=0, bias="i32", **attributes):
    """Gemm. The quantizer's bias is i32 in units of x's scale times w's."""
    def make():
        g = Graph()
        a, x_real = g.activation((M, K), I8, -9)
        w_scale = g.random.uniform(5e-4, 1.5e-3, N).astype(np.float32)
        b, w_real = g.weight((N, K) if trans else (K, N), axis=axis, scale=w_scale)
        c, c_real = g.vector(N)
        if bias == "i32":
            q = g.random.integers(-50000, 50000, N).astype(np.int32)
            scale = np.float32(0.02) * w_scale
            points = [g.constant(scale), g.constant(np.zeros(N, np.int32))]
            c, c_real = g.node("DequantizeLinear", [g.constant(q), *points], axis=0), real(q, scale)
        y = g.node("Gemm", [a, b, c], transB=int(trans), **attributes)
        want = attributes.get("alpha", 1) * (x_real @ (w_real.T if trans else w_real)) + c_real
        return g, y, want
    return make


def through(*between):
    """What a quantizer leaves between DequantizeLinear and the product: it moves numbers only."""
    def make():
        g = Graph()
        a, x_real = g.activation((2, 3, 4, 16), form="integers")
        for op in between:
            if op == "Transpose":
                a, x_real = g.node(op, [a], perm=[0, 2, 1, 3]), x_real.transpose(0, 2, 1, 3)
            else:
                shape = (0, 0, -1) if "Transpose" in between else (-1, 16)
                a = g.node(op, [a, g.constant(np.array(shape, np.int64))])
                x_real = x_real.reshape([x_real.shape[i] if s == 0 else s
                                         for i, s in enumerate(shape)])
        b, w_real = g.weight((x_real.shape[-1], N), axis=1)
        return g, g.node("MatMul", [a, b]), x_real @ w_real
    return make


def bias_and_result():
    """Add with the bias first, a quantized result; the step is the error that is allowed."""
    g = Graph()
    (a, x_real), (b, w_real) = g.activation((2, M, K), U8, 100), g.weight((K, N), axis=1)
    bias, bias_real = g.vector(N)
    y = g.node("Add", [bias, g.node("MatMul", [a, b])])
    points = g.points(np.float32(0.05), 130, U8)
    y = g.node("DequantizeLinear", [g.node("QuantizeLinear", [y, *points]), *points])
    want = np.clip(np.rint((x_real @ w_real + bias_real) / 0.05), -130, 125) * np.float32(0.05)
    return g, y, want, 0.05


def three_readers():
    """Query, key and value: three products of one quantized activation."""
    g = Graph()
    a, x_real = g.activation((2, M, K))
    made = [g.weight((K, N), axis=1, scale=np.full(N, 0.001 * (i + 1), np.float32))
            for i in range(3)]
    y = g.node("Concat", [g.node("MatMul", [a, b]) for b, _ in made], axis=-1)
    return g, y, x_real @ np.concatenate([w_real for _, w_real in made], axis=-1)


def weight_on_the_left():
    g = Graph()
    (a, x_real), (b, w_real) = g.activation((K, M), form="fixed"), g.weight((N, K))
    return g, g.node("MatMul", [b, a]), w_real @ x_real


def extreme(depth):
    """The largest sums: numbers of both operands that are 255 from their zero point."""
    def make():
        g = Graph()
        q, w = np.full((M, depth), 255, U8), np.broadcast_to(np.array([0, 1, 254], U8), (depth, 3))
        scale = np.float32(2.0 ** -16)
        xp, wp = g.points(scale, 0, U8), g.points(scale, 255, U8)
        y = g.node("MatMul", [g.node("DequantizeLinear", [g.input(q), *xp]),
                              g.node("DequantizeLinear", [g.constant(w), *wp])])
        return g, y, real(q, scale) @ real(w, scale, 255)
    return make


def blocked():
    """Scales of blocks along the sums: no integer product has them."""
    g = Graph(opset=21)
    a, x_real = g.activation((M, 64))
    q, scale = g.integers((64, N), I8), g.random.uniform(5e-4, 1e-3, (4, N)).astype(np.float32)
    b = g.node("DequantizeLinear", [g.constant(q), g.constant(scale)], axis=0, block_size=16)
    return g, g.node("MatMul", [a, b]), x_real @ real(q, scale.repeat(16, 0))


def dynamic_product(dtype, zero, columns):
    """As quantize_dynamic writes it: the scales' product, Cast, Mul, Add with the bias first."""
    def make():
        g = Graph()
        x = g.random.normal(size=(2, M, K)).astype(np.float32)
        low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
        x_scale = (high - low) / np.float32(255)
        x_zero = np.rint(-low / x_scale)
        xq = np.clip(np.rint(x / x_scale) + x_zero, 0, 255)
        w = g.integers((K, N), dtype)
        w_scale = g.random.uniform(5e-4, 1.5e-3, N if columns else 1).astype(np.float32)
        zeros = np.broadcast_to(zero, w_scale.shape).astype(dtype)
        shape = (N,) if columns else ()
        bias, bias_real = g.vector(N)
        q, s, z = g.node("DynamicQuantizeLinear", [g.input(x)], outputs=3)
        scales = g.node("Mul", [s, g.constant(w_scale.reshape(shape))])
        y = g.node("MatMulInteger", [q, g.constant(w), z, g.constant(zeros.reshape(shape))])
        y = g.node("Mul", [g.node("Cast", [y], to=TensorProto.FLOAT), scales])
        return (g, g.node("Add", [bias, y]),
                real(xq, x_scale, x_zero) @ real(w, w_scale, zeros) + bias_real)
    return make


def integer_product():
    """MatMulInteger alone: its i32 sums are exact."""
    g = Graph()
    x, w, zeros = g.integers((M, K), U8), g.integers((K, N), I8), g.integers((N,), I8)
    y = g.node("MatMulInteger", [g.input(x), g.constant(w), g.constant(U8(117)), g.constant(zeros)])
    g.result_type = TensorProto.INT32
    return g, y, real(x, 1, 117) @ real(w, 1, zeros), 0


def quantized_product(dtype, zero, columns):
    """QLinearMatMul: at most one step from the exact sum."""
    def make():
        g = Graph()
        x, w = g.integers((2, M, K), dtype), g.integers((K, N), I8)
        w_scale = g.random.uniform(5e-4, 1.5e-3, (N,) if columns else ()).astype(np.float32)
        w_zero = np.broadcast_to(3, w_scale.shape).astype(I8)
        xs, ys = np.float32(0.02), np.float32(0.03)
        y = g.node("QLinearMatMul", [g.input(x), *g.points(xs, zero, dtype), g.constant(w),
                                     g.constant(w_scale), g.constant(w_zero),
                                     *g.points(ys, zero, dtype)])
        limits = np.iinfo(dtype)
        g.result_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        sums = real(x, xs, zero) @ real(w, w_scale, w_zero)
        return g, y, np.clip(np.rint(sums / ys) + zero, limits.min, limits.max), 1
    return make


MS = "com.microsoft"
SHORT = np.array([0.02], np.float32)  # one number in a list
# name: ONNX products on integer kernels, the model with its exact result [, the step allowed].
# 0: no integer kernel has these numbers (or need not have them); the result must be right anyway.
ONE_NODE = {
    "per_tensor": (1, dequantized({}, {})),
    "no_zero_points": (1, dequantized({"form": "integers"}, {"has_zero": False})),
    "activation_zero_point": (1, dequantized({"dtype": U8, "zero": 121}, {})),
    "zero_points": (1, dequantized({"dtype": U8, "zero": 3}, {"dtype": U8, "zero": 140})),
    "per_column": (1, dequantized({}, {"axis": 1})),
    "per_column_last_axis": (1, dequantized({"zero": -7}, {"axis": -1})),
    "per_column_zero_points": (1, dequantized({"dtype": U8, "zero": 200}, {
        "dtype": U8, "axis": 1, "zero": np.arange(100, 100 + N)})),
    "scales_in_lists": (1, dequantized({"scale": SHORT}, {"scale": SHORT / 20})),
    "batched": (1, dequantized({"dtype": U8, "zero": 128}, {"axis": 1}, x_shape=(2, 3, M, K))),
    "one_column": (1, dequantized({}, {"axis": 1}, w_shape=(K, 1))),
    "com_microsoft": (1, dequantized({"domain": MS, "dtype": U8, "zero": 9},
                                     {"domain": MS, "axis": 1})),
    "opset_23": (1, dequantized({}, {"axis": 1}, opset=23)),
    "weight_quantized_in_graph": (1, dequantized({}, {"axis": 1, "in_graph": True})),
    "transposed": (1, transposed()),
    "transposed_zero_points": (1, transposed(dtype=U8, zero=np.arange(90, 90 + N))),
    "transposed_integers": (1, transposed(after=False)),
    "transposed_in_graph": (1, transposed(in_graph=True)),
    "gemm_transposed": (1, gemm()),
    "gemm_negative_axis": (1, gemm(axis=-2, bias="float")),
    "gemm": (1, gemm(trans=False, axis=1)),
    "gemm_alpha": (0, gemm(bias="float", alpha=0.5)),
    "through_reshape": (1, through("Reshape")),
    "through_transpose_reshape": (1, through("Transpose", "Reshape")),
    "bias_and_result": (1, bias_and_result),
    "three_readers": (3, three_readers),
    "extreme_sums": (1, extreme(1 << 15)),
    "more_products_than_i32_holds": (0, extreme(33100)),
    "weight_on_the_left": (0, weight_on_the_left),
    "scales_along_the_sums": (0, dequantized({}, {"axis": 0})),
    "activation_scales_along_the_sums": (0, dequantized(
        {"axis": 1, "scale": np.linspace(0.01, 0.03, K, dtype=np.float32)}, {})),
    "blocks": (0, blocked),
    "weights_per_batch": (0, dequantized({}, {}, x_shape=(2, M, K), w_shape=(2, K, N))),
    "activation_of_16_bits": (0, dequantized(
        {"dtype": I16, "zero": 300, "scale": np.float32(1e-4)}, {}, opset=21)),
    "dynamic_i8": (1, dynamic_product(I8, 0, False)),
    "dynamic_u8": (1, dynamic_product(U8, 119, False)),
    "dynamic_i8_columns": (1, dynamic_product(I8, 0, True)),
    "dynamic_u8_columns": (1, dynamic_product(U8, np.arange(110, 110 + N), True)),
    "matmul_integer": (0, integer_product),
    "qlinear_matmul_u8": (1, quantized_product(U8, 130, False)),
    "qlinear_matmul_i8_columns": (1, quantized_product(I8, -4, True)),
}


def worst_error(got, want, step):
    """The largest error as a part of what is allowed; step None: a float result."""
    if got.shape != want.shape or not np.isfinite(got).all() or len(np.unique(got)) < 2 < got.size:
        return np.inf
    error = np.abs(got.astype(np.float64) - want)
    if step == 0:
        return np.inf if error.any() else 0.0
    return float(np.max(error / ((step or 0) + TOLERANCE * (1 + np.abs(want)))))


def check_product(vernier, name, case):
    expected, make = case
    graph, result, want, *step = make()
    step = step[0] if step else None
    model = vernier.folder / f"{name}.onnx"
    graph.save(model, result)
    engine, steps, products = vernier.build(model)
    got = vernier.run(engine, graph.feeds)[result]
    vernier.verify(engine, model, graph.feeds)
    error, theirs = (worst_error(y, want, step)
                     for y in (got, peer(model, [graph.feeds])[0][result]))
    line = (f"{products} of {expected} products, {steps} steps, error {error:.2g} of what is allowed "
            f"(onnxruntime {theirs:.2g})")
    if error > 1:
        raise Failure(f"wrong numbers: {line}")
    return line, products >= expected


# ---- models -----------------------------------------------------------------------------------

class Calibration(CalibrationDataReader):
    def __init__(self, feeds):
        self.feeds = iter(feeds)

    def get_next(self):
        return next(self.feeds, None)


def static(activation, weight, quant_format=QuantFormat.QDQ, **options):
    """ONNX Runtime's quantize_static."""
    def quantize(source, target, feeds):
        quantize_static(source, target, Calibration(feeds), quant_format=quant_format,
                        activation_type=activation, weight_type=weight, **options)
    return quantize


def dynamic(weight, **options):
    """ONNX Runtime's quantize_dynamic."""
    return lambda source, target, _: quantize_dynamic(source, target, weight_type=weight, **options)


def by_nncf(**options):
    """nncf.quantize; options are names of NNCF's own enumerations."""
    def quantize(source, target, feeds):
        import nncf  # pylint: disable=import-outside-toplevel
        made = {key: getattr({"model_type": nncf.ModelType, "preset": nncf.QuantizationPreset}[key],
                             value) for key, value in options.items()}
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            onnx.save(nncf.quantize(onnx.load(source), nncf.Dataset(feeds), subset_size=len(feeds),
                                    **made), target)
    quantize.package = "nncf"
    return quantize


QI8, QU8 = QuantType.QInt8, QuantType.QUInt8
PER_COLUMN = {"per_channel": True}
ONLY_PRODUCTS = {"op_types_to_quantize": ["MatMul", "Gemm"]}
# Model, quantizer, ONNX products on integer kernels: the MatMul and Gemm with a constant quantized
# weight and a quantized activation. The products of attention, of two activations, are not among
# them.
MODELS = {
    "bert_embedder_ts17/qdq_s8s8": (12, static(QI8, QI8)),
    "bert_embedder_ts17/qdq_u8u8": (12, static(QU8, QU8)),
    "bert_embedder_ts17/qoperator_matmul": (12, static(
        QU8, QI8, QuantFormat.QOperator, op_types_to_quantize=["MatMul"], **PER_COLUMN)),
    "bert_embedder_ts17/dynamic_s8": (12, dynamic(QI8)),
    "bert_embedder_ts17/dynamic_u8": (12, dynamic(QU8)),
    "bert_embedder_ts17/nncf": (12, by_nncf()),
    "bge_reranker_ts17/qdq_s8s8_columns": (14, static(QI8, QI8, **PER_COLUMN)),
    "bge_reranker_ts17/qdq_u8s8": (14, static(QU8, QI8)),
    "bge_reranker_ts17/dynamic_u8_columns": (14, dynamic(QU8, **PER_COLUMN)),
    "bge_reranker_ts17/nncf_transformer": (14, by_nncf(model_type="TRANSFORMER")),
    "gpt2_ts17/qdq_u8s8_columns_products": (13, static(QU8, QI8, **PER_COLUMN, **ONLY_PRODUCTS)),
    "gpt2_ts17/dynamic_s8_columns": (13, dynamic(QI8, **PER_COLUMN)),
    "vit_ts17/qdq_u8s8_columns": (13, static(QU8, QI8, **PER_COLUMN)),
    "vit_ts17/dynamic_s8": (13, dynamic(QI8)),
    "vit_ts17/nncf_mixed": (13, by_nncf(model_type="TRANSFORMER", preset="MIXED")),
}


def distance(got, want):
    """Root mean square of the difference of all cases, as a part of that of `want`."""
    flat = [np.concatenate([array.astype(np.float64).ravel() for case in cases
                            for _, array in sorted(case.items())]) for cases in (got, want)]
    if flat[0].shape != flat[1].shape or not np.isfinite(flat[0]).all():
        return np.inf
    return float(np.sqrt(np.mean((flat[0] - flat[1]) ** 2) / np.mean(flat[1] ** 2)))


def cases_of(folder):
    """The inputs and the FP64 outputs of the model before it was quantized."""
    feeds, truths = [], []
    for path in sorted(folder.glob("case_*.npz")):
        with np.load(path) as arrays:
            for kind, found in (("in.", feeds), ("out.", truths)):
                found.append({name.removeprefix(kind): arrays[name]
                              for name in arrays if name.startswith(kind)})
    return feeds, truths


def check_model(vernier, source_dir, name, case):
    expected, quantize = case
    folder = source_dir / "tests/models" / name.split("/")[0]
    feeds, truths = cases_of(folder)
    model = vernier.folder / (name.replace("/", ".") + ".onnx")
    quantize(str(folder / "model.onnx"), str(model), feeds)
    engine, steps, products = vernier.build(model)
    ours, theirs = [vernier.run(engine, given) for given in feeds], peer(model, feeds)
    vernier.verify(engine, model, feeds[0])
    our_loss, their_loss = distance(ours, truths), distance(theirs, truths)
    line = (f"{products} of {expected} products, {steps} steps, lost by quantizing {our_loss:.2g} "
            f"(onnxruntime {their_loss:.2g}), from onnxruntime {distance(ours, theirs):.2g}")
    # One sum at the edge of a step falls to either side, and what follows differs by as much as
    # quantizing costs: ONNX Runtime's own optimized runs lose 0.7 to 1.4 of its plain ones.
    if our_loss > 1.5 * their_loss + 1e-3:
        raise Failure(f"loses more than onnxruntime: {line}")
    return line, products >= expected


# ---- all cases --------------------------------------------------------------------------------

def run_case(name, check, again):
    started = time.monotonic()
    try:
        line, is_integer = check()
        verdict = "ok  " if is_integer else "FAIL"
        line = line if is_integer else f"too few products on integer kernels: {line}"
    except Exception as error:  # a quantizer's own too: the other cases still run
        verdict, line = "FAIL", f"{'' if isinstance(error, Failure) else type(error).__name__} {error}"
    print(f"{verdict} {name}: {line.strip()} ({time.monotonic() - started:.1f} s)", flush=True)
    if verdict == "FAIL":
        print(f"     again: {again} {name}", flush=True)
    return verdict != "FAIL"


def without_missing(models):
    try:
        import nncf  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
        return models
    except ImportError as missing:
        print(f"NNCF's cases: SKIP: {missing}", flush=True)
    return {name: case for name, case in models.items() if not hasattr(case[1], "package")}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vernier", type=pathlib.Path)
    parser.add_argument("source_dir", type=pathlib.Path)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--folder", type=pathlib.Path, help="where files are kept [a temporary one]")
    asked = parser.parse_args()
    logging.disable(logging.WARNING)
    again = shlex.join([sys.executable, __file__, str(asked.vernier), str(asked.source_dir)])
    with contextlib.ExitStack() as stack:
        folder = asked.folder or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        vernier = Vernier(asked.vernier.resolve(), folder)
        checks = {name: lambda name=name, case=case: check_product(vernier, name, case)
                  for name, case in ONE_NODE.items()}
        checks |= {name: lambda name=name, case=case: check_model(vernier, asked.source_dir, name,
                                                                  case)
                   for name, case in without_missing(MODELS).items()}
        wanted = [name for name in checks
                  if not asked.cases or any(part in name for part in asked.cases)]
        if not wanted:
            sys.exit(f"no case is named {' or '.join(asked.cases)}")
        failed = [name for name in wanted if not run_case(name, checks[name], again)]
    if failed:
        sys.exit(f"FAIL: {len(failed)} of {len(wanted)} cases: {' '.join(failed)}")
    print(f"{len(wanted)} cases passed")


if __name__ == "__main__":
    main()
