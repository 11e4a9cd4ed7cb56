"""Writes a BERT encoder as ONNX with seeded random weights of trained-like scale, for benchmarks.

    .venv/bin/python bench/make_bert.py base build/bench/bert_base.onnx

Geometry: mini 6x384, base 12x768, large 24x1024 (heads of 64, except mini: 12 heads of 32).
Inputs input_ids and attention_mask, i64 [batch, seq]; output last_hidden_state f32 [batch, seq, hidden].
The graph is spelled as PyTorch's exporter at opset 17 spells BERT, without the shape chains.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GEOMETRY = {"mini": (6, 384, 12), "base": (12, 768, 12), "large": (24, 1024, 16)}
VOCABULARY, POSITIONS = 30522, 512


class Builder:
    """Collects nodes and initialisers; every method returns the name of its result."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def op(self, kind, *inputs, **attributes):
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def constant(self, array):
        name = f"const_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape, mean=0.0, deviation=0.02):
        values = self.random.standard_normal(shape, dtype=np.float32) * deviation + mean
        return self.constant(values.astype(np.float32))

    def linear(self, x, rows, cols):
        product = self.op("MatMul", x, self.weight(rows, cols))
        return self.op("Add", self.weight(cols), product)

    def norm(self, x, hidden):
        scale, bias = self.weight(hidden, mean=1.0), self.weight(hidden)
        return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-12)

    def heads(self, x, heads, size):
        split = self.op("Reshape", x, self.constant(np.array([0, 0, heads, size], np.int64)))
        return self.op("Transpose", split, perm=[0, 2, 1, 3])

    def layer(self, x, mask, hidden, heads):
        size = hidden // heads
        q, k, v = (self.heads(self.linear(x, hidden, hidden), heads, size) for _ in range(3))
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        scaled = self.op("Div", scores, self.constant(np.float32(np.sqrt(size))))
        probabilities = self.op("Softmax", self.op("Add", scaled, mask), axis=-1)
        context = self.op("Transpose", self.op("MatMul", probabilities, v), perm=[0, 2, 1, 3])
        merged = self.op("Reshape", context, self.constant(np.array([0, 0, hidden], np.int64)))
        x = self.norm(self.op("Add", self.linear(merged, hidden, hidden), x), hidden)
        inner = self.linear(x, hidden, 4 * hidden)
        erf = self.op("Erf", self.op("Div", inner, self.constant(np.float32(np.sqrt(2)))))
        gelu = self.op("Mul", self.op("Mul", inner, self.op("Add", erf, self.constant(np.float32(1)))),
                       self.constant(np.float32(0.5)))
        return self.norm(self.op("Add", self.linear(gelu, 4 * hidden, hidden), x), hidden)


def build(geometry, seed):
    layers, hidden, heads = GEOMETRY[geometry]
    b = Builder(seed)
    words = b.op("Gather", b.weight(VOCABULARY, hidden), "input_ids")
    length = b.op("Gather", b.op("Shape", "input_ids"), b.constant(np.int64(1)))
    ends = b.op("Unsqueeze", length, b.constant(np.array([0], np.int64)))
    positions = b.op("Slice", b.weight(1, POSITIONS, hidden), b.constant(np.array([0], np.int64)),
                     ends, b.constant(np.array([1], np.int64)))
    x = b.norm(b.op("Add", words, positions), hidden)
    wide = b.op("Unsqueeze", "attention_mask", b.constant(np.array([1, 2], np.int64)))
    keep = b.op("Cast", wide, to=TensorProto.FLOAT)
    mask = b.op("Mul", b.op("Sub", b.constant(np.float32(1)), keep),
                b.constant(np.float32(np.finfo(np.float32).min)))
    for _ in range(layers):
        x = b.layer(x, mask, hidden, heads)
    b.nodes[-1].output[0] = "last_hidden_state"
    ids = [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "seq"])
           for n in ("input_ids", "attention_mask")]
    out = [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "seq", hidden])]
    graph = helper.make_graph(b.nodes, f"bert_{geometry}", ids, out, b.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                             producer_name="vernier bench/make_bert.py")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("geometry", choices=sorted(GEOMETRY))
    parser.add_argument("output")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    onnx.save(build(arguments.geometry, arguments.seed), arguments.output)
    print(f"wrote {arguments.output}")


if __name__ == "__main__":
    main()
