// A mode that quantizes beside 16 bits, timed: see include/vernier/compare.h.
#include "vernier/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "compile/clock.h"
#include "compile/pipeline.h"
#include "core/limits.h"
#include "engine/writer.h"
#include "evaluate/rows.h"
#include "runtime/engine_impl.h"
#include "vernier/session.h"
#include "vernier/synthetic.h"

namespace vernier {
namespace {

using Keep = CompareOptions::Keep;
using compiler::Clock;
using compiler::Compiled;
using compiler::Job;

// Medians of one cell differ by less between two measurements of one engine on a quiet machine.
constexpr double kNoise = 1.03;
constexpr int64_t kBatch = 8;
constexpr double kCellMs = 1500;
constexpr size_t kFewestRuns = 3, kMostRuns = 200;

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// "batch=8,seq=128": `rows` where they are counted, the optimum of every other size.
std::string sizes_at(const plan::Plan& plan, const std::string& batch, int64_t rows) {
  std::string text;
  for (const plan::Symbol& symbol : plan.symbols) {
    const int64_t size =
        symbol.name == batch ? std::clamp(rows, symbol.min, symbol.max) : symbol.opt;
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", symbol.name, size);
  }
  return text;
}

// One session of each engine, on the same arrays.
class Pair {
 public:
  Pair(const Engine& quantized, const Engine& other, const Limits& limits)
      : engines_{&quantized, &other}, watch_(limits) {
    // The caller keeps both engines open longer than this.
    for (const Engine* engine : engines_) {
      const std::shared_ptr<const Engine> lent(engine, [](const Engine*) {});
      sessions_.emplace_back(lent, SessionOptions{.threads = 0, .limits = limits});
    }
  }

  ComparedTimes time(const std::string& sizes) {
    const std::vector<InputArray> arrays = synthetic_inputs(*engines_[0], sizes);
    std::vector<Input> inputs;
    for (const InputArray& array : arrays) inputs.push_back(array.ref());
    for (size_t e : {0, 1, 0, 1}) run(e, inputs, sizes);  // the first makes what a shape needs
    std::vector<double> times[2];
    const Clock total;
    while (times[0].size() < kFewestRuns || (times[0].size() < kMostRuns && total.ms() < kCellMs)) {
      const size_t first = times[0].size() % 2;  // whoever is second finds a warmer machine
      for (size_t e : {first, 1 - first}) times[e].push_back(run(e, inputs, sizes));
    }
    return {.sizes = sizes, .quantized_ms = median(times[0]), .other_ms = median(times[1])};
  }

 private:
  double run(size_t engine, const std::vector<Input>& inputs, const std::string& sizes) {
    watch_.check_time([&] { return "timing the engines at " + sizes; });
    if (engines_[engine]->device() != "cpu")
      return sessions_[engine].device_milliseconds(inputs, 1);
    const Clock clock;
    sessions_[engine].run(inputs);
    return clock.ms();
  }

  const Engine* engines_[2];
  std::vector<Session> sessions_;
  Watch watch_;
};

// The largest batch, at most kBatch, of which a few runs are no longer than a cell may take.
int64_t batch_of(const ComparedTimes& one) {
  const double both = one.quantized_ms + one.other_ms;
  const double most = kCellMs / (static_cast<double>(kFewestRuns) * std::max(both, 1e-3));
  return static_cast<int64_t>(std::clamp(most, 1.0, static_cast<double>(kBatch)));
}

CompileOptions in_16_bits(const Job& job, const backend::Backend& backend) {
  CompileOptions options = job.options;
  options.mode = backend.attended == DType::kBF16 ? "bf16" : "fp16";
  const auto takes_scales = [](const precision::Rule& rule) {
    return is_quantized_operand(rule.compute.type);
  };
  options.export_qdq.clear();
  if (std::ranges::none_of(job.policy.rules, takes_scales)) {
    options.scales.clear();
    options.static_scales = false;
  }
  return options;
}

uint64_t weight_bytes(const plan::Plan& plan) {
  uint64_t bytes = 0;
  for (const plan::Blob& blob : plan.blobs) bytes += blob.bytes.bytes();
  return bytes;
}

// Of all cells; of modes that quantize weights alone that of the first, which has one row.
double speedup_of(std::span<const ComparedTimes> times, DType quantized) {
  if (is_weight_only(quantized) && !times.empty()) times = times.first(1);
  double sum = 0;
  for (const ComparedTimes& cell : times) sum += std::log(cell.other_ms / cell.quantized_ms);
  return times.empty() ? 1 : std::exp(sum / static_cast<double>(times.size()));
}

// Builds in 16 bits as well and times both. An error of the second build or of a run is the reason
// why nothing was measured; what a caller's stop() throws is not caught.
Comparison compared(const std::string& model_path, const Job& job, const Compiled& quantized,
                    const TimeEngines& time, std::optional<Compiled>& other) {
  const backend::Backend& backend = compiler::backend_of(job.options);
  CompileOptions options = in_16_bits(job, backend);
  Comparison result;
  result.mode = precision::name(job.policy.mode);
  result.other = options.mode;
  result.quantized_bytes = weight_bytes(quantized.plan);
  if (const Support here = backend.available ? backend.available() : yes(); !here) {
    result.why_not = here.reason;
    return result;
  }
  // What the first build holds is taken from the memory of the second.
  if (uint64_t& most = options.limits.max_bytes; most > 0)
    most -= std::min(most - 1, result.quantized_bytes);
  try {
    Compiled built = compiler::run(model_path, Job(options));
    result.other_bytes = weight_bytes(built.plan);
    const auto engines = std::pair{Engine::Impl::engine_of(quantized.plan, backend),
                                   Engine::Impl::engine_of(built.plan, backend)};
    result.times =
        time ? time(*engines.first, *engines.second)
             : time_engines(*engines.first, *engines.second, options.limits, options.progress);
    other = std::move(built);
  } catch (const Error& error) {
    Watch(job.options.limits).check_time("comparing " + result.mode + " with " + result.other);
    result.why_not = error.what();
    return result;
  }
  result.speedup = speedup_of(result.times, precision::quantized_type(job.policy.mode));
  return result;
}

std::vector<std::string> notes_of(const Comparison& comparison) {
  const std::string &mode = comparison.mode, &other = comparison.other;
  if (!comparison.why_not.empty())
    return {fmt::format("{} is not compared with {}: {}", mode, other, comparison.why_not)};
  std::vector<std::string> notes;
  for (const ComparedTimes& cell : comparison.times) {
    notes.push_back(fmt::format("{}: {:.4g} ms against {:.4g} ms in {}{}{}: {:.2f} times as fast",
                                mode, cell.quantized_ms, cell.other_ms, other,
                                cell.sizes.empty() ? "" : " at ", cell.sizes,
                                cell.other_ms / cell.quantized_ms));
  }
  notes.push_back(fmt::format("{}: {:.1f} MB of weights against {:.1f} MB in {}", mode,
                              static_cast<double>(comparison.quantized_bytes) / 1e6,
                              static_cast<double>(comparison.other_bytes) / 1e6, other));
  if (comparison.speedup * kNoise >= 1) return notes;
  const std::string slower =
      fmt::format("warning: {} is slower than {} on this machine{}: {:.2f} times as fast", mode,
                  other, mode == "int8" || mode == "fp8" ? "" : " at one row", comparison.speedup);
  notes.push_back(
      comparison.kept_quantized
          ? slower + "; kept, as --force asks"
          : fmt::format("{}. The engine is built in {}; --force keeps {}", slower, other, mode));
  return notes;
}

}  // namespace

std::vector<ComparedTimes> time_engines(const Engine& quantized, const Engine& other,
                                        const Limits& limits,
                                        const std::function<void(std::string_view)>& progress) {
  const Limits running = limits.begun();
  const plan::Plan& plan = quantized.impl().plan;
  const std::string batch = evaluate::batch_symbol(plan);
  Pair pair(quantized, other, running);
  const auto time = [&](const std::string& sizes) {
    if (progress) progress("timing the quantized engine and 16 bits " + sizes);
    return pair.time(sizes);
  };
  std::vector<ComparedTimes> times{time(sizes_at(plan, batch, 1))};
  const std::string more = sizes_at(plan, batch, batch_of(times[0]));
  if (more != times[0].sizes) times.push_back(time(more));
  return times;
}

ComparedReport compile_faster(const std::string& model_path, const std::string& engine_path,
                              const CompileOptions& asked, const CompareOptions& compare) {
  const Clock clock;
  compiler::check_targets(engine_path, asked);
  const Job job = compiler::begun(asked);
  Compiled quantized = compiler::run(model_path, job);
  ComparedReport report;
  std::optional<Compiled> other;
  if (precision::quantized_type(job.policy.mode) != DType::kUndefined) {
    Comparison& comparison =
        report.comparison.emplace(compared(model_path, job, quantized, compare.time, other));
    comparison.kept_quantized =
        !other || compare.keep == Keep::kQuantized || comparison.speedup * kNoise >= 1;
  }
  const bool keeps_other = report.comparison && !report.comparison->kept_quantized;
  Compiled& kept = keeps_other ? *other : quantized;
  report.build = compiler::write(engine_path, kept, job.options, clock);
  if (report.comparison)
    std::ranges::move(notes_of(*report.comparison), std::back_inserter(report.build.notes));
  return report;
}

std::string to_json(const Comparison& comparison) {
  nlohmann::json times = nlohmann::json::array();
  for (const ComparedTimes& cell : comparison.times)
    times.push_back({{"sizes", cell.sizes},
                     {comparison.mode + "_ms", cell.quantized_ms},
                     {"other_ms", cell.other_ms}});
  const auto bytes = [](uint64_t count) {
    return count == 0 ? nlohmann::json() : nlohmann::json(count);
  };
  return nlohmann::json{
      {"kept", comparison.kept_quantized ? comparison.mode : comparison.other},
      {"other", comparison.other},
      {"speedup", comparison.times.empty() ? nlohmann::json() : nlohmann::json(comparison.speedup)},
      {"times", std::move(times)},
      {comparison.mode + "_weight_bytes", bytes(comparison.quantized_bytes)},
      {"other_weight_bytes", bytes(comparison.other_bytes)},
      {"why_not", comparison.why_not}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace vernier
