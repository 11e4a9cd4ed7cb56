// Timed cases (backend/timing.h) of norms, embeddings and softmax: rows of 384 to 30,522 elements.
#include <cmath>

#include "backend/timing.h"

namespace vernier::backend::test {
namespace {

constexpr int64_t kElems = int64_t{1} << 26;  // of an array that exceeds any cache

Arg in_batch(Tensor value) { return {.value = std::move(value), .batch_axis = 0}; }
Arg parameter(int64_t cols) { return {.value = repeated(DType::kF32, {cols}), .constant = true}; }
std::string label(const char* what, int64_t rows, int64_t cols, DType type) {
  return what + std::string(" ") + std::to_string(rows) + "x" + std::to_string(cols) + " " +
         std::string(name(type));
}

enum class Norm : uint8_t { kLayer, kRMS, kAdd, kAddWithSum, kEmbed };
constexpr std::array<const char*, 5> kNames{"LayerNorm", "RMSNorm", "AddLayerNorm",
                                            "AddLayerNorm+sum", "EmbedNorm"};
constexpr std::array kOps{OpKind::kLayerNorm, OpKind::kRMSNorm, OpKind::kAddLayerNorm,
                          OpKind::kAddLayerNorm, OpKind::kEmbedNorm};

// BERT's tables: words, positions, token types.
void add_tables(OpCase& c, int64_t rows, int64_t cols, DType type) {
  Maker make(9);
  for (int64_t size : {30522, 512, 2}) {
    c.inputs.push_back(in_batch(make.integers(DType::kI64, {rows, 1}, 0, size - 1)));
    c.inputs.push_back({.value = repeated(type, {size, cols})});
  }
  c.attrs = encode(EmbedNormAttrs{.tables = 3, .epsilon = 1e-5});
}

OpCase norm(Norm kind, int64_t rows, int64_t cols, DType type) {
  OpCase c{.op = kOps[static_cast<size_t>(kind)],
           .attrs = encode(NormAttrs{.axis = -1, .epsilon = 1e-5})};
  if (kind == Norm::kEmbed) {
    add_tables(c, rows, cols, type);
  } else {
    c.inputs = {in_batch(repeated(type, {rows, cols}))};
    if (kind == Norm::kAdd || kind == Norm::kAddWithSum)
      c.inputs.push_back(in_batch(repeated(type, {rows, cols})));
  }
  c.inputs.push_back(parameter(cols));
  if (kind != Norm::kRMS) c.inputs.push_back(parameter(cols));
  const Shape shape = kind == Norm::kEmbed ? Shape{rows, 1, cols} : Shape{rows, cols};
  c.outputs.assign(kind == Norm::kAddWithSum ? 2 : 1, {.dtype = type, .shape = shape});
  c.ulps = 64 + 2 * std::sqrt(static_cast<double>(cols));
  return c;
}

const TimedCases kNorms([] {
  std::vector<TimedCase> all;
  for (Norm kind : {Norm::kLayer, Norm::kRMS, Norm::kAdd, Norm::kAddWithSum, Norm::kEmbed}) {
    for (DType type : {DType::kF16, DType::kBF16, DType::kF32}) {
      for (int64_t cols : {384, 768, 1024}) {
        for (int64_t rows : {int64_t{16384}, kElems / cols}) {
          const auto at = static_cast<size_t>(kind);
          // Of EmbedNorm a row of the one large table and the result.
          const double bytes =
              2.0 * static_cast<double>(rows * cols) * static_cast<double>(size_bytes(type));
          all.push_back({.name = label(kNames[at], rows, cols, type),
                         .make = [=] { return norm(kind, rows, cols, type); },
                         .bytes = kind == Norm::kEmbed ? bytes : 0});
        }
      }
    }
  }
  return all;
});

OpCase softmax(const Shape& shape, int64_t axis, DType type) {
  OpCase c{.op = OpKind::kSoftmax, .attrs = encode(AxisAttrs{.axis = axis})};
  c.inputs = {in_batch(repeated(type, shape))};
  c.outputs = {{.dtype = type, .shape = shape}};
  c.ulps = 64;
  return c;
}

const TimedCases kSoftmax([] {
  std::vector<TimedCase> all;
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t cols : {32, 128, 384, 512, 768, 1023, 1024, 2048, 3072, 8192, 30522}) {
      const Shape shape{kElems / cols, cols};
      all.push_back({.name = label("Softmax", shape[0], cols, type),
                     .make = [=] { return softmax(shape, -1, type); }});
    }
    all.push_back({.name = "Softmax axis 1 [64,512,2048] " + std::string(name(type)), .make = [=] {
                     return softmax({64, 512, 2048}, 1, type);
                   }});
  }
  return all;
});

}  // namespace
}  // namespace vernier::backend::test
