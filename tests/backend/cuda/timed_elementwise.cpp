// Timed cases (backend/timing.h) of operators whose cost is memory: elementwise operators, chains
// of them, casts, and what moves elements.
#include "backend/timing.h"
#include "core/broadcast.h"

namespace vernier::backend::test {
namespace {

constexpr int64_t kElems = int64_t{1} << 26, kCols = 1024;  // arrays that exceed any cache
constexpr DType kF32 = DType::kF32, kF16 = DType::kF16, kBF16 = DType::kBF16, kBool = DType::kBool;

struct Operand {
  DType type;
  Shape shape;
};

// Arrays whose first size is that of the result's are rows of a batch.
struct Listed {
  std::string name;
  OpKind op;
  AttrBytes attrs;
  std::vector<Operand> in, out;
  double bytes = 0;
};

OpCase made(const Listed& listed) {
  OpCase c{.op = listed.op, .attrs = listed.attrs};
  // The shape in Expand's attributes has all rows.
  const int64_t batch = listed.op == OpKind::kExpand ? -1 : listed.out[0].shape[0];
  const auto axis = [batch](const Shape& shape) {
    return !shape.empty() && shape[0] == batch ? 0 : -1;
  };
  for (const Operand& in : listed.in)
    c.inputs.push_back({.value = repeated(in.type, in.shape), .batch_axis = axis(in.shape)});
  for (const Operand& out : listed.out)
    c.outputs.push_back({.dtype = out.type, .shape = out.shape, .batch_axis = axis(out.shape)});
  c.exact = !is_float(listed.out[0].type) || (flags(listed.op) & kElementwise) == 0;
  return c;
}

class List {
 public:
  void add(const Listed& listed) {
    all_.push_back({.name = listed.name + " " + std::string(name(listed.out[0].type)),
                    .make = [listed] { return made(listed); },
                    .bytes = listed.bytes});
  }
  // The result has the inputs' common shape and the type of the last input.
  void add(const std::string& name, OpKind op, const std::vector<Operand>& in,
           const AttrBytes& attrs = {}) {
    Shape out;
    for (const Operand& operand : in) out = broadcast_shape(out, operand.shape);
    add({name, op, attrs, in, {{in.back().type, out}}});
  }
  std::vector<TimedCase> take() { return std::move(all_); }

 private:
  std::vector<TimedCase> all_;
};

AttrBytes chain(const char* program) { return encode(FusedElementwiseAttrs{program}); }

void add_elementwise(List& list, DType t) {
  const Operand all{t, {kElems / kCols, kCols}}, one{t, {}};
  const Operand wide{t, {kElems / 3072, 3072}}, row{t, {3072}};
  const Operand scores{t, {64, 12, 128, 128}};
  list.add("Add", OpKind::kAdd, {all, all});
  list.add("Div", OpKind::kDiv, {all, all});
  list.add("Mul by a number", OpKind::kMul, {all, one});
  list.add("Add row of 3072", OpKind::kAdd, {wide, row});
  list.add("Add row of 1023", OpKind::kAdd, {{t, {65536, 1023}}, {t, {1023}}});
  list.add("Mul column [32768,1]", OpKind::kMul, {{t, {32768, 2048}}, {t, {32768, 1}}});
  list.add("Add [64,1,128,128] [64,12,128,128]", OpKind::kAdd, {{t, {64, 1, 128, 128}}, scores});
  list.add("Relu", OpKind::kRelu, {all});
  list.add("Gelu erf", OpKind::kGelu, {all}, encode(GeluAttrs{}));
  list.add("Gelu tanh", OpKind::kGelu, {all}, encode(GeluAttrs{GeluKind::kTanh}));
  list.add("Sigmoid", OpKind::kSigmoid, {all});
  list.add("Tanh", OpKind::kTanh, {all});
  list.add("Exp", OpKind::kExp, {all});
  list.add("Erf", OpKind::kErf, {all});
  list.add("Sqrt", OpKind::kSqrt, {all});
  list.add("Where [n] by a number", OpKind::kWhere, {{kBool, all.shape}, all, one});
  list.add("Where [64,1,1,128]", OpKind::kWhere, {{kBool, {64, 1, 1, 128}}, scores, one});
  const AttrBytes three = chain("Mul(%0,%1);Add(%3,%2);Relu(%4)");
  list.add("chain of 3", OpKind::kFusedElementwise, {all, all, one}, three);
  list.add("chain of 3, scale and bias", OpKind::kFusedElementwise, {wide, row, row}, three);
  list.add("chain of 8", OpKind::kFusedElementwise, {all, one, one},
           chain("Mul(%0,%1);Add(%3,%2);Relu(%4);Mul(%5,%5);Sub(%6,%1);Sigmoid(%7);"
                 "Mul(%8,%7);Neg(%9)"));
}

void add_types(List& list) {
  const Shape all{kElems / kCols, kCols}, half{kElems / kCols / 2, kCols};
  const auto cast = [&](const char* name, DType from, DType to, const Shape& shape) {
    list.add({name, OpKind::kCast, encode(CastAttrs{to}), {{from, shape}}, {{to, shape}}});
  };
  cast("Cast f32 to", kF32, kF16, all);
  cast("Cast f16 to", kF16, kF32, all);
  cast("Cast bool to", kBool, kF32, all);
  cast("Cast i64 to", DType::kI64, kF32, half);
  list.add({"Less f32 to", OpKind::kLess, {}, {{kF32, all}, {kF32, all}}, {{kBool, all}}});
  list.add("Add", OpKind::kAdd, {{DType::kI64, half}, {DType::kI64, half}});
}

void add_movement(List& list, DType t) {
  const auto transpose = [&](const char* what, const std::vector<int64_t>& perm, const Shape& x) {
    Shape y;
    for (int64_t from : perm) y.push_back(x[static_cast<size_t>(from)]);
    list.add({std::string("Transpose ") + what,
              OpKind::kTranspose,
              encode(TransposeAttrs{.perm = perm}),
              {{t, x}},
              {{t, y}}});
  };
  transpose("0213 [64,512,32,64]", {0, 2, 1, 3}, {64, 512, 32, 64});
  transpose("0231 [64,512,32,64]", {0, 2, 3, 1}, {64, 512, 32, 64});
  transpose("0231 [64,3,512,512]", {0, 2, 3, 1}, {64, 3, 512, 512});
  transpose("021 [1,8192,8192]", {0, 2, 1}, {1, 8192, 8192});
  transpose("021 [1,8191,8191]", {0, 2, 1}, {1, 8191, 8191});
  for (int64_t cols : {768, 767})
    list.add({"Concat axis 1 twice [65536," + std::to_string(cols) + "]",
              OpKind::kConcat,
              encode(AxisAttrs{1}),
              {{t, {65536, cols}}, {t, {65536, cols}}},
              {{t, {65536, 2 * cols}}}});
  list.add({"Split axis 1 [32768,2304]",
            OpKind::kSplit,
            encode(SplitAttrs{.axis = 1, .sizes = {768, 768, 768}}),
            {{t, {32768, 2304}}},
            {{t, {32768, 768}}, {t, {32768, 768}}, {t, {32768, 768}}}});
  const double moved = 2.0 * 32768 * 1024 * static_cast<double>(size_bytes(t));
  list.add(
      {"Slice [32768,2048] to 1024",
       OpKind::kSlice,
       encode(SliceAttrs{
           .inline_starts = true, .starts = {512}, .axes = {1}, .steps = {1}, .sizes = {1024}}),
       {{t, {32768, 2048}}},
       {{t, {32768, 1024}}},
       moved});
  list.add({"Expand [16384,1,64] to 16",
            OpKind::kExpand,
            encode(ShapeAttrs{.shape = {16384, 16, 64}, .has_shape = true}),
            {{t, {16384, 1, 64}}},
            {{t, {16384, 16, 64}}}});
}

const TimedCases kElementwise([] {
  List list;
  for (DType t : {kF32, kF16, kBF16}) add_elementwise(list, t);
  add_types(list);
  for (DType t : {kF32, kF16}) add_movement(list, t);
  return list.take();
});

}  // namespace
}  // namespace vernier::backend::test
