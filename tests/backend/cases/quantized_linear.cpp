// Cases of QuantizeRows and QuantizedLinear: odd sizes, every type of an 8-bit operand, zero
// points, scales by row and column, every activation.
#include "backend/cases/quantized_linear.h"

#include <cmath>

namespace vernier::backend::test {
namespace {

constexpr DType kF32 = DType::kF32, kI8 = DType::kI8, kU8 = DType::kU8, kQ8 = DType::kQ8,
                kF8 = DType::kF8E4M3;

// Numbers of all of the type's range.
Tensor bytes(Maker& make, DType type, const Shape& shape) {
  if (type == kF8) {  // subnormal ones too, and a few of the largest
    const Tensor drawn = make.normal(shape);
    std::vector<double> values;
    for (int64_t i = 0; i < drawn.elems(); ++i) {
      const double v = drawn.float_at(i);
      values.push_back(i % 97 == 5 ? std::copysign(448, v) : i % 7 == 3 ? v / 512 : 30 * v);
    }
    return Tensor::from(type, shape, std::span<const double>(values));
  }
  const Tensor drawn = make.integers(DType::kI32, shape,
                                     type == kU8   ? 0
                                     : type == kI8 ? -128
                                                   : -127,
                                     type == kU8 ? 255 : 127);
  std::vector<double> values;
  for (int64_t i = 0; i < drawn.elems(); ++i)
    values.push_back(static_cast<double>(drawn.integer_at(i)));
  return Tensor::from(type, shape, std::span<const double>(values));
}

Tensor scales(Maker& make, const Shape& shape) {
  const Tensor drawn = make.normal(shape);
  std::vector<double> values;
  for (int64_t i = 0; i < drawn.elems(); ++i)
    values.push_back(0.01 * (0.1 + std::abs(drawn.float_at(i))));
  return Tensor::from(kF32, shape, std::span<const double>(values));
}

const Cases kQuantizeRows("QuantizeRows", [] {
  Maker make(91);
  std::vector<OpCase> cases;
  for (const Shape& shape : std::vector<Shape>{{1, 1},
                                               {3, 17},
                                               {2, 5, 33},
                                               {17, 64},
                                               {3, 127},
                                               {5, 1536},
                                               {3, 4096},
                                               {1030, 264},
                                               {0, 3},
                                               {4}}) {
    for (const double mean : {0.0, 100.0}) {
      OpCase c{
          .name = str(shape), .op = OpKind::kQuantizeRows, .attrs = encode(QuantizeRowsAttrs{})};
      const int axis = shape.size() > 1 ? 0 : -1;
      Shape by_row = shape;
      by_row.back() = 1;
      // q8 holds no NaN: the row's scale is NaN where the row has one.
      c.inputs = {{.value = make.normal(shape, mean), .batch_axis = axis, .special = false}};
      c.outputs = {{.dtype = kQ8, .shape = shape, .batch_axis = axis},
                   {.shape = by_row, .batch_axis = axis},
                   {.shape = by_row, .batch_axis = axis}};
      cases.push_back(c);
    }
  }
  for (const Shape& shape : std::vector<Shape>{{3, 1}, {4, 17}, {2, 5, 64}, {3, 1537}}) {
    OpCase c{.name = str(shape) + " times factors",
             .op = OpKind::kQuantizeRows,
             .attrs = encode(QuantizeRowsAttrs{})};
    Shape by_row = shape;
    by_row.back() = 1;
    std::vector<double> factors;
    for (int64_t k = 0; k < shape.back(); ++k) factors.push_back(std::exp2(k % 7 - 3));
    c.inputs = {{.value = make.normal(shape, 1), .batch_axis = 0, .special = false},
                {.value = Tensor::from(kF32, {shape.back()}, std::span<const double>(factors)),
                 .constant = true,
                 .special = false,
                 .stays_f32 = true}};
    c.outputs = {{.dtype = kQ8, .shape = shape, .batch_axis = 0},
                 {.shape = by_row, .batch_axis = 0},
                 {.shape = by_row, .batch_axis = 0}};
    cases.push_back(c);
  }
  for (const Shape& shape : std::vector<Shape>{{3, 17}, {2, 5, 64}, {70, 1536}, {3, 5000}}) {
    for (const bool factors : {false, true}) {
      OpCase c{.name = str(shape) + (factors ? " times factors" : "") + " by a given scale",
               .op = OpKind::kQuantizeRows,
               .attrs = encode(QuantizeRowsAttrs{})};
      const auto number = [](double value) {
        return Arg{.value = Tensor::scalar(kF32, value),
                   .constant = true,
                   .special = false,
                   .stays_f32 = true};
      };
      Arg factor{.value = Tensor(), .special = false};
      if (factors) {
        std::vector<double> values;
        for (int64_t k = 0; k < shape.back(); ++k) values.push_back(std::exp2(k % 7 - 3));
        factor = {.value = Tensor::from(kF32, {shape.back()}, std::span<const double>(values)),
                  .constant = true,
                  .special = false,
                  .stays_f32 = true};
      }
      c.inputs = {{.value = make.normal(shape, 1), .batch_axis = 0, .special = false},
                  factor,
                  number(0.03),
                  number(-40)};
      c.outputs = {{.dtype = kQ8, .shape = shape, .batch_axis = 0}};
      cases.push_back(c);
    }
  }
  for (const Shape& shape : std::vector<Shape>{
           {1, 1}, {3, 17}, {2, 5, 33}, {17, 64}, {3, 127}, {5, 1536}, {2100, 1024}, {0, 3}, {4}}) {
    for (const bool factors : {false, true}) {
      for (const bool given : {false, true}) {
        OpCase c{.name = str(shape) + " to f8e4m3" + (factors ? " times factors" : "") +
                         (given ? " by a given scale" : ""),
                 .op = OpKind::kQuantizeRows,
                 .attrs = encode(QuantizeRowsAttrs{kF8})};
        const int axis = shape.size() > 1 ? 0 : -1;
        Shape by_row = shape;
        by_row.back() = 1;
        std::vector<double> values;
        for (int64_t k = 0; k < shape.back(); ++k) values.push_back(std::exp2(k % 7 - 3));
        const Arg absent{.value = Tensor(), .special = false};
        const auto constant = [](Tensor value) {
          return Arg{
              .value = std::move(value), .constant = true, .special = false, .stays_f32 = true};
        };
        c.inputs = {{.value = make.normal(shape, 1), .batch_axis = axis}, absent, absent};
        if (factors)
          c.inputs[1] =
              constant(Tensor::from(kF32, {shape.back()}, std::span<const double>(values)));
        if (given) {  // what saturates is no rounding of the right value
          c.inputs[2] = constant(Tensor::scalar(kF32, factors ? 0.1 : 0.0125));
          c.inputs[0].special = false;
        }
        c.outputs = {{.dtype = kF8, .shape = shape, .batch_axis = axis}};
        if (!given) c.outputs.push_back({.shape = by_row, .batch_axis = axis});
        if (shape[0] > 2048) c.checks = Checks::kSampled;
        cases.push_back(c);
      }
    }
  }
  OpCase f8_ties{.name = "ties of f8e4m3",
                 .op = OpKind::kQuantizeRows,
                 .attrs = encode(QuantizeRowsAttrs{kF8})};
  const std::vector<double> f8_row{448, 17, 19, -2.125, 0x1p-10, -0x3p-10, 0x1.fp-7, -0.0};
  f8_ties.inputs = {
      {.value = Tensor::from(kF32, {1, 8}, std::span<const double>(f8_row)), .special = false}};
  f8_ties.outputs = {{.dtype = kF8, .shape = {1, 8}}, {.shape = {1, 1}}};
  cases.push_back(f8_ties);
  OpCase f8_nan = f8_ties;
  f8_nan.name = "NaN to f8e4m3 by a given scale";
  const std::vector<double> with_nan{1, NAN, -3, 0.001, NAN, 7, -448, 0};
  f8_nan.inputs[0].value = Tensor::from(kF32, {1, 8}, std::span<const double>(with_nan));
  f8_nan.inputs.push_back({.value = Tensor(), .special = false});
  f8_nan.inputs.push_back(
      {.value = Tensor::scalar(kF32, 1), .constant = true, .special = false, .stays_f32 = true});
  f8_nan.outputs.resize(1);
  cases.push_back(f8_nan);
  OpCase ties{.name = "ties", .op = OpKind::kQuantizeRows, .attrs = encode(QuantizeRowsAttrs{})};
  const std::vector<double> row{127, 0.5, 1.5, -2.5, -127, 3.5, 126.5};
  ties.inputs = {
      {.value = Tensor::from(kF32, {1, 7}, std::span<const double>(row)), .special = false}};
  ties.outputs = {{.dtype = kQ8, .shape = {1, 7}}, {.shape = {1, 1}}, {.shape = {1, 1}}};
  cases.push_back(ties);
  OpCase small = ties;
  small.name = "zeros and tiny numbers";
  const std::vector<double> tiny{0, 0, 0, 1e-36, -2e-36, 3e-37, 1e-33, 0, -3e-34};
  small.inputs[0].value = Tensor::from(kF32, {3, 3}, std::span<const double>(tiny));
  small.inputs[0].stays_f32 = true;
  small.outputs = {{.dtype = kQ8, .shape = {3, 3}}, {.shape = {3, 1}}, {.shape = {3, 1}}};
  small.checks = Checks::kValues;
  cases.push_back(small);
  return cases;
});

// clang-format off
const std::vector<QuantizedCase> kRows{
    {.name = "one number",            .x = {1, 1},     .n = 1},
    {.name = "odd sizes",             .x = {3, 17},    .n = 33,  .attrs = {.activation = Activation::kGeluErf}},
    {.name = "a panel and one",       .x = {5, 33},    .n = 65,  .attrs = {.trans_w = true}},
    {.name = "rows of two axes",      .x = {2, 7, 64}, .n = 127, .attrs = {.activation = Activation::kGeluTanh}, .residual = true},
    {.name = "several blocks",        .x = {130, 48},  .n = 130, .attrs = {.activation = Activation::kRelu}},
    {.name = "tanh, transposed",      .x = {40, 128},  .n = 192, .attrs = {.activation = Activation::kTanh, .trans_w = true}},
    {.name = "zero points by row",    .x = {7, 35},    .n = 66,  .attrs = {.activation = Activation::kGeluErf}, .x_zero = true},
    {.name = "one real zero point",   .x = {3, 36},    .n = 64,  .by_row = false, .x_zero = true},
    {.name = "one scale each",        .x = {4, 31},    .n = 5,   .by_row = false, .by_column = false, .bias = false},
    {.name = "u8 by i8",              .x = {6, 35},    .n = 70,  .x_type = kU8, .w_type = kI8, .by_row = false, .x_zero = true},
    {.name = "i8 by i8",              .x = {7, 36},    .n = 64,  .x_type = kI8, .w_type = kI8, .by_row = false},
    {.name = "i8 by i8, zero points", .x = {13, 37},   .n = 66,  .x_type = kI8, .w_type = kI8, .by_row = false, .x_zero = true, .w_zero = true, .w_zero_by_column = true},
    {.name = "u8 by u8",              .x = {9, 38},    .n = 67,  .x_type = kU8, .w_type = kU8, .by_row = false},
    {.name = "u8 by u8, zero points", .x = {9, 39},    .n = 67,  .attrs = {.trans_w = true}, .x_type = kU8, .w_type = kU8, .by_row = false, .x_zero = true, .w_zero = true, .residual = true},
    {.name = "i8 by u8",              .x = {2, 40},    .n = 68,  .x_type = kI8, .w_type = kU8, .w_zero = true, .w_zero_by_column = true},
    {.name = "whole chunks",          .x = {129, 144}, .n = 264, .attrs = {.activation = Activation::kGeluErf}, .x_zero = true},
    {.name = "chunks, residual",      .x = {3, 50, 80}, .n = 136, .attrs = {.trans_w = true}, .x_zero = true, .residual = true},
    {.name = "chunks, relu, residual", .x = {66, 1040}, .n = 392, .attrs = {.activation = Activation::kRelu}, .residual = true},
    {.name = "chunks, tanh",          .x = {5, 32},    .n = 8,   .attrs = {.activation = Activation::kTanh}, .by_column = false},
    {.name = "chunks, i8 by i8",      .x = {70, 48},   .n = 72,  .x_type = kI8, .w_type = kI8, .by_row = false, .x_zero = true, .constant_x_zero = true},
    {.name = "chunks, i8 by i8, zero", .x = {70, 48},  .n = 72,  .x_type = kI8, .w_type = kI8, .by_row = false, .x_zero = true},
    {.name = "chunks, i8 by i8, gelu", .x = {7, 64},   .n = 64,  .attrs = {.activation = Activation::kGeluTanh}, .x_type = kI8, .w_type = kI8, .by_row = false},
    {.name = "chunks, one zero of w", .x = {70, 48},    .n = 72,  .x_type = kI8, .w_type = kI8, .by_row = false, .w_zero = true},
    {.name = "chunks, zeros of w",    .x = {2, 150, 144}, .n = 264, .attrs = {.activation = Activation::kGeluErf}, .x_type = kI8, .w_type = kI8, .by_row = false, .x_zero = true, .w_zero = true, .w_zero_by_column = true},
    {.name = "chunks, zeros of w, constant", .x = {131, 96}, .n = 136, .attrs = {.trans_w = true}, .x_type = kI8, .w_type = kI8, .by_row = false, .x_zero = true, .constant_x_scale = true, .constant_x_zero = true, .w_zero = true, .w_zero_by_column = true, .residual = true},
    {.name = "chunks, zeros of w, by rows", .x = {3, 80}, .n = 24, .x_type = kI8, .w_type = kI8, .w_zero = true, .w_zero_by_column = true},
    {.name = "no rows, zeros of w",   .x = {0, 16},    .n = 8,   .x_type = kI8, .w_type = kI8, .by_row = false, .w_zero = true},
    {.name = "chunks, one constant scale", .x = {130, 272}, .n = 392, .attrs = {.activation = Activation::kGeluErf}, .by_row = false, .constant_x_scale = true},
    {.name = "chunks, constant, zero", .x = {67, 160}, .n = 264, .attrs = {.activation = Activation::kGeluErf}, .by_row = false, .x_zero = true, .constant_x_scale = true, .constant_x_zero = true},
    {.name = "chunks, constant, residual", .x = {131, 96}, .n = 136, .attrs = {.trans_w = true}, .x_type = kI8, .w_type = kI8, .by_row = false, .by_column = false, .x_zero = true, .constant_x_scale = true, .constant_x_zero = true, .residual = true},
    {.name = "chunks, constant scale alone", .x = {5, 48}, .n = 40, .x_type = kI8, .w_type = kI8, .by_row = false, .x_zero = true, .constant_x_scale = true},
    {.name = "whole tiles",           .x = {2, 56, 128}, .n = 72, .attrs = {.activation = Activation::kGeluErf}, .x_zero = true, .residual = true},
    {.name = "whole tiles, i8 by i8, zero", .x = {100, 192}, .n = 64, .x_type = kI8, .w_type = kI8, .by_row = false, .x_zero = true},
    {.name = "tiles and a rest of k", .x = {35, 200},  .n = 130, .attrs = {.trans_w = true}, .x_zero = true},
    {.name = "f8e4m3",                .x = {5, 33},    .n = 65,  .x_type = kF8, .w_type = kF8},
    {.name = "f8e4m3, one scale each", .x = {300, 31}, .n = 5,   .attrs = {.trans_w = true}, .x_type = kF8, .w_type = kF8, .by_row = false, .by_column = false, .bias = false},
    {.name = "f8e4m3, chunks",        .x = {129, 144}, .n = 264, .attrs = {.activation = Activation::kGeluErf}, .x_type = kF8, .w_type = kF8},
    {.name = "f8e4m3, constant scale", .x = {130, 272}, .n = 392, .attrs = {.activation = Activation::kGeluErf}, .x_type = kF8, .w_type = kF8, .by_row = false, .constant_x_scale = true},
    {.name = "f8e4m3, residual",      .x = {3, 50, 80}, .n = 136, .attrs = {.trans_w = true}, .x_type = kF8, .w_type = kF8, .residual = true},
    {.name = "f8e4m3, relu, residual", .x = {66, 1040}, .n = 392, .attrs = {.activation = Activation::kRelu}, .x_type = kF8, .w_type = kF8, .residual = true},
    {.name = "f8e4m3, tanh",          .x = {5, 32},    .n = 8,   .attrs = {.activation = Activation::kTanh}, .x_type = kF8, .w_type = kF8, .by_column = false},
    {.name = "f8e4m3, no rows",       .x = {0, 16},    .n = 8,   .x_type = kF8, .w_type = kF8},
    {.name = "no rows",               .x = {0, 8},     .n = 3},
    {.name = "no rows of chunks",     .x = {0, 16},    .n = 8},
};
// clang-format on

}  // namespace

OpCase quantized_case(Maker& make, const QuantizedCase& row) {
  OpCase c{.name = row.name, .op = OpKind::kQuantizedLinear, .attrs = encode(row.attrs)};
  const int64_t k = row.x.back(), n = row.n;
  Shape out = row.x, by_row = row.x;
  out.back() = n;
  by_row.back() = 1;
  const Arg absent{.value = Tensor(), .special = false};
  // Scales may go into a column's bias with the zero point: infinite ones give infinities or NaN.
  const bool folds = row.constant_x_scale && row.x_zero;
  const auto optional = [&](bool present, const Arg& arg) { return present ? arg : absent; };
  c.inputs = {
      {.value = bytes(make, row.x_type, row.x), .batch_axis = 0, .special = false},
      {.value = bytes(make, row.w_type, row.attrs.trans_w ? Shape{n, k} : Shape{k, n}),
       .constant = true,
       .special = false},
      {.value = scales(make, row.by_row ? by_row : Shape{}),
       .constant = row.constant_x_scale,
       .batch_axis = row.by_row ? 0 : -1,
       .special = !folds,
       .stays_f32 = true},
      {.value = scales(make, row.by_column ? Shape{n} : Shape{1}),
       .constant = true,
       .special = !folds,
       .stays_f32 = true},
      optional(row.x_zero,
               row.x_type == kQ8
                   ? Arg{.value = make.normal(row.by_row ? by_row : Shape{}, 20, 30),
                         .constant = row.constant_x_zero,
                         .batch_axis = row.by_row ? 0 : -1,
                         .special = false,  // a row whose zero point is infinite has scale NaN
                         .stays_f32 = true}
                   : Arg{.value = make.integers(row.x_type, {}, row.x_type == kU8 ? 3 : -9, 100),
                         .constant = row.constant_x_zero,
                         .special = false}),
      optional(row.w_zero,
               {.value = make.integers(row.w_type, row.w_zero_by_column ? Shape{n} : Shape{},
                                       row.w_type == kU8 ? 100 : -9, 120),
                .constant = true,
                .special = false}),
      optional(row.bias, {.value = make.normal({n})}),
      optional(row.residual, {.value = make.normal(out), .batch_axis = 0})};
  c.outputs = {{.shape = out}};
  c.ulps = 16;
  return c;
}

OpCase with_fast_sums(OpCase c) {
  c.asked.accumulate.type = DType::kTF32;
  c.asked.by = "a test";
  c.name += ", fast sums";
  return c;
}

namespace {

const Cases kQuantizedLinear("QuantizedLinear", [] {
  Maker make(92);
  std::vector<OpCase> cases;
  for (const QuantizedCase& row : kRows) {
    cases.push_back(quantized_case(make, row));
    if (row.x_type == kF8) cases.push_back(with_fast_sums(cases.back()));
  }
  QuantizedCase longest{
      .name = "the largest sums", .x = {2, 1 << 15}, .n = 3, .x_type = kU8, .w_type = kI8};
  OpCase c = quantized_case(make, longest);
  const auto all = [](DType type, const Shape& shape, double value) {
    const std::vector<double> values(static_cast<size_t>(num_elems(shape)), value);
    return Tensor::from(type, shape, std::span<const double>(values));
  };
  c.inputs[0].value = all(kU8, {2, 1 << 15}, 255);
  c.inputs[1].value = all(kI8, {1 << 15, 3}, -128);
  cases.push_back(c);
  return cases;
});

}  // namespace
}  // namespace vernier::backend::test
