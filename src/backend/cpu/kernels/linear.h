// What the linear kernels share: the packed weight's layout and the view of a call as a product of
// [m, k] and [k, n]. Contract of the operator: LinearAttrs in core/attrs.h.
#pragma once
#include "backend/cpu/body.h"
#include "backend/cpu/kernels/gemm.h"

namespace vernier::backend::cpu {

/// Constant f32 weight of rank 2 (or a reason why not): what every packed linear kernel needs.
Support supports_packed_linear(const Problem& problem);
/// Weight sizes of a supported problem.
struct WeightShape {
  int64_t k = 0, n = 0;
};
WeightShape weight_shape(const Problem& problem);

/// Layout "panels64 f32 K=.. N=..": gemm.h's panels. The same for every kernel and machine.
std::vector<PackedConstant> pack_linear(const Problem& problem);
Tensor unpack_linear(const Problem& problem, const ConstantArg& packed);
bool linear_layout_is_current(std::string_view layout);

/// The packed weight of a step; throws Error(kInput) if the engine holds something else.
const float* packed_weight(const CreateCall& call);

/// One run seen as a matrix product followed by the epilogue.
struct LinearRun {
  explicit LinearRun(const LaunchCall& call);
  int64_t m, k, n;
  Rows rows;
  const float* x;
  float* out;
  const float* bias;
  const float* residual;
  Activation activation;
  bool has_epilogue() const {
    return bias != nullptr || residual != nullptr || activation != Activation::kNone;
  }
  /// Epilogue of a block whose product stands at src: rows from row0, columns from col0.
  EpilogueCall epilogue(int64_t row0, int64_t col0) const;
};

/// How a step runs on this machine (own kernel or oneDNN), made by create().
class LinearState : public KernelState {
 public:
  virtual std::unique_ptr<ShapeState> prepare(const PrepareCall& call) = 0;
  virtual void launch(const LaunchCall& call) const = 0;
};
/// The own kernel on a packed weight.
std::unique_ptr<LinearState> make_highway_linear(const float* packed);

std::unique_ptr<ShapeState> prepare_linear(const PrepareCall& call);
void launch_linear(const LaunchCall& call);

}  // namespace vernier::backend::cpu
