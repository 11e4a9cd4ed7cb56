// verify_seeds: verifies engines of models over many seeds and prints how close a correct engine
// comes to its limits (docs/verification_fitting.md "Limits in 16 bits"). Usage: verify_seeds SEEDS
// MODEL.onnx... [--modes fp32,fp16,bf16] [--device cpu] [--first-seed 1]
//          [--lengths 4,16]   instead of the default sweep, with its cells beyond the grid
// exit 1 if a verdict is not pass
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "onnx/import.h"
#include "verify/verify.h"
#include "vernier/compile.h"

namespace {

using vernier::verify::Report;

// The nearest that any seed came to each limit: 1 is the limit.
struct Nearest {
  double element = 0, rms = 0, replay = 0, replay_rms = 0, inside = 0;
  int sweeps = 0, failed = 0;
  void add(const Report& report) {
    constexpr double kNoises = 3;  // docs/verification.md "Limits"
    ++sweeps;
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

struct Settings {
  int seeds = 0, first_seed = 1;
  std::string device = "cpu";
  std::vector<std::string> modes{"fp32", "fp16", "bf16"};
  std::vector<int64_t> lengths = {};
  std::vector<std::filesystem::path> models = {};
};

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream parts(text);
  for (std::string one; std::getline(parts, one, ',');) all.push_back(one);
  return all;
}

// Empty where the arguments make no sense.
std::optional<Settings> settings_of(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!argument.starts_with("--")) {
      if (settings.seeds == 0)
        settings.seeds = std::atoi(argv[i]);
      else
        settings.models.emplace_back(argument);
      continue;
    }
    if (++i == argc) return std::nullopt;
    if (argument == "--device")
      settings.device = argv[i];
    else if (argument == "--first-seed")
      settings.first_seed = std::atoi(argv[i]);
    else if (argument == "--modes")
      settings.modes = parts_of(argv[i]);
    else if (argument == "--lengths")
      for (const std::string& one : parts_of(argv[i]))
        settings.lengths.push_back(std::atoll(one.c_str()));
    else
      return std::nullopt;
  }
  if (settings.seeds <= 0 || settings.models.empty()) return std::nullopt;
  return settings;
}

Nearest over_seeds(const std::filesystem::path& model, const std::string& mode,
                   const Settings& settings) {
  vernier::CompileOptions options;
  options.mode = mode;
  options.device = settings.device;
  const auto engine =
      vernier::Engine::from_bytes(vernier::compile_to_bytes(model.string(), options));
  const auto graph = vernier::onnx::import_model(model);
  Nearest nearest;
  for (int seed = settings.first_seed; seed < settings.first_seed + settings.seeds; ++seed) {
    vernier::verify::Request request;
    request.seed = static_cast<uint64_t>(seed);
    request.lengths = settings.lengths;
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
  const std::optional<Settings> settings = settings_of(argc, argv);
  if (!settings) {
    fmt::print(stderr,
               "usage: verify_seeds SEEDS MODEL.onnx... [--modes fp32,fp16,bf16] [--device cpu] "
               "[--first-seed 1] [--lengths 4,16]\n");
    return 2;
  }
  int failed = 0, sweeps = 0;
  fmt::print("{:<34} {:<5} {:>6} {:>8} {:>8} {:>8} {:>10} {:>7}\n", "model", "mode", "failed",
             "element", "rms", "replay", "replay rms", "inside");
  for (const std::filesystem::path& model : settings->models) {
    for (const std::string& mode : settings->modes) {
      const Nearest n = over_seeds(model, mode, *settings);
      fmt::print("{:<34} {:<5} {:>6} {:>8.3f} {:>8.3f} {:>8.3f} {:>10.3f} {:>7.2f}\n",
                 model.parent_path().filename().string(), mode, n.failed, n.element, n.rms,
                 n.replay, n.replay_rms, n.inside);
      std::fflush(stdout);
      failed += n.failed;
      sweeps += n.sweeps;
    }
  }
  fmt::print("{} sweeps, {} that did not pass\n", sweeps, failed);
  return failed == 0 ? 0 : 1;
}
