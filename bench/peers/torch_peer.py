"""PyTorch beside Vernier: a model's answers and times in every type, eager and compiled, the times of
its matrix products alone, and what the device can do at most. Needs torch; see docs/measuring.md.
"""
import contextlib
import time
import typing

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import onnx_weights
import torch_encoder

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32,
          "fp32": torch.float32, "fp64": torch.float64,
          "int8": torch.float16,  # what PyTorch and the library's floor have beside INT8 and FP8
          "fp8": torch.float16}
WARM_UP_RUNS, LEAST_RUNS, RUNS_AT_ONCE = 3, 10, 5
CEILING_SIZE, COPY_BYTES = 8192, 4 << 30  # far more than the cache holds


def take_type(kind):
    """FP32 products take TF32 operands or not, as `kind` says."""
    torch.set_float32_matmul_precision("high" if kind == "tf32" else "highest")


class Timing(typing.NamedTuple):
    """How a window of runs is timed: at least `seconds` long, the device resting `pause_ms` before
    each run. Without a rest large work runs at the chip's power limit, slower than a single run."""
    seconds: float
    pause_ms: float = 0


def times_ms(run, timing, device):
    """Milliseconds of each run: CUDA events around it, several runs queued at once so that the host
    is waited for only where it is the slower of the two; with a pause one."""
    at_once = 1 if timing.pause_ms else RUNS_AT_ONCE
    for _ in range(WARM_UP_RUNS):
        run()
    times, start = [], time.perf_counter()
    while len(times) < LEAST_RUNS or time.perf_counter() - start < timing.seconds:
        time.sleep(timing.pause_ms / 1e3)
        if device == "cpu":
            before = time.perf_counter()
            run()
            times.append((time.perf_counter() - before) * 1e3)
            continue
        pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)]
                 for _ in range(at_once)]
        for before, after in pairs:
            before.record()
            run()
            after.record()
        torch.cuda.synchronize()
        times += [before.elapsed_time(after) for before, after in pairs]
    return times


def median_ms(run, timing, device):
    times = sorted(times_ms(run, timing, device))
    return times[len(times) // 2]


def recorded(run, device):
    """`run` as one CUDA graph: what it launches, without the host's part."""
    if device == "cpu":
        return run
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(WARM_UP_RUNS):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


class Peer:
    """The weights of one ONNX file on the device, as modules of any type."""

    def __init__(self, file, heads, device):
        self.device = device
        state, epsilon = onnx_weights.read_state(file)
        self.state = {}
        for name, (array, transposed) in state.items():
            tensor = torch.tensor(array).to(device)
            self.state[name] = tensor.T.contiguous() if transposed else tensor
        shapes = {name: tuple(tensor.shape) for name, tensor in self.state.items()}
        self.sizes = torch_encoder.sizes_of(shapes, heads, epsilon)
        self.kind, self.module = "", None

    def take(self, kind):
        """The module of this type; one lives at a time."""
        take_type(kind)
        if self.kind != kind:
            self.kind, self.module = kind, None
            with torch.device("meta"):
                module = torch_encoder.Encoder(self.sizes)
            state = {name: tensor.to(DTYPES[kind]) for name, tensor in self.state.items()}
            module.load_state_dict(state, strict=True, assign=True)
            self.module = module.eval()
        return self.module

    def arguments(self, inputs):
        """The model's inputs on the device; no mask where nothing is padding."""
        ids = torch.from_numpy(inputs["input_ids"]).to(self.device)
        keep = torch.from_numpy(inputs["attention_mask"]).to(self.device).bool()
        types = inputs.get("token_type_ids")
        types = (torch.zeros_like(ids) if types is None
                 else torch.from_numpy(types).to(self.device))
        return ids, types, None if bool(keep.all()) else keep

    def answers(self, kind, inputs):
        """The outputs as an array of f64."""
        module, arguments = self.take(kind), self.arguments(inputs)
        with torch.inference_mode():
            return module(*arguments).double().cpu().numpy()

    def window(self, kind, inputs, timing):
        module, arguments = self.take(kind), self.arguments(inputs)
        with torch.inference_mode():
            return times_ms(lambda: module(*arguments), timing, self.device)

    def compiled(self, kind, inputs, timing):
        """{"compile_s", "median_ms"} of torch.compile in its mode max-autotune."""
        module, arguments = self.take(kind), self.arguments(inputs)
        torch._dynamo.reset()
        with torch.inference_mode():
            start = time.perf_counter()
            fast = torch.compile(module, mode="max-autotune", fullgraph=True, dynamic=False)
            for _ in range(WARM_UP_RUNS):  # the first compiles, the next record a CUDA graph
                fast(*arguments)
            if self.device != "cpu":
                torch.cuda.synchronize()
            compile_s = time.perf_counter() - start
            return {"compile_s": compile_s,
                    "median_ms": median_ms(lambda: fast(*arguments), timing, self.device)}


class Products:
    """The matrix products of an encoder alone, with weights distinct per layer, q, k and v in one
    product; no bias, GELU, norm, residual or embedding. Inputs are random and stay the same."""

    def __init__(self, sizes, kind, lengths, device):
        self.sizes, self.device = sizes, device
        take_type(kind)
        hidden, ffn, tokens = sizes["hidden"], sizes["ffn"], sum(lengths)
        shapes = [(hidden, 3 * hidden), (hidden, hidden), (hidden, ffn), (ffn, hidden)]

        def random(*shape):
            return torch.randn(*shape, device=device, dtype=DTYPES[kind])

        self.inputs = {width: random(tokens, width) for width in {hidden, ffn}}
        self.outputs = {width: random(tokens, width) for width in {3 * hidden, hidden, ffn}}
        self.weights = [[random(out, width) / width**0.5 for width, out in shapes]
                        for _ in range(sizes["layers"])]
        # Rows of unlike length have no dense attention: their floor is without it.
        self.heads = None
        if len(set(lengths)) == 1:
            split = (3, len(lengths), lengths[0], sizes["heads"], hidden // sizes["heads"])
            self.heads = random(*split).transpose(2, 3).unbind(0)

    def run(self, backend):
        chosen = sdpa_kernel(backend) if backend else contextlib.nullcontext()
        with torch.inference_mode(), chosen:
            for layer in self.weights:
                for i, weight in enumerate(layer):
                    torch.mm(self.inputs[weight.shape[1]], weight.T,
                             out=self.outputs[weight.shape[0]])
                    if i == 0 and self.heads:
                        F.scaled_dot_product_attention(*self.heads)

    def floor_ms(self, timing):
        """The median with the faster attention of PyTorch's own choice and cuDNN's."""
        times = []
        for backend in (None, SDPBackend.CUDNN_ATTENTION):
            if backend and (self.device == "cpu" or not self.heads):
                continue
            try:
                run = recorded(lambda: self.run(backend), self.device)
                times.append(median_ms(run, timing, self.device))
            except RuntimeError as error:  # cuDNN has no attention for this type or size
                if backend is None or "CUDA error" in str(error):
                    raise
        return min(times)


def ceilings(kinds, timing, device):
    """Copy bandwidth, read and written bytes counted, and the rate of a large product per type."""
    size = CEILING_SIZE if device != "cpu" else 256
    count = COPY_BYTES // 2 if device != "cpu" else 1 << 20
    source = torch.randint(0, 255, (count,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy_ms = median_ms(lambda: target.copy_(source), timing, device)
    result = {"copy_gb_per_s": 2 * count / copy_ms / 1e6, "product_size": size, "tflops": {}}
    del source, target
    for kind in kinds:
        take_type(kind)
        a, b = (torch.randn(size, size, device=device, dtype=DTYPES[kind]) for _ in range(2))
        ms = median_ms(lambda: torch.mm(a, b), timing, device)
        result["tflops"][kind] = 2 * size**3 / ms / 1e9
    return result


def machine(device):
    if device == "cpu":
        return "cpu"
    properties = torch.cuda.get_device_properties(0)
    return (f"{properties.name}, {properties.multi_processor_count} multiprocessors, "
            f"sm_{properties.major}{properties.minor}, "
            f"{properties.total_memory / 2**30:.0f} GiB")


def versions():
    cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
    return {"torch": torch.__version__, "cuda_of_torch": torch.version.cuda, "cudnn": cudnn}


def release(device):
    """Gives cached device memory back: the engine's process needs it."""
    if device != "cpu":
        torch.cuda.empty_cache()
