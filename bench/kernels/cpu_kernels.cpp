// Times single CPU kernels by row of kernels.def: bench_kernels [--benchmark_filter=attention].
// Prints GFLOP/s for products and attention, GB/s for the rest; arguments are in the names. One
// thread unless the name says t2, so that a share of the machine's peak can be read off.
#include <benchmark/benchmark.h>

#include <cmath>
#include <random>

#include "backend/cpu/cpu.h"
#include "core/attrs.h"

namespace vernier::backend {
namespace {

struct Array {
  std::vector<int64_t> shape;
  DType dtype = DType::kF32;  ///< kUndefined: an absent optional input
  bool constant = false;
  std::vector<double> values = {};  ///< empty: random
};

struct BenchCase {
  std::string name = {}, kernel = {};
  AttrBytes attrs = {};
  std::vector<Array> inputs = {}, outputs = {};
  double flops = 0;
  int threads = 1;
};

Tensor make_tensor(const Array& array) {
  if (array.dtype == DType::kUndefined) return {};
  if (!array.values.empty())
    return Tensor::from(array.dtype, array.shape, std::span<const double>(array.values));
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<size_t>(num_elems(array.shape)));
  for (double& v : values)
    v = is_float(array.dtype) ? normal(random) : static_cast<double>(random() % 100);
  return Tensor::from(array.dtype, array.shape, std::span<const double>(values));
}

TensorArg dense(const Array& array, const std::byte* data) {
  TensorArg arg{.data = const_cast<std::byte*>(data),
                .dtype = array.dtype,
                .rank = static_cast<int>(array.shape.size())};
  const Shape strides = row_major_strides(array.shape);
  std::copy(array.shape.begin(), array.shape.end(), arg.shape.begin());
  std::copy(strides.begin(), strides.end(), arg.strides.begin());
  return arg;
}

void run(benchmark::State& state, const BenchCase& c) {
  const KernelDef* kernel = find_kernel(cpu_backend(), c.kernel);
  if (kernel == nullptr) return state.SkipWithError("no such kernel");
  Problem problem{.op = kernel->op, .attrs = c.attrs, .inputs = {}, .outputs = {}, .asked = {}};
  std::vector<Tensor> tensors;
  double bytes = 0;
  for (const Array& array : c.inputs) tensors.push_back(make_tensor(array));
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Array& array = c.inputs[i];
    problem.inputs.push_back({tensors[i].defined(), array.dtype,
                              SymShape(array.shape.begin(), array.shape.end()),
                              array.constant ? &tensors[i] : nullptr});
  }
  for (const Array& array : c.outputs) {
    problem.outputs.push_back(
        {true, array.dtype, SymShape(array.shape.begin(), array.shape.end()), nullptr});
  }
  if (Support support = kernel->supports(problem); !support)
    return state.SkipWithError(support.reason.c_str());
  const auto device = cpu_backend().make_device({.threads = c.threads});
  const Execution execution = device->execution();
  std::vector<PackedConstant> packed;
  if (kernel->pack != nullptr) packed = kernel->pack(problem);
  std::vector<ConstantArg> constants;
  for (const PackedConstant& p : packed) constants.push_back({p.input, p.layout, p.bytes});
  std::vector<TensorArg> in, out, constant_inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const bool present = tensors[i].defined();
    in.push_back(present ? dense(c.inputs[i], tensors[i].data()) : TensorArg{});
    if (present) bytes += static_cast<double>(tensors[i].bytes());
  }
  for (const PackedConstant& p : packed) in[static_cast<size_t>(p.input)] = {};
  for (size_t i = 0; i < in.size(); ++i)
    constant_inputs.push_back(c.inputs[i].constant ? in[i] : TensorArg{});
  for (const Array& array : c.outputs) {
    tensors.push_back(make_tensor(array));
    out.push_back(dense(array, tensors.back().data()));
    bytes += static_cast<double>(tensors.back().bytes());
  }
  std::unique_ptr<KernelState> kernel_state;
  const Numerics numerics = kernel->numerics(problem);
  if (kernel->create != nullptr)
    kernel_state = kernel->create({c.attrs, &numerics, constants, constant_inputs, execution});
  std::unique_ptr<ShapeState> shape;
  if (kernel->prepare != nullptr)
    shape = kernel->prepare({c.attrs, kernel_state.get(), in, out, execution});
  std::byte* workspace = device->allocate(shape == nullptr ? 0 : shape->workspace_bytes);
  for (auto _ : state) {
    kernel->launch({c.attrs, kernel_state.get(), shape.get(), in, out, workspace, execution});
    benchmark::ClobberMemory();
  }
  device->free(workspace);
  using benchmark::Counter;
  const auto rate = Counter::kIsIterationInvariantRate;
  if (c.flops > 0) state.counters["FLOP"] = Counter(c.flops, rate);
  if (c.flops == 0) state.counters["B"] = Counter(bytes, rate);
}

struct Product {
  int64_t m, k, n;
};

// x, weight and y in `type`, the bias f32.
BenchCase linear(const std::string& kernel, const Product& p, int threads = 1,
                 DType type = DType::kF32, Activation activation = Activation::kNone) {
  BenchCase c{.name = "",
              .kernel = kernel,
              .attrs = encode(LinearAttrs{.activation = activation}),
              .threads = threads};
  c.name = kernel + "/" + std::to_string(p.m) + "x" + std::to_string(p.k) + "x" +
           std::to_string(p.n) + (activation == Activation::kNone ? "" : "/gelu") +
           (threads > 1 ? "/t" + std::to_string(threads) : "");
  c.inputs = {{{p.m, p.k}, type}, {{p.k, p.n}, type, true}, {{p.n}}};
  c.outputs = {{{p.m, p.n}, type}};
  c.flops = 2.0 * static_cast<double>(p.m * p.k * p.n);
  return c;
}

std::string type_suffix(DType type) {
  std::string text;
  if (type != DType::kF32) text.append("/").append(name(type));
  return text;
}

BenchCase attention(int64_t batch, int64_t seq, int64_t heads, int64_t dim, bool causal = false,
                    DType type = DType::kF32) {
  BenchCase c{.name = "", .kernel = "cpu.attention.blocked"};
  c.attrs =
      encode(AttentionAttrs{.scale = 1 / std::sqrt(static_cast<double>(dim)), .causal = causal});
  c.name = c.kernel + "/B" + std::to_string(batch) + "_S" + std::to_string(seq) + "_H" +
           std::to_string(heads) + "_D" + std::to_string(dim) + (causal ? "_causal" : "") +
           type_suffix(type);
  c.inputs = std::vector<Array>(3, Array{{batch, seq, heads, dim}, type});
  c.outputs = {{{batch, seq, heads, dim}, type}};
  // Half of the scores of a causal layer are hidden.
  c.flops = 4.0 * static_cast<double>(batch * heads * seq * seq * dim) * (causal ? 0.5 : 1);
  return c;
}

BenchCase rows(const std::string& kernel, AttrBytes attrs, std::vector<Array> inputs,
               std::vector<Array> outputs) {
  return {.name = kernel + "/" + str(inputs[0].shape) + type_suffix(inputs[0].dtype),
          .kernel = kernel,
          .attrs = std::move(attrs),
          .inputs = std::move(inputs),
          .outputs = std::move(outputs)};
}

std::vector<BenchCase> cases() {
  std::vector<BenchCase> list;
  const std::vector<std::pair<const char*, DType>> linears{{"cpu.linear.onednn_brg", DType::kF32},
                                                           {"cpu.linear.highway", DType::kF32},
                                                           {"cpu.linear.onednn_bf16", DType::kBF16},
                                                           {"cpu.linear.f16", DType::kF16}};
  for (const auto& [kernel, type] : linears) {
    for (int64_t m : {1, 16, 128, 512, 1024}) {
      list.push_back(linear(kernel, {m, 768, 768}, 1, type));
      list.push_back(linear(kernel, {m, 768, 2304}, 1, type));
      list.push_back(linear(kernel, {m, 768, 3072}, 1, type, Activation::kGeluErf));
      list.push_back(linear(kernel, {m, 3072, 768}, 1, type));
    }
    list.push_back(linear(kernel, {512, 768, 3072}, 2, type));
  }
  for (int64_t seq : {16, 128, 512, 2048}) list.push_back(attention(1, seq, 12, 64));
  list.push_back(attention(4, 128, 4, 64));
  list.push_back(attention(1, 512, 12, 32));
  list.push_back(attention(1, 512, 12, 80));
  list.push_back(attention(1, 512, 12, 128));
  list.push_back(attention(1, 512, 12, 64, true));
  const AttrBytes norm = encode(NormAttrs{});
  list.push_back(
      rows("cpu.layer_norm.rows", norm, {{{512, 768}}, {{768}}, {{768}}}, {{{512, 768}}}));
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    const Array row{{768}, type}, x{{512, 768}, type}, scores{{512, 512}, type};
    list.push_back(rows("cpu.add_layer_norm.rows", norm, {x, x, row, row}, {x, x}));
    list.push_back(rows("cpu.softmax.rows", encode(AxisAttrs{.axis = -1}), {scores}, {scores}));
    list.push_back(rows("cpu.fused_elementwise.loop",
                        encode(FusedElementwiseAttrs{.program = "Mul(%0,%1);Add(%3,%2);Tanh(%4)"}),
                        {x, row, x}, {x}));
    if (type != DType::kF32) list.push_back(attention(1, 512, 12, 64, false, type));
  }
  for (const char* kernel : {"cpu.top_k.heap", "cpu.top_k.evaluator"}) {
    list.push_back(rows(kernel, encode(TopKAttrs{}),
                        {{{1, 50257}}, {{1}, DType::kI64, false, {50}}},
                        {{{1, 50}}, {{1, 50}, DType::kI64}}));
  }
  for (const char* kernel : {"cpu.resize.nearest", "cpu.resize.linear"}) {
    const bool nearest = std::string_view(kernel).ends_with("nearest");
    const Interpolation mode = nearest ? Interpolation::kNearest : Interpolation::kLinear;
    list.push_back(
        rows(kernel, encode(ResizeAttrs{.mode = mode, .axes = {}}),
             {{{1, 64, 64, 64}}, {{}, DType::kUndefined}, {{4}, DType::kF32, true, {1, 1, 2, 2}}},
             {{{1, 64, 128, 128}}}));
  }
  list.push_back(rows("cpu.reduce_log_sum_exp.groups", encode(ReduceAttrs{.axes = {1}}),
                      {{{512, 768}}}, {{{512, 1}}}));
  list.push_back(
      rows("cpu.hardmax.lines", encode(AxisAttrs{.axis = -1}), {{{512, 768}}}, {{{512, 768}}}));
  list.push_back(rows("cpu.gelu.loop", encode(GeluAttrs{}), {{{512, 3072}}}, {{{512, 3072}}}));
  list.push_back(rows("cpu.add.loop", {}, {{{512, 768}}, {{768}}}, {{{512, 768}}}));
  list.push_back(rows("cpu.quantize_linear.runs", encode(QuantizeAttrs{.dtype = DType::kI8}),
                      {{{512, 768}}, {{1}}}, {{{512, 768}, DType::kI8}}));
  list.push_back(rows("cpu.dequantize_linear.runs", encode(QuantizeAttrs{.axis = 1}),
                      {{{512, 768}, DType::kI8}, {{768}}}, {{{512, 768}}}));
  list.push_back(rows("cpu.transpose.copy", encode(TransposeAttrs{.perm = {0, 2, 1, 3}}),
                      {{{4, 128, 12, 64}}}, {{{4, 12, 128, 64}}}));
  list.push_back(rows("cpu.transpose.copy", encode(TransposeAttrs{.perm = {1, 0}}), {{{768, 768}}},
                      {{{768, 768}}}));
  return list;
}

}  // namespace
}  // namespace vernier::backend

int main(int argc, char** argv) {
  const auto list = vernier::backend::cases();
  for (const auto& c : list) {
    auto* bench = benchmark::RegisterBenchmark(
        c.name.c_str(), [&c](benchmark::State& state) { vernier::backend::run(state, c); });
    bench->Unit(benchmark::kMicrosecond);
    // One thread: its own processor time, which other programs disturb less.
    if (c.threads > 1) bench->UseRealTime();
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
