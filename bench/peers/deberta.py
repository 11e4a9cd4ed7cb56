#!/usr/bin/env python3
"""DeBERTa-v3's attention in Vernier and in PyTorch, in one run.

    python3 bench/peers/deberta.py --device cuda --output deberta.json
    python3 bench/peers/deberta.py --vernier build/cuda/vernier --device cuda --layers 4
    python3 bench/peers/deberta.py --device cpu --cells 1x128,8x128

The model has the geometry of deberta-v3-base with fewer layers and words, seeded weights and one
logit; transformers makes it and PyTorch exports it (opset 17). On a GPU all run it in FP16, on a
CPU in FP32. Milliseconds, medians, inputs and outputs in host memory for Vernier, on the device for
PyTorch: `fused` is the engine with scores by relative position inside its attention, `split` the
one built with --fuse attention=off, `eager` and `compiled` (torch.compile) are PyTorch. Rows have
no padding. Exit 1 if a command fails. Needs torch, transformers and onnx.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

import torch
from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

CELLS = "1x128,8x128,32x128,8x512"
WORDS = 2000
GEOMETRY = {
    "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072,
    "max_position_embeddings": 512, "type_vocab_size": 0, "layer_norm_eps": 1e-7,
    "relative_attention": True, "max_relative_positions": -1, "position_buckets": 256,
    "norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False, "initializer_range": 0.04, "num_labels": 1,
}


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


def model_of(layers):
    torch.manual_seed(3)
    config = DebertaV2Config(vocab_size=WORDS, num_hidden_layers=layers, **GEOMETRY)
    return Logits(DebertaV2ForSequenceClassification(config)).eval()


def export(model, path):
    ids = torch.randint(3, WORDS - 1, (2, 40))
    mask = torch.ones_like(ids)
    mask[1, 20:] = 0
    names = ["input_ids", "attention_mask"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (ids, mask), str(path), input_names=names, output_names=["logits"],
                          opset_version=17, dynamo=False,
                          dynamic_axes={name: {0: "batch", 1: "seq"} for name in names})


def called(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def of_vernier(vernier, engine, batch, length):
    printed = called(vernier, "bench", engine, "--batch", batch, "--length", length, "--seconds", 1,
                     "--json")
    return json.loads(printed)["median_ms"]


def of_torch(model, batch, length, device):
    """Median time of a run in ms, after three that are not timed; of at least ten runs."""
    ids = torch.randint(3, WORDS - 1, (batch, length), device=device)
    mask = torch.ones_like(ids)
    times, end = [], None
    with torch.inference_mode():
        while end is None or time.perf_counter() < end or len(times) < 13:
            if len(times) == 3:
                end = time.perf_counter() + 1
            begin = time.perf_counter()
            model(ids, mask)
            if device == "cuda":
                torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - begin))
    return sorted(times[3:])[len(times[3:]) // 2]


def main():
    made = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0],
                                   epilog=__doc__.split("\n", maxsplit=1)[1],
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--vernier", default="vernier", help="the program")
    made.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    made.add_argument("--layers", type=int, default=4)
    made.add_argument("--cells", default=CELLS, help=f"batch x length, default {CELLS}")
    made.add_argument("--output", type=pathlib.Path, help="JSON file to write")
    options = made.parse_args()
    model = model_of(options.layers)
    device = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    result = {"device": device, "torch": torch.__version__, "layers": options.layers,
              "date": time.strftime("%Y-%m-%d"), "ms": {}}
    with tempfile.TemporaryDirectory() as folder:
        onnx, engines = pathlib.Path(folder) / "deberta.onnx", {}
        export(model, onnx)
        mode = "--fp16" if options.device == "cuda" else "--fp32"
        for name, more in (("fused", ()), ("split", ("--fuse", "attention=off"))):
            engines[name] = onnx.with_suffix(f".{name}.vn")
            called(options.vernier, "build", onnx, "--device", options.device, mode,
                   "-o", engines[name], *more)
        if options.device == "cuda":
            model = model.cuda().half()
        ways = {"eager": model, "compiled": torch.compile(model, dynamic=False)}
        for cell in options.cells.split(","):
            batch, length = map(int, cell.split("x"))
            times = {name: of_vernier(options.vernier, engine, batch, length)
                     for name, engine in engines.items()}
            times |= {name: of_torch(way, batch, length, options.device)
                      for name, way in ways.items()}
            result["ms"][cell] = times
            print(cell, ", ".join(f"{name} {ms:.3f}" for name, ms in times.items()), "ms",
                  flush=True)
    if options.output:
        options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
