// Whether each model below a folder builds: what tests/models/peers.tsv holds of other projects'
// models, one line per file (path, "builds" or "refused", why). On request also verified.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace vernier::test {

struct ModelClass {
  std::string path;  ///< relative to the folder
  /// "builds", "refused" (Error(kInput)), or "failed": anything else that is thrown, never right.
  std::string outcome;
  std::string
      why;  ///< refused, failed: the message up to its first full line; verified: the verdict
};

enum class Verdicts : uint8_t { kNo, kYes };
/// Every .onnx file below `folder`, sorted: builds it and, on request, verifies the engine on
/// seeded inputs.
std::vector<ModelClass> classify_models(const std::filesystem::path& folder, Verdicts verdicts);

/// As the file has it: tab-separated, one line per model.
std::string to_tsv(const std::vector<ModelClass>& models);
std::vector<ModelClass> read_tsv(const std::filesystem::path& file);

}  // namespace vernier::test
