// Synthetic inputs: arrays that an engine accepts, for timing when the user has none.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "vernier/dtype.h"
#include "vernier/engine.h"
#include "vernier/session.h"

namespace vernier {

/// An array that owns its bytes.
struct InputArray {
  std::string name;
  DType dtype = DType::kUndefined;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
  Input ref() const { return {name, dtype, shape, bytes.data()}; }
};

/// One array per input of the engine. `sizes` fixes named sizes ("batch=4,seq=128"); the others
/// take the profile's optimum. Floats are seeded normal values; integers are 1 (an id that every
/// table has, a mask that keeps everything); bools are true. Throws Error(kInput) when `sizes`
/// names no size of the engine or leaves its range.
std::vector<InputArray> synthetic_inputs(const Engine& engine, const std::string& sizes);

/// The same for rows of these lengths: `mask`, an input [rows, longest], is 1 at the first tokens
/// of each row and 0 behind them. Empty: the mask whose tokens the engine counts, or the only input
/// with "mask" in its name. Throws Error(kInput) where there is no such input, or a length is not
/// in 1 … longest.
std::vector<InputArray> ragged_inputs(const Engine& engine, const std::string& sizes,
                                      const std::vector<int64_t>& lengths,
                                      const std::string& mask = "");

/// The shape of every input at these sizes; throws as synthetic_inputs() does.
std::vector<InputShape> synthetic_shapes(const Engine& engine, const std::string& sizes);

}  // namespace vernier
