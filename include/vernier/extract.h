// Extract: a part of an ONNX model as a model of its own. Contract: docs/commands.md "Extract".
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/dtype.h"
#include "vernier/limits.h"

namespace vernier {

struct ExtractOptions {
  std::filesystem::path model, part;
  /// Values or nodes: the part computes `to` from `from`. A value of `from` becomes an input; a
  /// node there is the first of the part, in `to` it is the last. Empty: the model's inputs, its
  /// outputs.
  std::vector<std::string> from, to;
  /// Weights of this size in all go into "<part>.data": ONNX files are limited to 2 GiB.
  uint64_t external_from = uint64_t{1} << 30;
  std::function<void(std::string_view stage)> progress = {};
  Limits limits = {};  ///< max_bytes: of the model's file and the part, as they are read and made
};

struct ExtractReport {
  /// An input or output of the part.
  struct Port {
    std::string name;
    DType dtype = DType::kUndefined;
    std::vector<std::string> shape;  ///< a number, or an expression over named sizes
  };
  std::string model, part;
  int64_t onnx_nodes = 0, model_nodes = 0;  ///< of the main graphs
  uint64_t weight_bytes = 0;
  std::string data_file;  ///< beside the part; empty: the weights are in it
  std::vector<Port> inputs, outputs;
  std::vector<std::string> notes;
  /// Why Vernier cannot read the part, which is written all the same; empty: it can.
  std::string not_importable;
  double ms = 0;
};

/// Writes the part: its nodes under their names, the weights that they use, operator sets, local
/// functions and metadata of the whole. Reads it again then. Throws Error(kInput): names that the
/// model does not have, a cut that gives no model, a part that would replace the model's files;
/// Error(kMachine) where it cannot be written.
ExtractReport extract(const ExtractOptions& options);

/// For a terminal, and as JSON: docs/json.md.
std::string to_text(const ExtractReport& report);
std::string to_json(const ExtractReport& report);

}  // namespace vernier
