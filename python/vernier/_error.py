"""vernier.Error: every failure that a caller can meet. Contract: docs/commands.md "Exit codes"."""
from vernier._spelling import in_python


class Error(Exception):
    """What failed, where, what was got and expected, and what to do.

    `code` says whose fault it is: "input" (an option, a model, an engine file, an array, a shape),
    "machine" (disk, memory, device, a limit of time or memory), "check_failed" (a checksum or
    another check) or "internal" (a bug in Vernier). Names in the message come from files: what a
    terminal would act on in them is shown as an escape.
    """

    code: str

    def __init__(self, message: str, code: str = "internal") -> None:
        super().__init__("".join(map(_shown, message)))
        self.code = code


def from_library(message: str, code: str) -> Error:
    """The Error of one that the library threw (python/bindings/native.cpp)."""
    return Error(in_python(message), code)


def _shown(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}"
