// cuda.mat_mul.heads: heads of queries or keys by a constant matrix each, on tensor cores. Scores
// by relative position are such products; the attention that reads them computes them beside its
// own scores (KernelBody::joins; attention_products.cu), and then they are not stored.
//
// a [B, H, S, 64], any outer strides; b [1, H, 64, P], a constant; y [B, H, S, P]; all of one
// 16-bit type, P a multiple of 8 up to 512. Bits as those of cuda.mat_mul.tensor_cores.
// b is packed as rows [H, P, 64].
#include "backend/cuda/check.h"
#include "backend/cuda/kernels/attention/attention_call.h"
#include "backend/cuda/kernels/linear/linear.h"
#include "backend/cuda/kernels/linear/matmul.h"
#include "backend/cuda/product_numerics.h"
#include "backend/cuda/usable.h"
#include "core/convert.h"

namespace vernier::backend::cuda {
namespace {

using Input = AttentionAttrs::Input;
constexpr int64_t kWidth = 64;  // of a head

// ---- the packed tables: "k-major f16 H=24 K=64 N=512", rows of K

struct Tables {
  int64_t heads = 0, rows = 0;
  size_t bytes() const { return static_cast<size_t>(heads * rows * kWidth) * 2; }
};
Tables tables_of(const Problem& problem) {
  const SymShape& b = problem.inputs[1].shape;
  return {*b[1].as_constant(), *b[3].as_constant()};
}
std::string layout_of(const Problem& problem) {
  const Tables t = tables_of(problem);
  return "k-major " + std::string(name(problem.inputs[1].dtype)) + " H=" + std::to_string(t.heads) +
         " K=" + std::to_string(kWidth) + " N=" + std::to_string(t.rows);
}

std::vector<PackedConstant> pack(const Problem& problem) {
  const Operand& b = problem.inputs[1];
  const Tables t = tables_of(problem);
  const Tensor plain = converted(*b.constant, b.dtype);
  PackedConstant packed{.input = 1, .layout = layout_of(problem), .bytes = {}};
  packed.bytes.resize(plain.bytes());
  for (int64_t head = 0; head < t.heads; ++head) {
    const int64_t at = head * t.rows * kWidth * 2;
    transpose_weight(2, plain.data() + at, packed.bytes.data() + at, kWidth, t.rows);
  }
  return {std::move(packed)};
}
std::vector<PackedLayout> packed_layouts(const Problem& problem) {
  return {{.input = 1, .layout = layout_of(problem), .bytes = tables_of(problem).bytes()}};
}
Tensor unpack(const Problem& problem, const ConstantArg& packed) {
  const Tables t = tables_of(problem);
  VERNIER_ASSERT(packed.layout == layout_of(problem) && packed.bytes.size() == t.bytes(),
                 std::string(packed.layout));
  std::vector<std::byte> plain(packed.bytes.size());
  for (int64_t head = 0; head < t.heads; ++head) {
    const int64_t at = head * t.rows * kWidth * 2;
    transpose_weight(2, packed.bytes.data() + at, plain.data() + at, t.rows, kWidth);
  }
  return Tensor::from_bytes(problem.inputs[1].dtype, {1, t.heads, kWidth, t.rows}, plain);
}

// ---- supported problems

Support supports(const Problem& problem) {
  const Support support = supports_tensor_cores(problem);
  if (!support) return support;
  const Operand &a = problem.inputs[0], &b = problem.inputs[1];
  if (!b.is_constant()) return no("b is no constant");
  if (a.shape.size() != 4 || b.shape.size() != 4) return no("a and b do not both have four axes");
  if (!(b.shape[0] == Dim(1)) || !(b.shape[1] == a.shape[1]) || !b.shape[1].as_constant() ||
      b.shape[1] == Dim(0))
    return no("b is not one matrix for each head of a");
  if (!(b.shape[2] == Dim(kWidth))) return no("K is not 64");
  const auto rows = b.shape[3].as_constant();
  if (!rows || *rows <= 0 || *rows % 8 != 0 || *rows > kMostTableRows)
    return no("N is not a multiple of 8 up to " + std::to_string(kMostTableRows));
  if (problem.outputs[0].dtype != a.dtype)
    return no("the output is not " + std::string(name(a.dtype)));
  if (!hopper_kernels_usable()) return no("no sm_90 GPU, or not compiled for sm_90a");
  return yes();
}

// ---- running

struct State : KernelState {
  std::byte* tables = nullptr;  // on the device
};
std::unique_ptr<KernelState> create(const CreateCall& call) {
  auto state = std::make_unique<State>();
  for (const ConstantArg& constant : call.constants) {
    if (constant.input == 1) state->tables = const_cast<std::byte*>(constant.bytes.data());
  }
  VERNIER_ASSERT(state->tables != nullptr, "no packed matrix");
  return state;
}

void multiply_heads(const LaunchCall& call, std::byte* tables) {
  const TensorArg &a = call.in[0], &y = call.out[0];
  const int64_t rows = a.dim(2), cols = y.dim(3);
  ProductLaunch p{};
  p.a = {a.data, a.dtype, a.stride(2), a.stride(3), {a.stride(0), a.stride(1)}};
  p.b = {tables, a.dtype, 1, kWidth, {0, cols * kWidth}};
  p.c = {y.data, y.dtype, cols, 1, {a.dim(1) * rows * cols, rows * cols}};
  p.rows = rows;
  p.cols = cols;
  p.k = static_cast<int>(kWidth);
  p.batch_axes = 2;
  p.batch[0] = a.dim(0);
  p.batch[1] = a.dim(1);
  p.batches = a.dim(0) * a.dim(1);
  p.alpha = 1;
  check_cuda(multiply(p, true, stream_of(call.execution)), "MatMul");
}

// Heads [first, first + H) of x [B, S, heads, width] begin at head h of y [B, heads, S, width]:
// which h that is, or none.
std::optional<int64_t> first_head(const TensorArg& x, const TensorArg& y) {
  const int64_t step = y.stride(1) * static_cast<int64_t>(size_bytes(y.dtype)),
                bytes = x.data - y.data;
  const bool strides = (x.dim(0) == 1 || x.stride(0) == y.stride(0)) &&
                       (x.dim(1) == 1 || x.stride(1) == y.stride(2)) &&
                       (x.dim(2) == 1 || x.stride(2) == y.stride(1)) && x.stride(3) == y.stride(3);
  if (!strides || step <= 0 || bytes < 0 || bytes % step != 0 || bytes / step + x.dim(2) > y.dim(1))
    return std::nullopt;
  return bytes / step;
}

// The tables of the attention behind: its scores by relative position are heads of the product, of
// which a has its queries and keys.
std::optional<AttentionTables> tables_of(const LaunchCall& call, const std::byte* tables) {
  const LaunchCall& next = *call.next;
  const auto table = [&](Input positions, Input rows) -> const void* {
    if (!given(next.in, positions)) return nullptr;
    const auto of_product = first_head(next.in[positions], call.out[0]),
               of_rows = first_head(next.in[rows], call.in[0]);
    if (!of_product || of_product != of_rows) return nullptr;
    return tables + *of_product * call.out[0].dim(3) * kWidth * 2;
  };
  const AttentionTables found{.of_queries = table(Input::kQueryPositions, Input::kQ),
                              .of_keys = table(Input::kKeyPositions, Input::kK),
                              .rows = static_cast<int>(call.out[0].dim(3))};
  if (found.of_queries == nullptr || found.of_keys == nullptr) return std::nullopt;
  return found;
}

void launch(const LaunchCall& call) {
  std::byte* const tables = static_cast<const State&>(*call.state).tables;
  if (call.next != nullptr && call.result_unused) {
    const auto found = tables_of(call, tables);
    const AttentionLaunch args = attention_launch(*call.next);
    if (found && attention_products_takes(args, *found)) {
      if (call.next->out[0].elems() == 0) return;
      check_cuda(launch_attention_products(args, *found, stream_of(call.execution)), "Attention");
      return;
    }
  }
  if (call.out[0].elems() != 0) multiply_heads(call, tables);
  if (call.next != nullptr) launch_attention_sm90_step(*call.next);
}

bool joins(const Problem& own, const Problem& next) {
  return next.op == OpKind::kAttention && next.has_input(Input::kQueryPositions) &&
         next.has_input(Input::kKeyPositions) && !next.has_input(Input::kBias) &&
         next.inputs[Input::kQ].dtype == own.inputs[0].dtype &&
         next.inputs[Input::kQ].shape[3] == Dim(kWidth) && !next.attrs_as<AttentionAttrs>().causal;
}

}  // namespace

extern const KernelBody matmul_heads;
constexpr KernelBody matmul_heads{
    .supports = &supports,
    .numerics = &tensor_core_numerics,
    .strided_inputs = 1,
    .pack = &pack,
    .unpack = &unpack,
    .packed_layouts = &packed_layouts,
    .create = &create,
    .launch = &launch,
    .joins = &joins,
    .joined_inputs = 1U << Input::kQueryPositions | 1U << Input::kKeyPositions,
};

}  // namespace vernier::backend::cuda
