// Elementwise programs as device code runs them, and the host-side entries of elementwise_f32.cu
// and elementwise_wide.cu: plain types, so that nvcc sees no C++20 header.
//
// A machine with one accumulator: kLoad fills it, kSave keeps it for later, every operator is
// accumulator = op(accumulator, b, c). Operands come from an input's memory, from what was saved,
// or are a number. Each thread runs the program on 16 elements (4 of the wide machine) at once.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/arrays.h"

namespace vernier::backend::cuda {

/// The numbers of OpKind, for device code.
enum class ElementwiseOp : uint16_t {
#define OP(kind, ...) k##kind,
#include "ops/ops.def"
#undef OP
  kLoad,  ///< accumulator = b
  kSave,  ///< saved[b_index] = accumulator
};

enum class OperandFrom : uint8_t { kNowhere, kInput, kSaved, kBeta };

struct ElementwiseStep {
  ElementwiseOp op = ElementwiseOp::kLoad;
  OperandFrom b = OperandFrom::kNowhere, c = OperandFrom::kNowhere;
  uint8_t b_index = 0, c_index = 0;
  uint8_t variant = 0;               ///< as InstructionNumbers::variant
  DType type{}, b_type{}, result{};  ///< of accumulator, b and result: computed types
  double alpha = 0, beta = 0;        ///< attributes; beta is also the operand kBeta
};

/// How an input lies under vectors of the output.
enum class Access : uint8_t {
  kScalar,    ///< one element for all
  kDense,     ///< all elements lie as those of the output do, aligned
  kVector,    ///< a vector of the output is one of the input, aligned
  kSplat,     ///< a vector of the output is one element
  kElements,  ///< each element on its own
};

struct ElementwiseInput {
  AnyArray array;
  Access access = Access::kElements;
  int64_t strides[kMaxAxes] = {};
};

inline constexpr int kMaxElementwiseInputs = 16, kMaxElementwiseSteps = 64, kMaxSaved = 8;

struct ElementwiseLaunch {
  ElementwiseStep steps[kMaxElementwiseSteps];
  ElementwiseInput inputs[kMaxElementwiseInputs];
  StridedIndex
      shape;     ///< of the output, axes merged where all inputs allow; its strides are unused
  AnyArray out;  ///< dense
  int64_t count = 0;
  int step_count = 0, input_count = 0;
  bool out_is_aligned = false;  ///< to vectors
};

/// Programs whose values are all f32 or bool: inputs and output f32, f16, bf16 or bool in any mix,
/// arithmetic in f32, the result rounded once to the output's type. Vectors of 4 elements. An
/// element's bits depend on its own operands only. Reads each input once.
inline constexpr int kElementwiseLanes = 4;
cudaError_t launch_elementwise_f32(const ElementwiseLaunch& launch, cudaStream_t stream);

/// One operator on arrays of one float type (Cast: of two), by a kernel of its own, with the same
/// bits as the program of that one step. `a` and `y` are dense and aligned to 16 bytes. The second
/// operand lies at `b_index` of the output's elements, fewer than 2^31 then, or is dense or a
/// number; its vectors are of 16 bytes where `second` says that it has such, and the last axis has
/// at least as many elements where it has not.
struct CommonElementwiseLaunch {
  ElementwiseOp op = ElementwiseOp::kCast;
  DType a_type{}, y_type{};
  Access second = Access::kScalar;
  uint8_t variant = 0;
  float alpha = 0;
  const void *a = nullptr, *b = nullptr;
  void* y = nullptr;
  int64_t count = 0;
  StridedIndex b_index;  ///< no axes: a number
};
/// True if there is such a kernel for `op` on operands of type `a` giving `y`.
bool is_common_elementwise(ElementwiseOp op, DType a, DType y);
cudaError_t launch_elementwise_common(const CommonElementwiseLaunch& launch, cudaStream_t stream);

/// Any types but f8: integers exactly in 64 bits, wrapped to their type after each operator; floats
/// in f64, rounded to f32 after each operator on f32. Vectors are of one element. Integer division
/// by zero gives 0.
cudaError_t launch_elementwise_wide(const ElementwiseLaunch& launch, cudaStream_t stream);

/// Short programs on integers and bool, all operands dense or numbers, whose last step may be a
/// Cast to a float type: what models make of ids and masks before their first layer, a few hundred
/// elements, where all that counts is how many lines of code and arguments come from memory (a
/// program of three operators took 17 us in the wide machine at the head of a graph on an H200).
/// The same bits as launch_elementwise_wide.
struct IntegerStep {
  ElementwiseOp op = ElementwiseOp::kLoad;  ///< is_integer_step_op()
  DType result{};
  int8_t input = -1;  ///< operand b, where there is one
};
inline constexpr int kMaxIntegerInputs = 4, kMaxIntegerSteps = 6;
struct IntegerLaunch {
  struct Input {
    void* data = nullptr;
    DType type{};
    bool is_scalar = false;
  };
  int64_t count = 0;
  void* y = nullptr;
  DType y_type{};
  uint8_t step_count = 0;
  Input inputs[kMaxIntegerInputs];
  IntegerStep steps[kMaxIntegerSteps];  ///< the first is kLoad
};
bool is_integer_step_op(ElementwiseOp op);
cudaError_t launch_elementwise_integers(const IntegerLaunch& launch, cudaStream_t stream);

}  // namespace vernier::backend::cuda
