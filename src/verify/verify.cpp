// Verify on files: reads model and engine, runs the engine, compares. See verify.h.
#include "verify/verify.h"

#include <algorithm>
#include <set>

#include "onnx/import.h"
#include "runtime/engine_impl.h"
#include "vernier/session.h"

namespace vernier::verify {
namespace {

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The engine must answer every output of the model, under its name, from the same inputs.
void check_same_model(const ir::Graph& model, const Engine& engine, const Request& request) {
  std::vector<std::string> model_inputs, engine_inputs, engine_outputs;
  for (ir::ValueId id : model.inputs) model_inputs.push_back(model.value(id).name);
  for (const Port& port : engine.inputs()) engine_inputs.push_back(port.name);
  for (const Port& port : engine.outputs()) engine_outputs.push_back(port.name);
  const auto refuse = [&](const std::string& what, const std::vector<std::string>& in_model,
                          const std::vector<std::string>& in_engine) {
    throw Error(ErrorCode::kInput, "engine '" + request.engine.string() +
                                       "' was not built from model '" + request.model.string() +
                                       "': the model's " + what + " are " + join(in_model) +
                                       ", the engine's " + join(in_engine));
  };
  if (std::set(model_inputs.begin(), model_inputs.end()) !=
      std::set(engine_inputs.begin(), engine_inputs.end())) {
    refuse("inputs", model_inputs, engine_inputs);
  }
  for (const std::string& name : model.output_names) {
    if (std::find(engine_outputs.begin(), engine_outputs.end(), name) == engine_outputs.end()) {
      refuse("outputs", model.output_names, engine_outputs);
    }
  }
}

}  // namespace

Report verify(const Request& request) {
  const std::shared_ptr<const Engine> engine = Engine::open(request.engine.string());
  engine->check_weights();
  const std::shared_ptr<ir::Graph> model = onnx::import_model(request.model);
  check_same_model(*model, *engine, request);
  std::vector<Input> inputs;
  for (const auto& [name, tensor] : request.inputs)
    inputs.push_back({name, tensor.dtype(), tensor.shape(), tensor.data()});
  Session session(engine, {.threads = request.threads});
  NamedTensors answers;
  for (const Output& output : session.run(inputs)) {
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(output.data),
                                           output.bytes);
    answers.emplace_back(
        output.name,
        Tensor::from_bytes(output.dtype, {output.shape.begin(), output.shape.end()}, bytes));
  }
  return compare(*model, engine->impl().plan, *engine->impl().backend, request.inputs, answers,
                 request);
}

}  // namespace vernier::verify
