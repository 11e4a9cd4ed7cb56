"""Progress of long work: what the argument `progress` of build, verify and others takes."""
from __future__ import annotations

import sys
import time
from typing import Callable

#: True shows the stage on standard error; a function is called with each ("step 5 of 17, …").
Progress = bool | Callable[[str], None] | None

_WIDTH = 100


class _Line:
    """One line of standard error that is written over; where that is no terminal, a line now and
    then."""

    _INTERVAL = 10.0  # seconds between lines that are not written over

    def __init__(self) -> None:
        self._rewrites = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._next = 0.0

    def __call__(self, stage: str) -> None:
        if self._rewrites:
            print(f"\r{stage[:_WIDTH]:<{_WIDTH}}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() >= self._next:
            print(stage, file=sys.stderr, flush=True)
            self._next = time.monotonic() + self._INTERVAL

    def end(self) -> None:
        if self._rewrites:
            print("\r" + " " * _WIDTH + "\r", end="", file=sys.stderr, flush=True)


class Told:
    """`with Told(progress) as tell:` — `tell` is what the library calls, or None."""

    def __init__(self, progress: Progress) -> None:
        self._line = _Line() if progress is True else None
        self._tell: Callable[[str], None] | None = self._line
        if callable(progress):
            self._tell = progress

    def __enter__(self) -> Callable[[str], None] | None:
        return self._tell

    def __exit__(self, *unused: object) -> None:
        if self._line is not None:
            self._line.end()
