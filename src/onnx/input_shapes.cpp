// Naming the sizes of graph inputs: see input_shapes.h.
#include "onnx/input_shapes.h"

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/tensor.h"
#include "onnx/model_file.h"

namespace vernier::onnx {
namespace {

constexpr size_t kMaxNameLength = 200;  // longer names are not parsed as expressions
constexpr int64_t kMaxSize = int64_t{1} << 40;
constexpr int kMaxRank = 64;

bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool name_char(char c) { return letter(c) || std::isdigit(static_cast<unsigned char>(c)) != 0; }

bool is_identifier(const std::string& text) {
  if (text.empty() || text.size() > kMaxNameLength || !letter(text[0])) return false;
  for (char c : text) {
    if (!name_char(c) && c != '.') return false;
  }
  return true;
}

std::string to_identifier(const std::string& text) {
  std::string result;
  for (char c : text.substr(0, kMaxNameLength)) result += name_char(c) ? c : '_';
  if (result.empty() || !letter(result[0])) result = "d" + result;
  return result;
}

// As num_elems() of the array at run time: sizes of 0 and unknown sizes count as 1.
void check_elems(const std::string& where, const SymShape& shape) {
  int64_t elems = 1;
  for (const Dim& d : shape) {
    const int64_t size = std::max<int64_t>(d.as_constant().value_or(1), 1);
    if (!__builtin_mul_overflow(elems, size, &elems) && elems <= kMaxArrayElems) continue;
    throw Error(ErrorCode::kInput, where + " has shape " + str(shape) + " with more than " +
                                       std::to_string(kMaxArrayElems) +
                                       " elements, the limit for one array. Export the model with "
                                       "smaller or symbolic sizes");
  }
}

}  // namespace

InputShapes::InputShapes(const std::vector<const proto::ValueInfoProto*>& inputs) {
  for (const auto* input : inputs) {
    for (const auto& dim : input->type().tensor_type().shape().dim()) {
      if (is_identifier(dim.dim_param())) plain_.insert(dim.dim_param());
    }
  }
}

Dim InputShapes::fresh(const std::string& text) {
  const std::string plain = to_identifier(text);
  std::string name = plain;
  for (int& k = copies_[plain]; !plain_.insert(name).second; ++k)
    name = plain + "_" + std::to_string(k + 2);
  return Dim::symbol(name);
}

Dim InputShapes::named(const std::string& text) {
  if (is_identifier(text)) return Dim::symbol(text);
  if (const auto found = made_.find(text); found != made_.end()) return found->second;
  if (text.size() <= kMaxNameLength) {
    try {
      const Dim parsed = Dim::parse(text);
      bool bound = !parsed.is_constant() || parsed.constant() >= 0;
      for (const std::string& symbol : parsed.symbols()) bound = bound && plain_.contains(symbol);
      if (bound) return made_.emplace(text, parsed).first->second;
    } catch (const Error&) {
      // Not an expression: a name.
    }
  }
  const Dim made = fresh(text);
  notes_.push_back("size name " + quote(text) + " is not an identifier; the engine calls it " +
                   made.str());
  return made_.emplace(text, made).first->second;
}

SymShape InputShapes::shape(const proto::ValueInfoProto& input) {
  const std::string where = "graph input " + quote(input.name());
  const auto& type = input.type().tensor_type();
  if (!type.has_shape()) {
    throw Error(ErrorCode::kInput, where +
                                       " has no shape; its rank must be known. Export the model "
                                       "with input shapes (sizes may be symbolic)");
  }
  if (type.shape().dim_size() > kMaxRank) {
    throw Error(ErrorCode::kInput, where + " has " + std::to_string(type.shape().dim_size()) +
                                       " dimensions; at most " + std::to_string(kMaxRank) +
                                       " are supported");
  }
  SymShape shape;
  for (const auto& dim : type.shape().dim()) {
    if (dim.has_dim_value() && dim.dim_value() > kMaxSize) {
      throw Error(ErrorCode::kInput, where + " has a size of " + std::to_string(dim.dim_value()) +
                                         "; at most " + std::to_string(kMaxSize) + " is supported");
    }
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      shape.emplace_back(dim.dim_value());
    } else if (dim.has_dim_param() && !dim.dim_param().empty()) {
      shape.push_back(named(dim.dim_param()));
    } else {
      shape.push_back(fresh(input.name() + "_d" + std::to_string(shape.size())));
    }
  }
  check_elems(where, shape);
  return shape;
}

}  // namespace vernier::onnx
