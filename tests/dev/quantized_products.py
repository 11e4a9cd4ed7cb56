"""Small ONNX models around one quantized product, with their inputs and exact results.

ONE_NODE lists them for quantized_models_test.py: integers, scales and zero points as quantizers and
exporters write them, and near misses that no integer kernel can take.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

I8, U8, I16 = np.int8, np.uint8, np.int16


def real(values, scale, zero=0):
    """What quantized numbers stand for, exactly; scale and zero point broadcast."""
    values, scale, zero = (np.asarray(array, np.float64) for array in (values, scale, zero))
    return (values - zero) * scale


class Graph:
    """A small model, its inputs' values, and beside each value what it is exactly."""

    def __init__(self, opset=17):
        self.random = np.random.default_rng(7)
        self.opset, self.nodes, self.constants, self.inputs, self.feeds = opset, [], [], [], {}
        self.result_type = TensorProto.FLOAT

    def constant(self, array):
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op, inputs, outputs=1, **attributes):
        names = [f"{op}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=names[0], **attributes))
        return names[0] if outputs == 1 else names

    def input(self, array, fixed=False):
        name = f"input_{len(self.inputs)}"
        dims = array.shape if fixed else ("rows", *array.shape[1:])
        self.inputs.append(helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), dims))
        self.feeds[name] = array
        return name

    def integers(self, shape, dtype):
        limits = np.iinfo(dtype)
        return self.random.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)

    def points(self, scale, zero, dtype, has_zero=True):
        """Scale and zero point as operands, the zero point left out where there is none."""
        zeros = np.broadcast_to(zero, np.shape(scale)).astype(dtype)
        return [self.constant(scale), *([self.constant(zeros)] if has_zero else [])]

    def activation(self, shape, dtype=I8, zero=0, form="float", scale=np.float32(0.02),
                   domain="", axis=None):
        """DequantizeLinear of QuantizeLinear of an input, or of an input: of integers, or of
        integers with fixed sizes."""
        q = self.integers(shape, dtype)
        points = self.points(scale, zero, dtype)
        attributes = {"domain": domain} | ({} if axis is None else {"axis": axis})
        if form != "float":
            name = self.input(q, form == "fixed")
        else:  # well inside the steps; some beyond the last one
            inside = q + self.random.uniform(-0.4, 0.4, shape)
            inside[..., 0] *= 3
            x = ((inside - zero) * scale).astype(np.float32)
            limits = np.iinfo(dtype)
            q = np.clip(np.rint(x / scale) + zero, limits.min, limits.max).astype(dtype)
            name = self.node("QuantizeLinear", [self.input(x), *points], **attributes)
        return self.node("DequantizeLinear", [name, *points], **attributes), real(q, scale, zero)

    def weight(self, shape, dtype=I8, scale=None, zero=0, axis=None, has_zero=True, domain="",
               in_graph=False):
        """DequantizeLinear of a constant; lists of scales and zero points run along `axis`."""
        count = 1 if axis is None else shape[axis]
        if scale is None:
            scale = self.random.uniform(0.0005, 0.0015, count).astype(np.float32)
            scale = scale[0] if axis is None else scale
        q = self.integers(shape, dtype)
        spread = [1] * len(shape)
        spread[axis or 0] = -1
        along = [v if axis is None else np.reshape(np.broadcast_to(v, count), spread)
                 for v in (scale, zero)]
        points = self.points(scale, zero, dtype, has_zero)
        attributes = {"domain": domain} | ({} if axis is None else {"axis": axis})
        if in_graph:  # as exporters of QAT write it: floats, QuantizeLinear
            q = np.clip(q, -127, 127)
            name = self.node("QuantizeLinear",
                             [self.constant(real(q, *along).astype(np.float32)), *points],
                             **attributes)
        else:
            name = self.constant(q)
        return self.node("DequantizeLinear", [name, *points], **attributes), real(q, *along)

    def vector(self, count):
        values = self.random.normal(size=count).astype(np.float32)
        return self.constant(values), values.astype(np.float64)

    def save(self, path, result):
        info = [helper.make_tensor_value_info(result, self.result_type, None)]
        graph = helper.make_graph(self.nodes, "product", self.inputs, info, self.constants)
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        onnx.save(model, path)


M, K, N = 5, 67, 35


def dequantized(x, w, opset=17, x_shape=(M, K), w_shape=(K, N)):
    """MatMul of two dequantized operands."""
    def make():
        g = Graph(opset)
        (a, x_real), (b, w_real) = g.activation(x_shape, **x), g.weight(w_shape, **w)
        return g, g.node("MatMul", [a, b]), x_real @ w_real
    return make


def transposed(after=True, rows=N, axis=0, **w):
    """The weight is stored [rows, K], its Transpose stands before or behind DequantizeLinear."""
    def make():
        g = Graph()
        a, x_real = g.activation((M, K), U8, 121)
        b, w_real = g.weight((rows, K), axis=axis, **w)
        if after:
            b = g.node("Transpose", [b], perm=[1, 0])
        else:
            dequantize = g.nodes.pop()
            columns = g.node("Transpose", [dequantize.input[0]], perm=[1, 0])
            b = g.node("DequantizeLinear", [columns, *dequantize.input[1:]], axis=1)
        return g, g.node("MatMul", [a, b]), x_real @ w_real.T
    return make


def gemm(trans=True, axis=0, bias="i32", **attributes):
    """Gemm. bias "i32": in units of x's scale times w's; "float": [N]; "matrix": floats [M, N]."""
    def make():
        g = Graph()
        a, x_real = g.activation((M, K), I8, -9, form="fixed" if bias == "matrix" else "float")
        w_scale = g.random.uniform(5e-4, 1.5e-3, N).astype(np.float32)
        b, w_real = g.weight((N, K) if trans else (K, N), axis=axis, scale=w_scale)
        c, c_real = g.vector(N)
        if bias == "i32":
            q = g.random.integers(-50000, 50000, N).astype(np.int32)
            scale = np.float32(0.02) * w_scale
            points = [g.constant(scale), g.constant(np.zeros(N, np.int32))]
            c, c_real = g.node("DequantizeLinear", [g.constant(q), *points], axis=0), real(q, scale)
        elif bias == "matrix":
            c_real = g.random.normal(size=(M, N)).astype(np.float32)
            c, c_real = g.constant(c_real), attributes["beta"] * c_real
        y = g.node("Gemm", [a, b, c], transB=int(trans), **attributes)
        want = attributes.get("alpha", 1) * (x_real @ (w_real.T if trans else w_real)) + c_real
        return g, y, want
    return make


def through(*between):
    """What a quantizer leaves between DequantizeLinear and the product: it moves numbers only."""
    def make():
        g = Graph()
        a, x_real = g.activation((2, 3, 4, 16), form="integers")
        for op in between:
            if op == "Transpose":
                a, x_real = g.node(op, [a], perm=[0, 2, 1, 3]), x_real.transpose(0, 2, 1, 3)
            else:
                shape = (0, 0, -1) if "Transpose" in between else (-1, 16)
                a = g.node(op, [a, g.constant(np.array(shape, np.int64))])
                x_real = x_real.reshape([x_real.shape[i] if s == 0 else s
                                         for i, s in enumerate(shape)])
        b, w_real = g.weight((x_real.shape[-1], N), axis=1)
        return g, g.node("MatMul", [a, b]), x_real @ w_real
    return make


def bias_and_result():
    """Add with the bias first, a quantized result; the step is the error that is allowed."""
    g = Graph()
    (a, x_real), (b, w_real) = g.activation((2, M, K), U8, 100), g.weight((K, N), axis=1)
    bias, bias_real = g.vector(N)
    y = g.node("Add", [bias, g.node("MatMul", [a, b])])
    points = g.points(np.float32(0.05), 130, U8)
    y = g.node("DequantizeLinear", [g.node("QuantizeLinear", [y, *points]), *points])
    want = np.clip(np.rint((x_real @ w_real + bias_real) / 0.05), -130, 125) * np.float32(0.05)
    return g, y, want, 0.05


def sum_with_two_readers():
    """The activation may not move into the product."""
    g = Graph()
    (a, x_real), (b, w_real) = g.activation((M, K)), g.weight((K, N))
    y, want = g.node("MatMul", [a, b]), x_real @ w_real
    return g, g.node("Sub", [g.node("Relu", [y]), y]), np.maximum(want, 0) - want


def sum_with_residual():
    """The residual is the dequantized activation itself."""
    g = Graph()
    (a, x_real), (b, w_real) = g.activation((M, K)), g.weight((K, K), axis=1)
    bias, bias_real = g.vector(K)
    return (g, g.node("Add", [g.node("Add", [g.node("MatMul", [a, b]), bias]), a]),
            x_real @ w_real + bias_real + x_real)


def three_readers():
    """Query, key and value: three products of one quantized activation."""
    g = Graph()
    a, x_real = g.activation((2, M, K))
    made = [g.weight((K, N), axis=1, scale=np.full(N, 0.001 * (i + 1), np.float32))
            for i in range(3)]
    y = g.node("Concat", [g.node("MatMul", [a, b]) for b, _ in made], axis=-1)
    return g, y, x_real @ np.concatenate([w_real for _, w_real in made], axis=-1)


def weight_on_the_left():
    g = Graph()
    (a, x_real), (b, w_real) = g.activation((K, M), form="fixed"), g.weight((N, K))
    return g, g.node("MatMul", [b, a]), w_real @ x_real


def two_activations():
    g = Graph()
    (a, x_real), (b, y_real) = (g.activation(shape, form="fixed", scale=np.float32(0.005))
                                for shape in ((2, M, K), (2, K, N)))
    return g, g.node("MatMul", [a, b]), x_real @ y_real


def of_f16():
    """Scales of f16 make an f16 model: the result is rounded to 11 bits."""
    g = Graph(opset=19)
    scales = np.float16(0.02), np.float16(0.001)
    (a, x_real), (b, w_real) = (g.activation((M, K), form="integers", scale=scales[0]),
                                g.weight((K, N), scale=scales[1]))
    g.result_type = TensorProto.FLOAT16
    return g, g.node("MatMul", [a, b]), x_real @ w_real, 4e-3


def extreme(depth, number):
    """The largest sums: `number`² and a little less, `depth` times, of one sign."""
    def make():
        g = Graph()
        q = np.full((M, depth), number, U8)
        w = np.broadcast_to(np.array([255 - number, 271 - number, 255], U8), (depth, 3))
        scale = np.float32(2.0 ** -16)
        xp, wp = g.points(scale, 0, U8), g.points(scale, 255, U8)
        y = g.node("MatMul", [g.node("DequantizeLinear", [g.input(q), *xp]),
                              g.node("DequantizeLinear", [g.constant(w), *wp])])
        return g, y, real(q, scale) @ real(w, scale, 255)
    return make


def blocked():
    """Scales of blocks along the sums: no integer product has them."""
    g = Graph(opset=21)
    a, x_real = g.activation((M, 64))
    q, scale = g.integers((64, N), I8), g.random.uniform(5e-4, 1e-3, (4, N)).astype(np.float32)
    b = g.node("DequantizeLinear", [g.constant(q), g.constant(scale)], axis=0, block_size=16)
    return g, g.node("MatMul", [a, b]), x_real @ real(q, scale.repeat(16, 0))


def dynamic_product(dtype, zero, columns):
    """As quantize_dynamic writes it: the scales' product, Cast, Mul, Add with the bias first."""
    def make():
        g = Graph()
        x = g.random.normal(size=(2, M, K)).astype(np.float32)
        low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
        x_scale = (high - low) / np.float32(255)
        x_zero = np.rint(-low / x_scale)
        xq = np.clip(np.rint(x / x_scale) + x_zero, 0, 255)
        w = g.integers((K, N), dtype)
        w_scale = g.random.uniform(5e-4, 1.5e-3, N if columns else 1).astype(np.float32)
        zeros = np.broadcast_to(zero, w_scale.shape).astype(dtype)
        shape = (N,) if columns else ()
        bias, bias_real = g.vector(N)
        q, s, z = g.node("DynamicQuantizeLinear", [g.input(x)], outputs=3)
        scales = g.node("Mul", [s, g.constant(w_scale.reshape(shape))])
        y = g.node("MatMulInteger", [q, g.constant(w), z, g.constant(zeros.reshape(shape))])
        y = g.node("Mul", [g.node("Cast", [y], to=TensorProto.FLOAT), scales])
        return (g, g.node("Add", [bias, y]),
                real(xq, x_scale, x_zero) @ real(w, w_scale, zeros) + bias_real)
    return make


def scaled_sums(scale_shape, readers=1, rows=M):
    """MatMulInteger, Cast and a constant scale that is not one of columns only."""
    def make():
        g = Graph()
        x, w = g.integers((rows, K), U8), g.integers((K, N), I8)
        scale = g.random.uniform(5e-4, 1.5e-3, scale_shape).astype(np.float32)
        sums = g.node("MatMulInteger", [g.input(x, fixed=True), g.constant(w), g.constant(U8(99))])
        sums = g.node("Cast", [sums], to=TensorProto.FLOAT)
        y, want = g.node("Mul", [sums, g.constant(scale)]), (real(x, 1, 99) @ real(w, 1)) * scale
        if readers == 2:
            y, want = g.node("Sub", [y, g.node("Mul", [sums, g.constant(2 * scale)])]), -want
        return g, y, want
    return make


def integer_product():
    """MatMulInteger alone: its i32 sums are exact."""
    g = Graph()
    x, w, zeros = g.integers((M, K), U8), g.integers((K, N), I8), g.integers((N,), I8)
    y = g.node("MatMulInteger", [g.input(x), g.constant(w), g.constant(U8(117)), g.constant(zeros)])
    g.result_type = TensorProto.INT32
    return g, y, real(x, 1, 117) @ real(w, 1, zeros), 0


def convolution():
    """ConvInteger as quantize_dynamic writes it."""
    g = Graph()
    x = g.random.normal(size=(2, 3, 6, 6)).astype(np.float32)
    x_scale = (x.max() - x.min()) / np.float32(255)
    x_zero = np.rint(-x.min() / x_scale)
    xq = real(np.clip(np.rint(x / x_scale) + x_zero, 0, 255), x_scale, x_zero)
    w, w_scale = g.integers((4, 3, 3, 3), I8), np.float32(1e-3)
    q, s, z = g.node("DynamicQuantizeLinear", [g.input(x)], outputs=3)
    y = g.node("ConvInteger", [q, g.constant(w), z])
    y = g.node("Mul", [g.node("Cast", [y], to=TensorProto.FLOAT),
                       g.node("Mul", [s, g.constant(w_scale)])])
    windows = np.lib.stride_tricks.sliding_window_view(xq, (3, 3), (2, 3))
    return g, y, np.einsum("nchwij,ocij->nohw", windows, real(w, w_scale))


def quantized_product(dtype, zero, columns):
    """QLinearMatMul: at most one step from the exact sum."""
    def make():
        g = Graph()
        x, w = g.integers((2, M, K), dtype), g.integers((K, N), I8)
        w_scale = g.random.uniform(5e-4, 1.5e-3, (N,) if columns else ()).astype(np.float32)
        w_zero = np.broadcast_to(3, w_scale.shape).astype(I8)
        xs, ys = np.float32(0.02), np.float32(0.03)
        y = g.node("QLinearMatMul", [g.input(x), *g.points(xs, zero, dtype), g.constant(w),
                                     g.constant(w_scale), g.constant(w_zero),
                                     *g.points(ys, zero, dtype)])
        limits = np.iinfo(dtype)
        g.result_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        sums = real(x, xs, zero) @ real(w, w_scale, w_zero)
        return g, y, np.clip(np.rint(sums / ys) + zero, limits.min, limits.max), 1
    return make


MS = "com.microsoft"
SHORT = np.array([0.02], np.float32)  # one number in a list
# name: ONNX products on integer kernels, the model with its exact result [, the step allowed].
# 0: no integer kernel has these numbers (or need not have them); the result must be right anyway.
ONE_NODE = {
    "per_tensor": (1, dequantized({}, {})),
    "no_zero_points": (1, dequantized({"form": "integers"}, {"has_zero": False})),
    "activation_zero_point": (1, dequantized({"dtype": U8, "zero": 121}, {})),
    "zero_points": (1, dequantized({"dtype": U8, "zero": 3}, {"dtype": U8, "zero": 140})),
    "per_column": (1, dequantized({}, {"axis": 1})),
    "per_column_last_axis": (1, dequantized({"zero": -7}, {"axis": -1})),
    "per_column_zero_points": (1, dequantized({"dtype": U8, "zero": 200}, {
        "dtype": U8, "axis": 1, "zero": np.arange(100, 100 + N)})),
    "scales_in_lists": (1, dequantized({"scale": SHORT}, {"scale": SHORT / 20})),
    "batched": (1, dequantized({"dtype": U8, "zero": 128}, {"axis": 1}, x_shape=(2, 3, M, K))),
    "largest_zero_points": (1, dequantized({"dtype": U8, "zero": 255}, {
        "dtype": U8, "axis": 1, "zero": 255})),
    "least_zero_points": (1, dequantized({"zero": -128}, {"axis": 1, "zero": -128})),
    "vector": (0, dequantized({"form": "fixed"}, {"axis": 1}, x_shape=(K,))),
    "one_column": (1, dequantized({}, {"axis": 1}, w_shape=(K, 1))),
    "com_microsoft": (1, dequantized({"domain": MS, "dtype": U8, "zero": 9},
                                     {"domain": MS, "axis": 1})),
    "opset_23": (1, dequantized({}, {"axis": 1}, opset=23)),
    "weight_quantized_in_graph": (1, dequantized({}, {"axis": 1, "in_graph": True})),
    "transposed": (1, transposed()),
    "transposed_zero_points": (1, transposed(dtype=U8, zero=np.arange(90, 90 + N))),
    "transposed_integers": (1, transposed(after=False)),
    "transposed_in_graph": (1, transposed(in_graph=True)),
    "gemm_transposed": (1, gemm()),
    "gemm_negative_axis": (1, gemm(axis=-2, bias="float")),
    "gemm_matrix": (1, gemm(trans=False, axis=1, bias="matrix", beta=0.5)),
    "gemm": (1, gemm(trans=False, axis=1)),
    "gemm_alpha": (1, gemm(bias="float", alpha=0.5)),
    "through_reshape": (1, through("Reshape")),
    "through_transpose_reshape": (1, through("Transpose", "Reshape")),
    "bias_and_result": (1, bias_and_result),
    "sum_with_two_readers": (1, sum_with_two_readers),
    "sum_with_residual": (1, sum_with_residual),
    "three_readers": (3, three_readers),
    "extreme_sums": (1, extreme(1 << 15, 255)),
    # 240² and 240·224 times 37,300 are exact in f32, and more than i32 holds.
    "more_products_than_i32_holds": (0, extreme(37300, 240)),
    "of_f16": (0, of_f16),
    "two_activations": (0, two_activations),
    "scales_along_the_sums_transposed": (0, transposed(rows=K, axis=1)),
    "weight_on_the_left": (0, weight_on_the_left),
    "scales_along_the_sums": (0, dequantized({}, {"axis": 0})),
    "activation_scales_along_the_sums": (0, dequantized(
        {"axis": 1, "scale": np.linspace(0.01, 0.03, K, dtype=np.float32)}, {})),
    "blocks": (0, blocked),
    "weights_per_batch": (0, dequantized({}, {}, x_shape=(2, M, K), w_shape=(2, K, N))),
    "activation_of_16_bits": (0, dequantized(
        {"dtype": I16, "zero": 300, "scale": np.float32(1e-4)}, {}, opset=21)),
    "dynamic_i8": (1, dynamic_product(I8, 0, False)),
    "dynamic_u8": (1, dynamic_product(U8, 119, False)),
    "dynamic_i8_columns": (1, dynamic_product(I8, 0, True)),
    "dynamic_u8_columns": (1, dynamic_product(U8, np.arange(110, 110 + N), True)),
    "convolution": (0, convolution),
    "scaled_columns": (0, scaled_sums((N,))),
    "scaled_rows": (0, scaled_sums((N, 1), rows=N)),
    "scaled_to_more": (0, scaled_sums((3, 1, 1))),
    "scaled_twice": (0, scaled_sums((), readers=2)),
    "matmul_integer": (0, integer_product),
    "qlinear_matmul_u8": (1, quantized_product(U8, 130, False)),
    "qlinear_matmul_i8_columns": (1, quantized_product(I8, -4, True)),
}
