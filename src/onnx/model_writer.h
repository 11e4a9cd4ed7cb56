// ModelWriter: an ONNX graph, node by node, and its file. Weights are recipes: their values are
// made while the file is written, a piece at a time, so that a model of any size takes little
// memory. This header hides the format's messages.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "vernier/dtype.h"

namespace vernier::onnx {

/// A size of an input or output: a number or a name.
using NamedSize = std::variant<int64_t, std::string>;

/// A small constant; f32 values lie in `floats`, all others in `integers`.
struct SmallArray {
  DType dtype = DType::kI64;
  std::vector<int64_t> dims;
  std::vector<int64_t> integers;
  std::vector<float> floats;
};

struct NodeAttribute {
  std::string name;
  std::variant<int64_t, float, std::vector<int64_t>, SmallArray> value;
};

struct NewNode {
  std::string name, op;
  std::vector<std::string> inputs, outputs;
  std::vector<NodeAttribute> attributes;
};

/// An f32 weight: mean + deviation · z, z normal from the model's seed and the weight's name. The
/// elements at the indices `outliers` of the last axis are `outlier_factor` times as large.
struct SeededWeight {
  std::string name;
  std::vector<int64_t> dims;
  double mean = 0, deviation = 0;
  std::vector<int64_t> outliers = {};
  double outlier_factor = 1;
  /// Not empty: a matrix that is the transpose of the weight of that name and deviation.
  std::string transpose_of = {};
};

struct SaveOptions {
  /// Weights in a separate file, even if they are smaller than kExternalFrom.
  bool external = false;
  /// Called after every piece of weights with the share written so far, in [0, 1].
  std::function<void(double share)> progress;
};

struct SavedModel {
  uint64_t model_bytes = 0, data_bytes = 0;
  std::string data_file;  ///< name of the weights' file; empty: they are in the model file
};

class ModelWriter {
 public:
  /// Weights of this size go into "<model file>.data": ONNX files are limited to 2 GiB.
  static constexpr uint64_t kExternalFrom = uint64_t{1} << 30;
  /// Smaller weights stay in the model file even then, as other writers do.
  static constexpr uint64_t kInlineBelow = 1024;

  /// `description` is stored as the model's documentation.
  ModelWriter(std::string description, int64_t opset, uint64_t seed);
  ~ModelWriter();
  ModelWriter(const ModelWriter&) = delete;
  ModelWriter& operator=(const ModelWriter&) = delete;

  void add_input(const std::string& name, DType dtype, const std::vector<NamedSize>& dims);
  void add_output(const std::string& name, DType dtype, const std::vector<NamedSize>& dims);
  void add_node(const NewNode& node);
  void add_weight(SeededWeight weight);

  uint64_t num_nodes() const;
  uint64_t weight_bytes() const;

  /// Writes the model, and large weights into a file beside it; each file appears when it is
  /// complete. The same graph and seed give the same bytes. Throws Error(kInput) if the path is a
  /// folder, Error(kMachine) if the files cannot be written.
  SavedModel save(const std::filesystem::path& path, const SaveOptions& options) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace vernier::onnx
