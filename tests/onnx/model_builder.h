// Small ONNX models for tests, built through the format's own messages.
#pragma once
#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "onnx/import.h"
#include "onnx/onnx.pb.h"

namespace vernier::onnx {

// ONNX's element type numbers that tests use.
inline constexpr int32_t kFloat = 1, kUint8 = 2, kInt32 = 6, kInt64 = 7, kString = 8, kBool = 9,
                         kFloat16 = 10, kDouble = 11, kUint64 = 13, kBfloat16 = 16, kInt4 = 22;

/// A size of a graph input: a number, a name, or "" for unnamed.
using TestDim = std::variant<int64_t, std::string>;
using Attribute = proto::AttributeProto;
using Names = std::vector<std::string>;

Attribute attr_int(const std::string& name, int64_t value);
Attribute attr_float(const std::string& name, float value);
Attribute attr_text(const std::string& name, const std::string& value);
Attribute attr_ints(const std::string& name, const std::vector<int64_t>& values);
Attribute attr_floats(const std::string& name, const std::vector<float>& values);
Attribute attr_texts(const std::string& name, const std::vector<std::string>& values);
Attribute attr_tensor(const std::string& name, const proto::TensorProto& value);
Attribute attr_graph(const std::string& name, const proto::GraphProto& value);
/// The value of attribute `outer` of the function around the node.
Attribute attr_ref(const std::string& name, const std::string& outer,
                   Attribute::AttributeType type);

proto::TensorProto f32_tensor(const std::string& name, const std::vector<int64_t>& dims,
                              const std::vector<float>& values);
proto::TensorProto i64_tensor(const std::string& name, const std::vector<int64_t>& dims,
                              const std::vector<int64_t>& values);
proto::NodeProto make_node(const std::string& op_type, const Names& inputs, const Names& outputs,
                           const std::vector<Attribute>& attributes = {});

class ModelBuilder {
 public:
  explicit ModelBuilder(int64_t opset);

  ModelBuilder& input(const std::string& name, int32_t type, const std::vector<TestDim>& dims);
  ModelBuilder& output(const std::string& name);
  ModelBuilder& initializer(const proto::TensorProto& tensor);
  /// Returns the node for further changes.
  proto::NodeProto& node(const std::string& op_type, const Names& inputs, const Names& outputs,
                         const std::vector<Attribute>& attributes = {});
  /// A local function of domain "local", which the model imports.
  proto::FunctionProto& function(const std::string& name, const Names& inputs,
                                 const Names& outputs);

  proto::ModelProto& model() { return model_; }
  proto::GraphProto& graph() { return *model_.mutable_graph(); }
  std::string bytes() const { return model_.SerializeAsString(); }
  std::shared_ptr<ir::Graph> import(ImportReport* report = nullptr) const;
  /// The message of the Error that import throws; "no error" if it does not.
  std::string error() const;

 private:
  proto::ModelProto model_;
};

std::shared_ptr<ir::Graph> import_bytes(const std::string& bytes, ImportReport* report = nullptr);
std::string import_error(const std::string& bytes);

}  // namespace vernier::onnx
