// Linear with 16-bit weights (cpu.linear.onednn_bf16, cpu.linear.f16), on oneDNN where the machine
// has it and on our own product: values against FP64 of the rounded operands, special values, row
// bits, packing, and the epilogue's conversions against core/dtype.h.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/targets.h"
#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

constexpr std::string_view kBf16Row = "cpu.linear.onednn_bf16", kF16Row = "cpu.linear.f16";

struct LinearShape {
  int64_t m, k, n;
};
/// Types of one case; kUndefined: no bias, no residual.
struct Types {
  DType x, weight, bias, residual, out;
};

Tensor as_type(DType type, const Tensor& t) {
  std::vector<double> values(static_cast<size_t>(t.elems()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = t.float_at(static_cast<int64_t>(i));
  return Tensor::from(type, t.shape(), std::span<const double>(values));
}
Tensor with_element(const Tensor& t, int64_t index, double value) {
  std::vector<std::byte> bytes(t.data(), t.data() + t.bytes());
  store_float(t.dtype(), value, bytes.data() + static_cast<size_t>(index) * size_bytes(t.dtype()));
  return Tensor::from_bytes(t.dtype(), t.shape(), bytes);
}

OpCase linear_case(Maker& make, const LinearShape& s, const Types& types,
                   const LinearAttrs& attrs = {}) {
  OpCase c{.op = OpKind::kLinear, .attrs = encode(attrs)};
  c.name = std::to_string(s.m) + "x" + std::to_string(s.k) + "x" + std::to_string(s.n);
  for (DType type : {types.x, types.weight, types.bias, types.residual, types.out})
    c.name += " " + std::string(name(type));
  const auto normal = [&make](DType type, const Shape& shape) {
    return type == DType::kUndefined ? Tensor() : as_type(type, make.normal(shape));
  };
  c.inputs = {{.value = normal(types.x, {s.m, s.k}), .batch_axis = 0},
              {.value = normal(types.weight, attrs.trans_w ? Shape{s.n, s.k} : Shape{s.k, s.n}),
               .constant = true},
              {.value = normal(types.bias, {s.n})},
              {.value = normal(types.residual, {s.m, s.n}), .batch_axis = 0}};
  c.outputs = {{.dtype = types.out, .shape = {s.m, s.n}}};
  return c;
}

// The row as it is here, as it is without tile registers, and where oneDNN has no bf16.
std::vector<KernelDef> variants(std::string_view row) {
  const KernelDef* kernel = find_kernel(cpu_backend(), row);
  EXPECT_NE(kernel, nullptr) << row;
  if (kernel == nullptr) return {};
  std::vector<KernelDef> list{*kernel};
  if (row != kBf16Row) return list;
  KernelDef onednn = *kernel;
  onednn.name = "cpu.linear.onednn_bf16 without tiles";
  onednn.create = [](const CreateCall& call) -> std::unique_ptr<KernelState> {
    return cpu::make_linear(cpu::packed_weight(call, DType::kBF16), call.execution.threads->size(),
                            /*tiles=*/false);
  };
  list.push_back(onednn);
  KernelDef own = *kernel;
  own.name = "cpu.linear.onednn_bf16 on our own product";
  own.create = [](const CreateCall& call) -> std::unique_ptr<KernelState> {
    return cpu::make_highway_linear(cpu::packed_weight(call, DType::kBF16));
  };
  list.push_back(own);
  return list;
}

// Half an ulp of `type` at x.
double half_ulp(DType type, double x) {
  const bool half = type == DType::kF16;
  const double relative = half ? 0x1p-11 : type == DType::kBF16 ? 0x1p-8 : 0x1p-24;
  return std::max(relative * std::abs(x), half ? 0x1p-25 : 0);
}

// |got - want| <= half an ulp of the stored type + 8·√K·2^-24·Σ|x||w|, and the f32 roundings of
// bias, activation (its slope is at most 1.13, its error 4e-7) and residual.
std::string compare16(const OpCase& c, const Tensor& got) {
  const EvalTensor want = run_reference(c)[0];
  const Tensor& x = c.inputs[0].value;
  const EvalTensor w = EvalTensor::from(c.inputs[1].value);
  const bool trans = decode<LinearAttrs>(c.attrs).trans_w;
  const int64_t k = x.shape()[1], n = got.shape()[1];
  for (int64_t i = 0; i < got.elems(); ++i) {
    double sum = 0, rest = std::abs(want.f[static_cast<size_t>(i)]);
    for (int64_t j = 0; j < k; ++j) {
      const int64_t at = trans ? i % n * k + j : j * n + i % n;
      sum += std::abs(x.float_at(i / n * k + j) * w.f[static_cast<size_t>(at)]);
    }
    if (c.inputs[2].value.defined()) rest += std::abs(c.inputs[2].value.float_at(i % n));
    if (c.inputs[3].value.defined()) rest += std::abs(c.inputs[3].value.float_at(i));
    const double b = want.f[static_cast<size_t>(i)], a = got.float_at(i);
    const double stored = round_to(got.dtype(), b);
    const double limit = half_ulp(got.dtype(), b) +
                         1.13 * 8 * std::sqrt(static_cast<double>(k)) * 0x1p-24 * sum +
                         4 * 0x1p-24 * rest + 4e-7 * std::max(1.0, std::min(rest, sum));
    const bool same = std::isnan(b)        ? std::isnan(a)
                      : std::isinf(stored) ? a == stored
                                           : std::abs(a - b) <= limit;
    if (same) continue;
    return "element " + std::to_string(i) + ": " + std::to_string(a) + ", expected " +
           std::to_string(b) + ", limit " + std::to_string(limit);
  }
  return "";
}

const std::vector<Types>& type_table(std::string_view row) {
  constexpr DType b = DType::kBF16, h = DType::kF16, f = DType::kF32, none = DType::kUndefined;
  static const std::vector<Types> bf16{{b, b, none, none, b}, {b, b, f, none, b}, {b, b, b, b, b},
                                       {b, b, f, f, b},       {b, b, b, f, f},    {b, b, f, b, f},
                                       {b, b, f, none, h},    {b, b, h, h, h},    {b, b, h, b, f}};
  static const std::vector<Types> f16{{h, h, none, none, h}, {h, h, f, none, h},
                                      {h, h, h, h, h},       {f, h, f, f, f},
                                      {h, h, f, f, h},       {f, h, none, h, h}};
  return row == kBf16Row ? bf16 : f16;
}

TEST(CpuLinear16, MatchesTheProductOfTheRoundedOperands) {
  Maker make(31);
  const std::vector<LinearAttrs> attrs{{},
                                       {.activation = Activation::kGeluErf, .trans_w = true},
                                       {.activation = Activation::kGeluTanh},
                                       {.activation = Activation::kRelu, .trans_w = true},
                                       {.activation = Activation::kTanh}};
  size_t turn = 0;
  for (std::string_view row : {kBf16Row, kF16Row}) {
    for (const Types& types : type_table(row)) {
      for (const LinearShape& s : std::vector<LinearShape>{{1, 1, 1},
                                                           {3, 17, 33},
                                                           {5, 33, 127},
                                                           {17, 64, 64},
                                                           {35, 48, 130},
                                                           {131, 96, 1090}}) {
        const OpCase c = linear_case(make, s, types, attrs[turn++ % attrs.size()]);
        for (const KernelDef& kernel : variants(row)) {
          ASSERT_EQ(kernel.supports(make_problem(c)).reason, "") << c.name;
          for_each_target([&](const std::string& target) {
            const std::string where = std::string(kernel.name) + " " + c.name + " on " + target;
            const Tensor one = run_kernel(kernel, c, {})[0];
            EXPECT_EQ(compare16(c, one), "") << where;
            EXPECT_EQ(compare_bits(run_kernel(kernel, c, {.threads = 2})[0], one), "") << where;
            EXPECT_EQ(compare_bits(run_kernel(kernel, c, {.strided = true})[0], one), "") << where;
          });
        }
      }
    }
  }
}

TEST(CpuLinear16, SpecialValuesArriveWhereTheyBelong) {
  Maker make(32);
  for (std::string_view row : {kBf16Row, kF16Row}) {
    const DType type = row == kBf16Row ? DType::kBF16 : DType::kF16;
    const double max = type == DType::kBF16 ? 3.3895313892515355e38 : 65504;
    for (const LinearAttrs& attrs :
         std::vector<LinearAttrs>{{}, {.activation = Activation::kRelu}}) {
      const OpCase c = linear_case(make, {21, 70, 131}, {type, type, type, type, type}, attrs);
      for (size_t input = 0; input < 4; ++input) {
        const int64_t elems = c.inputs[input].value.elems();
        for (int64_t at : {int64_t{0}, elems / 2, elems - 1}) {
          for (double value : {double{NAN}, double{INFINITY}, -double{INFINITY}, max, -max}) {
            OpCase poisoned = c;
            poisoned.inputs[input].value = with_element(c.inputs[input].value, at, value);
            for (const KernelDef& kernel : variants(row)) {
              EXPECT_EQ(compare16(poisoned, run_kernel(kernel, poisoned, {})[0]), "")
                  << kernel.name << " input " << input << " element " << at << " = " << value;
            }
          }
        }
      }
    }
  }
}

// Rows [0, m) of the case, without a residual.
OpCase first_rows(const OpCase& c, int64_t m) {
  OpCase part = c;
  part.inputs.resize(3);
  const Tensor& x = c.inputs[0].value;
  const auto bytes = static_cast<size_t>(m * x.shape()[1]) * size_bytes(x.dtype());
  part.inputs[0].value =
      Tensor::from_bytes(x.dtype(), {m, x.shape()[1]}, x.byte_span().first(bytes));
  part.outputs[0].shape[0] = m;
  return part;
}

TEST(CpuLinear16, RowBitsDependOnNeitherRowsNorThreads) {
  Maker make(33);
  for (std::string_view row : {kBf16Row, kF16Row}) {
    const DType type = row == kBf16Row ? DType::kBF16 : DType::kF16;
    // f32 results: equal sums show, not only equal roundings of them.
    for (const LinearShape& s : std::vector<LinearShape>{{512, 256, 256},
                                                         {512, 768, 2304},
                                                         {512, 3072, 768},
                                                         {512, 1024, 1024},
                                                         {512, 80, 96},
                                                         {512, 127, 100}}) {
      const OpCase full =
          linear_case(make, s, {type, type, DType::kF32, DType::kUndefined, DType::kF32},
                      {.activation = Activation::kGeluErf});
      for (const KernelDef& kernel : variants(row)) {
        const Tensor all = run_kernel(kernel, first_rows(full, 512), {})[0];
        for (int64_t m : {1, 2, 3, 4, 5, 8, 16, 31, 32, 64, 100, 128, 300, 512}) {
          for (int threads : {1, 2}) {
            const Tensor y = run_kernel(kernel, first_rows(full, m), {.threads = threads})[0];
            ASSERT_EQ(std::memcmp(y.data(), all.data(), y.bytes()), 0)
                << kernel.name << " K=" << s.k << " N=" << s.n << " M=" << m
                << " threads=" << threads;
          }
        }
      }
    }
  }
}

TEST(CpuLinear16, PackedWeightsAreTheRoundedOnes) {
  Maker make(34);
  for (std::string_view row : {kBf16Row, kF16Row}) {
    const KernelDef& kernel = *find_kernel(cpu_backend(), row);
    const DType type = row == kBf16Row ? DType::kBF16 : DType::kF16;
    for (bool trans : {false, true}) {
      OpCase c =
          linear_case(make, {2, 33, 130}, {type, type, type, type, type}, {.trans_w = trans});
      // Half a step of f16 and of bf16 at 1, and a little more: rounding twice would lose it.
      Tensor wide = with_element(make.normal(trans ? Shape{130, 33} : Shape{33, 130}), 5, NAN);
      wide = with_element(as_type(DType::kF64, wide), 7, 1 + 0x1p-8 + 0x1p-40);
      wide = with_element(wide, 8, 1 + 0x1p-11 + 0x1p-40);
      for (DType contents : {DType::kF64, DType::kF32, type}) {
        Problem problem = make_problem(c);
        const Tensor weight = as_type(contents, wide);
        problem.inputs[1].constant = &weight;
        ASSERT_TRUE(kernel.supports(problem));
        const auto packed = kernel.pack(problem);
        ASSERT_EQ(packed.size(), 1u);
        problem.inputs[1].constant = nullptr;
        problem.inputs[1].packed = true;
        ASSERT_TRUE(kernel.supports(problem));
        const auto expected = kernel.packed_layouts(problem);
        ASSERT_EQ(expected.size(), 1u);
        EXPECT_EQ(expected[0].layout, packed[0].layout);
        EXPECT_EQ(expected[0].bytes, packed[0].bytes.size());
        for (const KernelDef& other : cpu_backend().kernels) {
          if (other.op != OpKind::kLinear || other.pack == nullptr || other.name == row) continue;
          if (!other.supports(problem)) continue;
          EXPECT_NE(other.packed_layouts(problem)[0].layout, packed[0].layout) << other.name;
        }
        const Tensor plain = kernel.unpack(problem, {1, packed[0].layout, packed[0].bytes});
        EXPECT_EQ(plain.dtype(), type);
        EXPECT_EQ(compare_bits(plain, as_type(type, weight)), "") << row << name(contents);
      }
    }
  }
}

TEST(CpuLinear16, SaysWhyItDoesNotFitAndWhatItRounds) {
  Maker make(35);
  constexpr DType b = DType::kBF16, h = DType::kF16, f = DType::kF32;
  const KernelDef& bf16 = *find_kernel(cpu_backend(), kBf16Row);
  const KernelDef& f16 = *find_kernel(cpu_backend(), kF16Row);
  const auto reason = [&](const KernelDef& kernel, const Types& types) {
    const OpCase c = linear_case(make, {2, 3, 4}, types);
    return kernel.supports(make_problem(c)).reason;
  };
  EXPECT_EQ(reason(bf16, {f, f, f, f, f}), "the weight is f32, this kernel takes bf16");
  EXPECT_EQ(reason(bf16, {f, b, f, f, f}), "input 0 is f32, this kernel takes bf16");
  EXPECT_EQ(reason(bf16, {b, b, h, f, h}), "");
  EXPECT_EQ(reason(bf16, {b, b, DType::kI32, f, f}),
            "input 2 is i32, this kernel takes bf16, f16 or f32");
  EXPECT_EQ(reason(f16, {h, h, f, f, b}), "the output is bf16, this kernel takes f16 or f32");

  const OpCase c = linear_case(make, {2, 3, 4}, {b, b, f, b, f});
  const Numerics numerics = bf16.numerics(make_problem(c));
  EXPECT_EQ(numerics.store, f);
  EXPECT_TRUE(satisfies(numerics, {.compute = {b}, .accumulate = {f}, .store = {f}, .inner = {f}}));
  EXPECT_FALSE(satisfies(numerics, {.compute = {f}}));
  EXPECT_EQ(f16.numerics(make_problem(linear_case(make, {2, 3, 4}, {h, h, f, f, h}))).compute, h);
}

TEST(CpuLinear16, TheEpilogueConvertsAsCoreDoes) {
  std::vector<float> src;
  for (uint32_t i = 0; i < 0x10000u; ++i) {  // every sign and exponent; near and at halfway
    for (uint32_t low : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      src.push_back(std::bit_cast<float>(i << 16 | low));
  }
  const auto count = static_cast<int64_t>(src.size());
  std::vector<uint16_t> narrow(src.size()), every(0x10000);
  std::vector<float> wide(every.size()), zero(every.size(), -0.0f);
  for (size_t i = 0; i < every.size(); ++i) every[i] = static_cast<uint16_t>(i);
  for_each_target([&](const std::string& target) {
    for (DType type : {DType::kBF16, DType::kF16}) {
      cpu::linear_epilogue({.src = src.data(),
                            .dst = {reinterpret_cast<std::byte*>(narrow.data()), type},
                            .rows = 1,
                            .cols = count});
      for (size_t i = 0; i < src.size(); ++i) {
        const uint16_t want = type == DType::kBF16 ? f32_to_bf16(src[i]) : f32_to_f16(src[i]);
        ASSERT_EQ(narrow[i], want) << target << name(type) << std::bit_cast<uint32_t>(src[i]);
      }
      cpu::linear_epilogue({.src = zero.data(),
                            .dst = wide.data(),
                            .residual = {reinterpret_cast<const std::byte*>(every.data()), type},
                            .rows = 1,
                            .cols = static_cast<int64_t>(every.size())});
      for (size_t i = 0; i < every.size(); ++i) {
        const float want = type == DType::kBF16 ? bf16_to_f32(every[i]) : f16_to_f32(every[i]);
        if (std::isnan(want))
          ASSERT_TRUE(std::isnan(wide[i])) << target << name(type) << i;
        else
          ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(want))
              << target << name(type) << i;
      }
    }
  });
}

}  // namespace
}  // namespace vernier::backend::test
