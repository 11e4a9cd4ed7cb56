"""Arrays in the memory of a GPU: CUDA tensors of PyTorch in and out, without a copy to the host.

Run by `python tests/python/run.py` where PyTorch and a GPU are; skipped elsewhere, with the reason.
"""
import statistics
import time

import numpy as np
import pytest
import vernier
from conftest import MODEL, stored_case

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.cuda.is_available():
    pytest.skip("no NVIDIA GPU is here", allow_module_level=True)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    path = tmp_path_factory.mktemp("cuda") / "model.vn"
    vernier.build(MODEL, path, mode="fp16", device="cuda")
    return vernier.Engine(path)


@pytest.fixture(name="expected", scope="module")
def expected_answers(engine):
    """(inputs on the host, their answers)"""
    inputs = stored_case(0)[0]
    return inputs, vernier.Session(engine).run(inputs)["output"]


def on_gpu(inputs):
    return {name: torch.from_numpy(array).cuda() for name, array in inputs.items()}


def test_inputs_on_the_gpu_give_the_bits_of_inputs_on_the_host(engine, expected):
    inputs, answer = expected
    session = vernier.Session(engine)
    for _ in range(3):  # launched, recorded, replayed
        assert np.array_equal(session.run(on_gpu(inputs))["output"], answer)
    mixed = {**inputs, "input_ids": on_gpu(inputs)["input_ids"]}
    assert np.array_equal(session.run(mixed)["output"], answer)


def test_outputs_are_written_to_the_callers_tensor(engine, expected):
    inputs, answer = expected
    session = vernier.Session(engine)
    out = torch.full(answer.shape, float("nan"), dtype=torch.float32, device="cuda")
    address = out.data_ptr()
    for given in (on_gpu(inputs), inputs):
        out.fill_(float("nan"))
        got = session.run(given, out={"output": out})["output"]
        assert got is out and got.data_ptr() == address
        assert np.array_equal(out.cpu().numpy(), answer)


@pytest.mark.parametrize("own", [False, True])
def test_runs_keep_the_order_of_the_callers_stream(engine, expected, own):
    inputs, answer = expected
    stream = torch.cuda.Stream() if own else torch.cuda.current_stream()
    with torch.cuda.stream(stream):
        session = vernier.Session(engine, stream=stream)
        out = torch.empty(answer.shape, dtype=torch.float32, device="cuda")
        source = on_gpu(inputs)
        large = torch.randn(4096, 4096, device="cuda")
        for _ in range(5):
            given = {name: torch.zeros_like(array) for name, array in source.items()}
            for _ in range(20):
                large = (large @ large).clamp(-1, 1)  # the copies below come much later
            for name, array in source.items():
                given[name].copy_(array)
            session.run(given, out={"output": out})
            doubled = out * 2  # behind the run, in the same stream
            out.zero_()
        assert np.array_equal(doubled.cpu().numpy(), answer * 2)


def test_work_of_another_stream_is_waited_for(engine, expected):
    inputs, answer = expected
    session = vernier.Session(engine)  # has a stream of its own
    source = on_gpu(inputs)
    large = torch.randn(4096, 4096, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        given = {name: torch.zeros_like(array) for name, array in source.items()}
        for _ in range(20):
            large = (large @ large).clamp(-1, 1)
        for name, array in source.items():
            given[name].copy_(array)
        assert np.array_equal(session.run(given)["output"], answer)


def test_what_does_not_fit_is_named(engine, expected):
    inputs, answer = expected
    session = vernier.Session(engine)
    given = on_gpu(inputs)

    def message_of(**changes):
        with pytest.raises(vernier.Error) as caught:
            session.run(changes.get("inputs", given), out=changes.get("out"),
                        check=changes.get("check", False))
        return str(caught.value)

    good = torch.empty(answer.shape, device="cuda")
    for wrong in (good[..., None], good.half(), torch.cat([good, good])):
        assert "output 'output' is f32" in message_of(out={"output": wrong})
    assert "no output 'other'" in message_of(out={"other": good})
    assert "check" in message_of(out={"output": good}, check=True)
    ids = given["input_ids"]
    sparse = torch.stack([ids, ids], dim=-1)[..., 0]
    assert "dense" in message_of(inputs={**given, "input_ids": sparse})
    assert "got i32" in message_of(inputs={**given, "input_ids": ids.int()})
    with pytest.raises(vernier.Error, match="stream"):
        vernier.Session(engine, stream="fast")


def test_a_round_trip_on_the_gpu_takes_less_than_through_the_host(engine, expected, capsys):
    """Printed for a reader; times decide nothing."""
    inputs, answer = expected
    stream = torch.cuda.current_stream()
    session = vernier.Session(engine, stream=stream)
    given, out = on_gpu(inputs), torch.empty(answer.shape, device="cuda")

    def through_the_host():
        arrays = {name: array.cpu().numpy() for name, array in given.items()}
        return torch.from_numpy(session.run(arrays)["output"]).cuda()

    def microseconds(function):
        times = []
        for _ in range(200):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            function()
            torch.cuda.synchronize()
            times.append(1e6 * (time.perf_counter() - begin))
        return statistics.median(times)

    shared = microseconds(lambda: session.run(given, out={"output": out}))
    copied = microseconds(through_the_host)
    with capsys.disabled():
        print(f"\ntorch CUDA in and out: {shared:.0f} us; through the host: {copied:.0f} us "
              f"({torch.cuda.get_device_name()}, medians of 200)")
