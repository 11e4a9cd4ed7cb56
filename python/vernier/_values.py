"""What several functions of the package take: paths, sizes, shapes, models in memory."""
from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Any, Iterable, Iterator, Mapping, Protocol

from vernier._error import Error

Path = str | os.PathLike[str]
Arrays = Mapping[str, Any]
#: A size: 8, or (1, 8) from the least to the most, or (1, 4, 8) with the best between them.
Range = int | tuple[int, int] | tuple[int, int, int]
#: By the name of a size, or by an input's name a range for each of its sizes.
Shapes = str | Mapping[str, Range | list[Range]]


class Serializable(Protocol):
    """An onnx.ModelProto, as far as it is used here."""

    def SerializeToString(self) -> bytes: ...  # protobuf's name


#: A file, its bytes, or an onnx.ModelProto.
Model = Path | bytes | Serializable


@contextlib.contextmanager
def model_file(model: Model) -> Iterator[str]:
    """The path of a model; one in memory stands in a temporary file meanwhile."""
    if isinstance(model, (str, os.PathLike)):
        yield os.fspath(model)
        return
    data = model if isinstance(model, bytes) else _serialized(model)
    with tempfile.TemporaryDirectory(prefix="vernier-") as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(data)
        yield path


def _serialized(model: Serializable) -> bytes:
    if not hasattr(model, "SerializeToString"):
        raise Error(f"model: expected a path, bytes or an onnx.ModelProto, got {kind(model)}",
                    "input")
    return model.SerializeToString()


def shapes_text(shapes: Shapes | None) -> str:
    """"batch=1..8,seq=4..128", as the library reads it."""
    if shapes is None or isinstance(shapes, str):
        return shapes or ""
    if not isinstance(shapes, Mapping):
        raise Error(f"shapes: expected a text or a dict of ranges, got {kind(shapes)}", "input")
    return ",".join(f"{name}={_sizes_text(name, sizes)}" for name, sizes in shapes.items())


def _sizes_text(name: str, sizes: Range | list[Range]) -> str:
    if isinstance(sizes, list):
        return "x".join(_sizes_text(name, size) for size in sizes)
    numbers = (sizes,) if isinstance(sizes, int) else sizes
    if (not isinstance(numbers, tuple) or not 1 <= len(numbers) <= 3
            or any(isinstance(n, bool) or not isinstance(n, int) for n in numbers)):
        raise Error(f"shapes: '{name}': expected a number, (least, most), (least, best, most), or for "
                    f"an input a list of these, got {sizes!r}", "input")
    return "..".join(map(str, numbers))


def size_text(size: int | str | None) -> str:
    """A number of bytes as the library reads it; "": no limit."""
    return "" if size is None else str(size)


def texts(given: Iterable[str]) -> list[str]:
    """A list of texts; one text alone is a list of one, not of its letters."""
    return [given] if isinstance(given, str) else list(given)


def text_of(path: Path) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Error(f"cannot read '{os.fspath(path)}': {error}", "input") from error


def check_keeps(output: Path, *inputs: object) -> None:
    """Raises Error where writing `output` would destroy one of the files that are read."""
    for path in inputs:
        if not isinstance(path, (str, os.PathLike)):
            continue
        if os.path.exists(output) and os.path.exists(path) and os.path.samefile(output, path):
            raise Error(f"writing '{os.fspath(output)}' would destroy '{os.fspath(path)}', which "
                        "is read; give another name", "input")


def count(value: int, name: str, what: str) -> int:
    """A number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Error(f"{name}: expected a number of {what}, got {kind(value)}", "input")
    if value < 0:
        raise Error(f"{name}: got {value}, expected a number of {what}; 0 is all", "input")
    return value


def kind(value: object) -> str:
    """"a list", "an int": how messages name a value's type."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
