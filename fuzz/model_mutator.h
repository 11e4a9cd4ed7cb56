// Changes to ONNX models, on the format's messages: operators, wiring, attributes, shapes, weights,
// nodes of other models.
#pragma once
#include <vector>

#include "choices.h"
#include "onnx/onnx.pb.h"

namespace vernier::fuzz {

using Model = onnx::proto::ModelProto;

/// The most bytes of choices of one change.
inline constexpr size_t kModelChangeBytes = 32;
/// One change; `others` are models to take nodes from.
void change_model(Model& model, const std::vector<Model>& others, Choices choices);

}  // namespace vernier::fuzz
