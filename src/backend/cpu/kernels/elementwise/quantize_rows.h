// A launch of cpu.quantize_rows.rows by rows, for kernels that join such a step
// (KernelBody::joins) too.
#pragma once
#include "backend/operands.h"

namespace vernier::backend::cpu {

/// q = x·factor·inverse + zero, rounded: of a QuantizeRows to q8 whose scale is given.
struct GivenScale {
  float inverse, zero;
};
struct GivenRows {
  int8_t* q = nullptr;             ///< rows of `cols`
  const float* factors = nullptr;  ///< by column; null: 1
  GivenScale by{};
  int64_t cols = 0;

  /// Of a step to q8.
  static GivenRows of(const LaunchCall& call);
  /// From row `row` and column `col` on.
  GivenRows at(int64_t row, int64_t col) const {
    return {q + row * cols + col, factors == nullptr ? nullptr : factors + col, by, cols};
  }
};
/// Does `next` quantize to q8 by a given scale?
bool is_given_q8(const Problem& next);

void launch_quantize_rows(const LaunchCall& call);

class QuantizeRowsLaunch {
 public:
  /// `call` must outlive it.
  explicit QuantizeRowsLaunch(const LaunchCall& call);
  int64_t rows() const { return rows_.count(); }
  int64_t cols() const { return cols_; }
  /// Quantizes row `r`; its x must be there.
  void run(int64_t r) const;

 private:
  const TensorArg& x_;
  Rows rows_;
  int64_t cols_;
  const float* factors_;
  bool is_f8_;  ///< q is f8e4m3, else q8
  uint8_t* q_;
  float *scales_, *zeros_;
  bool is_given_ = false;
  GivenScale by_{};
};

}  // namespace vernier::backend::cpu
