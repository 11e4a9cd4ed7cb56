"""Engine and Session: ports, arrays of every kind, errors, threads."""
import copy
import os
import pickle
import shutil
import signal
import threading
import time
import warnings

import numpy as np
import onnx
import pytest
import vernier
from conftest import MODEL, stored_case
from onnx import TensorProto, helper
from vernier import _arrays


def refused(session, inputs):
    """The message of the vernier.Error that these inputs must give, whose code is "input"."""
    with pytest.raises(vernier.Error) as error:
        session.run(inputs)
    assert error.value.code == "input"
    return str(error.value)


def test_ports_have_names_types_shapes_and_ranges(session):
    ids, mask = session.engine.inputs
    assert (ids.name, ids.dtype, mask.name) == ("input_ids", "int64", "attention_mask")
    assert len(ids.shape) == 2 and all(isinstance(size, str) for size in ids.shape)
    assert ids.ranges[0] == (1, 64)
    (output,) = session.engine.outputs
    assert (output.name, output.dtype, output.shape[1]) == ("output", "float32", 1)
    assert session.engine.device == "cpu" and session.engine.weight_bytes > 0
    assert len(session.engine.content_hash) == 32
    assert repr(session.engine).startswith("<vernier.Engine (input_ids: int64[")


@pytest.mark.parametrize("number", range(4))
def test_outputs_are_those_stored_with_the_model(session, number):
    inputs, expected = stored_case(number)
    outputs = session.run(inputs)
    assert outputs.keys() == expected.keys()
    for name, array in outputs.items():
        assert array.dtype == np.float32 and array.flags.writeable
        assert np.all(np.abs(array - expected[name]) <= 1e-5 * (1 + np.abs(expected[name])))


def test_outputs_stay_after_the_next_run(session):
    first = session.run(stored_case(0)[0])["output"]
    kept = first.copy()
    session.run(stored_case(1)[0])
    assert np.array_equal(first, kept)


def test_arrays_that_are_not_dense_are_copied(session):
    inputs = stored_case(1)[0]
    expected = session.run(inputs)["output"]
    strided = {name: np.repeat(array, 2, axis=1)[:, ::2] for name, array in inputs.items()}
    transposed = {name: np.asfortranarray(array) for name, array in inputs.items()}
    swapped = {name: array.astype(">i8") for name, array in inputs.items()}
    for variant in (strided, transposed, swapped):
        assert np.array_equal(session.run(variant)["output"], expected)
    read_only = copy.deepcopy(inputs)
    for array in read_only.values():
        array.flags.writeable = False
    assert np.array_equal(session.run(read_only)["output"], expected)


def test_wrong_inputs_are_errors_that_name_them(session):
    inputs = stored_case(0)[0]
    ids = inputs["input_ids"]
    assert "'ids' does not exist" in refused(session, inputs | {"ids": ids})
    assert "missing" in refused(session, {"input_ids": ids})
    message = refused(session, inputs | {"input_ids": ids.astype(np.float64)})
    assert "input_ids" in message and "got f64" in message
    assert "got shape [16]" in refused(session, inputs | {"input_ids": ids[0]})
    assert "complex64" in refused(session, inputs | {"input_ids": ids.astype(np.complex64)})
    assert "expected int64" in refused(session, inputs | {"input_ids": np.array([["a"]])})
    assert "input_ids" in refused(session, inputs | {"input_ids": ids[:0]})
    assert "input_ids" in refused(session, inputs | {"input_ids": ids + 10**9})


def test_an_error_can_be_sent_to_another_process(session):
    with pytest.raises(vernier.Error) as error:
        session.run({})
    sent = pickle.loads(pickle.dumps(error.value))
    assert (type(sent), sent.code, str(sent)) == (vernier.Error, "input", str(error.value))


@pytest.mark.parametrize("path", [MODEL, "there/is/none.vn"])
def test_what_is_no_engine_is_an_error(path):
    with pytest.raises(vernier.Error) as error:
        vernier.Engine(path)
    assert error.value.code == "input" and str(path) in str(error.value)


def in_two_threads(work):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_session_in_two_threads_is_an_error_and_never_a_wrong_answer(session):
    cases = [stored_case(number)[0] for number in range(2)]
    alone = [session.run(case)["output"] for case in cases]
    same, refused = [], []

    def work(number):
        end = time.monotonic() + 30
        while time.monotonic() < end and not refused:
            try:
                same.append(np.array_equal(session.run(cases[number])["output"], alone[number]))
            except vernier.Error as error:
                refused.append(error)

    in_two_threads(work)
    assert all(same)
    assert refused[0].code == "input"
    assert "is running in another thread" in str(refused[0])
    assert np.array_equal(session.run(cases[0])["output"], alone[0])


def test_sessions_of_one_engine_run_side_by_side(session):
    cases = [stored_case(number)[0] for number in range(2)]
    alone = [session.run(case)["output"] for case in cases]
    same = []

    def work(number):
        own = vernier.Session(session.engine, threads=2)
        for _ in range(20):
            same.append(np.array_equal(own.run(cases[number])["output"], alone[number]))

    in_two_threads(work)
    assert len(same) == 40 and all(same)


def test_a_session_works_in_a_forked_child(session):
    case, _ = stored_case(0)
    before = session.run(case)["output"]
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if np.array_equal(session.run(case)["output"], before) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(session.run(case)["output"], before)


def test_float16_goes_in_and_out(doubling_model, tmp_path):
    vernier.build(doubling_model(TensorProto.FLOAT16), tmp_path / "half.vn")
    engine = vernier.Engine(tmp_path / "half.vn")
    assert engine.inputs[0].dtype == "float16"
    x = np.arange(12, dtype=np.float16).reshape(3, 4) / 3
    y = vernier.Session(engine).run({"x": x})["y"]
    assert y.dtype == np.float16 and np.array_equal(y, x + x)
    with pytest.raises(vernier.Error, match="got u16"):
        vernier.Session(engine).run({"x": x.view(np.uint16)})


def test_bfloat16_goes_in_and_out(doubling_model, tmp_path, monkeypatch):
    vernier.build(doubling_model(TensorProto.BFLOAT16), tmp_path / "brain.vn")
    session = vernier.Session(vernier.Engine(tmp_path / "brain.vn"))
    assert session.engine.inputs[0].dtype == "bfloat16"
    ones, twos = (np.full((2, 4), bits, np.uint16) for bits in (0x3F80, 0x4000))
    ml_dtypes = pytest.importorskip("ml_dtypes")
    y = session.run({"x": ones.view(ml_dtypes.bfloat16)})["y"]
    assert y.dtype == ml_dtypes.bfloat16 and np.array_equal(y.view(np.uint16), twos)
    monkeypatch.setattr(_arrays, "ml_dtypes", None)  # as where it is not installed
    y = session.run({"x": ones})["y"]
    assert y.dtype == np.uint16 and np.array_equal(y, twos)


@pytest.mark.parametrize(("onnx_type", "name", "values"), [
    ("INT4", "int4", [-8, -1, 7]), ("UINT4", "uint4", [0, 9, 15]), ("INT2", "int2", [-2, -1, 1]),
    ("UINT2", "uint2", [0, 2, 3]), ("FLOAT4E2M1", "float4_e2m1fn", [-6, 0.5, 3]),
    ("FLOAT8E4M3FNUZ", "float8_e4m3fnuz", [-240, 0.5, 3]),
    ("FLOAT8E5M2FNUZ", "float8_e5m2fnuz", [-57344, 0.5, 3]),
    ("FLOAT8E8M0", "float8_e8m0fnu", [0.25, 1, 2048])])
def test_small_types_go_in_and_out(onnx_type, name, values, tmp_path, monkeypatch):
    number = TensorProto.DataType.Value(onnx_type)
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"]),
         helper.make_node("Cast", ["x"], ["z"], to=TensorProto.FLOAT),
         helper.make_node("Cast", ["f"], ["w"], to=number)], "small",
        [helper.make_tensor_value_info("x", number, [1, 3]),
         helper.make_tensor_value_info("f", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", number, [3]),
         helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 3]),
         helper.make_tensor_value_info("w", number, [1, 3])],
        [helper.make_tensor("shape", TensorProto.INT64, [1], [3])])
    onnx.save(helper.make_model(graph, ir_version=13,
                                opset_imports=[helper.make_opsetid("", 25)]), tmp_path / "m.onnx")
    vernier.build(tmp_path / "m.onnx", tmp_path / "m.vn")
    session = vernier.Session(vernier.Engine(tmp_path / "m.vn"))
    assert session.engine.inputs[0].dtype == name
    ml_dtypes = pytest.importorskip("ml_dtypes")
    wide = np.array([values], np.float32)
    x = wide.astype(getattr(ml_dtypes, name))
    answer = session.run({"x": x, "f": wide})
    for output in ("y", "w"):
        assert answer[output].dtype == x.dtype
        assert np.array_equal(answer[output].astype(np.float32).ravel(), wide.ravel())
    assert np.array_equal(answer["z"], wide)
    monkeypatch.setattr(_arrays, "ml_dtypes", None)  # as where it is not installed
    bits = np.int8 if onnx_type in ("INT4", "INT2") else np.uint8
    answer = session.run({"x": x.view(bits), "f": wide})
    assert answer["w"].dtype == bits and np.array_equal(answer["z"], wide)


def test_nan_and_infinity_are_a_warning_or_with_check_an_error(doubling_model, tmp_path):
    vernier.build(doubling_model(TensorProto.FLOAT), tmp_path / "model.vn")
    doubling = vernier.Session(vernier.Engine(tmp_path / "model.vn"))
    large = {"x": np.full((2, 4), 3e38, np.float32)}
    says = "output 'y' holds NaN or infinity; step 0 .*'twice'.* is the first to make it of finite"
    with pytest.warns(RuntimeWarning, match=says):
        outputs = doubling.run(large)
    assert np.all(np.isinf(outputs["y"]))
    with pytest.raises(vernier.Error, match=says) as error:
        doubling.run(large, check=True)
    assert error.value.code == "check_failed"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.all(doubling.run({"x": np.ones((2, 4), np.float32)}, check=True)["y"] == 2)


def test_only_what_was_verified_is_run(engine_path, tmp_path):
    path = tmp_path / "certified.vn"
    shutil.copy(engine_path, path)

    def uncertified(make, words):
        with pytest.raises(vernier.Error, match=words) as error:
            make()
        assert error.value.code == "check_failed"

    uncertified(lambda: vernier.Session(vernier.Engine(path), require_certificate=True),
                "has no certificate")
    vernier.verify(path, MODEL, batches=[1, 4], lengths=[4, 16], stamp=True)
    engine = vernier.Engine(path)
    assert engine.verdict == "pass"
    certified = vernier.Session(engine, threads=2, require_certificate=True)
    certified.run(stored_case(0)[0])  # 1 x 16
    uncertified(lambda: certified.run(stored_case(2)[0]),
                r"was verified with batch 1\.\.4, seq 4\.\.16, and these inputs have batch=4, seq=48")
    vernier.verify(path, MODEL, batches=[1], lengths=[4], tolerance="rms=10", stamp=True)
    own = vernier.Engine(path)
    uncertified(lambda: vernier.Session(own, require_certificate=True),
                "under limits of its user's own, tolerance='rms=10'.*accept_own_tolerance=True")
    vernier.Session(own, require_certificate=True, accept_own_tolerance=True)
    with pytest.raises(vernier.Error, match="require_certificate takes") as error:
        vernier.Session(own, accept_declared=True)
    assert error.value.code == "input"


def test_a_report_says_what_outputs_were_held_to_and_why(engine_path):
    report = vernier.verify(engine_path, MODEL, batches=[2], lengths=[8])
    limits = report["outputs"][0]["limits"]
    assert limits["worst"] == 1e-5 and limits["rms"] > 0
    assert not report["own_tolerance"] and not report["accepted_declared"]
    assert report["cells"][0]["sizes"] == {"batch": 2, "seq": 8}
    failed = vernier.verify(engine_path, MODEL, batches=[2], lengths=[8], tolerance="max=1e-12")
    assert failed["own_tolerance"]
    assert failed["cause"]["reason"] and "vernier bisect" in failed["cause"]["command"]


ROWS = [np.arange(5, 5 + length, dtype=np.int64) for length in (5, 1, 11, 3)]


def test_rows_of_different_lengths_have_the_bits_of_padded_ones(session):
    ids, mask = np.zeros((4, 11), np.int64), np.zeros((4, 11), np.int64)
    for row, tokens in enumerate(ROWS):
        ids[row, :len(tokens)], mask[row, :len(tokens)] = tokens, 1
    padded = session.run({"input_ids": ids, "attention_mask": mask})["output"]
    assert np.array_equal(session.run_packed({"input_ids": ROWS})["output"], padded)
    flat = {"input_ids": np.concatenate(ROWS), "attention_mask": np.ones(20, np.int64)}
    starts = np.array([0, 5, 6, 17, 20], np.int32)
    assert np.array_equal(session.run_packed(flat, starts)["output"], padded)


def test_answers_by_token_come_as_the_rows_were_given(tmp_path):
    model = MODEL.parents[1] / "bert_sdpa_dynamo" / "model.onnx"
    vernier.build(model, tmp_path / "filled.vn", unpad="zero-fill")
    session = vernier.Session(tmp_path / "filled.vn", threads=2)
    inputs = {"input_ids": ROWS, "token_type_ids": [np.zeros_like(row) for row in ROWS]}
    answers = session.run_packed(inputs)["output"]
    assert [len(row) for row in answers] == [5, 1, 11, 3]
    alone = session.run_packed({name: rows[2:3] for name, rows in inputs.items()})["output"]
    assert np.array_equal(alone[0], answers[2])
    flat = session.run_packed({name: np.concatenate(rows) for name, rows in inputs.items()},
                              [0, 5, 6, 17, 20])["output"]
    assert np.array_equal(flat, np.concatenate(answers))
    with pytest.raises(vernier.Error, match="unpad='zero-fill'"):
        vernier.build(model, tmp_path / "padded.vn", unpad="off")
        vernier.Session(tmp_path / "padded.vn").run_packed(inputs)
    with pytest.raises(vernier.Error, match="expected 'auto', 'off' or 'zero-fill'"):
        vernier.build(model, tmp_path / "x.vn", unpad="zero")


@pytest.mark.parametrize("inputs, message", [
    ({"input_ids": ROWS, "attention_mask": [np.ones(5, np.int64)] * 4}, "other lengths.*row 1 on"),
    ({"input_ids": [1, 2]}, "expected a list of arrays, one for each row"),
    ({"input_ids": np.zeros(3, np.int64)}, "cu_seqlens"),
    ([ROWS], "expected arrays by name"),
])
def test_rows_that_do_not_fit_are_refused(session, inputs, message):
    with pytest.raises(vernier.Error, match=message):
        session.run_packed(inputs)
