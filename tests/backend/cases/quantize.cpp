// Cases of QuantizeLinear and DequantizeLinear: the layouts of scales, types, ties and saturation.
#include <cmath>

#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

constexpr DType kF32 = DType::kF32, kI8 = DType::kI8, kU8 = DType::kU8, kI16 = DType::kI16,
                kU16 = DType::kU16, kI32 = DType::kI32;

struct Row {
  const char* name;
  DType type = kI8;  ///< of the quantized numbers
  Shape x = {}, scale = {};
  QuantizeAttrs attrs = {};
  bool has_zero = true;
  DType from = kF32;  ///< of x to QuantizeLinear: f32 or i32
  int batch_axis = -1;
};

// clang-format off
const std::vector<Row> kRows{
    {.name = "one scale",                  .type = kU8,  .x = {3, 17},      .scale = {},
     .batch_axis = 0},
    {.name = "one scale of many",          .type = kI8,  .x = {5, 33, 127}, .scale = {1},
     .batch_axis = 0},
    {.name = "one scale for one number",   .type = kI16, .x = {},           .scale = {}},
    {.name = "no zero point",              .type = kU16, .x = {3, 33},      .scale = {},
     .has_zero = false},
    {.name = "rows",                       .type = kI8,  .x = {17, 33},     .scale = {33},
     .attrs = {.axis = 1}, .batch_axis = 0},
    {.name = "rows without zero points",   .type = kU8,  .x = {7, 127},     .scale = {127},
     .attrs = {.axis = -1}, .has_zero = false, .batch_axis = 0},
    {.name = "lines",                      .type = kU8,  .x = {3, 5, 17},   .scale = {5},
     .attrs = {.axis = 1}, .batch_axis = 0},
    {.name = "lines of the first axis",    .type = kI16, .x = {3, 33},      .scale = {3},
     .attrs = {.axis = 0}},
    {.name = "lines without zero points",  .type = kI8,  .x = {3, 5, 1, 3}, .scale = {5},
     .attrs = {.axis = -3}, .has_zero = false, .batch_axis = 0},
    {.name = "blocks",                     .type = kI8,  .x = {3, 33},      .scale = {3, 5},
     .attrs = {.axis = 1, .block_size = 7}},
    {.name = "blocks of one",              .type = kU8,  .x = {3, 5},       .scale = {3, 5},
     .attrs = {.axis = 1, .block_size = 1}},
    {.name = "a block larger than x",      .type = kU8,  .x = {3, 5},       .scale = {3, 1},
     .attrs = {.axis = 1, .block_size = 8}},
    {.name = "lines of blocks",            .type = kI16, .x = {2, 7, 17},   .scale = {2, 3, 17},
     .attrs = {.axis = 1, .block_size = 3}},
    {.name = "blocks without zero points", .type = kU16, .x = {7, 3},       .scale = {2, 3},
     .attrs = {.axis = 0, .block_size = 4}, .has_zero = false},
    {.name = "nothing",                    .type = kI8,  .x = {0, 3},       .scale = {3},
     .attrs = {.axis = 1}},
    {.name = "no columns",                 .type = kI8,  .x = {3, 0, 5},    .scale = {0},
     .attrs = {.axis = 1}},
    {.name = "of integers",                .type = kI8,  .x = {3, 17},      .scale = {17},
     .attrs = {.axis = 1}, .from = kI32},
};
// clang-format on

// Halves of integers: ties, and beyond every range at scales below 1.
Tensor halves(Maker& make, const Shape& shape) {
  const Tensor drawn = make.integers(kI32, shape, -70000, 70000);
  std::vector<double> values;
  for (int64_t i = 0; i < drawn.elems(); ++i)
    values.push_back(0.5 * static_cast<double>(drawn.integer_at(i) % (i % 3 == 0 ? 70000 : 513)));
  return Tensor::from(kF32, shape, std::span<const double>(values));
}

// Powers of two: x / scale has ties.
Tensor powers(Maker& make, const Shape& shape) {
  const Tensor drawn = make.integers(kI32, shape, -2, 2);
  std::vector<double> values;
  for (int64_t i = 0; i < drawn.elems(); ++i)
    values.push_back(std::exp2(static_cast<double>(drawn.integer_at(i))));
  return Tensor::from(kF32, shape, std::span<const double>(values));
}

Tensor zero_points(Maker& make, const Row& row) {
  const bool is_signed = is_signed_integer(row.type);
  return make.integers(row.type, row.scale, is_signed ? -100 : 0, is_signed ? 100 : 200);
}

const Cases kQuantize("QuantizeLinear", [] {
  Maker make(81);
  std::vector<OpCase> cases;
  for (const Row& row : kRows) {
    QuantizeAttrs attrs = row.attrs;
    attrs.dtype = row.type;
    OpCase c{.name = row.name, .op = OpKind::kQuantizeLinear, .attrs = encode(attrs)};
    const Tensor x = row.from == kI32 ? make.integers(kI32, row.x, -999, 999) : halves(make, row.x);
    c.inputs = {{.value = x, .batch_axis = row.batch_axis}, {.value = powers(make, row.scale)}};
    if (row.has_zero) c.inputs.push_back({.value = zero_points(make, row)});
    c.outputs = {{.dtype = row.type, .shape = row.x, .batch_axis = row.batch_axis}};
    c.exact = true;
    cases.push_back(c);
    c.name += ", scales of any size";
    c.inputs[1].value = make.normal(row.scale);
    cases.push_back(c);
  }
  return cases;
});

const Cases kDequantize("DequantizeLinear", [] {
  Maker make(82);
  std::vector<OpCase> cases;
  for (const Row& row : kRows) {
    const bool is_signed = is_signed_integer(row.type);
    OpCase c{.name = row.name, .op = OpKind::kDequantizeLinear, .attrs = encode(row.attrs)};
    c.inputs = {{.value = make.integers(row.type, row.x, is_signed ? -128 : 0, 127),
                 .batch_axis = row.batch_axis},
                {.value = make.normal(row.scale)}};
    if (row.has_zero) c.inputs.push_back({.value = zero_points(make, row)});
    c.outputs = {{.shape = row.x, .batch_axis = row.batch_axis}};
    c.ulps = 1;  // rounded once
    cases.push_back(c);
  }
  OpCase sums{.name = "sums of products",
              .op = OpKind::kDequantizeLinear,
              .attrs = encode(QuantizeAttrs{.axis = 1})};
  sums.inputs = {{.value = make.integers(kI32, {3, 33}, INT32_MIN, INT32_MAX), .batch_axis = 0},
                 {.value = make.normal({33})}};
  sums.outputs = {{.shape = {3, 33}, .batch_axis = 0}};
  sums.ulps = 1;
  cases.push_back(sums);
  return cases;
});

}  // namespace
}  // namespace vernier::backend::test
