// Operators of the FP64 evaluation on the GPU beside the evaluators in src/reference, which define
// them: within 1e-12 of the result's scale. Contract: core/fp64_device.h.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "backend/cuda/cuda.h"
#include "backend/cuda/fp64_device.h"
#include "backend/device_under_test.h"
#include "backend/op_tables.h"
#include "core/broadcast.h"
#include "core/op_attrs.h"
#include "reference/noise_each.h"

namespace vernier::backend::test {
namespace {

using vernier::test::Arg;
using vernier::test::OpCase;

// In [-1, 1), by Knuth's MMIX generator.
EvalTensor random_tensor(Shape shape, uint64_t seed) {
  EvalTensor t(DType::kF64, std::move(shape));
  uint64_t state = seed * 2 + 1;
  for (double& v : t.f) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v = static_cast<double>(static_cast<int64_t>(state) >> 11) * 0x1p-52;
  }
  return t;
}

EvalTensor integers(DType dtype, Shape shape, std::vector<int64_t> values) {
  EvalTensor t(dtype, std::move(shape));
  t.i = std::move(values);
  return t;
}

class OperatorsInFp64 : public testing::Test {
 protected:
  void SetUp() override {
    if (const Support here = cuda_available(); !here) GTEST_SKIP() << "SKIP: " << here.reason;
    if (device_under_test().bare()) GTEST_SKIP() << "SKIP: not for memory checkers";
    device_ = cuda::make_fp64_device();
  }
  EvalTensor to_gpu(const EvalTensor& x) { return device_->rounded({}, x); }

  std::unique_ptr<Fp64Device> device_;
};

EvalTensor tensor_of(const Arg& arg) {
  EvalTensor t(arg.dtype, arg.shape);
  for (size_t i = 0; i < arg.values.size(); ++i) {
    if (t.is_float())
      t.f[i] = arg.values[i];
    else
      t.i[i] = static_cast<int64_t>(arg.values[i]);
  }
  return t;
}

double scale_of(const EvalTensor& t) {
  double scale = 0;
  for (const double v : t.f) scale = std::isfinite(v) ? std::max(scale, std::abs(v)) : scale;
  return scale;
}

// How many elements are farther apart than `part` of the scale.
int64_t far_elements(const EvalTensor& got, const EvalTensor& want, double part) {
  const double most = part * scale_of(want);
  int64_t far = 0;
  for (size_t i = 0; i < want.f.size(); ++i) {
    const double g = got.f[i], w = want.f[i];
    const bool same = g == w || (std::isnan(g) && std::isnan(w)) || std::abs(g - w) <= most;
    far += same ? 0 : 1;
  }
  return far;
}

// A call whose operands the test holds.
struct Call {
  OpKind op = OpKind::kIdentity;
  AttrBytes attrs = {};
  std::vector<EvalTensor> in = {};   // kUndefined: absent
  std::vector<EvalTensor> out = {};  // of types and shapes
  Rounding rounding = {};

  std::vector<const EvalTensor*> operands() const {
    std::vector<const EvalTensor*> operands;
    for (const EvalTensor& t : in) operands.push_back(t.dtype == DType::kUndefined ? nullptr : &t);
    return operands;
  }
};

std::vector<EvalTensor> by_evaluator(const Call& call) {
  std::vector<EvalTensor> out;
  for (const EvalTensor& t : call.out)
    out.push_back(t.dtype == DType::kUndefined ? EvalTensor() : EvalTensor(t.dtype, t.shape));
  const auto operands = call.operands();
  evaluator(call.op)({call.attrs, operands, out, call.rounding});
  return out;
}

// Empty: the device does not take it.
std::vector<EvalTensor> by_device(Fp64Device& device, const Call& call) {
  Call there = call;
  for (EvalTensor& t : there.in)
    if (t.is_float() && t.elems() > 0) t = device.rounded({}, t);
  std::vector<EvalTensor> out = call.out;
  const auto operands = there.operands();
  const EvalCall on_device{there.attrs, operands, out, call.rounding};
  if (!device.takes(call.op, on_device)) return {};
  device.evaluate(call.op, on_device);
  for (EvalTensor& t : out) {
    EXPECT_TRUE(t.dtype == DType::kUndefined || t.f.empty());
    t.to_host();
  }
  return out;
}

Call call_of(const OpCase& row) {
  Call call{.op = row.op, .attrs = parse_attrs(row.op, row.attrs)};
  for (const Arg& arg : row.in)
    call.in.push_back(arg.dtype == DType::kUndefined ? EvalTensor() : tensor_of(arg));
  for (const Arg& arg : row.out)
    call.out.push_back(arg.dtype == DType::kUndefined ? EvalTensor()
                                                      : EvalTensor::shaped(arg.dtype, arg.shape));
  return call;
}

TEST_F(OperatorsInFp64, GiveWhatTheTablesOfTheEvaluatorsSay) {
  std::map<OpKind, int> taken;
  for (const vernier::test::OpTable& table : vernier::test::op_tables()) {
    for (const OpCase& row : table.rows) {
      if (!row.error.empty() || row.out.empty()) continue;
      const Call call = call_of(row);
      const std::vector<EvalTensor> got = by_device(*device_, call);
      if (got.empty()) continue;
      ++taken[row.op];
      const std::vector<EvalTensor> want = by_evaluator(call);
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_EQ(far_elements(got[i], want[i], 1e-12), 0) << table.name << ", " << row.name;
    }
  }
  using enum OpKind;
  for (const OpKind op : {kAdd,
                          kMul,
                          kDiv,
                          kPow,
                          kSqrt,
                          kErf,
                          kTanh,
                          kSigmoid,
                          kRelu,
                          kGelu,
                          kCast,
                          kWhere,
                          kMatMul,
                          kGemm,
                          kLinear,
                          kSoftmax,
                          kRMSNorm,
                          kLayerNorm,
                          kGather,
                          kTranspose,
                          kReshape,
                          kReduceSum,
                          kReduceMean,
                          kAddLayerNorm,
                          kFusedElementwise,
                          kLinearAddLayerNorm})
    EXPECT_GT(taken[op], 0) << name(op) << ": no row of the tables ran on the GPU";
}

PointRounding to(DType type) { return {.type = type}; }

// Sizes that are no multiples of a block, with every point rounded and its peak recorded.
struct Rounded {
  const char* name;
  OpKind op;
  const char* attrs;
  std::vector<EvalTensor> in;
  Shape out;
  bool inner = true;  // inner results are rounded, too
};

std::vector<Rounded> rounded_cases() {
  const auto t = [](Shape shape) {
    static uint64_t seed = 1;
    return random_tensor(std::move(shape), seed++);
  };
  const auto mask = [](Shape shape) {
    EvalTensor m = integers(DType::kBool, shape, std::vector<int64_t>(num_elems(shape), 1));
    for (size_t i = 0; i < m.i.size(); i += 3) m.i[i] = 0;
    return m;
  };
  const Shape q{2, 37, 4, 24};
  return {
      {"Add", OpKind::kAdd, "", {t({33, 257}), t({257})}, {33, 257}},
      {"Gelu", OpKind::kGelu, "", {t({33, 257})}, {33, 257}},
      {"Softmax", OpKind::kSoftmax, "{axis=-1}", {t({33, 257})}, {33, 257}},
      {"Softmax of columns", OpKind::kSoftmax, "{axis=0}", {t({33, 257})}, {33, 257}},
      {"MatMul", OpKind::kMatMul, "", {t({3, 37, 65}), t({3, 65, 41})}, {3, 37, 41}},
      {"Gemm",
       OpKind::kGemm,
       "{alpha=0.5, trans_a=true, trans_b=true}",
       {t({65, 37}), t({41, 65}), t({41})},
       {37, 41}},
      {"Linear",
       OpKind::kLinear,
       "{activation=1}",
       {t({37, 65}), t({65, 129}), t({129}), t({37, 129})},
       {37, 129}},
      {"Linear of a transposed weight",
       OpKind::kLinear,
       "{trans_w=true}",
       {t({37, 65}), t({129, 65}), t({129})},
       {37, 129}},
      {"LinearAddLayerNorm",
       OpKind::kLinearAddLayerNorm,
       "",
       {t({37, 65}), t({65, 129}), t({129}), t({37, 129}), t({129}), t({129})},
       {37, 129}},
      {"QuantizedLinear",
       OpKind::kQuantizedLinear,
       "{activation=1}",
       {t({37, 65}), t({65, 129}), t({37, 1}), t({129}), t({37, 1}), t({129}), t({129}),
        t({37, 129})},
       {37, 129}},
      {"QuantizedLinear of a transposed weight",
       OpKind::kQuantizedLinear,
       "{trans_w=true}",
       {t({37, 65}), t({129, 65}), t({1}), t({1}), {}, t({129})},
       {37, 129}},
      {"QuantizeRows", OpKind::kQuantizeRows, "", {t({37, 129}), t({129})}, {37, 129}},
      {"QuantizeRows by a given scale",
       OpKind::kQuantizeRows,
       "",
       {t({37, 129}), {}, t({1}), t({1})},
       {37, 129}},
      {"EmbedNorm",
       OpKind::kEmbedNorm,
       "{tables=2}",
       {integers(DType::kI64, {2, 3}, {5, 0, -1, 6, 2, 2}), t({7, 129}),
        integers(DType::kI64, {1, 3}, {1, 0, 2}), t({3, 129}), t({129}), t({129})},
       {2, 3, 129}},
      {"LayerNorm", OpKind::kLayerNorm, "", {t({37, 129}), t({129}), t({129})}, {37, 129}},
      {"RMSNorm", OpKind::kRMSNorm, "", {t({37, 129}), t({129})}, {37, 129}},
      {"AddLayerNorm",
       OpKind::kAddLayerNorm,
       "",
       {t({37, 129}), t({37, 129}), t({129}), t({129})},
       {37, 129}},
      {"Attention",
       OpKind::kAttention,
       "{scale=0.2}",
       {t(q), t(q), t(q), t({2, 1, 1, 37}), mask({2, 1, 37, 37})},
       q,
       false},
      {"Attention of groups",
       OpKind::kAttention,
       "{scale=0.2, causal=true}",
       {t(q), t({2, 37, 2, 24}), t({2, 37, 2, 16})},
       {2, 37, 4, 16},
       false},
      {"Attention of sequences",
       OpKind::kAttention,
       "{scale=0.2}",
       {t({1, 37, 4, 24}),
        t({1, 37, 4, 24}),
        t({1, 37, 4, 24}),
        {},
        {},
        integers(DType::kI32, {4}, {0, 5, 5, 30}),
        integers(DType::kI32, {4}, {0, 5, 5, 30})},
       {1, 37, 4, 24},
       false},
  };
}

Call call_of(const Rounded& c, DType type, PointRounding::Scale form, int64_t block) {
  Call call{.op = c.op, .attrs = parse_attrs(c.op, c.attrs), .in = c.in};
  call.out.push_back(EvalTensor::shaped(DType::kF64, c.out));
  if (type == DType::kUndefined) return call;
  for (size_t point = 0; point < rounding_points(c.op).size(); ++point) {
    PointRounding rounding = to(type);
    if (rounding_points(c.op)[point] == "probs") rounding.scale = form, rounding.block = block;
    call.rounding.set(point, rounding);
  }
  if (c.inner) call.rounding.set_inner(to(type));
  return call;
}

void expect_same_peaks(const PointPeaks& got, const PointPeaks& want) {
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 1e-12 * want[i]) << "point " << i;
}

// A value beside a rounding boundary may fall to the other side: one unit, of few elements.
void expect_rounded_alike(Fp64Device& device, Call call, double unit) {
  PointPeaks want_peaks{}, got_peaks{};
  call.rounding.record(&want_peaks);
  const std::vector<EvalTensor> want = by_evaluator(call);
  call.rounding.record(&got_peaks);
  const std::vector<EvalTensor> got = by_device(device, call);
  ASSERT_EQ(got.size(), want.size()) << "the device does not take it";
  EXPECT_LE(far_elements(got[0], want[0], 1e-12), want[0].elems() / 200);
  EXPECT_EQ(far_elements(got[0], want[0], std::max(4 * unit, 1e-12)), 0);
  expect_same_peaks(got_peaks, want_peaks);
}

TEST_F(OperatorsInFp64, RoundAtEveryPointAsTheEvaluatorsDo) {
  using Scale = PointRounding::Scale;
  const std::map<DType, double> units{{DType::kUndefined, 0},
                                      {DType::kF16, 0x1p-10},
                                      {DType::kBF16, 0x1p-7},
                                      {DType::kF32, 0x1p-23}};
  for (const Rounded& c : rounded_cases()) {
    for (const auto& [type, unit] : units) {
      for (const auto& [form, block] :
           {std::pair{Scale::kNormalised, 0}, std::pair{Scale::kUnnormalised, 0},
            std::pair{Scale::kUnnormalised, 16}, std::pair{Scale::kUnnormalisedRoundedSum, 0}}) {
        if (c.op != OpKind::kAttention && (form != Scale::kNormalised || block != 0)) continue;
        SCOPED_TRACE(std::string(c.name) + " in " + std::string(name(type)) + ", form " +
                     std::to_string(static_cast<int>(form)) + ", block " + std::to_string(block));
        expect_rounded_alike(*device_, call_of(c, type, form, block), unit);
      }
    }
  }
}

// Runs of operators on earlier results, drawn at random: their results wait and are computed
// together. Some are read in between, all at the end, in any order.
class Chains {
 public:
  Chains(Fp64Device& device, uint64_t seed) : device_(device), state_(seed * 2 + 1) {
    for (const Shape& shape :
         {Shape{3, 5, 70}, Shape{3, 5, 70}, Shape{70}, Shape{1, 5, 1}, Shape{}}) {
      add(random_tensor(shape, next(1 << 20)));
    }
  }
  void draw(int operators) {
    using enum OpKind;
    constexpr std::array kUnary{kErf, kTanh, kAbs, kNeg, kRelu};
    constexpr std::array kBinary{kAdd, kSub, kMul, kMin, kMax, kDiv};
    for (int i = 0; i < operators; ++i) {
      const size_t first = next(3) == 0 ? next(want_.size()) : want_.size() - 1;
      if (next(3) == 0)
        run(kUnary[next(kUnary.size())], {first});
      else if (const size_t second = next(want_.size()); next(2) == 0)
        run(kBinary[next(kBinary.size())], {first, second});
      else
        run(kBinary[next(kBinary.size())], {second, first});
      if (next(5) == 0) expect_same(next(want_.size()));
    }
    for (size_t i = want_.size(); i-- > 0;) expect_same(i);
  }

 private:
  size_t next(size_t below) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % below;
  }
  void add(const EvalTensor& x) {
    want_.push_back(x);
    got_.push_back(device_.copied(x));
  }
  void run(OpKind op, const std::vector<size_t>& from) {
    Shape shape;
    std::vector<const EvalTensor*> want, got;
    for (const size_t i : from) {
      shape = broadcast_shape(shape, want_[i].shape);
      want.push_back(&want_[i]);
      got.push_back(&got_[i]);
    }
    std::vector<EvalTensor> y(1), there(1);
    y[0] = EvalTensor(DType::kF64, shape);
    there[0] = EvalTensor::shaped(DType::kF64, shape);
    const Rounding exact;
    evaluator(op)({{}, want, y, exact});
    ASSERT_TRUE(device_.takes(op, {{}, got, there, exact}));
    device_.evaluate(op, {{}, got, there, exact});
    want_.push_back(std::move(y[0]));
    got_.push_back(std::move(there[0]));
  }
  // The same numbers, but for the last places of erf and tanh and what quotients make of them.
  void expect_same(size_t i) {
    EvalTensor got = got_[i];
    got.to_host();
    ASSERT_EQ(got.f.size(), want_[i].f.size());
    for (size_t e = 0; e < got.f.size(); ++e) {
      const double want = want_[i].f[e];
      if (!std::isfinite(want) || std::abs(want) > 1e6 || !std::isfinite(got.f[e])) continue;
      ASSERT_NEAR(got.f[e], want, 1e-7 * (1 + std::abs(want))) << "result " << i << ", " << e;
    }
  }

  Fp64Device& device_;
  uint64_t state_;
  std::vector<EvalTensor> want_, got_;
};

TEST_F(OperatorsInFp64, WaitForEachOtherWithTheSameResults) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Chains(*device_, seed).draw(24);
    if (HasFatalFailure()) return;
  }
}

// Masks [rows, 1, queries, keys] as exporters write them.
TEST_F(OperatorsInFp64, CombineLargeMasks) {
  using enum OpKind;
  const auto bits = [](Shape shape, int64_t period) {
    EvalTensor t(DType::kBool, std::move(shape));
    for (int64_t i = 0; i < t.elems(); ++i) t.i[i] = i % period != 0;
    return t;
  };
  const auto result = [](DType type) {
    return std::vector{EvalTensor::shaped(type, {2, 1, 390, 401})};
  };
  for (const OpKind op : {kAnd, kOr}) {
    const Call call{
        op, {}, {bits({1, 1, 390, 1}, 3), bits({2, 1, 1, 401}, 5)}, result(DType::kBool)};
    const std::vector<EvalTensor> got = by_device(*device_, call);
    ASSERT_EQ(got.size(), 1);
    EXPECT_EQ(got[0].i, by_evaluator(call)[0].i);
    EXPECT_TRUE(got[0].f.empty());
  }
  const EvalTensor keys = bits({2, 1, 1, 401}, 7);
  const Call expand{
      kExpand, {}, {keys, integers(DType::kI64, {4}, {2, 1, 390, 401})}, result(DType::kBool)};
  EXPECT_EQ(by_device(*device_, expand).at(0).i, by_evaluator(expand)[0].i);

  // Not and Where take a mask that lies there.
  const EvalTensor mask = by_evaluator(expand)[0];
  const EvalTensor there = device_->copied(mask);
  const Rounding exact;
  std::vector<EvalTensor> y = result(DType::kBool);
  const std::vector<const EvalTensor*> one{&there};
  ASSERT_TRUE(device_->takes(kNot, {{}, one, y, exact}));
  device_->evaluate(kNot, {{}, one, y, exact});
  y[0].to_host();
  EXPECT_EQ(y[0].i, by_evaluator({kNot, {}, {mask}, result(DType::kBool)})[0].i);
  EvalTensor yes(DType::kF32, {}), no(DType::kF32, {});
  no.f[0] = -1e4;
  std::vector<EvalTensor> chosen = result(DType::kF32);
  const std::vector<const EvalTensor*> three{&there, &yes, &no};
  ASSERT_TRUE(device_->takes(kWhere, {{}, three, chosen, exact}));
  device_->evaluate(kWhere, {{}, three, chosen, exact});
  chosen[0].to_host();
  EXPECT_EQ(chosen[0].f, by_evaluator({kWhere, {}, {mask, yes, no}, result(DType::kF32)})[0].f);
}

// Overflow, halves, subnormal numbers, NaN, of every float type, to the nearest and toward zero.
TEST_F(OperatorsInFp64, RoundNumbersToTheSameBits) {
  EvalTensor x = random_tensor({4096}, 3);
  for (size_t i = 0; i < x.f.size(); ++i)
    x.f[i] *= std::ldexp(1.0, static_cast<int>(i % 320) - 160);
  const std::vector<double> special{
      0.0,          -0.0,    1.0 + 0x1p-11, 65504, 65520, 1e300, -1e300, HUGE_VAL, -HUGE_VAL,
      std::nan(""), 0x1p-25, 0x1.8p-25,     448,   464,   127.5, -127.5, 5e-324};
  std::copy(special.begin(), special.end(), x.f.begin());
  using Mode = PointRounding::Mode;
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kTF32, DType::kF8E4M3,
                           DType::kF8E5M2, DType::kQ8, DType::kQ4}) {
    for (const Mode mode : {Mode::kNearest, Mode::kTruncate}) {
      const PointRounding rounding{.type = type, .mode = mode};
      EvalTensor got = device_->rounded(rounding, x);
      got.to_host();
      for (size_t i = 0; i < x.f.size(); ++i) {
        const double want = rounded(rounding, x.f[i]);
        const bool same = got.f[i] == want ? std::signbit(got.f[i]) == std::signbit(want)
                                           : std::isnan(got.f[i]) && std::isnan(want);
        EXPECT_TRUE(same) << x.f[i] << " to " << name(type) << ": " << got.f[i] << ", expected "
                          << want;
      }
    }
  }
}

TEST_F(OperatorsInFp64, DrawTheNoiseOfTheEvaluators) {
  for (const int64_t count : {1, 31, 32, 33, 511, 512, 513, 100'003}) {
    EvalTensor x = random_tensor({count}, 7);
    x.f[0] = 3;
    std::vector<double> want(x.f.size());
    reference::noise_each(x.f.data(), want.data(), count, 1e-3, 12345);
    EvalTensor got = device_->perturbed(x, {.size = 1e-3, .seed = 12345});
    got.to_host();
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got.f[i], want[i], 1e-15 * std::abs(want[i])) << i << " of " << count;
    EXPECT_NE(got.f[0], 3);
    got = device_->perturbed(x, {.size = 1e-3, .seed = 12345, .keeps_whole_numbers = true});
    got.to_host();
    EXPECT_EQ(got.f[0], 3);
  }
}

TEST_F(OperatorsInFp64, CopyRowsAndViewsAndCompare) {
  const EvalTensor x = random_tensor({5, 6, 7}, 1), base = random_tensor({4, 7}, 2);
  EvalTensor view = device_->strided(to_gpu(x), {7, 3, 2}, {1, 14, 42}, 3);
  view.to_host();
  int64_t at = 0;
  for (int64_t i = 0; i < 7; ++i)
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t k = 0; k < 2; ++k, ++at) EXPECT_EQ(view.f[at], x.f[3 + i + 14 * j + 42 * k]);
  const std::vector<int64_t> places{29, 0, 3};
  EvalTensor rows = device_->with_rows(to_gpu(base), {to_gpu(x), places, 7});
  rows.to_host();
  for (int64_t row = 0; row < 4; ++row)
    for (int64_t j = 0; j < 7; ++j)
      EXPECT_EQ(rows.f[row * 7 + j], row < 3 ? x.f[places[row] * 7 + j] : base.f[21 + j]);

  EvalTensor other = x;
  other.f[17] += 2;
  EvalTensor odd = x;
  odd.f[5] = HUGE_VAL;
  const SquaredDifference d = device_->difference(to_gpu(other), x);
  double squares = 0;
  for (const double v : x.f) squares += v * v;
  EXPECT_NEAR(d.squares, 4, 1e-12);
  EXPECT_NEAR(d.reference, squares, 1e-12 * squares);
  EXPECT_TRUE(d.agree);
  EXPECT_TRUE(device_->difference(to_gpu(odd), odd).agree);
  EXPECT_FALSE(device_->difference(to_gpu(odd), x).agree);
}

// Constants that are kept, and threads that evaluate beside each other.
TEST_F(OperatorsInFp64, ThreadsEvaluateBesideEachOther) {
  constexpr int kThreads = 12, kRounds = 10;
  const EvalTensor w = random_tensor({257, 257}, 5);
  device_->keep(w.f.data(), std::ssize(w.f));
  std::vector<int64_t> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto seed = static_cast<uint64_t>(t);
      EvalTensor want = random_tensor({129, 257}, seed), got = to_gpu(want);
      const std::vector<EvalTensor> norm{random_tensor({257}, seed + 50)};
      for (int round = 0; round < kRounds; ++round) {
        for (EvalTensor* x : {&want, &got}) {
          EvalTensor product = EvalTensor::shaped(DType::kF64, {129, 257});
          EvalTensor y = product;
          const std::vector<const EvalTensor*> of_product{x, &w}, of_norm{&product, &norm[0]};
          const Rounding exact;
          const AttrBytes none = parse_attrs(OpKind::kMatMul, ""),
                          attrs = parse_attrs(OpKind::kLayerNorm, "");
          if (x == &got) {
            device_->evaluate(OpKind::kMatMul, {none, of_product, {&product, 1}, exact});
            device_->evaluate(OpKind::kLayerNorm, {attrs, of_norm, {&y, 1}, exact});
          } else {
            product = EvalTensor(DType::kF64, product.shape);
            y = product;
            evaluator(OpKind::kMatMul)({none, of_product, {&product, 1}, exact});
            evaluator(OpKind::kLayerNorm)({attrs, of_norm, {&y, 1}, exact});
          }
          *x = std::move(y);
        }
      }
      got.to_host();
      wrong[t] = far_elements(got, want, 1e-9);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(wrong[t], 0) << "thread " << t;
  device_->forget(w.f.data());
}

}  // namespace
}  // namespace vernier::backend::test
