// Writes a part of a model as a model of its own: an edited copy of the file. Contract:
// vernier/extract.h; the program's: docs/commands.md "Extract".
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/dim.h"
#include "core/dtype.h"
#include "ir/graph.h"
#include "vernier/limits.h"

namespace vernier::onnx {

struct PartOptions {
  std::filesystem::path to_file;
  std::vector<std::string> from, to;  ///< values or nodes; empty: the model's inputs, its outputs
  uint64_t external_from = 0;
  Limits limits = {};
};

struct PartPort {
  std::string name;
  DType dtype = DType::kUndefined;
  SymShape shape;
};

struct Part {
  int64_t nodes = 0, model_nodes = 0;
  uint64_t weight_bytes = 0;
  std::string data_file = {};  ///< its name; empty: there is none
  std::vector<PartPort> inputs = {}, outputs = {};
  std::vector<std::string> notes = {};
};

/// `graph` is the model as it was imported, for the types of values; null: it cannot be, and the
/// types are those that the file itself holds.
Part write_part(const std::filesystem::path& model, const ir::Graph* graph,
                const PartOptions& options);

}  // namespace vernier::onnx
