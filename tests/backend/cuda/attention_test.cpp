// Attention beyond cases/attention.cpp: what only a GPU's kernels tell apart. Head sizes of each
// kernel with rotary tables, packed sequences, scores as large as 1e4, NaN in a value behind the
// last visible key, biases without a batch and long rows of keys; bits of an item, of a query and
// of a padded length alone; the bits of the two f32 kernels.
#include "backend/cases/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/cuda/device_under_test.h"

namespace vernier::backend::test {
namespace {
using Table = AttentionVariant::Table;

Tensor scaled(const Tensor& t, double factor) {
  std::vector<double> values;
  for (int64_t i = 0; i < t.elems(); ++i) values.push_back(factor * t.float_at(i));
  return Tensor::from(t.dtype(), t.shape(), std::span<const double>(values));
}
Tensor with_nan(const Tensor& t, int64_t index) {
  std::vector<double> values;
  for (int64_t i = 0; i < t.elems(); ++i) values.push_back(i == index ? NAN : t.float_at(i));
  return Tensor::from(t.dtype(), t.shape(), std::span<const double>(values));
}

// Cosines and sines of random angles, so that heads keep their size: in large scores one operand
// that TF32 rounds the other way is seen.
void rotate_by_angles(Maker& make, const Shape& shape, OpCase& c) {
  const Tensor angles = make.normal(shape, 0, 3);
  std::vector<double> cosines, sines;
  for (int64_t i = 0; i < angles.elems(); ++i) {
    cosines.push_back(std::cos(angles.float_at(i)));
    sines.push_back(std::sin(angles.float_at(i)));
  }
  c.inputs[7].value = Tensor::from(DType::kF32, shape, std::span<const double>(cosines));
  c.inputs[8].value = Tensor::from(DType::kF32, shape, std::span<const double>(sines));
}

// Tables as wide as a head and half as wide, halves and pairs.
const Cases kRotary("AttentionRotaryHeadSizes", [] {
  Maker make(150);
  std::vector<OpCase> cases;
  for (int64_t dim : {32, 40, 64, 80, 96, 128}) {
    for (bool interleaved : {false, true}) {
      for (int64_t length : {17, 130, 300}) {
        const AttentionVariant variant{
            .name = "rotary", .attrs = {.rotary_interleaved = interleaved}, .rotary = true};
        OpCase c = attention_case(make, {2, length, length, 2, 1, dim, dim}, variant);
        rotate_by_angles(make, {1, length, 1, length == 130 ? dim : dim / 2}, c);
        cases.push_back(std::move(c));
      }
    }
  }
  return values_only(std::move(cases));
});

// Sequences whose lengths differ between queries and keys; one is empty, and the last rows belong
// to none. NaN stands in the keys and values that belong to none.
const Cases kSequences("AttentionPackedHeadSizes", [] {
  Maker make(151);
  std::vector<OpCase> cases;
  for (int64_t dim : {32, 64, 80, 128}) {
    for (bool causal : {false, true}) {
      for (int64_t length : {70, 330}) {
        OpCase c = attention_case(make, {1, length, length, 2, 1, dim, dim},
                                  {.name = "packed", .attrs = {.causal = causal}});
        std::vector<int64_t> q{0}, k{0};
        for (int64_t part : {3, 0, 2, 4, 1}) {
          q.push_back(q.back() + length * part / 11);
          k.push_back(k.back() + length * part / 12);
        }
        c.inputs.resize(5);
        for (const auto& starts : {q, k})
          c.inputs.push_back(
              {.value = Tensor::from(DType::kI32, {6}, std::span<const int64_t>(starts))});
        for (size_t i : {1u, 2u})
          c.inputs[i].value = with_nan(c.inputs[i].value, k.back() * dim + 1);
        for (Arg& arg : c.inputs) arg.batch_axis = -1;
        c.outputs[0].batch_axis = -1;
        cases.push_back(std::move(c));
      }
    }
  }
  return values_only(std::move(cases));
});

// Many sequences whose starts are those of queries and keys, so that blocks may have two heads: of
// up to 64 tokens, of more, and of none. The last rows belong to no sequence. With 9000 rows the
// blocks can run backwards, with 120 sequences and with 225, which lanes look through in two
// passes.
const std::vector<int64_t> kMixed{64, 65, 129, 1, 0, 8, 130, 64, 257, 33};
OpCase many_sequences(Maker& make, const AttentionVariant& variant,
                      const std::vector<int64_t>& lengths, int64_t heads, int64_t kv_heads,
                      int64_t dim, int64_t least) {
  std::vector<int64_t> starts{0};
  while (starts.back() < least) {
    for (int64_t length : lengths) starts.push_back(starts.back() + length);
  }
  const int64_t rows = starts.back() + 5;
  OpCase c = attention_case(make, {1, rows, rows, heads, kv_heads, dim, dim}, variant);
  c.inputs.resize(5);
  const Tensor table = Tensor::from(DType::kI32, {static_cast<int64_t>(starts.size())},
                                    std::span<const int64_t>(starts));
  for (int i = 0; i < 2; ++i) c.inputs.push_back({.value = table});
  for (size_t i : {1u, 2u})
    c.inputs[i].value = with_nan(c.inputs[i].value, starts.back() * kv_heads * dim + 1);
  for (Arg& arg : c.inputs) arg.batch_axis = -1;
  c.outputs[0].batch_axis = -1;
  return c;
}
const Cases kManySequences("AttentionManySequences", [] {
  Maker make(158);
  std::vector<OpCase> cases;
  const AttentionVariant plain{.name = "many sequences"},
      causal{.name = "many sequences, causal", .attrs = {.causal = true}},
      masked{
          .name = "many sequences, masked", .attrs = {.masks_add = true}, .keep = Table::kKeyRow},
      biased{.name = "many sequences, bias", .bias = Table::kQueryRow};
  for (int64_t dim : {32, 64}) {
    cases.push_back(many_sequences(make, plain, kMixed, 5, 5, dim, 1500));
    cases.push_back(many_sequences(make, plain, {129}, 6, 1, dim, 1500));
    cases.push_back(many_sequences(make, plain, {64, 16}, 5, 1, dim, 1500));
    cases.push_back(many_sequences(make, causal, kMixed, 6, 2, dim, 1500));
    cases.push_back(many_sequences(make, masked, kMixed, 5, 1, dim, 1500));
    cases.push_back(many_sequences(make, biased, kMixed, 6, 1, dim, 1500));
  }
  cases.push_back(many_sequences(make, plain, kMixed, 8, 1, 64, 9000));
  cases.push_back(many_sequences(make, plain, {64, 16}, 8, 1, 64, 9000));
  return values_only(std::move(cases));
});

// With many heads blocks stay and take tiles from a list, and from several in the last.
const Cases kListedSequences("AttentionListedSequences", [] {
  Maker make(159);
  const AttentionVariant plain{.name = "listed sequences"};
  constexpr std::array kF16{DType::kF16}, kBF16{DType::kBF16};
  std::vector<OpCase> cases{
      stored_as(many_sequences(make, plain, {300, 1, 190, 0, 512, 64}, 170, 170, 32, 1000), kF16),
      stored_as(many_sequences(make, plain, {16}, 32, 1, 32, 9000), kBF16),
      stored_as(many_sequences(make, plain, kMixed, 20, 5, 64, 9000), kF16)};
  return values_only(std::move(cases));
});

// Scores as large as 1e4: the last bits of a score decide between keys that almost tie.
const Cases kLargeScores("AttentionLargeScores", [] {
  Maker make(152);
  std::vector<OpCase> cases;
  for (int64_t dim : {32, 64, 80, 128}) {
    for (int64_t length : {64, 300}) {
      OpCase c =
          attention_case(make, {2, length, length, 2, 2, dim, dim}, {.name = "scores of 1e4"});
      for (size_t i : {0u, 1u}) c.inputs[i].value = scaled(c.inputs[i].value, 50);
      c.ulps += device_under_test().attention_slack(2e4);
      cases.push_back(std::move(c));
    }
  }
  return values_only(std::move(cases));
});

// NaN in the last value reaches every query, although a causal mask hides it from all but the last:
// 0 times NaN is NaN.
const Cases kCausalNaN("AttentionCausalNaNValue", [] {
  Maker make(153);
  std::vector<OpCase> cases;
  for (int64_t dim : {32, 64, 80, 128}) {
    for (double fill : {-HUGE_VAL, -3.4e38}) {
      for (int64_t length : {65, 300}) {
        OpCase c = attention_case(make, {2, length, length, 2, 2, dim, dim},
                                  {.name = "causal NaN", .attrs = {.causal = true, .fill = fill}});
        c.inputs[2].value = with_nan(c.inputs[2].value, (length - 1) * 2 * dim + 1);
        cases.push_back(std::move(c));
      }
    }
  }
  return values_only(std::move(cases));
});

// A bias [1, H, Sq, Sk] for all items, as relative positions have it; more queries than keys and
// fewer; 65,536 keys.
const Cases kSizes("AttentionBroadcastBiasAndLongKeys", [] {
  Maker make(154);
  std::vector<OpCase> cases;
  for (int64_t dim : {32, 64, 80, 128}) {
    for (const AttentionShape& s : std::vector<AttentionShape>{{3, 140, 140, 4, 2, dim, dim},
                                                               {2, 5, 333, 2, 1, dim, dim},
                                                               {2, 270, 140, 2, 2, dim, dim}}) {
      OpCase c = attention_case(make, s, {.name = "bias of all items"});
      c.inputs[3] = {.value = make.normal({1, s.heads, s.queries, s.keys}, 0, 2), .special = false};
      cases.push_back(std::move(c));
      cases.push_back(attention_case(make, s, {.name = "causal", .attrs = {.causal = true}}));
    }
    OpCase longest = attention_case(make, {1, 3, 65536, 2, 2, dim, dim}, {});
    longest.ulps *= 4;  // a mean of 65,536 values is 256 times smaller than they are
    cases.push_back(std::move(longest));
  }
  return values_only(std::move(cases));
});

// ---- bits

class AttentionBits : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Support here = device_under_test().available(); !here)
      GTEST_SKIP() << "SKIP: " << here.reason;
    if (device_under_test().bare()) GTEST_SKIP() << "SKIP: not for memory checkers";
  }
};

// Places [begin, end) of an axis.
Tensor part(const Tensor& t, int axis, int64_t begin, int64_t end) {
  std::vector<int64_t> places;
  for (int64_t i = begin; i < end; ++i) places.push_back(i);
  return pick(t, axis, places);
}

// The first keys of each item are kept, the rest is padding.
OpCase padded_case(Maker& make, int64_t length, int64_t kept, int64_t heads, int64_t dim) {
  OpCase c = attention_case(make, {3, length, length, heads, heads, dim, dim},
                            {.name = "padded", .keep = Table::kKeyRow});
  std::vector<double> keep(static_cast<size_t>(3 * length), 0.0);
  for (size_t b = 0; b < 3; ++b) {
    const auto first = keep.begin() + static_cast<std::ptrdiff_t>(b) * length;
    std::fill(first, first + kept, 1.0);
  }
  c.inputs[4].value = Tensor::from(DType::kBool, {3, 1, 1, length}, std::span<const double>(keep));
  return c;
}

// In the types that rows take, and asked for TF32.
std::vector<OpCase> in_each_type(const OpCase& c) {
  OpCase tf32 = c;
  tf32.asked.compute.type = DType::kTF32;
  tf32.asked.by = "a test";
  return {c, tf32, stored_as(c, std::array{DType::kF16}), stored_as(c, std::array{DType::kBF16})};
}

// One item alone, its keys without their padding, and its last query alone. So many heads that a
// batch and an item take different tiles.
TEST_F(AttentionBits, OfAnItemAreThoseItHasAlone) {
  Maker make(155);
  for (int64_t dim : {32, 64, 80, 96, 128}) {
    for (int64_t length : {17, 128, 300}) {
      const int64_t kept = length - length / 3, heads = length <= 128 ? 40 : 8;
      for (const OpCase& c : in_each_type(padded_case(make, length, kept, heads, dim))) {
        for (const KernelDef* kernel : rows_of(c)) {
          const Tensor all = slice(run_kernel(*kernel, c, {})[0], 0, 1);
          OpCase alone = with_rows(c, std::array{int64_t{1}});
          EXPECT_EQ(compare_bits(run_kernel(*kernel, alone, {})[0], all), "")
              << kernel->name << " " << c.name << ": an item alone";
          for (size_t i : {1u, 2u, 4u})
            alone.inputs[i].value = part(alone.inputs[i].value, i == 4 ? 3 : 1, 0, kept);
          EXPECT_EQ(compare_bits(run_kernel(*kernel, alone, {})[0], all), "")
              << kernel->name << " " << c.name << ": without its padding";
          alone.inputs[0].value = part(alone.inputs[0].value, 1, length - 1, length);
          alone.outputs[0].shape[1] = 1;
          EXPECT_EQ(
              compare_bits(run_kernel(*kernel, alone, {})[0], part(all, 1, length - 1, length)), "")
              << kernel->name << " " << c.name << ": its last query alone";
        }
      }
    }
  }
}

TEST_F(AttentionBits, OfAnItemDoNotDependOnNaNInAnother) {
  Maker make(156);
  for (int64_t dim : {32, 64, 80, 128}) {
    for (const OpCase& c : in_each_type(padded_case(make, 130, 100, 8, dim))) {
      OpCase poisoned = c;
      for (size_t i : {0u, 1u, 2u}) {
        const Tensor& t = c.inputs[i].value;
        std::vector<double> values(static_cast<size_t>(t.elems()), NAN);
        const int64_t item = t.elems() / 3;
        for (int64_t at = 0; at < t.elems(); ++at) {
          if (at < item || at >= 2 * item) values[static_cast<size_t>(at)] = t.float_at(at);
        }
        poisoned.inputs[i].value =
            Tensor::from(t.dtype(), t.shape(), std::span<const double>(values));
      }
      for (const KernelDef* kernel : rows_of(c)) {
        const Tensor clean = run_kernel(*kernel, c, {})[0];
        const Tensor other = run_kernel(*kernel, poisoned, {})[0];
        for (int64_t item : {0, 2})
          EXPECT_EQ(compare_bits(slice(clean, 0, item), slice(other, 0, item)), "")
              << kernel->name << " " << c.name << ", item " << item;
      }
    }
  }
}

// Rows that are not aligned take the other of the two kernels of cuda.attention.plain.
TEST_F(AttentionBits, OfBothF32KernelsAreEqual) {
  Maker make(157);
  std::vector<AttentionVariant> variants = attention_variants();
  variants.push_back({});
  for (int64_t dim : {20, 32, 64, 80, 96, 128}) {
    for (const AttentionVariant& variant : variants) {
      for (int64_t length : {3, 127, 300}) {
        const OpCase c = attention_case(make, {2, length, length, 4, 2, dim, dim}, variant);
        for (const KernelDef* kernel : rows_of(c)) {
          if (kernel->name != "cuda.attention.plain") continue;
          EXPECT_EQ(compare_bits(run_kernel(*kernel, c, {})[0],
                                 run_kernel(*kernel, c, {.odd_inputs = true})[0]),
                    "")
              << c.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace vernier::backend::test
