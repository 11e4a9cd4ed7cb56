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
  for (const Shapes& s : std::vector<Shapes>{{{1, 1}, {1, 1}, {1, 1}},
                                             {{3, 17}, {17, 33}, {3, 33}},
                                             {{40, 65}, {65, 130}, {40, 130}},
                                             {{2, 3, 17, 5}, {2, 3, 5, 9}, {2, 3, 17, 9}},
                                             {{2, 1, 4, 5}, {3, 5, 70}, {2, 3, 4, 70}},
                                             {{5, 7, 33}, {33, 20}, {5, 7, 20}},
                                             {{33}, {33, 20}, {20}},
                                             {{4, 6, 33}, {33}, {4, 6}},
                                             {{33}, {33}, {}},
                                             {{2, 3, 0}, {2, 0, 4}, {2, 3, 4}}})
    cases.push_back(matmul_case(make, s));
  return cases;
});

const Cases kLargerMatMul("MatMulSizes", [] {
  Maker make(141);
  std::vector<OpCase> cases;
  for (const Shapes& s : std::vector<Shapes>{{{129, 257}, {257, 131}, {129, 131}},
                                             {{64, 512}, {512, 64}, {64, 64}},
                                             {{2, 12, 65, 64}, {2, 12, 64, 65}, {2, 12, 65, 65}},
                                             {{3, 1, 33, 72}, {1, 5, 72, 40}, {3, 5, 33, 40}},
                                             {{1000, 100}, {100, 24}, {1000, 24}},
                                             {{7, 2049}, {2049, 8}, {7, 8}}}) {
    OpCase c = matmul_case(make, s);
    c.ulps = 16 + std::sqrt(static_cast<double>(s.a.back()));
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
  for (const ConvCase& conv :
       std::vector<ConvCase>{{"patches",
                              {.kernel_shape = {4, 4}, .strides = {4, 4}},
                              {2, 3, 12, 16},
                              {10, 3, 4, 4},
                              {2, 10, 3, 4}},
                             {"padded",
                              {.kernel_shape = {3, 3}, .pads = {1, 1, 1, 1}},
                              {3, 2, 9, 11},
                              {5, 2, 3, 3},
                              {3, 5, 9, 11}},
                             {"dilated groups",
                              {.kernel_shape = {3, 2},
                              .strides = {2, 1},
                              .dilations = {2, 3},
                              .pads = {2, 0, 1, 2},
                              .group = 2},
                              {2, 4, 10, 9},
                              {6, 2, 3, 2},
                              {2, 6, 5, 8}},
                             {"depthwise",
                              {.kernel_shape = {3, 3}, .group = 5, .auto_pad = 1},
                              {2, 5, 7, 7},
                              {5, 1, 3, 3},
                              {2, 5, 7, 7}},
                             {"one axis",
                              {.kernel_shape = {5}, .strides = {2}, .pads = {2, 2}},
                              {2, 3, 17},
                              {4, 3, 5},
                              {2, 4, 9}},
                             {"one by one",
                              {.kernel_shape = {1, 1}},
                              {2, 33, 5, 7},
                              {17, 33, 1, 1},
                              {2, 17, 5, 7}}}) {
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
