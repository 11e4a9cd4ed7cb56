"""The backend interface of ONNX (onnx.backend.base): prepare, run_model, supports_device.

    import onnx, vernier.backend as backend
    outputs = backend.prepare(onnx.load("model.onnx")).run([ids, mask])

Needs the package onnx. A model is built for the sizes that it fixes, and 1..64 or 1..512 of the
others, or for `shapes` as build() takes them.
"""
from __future__ import annotations

import os
import tempfile
from typing import Any, Sequence

import numpy as np
from onnx import ModelProto, numpy_helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from vernier._arrays import Array
from vernier._build import build
from vernier._engine import Session
from vernier._error import Error


# Inputs of operators that decide ranks or what is computed, by the operator: an engine needs them
# when it is built. Sizes alone may come with the data.
_DECIDING = {
    "AffineGrid": (1,), "BlackmanWindow": (0,), "CenterCropPad": (1,), "Col2Im": (1, 2),
    "CumProd": (1,), "CumSum": (1,), "DFT": (1, 2), "Dropout": (1, 2), "HammingWindow": (0,),
    "HannWindow": (0,), "If": (0,), "Loop": (0, 1), "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4), "Resize": (1, 2, 3), "STFT": (1, 3),
    "SplitToSequence": (1,), "Squeeze": (1,), "Trilu": (1,), "Unsqueeze": (1,), "Upsample": (1,),
}
_MOST_ENGINES = 16  # of one model, for different values of such inputs


def _deciding_inputs(model: ModelProto) -> list[str]:
    """Inputs of the model that operators need when the engine is built."""
    inputs = [value.name for value in model.graph.input]
    used = set()
    for node in model.graph.node:
        places: Sequence[int] = _DECIDING.get(node.op_type, ())
        if node.op_type.startswith("Reduce"):
            places = (1,)
        used |= {node.input[place] for place in places if place < len(node.input)}
    return [name for name in inputs if name in used]


class VernierRep(BackendRep):
    """A prepared model. Where inputs decide ranks or what is computed (the axes of a reduction, an If),
    an engine is built for each of their values when it is first seen."""

    def __init__(self, model: ModelProto, options: dict[str, Any], threads: int) -> None:
        self._model, self._options, self._threads = model, options, threads
        self._inputs = [value.name for value in model.graph.input]
        self._outputs = [value.name for value in model.graph.output]
        self._deciding = _deciding_inputs(model)
        self._sessions: dict[tuple[bytes, ...], Session] = {}
        if not self._deciding:
            self._sessions[()] = self._build(model)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Outputs in the order of the model's, for arrays in the order of its inputs, one array, or
        arrays by name."""
        if not isinstance(inputs, (list, tuple, dict)):
            inputs = [inputs]
        feeds = inputs if isinstance(inputs, dict) else dict(zip(self._inputs, inputs))
        fixed = {name: np.asarray(feeds[name]) for name in self._deciding if name in feeds}
        key = tuple(f"{array.dtype} {array.shape}".encode() + array.tobytes()
                    for array in fixed.values())
        session = self._sessions.get(key)
        if session is None:
            if len(self._sessions) == _MOST_ENGINES:
                del self._sessions[next(iter(self._sessions))]
            session = self._sessions[key] = self._build(_with_constants(self._model, fixed))
        answers = session.run({name: array for name, array in feeds.items() if name not in fixed})
        named = namedtupledict("Outputs", self._outputs)
        return named(*(answers[name] for name in self._outputs))

    def _build(self, model: ModelProto) -> Session:
        with tempfile.TemporaryDirectory(prefix="vernier-") as folder:
            path = os.path.join(folder, "model.vn")
            build(model, path, **self._options)
            return Session(path, self._threads)  # it holds the mapped file, which may be removed


def _with_constants(model: ModelProto, arrays: dict[str, Array]) -> ModelProto:
    """The model with these inputs as initializers."""
    copy = ModelProto()
    copy.CopyFrom(model)
    inputs = [value for value in copy.graph.input if value.name not in arrays]
    del copy.graph.input[:]
    copy.graph.input.extend(inputs)
    copy.graph.initializer.extend(numpy_helper.from_array(array, name)
                                  for name, array in arrays.items())
    return copy


class VernierBackend(Backend):
    """Runs models as engines on the CPU, or on a GPU where the package was built for one."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> VernierRep:
        """Builds `model` (keywords as of vernier.build, threads as of Session). Raises vernier.Error
        where it cannot be built."""
        threads = kwargs.pop("threads", 0)
        place = "cuda" if device.upper().startswith("CUDA") else "cpu"
        return VernierRep(model, {"device": place, **kwargs}, threads)

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU",
                  **kwargs: Any) -> tuple[Any, ...]:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node: Any, inputs: Any, device: str = "CPU",
                 outputs_info: Sequence[Any] | None = None, **kwargs: Any) -> Any:
        raise Error("run_node has no model around the node; use run_model", "input")

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """"CPU", or "CUDA" where a GPU of NVIDIA is."""
        if device.upper() == "CPU":
            return True
        return device.upper().startswith("CUDA") and os.path.exists("/dev/nvidia0")


prepare = VernierBackend.prepare
run_model = VernierBackend.run_model
run_node = VernierBackend.run_node
supports_device = VernierBackend.supports_device
