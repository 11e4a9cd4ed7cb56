// Arrays as the commands need them: see arrays.h.
#include "cli/arrays.h"

namespace vernier::cli {

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

}  // namespace vernier::cli
