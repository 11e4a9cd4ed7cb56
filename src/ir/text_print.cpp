// Printing a graph as text: see text.h.
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "core/op_attrs.h"
#include "ir/text.h"

namespace vernier::ir {
namespace {

constexpr int64_t kInlineElems = 4;
constexpr size_t kMaxNameLength = 40;

bool is_identifier(std::string_view s) {
  if (s.empty() || s.size() > kMaxNameLength) return false;
  const auto letter = [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
  };
  if (!letter(s[0]) || s == "_") return false;
  for (char c : s) {
    if (!letter(c) && !std::isdigit(static_cast<unsigned char>(c)) && c != '.') return false;
  }
  return true;
}

std::string quoted(std::string_view s) {
  std::string text = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') text += '\\';
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    text += c;
  }
  return text + '"';
}

// The shortest text that parses to the same value of the type.
std::string number(DType dtype, double v) {
  char buffer[40];
  const bool narrow = dtype != DType::kF64;
  const auto end = narrow ? std::to_chars(buffer, buffer + sizeof(buffer), static_cast<float>(v))
                          : std::to_chars(buffer, buffer + sizeof(buffer), v);
  return {buffer, end.ptr};
}

// "name=value" fields at the top level of "{…}".
std::vector<std::string> fields_of(std::string_view attrs) {
  std::vector<std::string> fields;
  if (attrs.size() < 2) return fields;
  attrs = attrs.substr(1, attrs.size() - 2);
  int depth = 0;
  bool inside = false;
  size_t start = 0;
  for (size_t i = 0; i < attrs.size(); ++i) {
    const char c = attrs[i];
    if (inside && c == '\\')
      ++i;
    else if (c == '"')
      inside = !inside;
    else if (!inside && (c == '[' || c == '('))
      ++depth;
    else if (!inside && (c == ']' || c == ')'))
      --depth;
    else if (!inside && c == ',' && depth == 0) {
      fields.emplace_back(attrs.substr(start, i - start));
      start = i + 2;
    }
  }
  fields.emplace_back(attrs.substr(start));
  return fields;
}

// The attributes that differ from the operator's defaults, as the parser reads them.
std::string own_attrs(const Node& n) {
  if (n.attrs == default_attrs(n.op)) return "";
  const std::vector<std::string> own = fields_of(print_attrs(n.op, n.attrs));
  const std::vector<std::string> defaults = fields_of(print_attrs(n.op, default_attrs(n.op)));
  std::string text;
  for (size_t i = 0; i < own.size(); ++i) {
    if (i < defaults.size() && own[i] == defaults[i]) continue;
    text += (text.empty() ? "" : ", ") + own[i];
  }
  return "{" + text + "}";
}

class Printer {
 public:
  Printer(const Graph& graph, const PrintOptions& options) : graph_(graph), options_(options) {}

  std::string run() {
    for (ValueId id : graph_.inputs) reserve(id);
    out_ = "graph " + (is_identifier(graph_.name) ? graph_.name : quoted(graph_.name)) + "(";
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const ValueId id = graph_.inputs[i];
      out_ += (i ? ", " : "") + label(id) + ": " + type(graph_.value(id));
    }
    out_ += ") {\n";
    for (NodeId id : graph_.order()) node(graph_.node(id));
    for (ValueId id : graph_.outputs) constant_line(id);
    for (const Guard& guard : graph_.guards) {
      out_ += "  guard " + guard.lhs.str() + " == " + guard.rhs.str() + " " + quoted(guard.where) +
              "\n";
    }
    for (const auto& [symbol, dim] : graph_.symbol_substitutions) {
      out_ += "  symbol " + symbol + " = " + dim.str() + "\n";
    }
    out_ += "  return ";
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      out_ +=
          (i ? ", " : "") + operand(graph_.outputs[i]) + " as " + quoted(graph_.output_names[i]);
    }
    return out_ + "\n}\n";
  }

 private:
  static std::string type(const Value& v) {
    return std::string(name(v.dtype)) + (v.has_shape ? str(v.shape) : "");
  }

  // Inputs always keep their names.
  void reserve(ValueId id) {
    const std::string& given = graph_.value(id).name;
    if (options_.names == PrintOptions::Names::kNumbers || given.empty()) return;
    labels_[id] = "%" + (is_identifier(given) ? given : quoted(given));
    taken_.insert(given);
  }

  const std::string& label(ValueId id) {
    if (const auto it = labels_.find(id); it != labels_.end()) return it->second;
    const std::string& given = graph_.value(id).name;
    const bool by_name = options_.names == PrintOptions::Names::kOnnx && is_identifier(given) &&
                         taken_.insert(given).second;
    return labels_[id] = "%" + (by_name ? given : std::to_string(next_number_++));
  }

  bool elided(const Tensor& t) const {
    return options_.max_constant_elems >= 0 && t.elems() > options_.max_constant_elems;
  }
  bool is_inline(const Value& v) const {
    return v.is_constant() && (elided(v.constant) || v.constant.elems() <= kInlineElems);
  }

  std::string constant_text(const Tensor& t) const {
    std::string text = std::string(name(t.dtype()));
    if (t.rank() > 0) text += str(t.shape());
    if (elided(t)) return text + "{...}";
    text += '{';
    for (int64_t i = 0; i < t.elems(); ++i) {
      if (i) text += ", ";
      text +=
          is_float(t.dtype()) ? number(t.dtype(), t.float_at(i)) : std::to_string(t.integer_at(i));
    }
    return text + '}';
  }

  void constant_line(ValueId id) {
    const Value& v = graph_.value(id);
    if (!v.is_constant() || is_inline(v) || !printed_.insert(id).second) return;
    out_ += "  " + label(id) + " = const " + constant_text(v.constant) + "\n";
  }

  std::string operand(ValueId id) {
    if (id == kNoValue) return "_";
    const Value& v = graph_.value(id);
    return is_inline(v) ? constant_text(v.constant) : label(id);
  }

  void node(const Node& n) {
    for (ValueId in : n.inputs) {
      if (in != kNoValue) constant_line(in);
    }
    std::string operands;
    for (size_t i = 0; i < n.inputs.size(); ++i) operands += (i ? ", " : "") + operand(n.inputs[i]);
    out_ += "  ";
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (i) out_ += ", ";
      if (n.outputs[i] == kNoValue) {
        out_ += "_";
        continue;
      }
      const Value& v = graph_.value(n.outputs[i]);
      out_ += label(n.outputs[i]);
      if (v.dtype != DType::kUndefined && options_.types == PrintOptions::Types::kShow)
        out_ += ": " + type(v);
    }
    out_ += " = " + std::string(name(n.op)) + "(" + operands + ")";
    const std::string attrs = own_attrs(n);
    if (!attrs.empty()) out_ += " " + attrs;
    if (options_.origins == PrintOptions::Origins::kShow) origins(n);
    if (options_.requests == PrintOptions::Requests::kShow && !n.request.by.empty())
      out_ += "  # " + request_text(n.request);
    out_ += "\n";
  }

  void origins(const Node& n) {
    if (!n.name.empty()) out_ += " named " + quoted(n.name);
    for (size_t i = 0; i < n.origins.size(); ++i) {
      const Origin& o = n.origins[i];
      std::string text;
      for (const std::string* field : {&o.key, &o.name, &o.op_type, &o.part}) {
        if (field != &o.key) text += '|';
        for (char c : *field) {
          if (c == '|') text += '\\';
          text += c;
        }
      }
      out_ += (i ? ", " : " from ") + quoted(text);
    }
  }

  const Graph& graph_;
  const PrintOptions& options_;
  std::string out_;
  std::map<ValueId, std::string> labels_;
  std::set<std::string> taken_;
  std::set<ValueId> printed_;
  int next_number_ = 0;
};

}  // namespace

std::string print(const Graph& graph, const PrintOptions& options) {
  return Printer(graph, options).run();
}

}  // namespace vernier::ir
