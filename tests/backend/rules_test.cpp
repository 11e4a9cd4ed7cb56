// What an operator refuses, every kernel of the device refuses, and nothing else: each operator's
// rows of tests/ops/*_cases.cpp are changed at random (sizes, ranks, types, attributes, indices,
// absent inputs), and what inference lets pass runs on every kernel row between guard bytes and on
// the evaluator. Both refuse, or both give the same answer within a loose bound. A device with
// memory of its own does not look at values before it uses them: there those that the value rules
// refuse do what docs/architecture.md says, and never reach beyond an array (the guards, and
// compute-sanitizer). Seeds are fixed; a failure prints the case.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <random>

#include "backend/device_under_test.h"
#include "backend/op_tables.h"
#include "core/op_attrs.h"
#include "core/value_rules.h"
#include "ops/infer.h"

namespace vernier::backend::test {
namespace {

constexpr int kMutants = 300;            // of each seed
constexpr int kMostMutants = 4000;       // of each operator
constexpr int64_t kMostElems = 1 << 13;  // of an array
constexpr int kShards = 8;

using Seed = vernier::test::OpCase;

DType narrowed(DType type) { return type == DType::kF64 ? DType::kF32 : type; }

// Values of `from`, in a circle, in another shape and type.
Tensor recast(const Tensor& from, DType dtype, Shape shape) {
  const int64_t count = num_elems(shape), have = from.elems();
  std::vector<double> floats(static_cast<size_t>(count), 0.0);
  std::vector<int64_t> integers(static_cast<size_t>(count), 0);
  for (int64_t i = 0; i < count && have > 0; ++i) {
    const auto k = static_cast<size_t>(i);
    if (is_float(from.dtype())) {
      floats[k] = from.float_at(i % have);
      integers[k] = std::abs(floats[k]) < 100 ? static_cast<int64_t>(floats[k]) : 3;
    } else {
      integers[k] = from.integer_at(i % have);
      floats[k] = static_cast<double>(integers[k]);
    }
  }
  if (is_float(dtype))
    return Tensor::from(dtype, std::move(shape), std::span<const double>(floats));
  return Tensor::from(dtype, std::move(shape), std::span<const int64_t>(integers));
}

Tensor tensor_of(const vernier::test::Arg& arg) {
  const auto wide = Tensor::from(DType::kF64, arg.shape, std::span<const double>(arg.values));
  return recast(wide, is_float(arg.dtype) ? narrowed(arg.dtype) : arg.dtype, arg.shape);
}

OpCase case_of(const Seed& seed) {
  OpCase c{.name = seed.name, .op = seed.op, .attrs = parse_attrs(seed.op, seed.attrs)};
  for (const vernier::test::Arg& arg : seed.in)
    c.inputs.push_back(arg.dtype == DType::kUndefined ? Arg{} : Arg{.value = tensor_of(arg)});
  for (const vernier::test::Arg& arg : seed.out)
    c.outputs.push_back(
        {.dtype = arg.dtype == DType::kUndefined ? DType::kUndefined : DType::kF32});
  if (c.outputs.empty()) c.outputs.push_back({});
  return c;
}

// ---- mutations

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  /// One or two changes. False: the result is not an operator (attributes that do not parse).
  bool change(OpCase& c) {
    const int64_t changes = number(1, 2);
    for (int64_t i = 0; i < changes; ++i) {
      if (!change_once(c)) return false;
    }
    return true;
  }
  /// What is known when the plan is made.
  void choose_constants(OpCase& c) {
    for (Arg& arg : c.inputs) arg.constant = number(0, 2) == 0;
  }
  void all_but_first_constant(OpCase& c) {
    for (size_t i = 0; i < c.inputs.size(); ++i) c.inputs[i].constant = i > 0;
  }

 private:
  int64_t number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  Arg* some_input(OpCase& c) {
    if (c.inputs.empty()) return nullptr;
    Arg& arg = c.inputs[static_cast<size_t>(number(0, static_cast<int64_t>(c.inputs.size()) - 1))];
    return arg.value.defined() ? &arg : nullptr;
  }

  bool change_once(OpCase& c) {
    switch (number(0, 9)) {
      case 0:
      case 1:
        change_size(c);
        return true;
      case 2:
        change_rank(c);
        return true;
      case 3:
        change_type(c);
        return true;
      case 4:
      case 5:
        return change_attribute(c);
      case 6:
        if (Arg* arg = some_input(c); arg != nullptr && number(0, 1) == 0) *arg = {};
        return true;
      default:
        change_values(c);
        return true;
    }
  }

  void change_size(OpCase& c) {
    Arg* arg = some_input(c);
    if (arg == nullptr || arg->value.rank() == 0) return;
    Shape shape = arg->value.shape();
    int64_t& size = shape[static_cast<size_t>(number(0, static_cast<int64_t>(shape.size()) - 1))];
    const std::array<int64_t, 6> choices{0,        1, size + 1, std::max<int64_t>(size - 1, 0),
                                         2 * size, 7};
    size = choices[static_cast<size_t>(number(0, 5))];
    arg->value = recast(arg->value, arg->value.dtype(), shape);
  }
  void change_rank(OpCase& c) {
    Arg* arg = some_input(c);
    if (arg == nullptr) return;
    Shape shape = arg->value.shape();
    const auto at = static_cast<std::ptrdiff_t>(number(0, static_cast<int64_t>(shape.size())));
    if (at < static_cast<std::ptrdiff_t>(shape.size()) && number(0, 1) == 0)
      shape.erase(shape.begin() + at);
    else
      shape.insert(shape.begin() + at, number(1, 2));
    arg->value = recast(arg->value, arg->value.dtype(), shape);
  }
  void change_type(OpCase& c) {
    static constexpr std::array kTypes{DType::kF32, DType::kF16, DType::kI64, DType::kI32,
                                       DType::kU8,  DType::kI8,  DType::kBool};
    Arg* arg = some_input(c);
    if (arg == nullptr) return;
    const DType type = kTypes[static_cast<size_t>(number(0, kTypes.size() - 1))];
    arg->value = recast(arg->value, type, arg->value.shape());
  }
  void change_values(OpCase& c) {
    static constexpr std::array<int64_t, 4> kFar{INT64_MAX, INT64_MIN, int64_t{1} << 31, -100};
    Arg* arg = some_input(c);
    if (arg == nullptr || is_float(arg->value.dtype()) || arg->value.elems() == 0) return;
    std::vector<int64_t> values = arg->value.integers();
    const auto at = static_cast<size_t>(number(0, arg->value.elems() - 1));
    values[at] = number(0, 4) == 0 ? kFar[static_cast<size_t>(number(0, 3))] : number(-5, 5);
    arg->value =
        Tensor::from(arg->value.dtype(), arg->value.shape(), std::span<const int64_t>(values));
  }

  // Another whole number in the attributes' text; names and texts stay.
  bool change_attribute(OpCase& c) {
    static constexpr std::array<int64_t, 14> kNumbers{
        -3,        -2,       -1, 0, 1, 2, 3, 4, 5, 100, int64_t{1} << 31, int64_t{1} << 40,
        INT64_MAX, INT64_MIN};
    const std::string text = print_attrs(c.op, c.attrs);
    std::vector<std::pair<size_t, size_t>> places;
    for (size_t i = 0; i < text.size(); ++i) {
      const bool begins = i > 0 && (text[i - 1] == '=' || text[i - 1] == ' ' ||
                                    text[i - 1] == '[' || text[i - 1] == '(');
      if (!begins || (!std::isdigit(text[i]) && text[i] != '-')) continue;
      size_t end = i + 1;
      while (end < text.size() && std::isdigit(text[end])) ++end;
      const bool whole = end < text.size() && text.find_first_of(",]})", end) == end;
      if (whole) places.emplace_back(i, end);
    }
    if (places.empty()) return true;
    const auto [begin, end] =
        places[static_cast<size_t>(number(0, static_cast<int64_t>(places.size()) - 1))];
    const int64_t other = kNumbers[static_cast<size_t>(number(0, kNumbers.size() - 1))];
    try {
      c.attrs = parse_attrs(c.op, text.substr(0, begin) + std::to_string(other) + text.substr(end));
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  std::mt19937_64 random_;
};

// ---- one case

std::string text_of(const OpCase& c) {
  std::string text = std::string(name(c.op)) + " " + c.name + print_attrs(c.op, c.attrs) + " of";
  for (const Arg& arg : c.inputs) {
    if (!arg.value.defined()) {
      text += " absent";
      continue;
    }
    text += " " + std::string(name(arg.value.dtype())) + str(arg.value.shape());
    if (arg.constant) text += " constant";
    if (is_float(arg.value.dtype()) || arg.value.elems() > 12) continue;
    text += "{";
    for (int64_t v : arg.value.integers()) text += " " + std::to_string(v);
    text += " }";
  }
  return text;
}

bool is_small(const OpCase& c) {
  for (const Arg& arg : c.inputs) {
    if (arg.value.defined() && arg.value.elems() > kMostElems) return false;
  }
  for (const Out& out : c.outputs) {
    if (num_elems(out.shape) > kMostElems || out.shape.size() > kMaxRank) return false;
  }
  // A window may be as long as its padding makes it, and takes its time.
  if (c.op != OpKind::kMaxPool && c.op != OpKind::kAveragePool) return true;
  constexpr int64_t kLongWindow = 64;
  for (int64_t size : decode<PoolAttrs>(c.attrs).kernel_shape) {
    if (size > kLongWindow) return false;
  }
  return true;
}

// Sets types and shapes of the outputs; empty, or why inference refuses the case.
std::string infer(OpCase& c) {
  ir::Graph graph;
  std::vector<ir::ValueId> ids;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& value = c.inputs[i].value;
    if (!value.defined()) {
      ids.push_back(ir::kNoValue);
    } else if (c.inputs[i].constant) {
      ids.push_back(graph.add_constant(value));
    } else {
      const SymShape shape(value.shape().begin(), value.shape().end());
      ids.push_back(graph.add_input("in" + std::to_string(i), value.dtype(), shape));
    }
  }
  const ir::NodeId id = graph.add_node(c.op, ids, c.attrs, static_cast<int>(c.outputs.size()));
  try {
    ops::infer_node(graph, id);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput) << text_of(c) << ": " << error.what();
    return error.what();
  }
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const ir::Value& v = graph.value(graph.node(id).outputs[i]);
    if (!v.has_shape || !is_constant(v.shape)) return "its sizes depend on values";
    Out& out = c.outputs[i];
    out.shape.clear();
    for (const Dim& d : v.shape) out.shape.push_back(d.constant());
    if (out.dtype != DType::kUndefined) out.dtype = v.dtype;
  }
  return "";
}

// Does an input hold a value that the operator's rules refuse?
bool breaks_rules(const OpCase& c) {
  for (const ValueRule& rule : value_rules(c.op, c.attrs, c.inputs.size())) {
    const auto input = static_cast<size_t>(rule.input), table = static_cast<size_t>(rule.table);
    if (input >= c.inputs.size() || !c.inputs[input].value.defined()) continue;
    const Tensor& values = c.inputs[input].value;
    if (is_float(values.dtype())) continue;
    const Shape& sizes = c.inputs[table].value.shape();
    const auto rank = static_cast<int64_t>(sizes.size());
    const int64_t axis = rule.axis < 0 ? rule.axis + rank : rule.axis;
    const int64_t depth = rule.tuples ? values.shape().back() : 1;
    int64_t before = 0;
    for (int64_t i = 0; i < values.elems(); ++i) {
      const int64_t value = values.integer_at(i);
      if (rule.kind == ValueRule::Kind::kNonZero) {
        if (value == 0) return true;
        continue;
      }
      const int64_t size =
          rule.kind == ValueRule::Kind::kAxis ? rank : sizes[static_cast<size_t>(axis + i % depth)];
      if (rule.ignored != value && !allowed_values(rule.kind, size).holds(value)) return true;
      if (rule.kind == ValueRule::Kind::kStarts && (value < before || (i == 0 && value != 0)))
        return true;
      before = value;
    }
  }
  return false;
}

// ---- what a device with memory of its own does with values that the rules refuse

Tensor with_integers(const Tensor& like, const std::vector<int64_t>& values) {
  return Tensor::from(like.dtype(), like.shape(), std::span<const int64_t>(values));
}

// `t` with one more entry of zeros at the end of an axis.
Tensor with_zeros(const Tensor& t, size_t axis) {
  Shape shape = t.shape();
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  const size_t run = static_cast<size_t>(shape[axis] * inner) * size_bytes(t.dtype());
  std::vector<std::byte> bytes;
  for (int64_t o = 0; o < outer; ++o) {
    const std::byte* from = t.data() + static_cast<size_t>(o) * run;
    bytes.insert(bytes.end(), from, from + run);
    bytes.resize(bytes.size() + static_cast<size_t>(inner) * size_bytes(t.dtype()));
  }
  ++shape[axis];
  return Tensor::from_bytes(t.dtype(), shape, bytes);
}

// `t` without the last entry of an axis.
EvalTensor without_last(const EvalTensor& t, size_t axis) {
  Shape shape = t.shape;
  --shape[axis];
  int64_t inner = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  EvalTensor result(t.dtype, shape);
  const int64_t kept = shape[axis] * inner, run = kept + inner;
  for (int64_t i = 0; i < result.elems(); ++i) {
    const auto from = static_cast<size_t>(i / kept * run + i % kept), to = static_cast<size_t>(i);
    if (t.is_float())
      result.f[to] = t.f[from];
    else
      result.i[to] = t.i[from];
  }
  return result;
}

// Indices outside their table, in a case whose answer is what docs/architecture.md says of them:
// they name an entry of zeros after the table's own.
struct Clamped {
  OpCase c;
  int cut_axis = -1;  // of the output: its last entry is not of the case
};
std::optional<Clamped> clamped_indices(OpCase c, const ValueRule& rule) {
  const Tensor table = c.inputs[static_cast<size_t>(rule.table)].value;
  const Tensor indices = c.inputs[static_cast<size_t>(rule.input)].value;
  const auto rank = static_cast<int64_t>(table.rank());
  const auto axis = static_cast<size_t>(rule.axis < 0 ? rule.axis + rank : rule.axis);
  const auto depth = static_cast<size_t>(rule.tuples ? indices.shape().back() : 1);
  if (depth == 0 || table.elems() == 0) return std::nullopt;
  std::vector<int64_t> values = indices.integers();
  for (size_t first = 0; first < values.size(); first += depth) {
    bool inside = true;
    for (size_t k = 0; k < depth; ++k) {
      const int64_t size = table.shape()[axis + k];
      int64_t& value = values[first + k];
      inside = inside && allowed_values(rule.kind, size).holds(value);
      if (value < 0) value += size;
    }
    if (inside) continue;
    std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(first), depth, 0);
    values[first] = table.shape()[axis];
  }
  if (wrap_integer(indices.dtype(), table.shape()[axis]) != table.shape()[axis])
    return std::nullopt;
  c.inputs[static_cast<size_t>(rule.table)].value = with_zeros(table, axis);
  c.inputs[static_cast<size_t>(rule.input)].value = with_integers(indices, values);
  const bool scatters = c.op == OpKind::kScatterElements || c.op == OpKind::kScatterND;
  if (scatters) ++c.outputs[0].shape[axis];
  return Clamped{std::move(c), scatters ? static_cast<int>(axis) : -1};
}

// The answer to a case with refused values; empty where none is promised but to stay inside.
std::optional<EvalTensor> clamped_answer(const OpCase& original) {
  OpCase c = original;
  for (const ValueRule& rule : value_rules(c.op, c.attrs, c.inputs.size())) {
    Tensor& input = c.inputs[static_cast<size_t>(rule.input)].value;
    if (c.op == OpKind::kCumSum) {
      input = with_integers(input, {0});
    } else if (c.op == OpKind::kReverseSequence) {
      const int64_t size = c.inputs[0].value.shape()[static_cast<size_t>(rule.axis)];
      std::vector<int64_t> lengths = input.integers();
      for (int64_t& length : lengths) length = std::clamp<int64_t>(length, 0, size);
      input = with_integers(input, lengths);
    } else if (c.op == OpKind::kEmbedNorm) {
      const int64_t rows = c.inputs[static_cast<size_t>(rule.table)].value.shape()[0];
      std::vector<int64_t> ids = input.integers();
      for (int64_t& id : ids) id = allowed_values(rule.kind, rows).holds(id) ? id : 0;
      if (rows == 0) return std::nullopt;
      input = with_integers(input, ids);
    } else if (rule.kind == ValueRule::Kind::kIndex) {
      const auto clamped = clamped_indices(std::move(c), rule);
      if (!clamped) return std::nullopt;
      EvalTensor answer = run_reference(clamped->c)[0];
      if (clamped->cut_axis < 0) return answer;
      return without_last(answer, static_cast<size_t>(clamped->cut_axis));
    } else {
      return std::nullopt;
    }
  }
  return run_reference(c)[0];
}

struct Counts {
  int refused = 0, ran = 0, broken = 0, kernels = 0;
};

class Differential {
 public:
  explicit Differential(OpKind op) : op_(op) {}

  void check(OpCase c) {
    if (!is_small(c)) return;
    if (!infer(c).empty()) {
      ++counts_.refused;
      return;
    }
    if (!is_small(c)) return;
    ++counts_.ran;
    const bool breaks = breaks_rules(c);
    counts_.broken += breaks ? 1 : 0;
    std::string refusal;
    try {
      run_reference(c);
    } catch (const Error& error) {
      refusal = error.what();
      EXPECT_EQ(error.code(), ErrorCode::kInput) << text_of(c) << ": " << refusal;
      EXPECT_TRUE(breaks) << text_of(c) << ": the evaluator refuses what no rule does: " << refusal;
    }
    const Problem problem = make_problem(c);
    for (const KernelDef& kernel : device_under_test().backend().kernels) {
      if (kernel.op == op_ && backend::supports(kernel, problem)) run(kernel, c, refusal);
    }
  }

  void report() const { EXPECT_GT(counts_.ran, 0) << name(op_) << ": no case passes inference"; }
  const Counts& counts() const { return counts_; }

 private:
  void run(const KernelDef& kernel, const OpCase& c, const std::string& refusal) {
    ++counts_.kernels;
    SCOPED_TRACE(std::string(kernel.name) + ": " + text_of(c));
    Results got;
    std::string refused;
    try {
      got = run_kernel(kernel, c, {});
    } catch (const Error& error) {
      refused = error.what();
      EXPECT_EQ(error.code(), ErrorCode::kInput) << refused;
    }
    const bool on_host = device_under_test().device(1).host_memory();
    // Sizes beyond a GPU kernel's 32-bit arithmetic are refused by it alone, in these words.
    if (!on_host && refused.find("kernel takes up to") != std::string::npos) return;
    if (on_host || refusal.empty()) {
      EXPECT_EQ(refused.empty(), refusal.empty())
          << "the kernel: '" << refused << "', the evaluator: '" << refusal << "'";
    }
    if (!refused.empty()) return;
    if (!refusal.empty()) {
      const auto clamped = clamped_answer(c);
      if (!clamped) return;
      EXPECT_EQ(compare(c, got, std::vector{*clamped}), "");
      return;
    }
    // The evaluator gives numbers that 8 bits do not hold.
    const auto is_f8 = [](const Out& o) { return is_float(o.dtype) && size_bytes(o.dtype) == 1; };
    if (std::ranges::any_of(c.outputs, is_f8)) return;
    EXPECT_EQ(compare(c, got, expected_of(kernel, c)), "");
  }

  OpKind op_;
  Counts counts_;
};

// ---- seeds

vernier::test::Arg ramp(Shape shape, double start, double step) {
  return vernier::test::ramp(DType::kF32, std::move(shape), start, step);
}

// Attention has no table: its answers are too long to write down.
std::vector<Seed> attention_seeds() {
  const auto q = ramp({2, 3, 2, 4}, -1, 0.05), k = ramp({2, 5, 2, 4}, 1, -0.02),
             v = ramp({2, 5, 2, 6}, 0, 0.1), out = ramp({2, 3, 2, 6}, 0, 0);
  const auto packed = ramp({1, 6, 2, 4}, -1, 0.05);
  const auto bias = ramp({2, 1, 3, 5}, 0, 0.3);
  const auto keep = vernier::test::boolean({3, 5}, {1, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1});
  const auto starts = vernier::test::i32({3}, {0, 2, 6});
  const auto none = vernier::test::none();
  const auto table = ramp({1, 6, 1, 2}, 0.1, 0.1);
  const auto of_queries = ramp({2, 3, 2, 3}, 0, 0.1), of_keys = ramp({2, 5, 2, 2}, 1, -0.1),
             of_tokens = ramp({1, 6, 2, 3}, 0, 0.1);
  const auto by_query = vernier::test::i64({8}, {0, 1, 2, 0, 1, 2, 0, 1}),
             by_key = vernier::test::i64({8}, {1, 0, 1, 0, 1, 0, 1, 0}),
             by_token = vernier::test::i32({12}, {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2});
  const auto keep_queries = vernier::test::boolean({3, 1}, {1, 0, 1});
  const auto places = vernier::test::i32({2, 6}, {0, 1, 1, 1, 1, 1, 2, 3, 4, 5, 2, 2});
  const OpKind op = OpKind::kAttention;
  return {
      {.name = "plain", .op = op, .attrs = "{scale=0.5}", .in = {q, k, v}, .out = {out}},
      {.name = "masks",
       .op = op,
       .attrs = "{scale=0.5, causal=1}",
       .in = {q, k, v, bias, keep},
       .out = {out}},
      {.name = "lengths",
       .op = op,
       .in = {packed, packed, packed, none, none, starts, starts},
       .out = {packed}},
      {.name = "positions",
       .op = op,
       .attrs = "{zero_hidden_rows=1}",
       .in = {q, k, v, none, keep, none, none, none, none, none, of_queries, of_keys, by_query,
              by_key, keep_queries},
       .out = {out}},
      {.name = "positions of sequences",
       .op = op,
       .in = {packed, packed, packed, none, none, starts, starts, none, none, places, of_tokens,
              none, by_token},
       .out = {packed}},
      {.name = "rotary",
       .op = op,
       .in = {packed, packed, packed, none, none, none, none, table, table},
       .out = {packed}},
  };
}

std::map<OpKind, std::vector<Seed>> all_seeds() {
  std::map<OpKind, std::vector<Seed>> seeds;
  seeds[OpKind::kAttention] = attention_seeds();
  for (const vernier::test::OpTable& table : vernier::test::op_tables()) {
    for (const Seed& row : table.rows) seeds[row.op].push_back(row);
  }
  return seeds;
}

class Rules : public ::testing::TestWithParam<int> {};

TEST_P(Rules, KernelsRefuseWhatTheEvaluatorRefuses) {
  if (const Support here = device_under_test().available(); !here)
    GTEST_SKIP() << "SKIP: " << here.reason;
  const std::map<OpKind, std::vector<Seed>> seeds = all_seeds();
  Counts all;
  for (size_t i = static_cast<size_t>(GetParam()); i < num_op_kinds(); i += kShards) {
    const auto op = static_cast<OpKind>(i);
    const auto found = seeds.find(op);
    if (found == seeds.end()) {
      ADD_FAILURE() << name(op) << " has no row in a table of tests/ops to begin with";
      continue;
    }
    Differential differential(op);
    Mutator mutator(i + 1);
    constexpr int kFew = 3;  // where a memory checker looks at each run
    const int each =
        device_under_test().bare()
            ? kFew
            : std::max(kFew,
                       std::min(kMutants, kMostMutants / static_cast<int>(found->second.size())));
    for (const Seed& seed : found->second) {
      OpCase c;
      try {
        c = case_of(seed);
      } catch (const Error&) {
        continue;  // a row about attributes that do not parse
      }
      mutator.all_but_first_constant(c);
      differential.check(c);
      for (int m = 0; m < each; ++m) {
        OpCase mutant = c;
        if (!mutator.change(mutant)) continue;
        mutator.choose_constants(mutant);
        differential.check(mutant);
      }
    }
    if (!device_under_test().bare()) differential.report();  // few may all be refused
    all.refused += differential.counts().refused;
    all.ran += differential.counts().ran;
    all.broken += differential.counts().broken;
    all.kernels += differential.counts().kernels;
  }
  std::printf(
      "%d cases refused by inference, %d run (%d with values that rules refuse), %d times "
      "on a kernel\n",
      all.refused, all.ran, all.broken, all.kernels);
}

// What is expected of a GPU, by hand: it cannot be seen on the CPU, which refuses.
TEST(Clamped, IndicesOutsideReadZeroOrAreLeftOut) {
  const auto tensor = [](Shape shape, std::vector<double> values) {
    return Arg{.value =
                   Tensor::from(DType::kF32, std::move(shape), std::span<const double>(values))};
  };
  const auto index = [](Shape shape, std::vector<int64_t> values) {
    return Arg{.value =
                   Tensor::from(DType::kI64, std::move(shape), std::span<const int64_t>(values))};
  };
  const Arg data = tensor({2, 2}, {1, 2, 3, 4});
  const auto answer = [](OpKind op, const char* attrs, std::vector<Arg> in, Shape out) {
    const OpCase c{.op = op,
                   .attrs = parse_attrs(op, attrs),
                   .inputs = std::move(in),
                   .outputs = {{.shape = std::move(out)}}};
    EXPECT_TRUE(breaks_rules(c));
    return clamped_answer(c)->f;
  };
  using Values = std::vector<double>;
  EXPECT_EQ(answer(OpKind::kGather, "{axis=1}", {data, index({2}, {-1, 2})}, {2, 2}),
            (Values{2, 0, 4, 0}));
  EXPECT_EQ(answer(OpKind::kGatherND, "", {data, index({2, 2}, {1, -3, 1, 0})}, {2}),
            (Values{0, 3}));
  EXPECT_EQ(answer(OpKind::kScatterElements, "{axis=0}",
                   {data, index({1, 2}, {5, -1}), tensor({1, 2}, {8, 9})}, {2, 2}),
            (Values{1, 2, 3, 9}));
  EXPECT_EQ(answer(OpKind::kScatterND, "",
                   {data, index({2, 1}, {2, 0}), tensor({2, 2}, {6, 7, 8, 9})}, {2, 2}),
            (Values{8, 9, 3, 4}));
  EXPECT_EQ(answer(OpKind::kCumSum, "", {data, index({}, {7})}, {2, 2}), (Values{1, 2, 4, 6}));
  EXPECT_EQ(answer(OpKind::kReverseSequence, "", {data, index({2}, {9, -9})}, {2, 2}),
            (Values{3, 2, 1, 4}));
}

INSTANTIATE_TEST_SUITE_P(Shards, Rules, ::testing::Range(0, kShards));

}  // namespace
}  // namespace vernier::backend::test
