"""vernier.Error: every failure that a caller can meet. Contract: README.md "Exit codes"."""


class Error(Exception):
    """What failed, where, what was got and expected, and what to do.

    `code` says whose fault it is: "input" (an option, a model, an engine file, an array, a shape),
    "machine" (disk, memory, device), "check_failed" (a checksum or another check) or "internal"
    (a bug of Vernier's).
    """

    code: str

    def __init__(self, message: str, code: str = "internal") -> None:
        super().__init__(message)
        self.code = code
