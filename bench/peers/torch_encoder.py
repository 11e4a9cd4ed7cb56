"""BERT, XLM-R and MiniLM as plain PyTorch modules, named as Hugging Face names theirs.

Encoder(sizes) takes the state that onnx_weights.py reads, every tensor once (strict loading).
Post-norm layers, F.scaled_dot_product_attention, exact GELU; nothing is merged or fused by hand: this
is eager PyTorch as its users have it.
"""
import dataclasses

import torch
from torch import nn
from torch.nn import functional as F

XLMR_PADDING = 1  # its positions are counted from the next number


@dataclasses.dataclass(frozen=True)
class Sizes:
    layers: int
    hidden: int
    heads: int
    ffn: int
    words: int
    positions: int
    types: int
    epsilon: float
    head: str  # "bert": pooler and classifier; "xlmr": classifier of two layers; "mean": an embedding


def sizes_of(shapes, heads, epsilon):
    """Sizes from the shapes of a state, {name: shape of the tensor as the module has it}."""
    layers = {name.split(".")[2] for name in shapes if name.startswith("encoder.layer.")}
    heads_by_name = {"pooler.dense.weight": "bert", "classifier.out_proj.weight": "xlmr"}
    head = next((kind for name, kind in heads_by_name.items() if name in shapes), "mean")
    words, hidden = shapes["embeddings.word_embeddings.weight"]
    return Sizes(len(layers), hidden, heads, shapes["encoder.layer.0.intermediate.dense.weight"][0],
                 words, shapes["embeddings.position_embeddings.weight"][0],
                 shapes["embeddings.token_type_embeddings.weight"][0], epsilon, head)


class Embeddings(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.xlmr = sizes.head == "xlmr"
        self.word_embeddings = nn.Embedding(sizes.words, sizes.hidden)
        self.position_embeddings = nn.Embedding(sizes.positions, sizes.hidden)
        self.token_type_embeddings = nn.Embedding(sizes.types, sizes.hidden)
        self.LayerNorm = nn.LayerNorm(sizes.hidden, sizes.epsilon)

    def positions(self, ids):
        if not self.xlmr:
            return torch.arange(ids.shape[1], device=ids.device)[None]
        token = ids.ne(XLMR_PADDING).int()
        return (torch.cumsum(token, 1) * token).long() + XLMR_PADDING

    def forward(self, ids, types):
        x = self.word_embeddings(ids) + self.token_type_embeddings(types)
        return self.LayerNorm(x + self.position_embeddings(self.positions(ids)))


class SelfAttention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.heads = sizes.heads
        self.query = nn.Linear(sizes.hidden, sizes.hidden)
        self.key = nn.Linear(sizes.hidden, sizes.hidden)
        self.value = nn.Linear(sizes.hidden, sizes.hidden)

    def forward(self, x, mask):
        batch, length, hidden = x.shape
        q, k, v = (project(x).view(batch, length, self.heads, -1).transpose(1, 2)
                   for project in (self.query, self.key, self.value))
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return context.transpose(1, 2).reshape(batch, length, hidden)


class AddNorm(nn.Module):
    """LayerNorm(dense(y) + x)"""

    def __init__(self, width, sizes):
        super().__init__()
        self.dense = nn.Linear(width, sizes.hidden)
        self.LayerNorm = nn.LayerNorm(sizes.hidden, sizes.epsilon)

    def forward(self, y, x):
        return self.LayerNorm(self.dense(y) + x)


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.self = SelfAttention(sizes)
        self.output = AddNorm(sizes.hidden, sizes)

    def forward(self, x, mask):
        return self.output(self.self(x, mask), x)


class Dense(nn.Module):
    def __init__(self, width_in, width_out):
        super().__init__()
        self.dense = nn.Linear(width_in, width_out)

    def forward(self, x):
        return self.dense(x)


class Layer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.attention = Attention(sizes)
        self.intermediate = Dense(sizes.hidden, sizes.ffn)
        self.output = AddNorm(sizes.ffn, sizes)

    def forward(self, x, mask):
        middle = self.attention(x, mask)
        return self.output(F.gelu(self.intermediate(middle)), middle)


class Layers(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layer = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))

    def forward(self, x, mask):
        for layer in self.layer:
            x = layer(x, mask)
        return x


class XlmrHead(Dense):
    def __init__(self, hidden):
        super().__init__(hidden, hidden)
        self.out_proj = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.out_proj(torch.tanh(self.dense(x)))


def mean_of_kept(x, keep):
    """The mean over kept tokens (all where `keep` is None), as a vector of length 1."""
    if keep is None:
        return F.normalize(x.mean(1), dim=1)
    kept = keep.unsqueeze(2).to(x.dtype)
    return F.normalize((x * kept).sum(1) / kept.sum(1).clamp(min=1e-9), dim=1)


class Encoder(nn.Module):
    """forward(ids, types, keep): `keep` [batch, length] bool, or None where nothing is padding, as
    transformers drops such a mask. Returns logits [batch, 1] or embeddings [batch, hidden]."""

    def __init__(self, sizes):
        super().__init__()
        self.head = sizes.head
        self.embeddings = Embeddings(sizes)
        self.encoder = Layers(sizes)
        if sizes.head == "bert":
            self.pooler = Dense(sizes.hidden, sizes.hidden)
            self.classifier = nn.Linear(sizes.hidden, 1)
        elif sizes.head == "xlmr":
            self.classifier = XlmrHead(sizes.hidden)

    def forward(self, ids, types, keep=None):
        mask = None
        if keep is not None:
            mask = keep[:, None, None, :].expand(-1, 1, ids.shape[1], -1)
        x = self.encoder(self.embeddings(ids, types), mask)
        return mean_of_kept(x, keep) if self.head == "mean" else self.logits(x[:, 0])

    def logits(self, first):
        """Of the first token of each row, [batch, hidden]."""
        if self.head == "xlmr":
            return self.classifier(first)
        return self.classifier(torch.tanh(self.pooler(first)))
