// Parsing the text form of a graph: see text.h.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>

#include "core/op_attrs.h"
#include "core/random.h"
#include "ir/text.h"

namespace vernier::ir {
namespace {

constexpr int64_t kMaxConstantElems = int64_t{1} << 22;  // of all constants of one text
constexpr size_t kMaxOutputs = 1024;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

std::string in_quotes(std::string_view text) {
  std::string quoted(1, '\'');
  quoted += text;
  quoted += '\'';
  return quoted;
}

class Parser {
 public:
  Parser(std::string_view text, InferFn infer)
      : text_(text), infer_(infer), graph_(std::make_shared<Graph>()) {}

  std::shared_ptr<Graph> run() {
    expect_word("graph");
    skip();
    graph_->name = peek() == '"' ? quoted() : word("a graph name");
    expect("(");
    while (!take(")")) {
      if (!graph_->inputs.empty()) expect(",");
      input();
    }
    expect("{");
    while (!take("}")) statement();
    skip();
    if (at_ != text_.size()) fail("unexpected text after the graph");
    if (!returned_) fail("the graph has no return");
    return graph_;
  }

 private:
  struct Type {
    DType dtype = DType::kUndefined;
    SymShape shape;
    bool has_shape = false;
  };

  [[noreturn]] void fail_at(size_t at, const std::string& what) const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < text_.size(); ++i) {
      ++column;
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      }
    }
    throw Error(ErrorCode::kInput, "graph text, line " + std::to_string(line) + ", column " +
                                       std::to_string(column) + ": " + what);
  }
  [[noreturn]] void fail(const std::string& what) const { fail_at(at_, what); }
  // Runs `body`; an Error inside it gets the position of this statement.
  template <class Body>
  auto located(size_t at, const Body& body) const {
    try {
      return body();
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kInput) throw;
      fail_at(at, e.what());
    }
  }

  // ---- characters and words
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip() {
    while (at_ < text_.size()) {
      if (is_space(text_[at_])) {
        ++at_;
      } else if (text_[at_] == '#' || text_.substr(at_, 2) == "//") {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        return;
      }
    }
  }
  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (take(token)) return;
    const std::string got = at_ < text_.size() ? in_quotes(text_.substr(at_, 1)) : "the end";
    fail("expected " + in_quotes(token) + ", got " + got);
  }
  std::string word(const std::string& what) {
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (start == at_) fail("expected " + what);
    return std::string(text_.substr(start, at_ - start));
  }
  void expect_word(std::string_view wanted) {
    skip();
    const size_t start = at_;
    if (word(in_quotes(wanted)) != wanted) fail_at(start, "expected " + in_quotes(wanted));
  }
  bool take_word(std::string_view wanted) {
    skip();
    if (text_.substr(at_, wanted.size()) != wanted) return false;
    if (at_ + wanted.size() < text_.size() && is_word(text_[at_ + wanted.size()])) return false;
    at_ += wanted.size();
    return true;
  }
  std::string quoted() {
    expect("\"");
    std::string s;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        ++at_;
        s += text_[at_] == 'n' ? '\n' : text_[at_];
      } else {
        s += text_[at_];
      }
    }
    if (peek() != '"') fail("the quoted text does not end");
    ++at_;
    return s;
  }
  // The text up to the matching `close`, which is consumed; `open` was consumed before.
  std::string_view balanced(char open, char close) {
    const size_t start = at_;
    int depth = 1;
    for (bool inside = false; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (inside && c == '\\') {
        ++at_;
      } else if (c == '"') {
        inside = !inside;
      } else if (!inside && c == open) {
        ++depth;
      } else if (!inside && c == close && --depth == 0) {
        return text_.substr(start, at_++ - start);
      }
    }
    fail_at(start, in_quotes(std::string_view(&open, 1)) + " is not closed");
  }

  // ---- types and constants
  DType dtype() {
    skip();
    const size_t start = at_;
    const std::string name = word("an element type");
    if (name == "undefined") return DType::kUndefined;
    const auto parsed = parse_dtype(name);
    if (!parsed) fail_at(start, "unknown element type '" + name + "'");
    return *parsed;
  }
  SymShape dims() {  // after '['
    const size_t start = at_;
    const std::string_view body = balanced('[', ']');
    SymShape shape;
    int depth = 0;
    size_t item = 0;
    const auto push = [&](size_t end) {
      std::string_view part = body.substr(item, end - item);
      while (!part.empty() && is_space(part.front())) part.remove_prefix(1);
      while (!part.empty() && is_space(part.back())) part.remove_suffix(1);
      shape.push_back(located(start + item, [&] { return Dim::parse(part); }));
    };
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i] == '(') ++depth;
      if (body[i] == ')') --depth;
      if (body[i] != ',' || depth != 0) continue;
      push(i);
      item = i + 1;
    }
    const bool blank = std::all_of(body.begin(), body.end(), is_space);
    if (!blank) push(body.size());
    return shape;
  }
  Type type() {
    Type t;
    t.dtype = dtype();
    if (take("[")) {
      t.shape = dims();
      t.has_shape = true;
    }
    return t;
  }

  double number() {
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '-' || text_[at_] == '+')) {
      ++at_;
    }
    double v = 0;
    const auto [end, error] = std::from_chars(text_.data() + start, text_.data() + at_, v);
    if (error != std::errc{} || end != text_.data() + at_) fail_at(start, "expected a number");
    return v;
  }
  int64_t integer() {
    skip();
    if (take_word("true")) return 1;
    if (take_word("false")) return 0;
    const size_t start = at_;
    if (peek() == '-') ++at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    int64_t v = 0;
    const auto [end, error] = std::from_chars(text_.data() + start, text_.data() + at_, v);
    if (error != std::errc{} || end != text_.data() + at_) fail_at(start, "expected an integer");
    return v;
  }

  Tensor constant() {
    skip();
    const size_t start = at_;
    const Type t = type();
    if (size_bytes(t.dtype) == 0) fail_at(start, "a constant needs a storable element type");
    Shape shape;
    for (const Dim& d : t.shape) {
      if (!d.is_constant()) fail_at(start, "a constant's sizes must be numbers, got " + d.str());
      shape.push_back(d.constant());
    }
    const int64_t count = located(start, [&] { return num_elems(shape); });
    if (count > kMaxConstantElems - constant_elems_)
      fail_at(start, "the constant is too large for the text form (all together hold at most " +
                         std::to_string(kMaxConstantElems) + " elements)");
    constant_elems_ += count;
    if (take_word("fill")) return filled(t.dtype, std::move(shape), count);
    if (take_word("normal")) return normal(t.dtype, std::move(shape), count);
    expect("{");
    skip();
    if (text_.substr(at_, 3) == "...") {
      fail(
          "the constant's values were omitted when the graph was printed; print it without "
          "max_constant_elems");
    }
    return is_float(t.dtype) ? listed<double>(t.dtype, std::move(shape), count)
                             : listed<int64_t>(t.dtype, std::move(shape), count);
  }
  template <class T>
  Tensor listed(DType dtype, Shape shape, int64_t count) {
    std::vector<T> values;
    while (!take("}")) {
      if (!values.empty()) expect(",");
      if constexpr (std::is_same_v<T, double>)
        values.push_back(number());
      else
        values.push_back(integer());
      if (static_cast<int64_t>(values.size()) > count) break;
    }
    if (static_cast<int64_t>(values.size()) != count) {
      fail("the constant's shape holds " + std::to_string(count) + " values, got " +
           (static_cast<int64_t>(values.size()) > count ? "more" : std::to_string(values.size())));
    }
    return Tensor::from(dtype, std::move(shape), std::span<const T>(values));
  }
  Tensor filled(DType dtype, Shape shape, int64_t count) {
    expect("(");
    const auto n = static_cast<size_t>(count);
    if (is_float(dtype)) {
      const std::vector<double> values(n, number());
      expect(")");
      return Tensor::from(dtype, std::move(shape), std::span<const double>(values));
    }
    const std::vector<int64_t> values(n, integer());
    expect(")");
    return Tensor::from(dtype, std::move(shape), std::span<const int64_t>(values));
  }
  Tensor normal(DType dtype, Shape shape, int64_t count) {
    if (!is_float(dtype)) fail("normal() makes float constants only");
    double seed = 0, mean = 0, std = 1;
    expect("(");
    for (bool first = true; !take(")"); first = false) {
      if (!first) expect(",");
      const std::string key = word("seed, mean or std");
      expect("=");
      double* slot = key == "seed" ? &seed : key == "mean" ? &mean : key == "std" ? &std : nullptr;
      if (!slot) fail("expected seed, mean or std, got '" + key + "'");
      *slot = number();
    }
    if (!(seed >= 0 && seed < 1e15)) fail("a seed must be in [0, 1e15)");
    SplitMix source(static_cast<uint64_t>(seed));
    std::vector<double> values(static_cast<size_t>(count));
    for (double& v : values) v = mean + std * source.normal();
    return Tensor::from(dtype, std::move(shape), std::span<const double>(values));
  }

  // ---- values
  struct Label {
    std::string text;  // what identifies the value in this text
    std::string name;  // its ONNX name; empty for %number
    size_t at = 0;
  };
  Label label() {
    Label l;
    skip();
    l.at = at_;
    expect("%");
    if (peek() == '"') {
      l.name = quoted();
      l.text = l.name;
      return l;
    }
    l.text = word("a value name");
    if (!std::isdigit(static_cast<unsigned char>(l.text[0]))) l.name = l.text;
    return l;
  }
  void define(const Label& l, ValueId id) {
    if (!values_.emplace(l.text, id).second)
      fail_at(l.at, "value %" + l.text + " is defined twice");
  }
  ValueId operand() {
    skip();
    if (take_word("_")) return kNoValue;
    if (peek() != '%') return graph_->add_constant(constant());
    const Label l = label();
    const auto it = values_.find(l.text);
    if (it == values_.end()) fail_at(l.at, "value %" + l.text + " is not defined");
    return it->second;
  }

  void input() {
    const Label l = label();
    expect(":");
    const size_t start = at_;
    const Type t = type();
    if (!t.has_shape || t.dtype == DType::kUndefined)
      fail_at(start, "a graph input needs an element type and a shape");
    define(l, graph_->add_input(l.name, t.dtype, t.shape));
  }

  // ---- statements
  void statement() {
    if (take_word("guard")) return guard();
    if (take_word("symbol")) return symbol();
    if (take_word("return")) return results();
    definition();
  }
  Dim size_until(std::string_view end) {
    skip();
    const size_t start = at_;
    const size_t stop = text_.find(end, at_);
    if (stop == std::string_view::npos) fail("expected " + in_quotes(end));
    std::string_view part = text_.substr(start, stop - start);
    while (!part.empty() && is_space(part.back())) part.remove_suffix(1);
    at_ = stop;
    return located(start, [&] { return Dim::parse(part); });
  }
  void guard() {
    Guard g;
    g.lhs = size_until("==");
    expect("==");
    g.rhs = size_until("\"");
    g.where = quoted();
    graph_->guards.push_back(std::move(g));
  }
  void symbol() {
    const std::string name = word("a symbol");
    expect("=");
    graph_->symbol_substitutions.insert_or_assign(name, size_until("\n"));
  }
  void results() {
    if (returned_) fail("the graph returns twice");
    returned_ = true;
    do {
      graph_->outputs.push_back(operand());
      if (graph_->outputs.back() == kNoValue) fail("an output cannot be absent");
      expect_word("as");
      graph_->output_names.push_back(quoted());
    } while (take(","));
  }

  void definition() {
    skip();
    const size_t start = at_;
    std::vector<std::optional<Label>> labels;
    std::vector<Type> types;
    do {
      if (labels.size() == kMaxOutputs) fail("too many results");
      types.emplace_back();
      if (take_word("_")) {
        labels.emplace_back();
        continue;
      }
      labels.emplace_back(label());
      if (take(":")) types.back() = type();
    } while (take(","));
    expect("=");
    if (take_word("const")) {
      if (labels.size() != 1 || !labels[0]) fail("a constant has one name");
      define(*labels[0], graph_->add_constant(constant(), labels[0]->name));
      return;
    }
    node(start, labels, types);
  }

  void node(size_t start, const std::vector<std::optional<Label>>& labels,
            const std::vector<Type>& types) {
    skip();
    const size_t op_at = at_;
    const std::string op_name = word("an operator");
    const auto op = parse_op_kind(op_name);
    if (!op) fail_at(op_at, "unknown operator '" + op_name + "'");
    expect("(");
    std::vector<ValueId> inputs;
    for (bool first = true; !take(")"); first = false) {
      if (!first) expect(",");
      inputs.push_back(operand());
    }
    std::string_view attrs;
    skip();
    const size_t attrs_at = at_;
    if (take("{")) attrs = balanced('{', '}');
    AttrBytes bytes = located(attrs_at, [&] { return parse_attrs(*op, attrs); });
    const NodeId id =
        graph_->add_node(*op, std::move(inputs), std::move(bytes), static_cast<int>(labels.size()));
    Node& n = graph_->node(id);
    if (take_word("named")) n.name = quoted();
    if (take_word("from")) origins(n);
    if (infer_) located(start, [&] { infer_(*graph_, id); });
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i])
        result(id, i, *labels[i], types[i]);
      else
        drop_output(id, i);
    }
  }
  void drop_output(NodeId id, size_t i) {
    Node& n = graph_->node(id);
    graph_->value(n.outputs[i]).producer = kNoNode;
    n.outputs[i] = kNoValue;
  }
  void result(NodeId id, size_t i, const Label& l, const Type& stated) {
    const ValueId value = graph_->node(id).outputs[i];
    Value& v = graph_->value(value);
    v.name = l.name;
    define(l, value);
    if (stated.dtype == DType::kUndefined) {
      if (!infer_) fail_at(l.at, "value %" + l.text + " needs a type");
      return;
    }
    if (!infer_) {
      v.dtype = stated.dtype;
      v.shape = stated.shape;
      v.has_shape = stated.has_shape;
      return;
    }
    bool contradicts =
        v.dtype != stated.dtype || (stated.has_shape && v.shape.size() != stated.shape.size());
    for (size_t d = 0; !contradicts && stated.has_shape && d < v.shape.size(); ++d) {
      contradicts = equal(v.shape[d], stated.shape[d]) == false;
    }
    if (contradicts) {
      fail_at(l.at, "value %" + l.text + " is stated as " + std::string(name(stated.dtype)) +
                        str(stated.shape) + " but inferred as " + std::string(name(v.dtype)) +
                        str(v.shape));
    }
  }
  void origins(Node& n) {
    do {
      skip();
      const size_t start = at_;
      const std::string text = quoted();
      std::array<std::string, 4> fields;
      size_t field = 0;
      for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 1 < text.size())
          fields[field] += text[++i];
        else if (text[i] != '|')
          fields[field] += text[i];
        else if (++field == fields.size())
          fail_at(start, "an origin is \"key|name|op type|part\"");
      }
      n.origins.push_back({fields[0], fields[1], fields[2], fields[3]});
    } while (take(","));
  }

  std::string_view text_;
  InferFn infer_;
  std::shared_ptr<Graph> graph_;
  std::map<std::string, ValueId> values_;
  size_t at_ = 0;
  int64_t constant_elems_ = 0;
  bool returned_ = false;
};

}  // namespace

std::shared_ptr<Graph> parse(std::string_view text, InferFn infer) {
  return Parser(text, infer).run();
}

}  // namespace vernier::ir
