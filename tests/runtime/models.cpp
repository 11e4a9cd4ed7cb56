// Example models and cases: see models.h.
#include "runtime/models.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/npz.h"

namespace vernier::test {
namespace {

const std::filesystem::path kFolder = models_folder();

// Copies `rows` slices of the first axis, picked by source_row(r).
template <class SourceRow>
Tensor gather_rows(const Tensor& t, int64_t rows, SourceRow source_row) {
  Shape shape = t.shape();
  const size_t row_bytes = t.bytes() / static_cast<size_t>(shape[0]);
  shape[0] = rows;
  std::vector<std::byte> bytes(row_bytes * static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(bytes.data() + static_cast<size_t>(r) * row_bytes,
                t.data() + static_cast<size_t>(source_row(r)) * row_bytes, row_bytes);
  }
  return Tensor::from_bytes(t.dtype(), std::move(shape), bytes);
}

}  // namespace

std::filesystem::path models_folder() {
  const std::filesystem::path here = "tests/models";
  const bool is_root = std::filesystem::exists(here / "manifest.jsonl");
  return is_root ? here : std::filesystem::path(VERNIER_SOURCE_DIR) / here;
}

std::vector<ExampleModel> example_models() {
  std::vector<ExampleModel> models;
  std::ifstream manifest(kFolder / "manifest.jsonl");
  for (std::string line; std::getline(manifest, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    const std::string name = row["name"];
    models.push_back({name, kFolder / name / "model.onnx", row["onnxruntime_max_abs_err"]});
  }
  if (models.empty()) throw std::runtime_error("no models in " + kFolder.string());
  return models;
}

ExampleModel example_model(const std::string& name) {
  for (ExampleModel& model : example_models()) {
    if (model.name == name) return model;
  }
  throw std::runtime_error("no model " + name);
}

std::vector<ModelCase> ExampleModel::cases() const {
  std::vector<ModelCase> result;
  for (int i = 0;; ++i) {
    const std::filesystem::path file = path.parent_path() / ("case_" + std::to_string(i) + ".npz");
    if (!std::filesystem::exists(file)) break;
    ModelCase one{file.filename().string(), {}, {}};
    for (auto& [key, tensor] : io::read_arrays(file)) {
      if (key.starts_with("in.")) one.inputs.emplace_back(key.substr(3), tensor);
      if (key.starts_with("out.")) one.outputs.emplace_back(key.substr(4), tensor);
    }
    result.push_back(std::move(one));
  }
  if (result.empty()) throw std::runtime_error("no cases beside " + path.string());
  return result;
}

std::string device_under_test() {
  const char* device = std::getenv("VERNIER_TEST_DEVICE");
  return device ? device : "cpu";
}

CompileOptions options_here() {
  CompileOptions options;
  options.device = device_under_test();
  return options;
}

std::vector<Input> refs(const NamedTensors& tensors) {
  std::vector<Input> inputs;
  for (const auto& [name, tensor] : tensors)
    inputs.push_back({name, tensor.dtype(), tensor.shape(), tensor.data()});
  return inputs;
}

Tensor copy(const Output& output) {
  return Tensor::from_bytes(output.dtype, {output.shape.begin(), output.shape.end()},
                            {static_cast<const std::byte*>(output.data), output.bytes});
}

NamedTensors row_of(const NamedTensors& tensors, int64_t row) {
  NamedTensors result;
  for (const auto& [name, t] : tensors)
    result.emplace_back(name, gather_rows(t, 1, [row](int64_t) { return row; }));
  return result;
}

NamedTensors cycle_rows(const NamedTensors& tensors, int64_t rows) {
  NamedTensors result;
  for (const auto& [name, t] : tensors) {
    const int64_t have = t.shape()[0];
    result.emplace_back(name, gather_rows(t, rows, [have](int64_t r) { return r % have; }));
  }
  return result;
}

Tensor part_of(const Tensor& tensor, size_t axis, int64_t index) {
  int64_t outer = 1;
  size_t inner = size_bytes(tensor.dtype());
  for (size_t d = 0; d < axis; ++d) outer *= tensor.shape()[d];
  for (size_t d = axis + 1; d < tensor.rank(); ++d) inner *= static_cast<size_t>(tensor.shape()[d]);
  const auto count = static_cast<size_t>(tensor.shape()[axis]);
  std::vector<std::byte> bytes;
  for (int64_t o = 0; o < outer; ++o) {
    const std::byte* from =
        tensor.data() + (static_cast<size_t>(o) * count + static_cast<size_t>(index)) * inner;
    bytes.insert(bytes.end(), from, from + inner);
  }
  Shape shape = tensor.shape();
  shape[axis] = 1;
  return Tensor::from_bytes(tensor.dtype(), std::move(shape), bytes);
}

}  // namespace vernier::test
