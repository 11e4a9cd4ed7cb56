// Typed reading of attributes: see attributes.h.
#include "onnx/attributes.h"

#include <array>

#include "core/error.h"
#include "onnx/model_file.h"

namespace vernier::onnx {
namespace {

using proto::AttributeProto;

const char* kind_name(AttributeProto::AttributeType kind) {
  static constexpr std::array<const char*, 15> kNames{
      "empty",   "a float",         "an integer",     "a string", "a tensor",
      "a graph", "floats",          "integers",       "strings",  "tensors",
      "graphs",  "a sparse tensor", "sparse tensors", "a type",   "types"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

AttributeProto::AttributeType attribute_kind(const AttributeProto& a) {
  if (a.type() != AttributeProto::UNDEFINED) return a.type();
  if (a.has_f()) return AttributeProto::FLOAT;
  if (a.has_i()) return AttributeProto::INT;
  if (a.has_s()) return AttributeProto::STRING;
  if (a.has_t()) return AttributeProto::TENSOR;
  if (a.has_g()) return AttributeProto::GRAPH;
  if (a.floats_size() > 0) return AttributeProto::FLOATS;
  if (a.ints_size() > 0) return AttributeProto::INTS;
  if (a.strings_size() > 0) return AttributeProto::STRINGS;
  return AttributeProto::UNDEFINED;
}

Attributes::Attributes(const proto::NodeProto& node, const AttributeBindings* bindings,
                       std::string where)
    : where_(std::move(where)) {
  for (const AttributeProto& attribute : node.attribute()) {
    const AttributeProto* value = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      if (bindings == nullptr) {
        fail("attribute " + quote(attribute.name()) + " refers to " +
             quote(attribute.ref_attr_name()) + ", but the node is not in a function");
      }
      const auto found = bindings->find(attribute.ref_attr_name());
      if (found == bindings->end()) continue;
      value = found->second;
    }
    if (!entries_.emplace(attribute.name(), Entry{value}).second) {
      fail("attribute " + quote(attribute.name()) + " is given twice");
    }
  }
}

void Attributes::fail(const std::string& what) const {
  throw Error(ErrorCode::kInput, where_ + ": " + what);
}

const AttributeProto* Attributes::find(std::string_view name, AttributeProto::AttributeType kind) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return nullptr;
  found->second.read = true;
  const AttributeProto* attribute = found->second.attribute;
  const auto got = attribute_kind(*attribute);
  const bool empty_list = got == AttributeProto::UNDEFINED;  // old files omit the type
  if (got != kind && !(empty_list && kind >= AttributeProto::FLOATS)) {
    fail("attribute " + quote(name) + " is " + kind_name(got) + "; expected " + kind_name(kind));
  }
  return attribute;
}

int64_t Attributes::integer(std::string_view name, int64_t absent) {
  const auto* attribute = find(name, AttributeProto::INT);
  return attribute != nullptr ? attribute->i() : absent;
}

int64_t Attributes::required_integer(std::string_view name) {
  const auto* attribute = find(name, AttributeProto::INT);
  if (attribute == nullptr) fail("attribute " + quote(name) + " is missing");
  return attribute->i();
}

bool Attributes::flag(std::string_view name, int64_t absent) {
  const int64_t value = integer(name, absent);
  if (value != 0 && value != 1) {
    fail("attribute " + quote(name) + " is " + std::to_string(value) + "; expected 0 or 1");
  }
  return value == 1;
}

double Attributes::number(std::string_view name, float absent) {
  const auto* attribute = find(name, AttributeProto::FLOAT);
  return static_cast<double>(attribute != nullptr ? attribute->f() : absent);
}

std::string Attributes::text(std::string_view name, std::string_view absent) {
  const auto* attribute = find(name, AttributeProto::STRING);
  return attribute != nullptr ? attribute->s() : std::string(absent);
}

std::vector<int64_t> Attributes::integers(std::string_view name) {
  return optional_integers(name).value_or(std::vector<int64_t>());
}

std::optional<std::vector<int64_t>> Attributes::optional_integers(std::string_view name) {
  const auto* attribute = find(name, AttributeProto::INTS);
  if (attribute == nullptr) return std::nullopt;
  return std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end());
}

std::vector<double> Attributes::numbers(std::string_view name) {
  const auto* attribute = find(name, AttributeProto::FLOATS);
  if (attribute == nullptr) return {};
  return {attribute->floats().begin(), attribute->floats().end()};
}

std::vector<std::string> Attributes::texts(std::string_view name) {
  const auto* attribute = find(name, AttributeProto::STRINGS);
  if (attribute == nullptr) return {};
  return {attribute->strings().begin(), attribute->strings().end()};
}

const proto::TensorProto* Attributes::tensor(std::string_view name) {
  const auto* attribute = find(name, AttributeProto::TENSOR);
  return attribute != nullptr ? &attribute->t() : nullptr;
}

const proto::GraphProto* Attributes::graph(std::string_view name) {
  const auto* attribute = find(name, AttributeProto::GRAPH);
  return attribute != nullptr ? &attribute->g() : nullptr;
}

void Attributes::ignore(std::string_view name) {
  if (const auto found = entries_.find(name); found != entries_.end()) found->second.read = true;
}

std::optional<std::string> Attributes::first_unread() const {
  for (const auto& [name, entry] : entries_) {
    if (!entry.read) return name;
  }
  return std::nullopt;
}

AttributeBindings Attributes::take_all() {
  AttributeBindings all;
  for (auto& [name, entry] : entries_) {
    entry.read = true;
    all.emplace(name, entry.attribute);
  }
  return all;
}

}  // namespace vernier::onnx
