// Drawn thresholds: see drawn.h.
#include "plants/drawn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "plants/plants.h"
#include "runtime/models.h"
#include "verify/verify.h"

namespace vernier::test {
namespace {

using backend::KernelDef;
using backend::LaunchCall;

enum class Of : uint8_t { kLength, kBatch, kRows, kNotMultiple };
struct Threshold {
  Of of = Of::kLength;
  int64_t at = 0;
  bool is_met(int64_t batch, int64_t length) const {
    switch (of) {
      case Of::kLength:
        return length >= at;
      case Of::kBatch:
        return batch >= at;
      case Of::kRows:
        return batch * length >= at;
      case Of::kNotMultiple:
        return batch > 8 && batch * length % at != 0;
    }
    return false;
  }
  std::string text() const {
    switch (of) {
      case Of::kLength:
        return fmt::format("length {} on", at);
      case Of::kBatch:
        return fmt::format("batch {} on", at);
      case Of::kRows:
        return fmt::format("{} rows on", at);
      case Of::kNotMultiple:
        return fmt::format("rows that are no multiple of {}, above batch 8", at);
    }
    return "";
  }
};
Threshold threshold;  // of the plant that is verified now: kernels have plain functions

// [batch, length, columns]
void wrong_beyond_the_threshold(const KernelDef& right, const LaunchCall& call) {
  right.launch(call);
  const backend::TensorArg& y = call.out[0];
  if (!threshold.is_met(y.dim(0), y.dim(-2))) return;
  for (int64_t i = 0; i < y.elems(); ++i) y.as<float>()[i] *= 1.01F;
}

// Beyond the grid (batch 8, length 48) and within the engine's ranges. Rows: up to those of three
// sequences of nearly the greatest length, which the sweep visits.
Threshold drawn(std::mt19937_64& random, const plan::Plan& plan) {
  constexpr int64_t kGridBatch = 8, kGridLength = 48;
  constexpr uint64_t kKinds = 4;
  const auto most = [&](const std::string& symbol) {
    return std::ranges::find(plan.symbols, symbol, &plan::Symbol::name)->max;
  };
  const auto between = [&](int64_t above, int64_t last) {
    return above + 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(last - above));
  };
  const std::string batch = plan.symbols[0].name, length = plan.symbols[1].name;
  const auto of = static_cast<Of>(random() % kKinds);
  switch (of) {
    case Of::kLength:
      return {of, between(kGridLength, most(length))};
    case Of::kBatch:
      return {of, between(kGridBatch, most(batch))};
    case Of::kRows:
      return {of, between(kGridBatch * kGridLength,
                          std::max(kGridBatch * kGridLength + 1, 3 * (most(length) - 1)))};
    case Of::kNotMultiple:
      return {of, between(1, 16)};
  }
  return {};
}

}  // namespace

int find_drawn_plants(int count) {
  constexpr Plant kPlant{.name = "drawn",
                         .defect = "a norm is wrong from some size on",
                         .model = "bge_reranker_ts17",
                         .kernel = "cpu.add_layer_norm.rows",
                         .verdict = "bug",
                         .names_step = true,
                         .launch = &wrong_beyond_the_threshold};
  const std::filesystem::path path = models_folder() / kPlant.model / "model.onnx";
  const plan::Plan plan = compiler::run(path.string(), {}).plan;
  const auto model = onnx::import_model(path);
  const auto engine = Engine::from_bytes(engine::engine_bytes(plan), planted_backend(&kPlant));
  std::mt19937_64 random(2026);
  int missed = 0;
  for (int i = 1; i <= count; ++i) {
    threshold = drawn(random, plan);
    verify::Request request;
    request.threads = 2;
    request.seed = static_cast<uint64_t>(i);
    const verify::Report report = verify::verify_engine(engine, *model, request);
    const bool found = report.verdict == kPlant.verdict;
    missed += !found;
    fmt::print("{:>3}  {:<50} {}\n", i, threshold.text(),
               found ? report.cause.cell : "NOT FOUND: " + report.explanation);
    std::fflush(stdout);
  }
  fmt::print("found {} of {}\n", count - missed, count);
  return missed;
}

}  // namespace vernier::test
