// Rules of `supports` that the kernels of all devices share, for operators whose devices add few
// rules of their own. Contract: KernelBody::supports in backend/kernel.h.
#pragma once
#include "backend/operands.h"
#include "core/attrs.h"

namespace vernier::backend {

/// Inputs of Attention, see AttentionAttrs.
enum AttentionInput : size_t { kQ, kK, kV, kBias, kKeep, kStartsQ, kStartsK, kCos, kSin };
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
