// planted_defects: the matrix of planted defects. Each row runs `verify` twice in a process of its
// own, with the plant and without; the first must exit 1 with the right verdict and name the step,
// the second must exit 0. Usage: planted_defects          the whole matrix, exit 1 if a row is
// wrong
//                                planted_defects --one PLANT|none MODEL.onnx ENGINE.vn OUT.json
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "onnx/import.h"
#include "plants/models.h"
#include "plants/plants.h"
#include "verify/verify.h"
#include "vernier/compile.h"

namespace {

namespace fs = std::filesystem;
using vernier::test::Plant;

const Plant* find_plant(std::string_view name) {
  for (const Plant& plant : vernier::test::plants()) {
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
  request.batches = {1, 4, 8};
  request.lengths = {4, 16};
  request.threads = 2;
  const auto opened =
      vernier::Engine::open(engine, vernier::test::planted_backend(find_plant(plant)));
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

bool check(const std::string& program, const Plant& plant, const fs::path& folder) {
  fs::path model = fs::path(VERNIER_TEST_MODELS) / plant.model / "model.onnx";
  if (!fs::exists(model)) {
    model = folder / (std::string(plant.model) + ".onnx");
    vernier::test::write_plant_model(plant.model, model);
  }
  const fs::path engine = folder / "model.vn";
  vernier::compile(model.string(), engine.string());
  const Outcome planted = run(program, plant.name, model, engine, folder / "planted.json");
  const Outcome twin = run(program, "none", model, engine, folder / "twin.json");
  const std::string verdict = planted.report.value("verdict", "none");
  const std::string why = planted.report.value("explanation", "none");
  const bool named = why.find(std::string(plant.kernel)) != std::string::npos;
  const bool right = planted.exit_code == 1 && verdict == plant.verdict &&
                     (named || !plant.names_step) && twin.exit_code == 0 &&
                     twin.report.value("verdict", "none") == "pass";
  fmt::print("{:<20} {:<26} {:<5} {:<13} {:<5} {}\n", plant.name, verdict, planted.exit_code,
             named ? "named" : "not named", twin.exit_code, right ? "ok" : "WRONG");
  if (!right) fmt::print("  expected '{}' at {}; got: {}\n", plant.verdict, plant.kernel, why);
  std::fflush(stdout);
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 6 && std::string_view(argv[1]) == "--one")
    return verify_one(argv[2], argv[3], argv[4], argv[5]);
  if (argc != 1) {
    fmt::print(stderr, "usage: planted_defects [--one PLANT|none MODEL ENGINE OUT.json]\n");
    return 2;
  }
  std::string name = (fs::temp_directory_path() / "vernier_plants_XXXXXX").string();
  const fs::path folder = mkdtemp(name.data());
  fmt::print("{:<20} {:<26} {:<5} {:<13} {:<5}\n", "planted defect", "verdict", "exit", "step",
             "twin");
  int wrong = 0;
  for (const Plant& plant : vernier::test::plants())
    wrong += !check(fs::canonical("/proc/self/exe").string(), plant, folder);
  fs::remove_all(folder);
  return wrong == 0 ? 0 : 1;
}
