// Whether each model below a folder builds and verifies: what tests/models/peers.tsv holds of other
// projects' models, one line per file (path, kind, "builds" or "refused", verdict or why).
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace vernier::test {

struct ModelClass {
  std::string path;  ///< relative to the folder
  /// "ai.onnx": operators of ONNX itself on numeric tensors; "invalid": as it seems, but ONNX's
  /// checker refuses the file; "other": another domain's operators, strings, sequences, no model.
  std::string kind;
  /// "builds", "refused" (Error(kInput)), or "failed": anything else that is thrown, a crash or a
  /// build past the time limit, never right.
  std::string outcome;
  std::string why;  ///< refused, failed: the message up to its first full line; verified: verdict
};

enum class Verdicts : uint8_t { kNo, kYes };

struct ClassifyOptions {
  Verdicts verdicts = Verdicts::kNo;
  int jobs = 2;  ///< processes side by side
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  double limit_seconds = 600;  ///< sanitizers take ten times as long
#else
  double limit_seconds = 60;  ///< of one file; a longer one is "failed" or "not verified"
#endif
  std::set<std::string> invalid{};  ///< paths that ONNX's checker refuses (tools/check_onnx.py)
  /// Called as files are done, in the order in which they are.
  std::function<void(const ModelClass& model, double seconds)> done = nullptr;
};

/// Every .onnx file below `folder`, sorted.
std::vector<std::string> models_below(const std::filesystem::path& folder);
/// Builds each of `paths` (relative to `folder`) in a process of its own and, on request, verifies
/// the engine on seeded inputs. In the order of `paths`. The caller must have no other threads.
std::vector<ModelClass> classify_models(const std::filesystem::path& folder,
                                        const std::vector<std::string>& paths,
                                        const ClassifyOptions& options);

/// "numeric ai.onnx files: 1000; build: 900 (90.0 %); build and verify: 890 (89.0 %)"
std::string summary(const std::vector<ModelClass>& models);

/// As the file has it: tab-separated, one line per model.
std::string to_tsv(const std::vector<ModelClass>& models);
std::vector<ModelClass> read_tsv(const std::filesystem::path& file);

}  // namespace vernier::test
