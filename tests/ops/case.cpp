// Runs the rows of operator case tables: see case.h.
#include "ops/case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/evaluator.h"
#include "core/op_attrs.h"
#include "ir/graph.h"
#include "ops/infer.h"

namespace vernier::test {
namespace {

EvalTensor to_eval(const Arg& arg) {
  EvalTensor t(arg.dtype, arg.shape);
  EXPECT_EQ(arg.values.size(), static_cast<size_t>(t.elems())) << "the row's own values";
  for (size_t i = 0; i < arg.values.size(); ++i) {
    if (t.is_float())
      t.f[i] = round_to(arg.dtype, arg.values[i]);
    else
      t.i[i] = wrap_integer(arg.dtype, static_cast<int64_t>(arg.values[i]));
  }
  return t;
}

bool same(double got, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(got);
  if (got == expected) return true;
  return std::isfinite(expected) &&
         std::abs(got - expected) <= tolerance * (1 + std::abs(expected));
}

void expect_same(const EvalTensor& got, const Arg& arg, double tolerance) {
  const EvalTensor expected = to_eval(arg);
  EXPECT_EQ(name(got.dtype), name(expected.dtype));
  ASSERT_EQ(str(got.shape), str(expected.shape));
  for (int64_t i = 0; i < got.elems(); ++i) {
    // The expected number is written in decimal: not rounded to the type unless exact is asked.
    const double wanted = tolerance > 0 ? arg.values[static_cast<size_t>(i)] : expected.value(i);
    EXPECT_TRUE(same(got.value(i), wanted, tolerance))
        << "element " << i << ": got " << got.value(i) << ", expected " << wanted;
  }
}

// Values that inference claims to know must be what the evaluator computes.
void expect_values_agree(const ir::Value& inferred, const EvalTensor& computed) {
  if (!inferred.values) return;
  ASSERT_EQ(inferred.values->size(), computed.i.size());
  for (size_t i = 0; i < computed.i.size(); ++i)
    EXPECT_EQ((*inferred.values)[i].str(), std::to_string(computed.i[i])) << "inferred value " << i;
}

// Every rounding point of an operator is shown a value, and what passed the last one has its type.
void expect_points_act(OpKind op, AttrView attrs, std::span<const EvalTensor* const> in,
                       std::vector<EvalTensor> out) {
  const auto points = rounding_points(op);
  const auto is_empty = [](const EvalTensor* t) { return t != nullptr && t->elems() == 0; };
  if (points.empty() || !out[0].is_float() || is_empty(&out[0]) ||
      std::ranges::any_of(in, is_empty))
    return;
  PointPeaks peaks;
  peaks.fill(-1);
  Rounding rounding;
  rounding.record(&peaks);
  rounding.set(points.size() - 1, {DType::kF8E5M2});
  for (EvalTensor& t : out) {
    if (t.dtype != DType::kUndefined) t = EvalTensor(t.dtype, t.shape);
  }
  evaluator(op)({attrs, in, out, rounding});
  for (size_t point = 0; point < points.size(); ++point) {
    const bool unused = op == OpKind::kRMSNorm && points[point] == "mean";  // it has no mean
    EXPECT_TRUE(unused || peaks[point] >= 0) << "no value at point '" << points[point] << "'";
  }
  for (double v : out[0].f)
    EXPECT_TRUE(std::isnan(v) || round_to(DType::kF8E5M2, v) == v) << v << " left unrounded";
}

// What an operator of kMoves gives are elements of its first input.
void expect_moved(const EvalTensor& source, const EvalTensor& result) {
  for (int64_t i = 0; i < result.elems(); ++i) {
    bool found = false;
    for (int64_t from = 0; from < source.elems() && !found; ++from)
      found = same(result.value(i), source.value(from), 0);
    EXPECT_TRUE(found) << result.value(i) << " is not an element of input 0";
  }
}

void evaluate(const OpCase& row) {
  ir::Graph graph;
  std::vector<EvalTensor> inputs;
  std::vector<ir::ValueId> ids;
  for (const Arg& arg : row.in) {
    const bool absent = arg.dtype == DType::kUndefined;
    inputs.push_back(absent ? EvalTensor() : to_eval(arg));
    ids.push_back(absent ? ir::kNoValue : graph.add_constant(inputs.back().to_tensor()));
  }
  const auto num_outputs = std::max<size_t>(row.out.size(), 1);
  const ir::NodeId id =
      graph.add_node(row.op, ids, parse_attrs(row.op, row.attrs), static_cast<int>(num_outputs));
  graph.node(id).name = "case";
  ops::infer_node(graph, id);

  std::vector<const EvalTensor*> in;
  for (const EvalTensor& t : inputs) in.push_back(t.dtype == DType::kUndefined ? nullptr : &t);
  std::vector<EvalTensor> out(num_outputs);
  for (size_t i = 0; i < num_outputs; ++i) {
    const ir::Value& v = graph.value(graph.node(id).outputs[i]);
    if (i < row.out.size() && row.out[i].dtype == DType::kUndefined) continue;
    Shape shape;
    for (const Dim& d : v.shape) shape.push_back(d.as_constant().value_or(0));
    out[i] = EvalTensor(v.dtype, shape);
  }
  const Rounding exact;
  evaluator(row.op)({graph.node(id).attrs, in, out, exact});
  expect_points_act(row.op, graph.node(id).attrs, in, out);
  for (size_t i = 0; i < row.out.size(); ++i) {
    SCOPED_TRACE("output " + std::to_string(i));
    if (row.out[i].dtype == DType::kUndefined) continue;
    expect_same(out[i], row.out[i], row.tolerance);
    expect_values_agree(graph.value(graph.node(id).outputs[i]), out[i]);
    if ((flags(row.op) & kMoves) != 0) expect_moved(inputs[0], out[i]);
  }
}

template <class Body>
void expect_error(const std::string& message, Body body) {
  try {
    body();
    ADD_FAILURE() << "expected an error containing: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput) << error.what();
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
        << "got: " << error.what() << "\nexpected part: " << message;
  }
}

// Splits "a, min(b, c)" at the commas outside parentheses.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  int depth = 0;
  std::string part;
  for (char c : text) {
    depth += (c == '(') - (c == ')');
    if (c == ',' && depth == 0) {
      parts.push_back(std::move(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (part.find_first_not_of(' ') != std::string::npos) parts.push_back(part);
  return parts;
}

std::vector<Dim> parse_dims(const std::string& text) {
  std::vector<Dim> dims;
  for (const std::string& part : split(text)) dims.push_back(Dim::parse(part));
  return dims;
}

ir::ValueId add_value(ir::Graph& graph, const std::string& spec) {
  if (spec.empty()) return ir::kNoValue;
  const size_t open = spec.find('['), close = spec.find(']');
  const DType dtype = parse_dtype(spec.substr(0, open - 1)).value();
  SymShape shape = parse_dims(spec.substr(open + 1, close - open - 1));
  const size_t equals = spec.find("= (", close);
  if (equals == std::string::npos)
    return graph.add_input("in" + std::to_string(graph.num_values()), dtype, std::move(shape));
  const std::string contents = spec.substr(equals + 3, spec.rfind(')') - equals - 3);
  if (is_float(dtype)) {
    std::vector<double> numbers;
    for (const std::string& part : split(contents)) numbers.push_back(std::stod(part));
    Shape sizes;
    for (const Dim& d : shape) sizes.push_back(d.constant());
    return graph.add_constant(Tensor::from(dtype, sizes, std::span<const double>(numbers)));
  }
  const ir::ValueId id =
      graph.add_input("in" + std::to_string(graph.num_values()), dtype, std::move(shape));
  graph.value(id).values = parse_dims(contents);
  return id;
}

std::string describe(const ir::Value& v) {
  std::string text = std::string(name(v.dtype)) + " " + str(v.shape);
  if (!v.values) return text;
  const std::string list = str(*v.values);
  return text + " = (" + list.substr(1, list.size() - 2) + ")";
}

void infer(const ShapeCase& row) {
  ir::Graph graph;
  std::vector<ir::ValueId> ids;
  for (const std::string& spec : row.in) ids.push_back(add_value(graph, spec));
  const auto num_outputs = static_cast<int>(std::max<size_t>(row.out.size(), 1));
  const ir::NodeId id = graph.add_node(row.op, ids, parse_attrs(row.op, row.attrs), num_outputs);
  graph.node(id).name = "case";
  ops::infer_graph(graph);
  for (size_t i = 0; i < row.out.size(); ++i)
    EXPECT_EQ(describe(graph.value(graph.node(id).outputs[i])), row.out[i]);
  std::vector<std::string> guards, substitutions;
  for (const ir::Guard& g : graph.guards) guards.push_back(g.lhs.str() + " == " + g.rhs.str());
  for (const auto& [symbol, other] : graph.symbol_substitutions)
    substitutions.push_back(symbol + " := " + other.str());
  EXPECT_EQ(guards, row.guards);
  EXPECT_EQ(substitutions, row.substitutions);
}

void run(const OpCase& row) { evaluate(row); }
void run(const ShapeCase& row) { infer(row); }

template <class Row>
class RowTest : public ::testing::Test {
 public:
  explicit RowTest(Row row) : row_(std::move(row)) {}
  void TestBody() override {
    if (!row_.error.empty())
      expect_error(row_.error, [&] { run(row_); });
    else
      run(row_);
  }

 private:
  Row row_;
};

template <class Row>
void register_rows(const std::string& table, std::vector<Row> rows) {
  for (Row& row : rows) {
    ::testing::RegisterTest(table.c_str(), row.name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [row]() -> ::testing::Test* { return new RowTest<Row>(row); });
  }
}

}  // namespace

OpCases::OpCases(const std::string& table, std::vector<OpCase> rows) {
  register_rows(table, std::move(rows));
}
ShapeCases::ShapeCases(const std::string& table, std::vector<ShapeCase> rows) {
  register_rows(table + "Shapes", std::move(rows));
}

}  // namespace vernier::test
