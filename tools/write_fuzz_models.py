#!/usr/bin/env python3
"""Writes the seeds of the fuzz target `compile`: write_fuzz_models.py fuzz/corpus/compile

One of the node tests of the PyPI package onnx for each operator (the one with most attributes, its
axes and shapes made constants, as exporters write them), and a few small models of what exporters
make of attention, masks, shapes, images, indices, local functions and quantised products.
"""

import json
import sys
from pathlib import Path

import numpy as np
from onnx import ModelProto, helper, numpy_helper, parser
from onnx.backend.test.case.node import collect_testcases

MOST_BYTES = 600
# What one seed of its kind stands for, and operators that Vernier lacks (GRU stands for them).
LEFT_OUT = set(
    """Abs Acos Acosh AffineGrid And Asin Asinh Atan Atanh Bernoulli BitCast BitwiseAnd
    BitwiseNot BitwiseOr BitwiseXor BlackmanWindow CausalConvWithState Ceil CenterCropPad Col2Im
    Compress Cos Cosh CumProd DFT DeformConv Det Elu Erf Exp Floor Greater GreaterOrEqual
    HammingWindow HannWindow HardSigmoid HardSwish Identity ImageDecoder IsInf IsNaN LRN LSTM
    LeakyRelu Less LessOrEqual LinearAttention Log LpPool Max MaxUnpool Mean MelWeightMatrix
    Mish Neg NonMaxSuppression Not OptionalGetElement OptionalHasElement Or RNN Reciprocal
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMin ReduceProd ReduceSumSquare
    RegexFullMatch Relu RoiAlign Round STFT Selu SequenceInsert SequenceMap Sigmoid Sign Sin
    Sinh Softplus Softsign SplitToSequence Sqrt StringConcat StringNormalizer StringSplit Sub
    Sum SwiGLU Swish Tan Tanh TensorScatter TfIdfVectorizer ThresholdedRelu Unique Xor""".split()
)
# Their integers are data, not sizes.
INDEXING = {"Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "OneHot"}

# What --export-qdq writes into the metadata of "int8_operands".
INT8 = {
    "version": 1,
    "policy": '{"vernier_policy": 1, "mode": "int8", "rules": []}',
    "products": [{"output": "p", "factors": True}],
}

HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'


def with_constants(case):
    """The case's model, its small integer inputs but the first turned into initialisers."""
    model = ModelProto()
    model.CopyFrom(case.model)
    model.producer_name = ""
    if not case.data_sets or model.graph.node[0].op_type in INDEXING:
        return model
    inputs = list(case.model.graph.input)
    values = dict(zip([info.name for info in inputs], case.data_sets[0][0], strict=False))
    del model.graph.input[:]
    for index, info in enumerate(inputs):
        value = values.get(info.name)
        sizes = isinstance(value, np.ndarray) and value.dtype == np.int64 and value.size <= 8
        if index > 0 and sizes:
            model.graph.initializer.append(numpy_helper.from_array(value, info.name))
        else:
            model.graph.input.append(info)
    return model


def node_tests():
    """{operator: bytes of a model}"""
    best = {}
    for case in collect_testcases():
        if case.model is None or "expanded" in case.name:
            continue
        nodes = case.model.graph.node
        operator = nodes[0].op_type
        if operator in LEFT_OUT or any(node.domain not in ("", "ai.onnx") for node in nodes):
            continue
        data = with_constants(case).SerializeToString()
        score = (sum(len(node.attribute) for node in nodes), -len(data))
        if len(data) <= MOST_BYTES and (operator not in best or score > best[operator][0]):
            best[operator] = (score, data)
    return {operator: data for operator, (_, data) in best.items()}


def weight(name, shape, seed):
    values = np.random.default_rng(seed).standard_normal(shape) * 0.3
    return numpy_helper.from_array(values.astype(np.float32), name)


def numbers(name, values, dtype=np.int64):
    return numpy_helper.from_array(np.array(values, dtype=dtype), name)


def floats(name, values):
    return numbers(name, values, np.float32)


MODELS = {
    "encoder_layer": (
        HEAD.replace("18", "17")
        + """g (int64[batch,seq] ids, int64[batch,seq] mask) => (float[batch,seq,8] y) {
  x = Gather<axis=0>(table, ids)
  q0 = MatMul(x, wq)  q1 = Add(q0, b)  q2 = Reshape(q1, heads)
  q = Transpose<perm=[0,2,1,3]>(q2)
  k0 = MatMul(x, wk)  k2 = Reshape(k0, heads)
  k = Transpose<perm=[0,2,3,1]>(k2)
  v = Transpose<perm=[0,2,1,3]>(k2)
  s0 = MatMul(q, k)  s1 = Div(s0, root)
  m0 = Unsqueeze(mask, one_two)  m1 = Cast<to=1>(m0)  m2 = Sub(unit, m1)  m3 = Mul(m2, low)
  s2 = Add(s1, m3)  p = Softmax<axis=-1>(s2)
  c0 = MatMul(p, v)  c1 = Transpose<perm=[0,2,1,3]>(c0)  c = Reshape(c1, joined)
  r = Add(c, x)
  mean = ReduceMean<axes=[-1]>(r)  d = Sub(r, mean)  d2 = Pow(d, two)
  var = ReduceMean<axes=[-1]>(d2)  e = Add(var, epsilon)  deviation = Sqrt(e)
  n = Div(d, deviation)  n1 = Mul(n, b)  y = Add(n1, b)
}""",
        [
            weight("table", (6, 8), 1),
            weight("wq", (8, 8), 2),
            weight("wk", (8, 8), 3),
            weight("b", (8,), 4),
            numbers("heads", [0, 0, 2, 4]),
            numbers("joined", [0, 0, 8]),
            numbers("one_two", [1, 2]),
            floats("root", 2.0),
            floats("unit", 1.0),
            floats("low", -3.4028234663852886e38),
            floats("two", 2.0),
            floats("epsilon", 1e-5),
        ],
    ),
    "mlp_gelu": (
        HEAD
        + """g (float[batch,6] x) => (float[batch,4] y) {
  h0 = Gemm<transB=1>(x, w1, b1)  a = Div(h0, r2)  e = Erf(a)  o = Add(e, unit)
  m = Mul(h0, o)  h = Mul(m, half)  z = MatMul(h, w2)  y = Tanh(z)
}""",
        [
            weight("w1", (5, 6), 1),
            weight("b1", (5,), 2),
            weight("w2", (5, 4), 3),
            floats("r2", 1.4142135),
            floats("unit", 1.0),
            floats("half", 0.5),
        ],
    ),
    "shapes": (
        HEAD
        + """g (float[batch,seq,4] x, int64[batch,seq] ids) => (float[a,b] y, int64[c] r, float[d] k) {
  s = Shape(x)  b0 = Gather<axis=0>(s, zero)  t0 = Gather<axis=0>(s, one)
  bu = Unsqueeze(b0, axes0)  tu = Unsqueeze(t0, axes0)  n = Mul(bu, tu)
  to = Concat<axis=0>(n, four)  f = Reshape(x, to)
  r = Range(zero, t0, one)
  full = ConstantOfShape(tu)  k = Expand(full, tu)
  c = CumSum(ids, one)  cf = Cast<to=1>(c)  cs = Reshape(cf, minus)  y = Add(f, cs)
}""",
        [
            numbers("zero", 0),
            numbers("one", 1),
            numbers("axes0", [0]),
            numbers("four", [4]),
            numbers("minus", [-1, 1]),
        ],
    ),
    "image": (
        HEAD
        + """g (float[batch,3,8,8] x) => (float[batch,10] y) {
  c = Conv<kernel_shape=[3,3],strides=[2,2],pads=[1,1,1,1]>(x, w, b)
  n = BatchNormalization(c, ones, b, b, ones)  r = Relu(n)
  p = MaxPool<kernel_shape=[2,2],strides=[2,2],ceil_mode=1>(r)
  u = Resize<mode="linear">(p, none, scales)
  a = GlobalAveragePool(u)  l = Flatten(a)  y = Gemm(l, wo)
}""",
        [
            weight("w", (4, 3, 3, 3), 1),
            weight("b", (4,), 2),
            weight("wo", (4, 10), 3),
            floats("ones", [1, 1, 1, 1]),
            floats("none", []),
            floats("scales", [1, 1, 2, 2]),
        ],
    ),
    "indices": (
        HEAD
        + """g (float[n,5] x, int64[n,5] at, int64[k,1] rows, int64[k] ids)
      => (float[n,5] y, float[k,7] o, float[n,5] e) {
  e = GatherElements<axis=1>(x, at)
  s = ScatterElements<axis=1,reduction="add">(x, at, e)
  d = GatherND(s, rows)  y = ScatterND<reduction="max">(s, rows, d)
  o = OneHot(ids, depth, values)
}""",
        [numbers("depth", 7), floats("values", [0, 1])],
    ),
    "if_and_function": (
        """<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
g (float[n,4] x) => (float[n,4] y) {
  a = local.twice(x)
  b = If (flag) <
    then_branch = t () => (float[n,4] z) { z = Relu(a) },
    else_branch = e () => (float[n,4] z) { z = Neg(a) }
  >
  y = local.twice(b)
}
<domain: "local", opset_import: ["" : 18]>
twice (p) => (q) { u = Add(p, p) q = Sigmoid(u) }
""",
        [numbers("flag", True, bool)],
    ),
    "quantised": (
        HEAD
        + """g (float[n,4] x) => (float[n,3] y) {
  q, s, z = DynamicQuantizeLinear(x)
  m = MatMulInteger(q, w, z)  f = Cast<to=1>(m)  t = Mul(s, scale)  d = Mul(f, t)
  e = QuantizeLinear(d, scale, point)  y = DequantizeLinear(e, scale, point)
}""",
        [
            numpy_helper.from_array(np.arange(12, dtype=np.int8).reshape(4, 3) - 5, "w"),
            floats("scale", 0.05),
            numbers("point", 3, np.uint8),
        ],
    ),
    "int8_operands": (
        HEAD
        + """g (float[n,4] x) => (float[n,3] y) {
  f = Mul(x, factors)  q = QuantizeLinear(f, s, z)  d = DequantizeLinear(q, s, z)
  v = DequantizeLinear<axis=1>(w, scales, zeros)  p = MatMul(d, v)  y = Relu(p)
}""",
        [
            numpy_helper.from_array(np.arange(12, dtype=np.int8).reshape(4, 3) - 5, "w"),
            floats("scales", [0.05, 0.1, 0.2]),
            numbers("zeros", [0, 0, 0], np.int8),
            floats("factors", [1, 0.5, 2, 1]),
            floats("s", 0.02),
            numbers("z", -3, np.int8),
        ],
    ),
    "causal": (
        HEAD
        + """g (float[batch,seq,8] x) => (float[batch,2,seq,seq] y) {
  h = Shape(x)  t = Gather<axis=0>(h, one)  tu = Unsqueeze(t, axes0)
  sq = Concat<axis=0>(tu, tu)  ones = ConstantOfShape<value=float[1] {1.0}>(sq)
  triangle = Trilu<upper=0>(ones)  keep = Cast<to=9>(triangle)
  h0 = Reshape(x, heads)  q = Transpose<perm=[0,2,1,3]>(h0)
  s = Einsum<equation="bhid,bhjd->bhij">(q, q)
  w = Where(keep, s, low)  y = Softmax<axis=-1>(w)
}""",
        [
            numbers("one", 1),
            numbers("axes0", [0]),
            numbers("heads", [0, 0, 2, 4]),
            floats("low", -10000.0),
        ],
    ),
}


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: write_fuzz_models.py FOLDER")
    folder = Path(sys.argv[1])
    for operator, data in node_tests().items():
        (folder / f"{operator}.onnx").write_bytes(data)
    for name, (text, weights) in MODELS.items():
        model = parser.parse_model(text)
        model.graph.initializer.extend(weights)
        if name == "int8_operands":
            helper.set_model_props(model, {"vernier.int8": json.dumps(INT8)})
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())


if __name__ == "__main__":
    main()
