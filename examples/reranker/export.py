"""Exports the reranker of model.py to ONNX: export.py FOLDER MODEL.onnx"""
import sys

import torch
from model import load


def main():
    folder, path = sys.argv[1:]
    example = {name: torch.ones(2, 16, dtype=torch.int64)
               for name in ("input_ids", "attention_mask", "token_type_ids")}
    torch.onnx.export(load(folder), (), path, kwargs=example, output_names=["logits"],
                      dynamic_shapes={name: {0: "batch", 1: "length"} for name in example},
                      dynamo=True, verbose=False, external_data=False)


if __name__ == "__main__":
    main()
