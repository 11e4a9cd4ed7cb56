// Cases of operators that move, pick and place elements.
#include "backend/harness.h"
#include "core/token_rows.h"

namespace vernier::backend::test {
namespace {

Tensor i64(Shape shape, std::vector<int64_t> values) {
  return Tensor::from(DType::kI64, std::move(shape), std::span<const int64_t>(values));
}

// A list of cases as they are written down: all exact, none with rows of its own.
class Table {
 public:
  explicit Table(uint64_t seed) : make(seed) {}
  void add(OpCase c) {
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

// A mask of rows with 1 to `length` tokens, and some of other kinds: a hole, padding in front, on
// both sides, no token.
std::vector<int64_t> mask_of_rows(Maker& make, int64_t rows, int64_t length, int64_t padding) {
  std::vector<int64_t> mask;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t tokens = make.integers(DType::kI64, {1}, 1, length).integers()[0];
    for (int64_t s = 0; s < length; ++s) {
      bool token = s < tokens;
      if (r % 7 == 3) token = token && s != tokens / 2;
      if (r % 7 == 4) token = s >= tokens / 2;
      if (r % 7 == 5) token = false;
      if (r % 7 == 6) token = token && s >= tokens / 2;
      mask.push_back(token ? 1 - padding : padding);
    }
  }
  return mask;
}
int64_t tokens_in(const std::vector<int64_t>& mask, int64_t length, const TokenRule& rule) {
  int64_t tokens = 0;
  for (size_t row = 0; row < mask.size(); row += static_cast<size_t>(length)) {
    tokens += kept_of_row(length, rule, [&](int64_t s) {
                return mask[row + static_cast<size_t>(s)] == rule.padding;
              }).count;
  }
  return tokens;
}

const Cases kTokenIndex("TokenIndex", [] {
  Table t(37);
  for (const auto& [rows, length] :
       {std::pair<int64_t, int64_t>{1, 1}, {1, 9}, {5, 1}, {9, 37}, {40, 300}, {300, 5}}) {
    for (DType type : {DType::kI64, DType::kI32, DType::kBool}) {
      for (const TokenRule& rule : {TokenRule{0}, TokenRule{1}, TokenRule{0, true, true},
                                    TokenRule{1, true, true}, TokenRule{0, true, false}}) {
        for (int64_t room : {0, 17}) {
          const std::vector<int64_t> numbers = mask_of_rows(t.make, rows, length, rule.padding);
          const int64_t tokens = tokens_in(numbers, length, rule) + room;
          EvalTensor mask(type, {rows, length});
          mask.i = numbers;
          t.add(
              {.name = "tokens of " + std::to_string(rows) + " rows of " + std::to_string(length) +
                       " " + std::string(name(type)) + (rule.padding == 1 ? " inverted" : "") +
                       (rule.front ? " without padding in front" : "") +
                       (rule.behind ? "" : " and with it behind") + (room > 0 ? " with room" : ""),
               .op = OpKind::kTokenIndex,
               .attrs = encode(TokenIndexAttrs{rule.padding, rule.front, rule.behind, {tokens}}),
               .inputs = {{.value = mask.to_tensor()}},
               .outputs = {
                   Table::out({tokens}, DType::kI32), Table::out({tokens}, DType::kI32),
                   Table::out({rows + 1}, DType::kI32), Table::out({rows, length}, DType::kI32),
                   Table::out({rows + 1}, DType::kI32), Table::out({tokens}, DType::kBool)}});
        }
      }
    }
  }
  return t.cases;
});

// Whole arrays and packed ones, rows of every kind, widths that divide into no unit.
const Cases kZeroPadding("ZeroPadding", [] {
  Table t(38);
  for (const auto& [rows, length, width] :
       {std::array<int64_t, 3>{1, 1, 1}, {5, 9, 3}, {9, 37, 8}, {7, 300, 33}, {40, 70, 64}}) {
    for (DType type : {DType::kF32, DType::kF64}) {
      for (DType of_mask : {DType::kI64, DType::kBool, DType::kI32}) {
        for (int64_t padding : {0, 1}) {
          const std::vector<int64_t> numbers = mask_of_rows(t.make, rows, length, padding);
          EvalTensor mask(of_mask, {rows, length});
          mask.i = numbers;
          const auto values = [&](const Shape& shape) {
            EvalTensor x = EvalTensor::from(t.make.normal(shape));
            x.dtype = type;
            return x.to_tensor();
          };
          const std::string name =
              std::to_string(rows) + " rows of " + std::to_string(length) + " x " +
              std::to_string(width) + " " + std::string(vernier::name(type)) + ", mask " +
              std::string(vernier::name(of_mask)) + (padding == 1 ? " inverted" : "");
          OpCase whole{.name = "zero padding of " + name,
                       .op = OpKind::kZeroPadding,
                       .attrs = encode(ZeroPaddingAttrs{.padding = padding}),
                       .inputs = {{.value = values({rows, length, width}), .batch_axis = 0},
                                  {.value = mask.to_tensor(), .batch_axis = 0}},
                       .outputs = {Table::out({rows, length, width}, type)}};
          whole.device_only = type == DType::kF64;
          // Packed with and without padding in front.
          const TokenRule rule{padding, type == DType::kF32, true};
          std::vector<int64_t> places;
          int64_t start = 0;
          for (int64_t r = 0; r < rows; ++r) {
            const auto* row = numbers.data() + r * length;
            const TokenSpan kept =
                kept_of_row(length, rule, [&](int64_t s) { return row[s] == padding; });
            for (int64_t s = 0; s < length; ++s) {
              const bool is_kept = s >= kept.first && s < kept.end();
              places.push_back(is_kept ? start + s - kept.first : start);
            }
            start += kept.count;
          }
          EvalTensor tokens(DType::kI32, {rows, length});
          tokens.i = places;
          OpCase packed = whole;
          packed.name = "tokens put back of " + name;
          const int64_t room = start + 3;
          packed.inputs = {{.value = values({1, room, width})},
                           {.value = mask.to_tensor()},
                           {.value = tokens.to_tensor()}};
          t.add(std::move(whole));
          t.add(std::move(packed));
        }
      }
    }
  }
  return t.cases;
});

const Cases kTranspose("Transpose", [] {
  Table t(31);
  for (DType type : {DType::kF32, DType::kI64, DType::kBool, DType::kI8}) {
    const auto add = [&](const char* name, std::vector<int64_t> perm, const Shape& x) {
      Shape y;
      for (int64_t from : perm) y.push_back(x[static_cast<size_t>(from)]);
      const Tensor value = type == DType::kF32
                               ? t.make.normal(x)
                               : t.make.integers(type, x, 0, type == DType::kBool ? 1 : 99);
      t.add({.name = name,
             .op = OpKind::kTranspose,
             .attrs = transpose(std::move(perm)),
             .inputs = {{.value = value}},
             .outputs = {Table::out(y, type)}});
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

// clang-format off
std::vector<OpCase> copies() {
  Table t(32);
  t.add({.name = "expand", .op = OpKind::kExpand,
         .attrs = encode(ShapeAttrs{.shape = {4, 3, 5, 17}, .has_shape = true}),
         .inputs = {t.input({3, 1, 17})}, .outputs = {Table::out({4, 3, 5, 17})}});
  t.add({.name = "reshape", .op = OpKind::kReshape,
         .attrs = encode(ShapeAttrs{.shape = {3, 34}, .has_shape = true}),
         .inputs = {t.input({2, 3, 17})}, .outputs = {Table::out({3, 34})}});
  t.add({.name = "unsqueeze", .op = OpKind::kUnsqueeze, .attrs = encode(AxesAttrs{.axes = {0}}),
         .inputs = {t.input({3, 5})}, .outputs = {Table::out({1, 3, 5})}});
  t.add({.name = "flatten", .op = OpKind::kFlatten, .attrs = axis(2),
         .inputs = {t.input({2, 3, 5})}, .outputs = {Table::out({6, 5})}});
  t.add({.name = "slice inline", .op = OpKind::kSlice,
         .attrs = encode(SliceAttrs{.inline_starts = true, .starts = {1, 3}, .axes = {0, 2},
                    .steps = {1, 2}, .sizes = {2, 4}}),
         .inputs = {t.input({4, 3, 11})}, .outputs = {Table::out({2, 3, 4})}});
  t.add({.name = "slice inputs", .op = OpKind::kSlice, .attrs = encode(SliceAttrs{}),
         .inputs = {t.input({4, 9}), {.value = i64({1}, {-1})}, {.value = i64({1}, {-100})},
                    {.value = i64({1}, {1})}, {.value = i64({1}, {-2})}},
         .outputs = {Table::out({4, 5})}});
  t.add({.name = "split", .op = OpKind::kSplit,
         .attrs = encode(SplitAttrs{.axis = -1, .sizes = {3, 0, 5}}), .inputs = {t.input({4, 8})},
         .outputs = {Table::out({4, 3}), Table::out({4, 0}), Table::out({4, 5})}});
  t.add({.name = "split equal", .op = OpKind::kSplit,
         .attrs = encode(SplitAttrs{.axis = 0, .num_outputs = 3}), .inputs = {t.input({8, 3})},
         .outputs = {Table::out({3, 3}), {.dtype = DType::kUndefined}, Table::out({2, 3})}});
  t.add({.name = "concat", .op = OpKind::kConcat, .attrs = axis(1),
         .inputs = {t.input({2, 3, 5}), t.input({2, 0, 5}), t.input({2, 1, 5})},
         .outputs = {Table::out({2, 4, 5})}});
  t.add({.name = "tile", .op = OpKind::kTile,
         .inputs = {t.input({2, 3}), {.value = i64({2}, {3, 2})}},
         .outputs = {Table::out({6, 6})}});
  t.add({.name = "pad", .op = OpKind::kPad, .attrs = encode(PadAttrs{}),
         .inputs = {t.input({3, 5}), {.value = i64({4}, {1, -1, 0, 2})},
                    {.value = Tensor::scalar(DType::kF32, 7), .special = false}},
         .outputs = {Table::out({4, 6})}});
  t.add({.name = "pad axes", .op = OpKind::kPad, .attrs = encode(PadAttrs{}),
         .inputs = {t.input({3, 5}), {.value = i64({2}, {2, 1})}, {}, {.value = i64({1}, {-1})}},
         .outputs = {Table::out({3, 8})}});
  for (bool crd : {false, true}) {
    const AttrBytes attrs = encode(BlockSizeAttrs{.block_size = 2, .crd = crd});
    t.add({.name = "depth to space", .op = OpKind::kDepthToSpace, .attrs = attrs,
           .inputs = {t.input({2, 12, 3, 5})}, .outputs = {Table::out({2, 3, 6, 10})}});
    t.add({.name = "space to depth", .op = OpKind::kSpaceToDepth, .attrs = attrs,
           .inputs = {t.input({2, 3, 6, 10})}, .outputs = {Table::out({2, 12, 3, 5})}});
  }
  return also_constant(t.cases);
}
// clang-format on

const Cases kCopies("Copies", [] { return copies(); });
const Cases kCopiedIntegers("CopiedIntegers", [] { return retyped(copies(), DType::kI64, 132); });
const Cases kCopiedBytes("CopiedBytes", [] {
  std::vector<OpCase> cases = retyped(copies(), DType::kI8, 133);
  for (OpCase& c : retyped(copies(), DType::kBool, 134)) cases.push_back(std::move(c));
  return cases;
});

// clang-format off
const Cases kLargeCopies("LargeCopies", [] {
  Table t(135);
  t.add({.name = "concat of heads", .op = OpKind::kConcat, .attrs = axis(-1),
         .inputs = {t.input({65, 7, 64}), t.input({65, 7, 128}), t.input({65, 7, 33})},
         .outputs = {Table::out({65, 7, 225})}});
  t.add({.name = "split of qkv", .op = OpKind::kSplit,
         .attrs = encode(SplitAttrs{.axis = -1, .sizes = {768, 768, 768}}),
         .inputs = {t.input({33, 2304})},
         .outputs = {Table::out({33, 768}), Table::out({33, 768}), Table::out({33, 768})}});
  t.add({.name = "expand", .op = OpKind::kExpand,
         .attrs = encode(ShapeAttrs{.shape = {4, 12, 65, 127}, .has_shape = true}),
         .inputs = {t.input({4, 1, 1, 127})}, .outputs = {Table::out({4, 12, 65, 127})}});
  t.add({.name = "slice of a sequence", .op = OpKind::kSlice,
         .attrs = encode(SliceAttrs{.inline_starts = true, .starts = {0}, .axes = {1}, .steps = {1},
                    .sizes = {1}}),
         .inputs = {t.input({65, 33, 96})}, .outputs = {Table::out({65, 1, 96})}});
  t.add({.name = "gather of a vocabulary", .op = OpKind::kGather, .attrs = axis(0),
         .inputs = {t.input({1000, 384}), t.index(DType::kI64, {9, 129}, 1000)},
         .outputs = {Table::out({9, 129, 384})}});
  t.add({.name = "gather of one position", .op = OpKind::kGather, .attrs = axis(1),
         .inputs = {t.input({129, 9, 768}), {.value = i64({}, {-1})}},
         .outputs = {Table::out({129, 768})}});
  for (OpCase& c : t.cases) {
    c.device_only = true;
    c.checks = Checks::kValues;
  }
  return also_constant(t.cases);
});

const Cases kIndexing("Indexing", [] {
  Table t(33);
  for (DType type : {DType::kI64, DType::kI32}) {
    t.add({.name = "gather rows", .op = OpKind::kGather, .attrs = axis(0),
           .inputs = {t.input({50, 33}), t.index(type, {3, 17}, 50)},
           .outputs = {Table::out({3, 17, 33})}});
    t.add({.name = "gather middle", .op = OpKind::kGather, .attrs = axis(-2),
           .inputs = {t.input({3, 7, 5}), t.index(type, {}, 7)}, .outputs = {Table::out({3, 5})}});
  }
  t.add({.name = "gather elements", .op = OpKind::kGatherElements, .attrs = axis(1),
         .inputs = {t.input({4, 9, 3}), t.index(DType::kI64, {4, 5, 2}, 9)},
         .outputs = {Table::out({4, 5, 2})}});
  t.add({.name = "gather nd", .op = OpKind::kGatherND, .attrs = encode(GatherNDAttrs{}),
         .inputs = {t.input({4, 5, 6}), t.index(DType::kI64, {3, 7, 2}, 4)},
         .outputs = {Table::out({3, 7, 6})}});
  t.add({.name = "gather nd batch", .op = OpKind::kGatherND,
         .attrs = encode(GatherNDAttrs{.batch_dims = 1}),
         .inputs = {t.input({3, 5, 6}), t.index(DType::kI64, {3, 7, 1}, 5)},
         .outputs = {Table::out({3, 7, 6})}});
  t.add({.name = "scatter elements", .op = OpKind::kScatterElements,
         .attrs = encode(ScatterAttrs{.axis = 1}),
         .inputs = {t.input({2, 5}), {.value = i64({2, 3}, {0, -1, 2, 4, 1, 0})}, t.input({2, 3})},
         .outputs = {Table::out({2, 5})}});
  t.add({.name = "scatter nd", .op = OpKind::kScatterND, .attrs = encode(ScatterAttrs{}),
         .inputs = {t.input({4, 5}), {.value = i64({2, 1}, {3, 0})}, t.input({2, 5})},
         .outputs = {Table::out({4, 5})}});
  t.add({.name = "one hot", .op = OpKind::kOneHot, .attrs = encode(OneHotAttrs{.axis = 1}),
         .inputs = {{.value = i64({2, 3}, {0, 4, -1, 9, 2, 2})}, {.value = i64({}, {5})},
                    {.value = Tensor::from(DType::kF32, {2},
                    std::span<const double>(std::vector{0.5, 2.0})), .special = false}},
         .outputs = {Table::out({2, 5, 3})}});
  t.add({.name = "range", .op = OpKind::kRange,
         .inputs = {{.value = i64({}, {3})}, {.value = i64({}, {20})}, {.value = i64({}, {4})}},
         .outputs = {{.dtype = DType::kI64, .shape = {5}, .batch_axis = -1}}});
  t.add({.name = "constant of shape", .op = OpKind::kConstantOfShape,
         .attrs = encode(ConstantOfShapeAttrs{.dtype = DType::kI64, .value = -3}),
         .inputs = {{.value = i64({2}, {3, 17})}},
         .outputs = {{.dtype = DType::kI64, .shape = {3, 17}, .batch_axis = -1}}});
  for (int64_t k : {-3, -1, 0, 2, 9}) {
    for (bool upper : {false, true}) {
      t.add({.name = "trilu", .op = OpKind::kTrilu, .attrs = encode(TriluAttrs{.upper = upper}),
             .inputs = {t.input({2, 5, 7}), {.value = i64({}, {k})}},
             .outputs = {Table::out({2, 5, 7})}});
    }
    t.add({.name = "eye", .op = OpKind::kEyeLike, .attrs = encode(EyeLikeAttrs{.k = k}),
           .inputs = {t.input({4, 6})}, .outputs = {Table::out({4, 6})}});
  }
  for (bool exclusive : {false, true}) {
    for (bool reverse : {false, true}) {
      const AttrBytes attrs = encode(CumSumAttrs{.exclusive = exclusive, .reverse = reverse});
      for (DType type : {DType::kI64, DType::kI32}) {
        for (const Shape& shape : std::vector<Shape>{{3, 17, 2}, {2, 131, 3}, {5, 64, 1}})
          t.add({.name = "cum sum", .op = OpKind::kCumSum, .attrs = attrs,
                 .inputs = {{.value = t.make.integers(type, shape, -9, 9)}, {.value = i64({},
                            {1})}},
                 .outputs = {{.dtype = type, .shape = shape, .batch_axis = -1}}});
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
        t.add({.name = "cum sum", .op = OpKind::kCumSum, .attrs = attrs,
               .inputs = {t.input(shape), {.value = i64({}, {1})}},
               .outputs = {Table::out(shape)}});
    }
  }
  for (ScatterReduction reduction : {ScatterReduction::kAdd, ScatterReduction::kMul,
                                     ScatterReduction::kMin, ScatterReduction::kMax}) {
    const AttrBytes attrs = encode(ScatterAttrs{.axis = 1, .reduction = reduction});
    t.add({.name = "scatter elements onto the same", .op = OpKind::kScatterElements, .attrs = attrs,
           .inputs = {t.input({2, 5}), {.value = i64({2, 6}, {0, -1, 2, 4, 1, 0, 3, 3, 3, -2, 0,
                      3})}, t.input({2, 6})},
           .outputs = {Table::out({2, 5})}});
    t.add({.name = "scatter nd onto the same", .op = OpKind::kScatterND, .attrs = attrs,
           .inputs = {t.input({4, 5}), {.value = i64({4, 1}, {3, 0, 3, 3})}, t.input({4, 5})},
           .outputs = {Table::out({4, 5})}});
  }
  for (OpCase& c : t.cases) {
    c.exact = false;
    c.ulps = 256;
    c.optional = true;
  }
  return also_constant(t.cases);
});
// clang-format on

}  // namespace
}  // namespace vernier::backend::test
