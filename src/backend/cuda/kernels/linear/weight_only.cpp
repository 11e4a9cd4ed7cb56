// cuda.weight_only_linear.columns: y = act(x·((w − zero)·scale) + bias) + residual on a weight of 8
// or 4 bits, for few rows. Contract of the kernel: weight_only.h; of the operator:
// WeightOnlyLinearAttrs in core/attrs.h.
//
// x        [..., K], f32, f16 or bf16. w: constant [K, N] or [N, K]: q8, i8 or u8 of 8 bits, q4, i8
//          or u8 of 4
// scale    f32, zero w's type: constants, one number, one for each column, or for each column and
//          block of rows
// The weight is packed by columns.
#include "backend/cuda/kernels/linear/weight_only.h"

#include "backend/cuda/check.h"
#include "backend/cuda/kernels/linear/linear.h"
#include "backend/supports.h"

namespace vernier::backend::cuda {
namespace {

struct Packed {
  WeightBits bits{DType::kQ8, 8};
  WeightShape shape;
  int64_t column_bytes() const { return weight_only_column_bytes(shape.k, bits.bits); }
  size_t bytes() const { return static_cast<size_t>(shape.n * column_bytes()); }
  std::string layout() const {
    return "columns " + bits.text() + " K=" + std::to_string(shape.k) +
           " N=" + std::to_string(shape.n);
  }
  size_t byte(int64_t k, int64_t n) const {
    return static_cast<size_t>(n * column_bytes() + k * bits.bits / 8);
  }
  int shift(int64_t k) const { return bits.bits == 4 && k % 2 == 1 ? 4 : 0; }
};

bool transposed(const Problem& problem) {
  return problem.attrs_as<WeightOnlyLinearAttrs>().trans_w;
}

Packed packed_of(const Problem& problem) {
  const SymShape& shape = problem.inputs[kWeightOnlyW].shape;
  const int64_t rows = shape[0].constant(), cols = shape[1].constant();
  return {WeightBits(problem),
          transposed(problem) ? WeightShape{cols, rows} : WeightShape{rows, cols}};
}

Packed parse_layout(std::string_view text) {
  const WeightShape shape = weight_shape_of(text);
  for (const DType type : {DType::kQ8, DType::kQ4, DType::kI8, DType::kU8}) {
    for (const int64_t bits : {8, 4}) {
      const Packed packed{{type, bits}, shape};
      if (text == packed.layout()) return packed;
    }
  }
  throw Error(ErrorCode::kInput, "a weight-only product's weight has layout \"" +
                                     std::string(text) +
                                     "\"; expected \"columns q8 of 8 bits K=.. N=..\", or q4, i8 "
                                     "or u8 of 8 or 4 bits; rebuild the engine");
}

std::vector<PackedConstant> pack(const Problem& problem) {
  const Packed to = packed_of(problem);
  const Tensor& w = *problem.inputs[kWeightOnlyW].constant;
  const auto [k, n] = to.shape;
  const bool trans = transposed(problem);
  PackedConstant packed{.input = kWeightOnlyW, .layout = to.layout(), .bytes = {}};
  packed.bytes.resize(to.bytes());
  for (int64_t i = 0; i < w.elems(); ++i) {
    const int64_t row = trans ? i % k : i / n, col = trans ? i / k : i % n;
    packed.bytes[to.byte(row, col)] |= static_cast<std::byte>(to.bits.held(w, i) << to.shift(row));
  }
  return {std::move(packed)};
}

Tensor unpack(const Problem& problem, const ConstantArg& constant) {
  const Packed from = parse_layout(constant.layout), expected = packed_of(problem);
  const auto [k, n] = from.shape;
  VERNIER_ASSERT(
      k == expected.shape.k && n == expected.shape.n && constant.bytes.size() == from.bytes(),
      std::string(constant.layout));
  const bool trans = transposed(problem);
  std::vector<std::byte> plain(static_cast<size_t>(k * n));
  for (int64_t i = 0; i < k * n; ++i) {
    const int64_t row = trans ? i % k : i / n, col = trans ? i / k : i % n;
    const int held = std::to_integer<int>(constant.bytes[from.byte(row, col)]) >> from.shift(row);
    plain[i] = from.bits.number(static_cast<uint8_t>(from.bits.bits == 4 ? held & 0xf : held));
  }
  return Tensor::from_bytes(from.bits.type, trans ? Shape{n, k} : Shape{k, n}, plain);
}

std::vector<PackedLayout> packed_layouts(const Problem& problem) {
  const Packed to = packed_of(problem);
  return {{.input = kWeightOnlyW, .layout = to.layout(), .bytes = to.bytes()}};
}

Support supports(const Problem& problem) {
  if (const Support weight = supports_weight_matrix(problem); !weight) return weight;
  if (const Support operands = weight_only_operands(problem); !operands) return operands;
  constexpr int64_t kMost = int64_t{1} << 30;
  for (const Dim& size : problem.inputs[kWeightOnlyW].shape) {
    if (!size.is_constant() || size.constant() > kMost) return no("the weight is too large");
  }
  return supports_residual(problem, kWeightOnlyResidual);
}

struct WeightOnlyState final : KernelState {
  WeightOnlyLinearAttrs attrs;
  Packed packed;
  const std::byte* w = nullptr;
};

std::unique_ptr<KernelState> create(const CreateCall& call) {
  auto state = std::make_unique<WeightOnlyState>();
  state->attrs = decode<WeightOnlyLinearAttrs>(call.attrs);
  for (const ConstantArg& constant : call.constants) {
    if (constant.input != 1) continue;
    state->packed = parse_layout(constant.layout);
    if (constant.bytes.size() == state->packed.bytes()) state->w = constant.bytes.data();
  }
  if (state->w == nullptr)
    throw Error(ErrorCode::kInput,
                "the engine holds no packed weight for a weight-only product; expected layout "
                "\"columns q8 of 8 bits K=.. N=..\"; rebuild the engine");
  return state;
}

LinearOperand operand(std::span<const TensorArg> operands, size_t i) {
  if (!given(operands, i)) return {};
  return {operands[i].data, operands[i].dtype};
}

void launch(const LaunchCall& call) {
  const auto& state = static_cast<const WeightOnlyState&>(*call.state);
  const TensorArg scale = call.in[kWeightOnlyScale], zero = operand_at(call.in, kWeightOnlyZero);
  const WeightOnlyLaunch product{.x = operand(call.in, kWeightOnlyX),
                                 .w = state.w,
                                 .scales = scale.as<const float>(),
                                 .zeros = zero.data,
                                 .bias = operand(call.in, kWeightOnlyBias),
                                 .residual = operand(call.in, kWeightOnlyResidual),
                                 .y = operand(call.out, 0),
                                 .m = rows_of(call.in[kWeightOnlyX]),
                                 .n = state.packed.shape.n,
                                 .k = static_cast<int>(state.packed.shape.k),
                                 .bits = static_cast<int>(state.packed.bits.bits),
                                 .block = static_cast<int>(state.attrs.block_size),
                                 .offset = static_cast<int>(state.packed.bits.offset()),
                                 .one_scale = scale.elems() == 1,
                                 .one_zero = zero.elems() == 1,
                                 .unsigned_zeros = zero.dtype == DType::kU8,
                                 .activation = static_cast<int>(state.attrs.activation)};
  check_cuda(launch_weight_only(product, stream_of(call.execution)), "WeightOnlyLinear");
}

}  // namespace

extern const KernelBody weight_only_columns;
constexpr KernelBody weight_only_columns{
    .supports = &supports,
    .numerics = &weight_only_numerics,
    .pack = &pack,
    .unpack = &unpack,
    .packed_layouts = &packed_layouts,
    .create = &create,
    .launch = &launch,
};

}  // namespace vernier::backend::cuda
