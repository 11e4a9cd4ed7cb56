// Cases of LinearAddLayerNorm: operands in 16 bits with parameters in f32, as encoders have them,
// at the widths of BERT and with rows around the tiles of a device.
#include <algorithm>
#include <cmath>

#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

struct Size {
  int64_t rows, k, n;
  bool trans_w = false;
};

/// x, w, bias, residual, scale, norm_bias; x, w, the residual and the result still in f32.
OpCase norm_case(Maker& make, const Size& s) {
  OpCase c{.op = OpKind::kLinearAddLayerNorm,
           .attrs = encode(LinearNormAttrs{.trans_w = s.trans_w, .epsilon = 1e-5})};
  c.name = std::to_string(s.rows);
  c.name += "x" + std::to_string(s.k);
  c.name += "x" + std::to_string(s.n) + (s.trans_w ? " transposed" : "");
  const auto parameter = [](Tensor value) {
    return Arg{.value = std::move(value), .constant = true, .stays_f32 = true};
  };
  c.inputs = {{.value = make.normal({s.rows, s.k}), .batch_axis = 0},
              {.value = make.normal(s.trans_w ? Shape{s.n, s.k} : Shape{s.k, s.n}),
               .constant = true,
               .special = false},
              parameter(make.normal({s.n})),
              {.value = make.normal({s.rows, s.n}), .batch_axis = 0},
              parameter(make.normal({s.n}, 1, 0.1)),
              parameter(make.normal({s.n}))};
  c.outputs = {{.shape = {s.rows, s.n}}};
  // A running sum of K products is off by sqrt(K) ulp of the sums, which the norm brings down to 1;
  // the norm itself is off as LayerNorm is (norms.cpp).
  c.ulps = 16 + std::sqrt(static_cast<double>(s.k)) + 2 * std::sqrt(static_cast<double>(s.n));
  c.optional = true;
  return c;
}

OpCase without(OpCase c, size_t input, const char* what) {
  c.inputs[input] = {};
  if (input + 1 == c.inputs.size()) c.inputs.pop_back();
  c.name += std::string(" without ") + what;
  return c;
}

// Each case in f16 and in bf16.
std::vector<OpCase> in_16_bits(const std::vector<OpCase>& cases) {
  std::vector<OpCase> stored;
  for (DType type : {DType::kF16, DType::kBF16}) {
    for (const OpCase& c : cases) stored.push_back(stored_as(c, std::array{type}));
  }
  return stored;
}

const Cases kSmall("LinearAddLayerNorm", [] {
  Maker make(120);
  std::vector<OpCase> cases;
  for (const Size& s :
       std::vector<Size>{{1, 384, 384}, {3, 384, 256}, {17, 256, 384, true}, {5, 768, 768}}) {
    const OpCase c = norm_case(make, s);
    cases.push_back(c);
    cases.push_back(without(c, 2, "bias"));
    cases.push_back(without(c, 5, "norm bias"));
    cases.push_back(without(without(c, 5, "norm bias"), 2, "bias"));
  }
  OpCase c = norm_case(make, {6, 384, 384});
  c.name += " of rank 3";
  const auto in_batches = [](const Tensor& t) {
    return Tensor::from_bytes(t.dtype(), {2, 3, t.shape()[1]}, t.byte_span());
  };
  for (size_t i : {size_t{0}, size_t{3}}) c.inputs[i].value = in_batches(c.inputs[i].value);
  c.outputs[0].shape = {2, 3, 384};
  cases.push_back(std::move(c));
  return in_16_bits(cases);
});

// Every row count with every width; K is the width, or four times it as after a feed-forward layer.
const Cases kSizes("LinearAddLayerNormSizes", [] {
  Maker make(121);
  std::vector<OpCase> cases;
  size_t turn = 0;
  for (int64_t n : {256, 384, 512, 768, 1024}) {
    for (int64_t rows : {1, 3, 17, 127, 128, 129, 300}) {
      const int64_t k = turn % 3 == 2 ? 4 * n : n;
      cases.push_back(norm_case(make, {rows, k, n, turn % 2 == 1}));
      cases.back().checks = Checks::kSampled;
      ++turn;
    }
  }
  return in_16_bits(cases);
});

// Sizes that no tile divides, down to one.
const Cases kOdd("LinearAddLayerNormOddSizes", [] {
  Maker make(122);
  std::vector<OpCase> cases;
  for (const Size& s : std::vector<Size>{{1, 1, 1}, {3, 7, 5}, {5, 100, 24}, {9, 384, 200}})
    cases.push_back(norm_case(make, s));
  const std::vector<OpCase> as_written = cases;
  cases = in_16_bits(cases);
  cases.insert(cases.end(), as_written.begin(), as_written.end());
  return cases;
});

// Products and residuals near the largest of f16: their sum is beyond it, the result is not.
const Cases kLarge("LinearAddLayerNormLargeValues", [] {
  constexpr double kMost = 65504;
  Maker make(123);
  std::vector<OpCase> cases;
  for (int64_t n : {256, 384, 768}) {
    OpCase c = norm_case(make, {17, n, n});
    c.name += " near the largest of f16";
    c.inputs[0].value = make.normal({17, n}, 0, 14000 / std::sqrt(static_cast<double>(n)));
    const Tensor drawn = make.normal({17, n}, 0, 40000);
    std::vector<double> values;
    for (int64_t i = 0; i < drawn.elems(); ++i)
      values.push_back(std::clamp(drawn.float_at(i), -kMost, kMost));
    c.inputs[3].value = Tensor::from(DType::kF32, {17, n}, std::span<const double>(values));
    c.checks = Checks::kValues;
    cases.push_back(std::move(c));
  }
  // bf16 reaches as far as f32 and rounds the largest of f16 up.
  return in_16_bits(cases);
});

// Rows of one number have variance 0: what is left is the norm's bias.
const Cases kConstant("LinearAddLayerNormConstantRows", [] {
  constexpr int64_t kRows = 5;
  Maker make(124);
  std::vector<OpCase> cases;
  for (int64_t n : {256, 384}) {
    OpCase c = without(norm_case(make, {kRows, n, n}), 2, "bias");
    c.name += " of constant rows";
    const auto with_constant_rows = [&](const Tensor& t, double first) {
      std::vector<double> values;
      for (int64_t i = 0; i < t.elems(); ++i)
        values.push_back(i / n % 2 == 0 ? first * static_cast<double>(i / n + 1) : t.float_at(i));
      return Tensor::from(DType::kF32, t.shape(), std::span<const double>(values));
    };
    c.inputs[0].value = with_constant_rows(c.inputs[0].value, 0);
    c.inputs[3].value = with_constant_rows(c.inputs[3].value, 0.5);
    c.checks = Checks::kValues;
    cases.push_back(std::move(c));
  }
  return in_16_bits(cases);
});

}  // namespace
}  // namespace vernier::backend::test
