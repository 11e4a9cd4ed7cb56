// Changes to single fields: see field_changes.h.
#include "field_changes.h"

namespace vernier::fuzz {
namespace {

// Visitor of attribute structs: their fields as changes, optionally only real numbers.
class AttrChanges {
 public:
  enum class Which : uint8_t { kAll, kReal };
  AttrChanges(Which which, std::vector<std::string> symbols)
      : which_(which), symbols_(std::move(symbols)) {}

  void operator()(std::string_view, double& v) {
    changes_.push_back([&v](Choices& choices) { v = changed_float(v, choices); });
  }
  void operator()(std::string_view, std::vector<double>& v) {
    for (double& item : v) (*this)("", item);
    add([&v](Choices& choices) { change_list(v, choices); });
  }
  void operator()(std::string_view, int64_t& v) {
    add([&v](Choices& choices) { v = changed_integer(v, choices); });
  }
  void operator()(std::string_view, bool& v) {
    add([&v](Choices&) { v = !v; });
  }
  void operator()(std::string_view, DType& v) {
    add([&v](Choices& choices) {
      v = static_cast<DType>(choices.below(static_cast<size_t>(DType::kBool) + 2));
    });
  }
  void operator()(std::string_view, std::string& v) {
    add([&v](Choices& choices) { change_text(v, choices); });
  }
  void operator()(std::string_view, std::vector<int64_t>& v) {
    add([&v](Choices& choices) { change_list(v, choices); });
    for (int64_t& item : v) (*this)("", item);
  }
  void operator()(std::string_view, SymShape& v) {
    add([&v](Choices& choices) { change_list(v, choices); });
    for (Dim& item : v)
      add([this, &item](Choices& choices) { change_dim(item, symbols_, choices); });
  }
  template <class E>
  requires std::is_enum_v<E>
  void operator()(std::string_view, E& v) {
    add([&v](Choices& choices) { v = static_cast<E>(choices.below(8)); });
  }
  bool make_one(Choices& choices) {
    if (changes_.empty()) return false;
    choices.of(changes_)(choices);
    return true;
  }

 private:
  void add(Change change) {
    if (which_ == Which::kAll) changes_.push_back(std::move(change));
  }
  Which which_;
  std::vector<std::string> symbols_;
  std::vector<Change> changes_;
};

struct AttrDims {
  const std::function<void(Dim&)>& body;
  template <class T>
  void operator()(std::string_view, T&) {}
  void operator()(std::string_view, SymShape& v) {
    for (Dim& item : v) body(item);
  }
};

template <class A>
bool change_one(AttrBytes& bytes, AttrChanges& changes, Choices& choices) {
  A attrs = decode<A>(bytes);
  attrs.visit(changes);
  const bool changed = changes.make_one(choices);
  bytes = encode(attrs);
  return changed;
}
template <class A>
void visit_dims(AttrBytes& bytes, AttrDims& dims) {
  A attrs = decode<A>(bytes);
  attrs.visit(dims);
  bytes = encode(attrs);
}

struct AttrRow {
  bool (*change)(AttrBytes&, AttrChanges&, Choices&);
  void (*visit)(AttrBytes&, AttrDims&);
};
constexpr std::array kRows{
#define OP(kind, min_in, max_in, max_out, flags, attrs, ...) \
  AttrRow{&change_one<attrs>, &visit_dims<attrs>},
#include "ops/ops.def"
#undef OP
};
const AttrRow& row_of(OpKind op) { return kRows[static_cast<size_t>(op)]; }

}  // namespace

void change_text(std::string& text, Choices& choices) {
  switch (choices.below(8)) {
    case 0:
      text.clear();
      break;
    case 1:
      text += "\x1b[31m\xff";
      break;
    case 2:
      text.assign(300, 'x');
      break;
    case 3:
      text += text;
      break;
    case 4:
      if (!text.empty()) text.pop_back();
      break;
    case 5:  // names and layouts contain numbers
      for (char& c : text)
        if (c >= '0' && c <= '9' && choices.one_in(2))
          c = static_cast<char>('0' + choices.below(10));
      break;
    default:
      if (!text.empty()) choices.of(text) = static_cast<char>(choices.bits(1));
  }
}

void change_dim(Dim& dim, const std::vector<std::string>& symbols, Choices& choices) {
  const std::optional<int64_t> constant = dim.as_constant();
  const size_t way = choices.below(8);
  if (constant && way < 5) {
    dim = Dim(changed_integer(*constant, choices));
    return;
  }
  switch (way) {
    case 0:
    case 5:
      if (!symbols.empty()) dim = Dim::symbol(choices.of(symbols));
      break;
    case 1:
      dim = dim + Dim(changed_integer(0, choices));
      break;
    case 2:
      dim = dim * Dim(changed_integer(2, choices));
      break;
    case 3:
      dim = floordiv(dim, Dim(1 + static_cast<int64_t>(choices.below(4))));
      break;
    case 4:
      dim = Dim(static_cast<int64_t>(choices.below(8)));
      break;
    case 6:
      dim = min(dim, Dim(static_cast<int64_t>(choices.below(8))));
      break;
    default:
      if (!symbols.empty()) dim = mod(dim, Dim::symbol(choices.of(symbols)));
  }
}

void change_attrs(OpKind op, AttrBytes& attrs, const std::vector<std::string>& symbols,
                  Choices& choices) {
  AttrChanges changes(AttrChanges::Which::kAll, symbols);
  try {
    row_of(op).change(attrs, changes, choices);
  } catch (const Error&) {  // an earlier change made it another operator
    change_list(attrs, choices);
  }
}

bool change_real_attrs(OpKind op, AttrBytes& attrs, Choices& choices) {
  AttrChanges changes(AttrChanges::Which::kReal, {});
  try {
    return row_of(op).change(attrs, changes, choices);
  } catch (const Error&) {
    return false;
  }
}

void for_each_attr_dim(OpKind op, AttrBytes& attrs, const std::function<void(Dim&)>& body) {
  AttrDims dims{body};
  try {
    row_of(op).visit(attrs, dims);
  } catch (const Error&) {
    return;  // an earlier change made it another operator
  }
}

}  // namespace vernier::fuzz
