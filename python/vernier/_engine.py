"""Engine and Session."""
from __future__ import annotations

import os
import warnings
from typing import Any, Iterable, Mapping, NamedTuple, Sequence, overload

import numpy as np

from vernier import _native
from vernier._arrays import (Array, NamedCapsule, NamedElements, capsules, from_native, is_on_gpu,
                             native_buffers, numpy_name, to_native)
from vernier._error import Error
from vernier._spelling import in_python
from vernier._values import Arrays, Path, count, kind, size_text


class Port(NamedTuple):
    """One input or output of an engine."""

    name: str
    dtype: str  #: NumPy's name, "float32"; "bfloat16", "float8_…", "int4" … are ml_dtypes'
    shape: tuple[int | str, ...]  #: a number, or an expression over named sizes: "batch"
    ranges: tuple[tuple[int, int], ...]  #: minimum and maximum of each size


class Engine:
    """A compiled model, opened from a `.vn` file. Immutable: share it between threads.

    The file is mapped: replace it by renaming another over it, as `build` does. Where others may
    write to it in place, `read_into_memory` makes that harmless; it takes the file's size in memory.

    A pickle or a copy holds the path and the content's hash: it opens the file again, and raises
    Error where that holds another engine by then.
    """

    def __init__(self, path: Path, *, read_into_memory: bool = False) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise Error(f"path: expected the path of an engine file, got {kind(path)}", "input")
        #: Of the file, absolute.
        self.path = os.path.abspath(os.fspath(path))
        self._read_into_memory = read_into_memory
        self._native = _native.Engine(os.fspath(path), read_into_memory)
        self._types = {name: dtype for name, dtype, _ in self._native.inputs()}
        self._output_types = {name: dtype for name, dtype, _ in self._native.outputs()}
        self._output_names = list(self._output_types)

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Name, type, shape and ranges of sizes of what run() takes, in the model's order."""
        return tuple(_port(*row) for row in self._native.inputs())

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The same of what run() returns."""
        return tuple(_port(*row) for row in self._native.outputs())

    @property
    def device(self) -> str:
        """"cpu", or the GPU's chip."""
        return self._native.device()

    @property
    def content_hash(self) -> str:
        """Hash of everything in the file but its certificate, in hex."""
        return self._native.content_hash()

    @property
    def weight_bytes(self) -> int:
        return self._native.weight_bytes()

    @property
    def verdict(self) -> str | None:
        """What the engine's certificate says ("pass", "precision", …); None: it has none."""
        return self._native.verdict()

    def check_weights(self) -> None:
        """Reads all weights and compares their checksums; raises Error where one is wrong."""
        self._native.check_weights()

    def check_unchanged(self) -> None:
        """Raises Error where the mapped file was written to since it was opened; cheap."""
        self._native.check_unchanged()

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_again, (self.path, self._read_into_memory, self.content_hash)

    def __repr__(self) -> str:
        ports = [", ".join(f"{p.name}: {p.dtype}[{', '.join(map(str, p.shape))}]" for p in ports)
                 for ports in (self.inputs, self.outputs)]
        return f"<vernier.Engine ({ports[0]}) -> ({ports[1]})>"


def _open_again(path: str, read_into_memory: bool, content_hash: str) -> Engine:
    engine = Engine(path, read_into_memory=read_into_memory)
    if engine.content_hash != content_hash:
        raise Error(f"'{path}' holds another engine than the one that was copied: hash "
                    f"{engine.content_hash}, expected {content_hash}; open it by its path", "input")
    return engine


class Session:
    """One execution context of an engine, for one thread at a time: run() while another thread is in
    it is an error. Sessions share the engine's weights and the process's threads (docs/serving.md).

    engine      an Engine, or the path of its file.
    threads     CPUs that a run may use at most; 0 is all that the process may. Results do not
                depend on it.
    max_memory  what a run may take, as bytes or "4GB": a shape that needs more is an Error before
                anything is allocated. max_seconds: of each run, asked between its steps.
    widen       integer arrays of fewer bits become the type that the engine takes (int32 ids of a
                tokenizer: int64), where that loses nothing. Without it other types are an Error.
    require_certificate
                only what was verified is run, as by `vernier run --require-certificate`: an Error
                of code "check_failed" says what is outside. Here: the engine, its verdict, this
                machine and program; in run(): sizes, and outputs that hold NaN or infinity.
    accept_own_tolerance, accept_declared
                with require_certificate: also limits that were the user's own, and errors that
                kernels declare above the cap.
    canary      first the inputs that the build recorded are run: an Error of code "check_failed"
                where the engine answers with other bits than it did then, which says what has
                changed since.
    stream      of an engine on a GPU: the CUDA stream that runs are ordered on: an object of PyTorch
                (torch.cuda.current_stream()), CuPy or with `__cuda_stream__`, or its handle.
                Without it the session has a stream of its own, and every run waits for its end.

    A pickle or a copy is a new session of the same engine and options, with a stream of its own.
    """

    def __init__(self, engine: Engine | Path, threads: int = 0, *,
                 max_memory: int | str | None = None, max_seconds: float | None = None,
                 widen: bool = False, require_certificate: bool = False,
                 accept_own_tolerance: bool = False, accept_declared: bool = False,
                 canary: bool = False, stream: Any = None) -> None:
        if not isinstance(engine, (Engine, str, os.PathLike)):
            raise Error(f"engine: expected a vernier.Engine or the path of its file, got "
                        f"{kind(engine)}", "input")
        if (accept_own_tolerance or accept_declared) and not require_certificate:
            raise Error("accept_own_tolerance and accept_declared say which certificates "
                        "require_certificate takes; add it, or leave them out", "input")
        count(threads, "threads", "CPUs")
        self.engine = engine if isinstance(engine, Engine) else Engine(engine)
        self._options = {
            "threads": threads, "max_memory": max_memory, "max_seconds": max_seconds,
            "widen": widen, "require_certificate": require_certificate,
            "accept_own_tolerance": accept_own_tolerance, "accept_declared": accept_declared,
            "canary": canary}
        self._widen, self._certified = widen, require_certificate
        terms = _native.CertificateTerms() if require_certificate else None
        if terms is not None:
            terms.own_tolerance, terms.declared = accept_own_tolerance, accept_declared
        self._on_gpu = self.engine.device != "cpu"
        if stream is not None and not self._on_gpu:
            raise Error("stream: the engine runs on the CPU, which has no streams", "input")
        self._native = _native.Session(self.engine._native, threads, size_text(max_memory),
                                       max_seconds or 0.0, terms, canary, _handle(stream))

    @overload
    def run(self, inputs: Arrays | Sequence[Any], /, *, check: bool = False,
            out: Mapping[str, Array] | None = None) -> dict[str, Array]: ...

    @overload
    def run(self, output_names: Sequence[str] | None, inputs: Arrays, /, *,
            check: bool = False) -> list[Array]: ...

    def run(self, first: Any, second: Arrays | None = None, /, *, check: bool = False,
            out: Mapping[str, Array] | None = None) -> dict[str, Array] | list[Array]:
        """Runs the engine on arrays named as its inputs; returns new arrays by output name.

            run({"input_ids": ids, "attention_mask": mask})     {"logits": array}
            run([ids, mask])                                    the same, in the order of .inputs
            run(["logits"], {"input_ids": ids, …})              [array], as ONNX Runtime does;
                                                                None for the names: all outputs
            session(input_ids=ids, attention_mask=mask)         by keyword

        An array is NumPy's, or anything that NumPy takes or that has `__dlpack__` in the memory of
        the host (a tensor of PyTorch, bfloat16 too), which is not copied. Arrays that are not
        dense, or of the other byte order, are copied first. Types are not converted but by `widen`
        of the session: a float64 array for a float32 input is an Error, as are wrong names and
        shapes. bfloat16 arrays are ml_dtypes'; a uint16 array is taken as the bits of one, and
        where ml_dtypes is not installed, outputs are such bits too. So are the types of 8 bits and
        fewer that NumPy lacks: float8_…, float4_e2m1fn, int4, uint4, int2, uint2.

        out     dense arrays of the right type and shape by output name, which are written and
                returned in place of new ones.

        An engine on a GPU takes arrays in its memory, too (CUDA tensors of PyTorch, CuPy or JAX, by
        DLPack), as inputs and as `out`, without a copy to the host. What their maker enqueued
        before is waited for on the GPU. If `out` has arrays on the GPU, only the outputs named in
        `out` are written and returned, and they are not checked for NaN. They are complete when
        run() returns; with `stream` of the session and all inputs on the GPU, run() returns at
        once, and they are complete in the order of that stream, as PyTorch's own operators are.

        NaN or infinity in an output is a RuntimeWarning that names the node where it begins, with
        `check` an Error of code "check_failed". Float outputs are read once for that (about as
        long as copying them takes); only where one is not finite are the inputs run once more,
        step by step.
        """
        if second is None:
            return self._run(self._named(first), [], out or {}, check)
        names = self._wanted(first)
        if out:
            raise Error("out: takes the form run(inputs, out=…), without a list of output names",
                        "input")
        answers = self._run(self._named(second), names, {}, check)
        return [answers[name] for name in names or self.engine._output_names]

    def run_packed(self, inputs: Mapping[str, Any], cu_seqlens: Sequence[int] | Array | None = None,
                   *, check: bool = False) -> dict[str, Any]:
        """Runs rows of different lengths, which need not be padded (docs/unpadding.md).

            run_packed({"input_ids": [ids_of_a, ids_of_b, …]})       a list of arrays, one per row
            run_packed({"input_ids": ids}, cu_seqlens=[0, 7, 12])    tokens one after the other

        The mask may be left out, unless the model reads it as ids. Outputs with a place for each
        token come back as the inputs were given: a list of arrays, or one array [tokens, …]; other
        outputs as run() returns them. NaN and `check`: as of run(). An Error where the engine
        computes padding: build with unpad="zero-fill" where its outputs have places.
        """
        if not isinstance(inputs, Mapping):
            raise Error(f"inputs: expected arrays by name, got {kind(inputs)}", "input")
        as_lists = cu_seqlens is None
        starts, flat = _packed_rows(inputs) if as_lists else (
            [int(start) for start in np.asarray(cu_seqlens).ravel()], inputs)
        native, types = self.engine._native, self.engine._types
        whole = native.padded(to_native(flat, types, widen=self._widen), starts)
        answers = self._run(from_native(whole), [], {}, check)
        packed = from_native(native.packed(to_native(answers, self.engine._output_types), starts))
        if not as_lists:
            return packed
        return {name: array if array.shape == answers[name].shape
                else [array[a:b] for a, b in zip(starts, starts[1:])]
                for name, array in packed.items()}

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        """run() with its inputs as keywords."""
        return self._run(inputs, [], {}, False)

    def _named(self, inputs: Any) -> Arrays:
        if isinstance(inputs, Mapping):
            return inputs
        ports = list(self.engine._types)
        if not isinstance(inputs, (list, tuple)):
            raise Error(f"inputs: expected arrays by name, or a list of them in the order of the "
                        f"engine's inputs ({', '.join(ports)}), got {kind(inputs)}", "input")
        if len(inputs) != len(ports):
            raise Error(f"inputs: got {len(inputs)} arrays, expected {len(ports)}: "
                        f"{', '.join(ports)}", "input")
        return dict(zip(ports, inputs))

    def _wanted(self, names: Any) -> list[str]:
        known = self.engine._output_names
        if names is None:
            return []
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise Error(f"output names: expected a list of names, got {kind(names)}", "input")
        wanted = list(names)
        for name in wanted:
            if name not in known:
                raise Error(f"the engine has no output {name!r}; it has: {', '.join(known)}",
                            "input")
        return wanted

    def _run(self, inputs: Arrays, names: list[str], out: Mapping[str, Array],
             check: bool) -> dict[str, Array]:
        for name in out:
            if name not in self.engine._output_names:
                raise Error(f"out: the engine has no output {name!r}; it has: "
                            f"{', '.join(self.engine._output_names)}", "input")
        there = {name: array for name, array in inputs.items() if self._on_gpu and is_on_gpu(array)}
        here = to_native({name: array for name, array in inputs.items() if name not in there},
                         self.engine._types, widen=self._widen)
        shared = capsules("input", there, self._native.stream()) if there else []
        if self._on_gpu and any(map(is_on_gpu, out.values())):
            return self._run_to_device(here, shared, out, check)
        rows, non_finite = self._native.run(
            here, native_buffers(out, self.engine._output_types), names, shared)
        non_finite = in_python(non_finite)
        if non_finite and (check or self._certified):
            raise Error(non_finite, "check_failed")
        if non_finite:
            warnings.warn(non_finite, RuntimeWarning, stacklevel=3)
        return from_native(rows) | dict(out)

    def _run_to_device(self, here: list[NamedElements], there: list[NamedCapsule],
                       out: Mapping[str, Any], check: bool) -> dict[str, Any]:
        for name, array in out.items():
            if not is_on_gpu(array):
                raise Error(f"out: output '{name}': expected an array on the GPU, as the others are",
                            "input")
        if check or self._certified:
            raise Error(f"out: {'check' if check else 'require_certificate'} looks for NaN in the "
                        "outputs, which is not done for outputs on the GPU; leave out `out` to get "
                        "NumPy arrays", "input")
        self._native.run_to_device(here, there,
                                   capsules("out: output", out, self._native.stream()))
        return dict(out)

    def __reduce__(self) -> tuple[Any, ...]:
        return _session_again, (self.engine, self._options)

    def __repr__(self) -> str:
        return f"<vernier.Session of {self.engine!r}>"


def _handle(stream: Any) -> int:
    """A CUDA stream's handle; 0: none was given."""
    if stream is None:
        return 0
    protocol = getattr(stream, "__cuda_stream__", None)
    handle = protocol()[1] if callable(protocol) else getattr(
        stream, "cuda_stream", getattr(stream, "ptr", stream))
    if isinstance(handle, bool) or not isinstance(handle, int) or handle < 0:
        raise Error(f"stream: expected a CUDA stream or its handle, got {kind(stream)}", "input")
    return handle or 1  # the default stream has the handle 0, and is named by 1


def _session_again(engine: Engine, options: dict[str, Any]) -> Session:
    return Session(engine, **options)


def _packed_rows(inputs: Mapping[str, Any]) -> tuple[list[int], dict[str, Array]]:
    """Where rows begin, and the arrays of lists of rows one after the other; others as they are."""
    lengths: list[int] | None = None
    flat: dict[str, Array] = {}
    for name, rows in inputs.items():
        if not isinstance(rows, (list, tuple)):
            flat[name] = rows
            continue
        arrays = [np.asarray(row) for row in rows]
        own = [array.shape[0] if array.ndim else -1 for array in arrays]
        if not arrays or -1 in own:
            raise Error(f"input '{name}': expected a list of arrays, one for each row", "input")
        if lengths is not None and own != lengths:
            row = next((i for i, (a, b) in enumerate(zip(own, lengths)) if a != b),
                       min(len(own), len(lengths)))
            raise Error(f"input '{name}': its rows have other lengths than those of the input "
                        f"before, from row {row} on", "input")
        lengths = own
        flat[name] = np.concatenate(arrays)
    if lengths is None:
        raise Error("inputs: expected lists of arrays, one for each row, or cu_seqlens, which says "
                    "where rows begin", "input")
    return [0, *np.cumsum(lengths).tolist()], flat


def _port(name: str, dtype: str, dims: list[tuple[str, int, int]]) -> Port:
    shape = tuple(low if low == high else text for text, low, high in dims)
    return Port(name, numpy_name(dtype), shape, tuple((low, high) for _, low, high in dims))
