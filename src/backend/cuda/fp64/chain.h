// Elementwise operators whose results nobody has read yet: one kernel computes several of them, and
// what is between them is never written. A graph as exporters write it has GELU in five operators.
#pragma once
#include <memory>
#include <variant>

#include "backend/cuda/fp64/array.h"
#include "backend/cuda/fp64/launch.h"

namespace vernier::backend::cuda::fp64 {

/// The last operator of a chain; the one before it gives its operand.
struct ChainStep {
  std::shared_ptr<const ChainStep> before;  ///< null: the chain begins with `first`
  std::shared_ptr<const Array> first;
  std::variant<Unary, Binary> function;
  /// Of a Binary: an array at `layout`'s strides; null: what the chain was after `earlier` steps.
  std::shared_ptr<const Array> other;
  Layout layout;
  int32_t earlier = 0;
  bool other_is_left = false;
  int32_t length = 1;  ///< of the chain up to here
};

/// y = f(x), and y = f(a, b) over the layout of both operands; null: none of them has as many
/// elements as the result, which does not wait then.
std::shared_ptr<const Array> chained(Unary function, const std::shared_ptr<const Array>& x);
std::shared_ptr<const Array> chained(Binary function, const Layout& layout,
                                     const std::shared_ptr<const Array>& a,
                                     const std::shared_ptr<const Array>& b);

/// Computes a chain into y. Functions throw Error(kMachine) if the device fails.
void run_chain(const ChainStep& last, int64_t elems, double* y);

}  // namespace vernier::backend::cuda::fp64
