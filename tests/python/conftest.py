"""What the tests of the Python package share: a small trained model, its engine, made models."""
import pathlib

import numpy as np
import onnx
import pytest
import vernier
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests" / "models" / "bge_reranker_ts17" / "model.onnx"


def stored_case(number):
    """(inputs, FP64 outputs) of a stored case of MODEL."""
    arrays = np.load(MODEL.parent / f"case_{number}.npz")
    return tuple({name[len(prefix):]: arrays[name] for name in arrays if name.startswith(prefix)}
                 for prefix in ("in.", "out."))


@pytest.fixture(scope="session")
def engine_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("engine") / "model.vn"
    vernier.build(MODEL, path)
    return path


@pytest.fixture(scope="session")
def session(engine_path):
    return vernier.Session(vernier.Engine(engine_path), threads=2)


@pytest.fixture
def doubling_model(tmp_path):
    """A function: the path of a model y = x + x over [rows, 4] in an ONNX type."""

    def make(onnx_type):
        graph = helper.make_graph(
            [helper.make_node("Add", ["x", "x"], ["y"], name="twice")], "doubling",
            [helper.make_tensor_value_info("x", onnx_type, ["rows", 4])],
            [helper.make_tensor_value_info("y", onnx_type, ["rows", 4])])
        path = tmp_path / f"{TensorProto.DataType.Name(onnx_type)}.onnx"
        onnx.save(helper.make_model(graph, ir_version=8,
                                    opset_imports=[helper.make_opsetid("", 17)]), path)
        return path

    return make


@pytest.fixture
def overflowing_model(tmp_path):
    """A model that multiplies [rows, 64] by weights of 2^20, beyond FP16's range, and 2^-26."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [64, 64],
                                np.full((64, 64), 2.0 ** 20, np.float32).tobytes(), raw=True)
    scale = helper.make_tensor("s", TensorProto.FLOAT, [], [2.0 ** -26])
    graph = helper.make_graph(
        [helper.make_node("Abs", ["x"], ["a"], name="abs"),
         helper.make_node("MatMul", ["a", "w"], ["p"], name="product"),
         helper.make_node("Mul", ["p", "s"], ["y"], name="scaled")], "overflowing",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 64])], [weight, scale])
    path = tmp_path / "overflowing.onnx"
    onnx.save(helper.make_model(graph, ir_version=8,
                                opset_imports=[helper.make_opsetid("", 17)]), path)
    return path
