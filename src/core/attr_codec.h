// How an operator's attribute struct becomes bytes and text. A struct lists its fields once:
//   struct GatherAttrs { int64_t axis = 0; template <class V> void visit(V& v) { v("axis", axis); }
//   };
// Nodes, plans, evaluators and kernels carry AttrBytes; decode<GatherAttrs>(bytes) reads them back.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/dim.h"
#include "core/dtype.h"
#include "core/error.h"

namespace vernier {

using AttrBytes = std::vector<std::byte>;
using AttrView = std::span<const std::byte>;

/// Operators without attributes.
struct NoAttrs {
  template <class V>
  void visit(V&) {}
};

namespace detail {

/// Throws Error(kInput) unless 0 <= number <= last: the values of an enumeration, whose last value
/// the function last_value next to it returns.
void check_enumeration(std::string_view name, int64_t number, int64_t last);
template <class E>
E enumeration(std::string_view name, int64_t number) {
  check_enumeration(name, number, static_cast<int64_t>(last_value(E{})));
  return static_cast<E>(number);
}

/// Appends fields to bytes: integers as 8 bytes little-endian, sequences as count then items.
struct AttrWriter {
  AttrBytes bytes;
  void operator()(std::string_view name, int64_t& v);
  void operator()(std::string_view name, double& v);
  void operator()(std::string_view name, bool& v);
  void operator()(std::string_view name, DType& v);
  void operator()(std::string_view name, std::string& v);
  void operator()(std::string_view name, std::vector<int64_t>& v);
  void operator()(std::string_view name, std::vector<double>& v);
  void operator()(std::string_view name, SymShape& v);
  template <class E>
  requires std::is_enum_v<E>
  void operator()(std::string_view name, E& v) {
    auto number = static_cast<int64_t>(v);
    (*this)(name, number);
  }
};

/// The inverse; throws Error(kInput) on truncated bytes and on invalid values of a type or
/// enumeration.
struct AttrReader {
  AttrView bytes;
  size_t at = 0;
  void operator()(std::string_view name, int64_t& v);
  void operator()(std::string_view name, double& v);
  void operator()(std::string_view name, bool& v);
  void operator()(std::string_view name, DType& v);
  void operator()(std::string_view name, std::string& v);
  void operator()(std::string_view name, std::vector<int64_t>& v);
  void operator()(std::string_view name, std::vector<double>& v);
  void operator()(std::string_view name, SymShape& v);
  template <class E>
  requires std::is_enum_v<E>
  void operator()(std::string_view name, E& v) {
    int64_t number = 0;
    (*this)(name, number);
    v = enumeration<E>(name, number);
  }

 private:
  uint64_t word();
  size_t count(size_t item_bytes);
};

/// "{axis=1, epsilon=1e-05, perm=[0, 2, 1, 3], shape=(batch, seq)}"; "" for no attributes.
/// Doubles are printed so that they parse to the same value.
struct AttrPrinter {
  std::string text;
  void operator()(std::string_view name, int64_t& v);
  void operator()(std::string_view name, double& v);
  void operator()(std::string_view name, bool& v);
  void operator()(std::string_view name, DType& v);
  void operator()(std::string_view name, std::string& v);
  void operator()(std::string_view name, std::vector<int64_t>& v);
  void operator()(std::string_view name, std::vector<double>& v);
  void operator()(std::string_view name, SymShape& v);
  template <class E>
  requires std::is_enum_v<E>
  void operator()(std::string_view name, E& v) {
    auto number = static_cast<int64_t>(v);
    (*this)(name, number);
  }
  std::string done() const { return text.empty() ? "" : "{" + text + "}"; }

 private:
  void key(std::string_view name);
};

/// Reads the printer's text: fields by name, in any order; a missing field keeps its default.
/// Unknown fields are an error (check with unused()).
class AttrParser {
 public:
  explicit AttrParser(std::string_view text);  ///< with or without the braces
  void operator()(std::string_view name, int64_t& v);
  void operator()(std::string_view name, double& v);
  void operator()(std::string_view name, bool& v);
  void operator()(std::string_view name, DType& v);
  void operator()(std::string_view name, std::string& v);
  void operator()(std::string_view name, std::vector<int64_t>& v);
  void operator()(std::string_view name, std::vector<double>& v);
  void operator()(std::string_view name, SymShape& v);
  template <class E>
  requires std::is_enum_v<E>
  void operator()(std::string_view name, E& v) {
    auto number = static_cast<int64_t>(v);
    (*this)(name, number);
    v = enumeration<E>(name, number);
  }
  /// Throws Error(kInput) naming the fields that no call asked for.
  void check_all_used() const;

 private:
  struct Field {
    std::string name, value;
    bool used = false;
  };
  Field* find(std::string_view name);
  std::vector<Field> fields_;
};

}  // namespace detail

template <class A>
AttrBytes encode(A attrs) {
  detail::AttrWriter writer;
  attrs.visit(writer);
  return std::move(writer.bytes);
}
template <class A>
A decode(AttrView bytes) {
  A attrs;
  detail::AttrReader reader{bytes};
  attrs.visit(reader);
  if (reader.at != bytes.size()) {
    throw Error(ErrorCode::kInput, "attribute bytes are longer than their operator's attributes");
  }
  return attrs;
}
template <class A>
std::string print_attrs(AttrView bytes) {
  A attrs = decode<A>(bytes);
  detail::AttrPrinter printer;
  attrs.visit(printer);
  return printer.done();
}
template <class A>
AttrBytes parse_attrs(std::string_view text) {
  A attrs;
  detail::AttrParser parser(text);
  attrs.visit(parser);
  parser.check_all_used();
  return encode(std::move(attrs));
}

}  // namespace vernier
