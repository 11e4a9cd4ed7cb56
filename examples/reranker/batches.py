"""Writes batches to calibrate with: batches.py EVAL.npz FOLDER

The rows are those of the last queries of an evaluation set; evaluate.py takes the first.
"""
import pathlib
import sys

import numpy as np

QUERIES, CANDIDATES = 8, 12


def main():
    source, folder = sys.argv[1:]
    pathlib.Path(folder).mkdir(exist_ok=True)
    arrays = np.load(source)
    inputs = {name: arrays[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    for number in range(QUERIES):
        last = len(inputs["input_ids"]) - number * CANDIDATES
        rows = slice(last - CANDIDATES, last)
        length = inputs["attention_mask"][rows].sum(1).max()
        np.savez(pathlib.Path(folder) / f"batch_{number}.npz",
                 **{name: array[rows, :length] for name, array in inputs.items()})


if __name__ == "__main__":
    main()
