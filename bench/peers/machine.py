"""What the machine is, for the results of the benchmarks on a CPU."""
import os
import pathlib


def entry(file, key, separator=":"):
    """The value of a "key: value" line of a system file, "?" where there is none."""
    try:
        lines = pathlib.Path(file).read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    values = (line.partition(separator)[2] for line in lines if line.startswith(key))
    return next(values, "?").strip(' "')


def processor():
    """The CPU and those of its instructions that products may use."""
    return {"cpu": entry("/proc/cpuinfo", "model name"), "cores": os.cpu_count(),
            "instructions": [name for name in entry("/proc/cpuinfo", "flags").split()
                             if name.startswith(("avx", "amx", "fma"))]}
