// The text form of a graph, for tests and `inspect --dump-graph`.
//
//   graph main(%ids: i64[batch, seq], %x: f32[batch, seq, 8]) {
//     %w = const f32[2, 2]{1, 2, 3, 4}       values in row-major order
//     %h: f32[batch, seq, 4] = MatMul(%x, %v)
//     %y: f32[batch, seq, 4] = Mul(%h, f32{0.5}) from "3#17|/layer/Mul|Mul|scores"
//     %a: f32[batch, seq, 2], _ = Split(%y) {axis=2, num_outputs=2}
//     guard batch == other "node 'add' (Add)"
//     symbol s6 = batch
//     return %y as "output"
//   }
//
// A value is %name (its ONNX name, if that is a short identifier), %"any name" (graph inputs only)
// or %number. `_` is an absent input or an unwanted output. A constant is on its own line or inside
// the operands (i64[2]{1, 2}, f32{0.5}); instead of values, `fill(c)` and
// `normal(seed=7, mean=0, std=1)` generate it. `#` and `//` start a comment. Types of node results
// may be omitted if the reader infers them. Attributes: core/op_attrs.h.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace vernier::ir {

struct PrintOptions {
  /// Constants with more elements are printed as {...}, which cannot be parsed. Negative: every
  /// constant is printed in full.
  int64_t max_constant_elems = -1;
  enum class Names : uint8_t { kOnnx, kNumbers } names = Names::kOnnx;
  enum class Origins : uint8_t { kHide, kShow } origins = Origins::kHide;
  enum class Types : uint8_t { kShow, kHide } types = Types::kShow;
  /// The request of each node, as a comment after it: "# compute >= f16, store >= f16 (mode fp16)".
  enum class Requests : uint8_t { kHide, kShow } requests = Requests::kHide;
};

std::string print(const Graph& graph, const PrintOptions& options = {});

/// Sets the types and shapes of a node's outputs (ops::infer_node).
using InferFn = void (*)(Graph& graph, NodeId node);

/// Inverse of print(). With `infer`, result types may be omitted; given types must agree with the
/// inferred ones. Without it every used result needs its type.
/// Throws Error(kInput) with line and column on anything malformed, undefined or defined twice.
std::shared_ptr<Graph> parse(std::string_view text, InferFn infer = nullptr);

}  // namespace vernier::ir
