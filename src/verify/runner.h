// Runner: an engine run on named arrays, watched or not, and where two runs part. Used by verify.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "evaluate/rows.h"
#include "verify/replay.h"
#include "vernier/session.h"
#include "vernier/verify.h"

namespace vernier::verify {

using namespace evaluate;  // NOLINT(google-build-using-namespace): its words are ours

class Runner {
 public:
  Runner(std::shared_ptr<const Engine> engine, const SessionOptions& options);
  /// The engine's outputs, copied. Throws Error(kInput) as Session::run does.
  NamedTensors run(const NamedTensors& inputs, RunObserver& observer);
  /// With the arena filled with a signalling NaN.
  NamedTensors run(const NamedTensors& inputs);
  /// As a user runs it: nobody watches, and no step waits for the one before to be looked at.
  NamedTensors run_unwatched(const NamedTensors& inputs);
  /// May a run replay a recording of those before?
  bool records();

 private:
  NamedTensors run(const NamedTensors& inputs, RunObserver* observer);
  Session session_;
};

/// What became of a row in two runs: the same row of `a`'s and `b`'s arrays.
struct RowPair {
  int64_t row_a = 0, rows_a = 1, row_b = 0, rows_b = 1;
};

/// The first step whose outputs differ between two recorded runs, as "step 7 (kernel, 'node')"; of
/// one row where `pair` says which (the axis whose sizes are in the ratio of the batches counts
/// rows). Empty if none differs.
std::string first_difference(const plan::Plan& plan, const Recorder& a, const Recorder& b,
                             const std::optional<RowPair>& pair = {});
/// "step 7 (cpu.linear.onednn_brg, '/enc/0/ffn/MatMul')"
std::string step_text(const plan::Plan& plan, int32_t step);
/// The same in parts.
Cause cause_at(const plan::Plan& plan, int32_t step);

/// Names of outputs whose bytes, type or shape differ, in the order of `a`; `axes` and `pair`
/// given: of one row.
std::vector<std::string> different_outputs(const NamedTensors& a, const NamedTensors& b);

}  // namespace vernier::verify
