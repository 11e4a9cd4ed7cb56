// Timed cases (backend/timing.h) of products and attention at the sizes of BERT base and large.
#include <algorithm>
#include <cmath>

#include "backend/timing.h"
#include "core/convert.h"

namespace vernier::backend::test {
namespace {

// Types of operands; TF32 is f32 whose products may be TF32.
constexpr std::array kTypes{DType::kF16, DType::kBF16, DType::kTF32, DType::kF32};
DType stored(DType type) { return type == DType::kTF32 ? DType::kF32 : type; }
void ask(OpCase& c, DType type) {
  if (type != DType::kTF32) return;
  c.asked.compute.type = DType::kTF32;
  c.asked.by = "a timing";
}
std::string sizes(std::initializer_list<int64_t> all) {
  std::string text;
  for (int64_t size : all) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

// Numbers of i8 as q8.
Tensor bytes_of(const Tensor& integers) {
  return Tensor::from_bytes(DType::kQ8, integers.shape(), integers.byte_span());
}

Arg constant(Tensor value) { return {.value = std::move(value), .constant = true}; }
Arg in_batch(Tensor value) { return {.value = std::move(value), .batch_axis = 0}; }

struct Product {
  int64_t m, k, n;
  Activation activation;
  DType type;
};

OpCase linear(const Product& p) {
  const DType type = stored(p.type);
  OpCase c{.op = OpKind::kLinear, .attrs = encode(LinearAttrs{.activation = p.activation})};
  c.inputs = {in_batch(repeated(type, {p.m, p.k})), constant(repeated(type, {p.k, p.n})),
              constant(repeated(type, {p.n}))};
  c.outputs = {{.dtype = type, .shape = {p.m, p.n}}};
  c.ulps = 16 + std::sqrt(static_cast<double>(p.k));
  ask(c, p.type);
  return c;
}

const TimedCases kLinear([] {
  std::vector<TimedCase> all;
  for (DType type : kTypes) {
    for (int64_t m : {16384, 4096, 512, 128, 32, 1}) {
      for (const auto& [k, n] : std::vector<std::pair<int64_t, int64_t>>{{768, 2304},
                                                                         {768, 768},
                                                                         {768, 3072},
                                                                         {3072, 768},
                                                                         {1024, 3072},
                                                                         {1024, 1024},
                                                                         {1024, 4096},
                                                                         {4096, 1024},
                                                                         {4096, 4096}}) {
        for (Activation activation : {Activation::kNone, Activation::kGeluErf}) {
          const Product p{m, k, n, activation, type};
          const char* gelu = activation == Activation::kNone ? " " : " gelu ";
          all.push_back({.name = "Linear " + sizes({m, k, n}) + gelu + std::string(name(type)),
                         .make = [p] { return linear(p); }});
        }
      }
    }
  }
  return all;
});

// Operands q8 with scales and zero points by row, or f8e4m3 with scales, results f16.
OpCase quantized(const Product& p) {
  const bool is_f8 = p.type == DType::kF8E4M3;
  const auto operand = [is_f8](const Shape& shape) {
    const Tensor drawn = repeated(DType::kF16, shape);
    return is_f8 ? converted(drawn, DType::kF8E4M3) : bytes_of(repeated(DType::kI8, shape));
  };
  OpCase c{.op = OpKind::kQuantizedLinear,
           .attrs = encode(QuantizedLinearAttrs{.activation = p.activation})};
  const auto by_row = [&p] {
    Arg arg = in_batch(repeated(DType::kF32, {p.m, 1}));
    arg.stays_f32 = true;
    return arg;
  };
  c.inputs = {in_batch(operand({p.m, p.k})),          constant(operand({p.k, p.n})), by_row(),
              constant(repeated(DType::kF32, {p.n})), is_f8 ? Arg{} : by_row(),      {},
              constant(repeated(DType::kF16, {p.n}))};
  c.outputs = {{.dtype = DType::kF16, .shape = {p.m, p.n}}};
  c.ulps = 16 + std::sqrt(static_cast<double>(p.k));
  return c;
}

OpCase quantized_rows(int64_t rows, int64_t cols) {
  OpCase c{.op = OpKind::kQuantizeRows, .attrs = encode(QuantizeRowsAttrs{})};
  c.inputs = {in_batch(repeated(DType::kF16, {rows, cols}))};
  c.outputs = {
      {.dtype = DType::kQ8, .shape = {rows, cols}}, {.shape = {rows, 1}}, {.shape = {rows, 1}}};
  return c;
}

const TimedCases kQuantizedLinear([] {
  std::vector<TimedCase> all;
  for (int64_t m : {16384, 4096, 512, 128}) {
    for (const auto& [k, n] : std::vector<std::pair<int64_t, int64_t>>{{384, 1152},
                                                                       {384, 1536},
                                                                       {1536, 384},
                                                                       {768, 768},
                                                                       {768, 3072},
                                                                       {3072, 768},
                                                                       {1024, 3072},
                                                                       {1024, 1024},
                                                                       {1024, 4096},
                                                                       {4096, 1024}}) {
      for (Activation activation : {Activation::kNone, Activation::kGeluErf}) {
        const char* gelu = activation == Activation::kNone ? " " : " gelu ";
        for (const DType type : {DType::kQ8, DType::kF8E4M3}) {
          const Product p{m, k, n, activation, type};
          all.push_back(
              {.name = "QuantizedLinear " + sizes({m, k, n}) + gelu + std::string(name(type)),
               .make = [p] { return quantized(p); }});
        }
      }
    }
    for (int64_t cols : {384, 768, 1024, 1536, 3072, 4096}) {
      all.push_back({.name = "QuantizeRows " + sizes({m, cols}) + " f16",
                     .make = [m, cols] { return quantized_rows(m, cols); }});
    }
  }
  return all;
});

OpCase linear_norm(const Product& p) {
  OpCase c{.op = OpKind::kLinearAddLayerNorm, .attrs = encode(LinearNormAttrs{.epsilon = 1e-5})};
  const auto parameter = [&p] { return constant(repeated(DType::kF32, {p.n})); };
  c.inputs = {in_batch(repeated(p.type, {p.m, p.k})),
              constant(repeated(p.type, {p.k, p.n})),
              parameter(),
              in_batch(repeated(p.type, {p.m, p.n})),
              parameter(),
              parameter()};
  c.outputs = {{.dtype = p.type, .shape = {p.m, p.n}}};
  c.ulps = 16 + std::sqrt(static_cast<double>(p.k)) + 2 * std::sqrt(static_cast<double>(p.n));
  return c;
}

const TimedCases kLinearNorm([] {
  std::vector<TimedCase> all;
  for (int64_t m : {16384, 4096, 2048, 1024, 128}) {
    for (const auto& [k, n] : std::vector<std::pair<int64_t, int64_t>>{{384, 384},
                                                                       {1536, 384},
                                                                       {512, 512},
                                                                       {2048, 512},
                                                                       {1024, 256},
                                                                       {768, 768},
                                                                       {1024, 1024}}) {
      const Product p{m, k, n, Activation::kNone, DType::kF16};
      all.push_back({.name = "LinearAddLayerNorm " + sizes({m, k, n}) + " f16",
                     .make = [p] { return linear_norm(p); }});
    }
  }
  return all;
});

// kPositions: padding and scores by relative position, as DeBERTa-v3 has them.
enum class Mask : uint8_t { kNone, kPadding, kBias, kCausal, kPositions };
constexpr std::array<const char*, 5> kMasks{"", " padding", " bias", " causal", " positions"};

struct Attended {
  int64_t batch, heads, length, dim;
  Mask mask;
  DType type;
};

// Item b of a batch has length - (b mod 3)·length/3 keys.
bool is_padding(const Attended& a, int64_t item, int64_t key) {
  return key >= a.length - item % 3 * a.length / 3;
}

// Of each distance i - j one of 512: near ones have their own, far ones share.
// Source: He et al., DeBERTa, arXiv:2006.03654.
Tensor buckets(int64_t length) {
  constexpr double kBuckets = 256, kLongest = 512, kNear = kBuckets / 2;
  std::vector<int64_t> all;
  for (int64_t at = 0; at < 2 * length; ++at) {
    const auto distance = static_cast<double>(at - length);
    const double far = std::abs(distance);
    const double shared =
        std::ceil(std::log(far / kNear) / std::log((kLongest - 1) / kNear) * (kNear - 1)) + kNear;
    const double own = far <= kNear ? distance : std::copysign(shared, distance);
    all.push_back(static_cast<int64_t>(std::clamp(own + kBuckets, 0.0, 2 * kBuckets - 1)));
  }
  return Tensor::from(DType::kI64, {2 * length}, std::span<const int64_t>(all));
}

void add_positions(const Attended& a, OpCase& c) {
  using enum AttentionAttrs::Input;
  c.inputs.resize(kKeyBuckets + 1);
  for (size_t i : {kQueryPositions, kKeyPositions})
    c.inputs[i] = in_batch(repeated(stored(a.type), {a.batch, a.length, a.heads, 512}));
  for (size_t i : {kQueryBuckets, kKeyBuckets}) c.inputs[i] = {.value = buckets(a.length)};
}

OpCase attention(const Attended& a) {
  const DType type = stored(a.type);
  AttentionAttrs attrs{.causal = a.mask == Mask::kCausal};
  attrs.scale = 1.0 / std::sqrt(static_cast<double>(a.dim));
  OpCase c{.op = OpKind::kAttention, .attrs = encode(attrs)};
  const Shape rows{a.batch, a.length, a.heads, a.dim}, keys{a.batch, 1, 1, a.length};
  c.inputs = {in_batch(repeated(type, rows)), in_batch(repeated(type, rows)),
              in_batch(repeated(type, rows))};
  const bool keep = a.mask == Mask::kPadding || a.mask == Mask::kPositions;
  if (keep || a.mask == Mask::kBias) {
    std::vector<double> table;
    for (int64_t i = 0; i < a.batch * a.length; ++i) {
      const bool hidden = is_padding(a, i / a.length, i % a.length);
      table.push_back(a.mask == Mask::kBias ? hidden * -10000.0 : 1.0 - hidden);
    }
    const DType table_type = a.mask == Mask::kBias ? type : DType::kBool;
    if (keep) c.inputs.emplace_back();
    c.inputs.push_back(in_batch(Tensor::from(table_type, keys, std::span<const double>(table))));
  }
  if (a.mask == Mask::kPositions) add_positions(a, c);
  c.outputs = {{.dtype = type, .shape = rows}};
  c.ulps = 64;
  ask(c, a.type);
  return c;
}

// batch, heads, length, head size
const TimedCases kAttention([] {
  std::vector<TimedCase> all;
  for (DType type : kTypes) {
    for (const std::array<int64_t, 4>& s : std::vector<std::array<int64_t, 4>>{{32, 16, 512, 64},
                                                                               {128, 16, 512, 64},
                                                                               {16, 16, 2048, 64},
                                                                               {32, 16, 128, 64},
                                                                               {1, 16, 128, 64},
                                                                               {1, 12, 128, 64},
                                                                               {16, 16, 512, 128},
                                                                               {8, 16, 2048, 128},
                                                                               {32, 16, 512, 32},
                                                                               {128, 12, 128, 64},
                                                                               {128, 12, 128, 32},
                                                                               {1, 12, 128, 32}}) {
      for (Mask mask :
           {Mask::kNone, Mask::kPadding, Mask::kBias, Mask::kCausal, Mask::kPositions}) {
        if (mask == Mask::kPositions && (s[2] > 512 || s[3] != 64)) continue;
        const Attended a{s[0], s[1], s[2], s[3], mask, type};
        all.push_back({.name = "Attention " + sizes({s[0], s[1], s[2], s[3]}) +
                               kMasks[static_cast<size_t>(mask)] + " " + std::string(name(type)),
                       .make = [a] { return attention(a); }});
      }
    }
  }
  return all;
});

}  // namespace
}  // namespace vernier::backend::test
