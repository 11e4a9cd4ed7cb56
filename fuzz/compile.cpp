// Fuzz target: the whole path of an ONNX model: import, passes, folding, plan, engine, and two
// small runs. Every model must give outputs or Error. Input: the model, compiled for fp32;
// optionally preceded by one byte below 8 (no model begins with one) that selects the mode.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "engine_runs.h"
#include "model_mutator.h"
#include "onnx/import.h"
#include "target.h"

namespace vernier::fuzz {
namespace {

constexpr size_t kLargest = 1 << 16;
constexpr uint8_t kModeBytes = 8;
constexpr std::array<const char*, 4> kModes{"fp32", "fp16", "bf16", "model"};

struct ModelInput {
  size_t mode = 0;
  std::span<const std::byte> model;
};
ModelInput read(std::span<const std::byte> input) {
  const bool has_mode = !input.empty() && static_cast<uint8_t>(input.front()) < kModeBytes;
  if (!has_mode) return {0, input};
  return {static_cast<size_t>(input.front()) % kModes.size(), input.subspan(1)};
}

// The models of the corpora, in the order of their names.
std::vector<Model> load_models() {
  std::vector<std::filesystem::path> paths;
  for (const char* corpus : {"model", "compile"}) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(
             std::filesystem::path(VERNIER_FUZZ_CORPUS) / corpus, none))
      paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<Model> models;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const auto model = read(std::as_bytes(std::span(bytes))).model;
    if (Model parsed; parsed.ParseFromArray(model.data(), static_cast<int>(model.size())))
      models.push_back(std::move(parsed));
  }
  return models;
}
const std::vector<Model>& models() {
  static const std::vector<Model> loaded = load_models();
  return loaded;
}

Bytes changed(Model model, size_t mode, SplitMix& random) {
  for (uint64_t left = 1 + random.next() % 8 / 3; left > 0; --left)
    change_model(model, models(), Choices(random_bytes(random, kModelChangeBytes)));
  if (random.next() % 8 == 0) mode = random.next() % kModes.size();
  std::string bytes = model.SerializeAsString();
  // Occasionally bytes that no serializer writes.
  if (random.next() % 32 == 0 && !bytes.empty())
    bytes[random.next() % bytes.size()] = static_cast<char>(random.next());
  Bytes input(1 + bytes.size(), static_cast<std::byte>(mode));
  std::ranges::copy(std::as_bytes(std::span(bytes)), input.begin() + 1);
  return input;
}

Bytes make(SplitMix& random) {
  if (models().empty()) return {};
  return changed(models()[random.next() % models().size()], random.next() % kModes.size(), random);
}

Bytes mutate(std::span<const std::byte> input, SplitMix& random) {
  const ModelInput old = read(input);
  Model model;
  if (old.model.empty() ||
      !model.ParseFromArray(old.model.data(), static_cast<int>(old.model.size())))
    return make(random);
  return changed(std::move(model), old.mode, random);
}

Outcome execute(std::span<const std::byte> input) {
  if (input.size() > kLargest) return Outcome::kTooLarge;
  const ModelInput what = read(input);
  Bytes bytes;
  holds("compile", [&] {
    const auto graph = onnx::import_model_bytes(what.model, "");
    CompileOptions options;
    options.mode = kModes[what.mode];
    bytes = engine::engine_bytes(compiler::plan_of(*graph, options));
  });
  if (bytes.empty()) return Outcome::kRefused;
  std::shared_ptr<const Engine> engine;
  try {
    engine = Engine::from_bytes(bytes);
  } catch (const Error& error) {
    broken("compile", std::string("the engine that it built does not open: ") + error.what());
  }
  inspect(*engine);
  Choices of_run(input.last(std::min<size_t>(input.size(), 16)));
  return run_small(engine, of_run);
}

}  // namespace

constinit const Target kCompile{"compile", &make, &mutate, &execute};

}  // namespace vernier::fuzz
