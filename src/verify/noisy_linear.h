// A Linear whose float operands are a little off, many times for one product.
#pragma once
#include <span>
#include <vector>

#include "core/attr_codec.h"
#include "core/tensor.h"

namespace vernier::verify {

/// Evaluates y = act(x·w + bias) + residual in FP64 with relative noise on every float operand.
/// Where the factors of a sum x·w are off by independent noise of deviation u, the sum is off by
/// noise of deviation u·√(2·Σ(x·w)²), nearly normal: it is drawn for each sum, and the product of a
/// draw need not be computed.
class NoisyLinear {
 public:
  /// `inputs` of a Linear: x, w, and bias and residual, which may be null or absent. They and the
  /// attributes must outlive this. `dtype` and `shape` are those of y.
  NoisyLinear(AttrView attrs, std::span<const EvalTensor* const> inputs, DType dtype, Shape shape);
  /// y without noise.
  EvalTensor exact() const;
  /// y where operands are off by noise of deviation `size`, drawn with `seed` and its next ones.
  EvalTensor draw(double size, uint64_t seed) const;

 private:
  std::vector<double> products(const EvalTensor& x, const EvalTensor& w) const;
  EvalTensor finished(std::span<const EvalTensor* const> inputs, EvalTensor sums) const;

  AttrView attrs_;
  std::span<const EvalTensor* const> inputs_;
  DType dtype_;
  Shape shape_;
  std::vector<double> sums_, roots_;  // Σ x·w, and √(2·Σ(x·w)²)
};

}  // namespace vernier::verify
