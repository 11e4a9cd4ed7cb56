// Models that show a plant's defect, where no example model does.
#pragma once
#include <filesystem>
#include <string_view>

namespace vernier::test {

/// Writes the model of that name to `path`: "large_mean" (features far from zero into a LayerNorm)
/// or "large_logits" (Softmax of values in the hundreds); "tame_logits" (of a few).
void write_plant_model(std::string_view name, const std::filesystem::path& path);

}  // namespace vernier::test
