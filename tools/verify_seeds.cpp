// verify_seeds: verifies engines of models in FP16 and BF16 over many seeds and prints how close a
// correct engine comes to its limits (docs/verification_fitting.md "Limits in 16 bits").
// Usage: verify_seeds SEEDS MODEL.onnx...   exit 1 if a verdict is not pass
// Environment: VERNIER_DEVICE (cpu), VERNIER_FIRST_SEED (1), VERNIER_LENGTHS ("4,16,48")
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "onnx/import.h"
#include "verify/verify.h"
#include "vernier/compile.h"

namespace {

using vernier::verify::Report;

// The nearest that any seed came to each limit: 1 is the limit.
struct Nearest {
  double element = 0, rms = 0, replay = 0, replay_rms = 0, inside = 0;
  int failed = 0;
  void add(const Report& report) {
    constexpr double kNoises = 3;  // docs/verification.md "Limits"
    failed += !report.passed();
    for (const auto& cell : report.cells) element = std::max(element, cell.share_of_limit);
    for (const auto& step : report.steps) {
      replay = std::max(replay, step.ratio);
      replay_rms = std::max(replay_rms, step.rms_ratio);
      inside = std::max(inside, step.inside_factor);
    }
    for (const auto& output : report.outputs) {
      if (output.noise_rms > 0) rms = std::max(rms, output.all_rms / (kNoises * output.noise_rms));
    }
  }
};

std::string setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

std::vector<int64_t> lengths() {
  std::vector<int64_t> all;
  std::istringstream text(setting("VERNIER_LENGTHS", "4,16,48"));
  for (std::string one; std::getline(text, one, ',');) all.push_back(std::atoll(one.c_str()));
  return all;
}

Nearest over_seeds(const std::filesystem::path& model, const std::string& mode, int seeds) {
  vernier::CompileOptions options;
  options.mode = mode;
  options.device = setting("VERNIER_DEVICE", "cpu");
  const int first = std::atoi(setting("VERNIER_FIRST_SEED", "1").c_str());
  const auto engine =
      vernier::Engine::from_bytes(vernier::compile_to_bytes(model.string(), options));
  const auto graph = vernier::onnx::import_model(model);
  Nearest nearest;
  for (int seed = first; seed < first + seeds; ++seed) {
    vernier::verify::Request request;
    request.seed = static_cast<uint64_t>(seed);
    request.lengths = lengths();
    request.threads = 2;
    const Report report = vernier::verify::verify_engine(engine, *graph, request);
    nearest.add(report);
    if (!report.passed())
      fmt::print("seed {}: {}: {}\n", seed, vernier::verify::name(report.verdict),
                 report.explanation);
  }
  return nearest;
}

}  // namespace

int main(int argc, char** argv) {
  const int seeds = argc > 2 ? std::atoi(argv[1]) : 0;
  if (seeds <= 0) {
    fmt::print(stderr, "usage: verify_seeds SEEDS MODEL.onnx...\n");
    return 2;
  }
  int failed = 0;
  fmt::print("{:<34} {:<5} {:>6} {:>8} {:>8} {:>8} {:>10} {:>7}\n", "model", "mode", "failed",
             "element", "rms", "replay", "replay rms", "inside");
  for (int i = 2; i < argc; ++i) {
    const std::filesystem::path model = argv[i];
    for (const char* mode : {"fp16", "bf16"}) {
      const Nearest n = over_seeds(model, mode, seeds);
      fmt::print("{:<34} {:<5} {:>6} {:>8.3f} {:>8.3f} {:>8.3f} {:>10.3f} {:>7.2f}\n",
                 model.parent_path().filename().string(), mode, n.failed, n.element, n.rms,
                 n.replay, n.replay_rms, n.inside);
      std::fflush(stdout);
      failed += n.failed;
    }
  }
  return failed == 0 ? 0 : 1;
}
