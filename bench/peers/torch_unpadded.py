"""PyTorch without padding: the encoder of torch_encoder.py on packed tokens, [T, hidden], with
torch.nn.attention.varlen.varlen_attn. Eager in a CUDA graph, and compiled in one.

It has the same weights; queries, keys and values are one product. Ids, positions, where rows begin
and, for a mean, its weights lie on the device before a run begins: packing is not timed.
Needs torch; see docs/measuring.md "GPU".
"""
import time
import typing

import numpy
import torch
from torch import nn
from torch.nn import functional as F

import torch_encoder
import torch_peer

COMPILE_MODE = "max-autotune-no-cudagraphs"  # recorded here, as the eager one


def varlen_attention(q, k, v, starts, longest):
    """[T, heads, head_dim] each; row i has the tokens from starts[i] to starts[i + 1]."""
    from torch.nn.attention.varlen import varlen_attn
    return varlen_attn(q, k, v, starts, starts, longest, longest)


def attention_by_rows(q, k, v, starts, longest):
    """The same, row by row in any type on any device: for checks, not for times."""
    del longest
    places = starts.tolist()
    rows = [F.scaled_dot_product_attention(*(x[begin:end].transpose(0, 1) for x in (q, k, v)))
            for begin, end in zip(places, places[1:])]
    return torch.cat(rows, 1).transpose(0, 1)


class Packed(typing.NamedTuple):
    """The inputs of a batch without its padding, on the device."""
    ids: torch.Tensor        # [T]
    types: torch.Tensor      # [T]
    positions: torch.Tensor  # [T]
    starts: torch.Tensor     # [rows + 1] int32: where each row begins, then T
    longest: int
    means: torch.Tensor | None  # [rows, T]: tokens to the mean of their row


def pack(inputs, sizes, dtype, device):
    """Of padded arrays with padding only behind."""
    mask = inputs["attention_mask"].astype(bool)
    lengths = mask.sum(1)
    places = numpy.broadcast_to(numpy.arange(mask.shape[1]), mask.shape)
    if not (mask == (places < lengths[:, None])).all():
        raise ValueError("padding must be behind the tokens of a row")
    types = inputs.get("token_type_ids", numpy.zeros_like(places))
    first = torch_encoder.XLMR_PADDING + 1 if sizes.head == "xlmr" else 0
    starts = numpy.concatenate([[0], lengths.cumsum()]).astype(numpy.int32)
    ids, types, positions = (torch.from_numpy(array[mask].astype(numpy.int64)).to(device)
                             for array in (inputs["input_ids"], types, places + first))
    means = None
    if sizes.head == "mean":
        means = torch.zeros(len(lengths), int(starts[-1]), dtype=dtype)
        for row, (begin, end) in enumerate(zip(starts, starts[1:])):
            means[row, begin:end] = 1 / (end - begin)
        means = means.to(device)
    return Packed(ids, types, positions, torch.from_numpy(starts).to(device), int(lengths.max()),
                  means)


def merged(attention):
    """The linear layers of queries, keys and values as one."""
    parts = attention.query, attention.key, attention.value
    with torch.device("meta"):
        linear = nn.Linear(parts[0].in_features, 3 * parts[0].out_features)
    for name in ("weight", "bias"):
        joined = torch.cat([getattr(part, name).detach() for part in parts])
        setattr(linear, name, nn.Parameter(joined, requires_grad=False))
    return linear


class Unpadded(nn.Module):
    """torch_encoder.Encoder on packed tokens, with its parameters."""

    def __init__(self, encoder, attend):
        super().__init__()
        self.encoder, self.attend = encoder, attend
        self.qkv = nn.ModuleList(merged(layer.attention.self) for layer in encoder.encoder.layer)

    def forward(self, ids, types, positions, starts, longest, means=None):
        table = self.encoder.embeddings
        x = table.LayerNorm(table.word_embeddings(ids) + table.token_type_embeddings(types)
                            + table.position_embeddings(positions))
        for layer, linear in zip(self.encoder.encoder.layer, self.qkv):
            heads = layer.attention.self.heads
            q, k, v = linear(x).view(x.shape[0], 3, heads, -1).unbind(1)
            context = self.attend(q, k, v, starts, longest).reshape(x.shape)
            middle = layer.attention.output(context, x)
            x = layer.output(F.gelu(layer.intermediate(middle)), middle)
        if means is not None:
            return F.normalize(means @ x, dim=1)
        return self.encoder.logits(x.index_select(0, starts[:-1]))


class Peer:
    """The unpadded encoder with the weights of a torch_peer.Peer."""
    title = "unpadded PyTorch"

    def __init__(self, padded):
        self.padded, self.device = padded, padded.device
        self.kind, self.module = "", None
        self.answer = None  # of the last window

    def reason(self, kind):
        """Why it cannot run in this type, "" if it can."""
        if self.device == "cpu":
            return ""
        sizes, dtype = self.padded.sizes, torch_peer.DTYPES[kind]
        try:
            x = torch.zeros(16, sizes.heads, sizes.hidden // sizes.heads, dtype=dtype,
                            device=self.device)
            starts = torch.tensor([0, 16], dtype=torch.int32, device=self.device)
            with torch.inference_mode():
                varlen_attention(x, x, x, starts, 16)
            return ""
        except (ImportError, AttributeError):
            return f"torch {torch.__version__} has no torch.nn.attention.varlen.varlen_attn"
        except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
            return f"varlen_attn in {kind}: {str(error).strip().partition(chr(10))[0]}"

    def take(self, kind):
        module = self.padded.take(kind)
        if self.module is None or self.module.encoder is not module:
            self.module = None  # before the next one takes memory
            attend = attention_by_rows if self.device == "cpu" else varlen_attention
            self.module = Unpadded(module, attend).eval()
        return self.module

    def arguments(self, kind, inputs):
        return pack(inputs, self.padded.sizes, torch_peer.DTYPES[kind], self.device)

    def answers(self, kind, inputs):
        """The outputs as an array of f64."""
        module, arguments = self.take(kind), self.arguments(kind, inputs)
        with torch.inference_mode():
            return module(*arguments).double().cpu().numpy()

    def timed(self, module, arguments, timing):
        """Times of a CUDA graph of this module; `answer` is what the last run left."""
        held = {}

        def run():
            held["answer"] = module(*arguments)

        with torch.inference_mode():
            replay = torch_peer.recorded(run, self.device)
            times = torch_peer.times_ms(replay, timing, self.device)
            self.answer = held["answer"].double().cpu().numpy()
        return times

    def window(self, kind, inputs, timing):
        return self.timed(self.take(kind), self.arguments(kind, inputs), timing)

    def compiled(self, kind, inputs, timing):
        """{"compile_s", "median_ms"} of torch.compile."""
        module, arguments = self.take(kind), self.arguments(kind, inputs)
        torch._dynamo.reset()
        start = time.perf_counter()
        fast = torch.compile(module, mode=COMPILE_MODE, fullgraph=True, dynamic=False)
        with torch.inference_mode():
            fast(*arguments)
            if self.device != "cpu":
                torch.cuda.synchronize()
        compile_s = time.perf_counter() - start
        times = sorted(self.timed(fast, arguments, timing))
        return {"compile_s": compile_s, "median_ms": times[len(times) // 2]}

    def pass_over(self, kind, batches):
        """A function that runs all batches once, and waits for the device. Without CUDA graphs:
        with many tokens the host is ahead of the device."""
        module, packed = self.take(kind), [self.arguments(kind, inputs) for inputs in batches]

        def run():
            with torch.inference_mode():
                for arguments in packed:
                    module(*arguments)
                if self.device != "cpu":
                    torch.cuda.synchronize()
        return run
