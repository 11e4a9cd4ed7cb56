"""Arrays between NumPy and the library: types by name, elements as unsigned integers.

NumPy has no bfloat16 and float8. With the package ml_dtypes they are its types; without it such
arrays are given and returned as their bits, uint16 and uint8.
"""
from __future__ import annotations

from typing import Any, Mapping

import numpy as np

from vernier._error import Error

try:
    import ml_dtypes
except ImportError:  # optional: see above
    ml_dtypes = None

# NumPy's name of a type -> Vernier's.
_TYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool",
}
_NUMPY_NAMES = {ours: numpy for numpy, ours in _TYPES.items()}
# Types that arrays may hold as bare bits, and those bits' type.
_BITS = {"bf16": "uint16", "f8e4m3": "uint8", "f8e5m2": "uint8"}

NamedElements = tuple[str, str, np.ndarray]


def numpy_name(dtype: str) -> str:
    """NumPy's name of one of Vernier's types: "f16" -> "float16"."""
    return _NUMPY_NAMES[dtype]


def to_native(arrays: Mapping[str, Any], expected: Mapping[str, str]) -> list[NamedElements]:
    """Dense arrays in the machine's byte order; only those that are not so already are copied.

    `expected` holds Vernier's types by name: where one is bfloat16 or float8, unsigned integers
    of its size are its bits.
    """
    native = []
    for name, given in arrays.items():
        array = np.asarray(given, order="C")
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        dtype = _TYPES.get(array.dtype.name)
        if dtype is None:
            raise Error(f"input '{name}': got an array of {array.dtype}, which no engine takes; "
                        f"expected {numpy_name(expected[name]) if name in expected else 'a number'}",
                        "input")
        if _BITS.get(expected.get(name, "")) == array.dtype.name:
            dtype = expected[name]
        native.append((name, dtype, array.view(f"u{array.dtype.itemsize}")))
    return native


def from_native(arrays: list[NamedElements]) -> dict[str, np.ndarray]:
    """Arrays by name, of NumPy's or ml_dtypes' types; without ml_dtypes, bits."""
    result = {}
    for name, dtype, elements in arrays:
        if dtype not in _BITS:
            result[name] = elements.view(numpy_name(dtype))
        elif ml_dtypes is not None:
            result[name] = elements.view(getattr(ml_dtypes, numpy_name(dtype)))
        else:
            result[name] = elements
    return result
