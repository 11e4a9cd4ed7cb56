"""The program: `python -m vernier`, and `vernier` where the wheel is installed."""
import sys

from vernier import _native


def _words(words: list[str]) -> list[str]:
    """The command line; verify --also starts a Python: this one where it names none."""
    names = [word.split("=")[0] for word in words]
    if "--also" in names and "--also-python" not in names and sys.executable:
        return [*words, "--also-python", sys.executable]
    return words


def main() -> int:
    return _native.program(["vernier", *_words(sys.argv[1:])])


if __name__ == "__main__":
    sys.exit(main())
