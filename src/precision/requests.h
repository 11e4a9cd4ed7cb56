// The types requested of each ONNX node (docs/architecture.md "Words": request). In rising
// priority: the model's own types, the mode, the user's rules (policy.h). Contract:
// docs/precision.md.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace vernier::precision {

enum class Mode : uint8_t {
  kModel,  ///< the model's own float types: f32, or the 16-bit types it was exported with
  kFp32,   ///< every float operation in at least f32, never TF32
  kTf32,   ///< products take tf32 operands, everything else f32
  kFp16,  ///< products take f16 operands, values are stored in f16; everything else computes in f32
  kBf16,  ///< as fp16, in bf16
  kInt8,  ///< as fp16, but products with a constant weight take int8 operands, heads excepted
  kFp8,   ///< as int8, with operands of f8e4m3
  kW8,    ///< the 16-bit mode of the device, but weights of these products are int8
  kW4,    ///< the same with weights of 4 bits
};

std::string_view name(Mode mode);
std::optional<Mode> parse_mode(std::string_view text);
/// The compute type of the products that a mode quantizes; kUndefined: it quantizes none.
DType quantized_type(Mode mode);

/// Sets Origin::asked of every ONNX node of a raised graph that computes floats: the default of
/// `mode`. Products (kProduct) take the mode's operand type and accumulate in f32; all others
/// compute in f32; results are stored in the mode's type. Values that only masks, comparisons or
/// conversions to integers read, and the model's outputs, are stored in the model's types. In mode
/// int8 and fp8 attention's operands, and what only they are made of, have type `attended`; in
/// modes w8 and w4 so has everything that a 16-bit mode narrows.
void ask_mode(ir::Graph& raised, Mode mode, DType attended = DType::kF16);

/// Sets Node::request of every live node from the requests of its ONNX nodes. Returns the keys of
/// ONNX nodes whose requests conflict with the rest of their composite: the caller raises again
/// with those kept apart (Node::apart).
std::set<std::string> join_requests(ir::Graph& raised);

/// Do the 16-bit modes lower the operands of this ONNX operator ("MatMul", "Conv", "Attention")?
bool is_product(std::string_view onnx_op);

/// Does `a` come after `b` in the file? Keys are "path#index".
bool later_in_file(const ir::Origin& a, const ir::Origin& b);

}  // namespace vernier::precision
