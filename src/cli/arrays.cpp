// Arrays as the commands need them: see arrays.h.
#include "cli/arrays.h"

#include <algorithm>

#include "vernier/error.h"

namespace vernier::cli {
namespace {

constexpr int64_t kDefaultLength = 128;

/// What was asked for, checked against the engine's range, or a default within it.
int64_t size_of(const PortDim& dim, int64_t asked, int64_t fallback, const char* option) {
  if (dim.min == dim.max) return dim.min;
  if (asked == Sizes::kNone) return std::clamp(fallback, dim.min, dim.max);
  if (asked < dim.min || asked > dim.max) {
    throw Error(ErrorCode::kInput, std::string(option) + " " + std::to_string(asked) +
                                       ": the engine was built for " + dim.text + " = " +
                                       std::to_string(dim.min) + ".." + std::to_string(dim.max) +
                                       "; build it with --shapes for other sizes");
  }
  return asked;
}

Shape shape_of(const Port& port, const Sizes& sizes) {
  Shape shape;
  for (size_t axis = 0; axis < port.dims.size(); ++axis) {
    shape.push_back(axis == 0 ? size_of(port.dims[axis], sizes.batch, 1, "--batch")
                              : size_of(port.dims[axis], sizes.length, kDefaultLength, "--length"));
  }
  return shape;
}

Tensor synthesised(const Port& info, const Sizes& sizes) {
  Shape shape = shape_of(info, sizes);
  const auto elems = static_cast<size_t>(num_elems(shape));
  if (is_float(info.dtype)) {
    std::vector<double> values(elems);
    uint64_t state = 1;  // a fixed linear congruential sequence
    for (double& value : values) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      value = static_cast<double>(state >> 33) / static_cast<double>(1ULL << 30) - 1;
    }
    return Tensor::from(info.dtype, std::move(shape), values);
  }
  const bool ones = info.dtype == DType::kBool || info.name.find("mask") != std::string::npos;
  std::vector<int64_t> values(elems);
  for (size_t i = 0; i < elems; ++i) values[i] = ones ? 1 : static_cast<int64_t>(i % 2);
  return Tensor::from(info.dtype, std::move(shape), values);
}

}  // namespace

std::vector<Input> as_inputs(const io::NamedTensors& arrays) {
  std::vector<Input> inputs;
  for (const auto& [name, tensor] : arrays) {
    inputs.push_back({name, tensor.dtype(), tensor.shape(), tensor.data()});
  }
  return inputs;
}

io::NamedTensors run_session(Session& session, const io::NamedTensors& inputs) {
  io::NamedTensors outputs;
  for (const Output& output : session.run(as_inputs(inputs))) {
    outputs.emplace_back(
        output.name,
        Tensor::from_bytes(output.dtype, Shape(output.shape.begin(), output.shape.end()),
                           {static_cast<const std::byte*>(output.data), output.bytes}));
  }
  return outputs;
}

Tensor row_of(const Tensor& tensor, int64_t row) {
  Shape shape = tensor.shape();
  const size_t row_bytes = tensor.bytes() / static_cast<size_t>(shape.front());
  shape.front() = 1;
  return Tensor::from_bytes(
      tensor.dtype(), std::move(shape),
      tensor.byte_span().subspan(static_cast<size_t>(row) * row_bytes, row_bytes));
}

io::NamedTensors with_prefix(const io::NamedTensors& arrays, const std::string& prefix) {
  io::NamedTensors found;
  for (const auto& [name, tensor] : arrays) {
    if (name.starts_with(prefix)) found.emplace_back(name.substr(prefix.size()), tensor);
  }
  return found;
}

io::NamedTensors synthesised_inputs(const Engine& engine, const Sizes& sizes) {
  io::NamedTensors inputs;
  for (const Port& port : engine.inputs()) {
    inputs.emplace_back(port.name, synthesised(port, sizes));
  }
  return inputs;
}

}  // namespace vernier::cli
