"""Tensors and modules of PyTorch, where it is installed (it is no part of requirements.txt)."""
import subprocess
import sys

import numpy as np
import pytest
import vernier
from conftest import stored_case

torch = pytest.importorskip("torch", reason="SKIP: PyTorch is not installed")
pytest.importorskip("onnxscript", reason="SKIP: onnxscript, which exports from PyTorch, is missing")


class Pooled(torch.nn.Module):
    """Embeds tokens, one layer, and the mean over those that are no padding."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.embed = torch.nn.Embedding(50, 32)
        self.norm = torch.nn.LayerNorm(32)
        self.up = torch.nn.Linear(32, 64)
        self.down = torch.nn.Linear(64, 8)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, ids, mask):
        x = self.norm(self.embed(ids))
        x = self.drop(self.down(torch.nn.functional.gelu(self.up(x))))
        weight = mask.unsqueeze(-1).to(x.dtype)
        return (x * weight).sum(1) / weight.sum(1)


IDS = torch.tensor([[3, 17, 4, 9], [8, 2, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
AXES = {"ids": {0: "batch", 1: "seq"}, "mask": {0: "batch", 1: "seq"}}


@pytest.mark.parametrize("mode", ["fp32", "bf16"])
def test_a_module_becomes_an_engine(mode, tmp_path):
    module, onnx = Pooled(), tmp_path / "m.onnx"
    module.train()
    report = vernier.from_torch(module, {"ids": IDS, "mask": MASK}, tmp_path / "m.vn", mode=mode,
                                dynamic_shapes=AXES, output_names=["pooled"], onnx=onnx,
                                shapes={"batch": (1, 8), "seq": (1, 16)})
    assert module.training
    assert report["torch_difference"]["pooled"] < (1e-5 if mode == "fp32" else 0.02)
    session = vernier.Session(tmp_path / "m.vn")
    assert session.engine.inputs[0].ranges == ((1, 8), (1, 16))
    ids, mask = torch.randint(0, 50, (5, 9)), torch.ones(5, 9, dtype=torch.int64)
    with torch.no_grad():
        expected = module.eval()(ids, mask).numpy()
    answer = session.run({"ids": ids, "mask": mask})["pooled"]
    limit = 1e-5 if mode == "fp32" else 0.05
    assert np.abs(answer - expected).max() < limit
    assert vernier.verify(tmp_path / "m.vn", onnx, quick=True).passed


def test_dimensions_of_pytorch_give_the_ranges(tmp_path):
    axes = {0: torch.export.Dim("batch", max=8), 1: torch.export.Dim("seq", min=2, max=16)}
    given = {"ids": axes, "mask": axes}
    for options, seq in (({}, (2, 16)), ({"shapes": {"batch": (1, 8), "seq": (4, 8)}}, (4, 8))):
        vernier.from_torch(Pooled(), {"ids": IDS, "mask": MASK}, tmp_path / "m.vn",
                           dynamic_shapes=given, **options)
        assert vernier.Engine(tmp_path / "m.vn").inputs[0].ranges == ((1, 8), seq)


def test_what_is_no_module_is_an_error(tmp_path):
    with pytest.raises(vernier.Error, match="expected a torch.nn.Module, got a function"):
        vernier.from_torch(lambda x: x, [IDS], tmp_path / "m.vn")

    class Broken(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else x.item() + x

    with pytest.raises(vernier.Error, match="PyTorch could not export"):
        vernier.from_torch(Broken(), [IDS], tmp_path / "m.vn")


def test_an_export_of_another_function_is_refused(tmp_path):
    class Random(torch.nn.Module):
        def forward(self, x):
            return x * (1 if torch.onnx.is_in_onnx_export() or torch.compiler.is_compiling() else 2)

    with pytest.raises(vernier.Error, match="off from the module's") as error:
        vernier.from_torch(Random(), {"x": torch.ones(2, 4)}, tmp_path / "m.vn")
    assert error.value.code == "check_failed"
    assert not (tmp_path / "m.vn").exists()


def test_tensors_are_read_where_they_lie(session):
    inputs = stored_case(0)[0]
    expected = session.run(inputs)["output"]
    tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
    assert np.array_equal(session.run(tensors)["output"], expected)
    strided = {name: torch.from_numpy(np.repeat(array, 2, axis=1))[:, ::2]
               for name, array in inputs.items()}
    assert np.array_equal(session.run(strided)["output"], expected)


def test_a_tensor_of_bfloat16_or_with_a_gradient_is_taken(doubling_model, tmp_path):
    from onnx import TensorProto  # pylint: disable=import-outside-toplevel
    for onnx_type, dtype in ((TensorProto.BFLOAT16, torch.bfloat16), (TensorProto.FLOAT, None)):
        vernier.build(doubling_model(onnx_type), tmp_path / "m.vn")
        x = torch.randn(3, 4, dtype=dtype, requires_grad=dtype is None)
        (answer,) = vernier.Session(tmp_path / "m.vn").run(None, {"x": x})
        bits = answer.view(np.uint16) if dtype else answer
        twice = (x + x).detach()
        assert np.array_equal(bits, twice.view(torch.uint16).numpy() if dtype else twice.numpy())


@pytest.mark.parametrize("order", ["vernier, torch", "torch, vernier"])
def test_vernier_and_torch_share_a_process(order, engine_path):
    program = (f"import {order}; import numpy as np; s = vernier.Session({str(engine_path)!r});"
               "a = s.run([np.ones((2, 8), np.int64)] * 2)['output'];"
               "assert torch.ones(64, 64).matmul(torch.ones(64, 64)).sum() == 64 ** 3;"
               "assert np.array_equal(s.run([np.ones((2, 8), np.int64)] * 2)['output'], a)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
