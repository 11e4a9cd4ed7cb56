// Graphs spelled as PyTorch's TorchScript exporter spells them at opset 17: scopes are paths of
// modules, values are named after their nodes, constants are nodes, sizes are read back with Shape.
// What it writes for each module is in torch_modules.h.
#pragma once
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "onnx/model_writer.h"

namespace vernier::make_model {

using Value = std::string;  ///< the name of a value

// ONNX's element type numbers, for Cast.
inline constexpr int64_t kToFloat = 1, kToInt32 = 6, kToInt64 = 7, kToBool = 9;

inline constexpr int64_t kOpset = 17;

/// The values of a parameter: normal values around `mean`.
struct Spread {
  double mean = 0, deviation = 0;
  bool outliers = false;  ///< its outlier channels (the last axis) are larger
};

class TorchGraph {
 public:
  /// `writer` must outlive the graph. Channels of the hidden size that are `outlier_factor` times
  /// as large in parameters with outliers.
  TorchGraph(onnx::ModelWriter& writer, std::vector<int64_t> outlier_channels,
             double outlier_factor);

  onnx::ModelWriter& writer() { return writer_; }
  /// "/encoder/Add", "/encoder/Add_1", …
  std::string unique(const std::string& path, const std::string& kind);
  Value weight(std::string name, std::vector<int64_t> dims, const Spread& spread,
               const std::string& transpose_of = "");
  /// The name of a weight that the exporter transposed: "onnx::MatMul_12".
  std::string anonymous(const std::string& kind);

 private:
  onnx::ModelWriter& writer_;
  std::vector<int64_t> outlier_channels_;
  double outlier_factor_;
  std::map<std::string, int64_t> used_;
  int64_t values_ = 0;
};

/// One module of the model: nodes made through it carry its path.
class Scope {
 public:
  explicit Scope(TorchGraph& graph, std::string path = "")
      : graph_(&graph), path_(std::move(path)) {}

  Scope in(const std::string& module) const { return Scope(*graph_, path_ + "/" + module); }
  TorchGraph& graph() const { return *graph_; }

  /// One node with one output. The last argument renames the output (graph outputs).
  Value op(const std::string& kind, std::vector<Value> inputs,
           std::vector<onnx::NodeAttribute> attributes = {}, const Value& output = "") const;
  std::vector<Value> split(const Value& x, const std::vector<int64_t>& sizes, int64_t axis) const;

  Value constant(onnx::SmallArray array) const;
  Value integer(int64_t value) const;                        ///< i64, rank 0
  Value integers(const std::vector<int64_t>& values) const;  ///< i64 [n]
  Value number(float value) const;                           ///< f32, rank 0
  /// A weight named after the module: "encoder.layer.0.output.dense.bias".
  Value parameter(const std::string& name, std::vector<int64_t> dims, const Spread& spread) const;

  /// The size of `x` along `axis`, as i64 of rank 0.
  Value size(const Value& x, int64_t axis) const;
  /// A shape [n] of sizes: numbers, or values of rank 0.
  Value shape(const std::vector<std::variant<int64_t, Value>>& sizes) const;
  /// x.expand(sizes): the exporter tests for -1 ("this size stays") at run time.
  Value expand(const Value& x, const std::vector<std::variant<int64_t, Value>>& sizes) const;
  /// x[:, None, :] and the like: one new axis after the other.
  Value unsqueeze(Value x, const std::vector<int64_t>& axes) const;
  /// arange(length)
  Value range(const Value& length) const;

 private:
  TorchGraph* graph_;
  std::string path_;
};

}  // namespace vernier::make_model
