// Cases of MatMul, Gemm and Conv.
#include <cmath>

#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

struct Shapes {
  Shape a, b, y;
};

OpCase matmul_case(Maker& make, const Shapes& s) {
  OpCase c{.op = OpKind::kMatMul};
  c.name = str(s.a);
  c.name += str(s.b);
  // Rows of the first operand are independent where it alone has the batch axis.
  const bool rows = s.a.size() >= 2 && s.b.size() <= 2 && s.y.size() == s.a.size();
  c.inputs = {{.value = make.normal(s.a), .batch_axis = rows ? 0 : -1},
              {.value = make.normal(s.b)}};
  c.outputs = {{.shape = s.y, .batch_axis = rows ? 0 : -1}};
  return c;
}

const Cases kMatMul("MatMul", [] {
  Maker make(41);
  std::vector<OpCase> cases;
  // clang-format off
  for (const Shapes& s : std::vector<Shapes>{
           {.a = {1, 1},        .b = {1, 1},       .y = {1, 1}},
           {.a = {3, 17},       .b = {17, 33},     .y = {3, 33}},
           {.a = {40, 65},      .b = {65, 130},    .y = {40, 130}},
           {.a = {2, 3, 17, 5}, .b = {2, 3, 5, 9}, .y = {2, 3, 17, 9}},
           {.a = {2, 1, 4, 5},  .b = {3, 5, 70},   .y = {2, 3, 4, 70}},
           {.a = {5, 7, 33},    .b = {33, 20},     .y = {5, 7, 20}},
           {.a = {33},          .b = {33, 20},     .y = {20}},
           {.a = {4, 6, 33},    .b = {33},         .y = {4, 6}},
           {.a = {33},          .b = {33},         .y = {}},
           {.a = {2, 3, 0},     .b = {2, 0, 4},    .y = {2, 3, 4}}})
    // clang-format on
    cases.push_back(matmul_case(make, s));
  return cases;
});

const Cases kLargerMatMul("MatMulSizes", [] {
  Maker make(141);
  std::vector<OpCase> cases;
  // clang-format off
  for (const Shapes& s : std::vector<Shapes>{
           {.a = {129, 257},       .b = {257, 131},       .y = {129, 131}},
           {.a = {64, 512},        .b = {512, 64},        .y = {64, 64}},
           {.a = {2, 12, 65, 64},  .b = {2, 12, 64, 65},  .y = {2, 12, 65, 65}},
           {.a = {3, 1, 33, 72},   .b = {1, 5, 72, 40},   .y = {3, 5, 33, 40}},
           {.a = {1000, 100},      .b = {100, 24},        .y = {1000, 24}},
           {.a = {7, 2049},        .b = {2049, 8},        .y = {7, 8}}}) {
    // clang-format on
    OpCase c = matmul_case(make, s);
    c.ulps = 16 + std::sqrt(static_cast<double>(s.a.back()));
    c.device_only = true;
    c.checks = Checks::kValues;
    cases.push_back(std::move(c));
  }
  return cases;
});

// Of many tiles, with rows of 8 and more aligned elements; steps of k that end early.
const Cases kMatMulRuns("MatMulRuns", [] {
  Maker make(143);
  std::vector<OpCase> cases;
  // clang-format off
  for (const Shapes& s : std::vector<Shapes>{
           {.a = {2, 12, 130, 64}, .b = {1, 12, 64, 264}, .y = {2, 12, 130, 264}},
           {.a = {3, 16, 70, 72},  .b = {16, 72, 136},    .y = {3, 16, 70, 136}},
           {.a = {46, 5, 8},       .b = {46, 8, 8},       .y = {46, 5, 8}},
           {.a = {600, 200},       .b = {200, 1096},      .y = {600, 1096}}}) {
    // clang-format on
    OpCase c = matmul_case(make, s);
    c.ulps = 16 + std::sqrt(static_cast<double>(s.a.back()));
    c.device_only = true;
    cases.push_back(std::move(c));
  }
  for (double alpha : {1.0, 0.25}) {
    OpCase c{.op = OpKind::kGemm, .attrs = encode(GemmAttrs{.alpha = alpha, .trans_b = true})};
    c.name = "gemm of rows";
    c.inputs = {{.value = make.normal({600, 136})}, {.value = make.normal({1096, 136})}};
    c.outputs = {{.shape = {600, 1096}, .batch_axis = -1}};
    c.ulps = 32;
    c.device_only = true;
    c.checks = Checks::kValues;
    cases.push_back(std::move(c));
  }
  return cases;
});

const Cases kGemm("Gemm", [] {
  Maker make(142);
  std::vector<OpCase> cases;
  for (bool trans_a : {false, true}) {
    for (bool trans_b : {false, true}) {
      for (const Shape& c_shape : std::vector<Shape>{{}, {33}, {5, 1}, {5, 33}}) {
        OpCase c{.op = OpKind::kGemm,
                 .attrs = encode(
                     GemmAttrs{.alpha = 0.5, .beta = 2, .trans_a = trans_a, .trans_b = trans_b})};
        c.name = "gemm " + print_attrs<GemmAttrs>(c.attrs);
        c.inputs = {{.value = make.normal(trans_a ? Shape{17, 5} : Shape{5, 17})},
                    {.value = make.normal(trans_b ? Shape{33, 17} : Shape{17, 33})},
                    {.value = make.normal(c_shape)}};
        c.outputs = {{.shape = {5, 33}, .batch_axis = -1}};
        c.optional = trans_a;
        cases.push_back(c);
      }
    }
  }
  return cases;
});

struct ConvCase {
  const char* name;
  ConvAttrs attrs;
  Shape x, w, y;
};

const Cases kConv("Conv", [] {
  Maker make(43);
  std::vector<OpCase> cases;
  // clang-format off
  for (const ConvCase& conv : std::vector<ConvCase>{
           {.name = "patches", .attrs = {.kernel_shape = {4, 4}, .strides = {4, 4}},
            .x = {2, 3, 12, 16}, .w = {10, 3, 4, 4}, .y = {2, 10, 3, 4}},
           {.name = "padded", .attrs = {.kernel_shape = {3, 3}, .pads = {1, 1, 1, 1}},
            .x = {3, 2, 9, 11},  .w = {5, 2, 3, 3},  .y = {3, 5, 9, 11}},
           {.name = "dilated groups",
            .attrs = {.kernel_shape = {3, 2}, .strides = {2, 1}, .dilations = {2, 3},
                      .pads = {2, 0, 1, 2}, .group = 2},
            .x = {2, 4, 10, 9},  .w = {6, 2, 3, 2},  .y = {2, 6, 5, 8}},
           {.name = "depthwise", .attrs = {.kernel_shape = {3, 3}, .group = 5, .auto_pad = 1},
            .x = {2, 5, 7, 7},   .w = {5, 1, 3, 3},  .y = {2, 5, 7, 7}},
           {.name = "one axis", .attrs = {.kernel_shape = {5}, .strides = {2}, .pads = {2, 2}},
            .x = {2, 3, 17},     .w = {4, 3, 5},     .y = {2, 4, 9}},
           {.name = "one by one", .attrs = {.kernel_shape = {1, 1}},
            .x = {2, 33, 5, 7},  .w = {17, 33, 1, 1}, .y = {2, 17, 5, 7}}}) {
    // clang-format on
    OpCase c{.op = OpKind::kConv, .attrs = encode(conv.attrs)};
    c.name = conv.name;
    const bool padded = !conv.attrs.pads.empty() || conv.attrs.auto_pad != 0;
    // A NaN or infinite weight times the zeros of the padding is NaN here, nothing by definition.
    c.inputs = {{.value = make.normal(conv.x), .batch_axis = 0},
                {.value = make.normal(conv.w), .special = !padded},
                {.value = make.normal({conv.w[0]})}};
    c.outputs = {{.shape = conv.y}};
    cases.push_back(c);
  }
  return cases;
});

const Cases kConvConstants("ConvConstantWeights", [] {
  Maker make(84);
  OpCase c{.op = OpKind::kConv, .attrs = encode(ConvAttrs{.kernel_shape = {3}})};
  c.name = "conv with constant weights";
  c.inputs = {{.value = make.normal({2, 3, 17}), .batch_axis = 0},
              {.value = make.normal({4, 3, 3}), .constant = true},
              {.value = make.normal({4}), .constant = true}};
  c.outputs = {{.shape = {2, 4, 15}}};
  return std::vector<OpCase>{c};
});

}  // namespace
}  // namespace vernier::backend::test
