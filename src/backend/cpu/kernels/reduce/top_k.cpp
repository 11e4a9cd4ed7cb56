// cpu.top_k.heap: the k largest or smallest elements of every line along one axis, best first, and
// their indices. Contract: TopKAttrs in core/attrs.h.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "backend/cpu/body.h"
#include "core/error.h"

namespace vernier::backend::cpu {
namespace {

/// A kept element: the line's best have the largest keys; of equal keys the first index is better.
struct Candidate {
  uint64_t key;
  int64_t index;
};
bool is_better(const Candidate& a, const Candidate& b) {
  return a.key != b.key ? a.key > b.key : a.index < b.index;
}

/// Types as bits. key(bits) rises with the value; every NaN has the largest key, −0 that of +0.
template <class Bits>
struct UnsignedType {
  using bits = Bits;
  static Bits key(Bits b) { return b; }
};
template <class Bits>
struct SignedType {
  using bits = Bits;
  static constexpr auto kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  static Bits key(Bits b) { return b ^ kSign; }
};
/// `kInfinity`: the bits of +inf; larger magnitudes are NaN.
template <class Bits, Bits kInfinity>
struct FloatType {
  using bits = Bits;
  static constexpr Bits kSign = SignedType<Bits>::kSign;
  static Bits key(Bits b) {
    const auto magnitude = static_cast<Bits>(b & ~kSign);
    if (magnitude > kInfinity) return std::numeric_limits<Bits>::max();
    if (magnitude == 0) return kSign;
    return static_cast<Bits>((b & kSign) != 0 ? ~b : b | kSign);
  }
};

/// One line of `size` elements with step `step`.
struct Line {
  const std::byte* data;
  int64_t size, step;
};

/// kept[0, k) = the k best elements of the line, best first. 0 < k <= size. One pass: a heap of the
/// best so far whose root is the worst of them; few elements of a long line beat it.
template <class Type, bool kLargest>
void select(const Line& line, Candidate* kept, int64_t k) {
  using Bits = typename Type::bits;
  const auto* x = reinterpret_cast<const Bits*>(line.data);
  const auto key_at = [&](int64_t i) {
    const Bits key = Type::key(x[i * line.step]);
    return static_cast<Bits>(kLargest ? key : ~key);
  };
  for (int64_t i = 0; i < k; ++i) kept[i] = {key_at(i), i};
  std::make_heap(kept, kept + k, is_better);
  // A later element with the root's key does not come before it.
  auto worst = static_cast<Bits>(kept[0].key);
  for (int64_t i = k; i < line.size; ++i) {
    const Bits key = key_at(i);
    if (key <= worst) continue;
    std::pop_heap(kept, kept + k, is_better);
    kept[k - 1] = {key, i};
    std::push_heap(kept, kept + k, is_better);
    worst = static_cast<Bits>(kept[0].key);
  }
  std::sort(kept, kept + k, is_better);
}

using Select = void (*)(const Line& line, Candidate* kept, int64_t k);

template <bool kLargest>
Select select_for(DType type) {
  switch (type) {
    case DType::kF16:
      return &select<FloatType<uint16_t, 0x7c00>, kLargest>;
    case DType::kBF16:
      return &select<FloatType<uint16_t, 0x7f80>, kLargest>;
    case DType::kF32:
      return &select<FloatType<uint32_t, 0x7f800000>, kLargest>;
    case DType::kF64:
      return &select<FloatType<uint64_t, 0x7ff0000000000000>, kLargest>;
    case DType::kI8:
      return &select<SignedType<uint8_t>, kLargest>;
    case DType::kI16:
      return &select<SignedType<uint16_t>, kLargest>;
    case DType::kI32:
      return &select<SignedType<uint32_t>, kLargest>;
    case DType::kI64:
      return &select<SignedType<uint64_t>, kLargest>;
    case DType::kU8:
      return &select<UnsignedType<uint8_t>, kLargest>;
    case DType::kU16:
      return &select<UnsignedType<uint16_t>, kLargest>;
    case DType::kU32:
      return &select<UnsignedType<uint32_t>, kLargest>;
    case DType::kU64:
      return &select<UnsignedType<uint64_t>, kLargest>;
    default:
      return nullptr;
  }
}

Support supports_top_k(const Problem& problem) {
  const DType type = problem.inputs[0].dtype;
  if (select_for<true>(type) == nullptr) return no("no loop for " + std::string(name(type)));
  return one_float_type(problem);
}

/// Both outputs have one shape; one of them may be unwanted.
const TensorArg& any_output(std::span<const TensorArg> out) {
  return given(out[0]) ? out[0] : out[1];
}

size_t kept_bytes(int64_t k) { return round_to_line(static_cast<size_t>(k) * sizeof(Candidate)); }

std::unique_ptr<ShapeState> prepare_top_k(const PrepareCall& call) {
  const TensorArg& x = call.in[0];
  const auto axis =
      static_cast<int>(positive_axis(decode<TopKAttrs>(call.attrs).axis, call.in[0].rank));
  const int64_t k = any_output(call.out).dim(axis);
  if (k > x.dim(axis)) {
    throw Error(ErrorCode::kInput, "TopK: k = " + std::to_string(k) + " is more than the " +
                                       std::to_string(x.dim(axis)) + " elements of axis " +
                                       std::to_string(axis));
  }
  return workspace_only(kept_bytes(k) * static_cast<size_t>(call.execution.threads->size()));
}

/// values, indices = the k first elements of each line along `axis` in the order of the attributes:
/// largest or smallest first, equal ones by index, NaN above every number; −0 equals +0. `sorted`
/// changes nothing: the result always is.
/// x        any shape and strides, f16|bf16|f32|f64|integers. values: as x, with k elements along
///          the axis; indices: i64. k is the size of the outputs.
/// Error    exact: elements are moved as bits.
/// Cost     reads x once; a line of n costs n comparisons and, in random order, about k·ln(n/k)
///          heap steps. Threads take whole lines.
/// Workspace 16·k bytes per part.
void launch_top_k(const LaunchCall& call) {
  const auto attrs = decode<TopKAttrs>(call.attrs);
  const TensorArg& x = call.in[0];
  const TensorArg &values = call.out[0], &out = any_output(call.out);
  const TensorArg indices = call.out.size() > 1 ? call.out[1] : TensorArg{};
  const auto axis = static_cast<int>(positive_axis(attrs.axis, x.rank));
  const int64_t k = out.dim(axis), size = x.dim(axis);
  if (out.elems() == 0) return;
  const Select select = attrs.largest ? select_for<true>(x.dtype) : select_for<false>(x.dtype);
  const auto width = static_cast<int64_t>(size_bytes(x.dtype));
  const Rows x_lines = lines_along(x, axis), out_lines = lines_along(out, axis);
  const int64_t x_step = x.stride(axis), out_step = out.stride(axis);
  const int64_t grain = std::max<int64_t>(1, 4096 / size);
  call.execution.threads->parallel_for(
      x_lines.count(), grain, [&](int64_t begin, int64_t end, int part) {
        auto* kept = reinterpret_cast<Candidate*>(call.workspace +
                                                  static_cast<size_t>(part) * kept_bytes(k));
        for (int64_t l = begin; l < end; ++l) {
          const std::byte* src = x.data + x_lines.offset(l) * width;
          select({src, size, x_step}, kept, k);
          for (int64_t n = 0; n < k; ++n) {
            const int64_t to = out_lines.offset(l) + n * out_step;
            if (given(values)) {
              std::copy_n(src + kept[n].index * x_step * width, width, values.data + to * width);
            }
            if (given(indices)) indices.as<int64_t>()[to] = kept[n].index;
          }
        }
      });
}

}  // namespace

extern const KernelBody top_k_heap;
constexpr KernelBody top_k_heap{
    .supports = &supports_top_k,
    .numerics = &exact_numerics,
    .strided_inputs = 1,
    .prepare = &prepare_top_k,
    .launch = &launch_top_k,
};

}  // namespace vernier::backend::cpu
