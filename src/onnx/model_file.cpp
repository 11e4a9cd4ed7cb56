// Parses the protobuf message and refuses unknown fields: see model_file.h.
#include "onnx/model_file.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <algorithm>
#include <climits>

#include "core/error.h"
#include "core/mapped_file.h"

namespace vernier::onnx {
namespace {

using google::protobuf::RepeatedPtrField;

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInput, what); }

// The number of the first field in a message's unread bytes.
uint32_t first_field(const std::string& unknown) {
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(unknown.data()),
                                                static_cast<int>(unknown.size()));
  return stream.ReadTag() >> 3;
}

// Whether the bytes are UTF-8, as the format requires of names: names go into reports and JSON.
bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80             ? 1
                          : (lead & 0xe0) == 0xc0 ? 2
                          : (lead & 0xf0) == 0xe0 ? 3
                          : (lead & 0xf8) == 0xf0 ? 4
                                                  : 0;
    if (length == 0 || i + length > text.size()) return false;
    uint32_t code = length == 1 ? lead : lead & (0x7fU >> length);
    for (size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      code = code << 6 | (next & 0x3fU);
    }
    constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    if (code < kSmallest[length] || code > 0x10ffff || surrogate) return false;
    i += length;
  }
  return true;
}

void check_name(std::string_view name, const std::string& where) {
  if (!is_utf8(name)) fail(where + " has a name that is not UTF-8; the file is damaged");
}

template <class Message>
void check_known(const Message& message, const char* type, const std::string& where) {
  if (message.unknown_fields().empty()) return;
  fail(where + ": field " + std::to_string(first_field(message.unknown_fields())) + " of " + type +
       " is unknown to this version of Vernier. The file is damaged or uses a newer ONNX format; "
       "export it again with an older opset");
}

void check_graph(const proto::GraphProto& graph, const std::string& where);

void check_tensor(const proto::TensorProto& tensor, const std::string& where) {
  check_name(tensor.name(), where + ": a tensor");
  const std::string here = where + ": tensor " + quote(tensor.name());
  check_known(tensor, "TensorProto", here);
  for (const auto& entry : tensor.external_data())
    check_known(entry, "StringStringEntryProto", here);
}

void check_type(const proto::TypeProto& type, const std::string& where) {
  check_known(type, "TypeProto", where);
  if (type.has_optional_type()) {
    check_known(type.optional_type(), "TypeProto.Optional", where);
    check_type(type.optional_type().elem_type(), where);
  }
  if (!type.has_tensor_type()) return;
  check_known(type.tensor_type(), "TypeProto.Tensor", where);
  check_known(type.tensor_type().shape(), "TensorShapeProto", where);
  for (const auto& dim : type.tensor_type().shape().dim()) {
    check_name(dim.dim_param(), where + ": a size");
    check_known(dim, "TensorShapeProto.Dimension", where);
  }
}

void check_attribute(const proto::AttributeProto& attribute, const std::string& where) {
  check_name(attribute.name(), where + ": an attribute");
  const std::string here = where + ", attribute " + quote(attribute.name());
  check_known(attribute, "AttributeProto", here);
  if (attribute.has_t()) check_tensor(attribute.t(), here);
  if (attribute.has_g()) check_graph(attribute.g(), here);
  for (const auto& tensor : attribute.tensors()) check_tensor(tensor, here);
  for (const auto& graph : attribute.graphs()) check_graph(graph, here);
}

void check_nodes(const RepeatedPtrField<proto::NodeProto>& nodes, const std::string& where) {
  for (int i = 0; i < nodes.size(); ++i) {
    const proto::NodeProto& node = nodes[i];
    const std::string here = where + ", node #" + std::to_string(i);
    for (const std::string* name : {&node.name(), &node.op_type(), &node.domain()}) {
      check_name(*name, here);
    }
    for (const auto* names : {&node.input(), &node.output()}) {
      for (const std::string& name : *names) check_name(name, here);
    }
    check_known(node, "NodeProto", here);
    for (const auto& attribute : node.attribute()) check_attribute(attribute, here);
  }
}

void check_graph(const proto::GraphProto& graph, const std::string& where) {
  check_known(graph, "GraphProto", where);
  if (graph.sparse_initializer_size() > 0) {
    fail(where + " has " + std::to_string(graph.sparse_initializer_size()) +
         " sparse initializers, which Vernier does not read. Store them as dense tensors");
  }
  for (const auto& tensor : graph.initializer()) check_tensor(tensor, where);
  for (const auto* infos : {&graph.input(), &graph.output()}) {
    for (const auto& info : *infos) {
      check_name(info.name(), where + ": a value");
      const std::string here = where + ", value " + quote(info.name());
      check_known(info, "ValueInfoProto", here);
      check_type(info.type(), here);
    }
  }
  check_nodes(graph.node(), where);
}

void check_opset_ids(const RepeatedPtrField<proto::OperatorSetIdProto>& ids,
                     const std::string& where) {
  for (const auto& id : ids) check_known(id, "OperatorSetIdProto", where);
}

void check_model(const proto::ModelProto& model) {
  check_known(model, "ModelProto", "the model");
  check_opset_ids(model.opset_import(), "the model");
  if (model.graph().name().empty()) {
    fail(
        "the graph has no name, which the ONNX format requires: the file was not written by a "
        "valid exporter. Set graph.name and save it again");
  }
  check_graph(model.graph(), "the graph");
  for (const auto& function : model.functions()) {
    check_name(function.name(), "a function");
    const std::string here = "function " + quote(function.name());
    check_known(function, "FunctionProto", here);
    check_opset_ids(function.opset_import(), here);
    for (const auto& attribute : function.attribute_proto()) check_attribute(attribute, here);
    check_nodes(function.node(), here);
  }
}

}  // namespace

namespace {

// A model's bytes piece by piece. Those of a mapped file that were read are dropped, so that
// weights are in memory once: in the messages.
class Pieces final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit Pieces(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool Next(const void** data, int* size) override {
    constexpr size_t kPiece = size_t{1} << 24;
    if (at_ > dropped_) drop_pages(bytes_.subspan(dropped_, at_ - dropped_));
    dropped_ = at_;
    const auto piece = bytes_.subspan(at_, std::min(kPiece, bytes_.size() - at_));
    at_ += piece.size();
    *data = piece.data();
    *size = static_cast<int>(piece.size());
    return !piece.empty();
  }
  void BackUp(int count) override { at_ -= static_cast<size_t>(count); }
  bool Skip(int count) override {
    const size_t left = bytes_.size() - at_, wanted = static_cast<size_t>(count);
    at_ += std::min(left, wanted);
    return wanted <= left;
  }
  int64_t ByteCount() const override { return static_cast<int64_t>(at_); }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0, dropped_ = 0;
};

}  // namespace

proto::ModelProto parse_model(std::span<const std::byte> bytes) {
  if (bytes.empty()) fail("the model file is empty");
  if (bytes.size() > static_cast<size_t>(INT_MAX)) {
    fail("the model file has " + std::to_string(bytes.size()) +
         " bytes; protobuf is limited to 2 GiB. Save the weights as external data");
  }
  proto::ModelProto model;
  Pieces pieces(bytes);
  if (!model.ParseFromZeroCopyStream(&pieces)) {
    fail("not an ONNX model, or damaged: its " + std::to_string(bytes.size()) +
         " bytes do not parse as protobuf. Check that the file was copied completely");
  }
  if (!model.has_graph()) {
    fail(
        "not an ONNX model: the file holds no graph. Check that it is the .onnx file and not its "
        "external data");
  }
  check_model(model);
  return model;
}

std::string_view canonical_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

Opsets read_opsets(const RepeatedPtrField<proto::OperatorSetIdProto>& opset_imports,
                   const std::string& where) {
  Opsets opsets;
  for (const auto& id : opset_imports) {
    const std::string domain(canonical_domain(id.domain()));
    const auto [it, added] = opsets.emplace(domain, id.version());
    if (!added && it->second != id.version()) {
      fail(where + " imports two versions of operator set " + quote(id.domain()) + ": " +
           std::to_string(it->second) + " and " + std::to_string(id.version()));
    }
  }
  const auto found = opsets.find("");
  if (found == opsets.end()) return opsets;  // a function may use other domains only
  if (found->second < kOldestOpset || found->second > kNewestOpset) {
    fail(where + " uses ai.onnx opset " + std::to_string(found->second) +
         "; Vernier supports opsets " + std::to_string(kOldestOpset) + " to " +
         std::to_string(kNewestOpset) +
         ". Export it again, or convert it with ONNX's version converter");
  }
  return opsets;
}

std::string quote(std::string_view text) {
  constexpr size_t kMaxLength = 120;
  size_t length = std::min(text.size(), kMaxLength);
  const auto inside_character = [&] {
    return length < text.size() && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80;
  };
  while (length > 0 && inside_character()) --length;
  std::string result = "'";
  for (char c : text.substr(0, length)) {
    const auto byte = static_cast<unsigned char>(c);
    result += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  if (length < text.size()) result += "...";
  return result + "'";
}

}  // namespace vernier::onnx
