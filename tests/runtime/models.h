// The example models and their stored cases, for tests that compile and run them.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "io/npz.h"
#include "vernier/compile.h"
#include "vernier/session.h"

namespace vernier::test {

/// One stored input set with its FP64 outputs (f64 arrays).
struct ModelCase {
  std::string file;
  NamedTensors inputs, outputs;
};

struct ExampleModel {
  std::string name;
  std::filesystem::path path;
  double onnxruntime_max_abs_error = 0;  ///< as manifest.jsonl says
  std::vector<ModelCase> cases() const;
};

/// tests/models of the working folder, or else of the source tree that the program was built from:
/// a program may be built on one machine and run on another.
std::filesystem::path models_folder();

/// The models below tests/models, by name. Never empty.
std::vector<ExampleModel> example_models();
ExampleModel example_model(const std::string& name);

/// The device that models are built for: what the environment variable VERNIER_TEST_DEVICE says, or
/// cpu. The scenarios and the golden outputs are the same on every device.
std::string device_under_test();
/// CompileOptions for it.
CompileOptions options_here();

/// The arrays of an encoder of sentences: `ids` and `mask` of [rows, length], all of token type 0.
inline NamedTensors encoder_inputs(const Shape& shape, const std::vector<int64_t>& ids,
                                   const std::vector<int64_t>& mask) {
  const std::vector<int64_t> types(ids.size(), 0);
  const auto array = [&](const std::vector<int64_t>& values) {
    return Tensor::from(DType::kI64, shape, std::span(values));
  };
  return {
      {"input_ids", array(ids)}, {"attention_mask", array(mask)}, {"token_type_ids", array(types)}};
}

/// Views of tensors as session inputs.
std::vector<Input> refs(const NamedTensors& tensors);
/// A copy of an output.
Tensor copy(const Output& output);
/// Row `row` of every tensor, as arrays with one row.
NamedTensors row_of(const NamedTensors& tensors, int64_t row);
/// Rows 0, 1, … of every tensor, cycling until there are `rows`.
NamedTensors cycle_rows(const NamedTensors& tensors, int64_t rows);
/// Part `index` of `tensor` along `axis`, dense.
Tensor part_of(const Tensor& tensor, size_t axis, int64_t index);

}  // namespace vernier::test
