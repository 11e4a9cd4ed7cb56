// Numbers of rows that products are tuned for, and the timing of its variants. A step is
// tuned for each bucket and runs as the smallest one that holds its rows. Every variant gives the
// same bits.
#pragma once
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "backend/cuda/kernels/linear/linear.h"
#include "backend/kernel.h"

namespace vernier::backend::cuda {

inline constexpr std::array<int64_t, 9> kRowBuckets{1, 16, 64, 128, 256, 512, 1024, 4096, 16384};

/// Behind each of them a product may run in another variant.
inline constexpr std::array<VariantSize, kRowBuckets.size() - 2> kBucketVariants = [] {
  std::array<VariantSize, kRowBuckets.size() - 2> sizes{};
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i].size = kRowBuckets[i + 1];
  return sizes;
}();

/// A variant that is taken unless another is faster by more than `advantage` microseconds.
struct PreferredVariant {
  size_t variant;
  double advantage;
};

/// The index of the smallest bucket with at least `rows` rows, the last one beyond.
size_t bucket_of(int64_t rows);

/// The fastest variant in [0, variants): by the minimum of a few times of a recording of
/// several runs. A variant whose run throws is left out; `variants` where all do.
size_t fastest_variant(Device& device, size_t variants,
                       const std::function<void(size_t variant, const Execution& execution)>& run,
                       const std::optional<PreferredVariant>& preferred = std::nullopt);

/// One choice per bucket as text, and back: "a;b;c". Choices contain no ';'.
std::string record_text(const std::array<std::string, kRowBuckets.size()>& choices);
std::array<std::string, kRowBuckets.size()> record_of(std::string_view text);

/// The tile shape for up to `most` rows, unless another is faster by more than `advantage` µs.
struct FewRowsTile {
  int tile = -1;  ///< negative: none
  int64_t most = 0;
  double advantage = 0;
};
/// The tile shapes that a product can be run in.
struct TileShapes {
  int count;
  const char* (*name)(int tile);
  FewRowsTile few_rows = {};
};
/// One run in one of them: x's rows are `rows`, whatever `in` says.
struct TileRun {
  int tile;
  int64_t rows;
  std::span<const TensorArg> in, out;
  const Execution& execution;
};
/// Inputs besides x that have rows, or nothing: their number and columns.
struct RowInput {
  size_t input;
  int64_t cols;
};
/// For a product with a weight of `shape`: the record of the fastest tile shape for each bucket up
/// to the call's rows. Arrays of so many rows stand for x, the result and `others`.
std::string tune_tiles(const TuneCall& call, const WeightShape& shape,
                       std::span<const RowInput> others, const TileShapes& tiles,
                       const std::function<void(const TileRun&)>& run);
/// The tile shape that a record names for each bucket; -1 where it names none.
std::array<int, kRowBuckets.size()> tiles_of(std::string_view record, const TileShapes& tiles);

/// What a product with a packed weight and tuned tile shapes holds.
struct TiledState : KernelState {
  Activation activation = Activation::kNone;
  WeightShape shape;
  const std::byte* w = nullptr;
  int processors = 0;
  bool constant_bias = false;
  std::array<int, kRowBuckets.size()> tiles{};  ///< by bucket; -1: not tuned
};
/// How a product's constants are found: what reads a layout's sizes, the fewest bytes of an element
/// of the weight, and which input the bias is.
struct TiledConstants {
  WeightShape (*parse)(std::string_view layout);
  size_t element_bytes = 2, bias = 2;
};
/// Fills `state` but for the activation. Throws Error(kInput) where the engine holds no such
/// weight.
void fill_tiled_state(const CreateCall& call, const TiledConstants& constants,
                      const TileShapes& tiles, TiledState& state);
/// The same of a Linear or QuantizedLinear.
std::unique_ptr<TiledState> make_tiled_state(const CreateCall& call,
                                             const TiledConstants& constants,
                                             const TileShapes& tiles);
/// No workspace; Error(kInput) where there are more rows than 32-bit row numbers reach.
std::unique_ptr<ShapeState> prepare_rows(const PrepareCall& call);
/// The same of a TiledState, and Error(kInput) where x or y do not fit its packed weight.
std::unique_ptr<ShapeState> prepare_tiled(const PrepareCall& call);

}  // namespace vernier::backend::cuda
