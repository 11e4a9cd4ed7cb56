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
/// An output that is not wanted has dtype kUndefined and must not be written.
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
/// If no output has elements, it reads only values that it may refuse (core/value_rules.h).
EvalFn evaluator(OpKind kind);

}  // namespace vernier
