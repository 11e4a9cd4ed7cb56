// A launch of cpu.quantize_rows.rows by rows, for kernels that join such a step
// (KernelBody::joins) too.
#pragma once
#include "backend/operands.h"

namespace vernier::backend::cpu {

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
  float inverse_ = 0, zero_ = 0;
};

}  // namespace vernier::backend::cpu
