// The evaluator's own tables (tests/ops/*_cases.cpp) on kernel rows: each OpCases table becomes a
// test OpTables.<table>, which runs its rows through the harness, once with every input but the
// first constant and once with none. The expected numbers are the evaluator's business; here the
// inputs count. f64 arrays become f32.
#include "backend/op_tables.h"

#include <gtest/gtest.h>

#include "backend/cuda/device_under_test.h"
#include "backend/device_under_test.h"
#include "core/op_attrs.h"

namespace vernier::test {
namespace {

namespace on_device = backend::test;

DType narrowed(DType type) { return type == DType::kF64 ? DType::kF32 : type; }

Tensor tensor_of(const Arg& arg) {
  if (is_float(arg.dtype))
    return Tensor::from(narrowed(arg.dtype), arg.shape, std::span<const double>(arg.values));
  std::vector<int64_t> values;
  for (double v : arg.values) values.push_back(static_cast<int64_t>(v));
  return Tensor::from(arg.dtype, arg.shape, std::span<const int64_t>(values));
}

on_device::OpCase case_of(const OpCase& row, bool constants) {
  on_device::OpCase c{.op = row.op, .attrs = parse_attrs(row.op, row.attrs)};
  c.name = row.name + (constants ? " of constants" : "");
  for (const Arg& arg : row.in) {
    if (arg.dtype == DType::kUndefined)
      c.inputs.push_back({});
    else
      c.inputs.push_back({.value = tensor_of(arg), .constant = constants && &arg != row.in.data()});
  }
  for (const Arg& arg : row.out)
    c.outputs.push_back({.dtype = narrowed(arg.dtype), .shape = arg.shape, .batch_axis = -1});
  c.exact = rounding_points(row.op).empty();
  // The tables choose numbers that cancel, in small arrays.
  c.ulps = 256;
  c.optional = true;
  c.checks = on_device::Checks::kValues;
  return c;
}

// Attributes that name f64 ask for what the narrowed arrays are not.
bool can_run(const OpCase& row) {
  return row.error.empty() && !row.out.empty() && row.attrs.find("f64") == std::string::npos;
}

class TableTest : public ::testing::Test {
 public:
  explicit TableTest(std::vector<OpCase> rows) : rows_(std::move(rows)) {}
  void SetUp() override {
    if (const Support here = on_device::device_under_test().available(); !here)
      GTEST_SKIP() << "SKIP: " << here.reason;
  }
  void TestBody() override {
    std::vector<on_device::OpCase> cases;
    for (const OpCase& row : rows_) {
      if (!can_run(row)) continue;
      cases.push_back(case_of(row, false));
      if (row.in.size() > 1) cases.push_back(case_of(row, true));
    }
    on_device::check_cases(cases);
  }

 private:
  std::vector<OpCase> rows_;
};

}  // namespace

void register_op_tables() {
  for (const OpTable& table : op_tables()) {
    ::testing::RegisterTest("OpTables", table.name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [&table]() -> ::testing::Test* { return new TableTest(table.rows); });
  }
}

}  // namespace vernier::test
