// Checkpoints of a sweep: see checkpoint.h.
#include "verify/sweep/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/hash.h"
#include "io/npz.h"
#include "runtime/certified.h"
#include "verify/sweep/state_json.h"

namespace vernier::verify {
namespace {

using nlohmann::json;

std::string hash_of_arrays(const NamedTensors& arrays) {
  Hash128 hash;
  for (const auto& [name, tensor] : arrays) {
    const std::string about =
        name + str(tensor.shape()) + std::string(vernier::name(tensor.dtype()));
    hash.add(std::as_bytes(std::span(about)));
    hash.add(tensor.byte_span());
  }
  return hex(hash.digest());
}

// Equal texts: the same units give the same findings.
std::string about_text(const Context& context) {
  constexpr int kFormat = 1;
  const Subject& subject = context.subject;
  const Request& request = subject.request;
  json about{
      {"format", kFormat},
      {"engine", subject.engine->content_hash()},
      {"model", file_hash(request.model)},
      {"environment", json::array()},
      {"plugins", json::array()},
      {"inputs", json::array()},
      {"expect", hash_of_arrays(request.expect)},
      {"task", {request.task.metric, request.task.output, hash_of_arrays(request.task.labels)}},
      {"tolerance", to_text(request.tolerance)},
      {"above_noise", request.tolerance.above_noise},
      {"accept_declared", request.accept_declared},
      {"batches", request.batches},
      {"lengths", request.lengths},
      {"depth", static_cast<int>(request.depth)},
      {"budget", request.budget_seconds},
      {"batch_axis", request.batch_axis},
      {"seed", request.seed},
      {"evaluate_on", request.evaluate_on},
      {"against", request.against.empty() ? "" : file_hash(request.against)},
      {"also", request.also}};
  for (const auto& [of, number] : runtime::environment_of(subject.backend))
    about["environment"].push_back({of, number});
  for (const auto& plugin : runtime::certified_plugins(subject.plan))
    about["plugins"].push_back({plugin.name, plugin.hash});
  for (const UserInputs& inputs : request.inputs)
    about["inputs"].push_back({inputs.label, hash_of_arrays(inputs.arrays)});
  return about.dump(-1, ' ', false, json::error_handler_t::replace);
}

Tensor bytes_tensor(std::span<const std::byte> bytes) {
  return Tensor::from_bytes(DType::kU8, {std::ssize(bytes)}, bytes);
}

// "r.2.5.logits": R of row 5 of group 2. F: "f."
std::string array_name(const char* what, size_t group, size_t row, const std::string& value) {
  return fmt::format("{}.{}.{}.{}", what, group, row, value);
}

void add_values(const char* what, size_t group, const std::vector<NamedValues>& rows,
                NamedTensors& arrays) {
  for (size_t row = 0; row < rows.size(); ++row) {
    for (const auto& [name, value] : rows[row]) {
      const std::string array = array_name(what, group, row, name);
      arrays.emplace_back(
          array,
          value.is_float()
              ? Tensor::from_bytes(DType::kF64, value.shape, std::as_bytes(std::span(value.f)))
              : Tensor::from_bytes(DType::kI64, value.shape, std::as_bytes(std::span(value.i))));
    }
  }
}

// The value of one row and output, of this type in the model; nullopt: the file has none such.
std::optional<EvalTensor> value_of(const NamedTensors& arrays, const std::string& name,
                                   DType dtype) {
  const Tensor* array = find(arrays, name);
  const DType expected = is_float(dtype) ? DType::kF64 : DType::kI64;
  if (array == nullptr || array->dtype() != expected) return std::nullopt;
  EvalTensor value = EvalTensor::from(*array);
  value.dtype = dtype;
  return value;
}

// The rows that the file has of a group, one after another.
std::vector<NamedValues> rows_of(const NamedTensors& arrays, const char* what, size_t group,
                                 const ir::Graph& model, size_t most) {
  std::vector<NamedValues> rows;
  for (size_t row = 0; row < most; ++row) {
    NamedValues values;
    for (size_t i = 0; i < model.outputs.size(); ++i) {
      const std::string& name = model.output_names[i];
      std::optional<EvalTensor> value =
          value_of(arrays, array_name(what, group, row, name), model.value(model.outputs[i]).dtype);
      if (value) values[name] = std::move(*value);
    }
    if (values.size() != model.outputs.size()) break;
    rows.push_back(std::move(values));
  }
  return rows;
}

}  // namespace

const std::string& Checkpoint::about() {
  if (about_.empty()) about_ = about_text(context_);
  return about_;
}

std::optional<SweepState> Checkpoint::read(std::string& said) {
  const Request& request = context_.subject.request;
  if (!request.resume) return std::nullopt;
  const std::string file = request.checkpoint.string();
  std::error_code none;
  if (!std::filesystem::exists(request.checkpoint, none)) {
    said = fmt::format("there is no '{}' to go on from: the verification begins anew", file);
    return std::nullopt;
  }
  const auto not_used = [&](const std::string& why) {
    said = fmt::format("'{}' was not used: {}. The verification begins anew", file, why);
    return std::nullopt;
  };
  try {
    arrays_ = io::read_arrays(request.checkpoint);
    const Tensor *own = find(arrays_, "about"), *state = find(arrays_, "state");
    if (own == nullptr || state == nullptr || state->dtype() != DType::kU8)
      return not_used("it is no checkpoint of verify");
    const std::string& now = about();
    if (own->bytes() != now.size() || std::memcmp(own->data(), now.data(), now.size()) != 0) {
      return not_used(
          "it is of another engine, model or machine, or of a request with other inputs or "
          "options");
    }
    const std::span<const std::byte> bytes = state->byte_span();
    SweepState found =
        state_of_cbor({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    const size_t steps = found.report.steps.size();
    if ((steps > 0 && steps != context_.subject.plan.steps.size()) || found.units < 1 ||
        found.units > found.of)
      return not_used("its steps are not those of the engine");
    written_ = true;
    return found;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInput) throw;
    return not_used(std::string("it is damaged (") + error.what() + ")");
  }
}

void Checkpoint::fill(std::vector<Group>& groups) {
  const ir::Graph& model = context_.subject.model;
  for (size_t g = 0; g < groups.size(); ++g) {
    const size_t most = groups[g].rows.size();
    groups[g].reference = rows_of(arrays_, "r", g, model, most);
    groups[g].exact = rows_of(arrays_, "f", g, model, most);
  }
  arrays_.clear();
}

void Checkpoint::write() {
  const auto begun = Clock::now();
  NamedTensors arrays{{"about", bytes_tensor(std::as_bytes(std::span(about())))},
                      {"state", bytes_tensor(std::as_bytes(std::span(state_)))}};
  const std::vector<Group>& groups = context_.inputs.groups;
  for (size_t g = 0; g < groups.size(); ++g) {
    add_values("r", g, groups[g].reference, arrays);
    add_values("f", g, groups[g].exact, arrays);
  }
  io::write_npz(context_.subject.request.checkpoint, arrays);
  written_ = true;
  last_ = Clock::now();
  write_time_ = last_ - begun;
}

void Checkpoint::keep(const SweepState& state) {
  constexpr auto kAtLeast = std::chrono::seconds(10);
  constexpr int kShare = 50;  // of the time that writing takes
  state_ = to_cbor(state);
  units_ = state.units;
  of_ = state.of;
  const auto since = Clock::now() - last_;
  if (since < kAtLeast || since < kShare * write_time_) return;
  try {
    write();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    last_ = Clock::now();  // a full disk or a folder that is read only: the sweep does not need it
  }
}

std::string Checkpoint::write_last() {
  if (state_.empty()) return "";
  const std::string file = context_.subject.request.checkpoint.string();
  try {
    write();
  } catch (const Error& error) {
    return fmt::format("could not save the progress: {}", error.what());
  }
  return fmt::format(
      "{} of {} steps are done and kept in '{}'; run the same command with --resume "
      "to continue",
      units_, of_, file);
}

void Checkpoint::remove() {
  std::error_code none;  // one that cannot be removed is of no use to anybody, and does no harm
  if (written_) std::filesystem::remove(context_.subject.request.checkpoint, none);
}

}  // namespace vernier::verify
