// Observers of runs: see replay.h.
#include "verify/replay.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <random>
#include <set>
#include <utility>

#include "core/tasks.h"
#include "core/threads.h"
#include "verify/runner.h"
#include "verify/step_judge.h"

namespace vernier::verify {

Replay::Replay(const plan::Plan& plan, const backend::Backend& backend, uint32_t poison,
               ReplayOptions options)
    : plan_(plan), backend_(backend), poison_(poison), options_(std::move(options)) {}

void Replay::before_run(std::span<std::byte> arena) {
  Poison(poison_).before_run(arena);
  results_.clear();
  waiting_.clear();
  waiting_bytes_ = 0;
}

void Replay::before_step(std::span<std::byte> unwritten) { Poison(poison_).before_step(unwritten); }

void Replay::after_step(int32_t step, const backend::LaunchCall& call) {
  constexpr size_t kMostBytes = size_t{256} << 20;  // kept until the run is over
  if (options_.judged.contains(step)) {
    waiting_.push_back({.step = step, .in = {}, .out = {}});
    return;
  }
  std::optional<StepCopy> some = copy_sample(step, call);
  waiting_.push_back(some ? std::move(*some) : copy_step(plan_, step, call));
  waiting_bytes_ += waiting_.back().bytes;
  if (waiting_bytes_ > kMostBytes) judge_waiting();
}

namespace {

// Inputs of a product that have a row for each row of the result; none: it is no such product.
std::vector<size_t> inputs_with_rows(const plan::Plan& plan, const plan::Step& step,
                                     const backend::LaunchCall& call) {
  switch (step.op) {
    case OpKind::kLinear:
    case OpKind::kLinearAddLayerNorm:
      return {0, 3};
    case OpKind::kWeightOnlyLinear:
      return {0, 5};
    case OpKind::kMatMul: {
      const bool one_weight = step.packed.empty()
                                  ? call.in[1].data && call.in[1].rank == 2
                                  : plan.blob(step.packed[0].blob).shape.size() == 2;
      return one_weight && call.in[0].rank > 1 ? std::vector<size_t>{0} : std::vector<size_t>{};
    }
    default:
      return {};
  }
}

// The first rows of `all`, the last ones, and drawn ones between them, ascending.
std::vector<int64_t> sampled_rows(int64_t all, std::mt19937_64& random) {
  std::set<int64_t> rows;
  for (int64_t i = 0; i < ReplayOptions::kEndRows; ++i) {
    rows.insert(i);
    rows.insert(all - 1 - i);
  }
  while (std::ssize(rows) < ReplayOptions::kSampledRows)
    rows.insert(static_cast<int64_t>(random() % static_cast<uint64_t>(all)));
  return {rows.begin(), rows.end()};
}

}  // namespace

// Some rows of a product that has many; empty: the step is copied as a whole.
std::optional<StepCopy> Replay::copy_sample(int32_t step, const backend::LaunchCall& call) const {
  if (!options_.sample) return std::nullopt;
  const std::vector<size_t> with_rows = inputs_with_rows(plan_, plan_.step(step), call);
  const int64_t all = with_rows.empty() ? 0 : rows_in(call.out[0], 1);
  if (all <= ReplayOptions::kSampledRows) return std::nullopt;
  std::seed_seq seeds{*options_.sample, static_cast<uint64_t>(step), static_cast<uint64_t>(all)};
  std::mt19937_64 random(seeds);
  const std::vector<int64_t> rows = sampled_rows(all, random);
  return copy_rows(plan_, step, call, {.with_rows = with_rows, .rows = rows});
}

namespace {

StepResult unjudged(const plan::Plan& plan, int32_t step) {
  StepResult result;
  result.step = step;
  result.kernel = plan.step(step).kernel;
  result.name = plan.step(step).name;
  return result;
}

}  // namespace

void Replay::judge_waiting() {
  std::vector<StepResult> judged(waiting_.size());
  for_each_task(std::ssize(waiting_), [&](int64_t i) {
    StepCopy& copy = waiting_[i];
    options_.watch.check_time(
        [&] { return "replaying " + step_text(plan_, copy.step) + " in FP64"; });
    judged[i] = options_.judged.contains(copy.step)
                    ? unjudged(plan_, copy.step)
                    : judge_step(plan_, backend_, copy, options_.constants);
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
  constexpr size_t kBlock = 4096;       // bytes written at a time
  constexpr int64_t kLeastBlocks = 64;  // of a thread
  std::array<uint32_t, kBlock / sizeof(word_)> block;
  block.fill(word_);
  const auto blocks = static_cast<int64_t>((unwritten.size() + kBlock - 1) / kBlock);
  in_parallel(blocks, kLeastBlocks, [&](int64_t begin, int64_t end) {
    const size_t last = std::min(static_cast<size_t>(end) * kBlock, unwritten.size());
    for (size_t at = static_cast<size_t>(begin) * kBlock; at < last; at += kBlock)
      std::memcpy(unwritten.data() + at, block.data(), std::min(kBlock, last - at));
  });
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
