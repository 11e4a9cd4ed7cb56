#!/usr/bin/env python3
"""Writes models that arrive in 16 bits, made from an f32 model:
make_half_models.py MODEL OUT_FOLDER [NAME...], NAME one of

half.onnx       everything in f16, inputs and outputs too (PyTorch's model.half())
half_io32.onnx  as half.onnx, with Casts at f32 inputs and outputs
autocast.onnx   MatMul and Gemm in f16 between Casts, weights through a Cast (torch.autocast)
islands.onnx    as autocast.onnx, with weights stored in f16 (AutoCast tools on ONNX files)
islands_bf16.onnx   as islands.onnx, in bf16
Needs the PyPI package onnx. Read by tests/scenarios/half_models_test.cpp.
"""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PRODUCTS = ("MatMul", "Gemm")
NUMPY = {TensorProto.FLOAT16: np.float16, TensorProto.BFLOAT16: ml_dtypes.bfloat16}


def rounded(tensor, to):
    """An f32 tensor as `to`; what lies outside its range becomes its largest or lowest number."""
    limit = float(ml_dtypes.finfo(NUMPY[to]).max)
    array = numpy_helper.to_array(tensor)
    finite = np.where(np.isinf(array), array, np.clip(array, -limit, limit))
    return helper.make_tensor(tensor.name, to, list(tensor.dims),
                              finite.astype(NUMPY[to]).tobytes(), raw=True)


def is_f32(tensor):
    return tensor.data_type == TensorProto.FLOAT


def change_types(graph, old, new):
    for values in (graph.input, graph.output):
        for value in values:
            if value.type.tensor_type.elem_type == old:
                value.type.tensor_type.elem_type = new
    del graph.value_info[:]


def half(model):
    """Every f32 value in f16."""
    graph = model.graph
    for tensor in filter(is_f32, graph.initializer):
        tensor.CopyFrom(rounded(tensor, TensorProto.FLOAT16))
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR and is_f32(attribute.t):
                attribute.t.CopyFrom(rounded(attribute.t, TensorProto.FLOAT16))
            if node.op_type == "Cast" and attribute.name == "to":
                if attribute.i == TensorProto.FLOAT:
                    attribute.i = TensorProto.FLOAT16
    change_types(graph, TensorProto.FLOAT, TensorProto.FLOAT16)


def half_io32(model):
    """As half(), but callers give and get f32."""
    half(model)
    graph = model.graph
    change_types(graph, TensorProto.FLOAT16, TensorProto.FLOAT)
    first, last = [], []
    for value in graph.input:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            inner = value.name + "_f16"
            for node in graph.node:
                node.input[:] = [inner if name == value.name else name for name in node.input]
            first.append(helper.make_node("Cast", [value.name], [inner], to=TensorProto.FLOAT16))
    for value in graph.output:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            inner = value.name + "_f16"
            for node in graph.node:
                node.input[:] = [inner if name == value.name else name for name in node.input]
                node.output[:] = [inner if name == value.name else name for name in node.output]
            last.append(helper.make_node("Cast", [inner], [value.name], to=TensorProto.FLOAT))
    nodes = [*first, *graph.node, *last]
    del graph.node[:]
    graph.node.extend(nodes)


class Islands:
    """MatMul and Gemm in `to` between Casts; everything else as it was."""

    def __init__(self, model, to, store_weights):
        self.graph, self.to, self.store_weights = model.graph, to, store_weights
        self.weights = {t.name: t for t in model.graph.initializer if is_f32(t)}
        self.narrow = {}
        self.nodes = []

    def operand(self, name):
        if name not in self.narrow:
            self.narrow[name] = name + "_narrow"
            if self.store_weights and name in self.weights:
                tensor = rounded(self.weights[name], self.to)
                tensor.name = self.narrow[name]
                self.graph.initializer.append(tensor)
            else:
                self.nodes.append(
                    helper.make_node("Cast", [name], [self.narrow[name]], to=self.to))
        return self.narrow[name]

    def product(self, node):
        inputs = [self.operand(name) for name in node.input]
        result, inner = node.output[0], node.output[0] + "_product"
        made = onnx.NodeProto()
        made.CopyFrom(node)
        made.input[:], made.output[:] = inputs, [inner]
        self.nodes.append(made)
        self.nodes.append(helper.make_node("Cast", [inner], [result], to=TensorProto.FLOAT))

    def make(self):
        for node in self.graph.node:
            if node.op_type in PRODUCTS:
                self.product(node)
            else:
                self.nodes.append(node)
        read = {name for node in self.nodes for name in node.input}
        kept = [t for t in self.graph.initializer if t.name in read]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)
        nodes = list(self.nodes)
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        del self.graph.value_info[:]


VARIANTS = {
    "half": half,
    "half_io32": half_io32,
    "autocast": lambda m: Islands(m, TensorProto.FLOAT16, False).make(),
    "islands": lambda m: Islands(m, TensorProto.FLOAT16, True).make(),
    "islands_bf16": lambda m: Islands(m, TensorProto.BFLOAT16, True).make(),
}


def main(source, folder, *names):
    for name in names or VARIANTS:
        model = onnx.load(source)
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        VARIANTS[name](model)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, Path(folder) / f"{name}.onnx")


if __name__ == "__main__":
    main(*sys.argv[1:])
