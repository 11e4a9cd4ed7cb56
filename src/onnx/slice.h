// ModelSlicer: a part of an ONNX model as a model of its own: some nodes of the main graph with the
// values at the cut as inputs and outputs of fixed sizes. For reduce. The format's messages stay
// behind this header.
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
  std::vector<std::string> inputs;   ///< those that bodies of its branches use included; no ""
  std::vector<std::string> outputs;  ///< no ""
};

/// The number of the main graph's node that holds the ONNX node of this key: 172 of "#172", 3 of
/// "/function/3#17".
size_t main_node_of(const std::string& key);

/// What a slice gives: a value's name, type and sizes.
struct SliceOutput {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

struct Slice {
  std::set<size_t> nodes;                   ///< by number in the file
  std::map<std::string, Tensor> inputs;     ///< become inputs of these types and sizes
  std::map<std::string, Tensor> constants;  ///< computed elsewhere: become initialisers
  std::vector<SliceOutput> outputs;
};

class ModelSlicer {
 public:
  /// Weights of a slice are embedded: together they may not be larger than this.
  static constexpr uint64_t kMostWeightBytes = uint64_t{1} << 30;

  /// Reads the model's nodes. Throws Error as import_model() does.
  explicit ModelSlicer(const std::filesystem::path& path);
  ~ModelSlicer();
  ModelSlicer(const ModelSlicer&) = delete;
  ModelSlicer& operator=(const ModelSlicer&) = delete;

  /// In file order.
  const std::vector<MainNode>& nodes() const { return nodes_; }
  /// Is the value an initialiser of the model (and no input)?
  bool is_initialiser(const std::string& name) const { return initialisers_.contains(name); }
  /// Names of the graph's inputs that have no default, and of its outputs.
  const std::set<std::string>& inputs() const { return inputs_; }
  const std::set<std::string>& outputs() const { return outputs_; }

  /// The bytes of the part as a model: nodes in file order under their names, the initialisers that
  /// they use with their data inside, operator sets and functions of the whole. Throws
  /// Error(kInput) if a value that a node uses is none of inputs, constants, initialisers or
  /// results of the part, or the weights are larger than kMostWeightBytes.
  std::vector<std::byte> model_of(const Slice& slice) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::vector<MainNode> nodes_;
  std::map<std::string, int> initialisers_;  // index in the file
  std::set<std::string> inputs_, outputs_;
};

}  // namespace vernier::onnx
