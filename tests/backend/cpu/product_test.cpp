// MatMul, Gemm, Linear with a computed weight, Conv, reductions, EmbedNorm, MaskedMean against the
// evaluator. What is checked: harness.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/harness.h"

namespace vernier::backend::test {
namespace {

Out shared(Shape shape) { return {.shape = std::move(shape), .batch_axis = -1}; }

TEST(CpuProducts, MatMulsOfAnyRankMatchTheEvaluator) {
  Maker make(41);
  struct Shapes {
    Shape a, b, y;
  };
  for (const Shapes& s : std::vector<Shapes>{{{1, 1}, {1, 1}, {1, 1}},
                                             {{3, 17}, {17, 33}, {3, 33}},
                                             {{40, 65}, {65, 130}, {40, 130}},
                                             {{2, 3, 17, 5}, {2, 3, 5, 9}, {2, 3, 17, 9}},
                                             {{2, 1, 4, 5}, {3, 5, 70}, {2, 3, 4, 70}},
                                             {{5, 7, 33}, {33, 20}, {5, 7, 20}},
                                             {{33}, {33, 20}, {20}},
                                             {{4, 6, 33}, {33}, {4, 6}},
                                             {{33}, {33}, {}},
                                             {{2, 3, 0}, {2, 0, 4}, {2, 3, 4}}}) {
    OpCase c{.op = OpKind::kMatMul};
    c.name = str(s.a);
    c.name += str(s.b);
    // Rows of the first operand are independent where it alone has the batch axis.
    const bool rows = s.a.size() >= 2 && s.b.size() <= 2 && s.y.size() == s.a.size();
    c.inputs = {{.value = make.normal(s.a), .batch_axis = rows ? 0 : -1},
                {.value = make.normal(s.b)}};
    c.outputs = {{.shape = s.y, .batch_axis = rows ? 0 : -1}};
    EXPECT_EQ(check_case(c), 1) << c.name;
  }
}

TEST(CpuProducts, GemmsAndLinearsWithComputedWeightsMatchTheEvaluator) {
  Maker make(42);
  for (bool trans : {false, true}) {
    const Arg b{.value = make.normal(trans ? Shape{33, 17} : Shape{17, 33})};
    for (const Shape& c_shape : std::vector<Shape>{{}, {33}, {5, 1}, {5, 33}}) {
      OpCase c{.op = OpKind::kGemm,
               .attrs = encode(GemmAttrs{.alpha = 0.5, .beta = 2, .trans_b = trans})};
      c.name = "gemm";
      c.inputs = {{.value = make.normal({5, 17})}, b, {.value = make.normal(c_shape)}};
      c.outputs = {shared({5, 33})};
      EXPECT_EQ(check_case(c), 1);
    }
    OpCase c{.op = OpKind::kLinear,
             .attrs = encode(LinearAttrs{.activation = Activation::kGeluErf, .trans_w = trans})};
    c.name = "linear";
    c.inputs = {{.value = make.normal({2, 5, 17}), .batch_axis = 0},
                b,
                {.value = make.normal({33})},
                {.value = make.normal({2, 5, 33}), .batch_axis = 0}};
    c.outputs = {{.shape = {2, 5, 33}}};
    EXPECT_EQ(check_case(c), 1);
  }
}

TEST(CpuProducts, LoopsForFloatsRefuseIntegers) {
  Maker make(50);
  const auto refused = [&](OpKind op, const AttrBytes& attrs, std::vector<Shape> in, Shape y) {
    OpCase c{.op = op, .attrs = attrs};
    for (Shape& shape : in) c.inputs.push_back({.value = make.integers(DType::kI64, shape, 0, 9)});
    c.outputs = {{.dtype = DType::kI64, .shape = std::move(y)}};
    EXPECT_TRUE(rows_of(c).empty()) << name(op);
    for (const KernelDef& kernel : cpu_backend().kernels) {
      if (kernel.op != op || kernel.name.ends_with(".evaluator")) continue;
      EXPECT_THAT(kernel.supports(make_problem(c)).reason,
                  ::testing::StartsWith("output 0 is i64, this kernel gives f32"));
    }
  };
  refused(OpKind::kMatMul, {}, {{3, 4}, {4, 5}}, {3, 5});
  refused(OpKind::kMaxPool, encode(PoolAttrs{.kernel_shape = {2}}), {{1, 2, 4}}, {1, 2, 3});
  refused(OpKind::kSoftmax, encode(AxisAttrs{.axis = 0}), {{3, 4}}, {3, 4});
}

TEST(CpuProducts, ConvolutionsMatchTheEvaluator) {
  Maker make(43);
  struct ConvCase {
    const char* name;
    ConvAttrs attrs;
    Shape x, w, y;
  };
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
                              {2, 4, 9}}}) {
    OpCase c{.op = OpKind::kConv, .attrs = encode(conv.attrs)};
    c.name = conv.name;
    const bool padded = !conv.attrs.pads.empty() || conv.attrs.auto_pad != 0;
    // A NaN or infinite weight times the zeros of the padding is NaN here, nothing by definition.
    c.inputs = {{.value = make.normal(conv.x), .batch_axis = 0},
                {.value = make.normal(conv.w), .special = !padded},
                {.value = make.normal({conv.w[0]})}};
    c.outputs = {{.shape = conv.y}};
    EXPECT_EQ(check_case(c), 1) << conv.name;
  }
}

TEST(CpuChannels, NormalisationsAndPoolsMatchTheEvaluator) {
  Maker make(47);
  const Arg x{.value = make.normal({3, 6, 5, 7}, 2), .batch_axis = 0};
  const Arg scale{.value = make.normal({6})}, bias{.value = make.normal({6})};
  for (int64_t groups : {0, 1, 2, 3}) {
    OpCase c{.op = OpKind::kGroupNormalization,
             .attrs = encode(GroupNormAttrs{.num_groups = groups})};
    c.name = "groups " + std::to_string(groups);
    c.inputs = {x, scale, bias};
    c.outputs = {{.shape = {3, 6, 5, 7}}};
    EXPECT_EQ(check_case(c), 1) << c.name;
  }
  OpCase batch{.op = OpKind::kBatchNormalization, .attrs = encode(BatchNormAttrs{})};
  batch.name = "batch normalization";
  // A variance of 0 or below has no meaning, so specials stay out of it.
  batch.inputs = {x,
                  scale,
                  bias,
                  {.value = make.normal({6})},
                  {.value = Tensor::from(DType::kF32, {6},
                                         std::span<const double>(std::vector<double>(6, 0.7))),
                   .special = false}};
  batch.outputs = {{.shape = {3, 6, 5, 7}}};
  EXPECT_EQ(check_case(batch), 1);
  for (OpKind op : {OpKind::kGlobalAveragePool, OpKind::kGlobalMaxPool}) {
    OpCase c{.op = op};
    c.name = std::string(name(op));
    c.inputs = {x};
    c.outputs = {{.shape = {3, 6, 1, 1}}};
    EXPECT_EQ(check_case(c), 1) << c.name;
  }
  struct PoolCase {
    PoolAttrs attrs;
    Shape y;
  };
  for (OpKind op : {OpKind::kMaxPool, OpKind::kAveragePool}) {
    for (const PoolCase& pool : std::vector<PoolCase>{
             {{.kernel_shape = {2, 3}}, {3, 6, 4, 5}},
             {{.kernel_shape = {3, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 1}}, {3, 6, 3, 4}},
             {{.kernel_shape = {3, 3},
             .strides = {2, 2},
             .pads = {1, 1, 1, 1},
             .count_include_pad = true},
              {3, 6, 3, 4}},
             {{.kernel_shape = {2, 2}, .strides = {2, 2}, .ceil_mode = true}, {3, 6, 3, 4}},
             {{.kernel_shape = {2, 2}, .dilations = {2, 3}}, {3, 6, 3, 4}}}) {
      OpCase c{.op = op, .attrs = encode(pool.attrs)};
      c.name = std::string(name(op));
      c.name += str(pool.y);
      c.inputs = {x};
      c.outputs = {{.shape = pool.y}};
      EXPECT_EQ(check_case(c), 1) << c.name;
    }
  }
}

TEST(CpuChannels, GridSamplesMatchTheEvaluator) {
  Maker make(48);
  for (Interpolation mode : {Interpolation::kLinear, Interpolation::kNearest}) {
    for (Padding padding : {Padding::kZeros, Padding::kBorder, Padding::kReflection}) {
      for (bool corners : {false, true}) {
        OpCase c{.op = OpKind::kGridSample,
                 .attrs = encode(GridSampleAttrs{mode, padding, corners})};
        c.name = "grid sample " + std::to_string(static_cast<int>(padding));
        // Coordinates inside [-1, 1], outside, and by the special values NaN and infinite.
        c.inputs = {{.value = make.normal({2, 3, 5, 7}), .batch_axis = 0},
                    {.value = make.normal({2, 3, 17, 2}), .batch_axis = 0}};
        c.outputs = {{.shape = {2, 3, 3, 17}}};
        EXPECT_EQ(check_case(c), 1) << c.name;
      }
    }
  }
}

TEST(CpuReductions, MatchTheEvaluatorOverAnyAxes) {
  Maker make(44);
  struct Axes {
    std::vector<int64_t> axes;
    Shape y;
  };
  int rows = 0;
  for (OpKind op : {OpKind::kReduceSum, OpKind::kReduceMean, OpKind::kReduceMax, OpKind::kReduceMin,
                    OpKind::kReduceProd, OpKind::kReduceL1, OpKind::kReduceL2,
                    OpKind::kReduceLogSum, OpKind::kReduceSumSquare, OpKind::kReduceLogSumExp}) {
    for (DType type : {DType::kF32, DType::kI64}) {
      for (const Axes& a : std::vector<Axes>{{{-1}, {3, 5, 1}},
                                             {{1}, {3, 1, 67}},
                                             {{0}, {1, 5, 67}},
                                             {{1, 2}, {3, 1, 1}},
                                             {{0, 2}, {1, 5, 1}},
                                             {{}, {1, 1, 1}}}) {
        OpCase c{.op = op, .attrs = encode(ReduceAttrs{.axes = a.axes})};
        c.name = std::string(name(op));
        c.name += str(a.axes);
        const bool batched = !a.axes.empty() && a.axes[0] != 0;
        c.inputs = {{.value = type == DType::kF32 ? make.normal({3, 5, 67}, 0.5, 0.7)
                                                  : make.integers(type, {3, 5, 67}, -3, 3),
                     .batch_axis = batched ? 0 : -1,
                     // A long product runs to 0 in some orders first: 0 · inf is NaN.
                     .special = op != OpKind::kReduceProd}};
        c.outputs = {{.dtype = type, .shape = a.y, .batch_axis = batched ? 0 : -1}};
        c.exact = type == DType::kI64;
        if (!rows_of(c).empty()) rows += check_case(c);
      }
    }
  }
  EXPECT_EQ(rows, 6 * (10 + 6));
  for (OpKind op : {OpKind::kArgMax, OpKind::kArgMin}) {
    for (int64_t axis : {0, 1, -1}) {
      for (bool last : {false, true}) {
        OpCase c{.op = op,
                 .attrs = encode(ArgReduceAttrs{.axis = axis, .select_last_index = last})};
        c.name = std::string(name(op));
        Shape y{4, 5, 17};
        y[axis < 0 ? 2 : static_cast<size_t>(axis)] = 1;
        c.inputs = {{.value = make.integers(DType::kF32, {4, 5, 17}, 0, 5)}};
        c.outputs = {{.dtype = DType::kI64, .shape = y, .batch_axis = -1}};
        c.exact = true;
        EXPECT_EQ(check_case(c), 1);
      }
    }
  }
}

TEST(CpuReductions, LogSumExpMatchesTheEvaluatorInLongGroupsAndAtTheEnds) {
  Maker make(49);
  const auto check = [](Tensor x, std::vector<int64_t> axes, Shape y) {
    OpCase c{.op = OpKind::kReduceLogSumExp, .attrs = encode(ReduceAttrs{.axes = std::move(axes)})};
    c.name = "log sum exp " + str(x.shape());
    c.inputs = {{.value = std::move(x)}};
    c.outputs = {{.shape = std::move(y), .batch_axis = -1}};
    c.ulps = 32;
    EXPECT_EQ(check_case(c), 1);
  };
  const auto same = [](Shape shape, double value) {
    const std::vector<double> values(static_cast<size_t>(num_elems(shape)), value);
    return Tensor::from(DType::kF32, std::move(shape), std::span<const double>(values));
  };
  // Several chunks with a tail, contiguous and not; values beyond the range of exp.
  check(make.normal({3, 2500}, 0, 3), {1}, {3, 1});
  check(make.normal({2500, 3}, 1000, 30), {0}, {1, 3});
  check(make.normal({37, 3, 41}, -500, 9), {0, 2}, {1, 3, 1});
  check(same({2, 5}, -INFINITY), {1}, {2, 1});
  check(same({2, 5}, INFINITY), {1}, {2, 1});
  check(same({2, 0}, 0), {1}, {2, 1});
  check(same({0, 2}, 0), {1}, {0, 1});
  check(make.normal({}), {}, {});
}

TEST(CpuEmbeddings, MatchTheEvaluator) {
  Maker make(45);
  for (int64_t width : {1, 17, 64, 127, 256}) {
    OpCase c{.op = OpKind::kEmbedNorm,
             .attrs = encode(EmbedNormAttrs{.tables = 3, .epsilon = 1e-5})};
    c.name = "embed " + std::to_string(width);
    c.inputs = {{.value = make.integers(DType::kI64, {3, 9}, -50, 49), .batch_axis = 0},
                {.value = make.normal({50, width})},
                {.value = make.integers(DType::kI64, {1, 9}, 0, 19)},
                {.value = make.normal({20, width})},
                {.value = make.integers(DType::kI32, {3, 9}, 0, 1), .batch_axis = 0},
                {.value = make.normal({2, width})},
                {.value = make.normal({width})},
                {.value = make.normal({width})}};
    c.outputs = {{.shape = {3, 9, width}}};
    // Sums of three numbers whose deviation may be small beside them.
    c.ulps = 64;
    EXPECT_EQ(check_case(c), 1) << c.name;
    for (DType type : {DType::kF32, DType::kI64, DType::kBool}) {
      OpCase mean{.op = OpKind::kMaskedMean, .attrs = encode(MaskedMeanAttrs{.minimum = 1e-9})};
      mean.name = "masked mean " + std::to_string(width);
      mean.inputs = {{.value = make.normal({3, 9, width}), .batch_axis = 0},
                     {.value = make.integers(type, {3, 9}, 0, 1), .batch_axis = 0}};
      mean.outputs = {{.shape = {3, width}}};
      EXPECT_EQ(check_case(mean), 1) << mean.name;
    }
  }
}

TEST(CpuEmbeddings, AnIdOutsideItsTableIsAnErrorThatNamesTheTable) {
  Maker make(46);
  OpCase c{.op = OpKind::kEmbedNorm, .attrs = encode(EmbedNormAttrs{.tables = 1})};
  c.inputs = {{.value = make.integers(DType::kI64, {1, 4}, 50, 50)},
              {.value = make.normal({50, 8})},
              {.value = make.normal({8})}};
  c.outputs = {{.shape = {1, 4, 8}}};
  for (const KernelDef* kernel : rows_of(c)) {
    try {
      run_kernel(*kernel, c, {});
      FAIL() << "no error";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("embedding table 0: index 50 at position 0 is "
                                                 "outside its table of 50 entries; allowed are "
                                                 "-50 to 49"));
    }
  }
}

}  // namespace
}  // namespace vernier::backend::test
