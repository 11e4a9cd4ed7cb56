// 16-bit storage: what the rows say about themselves. That values are right, the tables of
// tests/backend/cases check on each of their cases (harness.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu.h"
#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

using ::testing::HasSubstr;

OpCase matmul_case(Maker& make) {
  return {.name = "matmul",
          .op = OpKind::kMatMul,
          .inputs = {{.value = make.normal({3, 17})}, {.value = make.normal({17, 5})}},
          .outputs = {{.shape = {3, 5}, .batch_axis = -1}}};
}

const KernelDef& row(const char* name) {
  const KernelDef* kernel = find_kernel(cpu_backend(), name);
  EXPECT_NE(kernel, nullptr) << name;
  return *kernel;
}

TEST(CpuStorage, EveryRowIsRepeatedForSixteenBitsBelowTheOthersAndAboveTheEvaluator) {
  for (size_t i = 0; i < num_op_kinds(); ++i) {
    const auto op = static_cast<OpKind>(i);
    std::vector<std::string> names;
    for (const KernelDef& kernel : cpu_backend().kernels) {
      if (kernel.op == op) names.emplace_back(kernel.name);
    }
    ASSERT_FALSE(names.empty());
    EXPECT_THAT(names.back(), ::testing::EndsWith(".evaluator"));
    names.pop_back();
    if ((flags(op) & kElementwise) != 0) continue;  // the loop takes 16 bits itself
    ASSERT_EQ(names.size() % 2, 0u);
    const size_t half = names.size() / 2;
    for (size_t n = 0; n < half; ++n) EXPECT_EQ(names[n] + "_widened", names[half + n]);
  }
}

TEST(CpuStorage, TheAdapterSaysWhyItDoesNotFit) {
  Maker make(81);
  const OpCase plain = matmul_case(make);
  const KernelDef& widened = row("cpu.mat_mul.packed_widened");
  EXPECT_EQ(widened.supports(make_problem(plain)).reason, "no operand is stored in f16 or bf16");
  OpCase wide = plain;
  wide.inputs[0].value =
      Tensor::from(DType::kF64, {3, 17}, std::span<const double>(std::vector<double>(51, 1.0)));
  EXPECT_THAT(widened.supports(make_problem(wide)).reason, HasSubstr("input 0 is f64"));
  OpCase moved{.op = OpKind::kTranspose, .attrs = encode(TransposeAttrs{.perm = {1, 0}})};
  moved.inputs = {{.value = make.normal({3, 5})}};
  moved.outputs = {{.shape = {5, 3}}};
  const OpCase stored = stored_as(moved, std::array{DType::kF16});
  EXPECT_EQ(row("cpu.transpose.copy_widened").supports(make_problem(stored)).reason,
            "the kernel takes these types without widening");
  const OpCase mixed = stored_as(moved, std::array{DType::kF16, DType::kF32});
  EXPECT_EQ(row("cpu.transpose.copy").supports(make_problem(mixed)).reason,
            "this kernel moves elements and cannot convert f16 to f32");
}

TEST(CpuStorage, NumericsNameTheStoredTypeAndF32Inside) {
  Maker make(82);
  for (DType type : {DType::kF16, DType::kBF16}) {
    const OpCase c = stored_as(matmul_case(make), std::array{type});
    const Numerics numerics = row("cpu.mat_mul.packed_widened").numerics(make_problem(c));
    EXPECT_EQ(numerics.store, type);
    EXPECT_EQ(numerics.compute, DType::kF32);
    EXPECT_EQ(numerics.accumulate, DType::kF32);
    EXPECT_EQ(numerics.points[0].type, DType::kF32);
    EXPECT_EQ(numerics.points[2].type, type);
  }
}

// A weight whose contents are f32 and which is to be stored as `type`.
OpCase linear_case(Maker& make, bool trans, DType type) {
  OpCase c{.name = "linear", .op = OpKind::kLinear, .attrs = encode(LinearAttrs{.trans_w = trans})};
  c.inputs = {{.value = make.normal({4, 33})},
              {.value = make.normal(trans ? Shape{70, 33} : Shape{33, 70}), .constant = true},
              {.value = make.normal({70})}};
  c.outputs = {{.shape = {4, 70}, .batch_axis = -1}};
  const Tensor weight = c.inputs[1].value;
  c = stored_as(c, std::array{type});
  c.inputs[1].value = weight;
  return c;
}

TEST(CpuStorage, PackedWeightsAreRoundedToTheirStoredTypeAndUnpackToIt) {
  Maker make(83);
  for (DType type : {DType::kF16, DType::kBF16}) {
    for (bool trans : {false, true}) {
      const OpCase c = linear_case(make, trans, type);
      Problem problem = make_problem(c);
      problem.inputs[1].dtype = type;
      const KernelDef& kernel = row("cpu.linear.highway_widened");
      ASSERT_TRUE(kernel.supports(problem));
      const auto packed = kernel.pack(problem);
      ASSERT_EQ(packed.size(), 1u);
      EXPECT_EQ(packed[0].layout, std::string(name(type)) + " as panels64 f32 K=33 N=70");
      const auto expected = kernel.packed_layouts(problem);
      ASSERT_EQ(expected.size(), 1u);
      EXPECT_EQ(expected[0].layout, packed[0].layout);
      EXPECT_EQ(expected[0].bytes, packed[0].bytes.size());
      const Tensor plain =
          kernel.unpack(problem, {packed[0].input, packed[0].layout, packed[0].bytes});
      std::vector<double> values;
      for (int64_t i = 0; i < plain.elems(); ++i) values.push_back(c.inputs[1].value.float_at(i));
      EXPECT_EQ(
          compare_bits(plain, Tensor::from(type, plain.shape(), std::span<const double>(values))),
          "");
      // The same bytes from contents that are stored so already.
      problem.inputs[1].constant = &plain;
      EXPECT_EQ(kernel.pack(problem)[0].bytes, packed[0].bytes);
    }
  }
}

}  // namespace
}  // namespace vernier::backend::test
