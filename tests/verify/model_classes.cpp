// Classes of models: see model_classes.h.
#include "verify/model_classes.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "onnx/import.h"
#include "verify/verify.h"
#include "vernier/compile.h"

namespace vernier::test {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHeader =
    "# Other projects' models (not in this repository): which build, and why the others are "
    "refused.\n# Made by tools/classify_models.cpp; checked by tests/verify/peers_test.cpp.\n";

// The first line of a message; where it announces a list, with the list's first entry. The file
// that it speaks of is left out.
std::string first_line(const std::string& message, const fs::path& file) {
  constexpr size_t kLongest = 200;
  size_t end = message.find('\n');
  if (end != std::string::npos && end > 0 && message[end - 1] == ':')
    end = message.find('\n', end + 1);
  std::string line = message.substr(0, end);
  for (char& c : line) c = c == '\n' || c == '\t' ? ' ' : c;
  for (const std::string& name :
       {"cannot import '" + file.string() + "': ", file.parent_path().string() + "/"}) {
    for (size_t at; (at = line.find(name)) != std::string::npos;) line.erase(at, name.size());
  }
  if (line.size() > kLongest) line = line.substr(0, kLongest) + "...";
  return line;
}

std::string verdict_of(std::vector<std::byte> bytes, const fs::path& file) {
  verify::Request request;
  request.batches = {1, 3};
  request.lengths = {5};
  request.threads = 2;
  const auto engine = Engine::from_bytes(std::move(bytes));
  return verify::verify_engine(engine, *onnx::import_model(file), request).verdict;
}

ModelClass classify(const fs::path& folder, const fs::path& file, Verdicts verdicts) {
  const std::string path = fs::relative(file, folder).generic_string();
  std::vector<std::byte> engine;
  try {
    engine = compile_to_bytes(file.string());
  } catch (const Error& error) {
    const bool refused = error.code() == ErrorCode::kInput;
    return {path, refused ? "refused" : "failed", first_line(error.what(), file)};
  } catch (const std::exception& error) {
    return {path, "failed", first_line(error.what(), file)};
  }
  if (verdicts == Verdicts::kNo) return {path, "builds", ""};
  try {
    return {path, "builds", verdict_of(std::move(engine), file)};
  } catch (const std::exception& error) {
    return {path, "builds", "not verified: " + first_line(error.what(), file)};
  }
}

}  // namespace

std::vector<ModelClass> classify_models(const fs::path& folder, Verdicts verdicts) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".onnx") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<ModelClass> models;
  for (const fs::path& file : files) models.push_back(classify(folder, file, verdicts));
  return models;
}

std::string to_tsv(const std::vector<ModelClass>& models) {
  std::string text(kHeader);
  for (const ModelClass& model : models)
    text += model.path + "\t" + model.outcome + (model.why.empty() ? "" : "\t" + model.why) + "\n";
  return text;
}

std::vector<ModelClass> read_tsv(const fs::path& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error("cannot read " + file.string());
  std::vector<ModelClass> models;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream columns(line);
    ModelClass model;
    std::getline(columns, model.path, '\t');
    std::getline(columns, model.outcome, '\t');
    std::getline(columns, model.why);
    if (model.outcome != "builds" && model.outcome != "refused")
      throw std::runtime_error(file.string() + ": bad line '" + line + "'");
    models.push_back(std::move(model));
  }
  return models;
}

}  // namespace vernier::test
