// Attributes: typed reading of one node's attributes. Every attribute must be read: one that no
// call reads is an error, so nothing in a model is skipped silently.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/onnx.pb.h"

namespace vernier::onnx {

/// Values of a function's attributes at one call, by name.
using AttributeBindings = std::map<std::string, const proto::AttributeProto*>;

/// The kind of an attribute's value; derived from the field present where old files omit it.
proto::AttributeProto::AttributeType attribute_kind(const proto::AttributeProto& attribute);

class Attributes {
 public:
  /// `bindings` resolves references to the attributes of the enclosing function (null outside one);
  /// a reference to an attribute that the call does not give is an absent attribute.
  /// Throws Error(kInput) "<where>: ..." on duplicates and on references outside a function.
  Attributes(const proto::NodeProto& node, const AttributeBindings* bindings, std::string where);

  bool has(std::string_view name) const { return entries_.find(name) != entries_.end(); }

  // Each reads one attribute and marks it as read; returns the default if it is absent.
  // Throws Error(kInput) if it has another kind.
  int64_t integer(std::string_view name, int64_t absent);
  int64_t required_integer(std::string_view name);
  /// An integer that must be 0 or 1.
  bool flag(std::string_view name, int64_t absent);
  double number(std::string_view name, float absent);
  std::string text(std::string_view name, std::string_view absent);
  /// Empty when absent.
  std::vector<int64_t> integers(std::string_view name);
  std::optional<std::vector<int64_t>> optional_integers(std::string_view name);
  std::vector<double> numbers(std::string_view name);
  std::vector<std::string> texts(std::string_view name);
  /// Null when absent.
  const proto::TensorProto* tensor(std::string_view name);
  const proto::GraphProto* graph(std::string_view name);
  /// Marks an attribute that has no meaning for inference as read.
  void ignore(std::string_view name);

  /// The first attribute that was not read, if any.
  std::optional<std::string> first_unread() const;
  /// All attributes with references resolved, marked as read (for calls of local functions).
  AttributeBindings take_all();

 private:
  struct Entry {
    const proto::AttributeProto* attribute;
    bool read = false;
  };
  const proto::AttributeProto* find(std::string_view name,
                                    proto::AttributeProto::AttributeType kind);
  [[noreturn]] void fail(const std::string& what) const;

  std::map<std::string, Entry, std::less<>> entries_;
  std::string where_;
};

}  // namespace vernier::onnx
