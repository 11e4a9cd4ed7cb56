// The table of ONNX operators: which function translates which operator. The rows are in the
// group files next to their functions; find_translation() searches all groups.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "onnx/node_context.h"

namespace vernier::onnx {

struct Translation {
  std::string_view domain;  ///< "" is ai.onnx
  std::string_view op_type;
  int64_t since;  ///< first opset version with this operator
  void (*translate)(NodeContext&);
};

// One group per file.
std::span<const Translation> elementwise_translations();
std::span<const Translation> reduction_translations();
std::span<const Translation> matrix_translations();
std::span<const Translation> normalization_translations();
std::span<const Translation> attention_translations();
std::span<const Translation> recurrent_translations();
std::span<const Translation> loop_translations();
std::span<const Translation> shape_translations();
std::span<const Translation> movement_translations();
std::span<const Translation> image_translations();
std::span<const Translation> spatial_translations();
std::span<const Translation> signal_translations();
std::span<const Translation> quantization_translations();
std::span<const Translation> microsoft_translations();
std::span<const Translation> microsoft_attention_translations();
std::span<const Translation> microsoft_quantization_translations();

/// The row of an operator, or null. `domain` is canonical ("" for ai.onnx).
const Translation* find_translation(std::string_view domain, std::string_view op_type);

/// All rows, by domain and then operator.
std::vector<const Translation*> all_translations();

/// For rows whose inputs, outputs and meaning are those of the graph's operator, without
/// attributes.
template <OpKind kOp>
void translate_plain(NodeContext& node) {
  node.set_output(0, node.emit(kOp, node.all_inputs()));
}

}  // namespace vernier::onnx
