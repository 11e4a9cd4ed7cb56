// Models for plants: see models.h.
#include "plants/models.h"

#include <fstream>

#include "onnx/model_builder.h"

namespace vernier::test {
namespace {

constexpr int64_t kWidth = 384;
constexpr int64_t kOpset = 17;

using onnx::f32_tensor;
using onnx::ModelBuilder;

// LayerNorm(x + 1000): mean 1000, deviation 1.
std::string large_mean() {
  const auto width = static_cast<size_t>(kWidth);
  ModelBuilder model(kOpset);
  model.input("x", onnx::kFloat, {"batch", "seq", kWidth});
  model.initializer(f32_tensor("offset", {1}, {1000}));
  model.initializer(f32_tensor("scale", {kWidth}, std::vector<float>(width, 1.5F)));
  model.initializer(f32_tensor("bias", {kWidth}, std::vector<float>(width, 0.25F)));
  model.node("Add", {"x", "offset"}, {"far"});
  model.node("LayerNormalization", {"far", "scale", "bias"}, {"y"},
             {onnx::attr_int("axis", -1), onnx::attr_float("epsilon", 1e-5F)});
  model.output("y");
  return model.bytes();
}

// Softmax(factor·x): of 100, logits up to 300.
std::string logits(float factor) {
  ModelBuilder model(kOpset);
  model.input("x", onnx::kFloat, {"batch", "seq", int64_t{40}});
  model.initializer(f32_tensor("factor", {1}, {factor}));
  model.node("Mul", {"x", "factor"}, {"logits"});
  model.node("Softmax", {"logits"}, {"y"}, {onnx::attr_int("axis", -1)});
  model.output("y");
  return model.bytes();
}

}  // namespace

void write_plant_model(std::string_view name, const std::filesystem::path& path) {
  constexpr float kLarge = 100, kTame = 1.5F;
  const std::string bytes = name == "large_mean"    ? large_mean()
                            : name == "tame_logits" ? logits(kTame)
                                                    : logits(kLarge);
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace vernier::test
