#!/usr/bin/env python3
"""Packs python/vernier and its extension module into a wheel: a zip with three text files.

Usage: make_wheel.py VERSION MODULE.so FOLDER [NAME]    (cmake target `wheel`, ./dev wheel)
NAME is what pip installs: vernier, or vernier-cuda13, which brings cuBLAS from NVIDIA's package.
Run by the Python that the module was built for. Older wheels in FOLDER are removed. Equal files
give equal bytes. Format: https://packaging.python.org/specifications/binary-distribution-format
"""
import base64
import hashlib
import pathlib
import sys
import sysconfig
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
METADATA = """Metadata-Version: 2.2
Name: {name}
Version: {version}
Summary: Compiles Transformer models from ONNX into engines and proves their precision
License: Apache-2.0
Requires-Python: >=3.10
Requires-Dist: numpy
{requires}"""
REQUIRES = {"vernier": "", "vernier-cuda13": "Requires-Dist: nvidia-cublas >=13,<14\n"}
WHEEL = """Wheel-Version: 1.0
Generator: make_wheel.py
Root-Is-Purelib: false
Tag: {tag}
"""


def tag(module):
    """"cp311-cp311-linux_x86_64": this interpreter, on this machine's distribution; "cp312-abi3-…" of a
    module for this and all later versions."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    abi = "abi3" if module.name.endswith(".abi3.so") else python + getattr(sys, "abiflags", "")
    return f"{python}-{abi}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def metadata(name, version):
    return METADATA.format(name=name, version=version, requires=REQUIRES[name]).encode()


def information(name, version):
    """What the wheel says about itself and does not depend on its module, as (name, bytes)."""
    folder = f"{name.replace('-', '_')}-{version}.dist-info"
    return [(f"{folder}/entry_points.txt", b"[console_scripts]\nvernier = vernier.__main__:main\n"),
            (f"{folder}/LICENSE", (ROOT / "LICENSE").read_bytes()),
            (f"{folder}/METADATA", metadata(name, version))]


def contents(name, version, module):
    """The wheel's files as (name, bytes), all but RECORD."""
    package = ROOT / "python" / "vernier"
    files = [(f"vernier/{path.name}", path.read_bytes())
             for path in sorted(package.iterdir()) if path.suffix in (".py", ".pyi", ".typed")]
    files.append((f"vernier/{module.name}", module.read_bytes()))
    files += information(name, version)
    files.append((f"{name.replace('-', '_')}-{version}.dist-info/WHEEL",
                  WHEEL.format(tag=tag(module)).encode()))
    return files


def record(files, name):
    """Name, checksum and size of every file; of RECORD itself only the name."""
    lines = []
    for path, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    return "".join(lines + [f"{name},,\n"]).encode()


def main():
    if len(sys.argv) not in (4, 5) or sys.argv[4:] and sys.argv[4] not in REQUIRES:
        print(__doc__, file=sys.stderr)
        return 2
    version, module, folder = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    name = sys.argv[4] if sys.argv[4:] else "vernier"
    files = contents(name, version, module)
    in_files = name.replace("-", "_")
    listed = f"{in_files}-{version}.dist-info/RECORD"
    files.append((listed, record(files, listed)))
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{in_files}-*.whl"):
        old.unlink()
    wheel = folder / f"{in_files}-{version}-{tag(module)}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files:
            entry = zipfile.ZipInfo(path, date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    print(wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
