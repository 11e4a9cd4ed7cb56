// Cases of Linear: every activation at odd sizes; the sizes of BERT and odd ones for a GPU.
#include "backend/cases/linear.h"

#include <cmath>
#include <cstring>

namespace vernier::backend::test {

OpCase linear_case(Maker& make, const LinearShape& s, const LinearAttrs& attrs) {
  OpCase c{.op = OpKind::kLinear, .attrs = encode(attrs)};
  c.name = std::to_string(s.m);
  c.name += "x" + std::to_string(s.k);
  c.name += "x" + std::to_string(s.n);
  c.inputs = {{.value = make.normal({s.m, s.k}), .batch_axis = 0},
              {.value = make.normal(attrs.trans_w ? Shape{s.n, s.k} : Shape{s.k, s.n}),
               .constant = true,
               .special = false},
              {.value = make.normal({s.n})},
              {.value = make.normal({s.m, s.n}), .batch_axis = 0}};
  c.outputs = {{.shape = {s.m, s.n}}};
  // A running sum of K products of size 1 grows to sqrt(K) and is rounded K times: off by about
  // K·eps, which is sqrt(K) ulp of the sums. tanh keeps the error but brings the sums down to 1.
  const auto k = static_cast<double>(s.k);
  c.ulps = 16 + (attrs.activation == Activation::kTanh ? k : std::sqrt(k));
  return c;
}

OpCase first_rows(const OpCase& c, int64_t m) {
  OpCase part = c;
  part.inputs.resize(3);
  const Tensor& x = c.inputs[0].value;
  const auto bytes = static_cast<size_t>(m * x.shape()[1]) * size_bytes(x.dtype());
  part.inputs[0].value =
      Tensor::from_bytes(x.dtype(), {m, x.shape()[1]}, x.byte_span().first(bytes));
  part.outputs[0].shape[0] = m;
  return part;
}

namespace {

const std::vector<LinearAttrs> kActivations{{},
                                            {.activation = Activation::kGeluErf, .trans_w = true},
                                            {.activation = Activation::kGeluTanh},
                                            {.activation = Activation::kRelu},
                                            {.activation = Activation::kTanh, .trans_w = true}};

const Cases kLinear("Linear", [] {
  Maker make(11);
  std::vector<OpCase> cases;
  for (const LinearShape& s : std::vector<LinearShape>{
           {1, 1, 1}, {3, 17, 33}, {5, 33, 127}, {17, 64, 64}, {33, 48, 130}, {40, 128, 576}}) {
    for (const LinearAttrs& attrs : kActivations) {
      OpCase c = linear_case(make, s, attrs);
      cases.push_back(c);
      c.inputs.resize(2);
      c.name += " alone";
      cases.push_back(c);
    }
  }
  return cases;
});

const Cases kWeightNaN("LinearNaNInAWeight", [] {
  Maker make(12);
  OpCase c = linear_case(make, {20, 64, 192}, {.activation = Activation::kRelu});
  std::vector<float> weight(64 * 192);
  std::memcpy(weight.data(), c.inputs[1].value.data(), weight.size() * sizeof(float));
  weight[63 * 192 + 191] = NAN;
  c.inputs[1].value = Tensor::from_bytes(DType::kF32, {64, 192}, std::as_bytes(std::span(weight)));
  c.checks = Checks::kValues;
  return std::vector<OpCase>{c};
});

const Cases kComputedWeight("LinearComputedWeight", [] {
  Maker make(42);
  std::vector<OpCase> cases;
  for (bool trans : {false, true}) {
    OpCase c{.op = OpKind::kLinear,
             .attrs = encode(LinearAttrs{.activation = Activation::kGeluErf, .trans_w = trans})};
    c.name = "computed weight";
    c.inputs = {{.value = make.normal({2, 5, 17}), .batch_axis = 0},
                {.value = make.normal(trans ? Shape{33, 17} : Shape{17, 33})},
                {.value = make.normal({33})},
                {.value = make.normal({2, 5, 33}), .batch_axis = 0}};
    c.outputs = {{.shape = {2, 5, 33}}};
    cases.push_back(c);
  }
  return cases;
});

// Every K with every N; rows and activations in turn.
const Cases kOddSizes("LinearSizes", [] {
  Maker make(13);
  const std::vector<int64_t> sizes{1, 7, 8, 24, 100, 768}, rows{64, 3, 129, 1, 1000};
  std::vector<OpCase> cases;
  size_t turn = 0;
  for (int64_t k : sizes) {
    for (int64_t n : sizes) {
      const int64_t m = rows[turn % rows.size()];
      OpCase c = linear_case(make, {m, k, n}, kActivations[turn / 2 % kActivations.size()]);
      if (turn % 2 == 1) c.inputs.resize(3);
      c.device_only = true;
      c.checks = m * (k + n) > 50'000 ? Checks::kSampled : Checks::kValues;
      cases.push_back(std::move(c));
      ++turn;
    }
  }
  return cases;
});

std::vector<OpCase> bert_cases(std::vector<LinearShape> shapes, uint64_t seed) {
  Maker make(seed);
  std::vector<OpCase> cases;
  for (const LinearShape& s : shapes) {
    OpCase c = linear_case(make, s, kActivations[cases.size() % 2]);
    c.device_only = true;
    c.checks = Checks::kSampled;
    cases.push_back(std::move(c));
  }
  return cases;
}
const Cases kBase("LinearBertBase", [] {
  return bert_cases({{64, 768, 768}, {129, 768, 2304}, {1000, 768, 3072}, {3, 3072, 768}}, 14);
});
const Cases kMini("LinearBertMini", [] {
  return bert_cases({{1000, 384, 384}, {129, 384, 1152}, {64, 384, 1536}, {1, 1536, 384}}, 15);
});
const Cases kLarge("LinearBertLarge", [] {
  return bert_cases({{129, 1024, 1024}, {64, 1024, 3072}}, 16);
});
const Cases kLargeUp("LinearBertLargeUp", [] { return bert_cases({{129, 1024, 4096}}, 17); });
const Cases kLargeDown("LinearBertLargeDown", [] { return bert_cases({{129, 4096, 1024}}, 18); });

}  // namespace
}  // namespace vernier::backend::test
