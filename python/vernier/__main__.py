"""The program: `python -m vernier`, and `vernier` where the wheel is installed."""
import sys

from vernier import _native


def main() -> int:
    return _native.program(["vernier", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
