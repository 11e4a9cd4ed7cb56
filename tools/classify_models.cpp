// Prints which models below a folder build and verify and why the others are refused, as
// tests/models/peers.tsv has it; progress and a summary go to stderr. Run:
//   .venv/bin/python tools/check_onnx.py FOLDER > invalid.txt
//   build/release/classify_models FOLDER --verify --invalid invalid.txt > tests/models/peers.tsv
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <fstream>

#include "verify/model_classes.h"

namespace {

constexpr double kSlowSeconds = 2;  // such a file is named as it is done

int classify(const std::string& folder, vernier::test::ClassifyOptions options) {
  const std::vector<std::string> paths = vernier::test::models_below(folder);
  size_t done = 0;
  options.done = [&](const vernier::test::ModelClass& model, double seconds) {
    constexpr size_t kEvery = 100;
    if (++done % kEvery == 0) fmt::print(stderr, "{} of {} files\n", done, paths.size());
    if (seconds >= kSlowSeconds)
      fmt::print(stderr, "{:.1f} s  {}: {} {}\n", seconds, model.path, model.outcome, model.why);
  };
  const std::vector<vernier::test::ModelClass> models =
      vernier::test::classify_models(folder, paths, options);
  std::fputs(vernier::test::to_tsv(models).c_str(), stdout);
  fmt::print(stderr, "{}\n", vernier::test::summary(models));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Which models below a folder build, and why the others are refused");
  vernier::test::ClassifyOptions options;
  std::string folder, invalid;
  bool verify = false;
  app.add_option("FOLDER", folder, "searched for .onnx files")->required();
  app.add_flag("--verify", verify, "hold each engine against its model, too");
  app.add_option("--invalid", invalid, "list of files that ONNX's checker refuses")
      ->check(CLI::ExistingFile);
  app.add_option("--jobs", options.jobs, "files side by side")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--limit-seconds", options.limit_seconds, "time for one file")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (verify) options.verdicts = vernier::test::Verdicts::kYes;
  std::ifstream lines(invalid);
  for (std::string line; std::getline(lines, line);) options.invalid.insert(line);
  try {
    return classify(folder, options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "classify_models: {}\n", error.what());
    return 1;
  }
}
