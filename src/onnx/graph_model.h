// Writes a graph as a standard ONNX model: composites become the operators they are made of, sizes
// become operators on the inputs' shapes. Contract: docs/commands.md "Changing a model".
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "ir/graph.h"
#include "vernier/limits.h"

namespace vernier::onnx {

/// Of what is written.
inline constexpr int64_t kWrittenOpset = 21;

struct GraphModelOptions {
  std::filesystem::path model;  ///< the file that the graph was read from: it is not replaced
  /// Weights of this size in all go into "<file>.data": ONNX files are limited to 2 GiB.
  uint64_t external_from = uint64_t{1} << 30;
  Limits limits = {};  ///< max_bytes: of the new files as they are made
};

struct WrittenGraph {
  uint64_t nodes = 0, weight_bytes = 0;
  std::string data_file;  ///< empty: the weights are in the model file
};

/// `graph`, before its types are decided (passes::Phase::kRaise or earlier), in a new file.
/// Inputs, outputs and values keep their ONNX names, nodes theirs. Throws Error(kInput): an
/// operator that standard ONNX has no words for, a size that no input has, files that would be
/// replaced; Error(kMachine) where the files cannot be written.
WrittenGraph write_graph_model(const ir::Graph& graph, const std::filesystem::path& to,
                               const GraphModelOptions& options);

}  // namespace vernier::onnx
