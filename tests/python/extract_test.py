"""extract: ONNX Runtime answers a part as it answers the whole, and the checker takes it."""
import numpy as np
import onnx
import pytest
import vernier
from conftest import MODEL, ROOT, stored_case

onnxruntime = pytest.importorskip("onnxruntime")
DEMO = ROOT / "tests" / "models" / "demo_reranker" / "model.onnx"


def answers(path, names, feeds):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, feeds)))


def with_outputs(model, names, path):
    """The whole model with these values as outputs too."""
    whole = onnx.load(model)
    known = {output.name for output in whole.graph.output}
    for name in names:
        if name not in known:
            whole.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    onnx.save(whole, path)
    return path


def adds(model):
    """The results of Add nodes with a residual: no weight among their inputs."""
    graph = onnx.load(model).graph
    weights = {weight.name for weight in graph.initializer}
    return [node.output[0] for node in graph.node
            if node.op_type == "Add" and not weights & set(node.input)]


@pytest.mark.parametrize("model", [MODEL, DEMO], ids=["bge_reranker_ts17", "demo_reranker"])
def test_a_part_answers_as_the_whole(model, tmp_path):
    cases = np.load(model.parent / "case_0.npz")
    feeds = {name[3:]: cases[name] for name in cases if name.startswith("in.")}
    residuals = adds(model)
    first, last = residuals[1], residuals[-1]
    part = tmp_path / "part.onnx"
    made = vernier.extract(model, part, begin=first, end=[last])
    assert made.imports and made.part == str(part) and 0 < made["onnx_nodes"] < made["model_nodes"]
    onnx.checker.check_model(onnx.load(part), full_check=True)
    whole = answers(with_outputs(model, [first, last], tmp_path / "whole.onnx"), [first, last], feeds)
    inputs = {port["name"]: feeds[port["name"]] for port in made["inputs"] if port["name"] in feeds}
    got = answers(part, [last], inputs | {first: whole[first]})[last]
    assert np.abs(got - whole[last]).max() <= 1e-5 * np.abs(whole[last]).max()
    vernier.build(part, tmp_path / "part.vn")
    report = vernier.verify(tmp_path / "part.vn", part, inputs | {first: whole[first]},
                            expect={last: whole[last].astype(np.float64)})
    assert report.passed, report


def test_names_of_nodes_and_errors_in_pythons_words(tmp_path):
    made = vernier.extract(MODEL, tmp_path / "part.onnx", end="/m/classifier/dense/Gemm")
    assert [port["name"] for port in made["inputs"]] == ["input_ids", "attention_mask"]
    assert "wrote " in str(made)
    case = stored_case(0)[0]
    name = made["outputs"][0]["name"]
    assert np.isfinite(answers(tmp_path / "part.onnx", [name], case)[name]).all()
    with pytest.raises(vernier.Error, match="add begin= or end="):
        vernier.extract(MODEL, tmp_path / "part.onnx")
    with pytest.raises(vernier.Error, match="end=.*did you mean|end=.*nearest") as error:
        vernier.extract(MODEL, tmp_path / "part.onnx", end="/m/classifier/dense/Gem")
    assert error.value.code == "input" and "/m/classifier/dense/Gemm" in str(error.value)
