"""The forms that arguments and results may take: paths, lists, keywords, buffers, copies, reports."""
import copy
import json
import pathlib
import pickle
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
import vernier
from conftest import MODEL, stored_case
from onnx import TensorProto


def message_of(call, *arguments, **keywords):
    """The message of the vernier.Error of code "input" that this call must raise."""
    with pytest.raises(vernier.Error) as error:
        call(*arguments, **keywords)
    assert error.value.code == "input"
    return str(error.value)


class Shared:
    """An array of another package: DLPack and nothing else."""

    def __init__(self, array, device=None):
        self.array, self.device, self.dtype = array, device, array.dtype

    def __dlpack_device__(self):
        return self.device or self.array.__dlpack_device__()

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)


# ---- sessions

def test_a_session_takes_a_path_or_an_engine(engine_path, session):
    inputs = stored_case(0)[0]
    expected = session.run(inputs)["output"]
    for engine in (engine_path, str(engine_path), vernier.Engine(engine_path)):
        assert np.array_equal(vernier.Session(engine).run(inputs)["output"], expected)
    assert "vernier.Engine or the path" in message_of(vernier.Session, 7)
    assert "path of an engine file" in message_of(vernier.Engine, session.engine)


@pytest.mark.parametrize("threads", [-1, True, 1.5])
def test_threads_are_a_number(session, threads):
    assert message_of(vernier.Session, session.engine, threads).startswith("threads: ")


def test_a_run_takes_arrays_by_name_by_order_by_keyword_and_as_onnxruntime_does(session):
    inputs = stored_case(0)[0]
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    expected = session.run(inputs)["output"]
    assert np.array_equal(session.run([ids, mask])["output"], expected)
    assert np.array_equal(session(input_ids=ids, attention_mask=mask)["output"], expected)
    for names in (None, ["output"], ("output",)):
        (answer,) = session.run(names, inputs)
        assert np.array_equal(answer, expected)
    assert "got 1 arrays, expected 2: input_ids, attention_mask" in message_of(session.run, [ids])
    assert "arrays by name, or a list" in message_of(session.run, ids)
    assert "no output 'logits'; it has: output" in message_of(session.run, ["logits"], inputs)
    assert "expected a list of names, got a str" in message_of(session.run, "output", inputs)


def test_outputs_are_written_to_arrays_of_the_caller(session):
    inputs = stored_case(0)[0]
    expected = session.run(inputs)["output"]
    out = np.full_like(expected, np.nan)
    assert session.run(inputs, out={"output": out})["output"] is out
    assert np.array_equal(out, expected)
    assert "no output 'x'" in message_of(session.run, inputs, out={"x": out})
    for wrong in (out[:0], out.astype(np.float64), out.reshape(-1)):
        text = message_of(session.run, inputs, out={"output": wrong})
        assert "output 'output' is f32[" in text
    frozen = out.copy()
    frozen.flags.writeable = False
    for wrong in (frozen, np.zeros((2, *out.shape), np.float32).T, [0.0]):
        assert message_of(session.run, inputs, out={"output": wrong}).startswith("out: output")
    assert "without a list of output names" in message_of(session.run, None, inputs,
                                                          out={"output": out})


def test_arrays_are_shared_by_dlpack(session, doubling_model, tmp_path):
    inputs = stored_case(0)[0]
    expected = session.run(inputs)["output"]
    shared = {name: Shared(array) for name, array in inputs.items()}
    assert np.array_equal(session.run(shared)["output"], expected)
    for onnx_type, dtype in ((TensorProto.FLOAT16, np.float16), (TensorProto.INT8, np.int8),
                             (TensorProto.UINT64, np.uint64)):
        path = tmp_path / "double.vn"
        vernier.build(doubling_model(onnx_type), path)
        x = np.arange(8, dtype=dtype).reshape(2, 4)
        assert np.array_equal(vernier.Session(path).run({"x": Shared(x)})["y"], x + x)
    on_a_gpu = inputs | {"input_ids": Shared(inputs["input_ids"], device=(2, 0))}
    assert "memory of another device" in message_of(session.run, on_a_gpu)
    wrong = inputs | {"input_ids": Shared(inputs["input_ids"].astype(np.complex64))}
    assert "input_ids" in message_of(session.run, wrong)
    buffer, locked = np.zeros_like(expected), np.zeros_like(expected)
    locked.flags.writeable = False
    answers = session.run(inputs, out={"output": Shared(buffer)})
    assert isinstance(answers["output"], Shared) and np.array_equal(buffer, expected)
    assert "dense tensor that can be written" in message_of(
        lambda: session.run(inputs, out={"output": Shared(locked)}))
    assert "memory of another device" in message_of(
        lambda: session.run(inputs, out={"output": Shared(buffer, device=(2, 0))}))


def test_integers_are_widened_on_request_and_only_without_loss(session):
    inputs = stored_case(0)[0]
    expected = session.run(inputs)["output"]
    narrow = {name: array.astype(np.int32) for name, array in inputs.items()}
    for arrays in (narrow, {name: Shared(array) for name, array in narrow.items()}):
        assert "got int32; the engine takes int64; convert the array, or open the session with "\
            "widen=True" in message_of(session.run, arrays)
    wide = vernier.Session(session.engine, widen=True)
    assert np.array_equal(wide.run(narrow)["output"], expected)
    assert np.array_equal(wide.run({n: Shared(a) for n, a in narrow.items()})["output"], expected)
    for dtype in (np.uint64, np.float32, np.bool_):
        assert "input_ids" in message_of(wide.run, inputs | {
            "input_ids": inputs["input_ids"].astype(dtype)})


def test_engines_and_sessions_are_copied_by_path_and_hash(engine_path, tmp_path):
    path = tmp_path / "copied.vn"
    shutil.copy(engine_path, path)
    session = vernier.Session(path, threads=1, widen=True)
    inputs = stored_case(0)[0]
    expected = session.run(inputs)["output"]
    for again in (copy.deepcopy(session), pickle.loads(pickle.dumps(session))):
        assert again.engine.content_hash == session.engine.content_hash
        assert np.array_equal(again.run(inputs)["output"], expected)
    kept = pickle.dumps(session.engine)
    vernier.build(MODEL, path, mode="bf16")
    assert "holds another engine" in message_of(pickle.loads, kept)


# ---- build

@pytest.mark.parametrize("shapes, ranges", [
    ({"batch": (1, 2), "seq": 16}, ((1, 2), (16, 16))),
    ({"batch": (1, 2, 4), "seq": (4, 32)}, ((1, 4), (4, 32))),
    ({"input_ids": [(1, 2), (4, 8)]}, ((1, 2), (4, 8))),
])
def test_shapes_are_a_dict_of_ranges(shapes, ranges, tmp_path):
    vernier.build(MODEL, tmp_path / "m.vn", shapes=shapes)
    assert vernier.Engine(tmp_path / "m.vn").inputs[0].ranges == ranges


@pytest.mark.parametrize("shapes", [{"batch": "1..2"}, {"batch": ()}, {"batch": (1, 2, 3, 4)},
                                    {"batch": (1.0, 2)}, {"batch": True}, 7])
def test_other_shapes_are_errors(shapes, tmp_path):
    assert message_of(vernier.build, MODEL, tmp_path / "m.vn", shapes=shapes).startswith("shapes: ")


def test_a_model_may_be_bytes_or_a_proto(engine_path, tmp_path):
    expected = vernier.Engine(engine_path).content_hash
    for model in (MODEL.read_bytes(), onnx.load(MODEL)):
        vernier.build(model, tmp_path / "m.vn")
        assert vernier.Engine(tmp_path / "m.vn").content_hash == expected
    assert vernier.verify(engine_path, onnx.load(MODEL), batches=[1], lengths=[4]).passed
    assert "expected a path, bytes or an onnx.ModelProto, got an int" in message_of(
        vernier.build, 7, tmp_path / "m.vn")


def test_progress_is_shown_or_told(tmp_path, capfd):
    stages = []
    vernier.build(MODEL, tmp_path / "m.vn", progress=stages.append)
    assert "import" in stages and len(stages) > 5
    assert capfd.readouterr().err == ""
    vernier.build(MODEL, tmp_path / "m.vn", progress=True)
    assert capfd.readouterr().err.startswith(stages[0])
    stages.clear()
    vernier.verify(tmp_path / "m.vn", MODEL, quick=True, progress=stages.append)
    assert any("step" in stage for stage in stages)


def test_what_progress_raises_ends_the_work(tmp_path):
    def refuse(stage):
        raise ZeroDivisionError(stage)

    with pytest.raises(ZeroDivisionError):
        vernier.build(MODEL, tmp_path / "m.vn", progress=refuse)
    assert not (tmp_path / "m.vn").exists()
    vernier.build(MODEL, tmp_path / "m.vn")
    with pytest.raises(ZeroDivisionError):
        vernier.verify(tmp_path / "m.vn", MODEL, quick=True, progress=refuse)


# ---- reports

def test_reports_are_dicts_with_names_texts_and_html(engine_path, tmp_path):
    built = vernier.build(MODEL, tmp_path / "m.vn")
    assert built.engine == built["engine"] and built.notes == built["notes"]
    assert "steps for" in str(built) and "<pre>" in built._repr_html_()
    report = vernier.verify(engine_path, MODEL, batches=[1, 2], lengths=[4])
    assert report.passed and report.verdict == report["verdict"] == "pass" and report.rules == []
    assert "verdict: pass" in str(report) and "batch" in report.text
    assert ">pass</b>" in report._repr_html_()
    again = pickle.loads(pickle.dumps(report))
    assert (type(again), again, again.text) == (vernier.VerifyReport, report, report.text)
    assert json.loads(json.dumps(report)) == report


def test_a_stored_report_is_judged_by_other_limits(engine_path, tmp_path):
    report = vernier.verify(engine_path, MODEL, batches=[1], lengths=[4])
    assert vernier.judge(report, "rms=1").passed
    stored = tmp_path / "report.json"
    stored.write_text(json.dumps(report))
    found = vernier.judge(stored, "max=1e-30")
    assert found.verdict == "precision" and not found.passed
    assert "tolerance" in message_of(vernier.judge, report, "")


def test_a_verdict_is_localised_bisected_and_reduced(overflowing_model, tmp_path):
    engine = tmp_path / "m.vn"
    vernier.build(overflowing_model, engine, rules=["op:MatMul compute==f16", "op:MatMul store==f16"])
    report = vernier.verify(engine, overflowing_model)
    assert report.verdict == "nan" and report.rules
    assert "product" in report.explanation
    found = vernier.bisect(engine, overflowing_model)
    assert found.outcome == "found" and found.nodes == ["product"]
    steps = vernier.localise(engine, overflowing_model).steps
    assert any(step["non_finite"] for step in steps)
    part = vernier.reduce(engine, overflowing_model, tmp_path / "part")
    assert part.outcome == "reduced" and "product" in part.nodes
    assert (tmp_path / "part" / "command.txt").exists()
    vernier.build(overflowing_model, engine, rules=found.rules)
    assert vernier.verify(vernier.Engine(engine), overflowing_model).passed


def test_verify_compares_with_an_older_engine(engine_path, tmp_path):
    vernier.build(MODEL, tmp_path / "old.vn", mode="bf16")
    report = vernier.verify(engine_path, MODEL, batches=[1], lengths=[4], against=tmp_path / "old.vn")
    assert report["against"]
    assert "two sizes of the sweep" in message_of(vernier.verify, engine_path, MODEL, quick=True,
                                                  thorough=True)
    assert message_of(vernier.verify, engine_path, MODEL, budget=-1).startswith("budget: ")


# ---- types

def mypy(*arguments):
    package = pathlib.Path(vernier.__file__).parent
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-incremental",
                           "--cache-dir=/dev/null", *map(str, arguments)], capture_output=True,
                          text=True, cwd=package.parent, check=False)


def test_the_package_passes_mypy_strict():
    found = mypy("-p", "vernier")
    assert found.returncode == 0, found.stdout + found.stderr


def test_mypy_sees_a_wrong_mode(tmp_path):
    program = tmp_path / "program.py"
    program.write_text('import vernier\nvernier.build("m.onnx", "m.vn", mode="fp17")\n')
    found = mypy(program)
    assert found.returncode == 1 and 'Argument "mode"' in found.stdout, found.stdout
    program.write_text('import vernier\nvernier.build("m.onnx", "m.vn", mode="fp16",\n'
                       '              shapes={"batch": (1, 8)})\n'
                       'session = vernier.Session("m.vn")\nprint(session.run({})["y"].shape)\n')
    found = mypy(program)
    assert found.returncode == 0, found.stdout + found.stderr
