// Cases of operators that move, pick and place elements.
#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

Tensor i64(Shape shape, std::vector<int64_t> values) {
  return Tensor::from(DType::kI64, std::move(shape), std::span<const int64_t>(values));
}

// A list of cases as they are written down: all exact, none with rows of its own.
class Table {
 public:
  explicit Table(uint64_t seed) : make(seed) {}
  void add(const char* name, OpKind op, AttrBytes attrs, std::vector<Arg> inputs,
           std::vector<Out> outputs) {
    OpCase c{.op = op, .attrs = std::move(attrs)};
    c.name = name;
    c.inputs = std::move(inputs);
    c.outputs = std::move(outputs);
    c.exact = true;
    cases.push_back(std::move(c));
  }
  Arg input(Shape shape) { return {.value = make.normal(std::move(shape))}; }
  Arg index(DType type, Shape shape, int64_t size) {
    return {.value = make.integers(type, std::move(shape), -size, size - 1)};
  }
  static Out out(Shape shape, DType type = DType::kF32) {
    return {.dtype = type, .shape = std::move(shape), .batch_axis = -1};
  }
  Maker make;
  std::vector<OpCase> cases = {};
};

// The cases again with their sizes and indices known when the plan is made.
std::vector<OpCase> also_constant(std::vector<OpCase> cases) {
  const size_t count = cases.size();
  for (size_t n = 0; n < count; ++n) {
    OpCase c = cases[n];
    bool any = false;
    for (size_t i = c.inputs.size() > 1 ? 1 : 0; i < c.inputs.size(); ++i) {
      if (!is_integer(c.inputs[i].value.dtype())) continue;
      c.inputs[i].constant = any = true;
    }
    c.name += " constant";
    if (any) cases.push_back(std::move(c));
  }
  return cases;
}

// The f32 arrays of the cases as arrays of `type`.
std::vector<OpCase> retyped(const std::vector<OpCase>& cases, DType type, uint64_t seed) {
  Maker make(seed);
  std::vector<OpCase> others;
  for (OpCase c : cases) {
    c.name += " " + std::string(name(type));
    for (Arg& arg : c.inputs) {
      if (arg.value.dtype() == DType::kF32)
        arg.value = make.integers(type, arg.value.shape(), 0, type == DType::kBool ? 1 : 99);
    }
    for (Out& out : c.outputs) {
      if (out.dtype == DType::kF32) out.dtype = type;
    }
    others.push_back(std::move(c));
  }
  return others;
}

AttrBytes transpose(std::vector<int64_t> perm) {
  return encode(TransposeAttrs{.perm = std::move(perm)});
}
AttrBytes axis(int64_t value) { return encode(AxisAttrs{.axis = value}); }

const Cases kTranspose("Transpose", [] {
  Table t(31);
  for (DType type : {DType::kF32, DType::kI64, DType::kBool, DType::kI8}) {
    const auto add = [&](const char* name, std::vector<int64_t> perm, const Shape& x) {
      Shape y;
      for (int64_t from : perm) y.push_back(x[static_cast<size_t>(from)]);
      const Tensor value = type == DType::kF32
                               ? t.make.normal(x)
                               : t.make.integers(type, x, 0, type == DType::kBool ? 1 : 99);
      t.add(name, OpKind::kTranspose, transpose(std::move(perm)), {{.value = value}},
            {Table::out(y, type)});
    };
    add("matrix", {1, 0}, {67, 33});
    add("heads", {0, 2, 1, 3}, {2, 5, 3, 17});
    add("keys", {0, 2, 3, 1}, {2, 35, 3, 17});
    add("reversed", {3, 2, 1, 0}, {2, 3, 4, 5});
    add("same", {0, 1}, {1, 7});
    add("six axes", {5, 0, 4, 1, 3, 2}, {2, 3, 1, 4, 2, 5});
    add("empty", {1, 0}, {0, 7});
    add("heads of 64", {0, 2, 1, 3}, {2, 33, 4, 64});
    add("even keys", {0, 2, 3, 1}, {2, 70, 6, 34});
    add("an even matrix", {1, 0}, {514, 258});
    t.cases.back().device_only = true;
    t.cases.back().checks = Checks::kValues;
    add("a large matrix", {1, 0}, {1025, 517});
    t.cases.back().device_only = true;
    t.cases.back().checks = Checks::kValues;
  }
  return t.cases;
});

std::vector<OpCase> copies() {
  Table t(32);
  t.add("expand", OpKind::kExpand, encode(ShapeAttrs{.shape = {4, 3, 5, 17}, .has_shape = true}),
        {t.input({3, 1, 17})}, {Table::out({4, 3, 5, 17})});
  t.add("reshape", OpKind::kReshape, encode(ShapeAttrs{.shape = {3, 34}, .has_shape = true}),
        {t.input({2, 3, 17})}, {Table::out({3, 34})});
  t.add("unsqueeze", OpKind::kUnsqueeze, encode(AxesAttrs{.axes = {0}}), {t.input({3, 5})},
        {Table::out({1, 3, 5})});
  t.add("flatten", OpKind::kFlatten, axis(2), {t.input({2, 3, 5})}, {Table::out({6, 5})});
  t.add("slice inline", OpKind::kSlice,
        encode(SliceAttrs{.inline_starts = true,
                          .starts = {1, 3},
                          .axes = {0, 2},
                          .steps = {1, 2},
                          .sizes = {2, 4}}),
        {t.input({4, 3, 11})}, {Table::out({2, 3, 4})});
  t.add("slice inputs", OpKind::kSlice, encode(SliceAttrs{}),
        {t.input({4, 9}),
         {.value = i64({1}, {-1})},
         {.value = i64({1}, {-100})},
         {.value = i64({1}, {1})},
         {.value = i64({1}, {-2})}},
        {Table::out({4, 5})});
  t.add("split", OpKind::kSplit, encode(SplitAttrs{.axis = -1, .sizes = {3, 0, 5}}),
        {t.input({4, 8})}, {Table::out({4, 3}), Table::out({4, 0}), Table::out({4, 5})});
  t.add("split equal", OpKind::kSplit, encode(SplitAttrs{.axis = 0, .num_outputs = 3}),
        {t.input({8, 3})}, {Table::out({3, 3}), {.dtype = DType::kUndefined}, Table::out({2, 3})});
  t.add("concat", OpKind::kConcat, axis(1),
        {t.input({2, 3, 5}), t.input({2, 0, 5}), t.input({2, 1, 5})}, {Table::out({2, 4, 5})});
  t.add("tile", OpKind::kTile, {}, {t.input({2, 3}), {.value = i64({2}, {3, 2})}},
        {Table::out({6, 6})});
  t.add("pad", OpKind::kPad, encode(PadAttrs{}),
        {t.input({3, 5}),
         {.value = i64({4}, {1, -1, 0, 2})},
         {.value = Tensor::scalar(DType::kF32, 7), .special = false}},
        {Table::out({4, 6})});
  t.add("pad axes", OpKind::kPad, encode(PadAttrs{}),
        {t.input({3, 5}), {.value = i64({2}, {2, 1})}, {}, {.value = i64({1}, {-1})}},
        {Table::out({3, 8})});
  for (bool crd : {false, true}) {
    const AttrBytes attrs = encode(BlockSizeAttrs{.block_size = 2, .crd = crd});
    t.add("depth to space", OpKind::kDepthToSpace, attrs, {t.input({2, 12, 3, 5})},
          {Table::out({2, 3, 6, 10})});
    t.add("space to depth", OpKind::kSpaceToDepth, attrs, {t.input({2, 3, 6, 10})},
          {Table::out({2, 12, 3, 5})});
  }
  return also_constant(t.cases);
}

const Cases kCopies("Copies", [] { return copies(); });
const Cases kCopiedIntegers("CopiedIntegers", [] { return retyped(copies(), DType::kI64, 132); });
const Cases kCopiedBytes("CopiedBytes", [] {
  std::vector<OpCase> cases = retyped(copies(), DType::kI8, 133);
  for (OpCase& c : retyped(copies(), DType::kBool, 134)) cases.push_back(std::move(c));
  return cases;
});

const Cases kLargeCopies("LargeCopies", [] {
  Table t(135);
  t.add("concat of heads", OpKind::kConcat, axis(-1),
        {t.input({65, 7, 64}), t.input({65, 7, 128}), t.input({65, 7, 33})},
        {Table::out({65, 7, 225})});
  t.add("split of qkv", OpKind::kSplit, encode(SplitAttrs{.axis = -1, .sizes = {768, 768, 768}}),
        {t.input({33, 2304})},
        {Table::out({33, 768}), Table::out({33, 768}), Table::out({33, 768})});
  t.add("expand", OpKind::kExpand, encode(ShapeAttrs{.shape = {4, 12, 65, 127}, .has_shape = true}),
        {t.input({4, 1, 1, 127})}, {Table::out({4, 12, 65, 127})});
  t.add("slice of a sequence", OpKind::kSlice,
        encode(SliceAttrs{
            .inline_starts = true, .starts = {0}, .axes = {1}, .steps = {1}, .sizes = {1}}),
        {t.input({65, 33, 96})}, {Table::out({65, 1, 96})});
  t.add("gather of a vocabulary", OpKind::kGather, axis(0),
        {t.input({1000, 384}), t.index(DType::kI64, {9, 129}, 1000)}, {Table::out({9, 129, 384})});
  t.add("gather of one position", OpKind::kGather, axis(1),
        {t.input({129, 9, 768}), {.value = i64({}, {-1})}}, {Table::out({129, 768})});
  for (OpCase& c : t.cases) {
    c.device_only = true;
    c.checks = Checks::kValues;
  }
  return also_constant(t.cases);
});

const Cases kIndexing("Indexing", [] {
  Table t(33);
  for (DType type : {DType::kI64, DType::kI32}) {
    t.add("gather rows", OpKind::kGather, axis(0), {t.input({50, 33}), t.index(type, {3, 17}, 50)},
          {Table::out({3, 17, 33})});
    t.add("gather middle", OpKind::kGather, axis(-2), {t.input({3, 7, 5}), t.index(type, {}, 7)},
          {Table::out({3, 5})});
  }
  t.add("gather elements", OpKind::kGatherElements, axis(1),
        {t.input({4, 9, 3}), t.index(DType::kI64, {4, 5, 2}, 9)}, {Table::out({4, 5, 2})});
  t.add("gather nd", OpKind::kGatherND, encode(GatherNDAttrs{}),
        {t.input({4, 5, 6}), t.index(DType::kI64, {3, 7, 2}, 4)}, {Table::out({3, 7, 6})});
  t.add("gather nd batch", OpKind::kGatherND, encode(GatherNDAttrs{.batch_dims = 1}),
        {t.input({3, 5, 6}), t.index(DType::kI64, {3, 7, 1}, 5)}, {Table::out({3, 7, 6})});
  t.add("scatter elements", OpKind::kScatterElements, encode(ScatterAttrs{.axis = 1}),
        {t.input({2, 5}), {.value = i64({2, 3}, {0, -1, 2, 4, 1, 0})}, t.input({2, 3})},
        {Table::out({2, 5})});
  t.add("scatter nd", OpKind::kScatterND, encode(ScatterAttrs{}),
        {t.input({4, 5}), {.value = i64({2, 1}, {3, 0})}, t.input({2, 5})}, {Table::out({4, 5})});
  t.add("one hot", OpKind::kOneHot, encode(OneHotAttrs{.axis = 1}),
        {{.value = i64({2, 3}, {0, 4, -1, 9, 2, 2})},
         {.value = i64({}, {5})},
         {.value = Tensor::from(DType::kF32, {2}, std::span<const double>(std::vector{0.5, 2.0})),
          .special = false}},
        {Table::out({2, 5, 3})});
  t.add("range", OpKind::kRange, {},
        {{.value = i64({}, {3})}, {.value = i64({}, {20})}, {.value = i64({}, {4})}},
        {{.dtype = DType::kI64, .shape = {5}, .batch_axis = -1}});
  t.add("constant of shape", OpKind::kConstantOfShape,
        encode(ConstantOfShapeAttrs{.dtype = DType::kI64, .value = -3}),
        {{.value = i64({2}, {3, 17})}},
        {{.dtype = DType::kI64, .shape = {3, 17}, .batch_axis = -1}});
  for (int64_t k : {-3, -1, 0, 2, 9}) {
    for (bool upper : {false, true}) {
      t.add("trilu", OpKind::kTrilu, encode(TriluAttrs{.upper = upper}),
            {t.input({2, 5, 7}), {.value = i64({}, {k})}}, {Table::out({2, 5, 7})});
    }
    t.add("eye", OpKind::kEyeLike, encode(EyeLikeAttrs{.k = k}), {t.input({4, 6})},
          {Table::out({4, 6})});
  }
  for (bool exclusive : {false, true}) {
    for (bool reverse : {false, true}) {
      const AttrBytes attrs = encode(CumSumAttrs{.exclusive = exclusive, .reverse = reverse});
      for (DType type : {DType::kI64, DType::kI32}) {
        for (const Shape& shape : std::vector<Shape>{{3, 17, 2}, {2, 131, 3}, {5, 64, 1}})
          t.add("cum sum", OpKind::kCumSum, attrs,
                {{.value = t.make.integers(type, shape, -9, 9)}, {.value = i64({}, {1})}},
                {{.dtype = type, .shape = shape, .batch_axis = -1}});
      }
    }
  }
  return also_constant(t.cases);
});

// Sums in f32 along the axis, or onto one element.
const Cases kIndexedSums("IndexedSums", [] {
  Table t(136);
  for (bool exclusive : {false, true}) {
    for (bool reverse : {false, true}) {
      const AttrBytes attrs = encode(CumSumAttrs{.exclusive = exclusive, .reverse = reverse});
      for (const Shape& shape : std::vector<Shape>{{3, 17, 2}, {2, 700, 3}})
        t.add("cum sum", OpKind::kCumSum, attrs, {t.input(shape), {.value = i64({}, {1})}},
              {Table::out(shape)});
    }
  }
  for (ScatterReduction reduction : {ScatterReduction::kAdd, ScatterReduction::kMul,
                                     ScatterReduction::kMin, ScatterReduction::kMax}) {
    const AttrBytes attrs = encode(ScatterAttrs{.axis = 1, .reduction = reduction});
    t.add("scatter elements onto the same", OpKind::kScatterElements, attrs,
          {t.input({2, 5}),
           {.value = i64({2, 6}, {0, -1, 2, 4, 1, 0, 3, 3, 3, -2, 0, 3})},
           t.input({2, 6})},
          {Table::out({2, 5})});
    t.add("scatter nd onto the same", OpKind::kScatterND, attrs,
          {t.input({4, 5}), {.value = i64({4, 1}, {3, 0, 3, 3})}, t.input({4, 5})},
          {Table::out({4, 5})});
  }
  for (OpCase& c : t.cases) {
    c.exact = false;
    c.ulps = 256;
    c.optional = true;
  }
  return also_constant(t.cases);
});

}  // namespace
}  // namespace vernier::backend::test
