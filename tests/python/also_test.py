"""verify(also="onnxruntime"): the errors that it reports are those of ONNX Runtime's own answers."""
import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
import vernier
from conftest import MODEL, stored_case
from onnx import TensorProto, helper

onnxruntime = pytest.importorskip("onnxruntime")


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def test_the_errors_are_those_of_its_answers(engine_path, session):
    inputs, outputs = stored_case(0)
    report = vernier.verify(engine_path, MODEL, inputs, also="onnxruntime")
    assert report.passed
    also = report["also"]
    assert (also["name"], also["version"]) == ("onnxruntime", onnxruntime.__version__)
    assert (also["cells"], also["answered"], also["refused"]) == (1, 1, "")
    (line,) = also["outputs"]
    exact = outputs["output"]
    other = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    answers = other.run(["output"], inputs)[0].astype(np.float64)
    assert line["name"] == "output"
    assert line["rms_reference"] == pytest.approx(rms(exact), rel=1e-9)
    assert line["other"]["rms"] == pytest.approx(rms(answers - exact), rel=1e-3)
    own = session.run(inputs)["output"].astype(np.float64)
    assert line["vernier"]["rms"] == pytest.approx(rms(own - exact), rel=1e-3)
    assert line["ratio"] == pytest.approx(line["other"]["rms"] / line["vernier"]["rms"])
    nearer = "vernier" if line["ratio"] > 1 else "onnxruntime"
    assert line["nearer"] == nearer and f"{nearer} is nearer" in report.text


def test_sixteen_bits_are_further_away(tmp_path):
    vernier.build(MODEL, tmp_path / "m.vn", mode="fp16")
    report = vernier.verify(tmp_path / "m.vn", MODEL, batches=[1, 2], lengths=[4, 16],
                            also="onnxruntime", report=tmp_path / "page.html")
    also = report["also"]
    assert report.passed and also["answered"] == also["cells"] >= 4
    assert also["outputs"][0]["nearer"] == "onnxruntime" and also["outputs"][0]["ratio"] < 0.1
    assert "Beside onnxruntime" in (tmp_path / "page.html").read_text()


def test_the_program_starts_the_python_that_it_belongs_to(engine_path):
    ran = subprocess.run([sys.executable, "-m", "vernier", "verify", engine_path, "--model", MODEL,
                          "--batches", "1", "--lengths", "4", "--also=onnxruntime", "--json"],
                         capture_output=True, text=True, check=True)
    also = json.loads(ran.stdout)["also"]
    assert also["answered"] == also["cells"] > 0


def test_types_and_names(tmp_path):
    """Integers, 16 bits, a name with a slash, one that NumPy's own writer would not take."""
    graph = helper.make_graph(
        [helper.make_node("ArgMax", ["x"], ["file"], axis=1, keepdims=0),
         helper.make_node("Add", ["x", "x"], ["a/b"]),
         helper.make_node("Greater", ["x", "zero"], ["positive"])], "types",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["rows", 8])],
        [helper.make_tensor_value_info("file", TensorProto.INT64, ["rows"]),
         helper.make_tensor_value_info("a/b", TensorProto.FLOAT16, ["rows", 8]),
         helper.make_tensor_value_info("positive", TensorProto.BOOL, ["rows", 8])],
        [helper.make_tensor("zero", TensorProto.FLOAT16, [], [0.0])])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]),
              tmp_path / "m.onnx")
    vernier.build(tmp_path / "m.onnx", tmp_path / "m.vn")
    report = vernier.verify(tmp_path / "m.vn", tmp_path / "m.onnx", also="onnxruntime")
    assert report.passed, report
    lines = {line["name"]: line for line in report["also"]["outputs"]}
    assert set(lines) == {"file", "a/b", "positive"}
    assert all(line["nearer"] == "equal" and line["ratio"] is None for line in lines.values())


def test_a_model_that_it_does_not_take(doubling_model, tmp_path):
    model = doubling_model(TensorProto.BFLOAT16)
    vernier.build(model, tmp_path / "m.vn")
    report = vernier.verify(tmp_path / "m.vn", model, also="onnxruntime")
    assert report.passed and report["also"]["answered"] == 0
    assert report["also"]["refused"] and "no answer: " in report.text


def test_where_it_is_missing(engine_path, tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S \"$@\"\n")
    bare.chmod(0o755)
    with pytest.raises(vernier.Error, match="has no onnxruntime.*also_python=") as error:
        vernier.verify(engine_path, MODEL, also="onnxruntime", also_python=bare)
    assert error.value.code == "input"
    with pytest.raises(vernier.Error, match="also: got 'tensorrt'"):
        vernier.verify(engine_path, MODEL, also="tensorrt")
