// Replay: every step of a run on the engine's own inputs, against its FP64 evaluation (design
// "Verify": is the kernel right?). Contract and limits: docs/verification_checks.md "Replay".
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/constant_cache.h"
#include "core/limits.h"
#include "plan/plan.h"
#include "runtime/session_impl.h"
#include "verify/step_copy.h"
#include "vernier/verify.h"

namespace vernier::verify {

/// How a run is replayed.
/// watch      asked before each step is judged
/// sample     a seed: of products whose rows share one weight, only kSampledRows rows are judged:
///            the first and the last kEndRows, and others drawn with it
/// judged     steps that are judged otherwise: their results say nothing, with elems 0
/// constants  that evaluations share; null: none are. Must outlive the replay
struct ReplayOptions {
  static constexpr int64_t kEndRows = 16, kSampledRows = 64;
  Watch watch = {};
  std::optional<uint64_t> sample = {};
  std::set<int32_t> judged = {};
  ConstantCache* constants = nullptr;
};

/// Watches one run: fills the arena, and what each step is to write, with `poison`, and copies what
/// each step reads and makes; the run itself is not changed. The copies are judged after the run,
/// on all threads; those of long runs in between, as soon as they take 256 MB.
class Replay final : public RunObserver {
 public:
  Replay(const plan::Plan& plan, const backend::Backend& backend, uint32_t poison,
         ReplayOptions options = {});
  void before_run(std::span<std::byte> arena) override;
  void before_step(std::span<std::byte> unwritten) override;
  void after_step(int32_t step, const backend::LaunchCall& call) override;
  /// Judges what is left to judge.
  const std::vector<StepResult>& steps();

 private:
  void judge_waiting();
  std::optional<StepCopy> copy_sample(int32_t step, const backend::LaunchCall& call) const;
  const plan::Plan& plan_;
  const backend::Backend& backend_;
  uint32_t poison_;
  ReplayOptions options_;
  std::vector<StepCopy> waiting_;
  size_t waiting_bytes_ = 0;
  std::vector<StepResult> results_;
};

/// Fills the arena and what each step is to write, watches nothing.
class Poison final : public RunObserver {
 public:
  explicit Poison(uint32_t word) : word_(word) {}
  void before_run(std::span<std::byte> arena) override;
  void before_step(std::span<std::byte> unwritten) override;
  void after_step(int32_t, const backend::LaunchCall&) override {}

 private:
  uint32_t word_;
};
/// Two fill patterns that no right answer depends on: a signalling NaN (in 16 bits: NaN beside a
/// small number), and numbers that are finite in every type, so that answers differ from NaN's.
inline constexpr uint32_t kSignallingNan = 0x7fa0'0bad, kOtherNumber = 0x4b1d'4a57;

/// Fills them too and keeps the outputs of every step.
class Recorder final : public RunObserver {
 public:
  explicit Recorder(uint32_t poison = kSignallingNan) : poison_(poison) {}
  void before_run(std::span<std::byte> arena) override;
  void before_step(std::span<std::byte> unwritten) override;
  void after_step(int32_t step, const backend::LaunchCall& call) override;
  /// Output arrays by step.
  const std::map<int32_t, std::vector<Tensor>>& steps() const { return steps_; }

 private:
  uint32_t poison_;
  std::map<int32_t, std::vector<Tensor>> steps_;
};

}  // namespace vernier::verify
