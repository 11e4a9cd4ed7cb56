// OpKind: one number per row of ops/ops.def, the only list of operators. The numbers may change
// with the list; engine files and kernels.def use the names.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace vernier {

enum class OpKind : uint16_t {
#define OP(kind, ...) k##kind,
#include "ops/ops.def"
#undef OP
};

enum OpFlags : uint32_t {
  kNoFlags = 0,
  kElementwise = 1,     ///< output element i depends on the (broadcast) input elements i only
  kCommutative = 2,     ///< two inputs, order free
  kView = 4,            ///< pure layout: may become an alias of its input; always with kMoves
  kComposite = 8,       ///< stands for several ONNX nodes
  kDataDependent = 16,  ///< output shape depends on input values
  kDiscrete = 32,       ///< a small input change can flip the output (comparisons, ArgMax, …)
  kBoolResult = 64,     ///< the output is bool whatever the inputs are
  kProduct = 128,       ///< sums of products over long axes: 16-bit modes lower its operands
  kOptionalBias = 256,  ///< input 2 may be absent, although later inputs are required
  /// Every element of a result is an unchanged element of input 0; other inputs select which. Not
  /// Concat, Where and Pad, which take elements of several inputs.
  kMoves = 512,
};

/// The name in text form, plans, kernels.def and ledgers ("LayerNorm").
std::string_view name(OpKind kind);
std::optional<OpKind> parse_op_kind(std::string_view text);
uint32_t flags(OpKind kind);
size_t num_op_kinds();
/// How many inputs and outputs an operator has; max −1: any number.
struct Arity {
  int min_in, max_in, max_out;
};
Arity arity(OpKind kind);
/// Is input `i` required?
bool requires_input(OpKind kind, size_t i);
/// Is it exact? Its floats are unchanged elements of its inputs (kMoves, and Concat, Where, Pad and
/// MaxPool with several sources) or fixed numbers (a fill, 0 and 1). False for operators with bool
/// results.
bool is_exact(OpKind kind);
/// Has the result the elements of input 0 in the same order, in another shape?
bool only_reshapes(OpKind kind);
/// The operator's rounding points, e.g. {"q","k","v","scores","probs","context","out"}.
std::span<const std::string_view> rounding_points(OpKind kind);

}  // namespace vernier
