// Arrays as the commands need them: see arrays.h.
#include "cli/arrays.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/common.h"
#include "vernier/packed.h"

namespace vernier::cli {

namespace {

constexpr const char* kStarts = "cu_seqlens";

bool is_packed(const Session& session, const io::ArrayFile& file) {
  const std::vector<Port>& inputs = session.engine().inputs();
  return std::ranges::find(file.headers(), kStarts, &io::ArrayHeader::name) !=
             file.headers().end() &&
         std::ranges::find(inputs, kStarts, &Port::name) == inputs.end();
}

NamedTensors padded_arrays(const Session& session, NamedTensors arrays,
                           std::vector<int64_t>& starts) {
  const auto own = std::ranges::find(arrays, kStarts, &NamedTensors::value_type::first);
  starts = starts_of(own->second);
  arrays.erase(own);
  return padded(session.engine(), arrays, starts);
}

}  // namespace

io::ArraySets read_input_sets(Session& session, const std::string& path,
                              std::vector<int64_t>* starts) {
  if (io::is_json_file(path)) {
    io::ArraySets sets = io::read_polygraphy(path);
    for (const NamedTensors& arrays : sets) session.check_inputs(as_inputs(arrays));
    return sets;
  }
  const io::ArrayFile file = io::ArrayFile::open(path);
  if (is_packed(session, file)) {
    std::vector<int64_t> own;
    io::ArraySets sets{padded_arrays(session, file.read_all(), starts != nullptr ? *starts : own)};
    session.check_inputs(as_inputs(sets.front()));
    return sets;
  }
  std::vector<Input> inputs;
  for (const io::ArrayHeader& array : file.headers())
    inputs.push_back({array.name, array.dtype, array.shape, nullptr});
  session.check_inputs(inputs);
  return {file.read_all()};
}

void warn_of_more(const std::string& path, size_t count) {
  warn("'" + path + "' holds " + std::to_string(count) + " sets of arrays; the first is used");
}

NamedTensors read_inputs(Session& session, const std::string& path) {
  io::ArraySets sets = read_input_sets(session, path);
  if (sets.size() > 1) warn_of_more(path, sets.size());
  return std::move(sets.front());
}

std::vector<verify::UserInputs> read_user_inputs(const std::string& engine,
                                                 const std::vector<std::string>& plugins,
                                                 const std::string& path) {
  if (!io::is_json_file(path))
    io::ArrayFile::open(path);  // a wrong file is refused before the engine is opened
  const EngineOptions opening{.kernels = plugin_kernels(plugins)};
  Session session(Engine::open(engine, opening), {.threads = 1});
  io::ArraySets sets = read_input_sets(session, path);
  std::vector<verify::UserInputs> named;
  for (size_t i = 0; i < sets.size(); ++i) {
    named.push_back({sets.size() > 1 ? path + " #" + std::to_string(i) : path, std::move(sets[i])});
  }
  return named;
}

NamedTensors read_outputs(const std::string& engine, const std::vector<std::string>& plugins,
                          const std::string& path) {
  if (io::is_json_file(path)) return io::read_polygraphy(path).front();
  const io::ArrayFile file = io::ArrayFile::open(path);
  const EngineOptions opening{.kernels = plugin_kernels(plugins)};
  const std::shared_ptr<const Engine> opened = Engine::open(engine, opening);
  const std::vector<Port>& outputs = opened->outputs();
  NamedTensors arrays;
  for (size_t i = 0; i < file.headers().size(); ++i) {
    const io::ArrayHeader& array = file.headers()[i];
    const bool known = std::ranges::find(outputs, array.name, &Port::name) != outputs.end();
    arrays.emplace_back(array.name,
                        known ? file.read(i) : Tensor::from_bytes(array.dtype, {0}, {}));
  }
  return arrays;
}

std::vector<Input> as_inputs(const NamedTensors& arrays) {
  std::vector<Input> inputs;
  for (const auto& [name, tensor] : arrays) {
    inputs.push_back({name, tensor.dtype(), tensor.shape(), tensor.data()});
  }
  return inputs;
}

NamedTensors run_session(Session& session, const NamedTensors& inputs) {
  NamedTensors outputs;
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

nlohmann::json json_of(const NamedTensors& arrays) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [name, tensor] : arrays)
    rows.push_back(
        {{"name", name}, {"type", vernier::name(tensor.dtype())}, {"shape", tensor.shape()}});
  return rows;
}

NamedTensors with_prefix(const NamedTensors& arrays, const std::string& prefix) {
  NamedTensors found;
  for (const auto& [name, tensor] : arrays) {
    if (name.starts_with(prefix)) found.emplace_back(name.substr(prefix.size()), tensor);
  }
  return found;
}

}  // namespace vernier::cli
