// What every row promises of bits: those of a row of Linear do not depend on how many rows there
// are, those of a packed sequence not on its neighbors, those of a query not on hidden keys behind
// the last visible one. Values: the case tables beside this file.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backend/cases/attention.h"
#include "backend/cases/linear.h"
#include "backend/device_under_test.h"

namespace vernier::backend::test {
namespace {

class RowBits : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Support here = device_under_test().available(); !here)
      GTEST_SKIP() << "SKIP: " << here.reason;
    if (device_under_test().bare()) GTEST_SKIP() << "SKIP: not for memory checkers";
  }
};

// The case as written and in both 16-bit types.
std::vector<OpCase> in_each_type(const OpCase& c) {
  return {c, stored_as(c, std::array{DType::kF16}), stored_as(c, std::array{DType::kBF16})};
}

// f32 outputs: equal sums show, not only equal roundings of them.
OpCase with_f32_output(OpCase c) {
  for (Out& out : c.outputs) out.dtype = DType::kF32;
  return c;
}

TEST_F(RowBits, OfLinearDependOnNeitherRowsNorThreads) {
  Maker make(13);
  const bool is_cpu = device_under_test().device(1).host_memory();
  const int64_t most = is_cpu ? 512 : 2048;
  std::vector<int64_t> rows{100, 512};
  if (!is_cpu) rows.insert(rows.end(), {127, 128, 129, 255, 257, 1000, 2047});
  for (int64_t m = 1; m <= 40; ++m) rows.push_back(m);
  // BERT mini, base and large, odd sizes.
  for (const LinearShape& s : std::vector<LinearShape>{{most, 256, 256},
                                                       {most, 256, 1024},
                                                       {most, 1024, 256},
                                                       {most, 768, 768},
                                                       {most, 768, 2304},
                                                       {most, 3072, 768},
                                                       {most, 768, 3072},
                                                       {most, 1024, 1024},
                                                       {most, 96, 80},
                                                       {most, 127, 100}}) {
    const bool large = s.k * s.n > 500'000;
    const OpCase f32 = linear_case(make, s, {});
    std::vector<OpCase> variants{f32};
    if (!is_cpu) {
      for (const OpCase& c : in_each_type(f32)) {
        variants.push_back(c);
        variants.push_back(with_f32_output(c));
      }
    }
    for (const OpCase& full : variants) {
      for (const KernelDef* kernel : rows_of(full)) {
        const Tensor reference = run_kernel(*kernel, first_rows(full, most), {})[0];
        for (int64_t m : rows) {
          if (large && (m == 4 || m == 7 || (m > 9 && m < 16) || (m > 17 && m < 100))) continue;
          for (int threads : {1, 2}) {
            if (threads > 1 && !is_cpu) continue;
            const Tensor y = run_kernel(*kernel, first_rows(full, m), {.threads = threads})[0];
            ASSERT_EQ(std::memcmp(y.data(), reference.data(), y.bytes()), 0)
                << kernel->name << " K=" << s.k << " N=" << s.n << " M=" << m << " "
                << name(full.inputs[0].value.dtype()) << " to " << name(full.outputs[0].dtype)
                << " threads=" << threads;
          }
        }
      }
    }
  }
}

// Many rows and few have tiles of different sizes.
TEST_F(RowBits, OfMatMulDoNotDependOnRows) {
  Maker make(14);
  constexpr int64_t kMost = 2048;
  for (const auto& [k, n] : {std::pair<int64_t, int64_t>{64, 512}, {72, 520}, {1000, 264}}) {
    OpCase product{.op = OpKind::kMatMul};
    product.inputs = {{.value = make.normal({kMost, k}), .batch_axis = 0},
                      {.value = make.normal({k, n})}};
    OpCase transposed{.op = OpKind::kGemm, .attrs = encode(GemmAttrs{.trans_b = true})};
    transposed.inputs = {product.inputs[0], {.value = make.normal({n, k})}};
    for (OpCase* c : {&product, &transposed}) {
      c->outputs = {{.shape = {kMost, n}, .batch_axis = 0}};
      for (const OpCase& full : in_each_type(*c)) {
        for (const KernelDef* kernel : rows_of(full)) {
          const Tensor reference = run_kernel(*kernel, first_rows(full, kMost), {})[0];
          for (int64_t m : {1, 17, 128, 1000}) {
            const Tensor y = run_kernel(*kernel, first_rows(full, m), {})[0];
            ASSERT_EQ(std::memcmp(y.data(), reference.data(), y.bytes()), 0)
                << kernel->name << " K=" << k << " N=" << n << " M=" << m << " "
                << name(full.inputs[0].value.dtype());
          }
        }
      }
    }
  }
}

// Tokens [begin, end) of [1, tokens, heads, dim].
Tensor tokens(const Tensor& t, int64_t begin, int64_t end) {
  const auto token = t.bytes() / static_cast<size_t>(t.shape()[1]);
  Shape shape = t.shape();
  shape[1] = end - begin;
  return Tensor::from_bytes(t.dtype(), shape,
                            t.byte_span().subspan(static_cast<size_t>(begin) * token,
                                                  static_cast<size_t>(end - begin) * token));
}

TEST_F(RowBits, OfAPackedSequenceAreThoseItHasAlone) {
  Maker make(4);
  const OpCase f32 = packed_attention_case(make, {0, 5, 5, 45});
  for (const OpCase& c : in_each_type(f32)) {
    OpCase alone = c;
    alone.inputs.resize(3);
    for (Arg& arg : alone.inputs) arg.value = tokens(arg.value, 5, 45);
    alone.outputs[0].shape[1] = 40;
    const auto others = rows_of(alone);
    for (const KernelDef* kernel : rows_of(c)) {
      if (std::ranges::find(others, kernel) == others.end()) continue;
      const Tensor together = run_kernel(*kernel, c, {})[0];
      EXPECT_EQ(compare_bits(run_kernel(*kernel, alone, {})[0], tokens(together, 5, 45)), "")
          << kernel->name << " " << c.name;
    }
  }
}

TEST_F(RowBits, OfAttentionDoNotDependOnMaskedKeysAtTheEnd) {
  Maker make(6);
  // 37 real keys, padded to 200 with a mask of -inf, against 37 keys alone.
  OpCase f32 = attention_case(make, {1, 37, 200, 2, 2, 16, 16},
                              {.name = "padded", .bias = AttentionVariant::kKeyRow});
  std::vector<double> mask(200, 0.0);
  std::fill(mask.begin() + 37, mask.end(), -INFINITY);
  f32.inputs[3].value = Tensor::from(DType::kF32, {1, 1, 1, 200}, std::span<const double>(mask));
  for (const OpCase& c : in_each_type(f32)) {
    OpCase alone = c;
    alone.inputs.resize(3);
    for (size_t i : {1u, 2u}) alone.inputs[i].value = tokens(c.inputs[i].value, 0, 37);
    const auto others = rows_of(alone);
    for (const KernelDef* kernel : rows_of(c)) {
      if (std::ranges::find(others, kernel) == others.end()) continue;
      device_under_test().for_each_target([&](const std::string& target, bool) {
        EXPECT_EQ(compare_bits(run_kernel(*kernel, c, {})[0], run_kernel(*kernel, alone, {})[0]),
                  "")
            << kernel->name << " " << c.name << " on " << target;
      });
    }
  }
}

// The answer of a query that sees no key, with NaN in the query of another.
TEST_F(RowBits, OfQueriesWithoutAVisibleKeyAreTheDefinitions) {
  Maker make(8);
  for (const AttentionAttrs& attrs :
       std::vector<AttentionAttrs>{{}, {.zero_nan_rows = true}, {.masks_add = true}}) {
    const OpCase c = attention_case_with_hidden_rows(
        make, {.name = "hidden", .attrs = attrs, .keep = AttentionVariant::kQueryRow});
    for (const KernelDef* kernel : rows_of(c)) {
      const Tensor y = run_kernel(*kernel, c, {})[0];
      EXPECT_EQ(std::isnan(y.float_at(0)), !attrs.zero_nan_rows && !attrs.masks_add)
          << kernel->name;
      if (attrs.masks_add) {
        EXPECT_EQ(y.float_at(0), 0) << kernel->name;
      }
      EXPECT_FALSE(std::isnan(y.float_at(2 * 16))) << kernel->name;
    }
  }
}

}  // namespace
}  // namespace vernier::backend::test
