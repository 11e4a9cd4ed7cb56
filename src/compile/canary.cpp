// The canary of a build: see canary.h.
#include "compile/canary.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "evaluate/plan_work.h"
#include "evaluate/range_audit.h"
#include "evaluate/samples.h"
#include "runtime/canary.h"
#include "runtime/engine_impl.h"

namespace vernier::compiler {
namespace {

constexpr uint64_t kSeed = 1;
constexpr double kMostElems = 0x1p26;           // of the inputs of one run
constexpr size_t kMostBytes = size_t{1} << 20;  // of all inputs, which are kept in the file

struct Sizes {
  int64_t batch, length;
};
constexpr std::array kRuns{Sizes{1, 7}, Sizes{2, 16}, Sizes{3, 48}};

std::vector<Canary::Array> arrays_of(const NamedTensors& tensors) {
  std::vector<Canary::Array> arrays;
  for (const auto& [name, tensor] : tensors) {
    const auto bytes = tensor.byte_span();
    arrays.push_back({name, tensor.dtype(), tensor.shape(), {bytes.begin(), bytes.end()}});
  }
  return arrays;
}

// Inputs of a run of the plan, inside its ranges.
std::vector<Canary::Array> inputs_of(const plan::Plan& plan, const evaluate::Domains& domains,
                                     const Sizes& wanted) {
  const std::string batch = evaluate::batch_symbol(plan);
  evaluate::BatchAxes axes =
      batch.empty() ? evaluate::BatchAxes{} : evaluate::axes_of_symbol(plan, batch);
  int64_t rows = 1;
  for (const plan::Symbol& symbol : plan.symbols) {
    if (symbol.name == batch) rows = std::clamp(wanted.batch, symbol.min, symbol.max);
  }
  const std::map<std::string, int64_t> sizes = evaluate::sizes_of_row(plan, batch, wanted.length);
  std::vector<NamedTensors> all;
  for (int64_t row = 0; row < rows; ++row)
    all.push_back(evaluate::sample_row(domains, axes, sizes, {kSeed, row}));
  return arrays_of(evaluate::join_rows(all, axes));
}

// Elements of all inputs of one row at the shortest of the lengths above.
double smallest_inputs(const plan::Plan& plan, const evaluate::Domains& domains) {
  const std::map<std::string, int64_t> sizes = evaluate::sizes_of_row(plan, "", kRuns[0].length);
  double elems = 0;
  for (const evaluate::InputDomain& domain : domains.inputs) {
    double of_input = 1;
    for (const auto& size : domain.shape)
      of_input *= static_cast<double>(std::max<int64_t>(size.evaluate(sizes), 0));
    elems += of_input;
  }
  return elems;
}

size_t bytes_of(const std::vector<Canary::Array>& arrays) {
  size_t bytes = 0;
  for (const Canary::Array& array : arrays) bytes += array.bytes.size();
  return bytes;
}

}  // namespace

std::optional<Canary> canary_of(const std::shared_ptr<const Engine>& engine,
                                const evaluate::Domains& domains, const Limits& limits,
                                std::string& note) {
  const Engine::Impl& parts = engine->impl();
  const Support here = parts.backend->available ? parts.backend->available() : yes();
  if (!here) {
    note = "no canary was recorded: " + here.reason;
    return std::nullopt;
  }
  std::vector<std::vector<Canary::Array>> inputs;
  size_t bytes = 0;
  try {
    if (smallest_inputs(parts.plan, domains) > kMostElems ||
        evaluate::range_audit_work(parts.plan) > evaluate::kMostWork) {
      note = "no canary was recorded: at its fixed sizes one run of the model takes too long";
      return std::nullopt;
    }
    for (const Sizes& sizes : kRuns) {
      std::vector<Canary::Array> run = inputs_of(parts.plan, domains, sizes);
      if (std::ranges::find(inputs, run) != inputs.end()) continue;
      if (bytes + bytes_of(run) > kMostBytes && !inputs.empty()) continue;
      bytes += bytes_of(run);
      inputs.push_back(std::move(run));
    }
    return runtime::record_canary(engine, std::move(inputs), {.limits = limits});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInput)
      throw Error(error.code(), std::string("recording the canary: ") + error.what() +
                                    "; --no-canary leaves it out");
    note = std::string("no canary was recorded: ") + error.what();
    return std::nullopt;
  }
}

}  // namespace vernier::compiler
