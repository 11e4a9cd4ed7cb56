// Shared by the linear kernels: the packed weight's layout and the view of a call as a product of
// [m, k] and [k, n]. Contract of the operator: LinearAttrs in core/attrs.h.
#pragma once
#include <optional>
#include <string_view>

#include "backend/cpu/body.h"
#include "backend/cpu/kernels/linear/gemm.h"

namespace vernier::backend::cpu {

/// Yes if input 1 is a constant matrix that is not empty.
Support supports_weight_matrix(const Problem& problem);
/// Yes if input `residual`, where it is present, has the shape of the result.
Support supports_residual(const Problem& problem, size_t residual);
/// Both: what every packed linear kernel needs.
Support supports_packed_weight(const Problem& problem);
/// As supports_packed_weight, and everything is f32.
Support supports_packed_linear(const Problem& problem);
/// Weight sizes of a supported problem.
struct WeightShape {
  int64_t k = 0, n = 0;
};
WeightShape weight_shape(const Problem& problem);
/// The sizes that a layout "... K=.. N=.." names; nothing unless both are in (0, 2^28), so that
/// their product in bytes fits 60 bits.
std::optional<WeightShape> parse_weight_shape(std::string_view layout);

/// gemm.h's panels in the weight's type: "panels64 f32 K=.. N=..", "panels64 f16 K=.. N=.." or
/// "panels64x2 bf16 K=.. N=..". The same for every kernel and machine.
std::vector<PackedConstant> pack_linear(const Problem& problem);
/// In the type that the layout names.
Tensor unpack_linear(const Problem& problem, const ConstantArg& packed);
std::vector<PackedLayout> linear_layouts(const Problem& problem);

/// Rows are worked on in units of 16, and 96 (Vernier's kernel) or 256 (oneDNN) at most at a time.
inline constexpr VariantSize kRowVariants[] = {
    {.size = 16, .repeats = true}, {.size = 96, .repeats = true}, {.size = 256, .repeats = true}};

/// The packed weight of a step.
struct PackedWeight {
  FloatsIn panels;
  WeightShape shape;
};
/// Throws Error(kInput) if the engine does not hold a weight packed in `type`.
PackedWeight packed_weight(const CreateCall& call, DType type);

/// One run seen as a matrix product followed by the epilogue.
struct LinearRun {
  explicit LinearRun(const LaunchCall& call);
  int64_t m, k, n;
  Rows rows;
  FloatsIn x;
  FloatsOut out;
  FloatsIn bias, residual;
  Activation activation;
  bool has_epilogue() const {
    return bias.present() || residual.present() || activation != Activation::kNone;
  }
  /// Epilogue of a block whose product is at src: rows from row0, columns from col0.
  EpilogueCall epilogue(int64_t row0, int64_t col0) const;
};

/// The implementation of a step on this machine (Vernier's kernels or oneDNN), made by create().
class LinearState : public KernelState {
 public:
  virtual std::unique_ptr<ShapeState> prepare(const PrepareCall& call) = 0;
  virtual void launch(const LaunchCall& call) const = 0;
};
/// Vernier's kernel on a packed weight.
std::unique_ptr<LinearState> make_highway_linear(const PackedWeight& weight);
/// oneDNN on a packed f32 or bf16 weight, inputs in the weight's type; null if this build or
/// machine has no product of that type whose rows are independent. Defined in onednn/ and
/// without_onednn/.
std::unique_ptr<LinearState> make_onednn_linear(const PackedWeight& weight, int parts);

/// Vernier's product of bf16 on tile registers (linear_tiles.cpp); null for other weights, and on
/// machines without them.
std::unique_ptr<LinearState> make_tile_linear(const PackedWeight& weight);

/// Tiles, unless they are not wanted, oneDNN or Vernier's kernel: the first that can run the step.
std::unique_ptr<LinearState> make_linear(const PackedWeight& weight, int parts, bool tiles = true);

std::unique_ptr<ShapeState> prepare_linear(const PrepareCall& call);
void launch_linear(const LaunchCall& call);

}  // namespace vernier::backend::cpu
