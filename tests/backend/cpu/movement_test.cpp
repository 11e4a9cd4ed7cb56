// Kernels that move, pick and place elements, against the evaluator. What is checked: harness.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/harness.h"

namespace vernier::backend::test {
namespace {

Tensor i64(Shape shape, std::vector<int64_t> values) {
  return Tensor::from(DType::kI64, std::move(shape), std::span<const int64_t>(values));
}

struct Row {
  const char* name;
  OpKind op;
  AttrBytes attrs;
  std::vector<Arg> inputs;
  std::vector<Out> outputs;
};

void check(const Row& row) {
  OpCase c{.op = row.op, .attrs = row.attrs, .inputs = row.inputs, .outputs = row.outputs};
  c.name = row.name;
  c.exact = true;
  EXPECT_EQ(check_case(c), 1) << row.name;
}

AttrBytes transpose(std::vector<int64_t> perm) {
  return encode(TransposeAttrs{.perm = std::move(perm)});
}
AttrBytes axis(int64_t value) { return encode(AxisAttrs{.axis = value}); }

TEST(CpuMovement, TransposesMatchTheEvaluator) {
  Maker make(31);
  for (DType type : {DType::kF32, DType::kI64, DType::kBool}) {
    const auto input = [&](Shape shape) {
      return type == DType::kF32 ? make.normal(shape)
                                 : make.integers(type, shape, 0, type == DType::kBool ? 1 : 99);
    };
    const auto out = [&](Shape shape) {
      return Out{.dtype = type, .shape = shape, .batch_axis = -1};
    };
    check({"matrix",
           OpKind::kTranspose,
           transpose({1, 0}),
           {{.value = input({67, 33})}},
           {out({33, 67})}});
    check({"heads",
           OpKind::kTranspose,
           transpose({0, 2, 1, 3}),
           {{.value = input({2, 5, 3, 17})}},
           {out({2, 3, 5, 17})}});
    check({"keys",
           OpKind::kTranspose,
           transpose({0, 2, 3, 1}),
           {{.value = input({2, 35, 3, 17})}},
           {out({2, 3, 17, 35})}});
    check({"reversed",
           OpKind::kTranspose,
           transpose({3, 2, 1, 0}),
           {{.value = input({2, 3, 4, 5})}},
           {out({5, 4, 3, 2})}});
    check(
        {"same", OpKind::kTranspose, transpose({0, 1}), {{.value = input({1, 7})}}, {out({1, 7})}});
  }
}

TEST(CpuMovement, CopiesMatchTheEvaluator) {
  Maker make(32);
  const auto input = [&](Shape shape) { return Arg{.value = make.normal(std::move(shape))}; };
  const auto out = [](Shape shape) { return Out{.shape = std::move(shape), .batch_axis = -1}; };
  check({"expand",
         OpKind::kExpand,
         encode(ShapeAttrs{.shape = {4, 3, 5, 17}, .has_shape = true}),
         {input({3, 1, 17})},
         {out({4, 3, 5, 17})}});
  check({"reshape",
         OpKind::kReshape,
         encode(ShapeAttrs{.shape = {3, 34}, .has_shape = true}),
         {input({2, 3, 17})},
         {out({3, 34})}});
  check({"unsqueeze",
         OpKind::kUnsqueeze,
         encode(AxesAttrs{.axes = {0}}),
         {input({3, 5})},
         {out({1, 3, 5})}});
  check({"flatten", OpKind::kFlatten, axis(2), {input({2, 3, 5})}, {out({6, 5})}});
  check({"slice inline",
         OpKind::kSlice,
         encode(SliceAttrs{.inline_starts = true,
                           .starts = {1, 3},
                           .axes = {0, 2},
                           .steps = {1, 2},
                           .sizes = {2, 4}}),
         {input({4, 3, 11})},
         {out({2, 3, 4})}});
  check({"slice inputs",
         OpKind::kSlice,
         encode(SliceAttrs{}),
         {input({4, 9}),
          {.value = i64({1}, {-1})},
          {.value = i64({1}, {-100})},
          {.value = i64({1}, {1})},
          {.value = i64({1}, {-2})}},
         {out({4, 5})}});
  check({"split",
         OpKind::kSplit,
         encode(SplitAttrs{.axis = -1, .sizes = {3, 0, 5}}),
         {input({4, 8})},
         {out({4, 3}), out({4, 0}), out({4, 5})}});
  check({"split equal",
         OpKind::kSplit,
         encode(SplitAttrs{.axis = 0, .num_outputs = 3}),
         {input({8, 3})},
         {out({3, 3}), {.dtype = DType::kUndefined}, out({2, 3})}});
  check({"concat",
         OpKind::kConcat,
         axis(1),
         {input({2, 3, 5}), input({2, 0, 5}), input({2, 1, 5})},
         {out({2, 4, 5})}});
  check({"tile", OpKind::kTile, {}, {input({2, 3}), {.value = i64({2}, {3, 2})}}, {out({6, 6})}});
  check({"pad",
         OpKind::kPad,
         encode(PadAttrs{}),
         {input({3, 5}),
          {.value = i64({4}, {1, -1, 0, 2})},
          {.value = Tensor::scalar(DType::kF32, 7), .special = false}},
         {out({4, 6})}});
  check({"pad axes",
         OpKind::kPad,
         encode(PadAttrs{}),
         {input({3, 5}), {.value = i64({2}, {2, 1})}, {}, {.value = i64({1}, {-1})}},
         {out({3, 8})}});
  for (bool crd : {false, true}) {
    const AttrBytes attrs = encode(BlockSizeAttrs{.block_size = 2, .crd = crd});
    check({"depth to space",
           OpKind::kDepthToSpace,
           attrs,
           {input({2, 12, 3, 5})},
           {out({2, 3, 6, 10})}});
    check({"space to depth",
           OpKind::kSpaceToDepth,
           attrs,
           {input({2, 3, 6, 10})},
           {out({2, 12, 3, 5})}});
  }
}

TEST(CpuMovement, IndexingMatchesTheEvaluator) {
  Maker make(33);
  const auto input = [&](Shape shape) { return Arg{.value = make.normal(std::move(shape))}; };
  const auto index = [&](DType type, Shape shape, int64_t size) {
    return Arg{.value = make.integers(type, std::move(shape), -size, size - 1)};
  };
  const auto out = [](Shape shape) { return Out{.shape = std::move(shape), .batch_axis = -1}; };
  for (DType type : {DType::kI64, DType::kI32}) {
    check({"gather rows",
           OpKind::kGather,
           axis(0),
           {input({50, 33}), index(type, {3, 17}, 50)},
           {out({3, 17, 33})}});
    check({"gather middle",
           OpKind::kGather,
           axis(-2),
           {input({3, 7, 5}), index(type, {}, 7)},
           {out({3, 5})}});
  }
  check({"gather elements",
         OpKind::kGatherElements,
         axis(1),
         {input({4, 9, 3}), index(DType::kI64, {4, 5, 2}, 9)},
         {out({4, 5, 2})}});
  check({"gather nd",
         OpKind::kGatherND,
         encode(GatherNDAttrs{}),
         {input({4, 5, 6}), index(DType::kI64, {3, 7, 2}, 4)},
         {out({3, 7, 6})}});
  check({"gather nd batch",
         OpKind::kGatherND,
         encode(GatherNDAttrs{.batch_dims = 1}),
         {input({3, 5, 6}), index(DType::kI64, {3, 7, 1}, 5)},
         {out({3, 7, 6})}});
  check({"scatter elements",
         OpKind::kScatterElements,
         encode(ScatterAttrs{.axis = 1}),
         {input({2, 5}), {.value = i64({2, 3}, {0, -1, 2, 4, 1, 0})}, input({2, 3})},
         {out({2, 5})}});
  check({"scatter nd",
         OpKind::kScatterND,
         encode(ScatterAttrs{}),
         {input({4, 5}), {.value = i64({2, 1}, {3, 0})}, input({2, 5})},
         {out({4, 5})}});
  check({"one hot",
         OpKind::kOneHot,
         encode(OneHotAttrs{.axis = 1}),
         {{.value = i64({2, 3}, {0, 4, -1, 9, 2, 2})},
          {.value = i64({}, {5})},
          {.value = Tensor::from(DType::kF32, {2}, std::span<const double>(std::vector{0.5, 2.0})),
           .special = false}},
         {out({2, 5, 3})}});
  check({"range",
         OpKind::kRange,
         {},
         {{.value = i64({}, {3})}, {.value = i64({}, {20})}, {.value = i64({}, {4})}},
         {{.dtype = DType::kI64, .shape = {5}, .batch_axis = -1}}});
  check({"constant of shape",
         OpKind::kConstantOfShape,
         encode(ConstantOfShapeAttrs{.dtype = DType::kI64, .value = -3}),
         {{.value = i64({2}, {3, 17})}},
         {{.dtype = DType::kI64, .shape = {3, 17}, .batch_axis = -1}}});
  for (int64_t k : {-3, -1, 0, 2, 9}) {
    for (bool upper : {false, true}) {
      check({"trilu",
             OpKind::kTrilu,
             encode(TriluAttrs{.upper = upper}),
             {input({2, 5, 7}), {.value = i64({}, {k})}},
             {out({2, 5, 7})}});
    }
    check({"eye", OpKind::kEyeLike, encode(EyeLikeAttrs{.k = k}), {input({4, 6})}, {out({4, 6})}});
  }
  for (bool exclusive : {false, true}) {
    for (bool reverse : {false, true}) {
      const AttrBytes attrs = encode(CumSumAttrs{.exclusive = exclusive, .reverse = reverse});
      check({"cum sum",
             OpKind::kCumSum,
             attrs,
             {{.value = make.integers(DType::kI64, {3, 17, 2}, -9, 9)}, {.value = i64({}, {1})}},
             {{.dtype = DType::kI64, .shape = {3, 17, 2}, .batch_axis = -1}}});
    }
  }
}

TEST(CpuMovement, AnIndexOutsideItsTableIsAnErrorThatSaysWhere) {
  Maker make(34);
  struct Bad {
    OpKind op;
    AttrBytes attrs;
    const char* message;
  };
  for (const Bad& bad : std::vector<Bad>{
           {OpKind::kGather, axis(0), "Gather: index 9 at position 1 is outside its table of 9"},
           {OpKind::kGatherElements, axis(0), "GatherElements: index 9 at position 1"},
           {OpKind::kGatherND, encode(GatherNDAttrs{}), "GatherND: index 9 of tuple 1"}}) {
    OpCase c{.op = bad.op, .attrs = bad.attrs};
    c.inputs = {{.value = make.normal({9})}, {.value = i64({2, 1}, {0, 9})}};
    if (bad.op != OpKind::kGatherND) c.inputs[1].value = i64({2}, {0, 9});
    c.outputs = {{.shape = {2}}};
    for (const KernelDef* kernel : rows_of(c)) {
      try {
        run_kernel(*kernel, c, {});
        FAIL() << "no error from " << kernel->name;
      } catch (const Error& e) {
        EXPECT_THAT(e.what(), ::testing::HasSubstr(bad.message));
      }
    }
  }
}

}  // namespace
}  // namespace vernier::backend::test
