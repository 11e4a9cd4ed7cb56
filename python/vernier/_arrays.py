"""Arrays between NumPy and the library: types by name, elements as unsigned integers.

NumPy has no bfloat16 and float8. With the package ml_dtypes they are its types; without it such
arrays are given and returned as their bits, uint16 and uint8.
"""
from __future__ import annotations

import importlib
from typing import Any, Mapping

import numpy as np
import numpy.typing as npt

from vernier import _native
from vernier._error import Error

ml_dtypes: Any = None
try:
    ml_dtypes = importlib.import_module("ml_dtypes")
except ImportError:  # optional: see above
    pass

Array = npt.NDArray[Any]
NamedElements = tuple[str, str, Array]

# NumPy's name of a type -> Vernier's.
_TYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e8m0fnu": "f8e8m0", "float4_e2m1fn": "f4e2m1",
    "int4": "i4", "uint4": "u4", "int2": "i2", "uint2": "u2",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool",
}
_NUMPY_NAMES = {ours: numpy for numpy, ours in _TYPES.items()}
# Types that NumPy lacks: arrays are ml_dtypes', or hold the bare bits, and those bits' type. An
# element of 4 or 2 bits takes a byte, of which the lowest bits count.
_BITS = {
    "bf16": "uint16", "f8e4m3": "uint8", "f8e5m2": "uint8", "f8e4m3fnuz": "uint8",
    "f8e5m2fnuz": "uint8", "f8e8m0": "uint8", "f4e2m1": "uint8",
    "i4": "int8", "u4": "uint8", "i2": "int8", "u2": "uint8",
}
_HOST, _CUDA = 1, 2  # DLPack's numbers of the CPU's memory and of an NVIDIA GPU's
NamedCapsule = tuple[str, Any]


def numpy_name(dtype: str) -> str:
    """NumPy's name of one of Vernier's types: "f16" -> "float16"."""
    return _NUMPY_NAMES[dtype]


def to_native(arrays: Mapping[str, Any], expected: Mapping[str, str], *,
              widen: bool = False) -> list[NamedElements]:
    """Dense arrays in the machine's byte order; only those that are not so already are copied.

    `expected` holds Vernier's types by name: where NumPy lacks one, integers of its size are its
    bits. With `widen` integers of fewer bits become an expected integer type.
    """
    return [_one(name, given, expected.get(name), widen) for name, given in arrays.items()]


def _one(name: str, given: Any, expected: str | None, widen: bool) -> NamedElements:
    if hasattr(given, "__dlpack__") and not isinstance(given, np.ndarray):
        dtype, elements = _shared(name, given)
        if not expected or dtype == expected or dtype in _BITS:
            return name, dtype, elements
        given = elements.view(_NUMPY_NAMES[dtype])
    array = np.asarray(given, order="C")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if expected and _widens(array.dtype, expected):
        if not widen:
            raise Error(f"input '{name}': got {array.dtype}; the engine takes "
                        f"{numpy_name(expected)}; convert the array, or open the session with "
                        "widen=True", "input")
        array = array.astype(numpy_name(expected))
    dtype = _type_of(f"input '{name}'", array, expected)
    return name, dtype, array.view(f"u{array.dtype.itemsize}")


def _shared(name: str, given: Any) -> tuple[str, Array]:
    """Vernier's type and the elements of an array of another package, by DLPack."""
    device, _ = given.__dlpack_device__()
    if int(device) != _HOST:
        raise Error(f"input '{name}': the array is in the memory of another device (DLPack device "
                    f"{int(device)}); expected one of the host (.cpu() of a tensor of PyTorch), or "
                    "of the GPU that the engine was built for (build with device=\"cuda\")",
                    "input")
    detached = given.detach() if getattr(given, "requires_grad", False) else given
    try:
        dtype, elements = _native.from_dlpack(detached)
    except TypeError as error:
        raise Error(f"input '{name}': cannot read {type(given).__name__} by DLPack: {error}",
                    "input") from error
    if dtype not in _NUMPY_NAMES:
        raise Error(f"input '{name}': got an array of {getattr(given, 'dtype', 'a type')}, which no "
                    "engine takes", "input")
    return dtype, elements


def is_on_gpu(array: Any) -> bool:
    """Does the array lie in the memory of an NVIDIA GPU (a CUDA tensor of PyTorch, CuPy, JAX)?"""
    return hasattr(array, "__dlpack_device__") and int(array.__dlpack_device__()[0]) == _CUDA


def capsules(what: str, arrays: Mapping[str, Any], stream: int) -> list[NamedCapsule]:
    """Arrays on the GPU as DLPack's capsules. What was enqueued for them before is done before what
    `stream` gets next: DLPack's protocol."""
    shared = []
    for name, given in arrays.items():
        detached = given.detach() if getattr(given, "requires_grad", False) else given
        try:
            shared.append((name, detached.__dlpack__(stream=stream)))
        except (BufferError, RuntimeError, TypeError) as error:
            raise Error(f"{what} '{name}': cannot share {type(given).__name__} by DLPack: {error}",
                        "input") from error
    return shared


def _widens(dtype: np.dtype[Any], expected: str) -> bool:
    wanted = np.dtype(numpy_name(expected)) if expected not in _BITS else None
    return (wanted is not None and dtype != wanted and dtype.kind in "iu" and wanted.kind in "iu"
            and np.can_cast(dtype, wanted, "safe"))


def _type_of(what: str, array: Array, expected: str | None) -> str:
    dtype = _TYPES.get(array.dtype.name)
    if dtype is None:
        raise Error(f"{what}: got an array of {array.dtype}, which no engine takes; expected "
                    f"{numpy_name(expected) if expected else 'a number'}", "input")
    if expected and _BITS.get(expected) == array.dtype.name:
        return expected
    return dtype


def native_buffers(out: Mapping[str, Any], expected: Mapping[str, str]) -> list[NamedElements]:
    """Arrays that outputs are written to: NumPy's, or tensors of the host by DLPack; dense,
    writable, in the machine's byte order."""
    buffers = []
    for name, array in out.items():
        if hasattr(array, "__dlpack__") and not isinstance(array, np.ndarray):
            buffers.append((name, *_shared_buffer(name, array)))
            continue
        if not isinstance(array, np.ndarray):
            raise Error(f"out: output '{name}': expected a NumPy array or a tensor, got "
                        f"{type(array).__name__}", "input")
        if not (array.flags.c_contiguous and array.flags.writeable and array.dtype.isnative):
            raise Error(f"out: output '{name}': expected a dense, writable array in the machine's "
                        "byte order", "input")
        dtype = _type_of(f"out: output '{name}'", array, expected.get(name))
        buffers.append((name, dtype, array.view(f"u{array.dtype.itemsize}")))
    return buffers


def _shared_buffer(name: str, given: Any) -> tuple[str, Array]:
    """Vernier's type and the elements, which can be written, of a tensor of the host."""
    device = int(given.__dlpack_device__()[0])
    if device != _HOST:
        raise Error(f"out: output '{name}': the array is in the memory of another device (DLPack "
                    f"device {device}); the engine runs on the CPU", "input")
    try:
        return _native.buffer_from_dlpack(given)
    except (BufferError, RuntimeError, TypeError) as error:
        raise Error(f"out: output '{name}': expected a dense tensor that can be written and needs "
                    f"no gradient, got {type(given).__name__}", "input") from error


def from_native(arrays: list[NamedElements]) -> dict[str, Array]:
    """Arrays by name, of NumPy's or ml_dtypes' types; without ml_dtypes, bits."""
    result = {}
    for name, dtype, elements in arrays:
        if dtype not in _BITS:
            result[name] = elements.view(numpy_name(dtype))
        elif ml_dtypes is not None:
            result[name] = elements.view(getattr(ml_dtypes, numpy_name(dtype)))
        else:
            result[name] = elements.view(_BITS[dtype])
    return result
