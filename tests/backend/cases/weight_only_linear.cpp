// Cases of WeightOnlyLinear: odd sizes, 8 and 4 bits, every type of weight, scales of columns and
// of blocks, zero points, every activation.
#include <cmath>

#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

constexpr DType kF32 = DType::kF32, kI8 = DType::kI8, kU8 = DType::kU8, kQ8 = DType::kQ8,
                kQ4 = DType::kQ4;

struct Row {
  const char* name;
  Shape x;  ///< [..., K]
  int64_t n;
  WeightOnlyLinearAttrs attrs = {};
  DType w_type = kQ8;
  bool by_column = true, zero = false, one_zero = false, bias = true, residual = false;
};

// Numbers of all of the type's range.
Tensor weights(Maker& make, const Row& row, const Shape& shape) {
  const int64_t most = row.attrs.bits == 4 ? 7 : 127;
  const bool rounded = row.w_type == kQ8 || row.w_type == kQ4;
  const int64_t low = row.w_type == kU8 ? 0 : rounded ? -most : -most - 1;
  const Tensor drawn =
      make.integers(DType::kI32, shape, low, row.w_type == kU8 ? 2 * most + 1 : most);
  std::vector<double> values;
  for (int64_t i = 0; i < drawn.elems(); ++i)
    values.push_back(static_cast<double>(drawn.integer_at(i)));
  return Tensor::from(row.w_type, shape, std::span<const double>(values));
}

Tensor scales(Maker& make, const Shape& shape) {
  const Tensor drawn = make.normal(shape);
  std::vector<double> values;
  for (int64_t i = 0; i < drawn.elems(); ++i)
    values.push_back(0.01 * (0.1 + std::abs(drawn.float_at(i))));
  return Tensor::from(kF32, shape, std::span<const double>(values));
}

// clang-format off
const std::vector<Row> kRows{
    {.name = "one number",             .x = {1, 1},      .n = 1},
    {.name = "odd sizes",              .x = {3, 17},     .n = 33,  .attrs = {.activation = Activation::kGeluErf}},
    {.name = "a panel and one",        .x = {5, 33},     .n = 65,  .attrs = {.trans_w = true}},
    {.name = "rows of two axes",       .x = {2, 7, 64},  .n = 127, .attrs = {.activation = Activation::kGeluTanh}, .residual = true},
    {.name = "several chunks",         .x = {130, 300},  .n = 130, .attrs = {.activation = Activation::kRelu}},
    {.name = "tanh, transposed",       .x = {40, 128},   .n = 192, .attrs = {.activation = Activation::kTanh, .trans_w = true}},
    {.name = "one scale, no bias",     .x = {4, 31},     .n = 5,   .by_column = false, .bias = false},
    {.name = "i8",                     .x = {7, 36},     .n = 64,  .w_type = kI8},
    {.name = "i8, zero points",        .x = {13, 137},   .n = 66,  .w_type = kI8, .zero = true},
    {.name = "u8, one zero point",     .x = {6, 130},    .n = 67,  .attrs = {.trans_w = true}, .w_type = kU8, .zero = true, .one_zero = true, .residual = true},
    {.name = "u8",                     .x = {9, 38},     .n = 67,  .w_type = kU8},
    {.name = "blocks of 8 bits",       .x = {5, 80},     .n = 70,  .attrs = {.block_size = 16}},
    {.name = "4 bits",                 .x = {1, 96},     .n = 64,  .attrs = {.block_size = 32, .bits = 4}, .w_type = kQ4},
    {.name = "4 bits, ragged blocks",  .x = {3, 77},     .n = 66,  .attrs = {.activation = Activation::kGeluErf, .block_size = 32, .bits = 4}, .w_type = kQ4},
    {.name = "4 bits, transposed",     .x = {7, 260},    .n = 129, .attrs = {.trans_w = true, .block_size = 64, .bits = 4}, .w_type = kQ4, .residual = true},
    {.name = "4 bits, large blocks",   .x = {8, 700},    .n = 65,  .attrs = {.block_size = 512, .bits = 4}, .w_type = kQ4},
    {.name = "4 bits, small blocks",   .x = {97, 40},    .n = 63,  .attrs = {.block_size = 8, .bits = 4}, .w_type = kQ4},
    {.name = "4 bits, columns",        .x = {12, 45},    .n = 20,  .attrs = {.bits = 4}, .w_type = kQ4},
    {.name = "int4",                   .x = {4, 64},     .n = 64,  .attrs = {.block_size = 32, .bits = 4}, .w_type = kI8},
    {.name = "int4, zero points",      .x = {5, 65},     .n = 67,  .attrs = {.block_size = 16, .bits = 4}, .w_type = kI8, .zero = true},
    {.name = "uint4, zero points",     .x = {6, 66},     .n = 68,  .attrs = {.activation = Activation::kRelu, .trans_w = true, .block_size = 32, .bits = 4}, .w_type = kU8, .zero = true, .residual = true},
    {.name = "uint4, one of each",     .x = {2, 50},     .n = 3,   .attrs = {.bits = 4}, .w_type = kU8, .by_column = false, .zero = true, .one_zero = true},
    {.name = "uint4, one zero point",  .x = {2, 50},     .n = 70,  .attrs = {.block_size = 24, .bits = 4}, .w_type = kU8, .zero = true, .one_zero = true},
    {.name = "no rows",                .x = {0, 8},      .n = 3},
};
// clang-format on

OpCase case_of(Maker& make, const Row& row) {
  OpCase c{.name = row.name, .op = OpKind::kWeightOnlyLinear, .attrs = encode(row.attrs)};
  const int64_t k = row.x.back(), n = row.n, block = row.attrs.block_size;
  Shape out = row.x;
  out.back() = n;
  const Arg absent{.value = Tensor(), .special = false};
  const auto optional = [&](bool present, const Arg& arg) { return present ? arg : absent; };
  Shape held = block > 0 ? Shape{(k + block - 1) / block, n} : Shape{n};
  if (!row.by_column) held = {};
  const int64_t low = row.w_type == kU8 ? 0 : row.attrs.bits == 4 ? -8 : -128;
  c.inputs = {{.value = make.normal(row.x), .batch_axis = 0},
              {.value = weights(make, row, row.attrs.trans_w ? Shape{n, k} : Shape{k, n}),
               .constant = true,
               .special = false},
              // Infinite: a sum of infinite weights, or a sum times infinity.
              {.value = scales(make, held), .constant = true, .special = false, .stays_f32 = true},
              optional(row.zero, {.value = make.integers(row.w_type == kU8 ? kU8 : kI8,
                                                         row.one_zero ? Shape{} : held, low,
                                                         low + (row.attrs.bits == 4 ? 15 : 255)),
                                  .constant = true,
                                  .special = false}),
              optional(row.bias, {.value = make.normal({n})}),
              optional(row.residual, {.value = make.normal(out), .batch_axis = 0})};
  c.outputs = {{.shape = out}};
  // As a Linear's (cases/linear.cpp): tanh passes on what its argument is off by.
  c.ulps = 16 + (row.attrs.activation == Activation::kTanh ? static_cast<double>(k)
                                                           : std::sqrt(static_cast<double>(k)));
  return c;
}

const Cases kWeightOnlyLinear("WeightOnlyLinear", [] {
  Maker make(93);
  std::vector<OpCase> cases;
  cases.reserve(kRows.size());
  for (const Row& row : kRows) cases.push_back(case_of(make, row));
  return cases;
});

}  // namespace
}  // namespace vernier::backend::test
