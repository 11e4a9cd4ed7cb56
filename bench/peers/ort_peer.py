"""ONNX Runtime's CUDA provider beside Vernier: the model in FP16 with the fusions of its
transformer optimizer, padded in a CUDA graph of fixed shapes, and in packing mode (PackedAttention).

    python3 bench/peers/ort_peer.py MODEL.onnx HEADS HIDDEN PADDED.onnx PACKED.onnx [--fp16]

writes both models; bench/peers/gpu.py runs it in a process of its own. Packing mode has no CUDA
graph: RemovePadding waits on the host for the number of tokens. Needs onnxruntime (for times,
onnxruntime-gpu), onnx, numpy and torch; see docs/measuring.md "GPU".
"""
import pathlib
import subprocess
import sys

import numpy

LIMIT_S = 300  # of writing both models
MASK, OUTPUT_TYPES = "attention_mask", {"tensor(float)": "float32", "tensor(float16)": "float16"}
# Vernier's INT8 and FP8 have PyTorch in FP16 beside them; ONNX Runtime has one column, FP16.
KINDS = {"cuda": ("fp16",), "cpu": ("fp32",)}


def reason(kind, device):
    """Why there is nothing to measure, "" if there is."""
    try:
        import onnxruntime
        import onnxruntime.transformers.optimizer  # noqa: F401
    except ImportError as error:
        return f"no onnxruntime with its transformer optimizer: {error}"
    if device != "cpu" and "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return f"onnxruntime {onnxruntime.__version__} here has no CUDAExecutionProvider"
    if kind not in KINDS[device]:
        return f"compared in {', '.join(KINDS[device])} only"
    return ""


def version():
    try:
        import onnxruntime
    except ImportError:
        return None
    return onnxruntime.__version__


def write_models(model, heads, hidden, padded, packed, half):
    """The fused model, and the same in packing mode. The mask becomes the length of each row, which
    is what PackedAttention takes and the fused attentions of the CUDA provider prefer."""
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.convert_to_packing_mode import PackingMode
    from onnxruntime.transformers.fusion_options import FusionOptions
    options = FusionOptions("bert")
    options.use_raw_attention_mask(False)
    # Fusions in Python only; ONNX Runtime's own follow when a session is made.
    fused = optimizer.optimize_model(str(model), model_type="bert", num_heads=heads,
                                     hidden_size=hidden, optimization_options=options,
                                     opt_level=0, use_gpu=True)
    counts = fused.get_fused_operator_statistics()
    if not counts["Attention"] or not counts["SkipLayerNormalization"]:
        raise ValueError(f"the optimizer has fused too little: {counts}")
    if half:
        fused.convert_float_to_float16(keep_io_types=False)
    fused.save_model_to_file(str(padded))
    PackingMode(fused).convert(use_symbolic_shape_infer=False)
    if len(fused.get_nodes_by_op_type("PackedAttention")) != counts["Attention"]:
        raise ValueError("an attention has no packing mode")
    fused.save_model_to_file(str(packed))


class Models:
    """Both files of one model in one type; written in a process, so that the caller can go on."""

    def __init__(self, model, heads, hidden, kind):
        model = pathlib.Path(model)
        self.files = {name: model.with_name(f"{model.stem}.{name}.{kind}.onnx")
                      for name in ("padded", "packed")}
        half = ["--fp16"] if kind == "fp16" else []
        self.writer = subprocess.Popen(
            [sys.executable, __file__, model, str(heads), str(hidden), *self.files.values(), *half],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.failure = None

    def finish(self):
        """Waits. RuntimeError where they could not be written."""
        if self.failure is None:
            try:
                errors = self.writer.communicate(timeout=LIMIT_S)[1]
            except subprocess.TimeoutExpired:
                self.writer.kill()
                errors = f"writing took longer than {LIMIT_S} s"
            lines = errors.strip().splitlines() or ["no message"]
            self.failure = lines[-1] if self.writer.returncode != 0 else ""
        if self.failure:
            raise RuntimeError(f"the optimizer failed: {self.failure}")
        return self.files

    def remove(self):
        if self.writer.poll() is None:
            self.writer.kill()
            self.writer.communicate()
        for file in self.files.values():
            file.unlink(missing_ok=True)


class Peer:
    """One of the two files in ONNX Runtime: `form` is "padded" or "packed"."""

    def __init__(self, models, form, device):
        self.models, self.form, self.device = models, form, device
        self.title = "ONNX Runtime" + (", packing mode" if form == "packed" else "")
        self.stream = None
        self.plain = None  # the session for all shapes
        self.bound = None  # (inputs, session, binding, output tensor, what must stay alive)
        self.answer = None  # of the last window

    def reason(self, kind):
        if self.device == "cpu" and self.form == "packed":
            return "PackedAttention has no kernel on the CPU"
        return reason(kind, self.device)

    def session(self, shape=None):
        """With `shape` (rows, length) of these sizes alone, in a CUDA graph."""
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        providers = ["CPUExecutionProvider"]
        if self.device != "cpu":
            import torch
            self.stream = self.stream or torch.cuda.Stream()
            cuda = {"device_id": "0", "user_compute_stream": str(self.stream.cuda_stream),
                    "enable_cuda_graph": "1" if shape else "0",
                    "arena_extend_strategy": "kSameAsRequested"}
            providers.insert(0, ("CUDAExecutionProvider", cuda))
        for name, size in zip(("batch", "seq"), shape or ()):
            options.add_free_dimension_override_by_name(name, size)
        made = onnxruntime.InferenceSession(str(self.models.finish()[self.form]), options,
                                            providers=providers)
        if self.device != "cpu" and made.get_providers()[0] != "CUDAExecutionProvider":
            raise RuntimeError("the CUDA provider could not be loaded")
        return made

    def any_shape(self):
        self.plain = self.plain or self.session()
        return self.plain

    def answers(self, kind, inputs):
        """The outputs as an array of f64."""
        del kind
        session = self.any_shape()
        taken = {node.name: inputs[node.name] for node in session.get_inputs()}
        return session.run(None, taken)[0].astype(numpy.float64)

    def bind(self, session, inputs):
        """(binding, output, inputs): all on the device, which the binding does not keep alive."""
        import torch
        binding = session.io_binding()
        arrays = {node.name: torch.from_numpy(inputs[node.name]).to(self.device)
                  for node in session.get_inputs()}
        for name, array in arrays.items():
            binding.bind_input(name, "cuda", 0, numpy.int64, tuple(array.shape), array.data_ptr())
        [node] = session.get_outputs()
        dtype = OUTPUT_TYPES[node.type]
        output = torch.empty(len(inputs[MASK]), node.shape[-1], dtype=getattr(torch, dtype),
                             device=self.device)
        binding.bind_output(node.name, "cuda", 0, numpy.dtype(dtype), tuple(output.shape),
                            output.data_ptr())
        torch.cuda.synchronize()
        return binding, output, arrays

    def window(self, kind, inputs, timing):
        """Milliseconds of each run, arrays bound on the device."""
        import torch_peer
        if self.device == "cpu":
            self.answer = self.answers(kind, inputs)
            return torch_peer.times_ms(lambda: self.answers(kind, inputs), timing, self.device)
        import torch
        if self.bound is None or self.bound[0] is not inputs:
            self.release()
            shape = inputs[MASK].shape if self.form == "padded" else None
            session = self.session(shape) if shape else self.any_shape()
            self.bound = inputs, session, *self.bind(session, inputs)
        _, session, binding, output, _ = self.bound
        with torch.cuda.stream(self.stream):
            options = run_options()
            times = torch_peer.times_ms(lambda: session.run_with_iobinding(binding, options),
                                        timing, self.device)
        torch.cuda.synchronize()
        self.answer = output.double().cpu().numpy()
        return times

    def pass_over(self, kind, batches):
        """A function that runs all batches once, and waits for the device."""
        session = self.any_shape()
        if self.device == "cpu":
            return lambda: [self.answers(kind, inputs) for inputs in batches]
        import torch
        bound, options = [self.bind(session, inputs) for inputs in batches], run_options()

        def run():
            with torch.cuda.stream(self.stream):
                for binding, *_ in bound:
                    session.run_with_iobinding(binding, options)
            torch.cuda.synchronize()
        return run

    def release(self):
        """Gives the memory of the last cell back."""
        self.bound = None

    def close(self):
        self.bound = self.plain = None


def run_options():
    """Such that a run does not wait for the device at its end."""
    import onnxruntime
    options = onnxruntime.RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    return options


def main():
    model, heads, hidden, padded, packed, *half = sys.argv[1:]
    write_models(model, int(heads), int(hidden), padded, packed, half == ["--fp16"])


if __name__ == "__main__":
    main()
