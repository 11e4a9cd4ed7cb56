"""Reading arrays of a safetensors file: the few that stand beside a model (docs/python.md "Texts")."""
from __future__ import annotations

import json
import pathlib

import numpy as np

from vernier._arrays import Array
from vernier._error import Error

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
          "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}
_MOST_HEADER = 100 << 20  # the format's own limit


def read_safetensors(path: pathlib.Path) -> dict[str, Array]:
    """Every array by name; BF16 becomes float32. Raises Error for a file that is none."""

    def damaged(why: str) -> Error:
        return Error(f"'{path}' is no safetensors file: {why}", "input")

    try:
        data = path.read_bytes()
    except OSError as error:
        raise Error(f"'{path}' cannot be read: {error.strerror}", "input") from error
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(_MOST_HEADER, len(data) - 8):
        raise damaged(f"its header would be {length} bytes of {len(data)}")
    try:
        header = json.loads(data[8:8 + length])
        rows = {name: (str(row["dtype"]), [int(n) for n in row["shape"]],
                       int(row["data_offsets"][0]), int(row["data_offsets"][1]))
                for name, row in header.items() if name != "__metadata__"}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise damaged(f"its header does not say what it holds ({error})") from error
    body, arrays = data[8 + length:], {}
    for name, (dtype, shape, begin, end) in rows.items():
        if dtype not in _TYPES:
            raise damaged(f"array '{name}' has type {dtype}, expected one of {', '.join(_TYPES)}")
        items = np.dtype(_TYPES[dtype])
        count = int(np.prod(shape, dtype=object)) if shape else 1
        if min(shape, default=0) < 0 or not 0 <= begin <= end <= len(body) or (
                end - begin != count * items.itemsize):
            raise damaged(f"array '{name}' of shape {shape} does not fit its {end - begin} bytes")
        array = np.frombuffer(body, items, count, begin).reshape(shape)
        if dtype == "BF16":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        arrays[name] = array
    return arrays
