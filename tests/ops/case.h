// Case tables of operators: a row runs inference and the FP64 evaluator and compares exactly or
// within a tolerance; a shape row runs inference on symbolic sizes. A table registers its rows as
// tests named <Table>.<row>, so case files need no GoogleTest header; the same files run on the
// kernel rows of each backend (tests/backend/cuda/op_tables.cpp):
//   const OpCases kRows("Softmax", OpKind::kSoftmax, {
//       {.name = "last_axis", .in = {...}, .out = {...}},
//   });
// A row is one line, or two of up to 100 columns, between clang-format off and on.
#pragma once
#include <string>
#include <vector>

#include "core/op_kind.h"
#include "core/tensor.h"

namespace vernier::test {

/// One input or expected output of a row.
struct Arg {
  DType dtype = DType::kUndefined;  ///< kUndefined: an absent optional input
  Shape shape = {};
  std::vector<double> values = {};  ///< row-major; integers up to 2^53 are exact
};
inline Arg none() { return {}; }
inline Arg f32(Shape shape, std::vector<double> values) {
  return {DType::kF32, std::move(shape), std::move(values)};
}
inline Arg i64(Shape shape, std::vector<double> values) {
  return {DType::kI64, std::move(shape), std::move(values)};
}
inline Arg i32(Shape shape, std::vector<double> values) {
  return {DType::kI32, std::move(shape), std::move(values)};
}
inline Arg boolean(Shape shape, std::vector<double> values) {
  return {DType::kBool, std::move(shape), std::move(values)};
}
inline Arg typed(DType dtype, Shape shape, std::vector<double> values) {
  return {dtype, std::move(shape), std::move(values)};
}
/// start, start + step, … in row-major order.
inline Arg ramp(DType dtype, Shape shape, double start = 0, double step = 1) {
  Arg arg{dtype, std::move(shape), {}};
  const int64_t count = num_elems(arg.shape);
  for (int64_t i = 0; i < count; ++i) arg.values.push_back(start + step * static_cast<double>(i));
  return arg;
}

/// One evaluation at concrete shapes. Every input is a constant to inference, so axes, shapes and
/// pads are known; where inference derives integer contents they must equal the evaluator's.
struct OpCase {
  std::string name = {};
  OpKind op = OpKind::kIdentity;
  std::string attrs = {};  ///< text form, "{axis=1}"; empty: defaults
  std::vector<Arg> in = {}, out = {};
  double tolerance = 0;    ///< |got − expected| <= tolerance·(1 + |expected|); 0: the same value
  std::string error = {};  ///< not empty: inference or evaluation throws a message with this in it
};

/// One inference with symbolic sizes. A value is written "f32 [batch, 8]", with known contents
/// "i64 [2] = (batch, -1)", and "" when absent; contents of a float input make it a constant.
struct ShapeCase {
  std::string name = {};
  OpKind op = OpKind::kIdentity;
  std::string attrs = {};
  std::vector<std::string> in = {}, out = {};
  std::string error = {};                       ///< as in OpCase
  std::vector<std::string> guards = {};         ///< "min(512, seq) == seq"
  std::vector<std::string> substitutions = {};  ///< "s6 := s33"
};

template <class Row>
std::vector<Row> rows_of(OpKind op, std::vector<Row> rows) {
  for (Row& row : rows) row.op = row.op == OpKind::kIdentity ? op : row.op;
  return rows;
}

/// Registers each row as a test; keep as a namespace-level constant of the case file.
class OpCases {
 public:
  OpCases(const std::string& table, std::vector<OpCase> rows);
  /// Rows that name no operator are of `op`.
  OpCases(const std::string& table, OpKind op, std::vector<OpCase> rows)
      : OpCases(table, rows_of(op, std::move(rows))) {}
};
class ShapeCases {
 public:
  ShapeCases(const std::string& table, std::vector<ShapeCase> rows);
  /// Rows that name no operator are of `op`.
  ShapeCases(const std::string& table, OpKind op, std::vector<ShapeCase> rows)
      : ShapeCases(table, rows_of(op, std::move(rows))) {}
};

}  // namespace vernier::test
