// The contract of the naive FP64 evaluators in src/reference: constant folder, reference and
// oracle.
#pragma once
#include <span>

#include "core/attr_codec.h"
#include "core/op_kind.h"
#include "core/rounding.h"
#include "core/tensor.h"

namespace vernier {

/// One evaluation. in[i] is null for an absent optional input. Every out[i] arrives zero-filled
/// with its dtype and shape set from shape inference; only kDataDependent operators may reshape it.
/// An output the caller does not want has dtype kUndefined: leave it alone.
struct EvalCall {
  AttrView attrs;
  std::span<const EvalTensor* const> in;
  std::span<EvalTensor> out;
  const Rounding& rounding;
  /// Input i, or null where it is absent.
  const EvalTensor* optional(size_t i) const { return i < in.size() ? in[i] : nullptr; }
};

/// Floats in double, integers exactly in int64 (wrap with wrap_integer). Throws Error(kInput) when
/// values are impossible (an index outside its table), naming value, range and position.
using EvalFn = void (*)(const EvalCall&);

/// The evaluator of an operator, from its row in ops.def (defined in src/reference/table.cpp).
/// Where no output has elements, it looks at nothing but values that may be refused
/// (core/value_rules.h).
EvalFn evaluator(OpKind kind);

}  // namespace vernier
