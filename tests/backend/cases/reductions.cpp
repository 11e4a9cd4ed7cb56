// Cases of Reduce*, ArgMax, ArgMin, TopK, Hardmax: any axes, long axes, equal elements.
#include <cmath>
#include <limits>

#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

const std::vector<OpKind> kReduces{
    OpKind::kReduceSum,       OpKind::kReduceMean,     OpKind::kReduceMax, OpKind::kReduceMin,
    OpKind::kReduceProd,      OpKind::kReduceL1,       OpKind::kReduceL2,  OpKind::kReduceLogSum,
    OpKind::kReduceSumSquare, OpKind::kReduceLogSumExp};

struct Reduction {
  OpKind op;
  std::vector<int64_t> axes;
  Shape y;
};

OpCase reduce_case(const Reduction& r, Tensor x) {
  OpCase c{.op = r.op, .attrs = encode(ReduceAttrs{.axes = r.axes})};
  c.name = std::string(name(r.op));
  c.name += " " + std::string(name(x.dtype())) + str(x.shape()) + " axes " + str(r.axes);
  int batch = r.axes.empty() ? -1 : 0;  // the first axis that is kept
  while (batch >= 0 && std::ranges::find(r.axes, batch) != r.axes.end()) ++batch;
  if (batch >= static_cast<int>(r.y.size()) || std::ranges::find(r.axes, -1) != r.axes.end())
    batch = r.axes == std::vector<int64_t>{-1} && r.y.size() > 1 ? 0 : -1;
  c.outputs = {{.dtype = x.dtype(), .shape = r.y, .batch_axis = batch}};
  c.exact = x.dtype() == DType::kI64;
  // A long product runs to 0 in some orders first: 0 · inf is NaN.
  c.inputs = {{.value = std::move(x), .batch_axis = batch, .special = r.op != OpKind::kReduceProd}};
  return c;
}

const Cases kReduce("Reduce", [] {
  Maker make(44);
  std::vector<OpCase> cases;
  for (OpKind op : kReduces) {
    for (DType type : {DType::kF32, DType::kI64}) {
      for (const auto& [axes, y] :
           std::vector<std::pair<std::vector<int64_t>, Shape>>{{{-1}, {3, 5, 1}},
                                                               {{1}, {3, 1, 67}},
                                                               {{0}, {1, 5, 67}},
                                                               {{1, 2}, {3, 1, 1}},
                                                               {{0, 2}, {1, 5, 1}},
                                                               {{}, {1, 1, 1}}}) {
        cases.push_back(reduce_case({op, axes, y}, type == DType::kF32
                                                       ? make.normal({3, 5, 67}, 0.5, 0.7)
                                                       : make.integers(type, {3, 5, 67}, -3, 3)));
        cases.back().optional = type == DType::kI64;
      }
    }
  }
  return cases;
});

const Cases kLongReduce("ReduceLongAxes", [] {
  Maker make(144);
  std::vector<OpCase> cases;
  for (OpKind op : kReduces) {
    if (op == OpKind::kReduceProd) continue;  // runs to 0 or infinity
    for (const auto& [x, axes, y] : std::vector<std::tuple<Shape, std::vector<int64_t>, Shape>>{
             {{2, 100'000}, {1}, {2, 1}},
             {{100'000, 2}, {0}, {1, 2}},
             {{3, 4097, 5}, {1}, {3, 1, 5}},
             {{37, 3, 1025}, {0, 2}, {1, 3, 1}},
             {{300, 257}, {}, {1, 1}}}) {
      OpCase c = reduce_case({op, axes, y}, make.normal(x, 0.5, 0.7));
      // Sums of up to 10^5 positive terms in f32: pairwise or in chunks.
      c.ulps = 400;
      c.device_only = true;
      c.checks = Checks::kValues;
      cases.push_back(std::move(c));
    }
  }
  return cases;
});

OpCase log_sum_exp(Tensor x, std::vector<int64_t> axes, Shape y) {
  OpCase c = reduce_case({OpKind::kReduceLogSumExp, std::move(axes), std::move(y)}, std::move(x));
  c.inputs[0].batch_axis = c.outputs[0].batch_axis = -1;
  c.ulps = 32;
  return c;
}

const Cases kLogSumExp("ReduceLogSumExpAtTheEnds", [] {
  Maker make(49);
  const auto same = [](Shape shape, double value) {
    const std::vector<double> values(static_cast<size_t>(num_elems(shape)), value);
    return Tensor::from(DType::kF32, std::move(shape), std::span<const double>(values));
  };
  // Several chunks with a tail, contiguous and not; values beyond the range of exp.
  return std::vector<OpCase>{log_sum_exp(make.normal({3, 2500}, 0, 3), {1}, {3, 1}),
                             log_sum_exp(make.normal({2500, 3}, 1000, 30), {0}, {1, 3}),
                             log_sum_exp(make.normal({37, 3, 41}, -500, 9), {0, 2}, {1, 3, 1}),
                             log_sum_exp(same({2, 5}, -HUGE_VAL), {1}, {2, 1}),
                             log_sum_exp(same({2, 5}, HUGE_VAL), {1}, {2, 1}),
                             log_sum_exp(same({2, 0}, 0), {1}, {2, 1}),
                             log_sum_exp(same({0, 2}, 0), {1}, {0, 1}),
                             log_sum_exp(make.normal({}), {}, {})};
});

const Cases kArgReduce("ArgReduce", [] {
  Maker make(145);
  std::vector<OpCase> cases;
  for (OpKind op : {OpKind::kArgMax, OpKind::kArgMin}) {
    for (bool last : {false, true}) {
      for (const Shape& x : std::vector<Shape>{{4, 5, 17}, {3, 2, 1000}, {1, 700, 3}}) {
        for (int64_t axis : {0, 1, -1}) {
          OpCase c{.op = op,
                   .attrs = encode(ArgReduceAttrs{.axis = axis, .select_last_index = last})};
          c.name = std::string(name(op));
          c.name += str(x) + " axis " + std::to_string(axis);
          Shape y = x;
          y[axis < 0 ? 2 : static_cast<size_t>(axis)] = 1;
          // Few different values: nearly every choice is among equals.
          c.inputs = {{.value = make.integers(DType::kF32, x, 0, 5)}};
          c.outputs = {{.dtype = DType::kI64, .shape = y, .batch_axis = -1}};
          c.exact = true;
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
});

struct TopK {
  int64_t axis = -1, k = 1;
  bool largest = true, sorted = true;
};

OpCase top_k_case(Tensor x, const TopK& top) {
  OpCase c{
      .op = OpKind::kTopK,
      .attrs = encode(TopKAttrs{.axis = top.axis, .largest = top.largest, .sorted = top.sorted})};
  const auto rank = static_cast<int64_t>(x.rank());
  const int64_t axis = top.axis < 0 ? top.axis + rank : top.axis;
  c.name = std::string(name(x.dtype()));
  c.name += str(x.shape()) + " axis " + std::to_string(axis) + " k " + std::to_string(top.k);
  c.name += top.largest ? " largest" : " smallest";
  Shape y = x.shape();
  y[static_cast<size_t>(axis)] = top.k;
  const int batch = axis == 0 ? -1 : 0;
  c.outputs = {{.dtype = x.dtype(), .shape = y, .batch_axis = batch},
               {.dtype = DType::kI64, .shape = y, .batch_axis = batch}};
  c.inputs = {{.value = std::move(x), .batch_axis = batch}, {.value = Tensor::i64({top.k})}};
  c.exact = true;
  return c;
}

const Cases kTopK("TopK", [] {
  Maker make(51);
  std::vector<OpCase> cases;
  for (bool largest : {true, false}) {
    for (int64_t axis : {-1, 0, 1}) {
      for (int64_t k : {0, 1, 3}) {
        const TopK top{.axis = axis, .k = k, .largest = largest, .sorted = k != 3};
        cases.push_back(top_k_case(make.normal({3, 17, 5}), top));
        cases.push_back(top_k_case(make.integers(DType::kF32, {3, 33, 4}, -1, 1), top));
      }
    }
    for (int64_t k : {1, 2, 126, 127})
      cases.push_back(top_k_case(make.normal({5, 127}), {.k = k, .largest = largest}));
    cases.push_back(top_k_case(make.normal({1}), {.k = 1, .largest = largest}));
    cases.push_back(top_k_case(make.normal({0, 4}), {.k = 2, .largest = largest}));
    cases.push_back(top_k_case(make.normal({3, 0}), {.k = 0, .largest = largest}));
    cases.push_back(top_k_case(make.normal({2, 5000}), {.k = 300, .largest = largest}));
    cases.back().device_only = true;
    cases.back().checks = Checks::kValues;
  }
  return cases;
});

const Cases kTopKTypes("TopKTypes", [] {
  Maker make(52);
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = -(kMin + 1);
  std::vector<OpCase> cases;
  for (bool largest : {true, false}) {
    const TopK top{.axis = 1, .k = 7, .largest = largest};
    for (DType type : {DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16,
                       DType::kU32, DType::kU64}) {
      // All bit patterns of the type: values beyond it wrap.
      cases.push_back(top_k_case(make.integers(type, {3, 33, 2}, kMin, kMax), top));
    }
    for (DType type : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
      const double inf = HUGE_VAL;
      const std::vector<double> values{0.0, -0.0, NAN, -1.5, inf,  -NAN, 3.0, -inf, 1e-7, -1e-7,
                                       NAN, 3.0,  0.0, -0.0, -inf, inf,  2.0, -3.0, 0.5};
      const Tensor x = Tensor::from(type, {1, 19, 1}, std::span<const double>(values));
      cases.push_back(top_k_case(x, top));
      cases.push_back(top_k_case(x, {.axis = 1, .k = 19, .largest = largest}));
    }
  }
  return cases;
});

const Cases kTopKOutputs("TopKOneOutput", [] {
  Maker make(53);
  std::vector<OpCase> cases;
  for (size_t unwanted : {0u, 1u}) {
    cases.push_back(top_k_case(make.normal({4, 17}), {.k = 3}));
    cases.back().outputs[unwanted] = {.dtype = DType::kUndefined};
  }
  cases.push_back(top_k_case(make.normal({4, 17}), {.k = 3}));
  cases.back().outputs.pop_back();
  return cases;
});

const Cases kHardmax("Hardmax", [] {
  Maker make(56);
  std::vector<OpCase> cases;
  const auto add = [&](Tensor x, int64_t axis) {
    OpCase c{.op = OpKind::kHardmax, .attrs = encode(AxisAttrs{.axis = axis})};
    c.name = "hardmax " + str(x.shape()) + " axis " + std::to_string(axis);
    const int batch = axis == 0 ? -1 : 0;
    c.outputs = {{.shape = x.shape(), .batch_axis = batch}};
    c.inputs = {{.value = std::move(x), .batch_axis = batch}};
    c.exact = true;
    cases.push_back(c);
  };
  for (int64_t axis : {-1, 0, 1}) {
    // Few different values: most lines have several largest elements.
    for (const Tensor& x : {make.normal({3, 17, 5}), make.integers(DType::kF32, {3, 17, 5}, -1, 1),
                            make.normal({3, 0, 5}), make.normal({3, 1, 1})})
      add(x, axis);
  }
  const std::vector<double> lowest(3, -HUGE_VAL);
  add(Tensor::from(DType::kF32, {3}, std::span<const double>(lowest)), 0);
  return cases;
});

}  // namespace
}  // namespace vernier::backend::test
