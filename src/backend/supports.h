// Rules of `supports` that the kernels of all devices share, for operators whose devices add few
// rules of their own. Contract: KernelBody::supports in backend/kernel.h.
#pragma once
#include "backend/body.h"
#include "backend/operands.h"
#include "core/attrs.h"

namespace vernier::backend {

/// Inputs of QuantizedLinear, see QuantizedLinearAttrs.
enum QuantizedInput : size_t {
  kQuantizedX,
  kQuantizedW,
  kXScale,
  kWScale,
  kXZero,
  kWZero,
  kQuantizedBias,
  kQuantizedResidual
};
/// Yes if x is f32, f16 or bf16, q q8, and the scales and zero points f32.
Support quantize_rows_operands(const Problem& problem);
/// Is `next` a QuantizeRows of the last axis of what `own` gives? For KernelBody::joins.
bool quantizes_result_of(const Problem& own, const Problem& next);
/// Is `next` a QuantizeRows, by a given scale, of all heads of a query that the attention `own`
/// gives?
bool quantizes_heads_of(const Problem& own, const Problem& next);
/// Yes if the scales are f32, those of the weight and its zero points constants, and bias, residual
/// and result f32 or of 16 bits. Says nothing of x and w.
Support quantized_operands(const Problem& problem);
/// Operands of q8 are rounded to it, integers of the model are not; sums are of i32, the rest f32.
Numerics quantized_numerics(const Problem& problem);

/// Inputs of WeightOnlyLinear, see WeightOnlyLinearAttrs.
enum WeightOnlyInput : size_t {
  kWeightOnlyX,
  kWeightOnlyW,
  kWeightOnlyScale,
  kWeightOnlyZero,
  kWeightOnlyBias,
  kWeightOnlyResidual
};
/// Of a WeightOnlyLinear everything is f32, but a weight that is rounded is so to q8 or q4.
Numerics weight_only_numerics(const Problem& problem);
/// Yes if the weight is a constant of its bits, scale and zero points are constants, and the others
/// are f32, f16 or bf16; blocks of a multiple of 8 rows.
Support weight_only_operands(const Problem& problem);

/// The numbers of its weight in a packed one, each in `bits` bits: signed in 8, from 0 to 15 in 4.
struct WeightBits {
  DType type = DType::kQ8;
  int64_t bits = 8;
  explicit WeightBits(const Problem& problem);
  WeightBits(DType of, int64_t count) : type(of), bits(count) {}
  /// What a number is held as, less itself.
  int64_t offset() const;
  /// Element `i` of the weight as it is held, in the lowest bits; a real one is rounded.
  uint8_t held(const Tensor& weight, int64_t i) const;
  /// The number that is held so, as a byte of `type`.
  std::byte number(uint8_t held) const;
  /// "q4 of 4 bits"
  std::string text() const;
};

/// Inputs of Attention, see AttentionAttrs.
using enum AttentionAttrs::Input;
/// Yes if the float operands are f32, f16 or bf16, q, k and v have four axes, the tables (bias,
/// keep, cos, sin) at most four, keep is bool, and cu_seqlens and rotary tables come in pairs.
Support attention_operands(const Problem& problem);

/// Inputs of Resize, see ResizeAttrs.
enum ResizeInput : size_t { kResizeX, kResizeScales = 2, kResizeSizes };
/// Yes if the input has axes, and sizes or constant scales give the output's shape without an
/// aspect ratio policy. Says nothing about types.
Support resize_operands(const Problem& problem);
/// Number of axes whose elements may differ from the input's for some shape that the symbols allow.
/// Only for problems that resize_operands() accepts.
int resized_axes(const Problem& problem);

}  // namespace vernier::backend
