"""Limits of memory and time, Ctrl-C, engines whose files change, names that a terminal acts on."""
import os
import pickle
import shutil
import signal
import threading
import time

import numpy as np
import onnx
import pytest
import vernier
from conftest import MODEL, stored_case
from onnx import TensorProto, helper


def machine_error(work):
    """The message of the vernier.Error of the kind machine that this must raise."""
    with pytest.raises(vernier.Error) as error:
        work()
    assert error.value.code == "machine"
    return str(error.value)


def test_memory_is_refused_before_it_is_taken(engine_path, tmp_path):
    assert "memory limit (max_memory) is 1000 bytes" in machine_error(
        lambda: vernier.build(MODEL, tmp_path / "m.vn", max_memory=1000))
    assert "1.0 MB" in machine_error(lambda: vernier.verify(engine_path, MODEL, max_memory="1MB"))
    session = vernier.Session(vernier.Engine(engine_path), max_memory="20kB")
    assert "a run with batch=" in machine_error(lambda: session.run(stored_case(2)[0]))
    assert not list(tmp_path.iterdir())


def test_time_ends_the_work(engine_path, tmp_path):
    for work in (lambda: vernier.build(MODEL, tmp_path / "m.vn", max_seconds=1e-4),
                 lambda: vernier.verify(engine_path, MODEL, max_seconds=1e-4)):
        assert "time limit of 0.0001 s (max_seconds) was exceeded" in machine_error(work)
    session = vernier.Session(vernier.Engine(engine_path), max_seconds=1e-9)
    assert "while running step" in machine_error(lambda: session.run(stored_case(0)[0]))


def test_what_is_enough_changes_nothing(engine_path, tmp_path):
    vernier.build(MODEL, tmp_path / "m.vn", max_memory="4GB", max_seconds=3000)
    assert (tmp_path / "m.vn").read_bytes() == engine_path.read_bytes()
    inputs, _ = stored_case(0)
    plain = vernier.Session(vernier.Engine(engine_path)).run(inputs)
    limited = vernier.Session(vernier.Engine(engine_path, read_into_memory=True),
                              max_memory=4 * 10**9, max_seconds=3000).run(inputs)
    assert all(np.array_equal(plain[name], limited[name]) for name in plain)


@pytest.mark.parametrize("options", [{"max_memory": "much"}, {"max_memory": -1},
                                     {"max_seconds": -1}])
def test_what_is_no_limit_is_named(engine_path, tmp_path, options):
    for work in (lambda: vernier.build(MODEL, tmp_path / "m.vn", **options),
                 lambda: vernier.verify(engine_path, MODEL, **options),
                 lambda: vernier.Session(vernier.Engine(engine_path), **options)):
        with pytest.raises(vernier.Error, match=next(iter(options))) as error:
            work()
        assert error.value.code == "input"


def test_ctrl_c_ends_work_between_its_steps(engine_path):
    """An alarm whose handler raises stands for Ctrl-C: both are signals that Python handles."""

    class Interrupted(Exception):
        pass

    def interrupt(number, frame):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        start = time.monotonic()
        with pytest.raises(Interrupted):
            vernier.verify(engine_path, MODEL, thorough=True)
        assert time.monotonic() - start < 60  # all of it takes longer than its first step
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    session = vernier.Session(vernier.Engine(engine_path))
    assert session.run(stored_case(0)[0])


def test_other_threads_do_not_ask_for_signals(engine_path):
    reports = []
    thread = threading.Thread(target=lambda: reports.append(
        vernier.verify(engine_path, MODEL, batches=[1], lengths=[4])))
    thread.start()
    thread.join()
    assert reports[0]["verdict"] == "pass"


def test_an_engine_that_is_written_over_is_refused(engine_path, tmp_path):
    path = tmp_path / "m.vn"
    shutil.copy(engine_path, path)
    mapped, read = vernier.Engine(path), vernier.Engine(path, read_into_memory=True)
    inputs, _ = stored_case(0)
    expected = vernier.Session(read).run(inputs)
    path.write_bytes(b"x" * os.path.getsize(path))
    assert "was written to since it was opened" in machine_error(lambda: vernier.Session(mapped))
    with pytest.raises(vernier.Error, match="open it again"):
        mapped.check_unchanged()
    read.check_unchanged()
    again = vernier.Session(read).run(inputs)
    assert all(np.array_equal(expected[name], again[name]) for name in expected)


EVIL = "x\x1b[2J\u202e\x9b"
SHOWN = "x\\x1b[2J\\u202e\\u009b"


def test_names_in_messages_are_escaped(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Abs", [EVIL], ["y"], name=EVIL)], EVIL,
        [helper.make_tensor_value_info(EVIL, TensorProto.FLOAT, ["rows", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 2])])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]),
              tmp_path / "m.onnx")
    vernier.build(tmp_path / "m.onnx", tmp_path / "m.vn")
    engine = vernier.Engine(tmp_path / "m.vn")
    assert engine.inputs[0].name == EVIL  # the name itself is what it is
    session = vernier.Session(engine)
    assert session.run({EVIL: np.ones((1, 2), np.float32)})["y"].shape == (1, 2)
    for inputs in ({}, {EVIL: np.ones((1, 2), np.float64)}, {EVIL: np.array(["a"])}):
        with pytest.raises(vernier.Error) as error:
            session.run(inputs)
        assert SHOWN in str(error.value) and "\x1b" not in str(error.value)
        sent = pickle.loads(pickle.dumps(error.value))
        assert str(sent) == str(error.value)
    with pytest.raises(vernier.Error) as error:
        vernier.Engine(tmp_path / EVIL)
    assert SHOWN in str(error.value) and "\x9b" not in str(error.value)
