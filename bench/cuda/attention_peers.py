"""Times PyTorch's attention (cuDNN and flash backends, forced) on the shapes that
`test_backend_cuda --time Attention` times: q, k, v as views of one [B, S, 3, H, D] array, f16, 20
calls in a CUDA graph, median of 25 replays."""
import json
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

SHAPES = [(32, 16, 512, 64), (128, 16, 512, 64), (16, 16, 2048, 64), (32, 16, 128, 64),
          (1, 16, 128, 64), (1, 12, 128, 64), (16, 16, 512, 128), (8, 16, 2048, 128),
          (32, 16, 512, 32), (128, 12, 128, 64), (128, 12, 128, 32), (1, 12, 128, 32)]
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def median_us(call, in_graph=20, repeats=25):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(in_graph):
            call()
    times = []
    for i in range(repeats + 3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        if i >= 3:
            times.append(begin.elapsed_time(end) * 1e3 / in_graph)
    return sorted(times)[len(times) // 2]


def main():
    rows = []
    for batch, heads, length, dim in SHAPES:
        qkv = torch.randn(batch, length, 3, heads, dim, device="cuda", dtype=torch.float16)
        q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
        keep = torch.ones(batch, 1, 1, length, device="cuda", dtype=torch.bool)
        for b in range(batch):
            keep[b, ..., length - b % 3 * length // 3:] = False
        for name, backend in BACKENDS.items():
            for mask, options in {"none": {}, "causal": {"is_causal": True},
                                  "keep": {"attn_mask": keep}}.items():
                if mask == "keep" and name == "flash":
                    continue

                def call():
                    with sdpa_kernel(backend):
                        return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)

                try:
                    us = median_us(call)
                except RuntimeError as error:
                    print(f"{name} {mask}: {str(error).splitlines()[0][:90]}")
                    continue
                tflops = 4 * batch * heads * length * length * dim / us * 1e-6
                shape = f"{batch}x{heads}x{length}x{dim}"
                print(f"{shape:16s} torch {name:6s} {mask:8s} {us:9.2f} us {tflops:7.1f} TFLOP/s")
                rows.append({"shape": shape, "kernel": f"torch {name}", "mask": mask, "us": us})
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)


if __name__ == "__main__":
    main()
