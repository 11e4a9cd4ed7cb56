"""export_onnx: ONNX Runtime answers the written model as it answers the original; the checker takes it."""
import collections
import warnings

import numpy as np
import onnx
import pytest
import vernier
from conftest import ROOT
from onnx.backend.test.case.node import collect_testcases

onnxruntime = pytest.importorskip("onnxruntime")
# A convolution in f64, which ONNX has and ONNX Runtime does not.
NOT_BY_ONNX_RUNTIME = {"test_convinteger_without_padding", "test_convinteger_with_padding"}
MODELS = sorted((ROOT / "tests" / "models").glob("*/model.onnx"))


def opened(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def assert_alike(got, want, bound):
    """Bits where the type is no float; an rms of the difference beside that of `want`."""
    assert got.shape == want.shape and got.dtype == want.dtype
    if want.dtype.kind not in "fV":
        np.testing.assert_array_equal(got, want)
        return
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isfinite(got), finite)
    rms = np.sqrt(np.square(want[finite]).sum())
    assert np.sqrt(np.square((got - want)[finite]).sum()) <= bound * rms + 1e-9


@pytest.mark.parametrize("model", MODELS, ids=[model.parent.name for model in MODELS])
def test_the_raised_graph_answers_as_the_model(model, tmp_path):
    cases = sorted(model.parent.glob("case_*.npz"))
    assert cases
    raised = tmp_path / "raised.onnx"
    vernier.export_onnx(model, raised)
    onnx.checker.check_model(onnx.load(raised), full_check=True)
    assert len(onnx.load(raised).graph.node) < len(onnx.load(model).graph.node)
    whole, own = opened(model), opened(raised)
    assert [put.name for put in own.get_outputs()] == [put.name for put in whole.get_outputs()]
    for case in cases:
        arrays = np.load(case)
        feeds = {name[3:]: arrays[name] for name in arrays if name.startswith("in.")}
        for got, want in zip(own.run(None, feeds), whole.run(None, feeds)):
            assert_alike(got, want, 1e-5)


def assert_one_of(answers, *several):
    """The answers are those of one: ONNX Runtime's are not always those that ONNX expects."""
    errors = []
    for want in several:
        try:
            for got, expected in zip(answers, want, strict=True):
                assert_alike(got, np.asarray(expected), 2e-3)
            return
        except (AssertionError, ValueError) as error:
            errors.append(error)
    raise errors[-1]


def test_node_tests_of_onnx(tmp_path):
    """All of which ONNX Runtime runs the model, and Vernier reads it."""
    warnings.simplefilter("ignore")
    counts, path, raised = collections.Counter(), tmp_path / "node.onnx", tmp_path / "raised.onnx"
    wrong = []
    for case in collect_testcases():
        inputs = case.data_sets[0][0] if case.model is not None else []
        if case.model is None or not all(isinstance(x, (np.ndarray, np.generic)) for x in inputs):
            continue
        onnx.save(case.model, path)
        try:
            session = opened(path)
            feeds = dict(zip((put.name for put in session.get_inputs()), inputs))
            want = session.run(None, feeds)
        except Exception:  # of many classes: ONNX Runtime does not run it
            counts["not run"] += 1
            continue
        try:
            vernier.export_onnx(path, raised)
        except vernier.Error:
            counts["refused"] += 1
            continue
        try:
            own = opened(raised)
            read = {put.name for put in own.get_inputs()}
            answers = own.run(None, {name: x for name, x in feeds.items() if name in read})
            assert_one_of(answers, case.data_sets[0][1], want)
            counts["alike"] += 1
        except Exception as error:
            if case.name not in NOT_BY_ONNX_RUNTIME:
                wrong.append((case.name, str(error)[:200]))
    print(dict(counts))
    assert not wrong
    assert counts["alike"] >= 950


def test_what_is_not_written_is_said(tmp_path):
    model = MODELS[0]
    with pytest.raises(vernier.Error, match="would destroy"):
        vernier.export_onnx(model, model)
    with pytest.raises(vernier.Error, match="cannot read .*absent.onnx"):
        vernier.export_onnx(tmp_path / "absent.onnx", tmp_path / "raised.onnx")
