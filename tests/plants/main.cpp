// planted_defects: the matrix of planted defects. Each row runs `verify` twice in a process of its
// own, with the plant and without; the first must exit 1 with the right verdict and name the step,
// the second must exit 0. Usage: planted_defects          the whole matrix, exit 1 if a row is
// wrong
//                                planted_defects --part I/N       every Nth of its rows, from row I
//                                on planted_defects --one PLANT|none|none-at-default-sizes
//                                MODEL.onnx
//                                  ENGINE.vn OUT.json
//                                planted_defects --drawn COUNT    drawn.h; exit 1 if more than one
//                                  in fifty is not found
//                                planted_defects --proportional   proportional.h; exit 1 if one is
//                                  not found
// The kernels are those of the device under test (VERNIER_TEST_DEVICE).
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "plants/drawn.h"
#include "plants/models.h"
#include "plants/plants.h"
#include "plants/proportional.h"
#include "runtime/engine_impl.h"
#include "runtime/models.h"
#include "verify/verify.h"
#include "vernier/compile.h"

namespace {

namespace fs = std::filesystem;
constexpr std::string_view kNone = "none", kNoneAtDefaultSizes = "none-at-default-sizes";
using vernier::test::device_under_test;
using vernier::test::Plant;

const Plant* find_plant(std::string_view name) {
  for (const Plant& plant : vernier::test::plants(device_under_test())) {
    if (plant.name == name) return &plant;
  }
  return nullptr;
}

// What `vernier verify` does, on an engine whose kernels hold the plant.
int verify_one(std::string_view plant, const std::string& model, const std::string& engine,
               const std::string& out) {
  vernier::verify::Request request;
  request.model = model;
  request.engine = engine;
  const Plant* planted = find_plant(plant);
  if (plant != kNoneAtDefaultSizes && !(planted && planted->default_sizes)) {
    request.batches = {1, 4, 8};
    request.lengths = {4, 16};
  }
  request.threads = 2;
  const auto opened =
      vernier::Engine::open(engine, vernier::test::planted_backend(planted, device_under_test()));
  const vernier::verify::Report report =
      vernier::verify::verify_engine(opened, *vernier::onnx::import_model(request.model), request);
  std::ofstream(out) << vernier::verify::to_json(report);
  return report.passed() ? 0 : 1;
}

struct Outcome {
  int exit_code = -1;
  nlohmann::json report;
};

Outcome run(const std::string& program, std::string_view plant, const fs::path& model,
            const fs::path& engine, const fs::path& out) {
  const std::string command = fmt::format("'{}' --one {} '{}' '{}' '{}'", program, plant,
                                          model.string(), engine.string(), out.string());
  const int status = std::system(command.c_str());
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::ifstream file(out);
  if (file) outcome.report = nlohmann::json::parse(file);
  return outcome;
}

// The rows of the matrix, with the engines and twins that they share.
class Matrix {
 public:
  Matrix(std::string program, fs::path folder)
      : program_(std::move(program)), folder_(std::move(folder)) {}

  bool check(const Plant& plant) {
    const fs::path engine = engine_of(plant, "");
    const Outcome planted = run(plant.name, plant,
                                plant.spoil     ? spoiled(plant, engine)
                                : plant.rewrite ? rewritten(plant)
                                                : engine);
    const Outcome& twin = twin_of(plant, engine);
    const std::string verdict = planted.report.value("verdict", "none");
    const std::string why = planted.report.value("explanation", "none");
    const bool named = why.find(std::string(plant.kernel)) != std::string::npos;
    bool right = planted.exit_code == 1 && verdict == plant.verdict &&
                 (named || !plant.names_step) && passes(twin);
    std::string unfused = "-";
    if (!plant.fusion.empty()) {
      const Outcome split = run(plant.name, plant, engine_of(plant, plant.fusion));
      unfused = passes(split) ? "pass" : "fails";
      right = right && passes(split);
    }
    fmt::print("{:<20} {:<5} {:<26} {:<5} {:<13} {:<5} {:<8} {}\n", plant.name, plant.mode, verdict,
               planted.exit_code, named ? "named" : "not named", twin.exit_code, unfused,
               right ? "ok" : "WRONG");
    if (!right) {
      fmt::print("  expected '{}' at {}; got: {}\n  twin: {}\n", plant.verdict, plant.kernel, why,
                 twin.report.value("explanation", "none"));
    }
    std::fflush(stdout);
    return right;
  }

 private:
  static bool passes(const Outcome& outcome) {
    return outcome.exit_code == 0 && outcome.report.value("verdict", "none") == "pass";
  }
  fs::path model_of(const Plant& plant) const {
    fs::path model = vernier::test::models_folder() / plant.model / "model.onnx";
    if (fs::exists(model)) return model;
    model = folder_ / (std::string(plant.model) + ".onnx");
    if (!fs::exists(model)) vernier::test::write_plant_model(plant.model, model);
    return model;
  }
  fs::path engine_of(const Plant& plant, std::string_view without) const {
    fs::path engine = folder_ / fmt::format("{}.{}.{}.vn", plant.model, plant.mode, without);
    if (fs::exists(engine)) return engine;
    vernier::CompileOptions options = vernier::test::options_here();
    options.mode = plant.mode;
    if (!without.empty()) options.passes_off = {std::string(without)};
    vernier::compile(model_of(plant).string(), engine.string(), options);
    return engine;
  }
  fs::path spoiled(const Plant& plant, const fs::path& right) const {
    vernier::plan::Plan plan = vernier::Engine::open(right.string())->impl().plan;
    plant.spoil(plan);
    fs::path engine = folder_ / fmt::format("{}.vn", plant.name);
    vernier::engine::write_engine(engine, plan);
    return engine;
  }
  fs::path rewritten(const Plant& plant) const {
    const auto model = vernier::onnx::import_model(model_of(plant).string());
    plant.rewrite(*model);
    vernier::CompileOptions options = vernier::test::options_here();
    options.mode = plant.mode;
    fs::path engine = folder_ / fmt::format("{}.vn", plant.name);
    vernier::engine::write_engine(engine, vernier::compiler::plan_of(*model, options));
    return engine;
  }
  Outcome run(std::string_view plant, const Plant& of, const fs::path& engine) const {
    const fs::path out = folder_ / fmt::format("{}.json", plant);
    return ::run(program_, plant, model_of(of), engine, out);
  }
  const Outcome& twin_of(const Plant& plant, const fs::path& engine) {
    const std::string_view none = plant.default_sizes ? kNoneAtDefaultSizes : kNone;
    const fs::path key = engine / none;
    const auto found = twins_.find(key);
    if (found != twins_.end()) return found->second;
    return twins_[key] = run(none, plant, engine);
  }

  std::string program_;
  fs::path folder_;
  std::map<fs::path, Outcome> twins_;  // by engine and sizes
};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 6 && std::string_view(argv[1]) == "--one")
    return verify_one(argv[2], argv[3], argv[4], argv[5]);
  if (argc == 3 && std::string_view(argv[1]) == "--drawn") {
    constexpr int kOneIn = 50;
    const int count = std::atoi(argv[2]);
    return vernier::test::find_drawn_plants(count) * kOneIn <= count ? 0 : 1;
  }
  if (argc == 2 && std::string_view(argv[1]) == "--proportional")
    return vernier::test::find_proportional_errors() == 0 ? 0 : 1;
  size_t part = 1, parts = 1;
  const bool in_parts = argc == 3 && std::string_view(argv[1]) == "--part" &&
                        std::sscanf(argv[2], "%zu/%zu", &part, &parts) == 2 && part >= 1 &&
                        part <= parts;
  if (argc != 1 && !in_parts) {
    fmt::print(stderr,
               "usage: planted_defects [--part I/N | --one PLANT|none|none-at-default-sizes MODEL "
               "ENGINE OUT.json | --drawn COUNT | --proportional]\n");
    return 2;
  }
  const std::string device = device_under_test();
  if (const vernier::Support here = vernier::test::available(device); !here) {
    fmt::print("SKIP planted_defects on {}: {}\n", device, here.reason);
    return 0;
  }
  std::string name = (fs::temp_directory_path() / "vernier_plants_XXXXXX").string();
  const fs::path folder = mkdtemp(name.data());
  fmt::print("{:<20} {:<5} {:<26} {:<5} {:<13} {:<5} {:<8}\n", "planted defect", "mode", "verdict",
             "exit", "step", "twin", "unfused");
  int wrong = 0;
  Matrix matrix(fs::canonical("/proc/self/exe").string(), folder);
  const auto plants = vernier::test::plants(device);
  for (size_t i = part - 1; i < plants.size(); i += parts) wrong += !matrix.check(plants[i]);
  fs::remove_all(folder);
  return wrong == 0 ? 0 : 1;
}
