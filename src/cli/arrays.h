// Arrays as the commands need them: rows, synthesised inputs, lookup by name.
#pragma once
#include <string>
#include <vector>

#include "io/npz.h"
#include "vernier/session.h"

namespace vernier::cli {

/// Session::run on named arrays, and the answers as arrays of their own.
io::NamedTensors run_session(Session& session, const io::NamedTensors& inputs);
/// Views of the arrays, which must outlive them.
std::vector<Input> as_inputs(const io::NamedTensors& arrays);

/// Row `row` along axis 0 as an array with one row.
Tensor row_of(const Tensor& tensor, int64_t row);

/// The arrays whose name begins with `prefix`, without it ("in.ids" -> "ids").
io::NamedTensors with_prefix(const io::NamedTensors& arrays, const std::string& prefix);

/// Sizes for synthesised inputs; kNone: the default (1 row, 128 tokens), within the engine's range.
struct Sizes {
  static constexpr int64_t kNone = 0;
  int64_t batch = kNone, length = kNone;
};

/// Valid inputs for timing. A size on axis 0 is the batch, every other that is not fixed the
/// length. Integers alternate 0 and 1 (valid for every table of two rows), those with "mask" in
/// their name and booleans are 1; floats lie in [-1, 1]. Throws Error(kInput) when a size is
/// outside the engine's range.
io::NamedTensors synthesised_inputs(const Engine& engine, const Sizes& sizes);

}  // namespace vernier::cli
