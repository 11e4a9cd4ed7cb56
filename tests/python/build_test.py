"""build, verify and inspect; the example of README.md."""
import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import vernier
from conftest import MODEL, ROOT, stored_case


def test_build_reports_what_it_made(tmp_path):
    report = vernier.build(MODEL, tmp_path / "m.vn", shapes="batch=1..4,seq=4..64")
    assert report["engine"] == str(tmp_path / "m.vn")
    assert report["onnx_nodes"] > report["steps"] > 0 and report["weight_bytes"] > 0
    assert vernier.Engine(tmp_path / "m.vn").inputs[0].ranges == ((1, 4), (4, 64))


def test_two_builds_give_the_same_bytes(engine_path, tmp_path):
    vernier.build(MODEL, tmp_path / "again.vn")
    assert (tmp_path / "again.vn").read_bytes() == engine_path.read_bytes()


def test_a_policy_comes_back_and_goes_in(tmp_path):
    rules = ["op:LayerNorm compute=f32", "role:head compute=f32"]
    first = vernier.build(MODEL, tmp_path / "a.vn", mode="bf16", rules=rules)
    assert first["policy"]["mode"] == "bf16" and len(first["policy"]["rules"]) == 2
    (tmp_path / "policy.json").write_text(json.dumps(first["policy"]))
    vernier.build(MODEL, tmp_path / "b.vn", policy=first["policy"])
    vernier.build(MODEL, tmp_path / "c.vn", policy=tmp_path / "policy.json")
    steps = [vernier.inspect(tmp_path / name, "plan")["steps"] for name in ("a.vn", "b.vn", "c.vn")]
    assert steps[0] == steps[1] == steps[2]
    assert any("bf16" in json.dumps(step) for step in steps[0])


def test_values_that_leave_fp16s_range_stay_in_f32(overflowing_model, tmp_path):
    report = vernier.build(overflowing_model, tmp_path / "m.vn", mode="fp16")
    assert any(note.startswith("range audit") for note in report["notes"]), report["notes"]
    y = vernier.Session(vernier.Engine(tmp_path / "m.vn")).run({"x": np.ones((1, 64), np.float32)})
    assert np.all(y["y"] == 1)


@pytest.mark.parametrize("options, message", [
    ({"rules": "op:NoSuchThing compute=f32"}, "NoSuchThing"),
    ({"mode": "fp15"}, "fp15"),
    ({"device": "abacus"}, "abacus"),
    ({"shapes": "nonsense"}, "nonsense"),
    ({"outputs": ["no_such_value"]}, "no_such_value"),
    ({"fuse_off": "no_such_pass"}, "no_such_pass"),
    ({"layer_precisions": "NoSuch_*:fp16"}, "NoSuch_*"),
    ({"policy": {"vernier_policy": 1, "mode": "fp15"}}, "policy"),
    ({"policy": "no/such/policy.json"}, "cannot read 'no/such/policy.json'"),
])
def test_wrong_options_are_errors(options, message, tmp_path):
    with pytest.raises(vernier.Error) as error:
        vernier.build(MODEL, tmp_path / "m.vn", **options)
    assert error.value.code == "input" and message in str(error.value)
    assert not (tmp_path / "m.vn").exists()


def test_a_model_that_is_not_there_is_an_error_and_none_is_destroyed(tmp_path):
    with pytest.raises(vernier.Error, match="none.onnx") as error:
        vernier.build("none.onnx", tmp_path / "m.vn")
    assert error.value.code == "input"
    model = shutil.copy(MODEL, tmp_path / "model.onnx")
    with pytest.raises(vernier.Error, match="would destroy"):
        vernier.build(model, model)
    assert pathlib.Path(model).read_bytes() == MODEL.read_bytes()


def test_a_folder_that_cannot_be_written_is_the_machines_fault(tmp_path):
    with pytest.raises(vernier.Error) as error:
        vernier.build(MODEL, tmp_path / "no" / "folder" / "m.vn")
    assert error.value.code in ("input", "machine")
    assert "no/folder" in str(error.value)


def test_verify_returns_the_report(engine_path):
    report = vernier.verify(engine_path, MODEL, batches=[1, 2], lengths=[4])
    assert report["verdict"] == "pass" and report["outputs"][0]["name"] == "output"
    assert {(cell["batch"], cell["length"]) for cell in report["cells"]} == {(1, 4), (2, 4)}


def test_verify_takes_arrays_and_expected_outputs(engine_path, tmp_path):
    (inputs, expect), page = stored_case(1), tmp_path / "report.html"
    report = vernier.verify(engine_path, MODEL, inputs, expect=expect, report=page)
    assert report["verdict"] == "pass" and "<html" in page.read_text()
    wrong = {name: array + 1 for name, array in expect.items()}
    assert vernier.verify(engine_path, MODEL, [inputs], expect=wrong)["verdict"] == "reference"
    with pytest.raises(vernier.Error, match="add inputs"):
        vernier.verify(engine_path, MODEL, expect=expect)


def test_verify_measures_the_task(engine_path):
    inputs, expect = stored_case(1)
    scores = expect["output"].reshape(len(inputs["input_ids"]))
    ranks = np.argsort(np.argsort(scores)).astype(np.float64)
    report = vernier.verify(engine_path, MODEL, inputs, metric="spearman", labels={"labels": ranks},
                            tolerance="metric=0.001")
    assert report["verdict"] == "pass"
    assert report["task"]["reference"] == pytest.approx(1) and report["task"]["limit"] == 0.001
    with pytest.raises(vernier.Error, match=rf"{len(ranks) + 1} labels, expected {len(ranks)}"):
        vernier.verify(engine_path, MODEL, inputs, metric="spearman",
                       labels={"labels": np.zeros(len(ranks) + 1)})
    with pytest.raises(vernier.Error, match="belong to a metric"):
        vernier.verify(engine_path, MODEL, inputs, labels={"labels": ranks})
    with pytest.raises(vernier.Error, match="metric"):
        vernier.verify(engine_path, MODEL, inputs, metric="f1", labels={"labels": ranks})


def test_a_verdict_is_a_result_and_is_stamped(tmp_path):
    engine = tmp_path / "m.vn"
    vernier.build(MODEL, engine)
    assert vernier.Engine(engine).verdict is None
    report = vernier.verify(engine, MODEL, batches=[1], lengths=[4], tolerance="max=1e-30",
                            stamp=True)
    assert report["verdict"] != "pass"
    assert vernier.Engine(engine).verdict == report["verdict"]
    vernier.Engine(engine).check_weights()


def test_every_view_is_a_dict(engine_path):
    for view in ("summary", "graph", "raised", "raised-graph"):
        assert vernier.inspect(MODEL, view)
    for view in ("summary", "plan", "memory", "ledger"):
        assert vernier.inspect(engine_path, view)
    summary = vernier.inspect(engine_path)
    assert summary.text == str(summary) and not summary.text.startswith("{"), "for a person"
    rows = vernier.inspect(engine_path, "ledger")["rows"]
    assert {"node", "op", "asked", "got", "kernel", "why"} <= rows[0].keys()
    one = vernier.inspect(engine_path, "ledger", node=rows[0]["node"])["rows"]
    assert 0 < len(one) < len(rows)
    assert vernier.inspect(engine_path, "timing", shapes="batch=1,seq=4", threads=1)["steps"]
    for path, view in ((MODEL, "ledger"), (engine_path, "raised")):
        with pytest.raises(vernier.Error, match=f"has no view '{view}'; it has summary, "):
            vernier.inspect(path, view)


def test_other_threads_run_during_a_build(tmp_path):
    """The switch interval is so long that the counter stands still unless the lock is released."""
    turns, done = 0, threading.Event()

    def count():
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0)

    before = sys.getswitchinterval()
    thread = threading.Thread(target=count)
    thread.start()
    try:
        sys.setswitchinterval(100)
        start = turns
        vernier.build(MODEL, tmp_path / "m.vn")
        assert turns > start
    finally:
        sys.setswitchinterval(before)
        done.set()
        thread.join()


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = readme.split("```python\n")[1].split("```")[0]
    shutil.copy(MODEL, tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "README.md", "exec"), {})  # pylint: disable=exec-used
    assert "pass" in printed.getvalue() and os.path.exists("model.vn")


def test_the_package_is_typed():
    package = pathlib.Path(vernier.__file__).parent
    assert (package / "py.typed").exists()
    native = (package / "_native.pyi").read_text()
    for name in dir(vernier._native):
        assert name.startswith("__") or name in native, f"_native.pyi lacks {name}"
    names = "print(sorted(m for m in __import__('sys').modules if m.split('.')[0] == 'onnx'))"
    done = subprocess.run([sys.executable, "-c", "import vernier; " + names], check=True,
                          capture_output=True, text=True)
    assert done.stdout.strip() == "[]"  # needs NumPy and nothing else


def test_scales_of_data_make_int8_more_exact(tmp_path):
    inputs, _ = stored_case(2)
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "0.npz", **inputs)
    report = vernier.calibrate(MODEL, tmp_path / "data", tmp_path / "scales.json")
    assert report["batches"] == 1 and report["files"] == ["0.npz"] and report["sites"]
    assert all(site["error"] <= site["plain_error"] for site in report["sites"])
    built = vernier.build(MODEL, tmp_path / "m.vn", mode="int8", scales=tmp_path / "scales.json")
    assert not any(note.startswith("warning: scales") for note in built["notes"])
    fixed = vernier.build(MODEL, tmp_path / "fixed.vn", mode="int8",
                          scales=tmp_path / "scales.json", static_scales=True)
    assert not any(note.startswith("warning: scales") for note in fixed["notes"])
    steps = {name: [step for step in vernier.inspect(tmp_path / f"{name}.vn", "plan")["steps"]
                    if step["op"] == "QuantizeRows"] for name in ("m", "fixed")}
    assert steps["fixed"] and all(len(step["outputs"]) == 1 for step in steps["fixed"])
    assert all(len(step["outputs"]) == 3 for step in steps["m"])
    with pytest.raises(vernier.Error, match="static_scales=True takes .*add scales='FILE'"):
        vernier.build(MODEL, tmp_path / "none.vn", mode="int8", static_scales=True)
    wide = vernier.build(MODEL, tmp_path / "wide.vn", scales=tmp_path / "scales.json")
    assert any("change nothing" in note for note in wide["notes"])
    cache = tmp_path / "m.cache"
    tensors = ["other", *(site["x"] for site in report["sites"] if site["x"])]
    for _ in range(2):  # what has no name in the scales file has one in the model
        cache.write_text("TRT-8601-EntropyCalibration2\n" +
                         "".join(f"{tensor}: 3d800000\n" for tensor in tensors))
        imported = vernier.import_cache(MODEL, cache, tmp_path / "imported.json")
        tensors += [operand["x"] for operand in imported["missing"]]
    assert len(imported["found"]) == len(report["sites"]) and imported["missing"] == []
    assert imported["unknown"] == ["other"] and imported["found"][0]["limit"] == 127 / 16
    vernier.build(MODEL, tmp_path / "imported.vn", mode="int8",
                  scales=tmp_path / "imported.json", static_scales=True)
    with pytest.raises(vernier.Error, match="holds no .npz file") as error:
        vernier.calibrate(MODEL, [tmp_path], tmp_path / "other.json")
    assert error.value.code == "input"
    with pytest.raises(vernier.Error, match="method: got 'median'"):
        vernier.calibrate(MODEL, tmp_path / "data", tmp_path / "other.json", method="median")


def test_weights_alone_are_quantized(tmp_path):
    bf16 = vernier.build(MODEL, tmp_path / "bf16.vn", mode="bf16")
    for mode in ("w8", "w4"):
        built = vernier.build(MODEL, tmp_path / "m.vn", mode=mode)
        assert built["policy"]["mode"] == mode and built["weight_bytes"] < bf16["weight_bytes"]
        assert any("of their operations" in note for note in built["notes"])


def test_int8_is_compared_with_16_bits_when_asked(tmp_path):
    plain = vernier.build(MODEL, tmp_path / "m.vn", mode="int8")
    assert plain["comparison"] is None
    forced = vernier.build(MODEL, tmp_path / "forced.vn", mode="int8", force=True)
    assert forced["comparison"]["kept"] == "int8" and forced["comparison"]["times"]
    assert (tmp_path / "forced.vn").read_bytes() == (tmp_path / "m.vn").read_bytes()
    faster = vernier.build(MODEL, tmp_path / "faster.vn", mode="int8", compare=True)
    kept = faster["comparison"]["kept"]
    assert kept in ("int8", "bf16") and faster["policy"]["mode"] == kept
    assert not any("--" in note for note in faster["notes"])


def test_a_tight_tolerance_keeps_products_in_16_bits(tmp_path):
    tight = vernier.build(MODEL, tmp_path / "m.vn", mode="int8", int8_error=0.001)
    assert any("kept in bf16" in note for note in tight["notes"])
    with pytest.raises(vernier.Error, match="int8_error"):
        vernier.build(MODEL, tmp_path / "m.vn", mode="int8", int8_error=0)
