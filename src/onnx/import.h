// Reading an ONNX model into a graph. Contract: docs/architecture.md ("Import").
// The graph is raw: the model's nodes with types and shapes inferred, local functions inlined,
// loops unrolled, of an If the branch that its condition selects, or both where only a run knows;
// no rewriting beyond what a translation needs.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "vernier/limits.h"

namespace vernier::onnx {

/// What to do with a weight whose external file does not exist.
enum class MissingWeights : uint8_t {
  kError,   ///< refuse, naming tensor and file
  kSeeded,  ///< fill it with seeded, trained-like values (work on the graph alone)
};

struct ImportOptions {
  MissingWeights missing_weights = MissingWeights::kError;
  /// Graph inputs taken as these constants, by name: shapes, axes or limits that a model computes
  /// with and an engine needs to know.
  std::map<std::string, Tensor> fixed_inputs = {};
  /// max_bytes: of the model's file, which is read as a whole; external data are mapped.
  Limits limits = {};
};

struct ImportReport {
  std::string producer;
  int64_t opset = 0;  ///< of the default domain
  int64_t nodes = 0;  ///< ONNX nodes read, including function bodies, branches and steps of loops
  std::vector<std::string> notes;
  /// Of the build that wrote this Q/DQ model, as JSON (int8_operands.h); empty: none did.
  std::string policy;
};

/// Reads a model file. Large weights are mapped or moved, never copied.
/// Throws Error(kInput) for anything that is not a model Vernier can compile: damaged files, names
/// without a definition, external data outside the model's folder, and, in one message, all nodes
/// without a supported operator. Throws Error(kMachine) if the file cannot be read.
std::shared_ptr<ir::Graph> import_model(const std::filesystem::path& path,
                                        const ImportOptions& options = {},
                                        ImportReport* report = nullptr);

/// As import_model, from memory. External data is looked up below `external_data_folder`; an empty
/// path allows none. `bytes` is not used after the call.
std::shared_ptr<ir::Graph> import_model_bytes(std::span<const std::byte> bytes,
                                              const std::filesystem::path& external_data_folder,
                                              const ImportOptions& options = {},
                                              ImportReport* report = nullptr);

}  // namespace vernier::onnx
