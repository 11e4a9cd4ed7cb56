// Checks shared by inference functions: types, ranks, broadcasting to another shape, values. All
// fail through InferContext::fail, naming the node.
#pragma once
#include "rules/context.h"
#include "rules/rules.h"

namespace vernier::rules {

/// Input `i` has the type of input `as`.
void require_same_type(InferContext& context, size_t i, size_t as = 0);
/// Input `i` is a float tensor.
void require_float(InferContext& context, size_t i);
/// Input `i` is an integer tensor (not bool).
void require_integer(InferContext& context, size_t i);
void require_rank(InferContext& context, size_t i, int64_t rank);
/// Input `i`, if present, is i32 or i64, as ONNX requires of axes, starts and sizes: kernels read
/// them as signed numbers.
void require_signed_index(InferContext& context, size_t i);
/// As above, and the input is a list or one number: kernels read it along its one axis.
void require_list(InferContext& context, size_t i);
/// Input `i` has one element, whatever its rank.
void require_one_element(InferContext& context, size_t i);
/// A number of the attributes is in [low, high]. Numbers up to kLargestNumber are safe to compute
/// with: sums and products of two of them and sizes fit 64 bits.
inline constexpr int64_t kLargestNumber = int64_t{1} << 31;
void require_between(InferContext& context, const char* what, int64_t value, int64_t low,
                     int64_t high = kLargestNumber);
/// No axis of `axes` (counted from the front) is named twice.
void require_distinct(InferContext& context, const std::vector<size_t>& axes);
/// The size of axis `axis` of output `output`, which only the data says: InferContext::fresh_size,
/// named after operator, output and axis.
Dim data_size(InferContext& context, size_t axis, const std::optional<Dim>& upper = std::nullopt,
              size_t output = 0);
/// The number of elements of the list in input `i`: the number of axes that it describes, which
/// must be known although its contents are not.
size_t list_length(InferContext& context, size_t i);
/// Checks the operator's value rules (core/value_rules.h) for inputs that are known when the engine
/// is built (constants, contents that are sizes); conditions on sizes become guards.
void check_values(InferContext& context);
/// Input `i` broadcasts to `target` without changing it: its sizes, aligned at the right, are 1 or
/// equal (unified).
void require_fits(InferContext& context, size_t i, const SymShape& target);
/// Runs `body`; an Error that it throws gets the node's name.
template <class Body>
auto with_node(InferContext& context, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    context.fail(error.what());
  }
}

/// Bytes of all inputs and outputs, each once.
double tensor_bytes(const CostCall& call);

// Inference functions of ops.def that other rules call.
void infer_same(InferContext& context);
void infer_broadcast(InferContext& context);
void infer_same_float(InferContext& context);
void infer_same_integer(InferContext& context);
void infer_broadcast_float(InferContext& context);
void infer_broadcast_integer(InferContext& context);

}  // namespace vernier::rules
