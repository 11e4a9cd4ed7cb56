// ModelSlicer: a part of an ONNX model as a model of its own: some nodes of the main graph with the
// values at the cut as inputs and outputs of fixed sizes. For reduce. The format's messages stay
// private.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace vernier::onnx {

/// A node of the main graph.
struct MainNode {
  std::string name, op;              ///< the name as import gives it: "MatMul_3" where it has none
  std::vector<std::string> inputs;   ///< including uses in bodies of its branches; no ""
  std::vector<std::string> outputs;  ///< no ""
};

/// The number of the main graph's node that holds the ONNX node of this key: 172 of "#172", 3 of
/// "/function/3#17".
size_t main_node_of(const std::string& key);

/// An output of a slice.
struct SliceOutput {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

struct Slice {
  std::set<size_t> nodes;                   ///< by number in the file
  std::map<std::string, Tensor> inputs;     ///< become inputs of these types and sizes
  std::map<std::string, Tensor> constants;  ///< computed elsewhere: become initializers
  std::vector<SliceOutput> outputs;
};

class ModelSlicer {
 public:
  /// Weights of a slice are embedded; this is the limit of their total size.
  static constexpr uint64_t kMaxWeightBytes = uint64_t{1} << 30;

  /// Reads the model's nodes. Throws Error as import_model() does.
  explicit ModelSlicer(const std::filesystem::path& path);
  ~ModelSlicer();
  ModelSlicer(const ModelSlicer&) = delete;
  ModelSlicer& operator=(const ModelSlicer&) = delete;

  /// In file order.
  const std::vector<MainNode>& nodes() const { return nodes_; }
  /// Is the value an initializer of the model?
  bool is_initializer(const std::string& name) const { return initializers_.contains(name); }
  /// Names of the graph's inputs that have no default, and of its outputs.
  const std::set<std::string>& inputs() const { return inputs_; }
  const std::set<std::string>& outputs() const { return outputs_; }

  /// The bytes of the part as a model: nodes in file order under their names, the initializers that
  /// they use with their data inside, operator sets and functions of the whole. Throws
  /// Error(kInput) if a node uses a value that is not an input, constant, initializer or result of
  /// the part, or if the weights are larger than kMaxWeightBytes.
  std::vector<std::byte> model_of(const Slice& slice) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::vector<MainNode> nodes_;
  std::map<std::string, int> initializers_;  // index in the file
  std::set<std::string> inputs_, outputs_;
};

}  // namespace vernier::onnx
