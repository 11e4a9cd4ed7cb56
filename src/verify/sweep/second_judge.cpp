// ONNX Runtime beside the engine: see second_judge.h.
#include "verify/sweep/second_judge.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "verify/sweep/measure.h"
#include "verify/sweep/reference.h"

namespace vernier::verify {
namespace {

constexpr const char* kUsualPython = "python3";

OnnxRuntime::Options options_of(const Request& request) {
  return {.python = request.also_python.empty() ? kUsualPython : request.also_python,
          .model = request.model,
          .threads = request.threads};
}

void add(const Distance& distance, Pool& pool) {
  const auto finite = static_cast<double>(distance.elems - distance.wrong_non_finite);
  pool.error += distance.rms * distance.rms * finite;
  pool.reference += distance.rms_reference * distance.rms_reference * finite;
  pool.elems += distance.elems;
}

void add(const Distance& distance, AlsoJudged::Error& error) {
  error.worst = std::max(error.worst, distance.worst);
  error.wrong_non_finite += distance.wrong_non_finite;
  error.different_integers += distance.different_integers;
}

double rms_of(double squares, int64_t elems) {
  return elems > 0 ? std::sqrt(squares / static_cast<double>(elems)) : 0;
}

}  // namespace

SecondJudge::SecondJudge(const Context& context)
    : other_(options_of(context.subject.request), context.watch) {
  state_.all.name = context.subject.request.also;
  state_.all.version = other_.version();
}

void SecondJudge::refuse(const CellResult& cell, const std::string& why) {
  if (!state_.all.refused.empty()) return;
  state_.all.refused = other_.refused().empty() ? cell.label + ": " + why : why;
}

size_t SecondJudge::place_of(const std::string& output) {
  const auto found = std::ranges::find(state_.all.outputs, output, &AlsoJudged::Output::name);
  const auto place = static_cast<size_t>(found - state_.all.outputs.begin());
  if (found == state_.all.outputs.end()) {
    state_.all.outputs.push_back({.name = output});
    state_.sums.emplace_back();
  }
  return place;
}

void SecondJudge::compare(const Context& context, const CellResult& cell, const CellRun& run,
                          const NamedValues& reference, const std::vector<MeasuredOutput>& engine) {
  stage(context, cell.label + ": ONNX Runtime");
  ++state_.all.cells;
  const OnnxRuntime::Answers answers = other_.run(run.inputs, context.watch);
  if (!answers.refused.empty()) return refuse(cell, answers.refused);
  ++state_.all.answered;
  for (const MeasuredOutput& here : engine) {
    const Tensor* got = find(answers.outputs, here.name);
    if (got == nullptr || !here.misfit.empty()) continue;  // an output of the build's own
    const Tensor filled = with_zero_fill(context, here.name, run.inputs, *got);
    const Answer answer{.name = here.name,
                        .want = reference.at(here.name),
                        .got = &filled,
                        .inputs = run.inputs,
                        .batch = cell.batch};
    Pool other;
    OutputResult rankings;
    const MeasuredOutput there = measure_alone(context, answer, other, rankings);
    if (!there.misfit.empty()) {
      refuse(cell, "output '" + here.name + "': " + there.misfit);
      continue;
    }
    const size_t place = place_of(here.name);
    add(here.distance, state_.sums[place].engine);
    add(there.distance, state_.sums[place].other);
    add(here.distance, state_.all.outputs[place].engine);
    add(there.distance, state_.all.outputs[place].other);
  }
}

AlsoJudged SecondJudge::result() const {
  AlsoJudged all = state_.all;
  for (size_t i = 0; i < all.outputs.size(); ++i) {
    const auto& [engine, other] = state_.sums[i];
    all.outputs[i].rms_reference = rms_of(engine.reference, engine.elems);
    all.outputs[i].engine.rms = rms_of(engine.error, engine.elems);
    all.outputs[i].other.rms = rms_of(other.error, other.elems);
  }
  return all;
}

std::optional<double> AlsoJudged::Output::ratio() const {
  if (engine.wrong_non_finite > 0 || other.wrong_non_finite > 0 || engine.rms <= 0)
    return std::nullopt;
  return other.rms / engine.rms;
}

std::string_view AlsoJudged::Output::nearer() const {
  const auto rank = [](const Error& e) {
    return std::tuple(e.wrong_non_finite, e.different_integers, e.rms);
  };
  if (rank(engine) == rank(other)) return "equal";
  return rank(engine) < rank(other) ? "vernier" : "other";
}

}  // namespace vernier::verify
