// Tuning by rows: see row_buckets.h.
#include "backend/cuda/kernels/linear/row_buckets.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/device_memory.h"

namespace vernier::backend::cuda {

size_t bucket_of(int64_t rows) {
  const auto it = std::lower_bound(kRowBuckets.begin(), kRowBuckets.end() - 1, rows);
  return static_cast<size_t>(it - kRowBuckets.begin());
}

size_t fastest_variant(Device& device, size_t variants,
                       const std::function<void(size_t variant, const Execution& execution)>& run,
                       const std::optional<PreferredVariant>& preferred) {
  constexpr int kRounds = 4, kRuns = 8;
  const Execution execution = device.execution();
  double least = std::numeric_limits<double>::infinity();
  size_t best = variants;
  for (size_t variant = 0; variant < variants; ++variant) {
    try {
      run(variant, execution);  // loads the code, and throws here if it must
    } catch (const Error&) {
      continue;
    }
    const auto recording = device.record([&](const Execution& recorded) {
      for (int i = 0; i < kRuns; ++i) run(variant, recorded);
    });
    const double advantage = preferred && variant == preferred->variant ? preferred->advantage : 0;
    for (int round = 0; round < kRounds; ++round) {
      const auto first = device.mark(execution.stream);
      recording->replay(execution.stream);
      const auto last = device.mark(execution.stream);
      device.synchronise(execution.stream);
      const double time = device.milliseconds_between(*first, *last) * 1e3 / kRuns - advantage;
      if (round > 0 && time < least) least = time, best = variant;
    }
  }
  return best;
}

std::string record_text(const std::array<std::string, kRowBuckets.size()>& choices) {
  std::string text = choices[0];
  for (size_t i = 1; i < choices.size(); ++i) text += ';' + choices[i];
  return text;
}

std::array<std::string, kRowBuckets.size()> record_of(std::string_view text) {
  std::array<std::string, kRowBuckets.size()> choices;
  for (std::string& choice : choices) {
    const size_t end = std::min(text.find(';'), text.size());
    choice = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return choices;
}

std::string tune_tiles(const TuneCall& call, const WeightShape& shape,
                       std::span<const RowInput> others, const TileShapes& tiles,
                       const std::function<void(const TileRun&)>& run) {
  std::vector<TensorArg> in(call.in.begin(), call.in.end()), out(call.out.begin(), call.out.end());
  const size_t last = bucket_of(rows_of(in[0]));
  const auto bytes = [last](int64_t cols, const TensorArg& t) {
    return static_cast<size_t>(kRowBuckets[last] * cols) * size_bytes(t.dtype);
  };
  const DeviceMemory x(call.device, bytes(shape.k, in[0])), y(call.device, bytes(shape.n, out[0]));
  in[0].data = x.data();
  out[0].data = y.data();
  std::deque<DeviceMemory> arrays;
  for (const RowInput& other : others) {
    if (!given(in, other.input)) continue;
    TensorArg& arg = in[other.input];
    arg.data = arrays.emplace_back(call.device, bytes(other.cols, arg)).data();
  }
  std::array<std::string, kRowBuckets.size()> choices;
  const auto count = static_cast<size_t>(tiles.count);
  for (size_t bucket = 0; bucket <= last; ++bucket) {
    std::optional<PreferredVariant> preferred;
    const FewRowsTile& few = tiles.few_rows;
    if (few.tile >= 0 && kRowBuckets[bucket] <= few.most)
      preferred = PreferredVariant{static_cast<size_t>(few.tile), few.advantage};
    const size_t variant = fastest_variant(
        call.device, count,
        [&](size_t tile, const Execution& execution) {
          run({static_cast<int>(tile), kRowBuckets[bucket], in, out, execution});
        },
        preferred);
    if (variant < count) choices[bucket] = tiles.name(static_cast<int>(variant));
  }
  return record_text(choices);
}

std::array<int, kRowBuckets.size()> tiles_of(std::string_view record, const TileShapes& tiles) {
  const auto choices = record_of(record);
  std::array<int, kRowBuckets.size()> found{};
  for (size_t i = 0; i < choices.size(); ++i) {
    found[i] = tiles.count - 1;
    while (found[i] >= 0 && tiles.name(found[i]) != choices[i]) --found[i];
  }
  return found;
}

void fill_tiled_state(const CreateCall& call, const TiledConstants& constants,
                      const TileShapes& tiles, TiledState& state) {
  for (const ConstantArg& constant : call.constants) {
    if (constant.input != 1) continue;
    state.shape = constants.parse(constant.layout);
    state.w = constant.bytes.data();
    const size_t least =
        static_cast<size_t>(state.shape.k * state.shape.n) * constants.element_bytes;
    if (constant.bytes.size() < least)
      throw Error(ErrorCode::kInput, "the packed weight '" + std::string(constant.layout) +
                                         "' has " + std::to_string(constant.bytes.size()) +
                                         " bytes, at least " + std::to_string(least) +
                                         " expected; rebuild the engine");
  }
  if (state.w == nullptr)
    throw Error(ErrorCode::kInput,
                "the engine holds no packed weight for a linear step; rebuild the engine");
  check_cuda(cudaDeviceGetAttribute(&state.processors, cudaDevAttrMultiProcessorCount, kGpu),
             "counting multiprocessors");
  state.constant_bias = operand_at(call.constant_inputs, constants.bias).data != nullptr;
  state.tiles = tiles_of(call.tuning, tiles);
}

std::unique_ptr<TiledState> make_tiled_state(const CreateCall& call,
                                             const TiledConstants& constants,
                                             const TileShapes& tiles) {
  auto state = std::make_unique<TiledState>();
  fill_tiled_state(call, constants, tiles, *state);
  state->activation = decode<LinearAttrs>(call.attrs).activation;
  return state;
}

std::unique_ptr<ShapeState> prepare_rows(const PrepareCall& call) {
  constexpr int64_t kMaxRows = (int64_t{1} << 31) - 512;
  const int64_t rows = rows_of(call.in[0]);
  if (rows > kMaxRows)
    throw Error(ErrorCode::kInput, "Linear has " + std::to_string(rows) +
                                       " rows; the CUDA kernel takes up to " +
                                       std::to_string(kMaxRows));
  return workspace_only(0);
}

std::unique_ptr<ShapeState> prepare_tiled(const PrepareCall& call) {
  const WeightShape& shape = static_cast<const TiledState&>(*call.state).shape;
  const TensorArg &x = call.in[0], &y = call.out[0];
  if (x.dim(-1) != shape.k || y.dim(-1) != shape.n || rows_of(x) != rows_of(y))
    throw Error(ErrorCode::kInput, "x has rows of " + std::to_string(x.dim(-1)) +
                                       ", the result of " + std::to_string(y.dim(-1)) +
                                       ", but the packed weight is [" + std::to_string(shape.k) +
                                       ", " + std::to_string(shape.n) + "]; rebuild the engine");
  return prepare_rows(call);
}

}  // namespace vernier::backend::cuda
