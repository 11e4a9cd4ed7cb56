"""A cross-encoder in PyTorch: BERT that reads a query and a passage and gives one score.

load() gives it the weights of tests/models/demo_reranker, a reranker that was trained on docstrings.
"""
import pathlib

import numpy as np
import onnx
import torch
from torch import nn

NUMBER_OF_BLOCKS, WIDTH, HEADS, PIECES, POSITIONS = 4, 192, 6, 4096, 128


class Block(nn.Module):
    """Attention and two products with GELU, each with its residual and its norm behind it."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.mix = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.attention_norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.output_norm = nn.LayerNorm(WIDTH, eps=1e-12)

    def heads(self, x):
        return x.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)

    def forward(self, x, mask):
        parts = (self.heads(part(x)) for part in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(*parts, attn_mask=mask)
        x = self.attention_norm(x + self.mix(mixed.transpose(1, 2).flatten(2)))
        return self.output_norm(x + self.down(nn.functional.gelu(self.up(x))))


class Reranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(PIECES, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.types = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.blocks = nn.ModuleList(Block() for _ in range(NUMBER_OF_BLOCKS))
        self.pooler, self.classifier = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, input_ids, attention_mask, token_type_ids):
        """[batch, length] int64 each -> logits [batch, 1]"""
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.words(input_ids) + self.positions(places) + self.types(token_type_ids)
        x = self.norm(x)
        mask = (attention_mask != 0)[:, None, None, :]
        for block in self.blocks:
            x = block(x, mask)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


def load(folder):
    """The trained reranker of `folder` (tests/models/demo_reranker)."""
    tensors = onnx.load(pathlib.Path(folder) / "model.onnx").graph.initializer
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in tensors}
    products = iter(arrays[name].T for name in sorted(arrays) if name.startswith("onnx::MatMul_"))
    state = {
        "words.weight": arrays["bert.embeddings.word_embeddings.weight"],
        "positions.weight": arrays["bert.embeddings.position_embeddings.weight"],
        "types.weight": arrays["bert.embeddings.token_type_embeddings.weight"],
        "pooler.weight": arrays["bert.pooler.dense.weight"],
        "classifier.weight": arrays["classifier.weight"],
        "pooler.bias": arrays["bert.pooler.dense.bias"],
        "classifier.bias": arrays["classifier.bias"],
        "norm.weight": arrays["bert.embeddings.LayerNorm.weight"],
        "norm.bias": arrays["bert.embeddings.LayerNorm.bias"],
    }
    for number in range(NUMBER_OF_BLOCKS):
        layer = f"bert.encoder.layer.{number}"
        for ours, theirs in (("query", "attention.self.query"), ("key", "attention.self.key"),
                             ("value", "attention.self.value"), ("mix", "attention.output.dense"),
                             ("up", "intermediate.dense"), ("down", "output.dense")):
            state[f"blocks.{number}.{ours}.weight"] = next(products)
            state[f"blocks.{number}.{ours}.bias"] = arrays[f"{layer}.{theirs}.bias"]
        for ours, theirs in (("attention_norm", "attention.output.LayerNorm"),
                             ("output_norm", "output.LayerNorm")):
            for part in ("weight", "bias"):
                state[f"blocks.{number}.{ours}.{part}"] = arrays[f"{layer}.{theirs}.{part}"]
    reranker = Reranker()
    reranker.load_state_dict({name: torch.from_numpy(np.array(array))
                              for name, array in state.items()})
    return reranker.eval()
