#!/usr/bin/env python3
"""The Debian package: cpack makes it, and examples/embed is built and run against it alone.

Usage: debian_package_test.py CMAKE BUILD_FOLDER SOURCE_FOLDER MODEL.onnx
Unpacks the package into an empty root, checks its control fields, and does there what
package_test.py does with an installed tree. SKIP where Debian's packaging tools are missing.
"""
import pathlib
import shutil
import sys
import tempfile

from package_test import check_tree, demand, run

TOOLS = ("cpack", "dpkg-deb", "dpkg-shlibdeps")


def check_control(package):
    fields = dict(line.split(": ", 1) for line in run("dpkg-deb", "-f", package).splitlines()
                  if ": " in line and not line.startswith(" "))
    demand(fields["Package"] == "vernier" and fields["Version"].startswith("0."),
           f"the package is {fields['Package']} {fields['Version']}")
    for library in ("libc6", "libstdc++6", "libprotobuf", "libzip"):
        demand(library in fields["Depends"], f"Depends lacks {library}: {fields['Depends']}")
    demand("ldconfig" in run("dpkg-deb", "--info", package, "postinst"),
           "the package does not run ldconfig")


def main():
    if len(sys.argv) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print(f"SKIP: {', '.join(missing)} not found; on Debian: apt-get install cmake dpkg-dev")
        return 0
    cmake, build, source, model = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run("cpack", "--config", build / "CPackConfig.cmake", "-B", folder / "packages")
        packages = list((folder / "packages").glob("*.deb"))
        demand(len(packages) == 1, f"cpack made {packages}")
        check_control(packages[0])
        root = folder / "root"
        run("dpkg-deb", "-x", packages[0], root)
        check_tree(cmake, root / "usr", source, model, folder)
        print(f"{packages[0].name} works")
    return 0


if __name__ == "__main__":
    sys.exit(main())
