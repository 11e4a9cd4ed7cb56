#!/usr/bin/env python3
"""Writes the node tests of the PyPI package onnx as files: write_node_tests.py OUT

OUT/<case>/model.onnx, OUT/<case>/test_data_set_<n>/{input,output}_<i>.pb (TensorProto, named as in
the model) and OUT/<case>/operator.txt (the operator under test). Only cases of the default domain
whose inputs and outputs are numeric tensors. Read by tests/onnx/node_test.cpp.
"""

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def as_tensor(value, name):
    """The value as a TensorProto, or None if it is not a numeric tensor."""
    if isinstance(value, onnx.TensorProto):
        tensor = onnx.TensorProto()
        tensor.CopyFrom(value)
    elif isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype.kind in "OSU":
            return None
        tensor = numpy_helper.from_array(array)
    else:
        return None
    if tensor.data_type == onnx.TensorProto.STRING:
        return None
    tensor.name = name
    return tensor


def data_sets(case):
    """[(input tensors, output tensors)], or None if one of them is not numeric."""
    result = []
    for inputs, outputs in case.data_sets:
        pairs = [
            [as_tensor(value, info.name) for value, info in zip(values, infos, strict=False)]
            for values, infos in ((inputs, case.model.graph.input), (outputs, case.model.graph.output))
        ]
        if any(tensor is None for tensors in pairs for tensor in tensors):
            return None
        result.append(pairs)
    return result


def in_default_domain(model):
    domains = [node.domain for node in model.graph.node]
    return all(domain in ("", "ai.onnx") for domain in domains)


def operator_of(case, operators):
    """A case with a function body expanded tests the operator of the case it was made from."""
    base = re.sub(r"_expanded.*$", "", case.name)
    return operators.get(base, case.model.graph.node[0].op_type)


def write_case(folder, case, sets, operator):
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    (folder / "operator.txt").write_text(operator + "\n")
    for n, (inputs, outputs) in enumerate(sets):
        data = folder / f"test_data_set_{n}"
        data.mkdir()
        for kind, tensors in (("input", inputs), ("output", outputs)):
            for i, tensor in enumerate(tensors):
                (data / f"{kind}_{i}.pb").write_bytes(tensor.SerializeToString())


def main(out):
    cases = [case for case in collect_testcases(None) if in_default_domain(case.model)]
    operators = {
        case.name: case.model.graph.node[0].op_type
        for case in cases
        if len(case.model.graph.node) == 1
    }
    if out.exists():
        shutil.rmtree(out)
    written = 0
    for case in cases:
        sets = data_sets(case)
        if sets is None:
            continue
        write_case(out / case.name, case, sets, operator_of(case, operators))
        written += 1
    print(f"{written} of {len(cases)} node tests are numeric and were written to {out}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: write_node_tests.py OUT")
    main(Path(sys.argv[1]))
