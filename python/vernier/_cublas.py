"""Loads cuBLAS of NVIDIA's pip package, which the wheel vernier-cuda13 requires, before the extension
module asks the system for it."""
from __future__ import annotations

import ctypes
import importlib.util
import pathlib

_FILE = "libcublasLt.so.13"


def load(missing: ImportError) -> None:
    """Raises `missing`, with what to install, where the package has no such library."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or [] if spec else []:
        for path in sorted(pathlib.Path(folder).glob(f"*/lib/{_FILE}")):
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
            return
    raise ImportError(f"{missing}; install it with 'pip install nvidia-cublas', or put CUDA 13's "
                      "libraries on LD_LIBRARY_PATH") from missing
