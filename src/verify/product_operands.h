// The operands of a product as its kernel multiplies them, read off a launch. Shared by the checks
// that judge products without evaluating them whole (projection.h, sampled_products.h).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "core/constant_cache.h"
#include "core/rounding.h"
#include "core/tensor.h"
#include "plan/plan.h"
#include "runtime/session_impl.h"

namespace vernier::verify {

/// Which inputs of a Linear, QuantizedLinear or MatMul are what.
struct ProductRoles {
  size_t bias = 2, residual = 3;
  bool quantized = false, trans_w = false;
  // Of the weight: none where they are absent. Rows of w that share a scale; 0: all.
  std::optional<size_t> scale = {}, zero = {};
  int64_t block = 0;
};
ProductRoles product_roles(const plan::Step& step);
/// Are its sums and what follows them in f32 or better? Sums in less are no matter of noise.
bool sums_in_f32(const plan::Step& step);

/// The rows of an array of floats in FP64, some at a time. The array must outlive it.
class FloatRows {
 public:
  FloatRows(const backend::TensorArg& arg, int64_t cols);
  int64_t count() const { return count_; }
  /// Rows [begin, end), in the memory of `to`.
  void read(int64_t begin, int64_t end, EvalTensor& to) const;

 private:
  Tensor dense_;  // of an array that is not: its copy
  const std::byte* data_;
  DType dtype_;
  int64_t cols_, count_;
};

/// Input `i` in FP64; empty where it is absent.
std::optional<EvalTensor> given(const backend::LaunchCall& call, size_t i);
/// An operand rounded at its point.
void round_operand(const Rounding& rounding, size_t point, EvalTensor& t);
/// Does rounding leave this operand as it is, since it is stored in the type already?
bool leaves_operand(const Rounding& rounding, size_t point, DType stored);
/// Input 1, packed or not, as the engine holds it. `constants`, where given: those that evaluations
/// share.
std::shared_ptr<const EvalTensor> weight_of(const plan::Plan& plan, const backend::Backend& backend,
                                            const plan::Step& step, const backend::LaunchCall& call,
                                            ConstantCache* constants = nullptr);
/// Input 0 as the sum takes it: in int8, without its zero point and in units of 1.
EvalTensor operand_of(const backend::LaunchCall& call, const ProductRoles& roles,
                      const Rounding& rounding);

}  // namespace vernier::verify
