// Observers of runs: see replay.h.
#include "verify/replay.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "core/tasks.h"
#include "verify/runner.h"
#include "verify/step_judge.h"

namespace vernier::verify {

Replay::Replay(const plan::Plan& plan, const backend::Backend& backend, uint32_t poison,
               const Watch& watch)
    : plan_(plan), backend_(backend), poison_(poison), watch_(watch) {}

void Replay::before_run(std::span<std::byte> arena) {
  Poison(poison_).before_run(arena);
  results_.clear();
  waiting_.clear();
  waiting_bytes_ = 0;
}

void Replay::before_step(std::span<std::byte> unwritten) { Poison(poison_).before_step(unwritten); }

void Replay::after_step(int32_t step, const backend::LaunchCall& call) {
  constexpr size_t kMostBytes = size_t{256} << 20;  // kept until the run is over
  waiting_.push_back(copy_step(plan_, step, call));
  waiting_bytes_ += waiting_.back().bytes;
  if (waiting_bytes_ > kMostBytes) judge_waiting();
}

void Replay::judge_waiting() {
  std::vector<StepResult> judged(waiting_.size());
  for_each_task(std::ssize(waiting_), [&](int64_t i) {
    StepCopy& copy = waiting_[i];
    watch_.check_time([&] { return "replaying " + step_text(plan_, copy.step) + " in FP64"; });
    judged[i] = judge_step(plan_, backend_, copy);
    copy = {};
  });
  std::ranges::move(judged, std::back_inserter(results_));
  waiting_.clear();
  waiting_bytes_ = 0;
}

const std::vector<StepResult>& Replay::steps() {
  judge_waiting();
  return results_;
}

void Poison::before_run(std::span<std::byte> arena) { before_step(arena); }

void Poison::before_step(std::span<std::byte> unwritten) {
  constexpr size_t kBlock = 4096;  // bytes written at a time
  std::array<uint32_t, kBlock / sizeof(word_)> block;
  block.fill(word_);
  for (size_t at = 0; at < unwritten.size(); at += kBlock)
    std::memcpy(unwritten.data() + at, block.data(), std::min(kBlock, unwritten.size() - at));
}

void Recorder::before_run(std::span<std::byte> arena) {
  Poison(poison_).before_run(arena);
  steps_.clear();
}

void Recorder::before_step(std::span<std::byte> unwritten) {
  Poison(poison_).before_step(unwritten);
}

void Recorder::after_step(int32_t step, const backend::LaunchCall& call) {
  for (const backend::TensorArg& arg : call.out)
    steps_[step].push_back(arg.data ? copy_of(arg) : Tensor());
}

}  // namespace vernier::verify
