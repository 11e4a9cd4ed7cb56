// Setting up a sweep: domains, the axis that counts rows, sizes, rows. See sweep.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "evaluate/samples.h"
#include "ops/evaluate.h"
#include "passes/pass.h"
#include "runtime/engine_impl.h"
#include "verify/sweep.h"

namespace vernier::verify {

using namespace evaluate;
namespace {

constexpr int64_t kBatches[] = {1, 2, 4, 8}, kThoroughBatches[] = {1, 2, 3, 4, 5, 8, 16, 32};
constexpr int64_t kLengths[] = {4, 16, 48}, kThoroughLengths[] = {4, 7, 16, 48, 128};
// Two FP64 evaluations that add in another order differ by less; a mixed row by more.
constexpr double kSameInFp64 = 1e-9;

const plan::Symbol* find_symbol(const plan::Plan& plan, const std::string& name) {
  for (const plan::Symbol& symbol : plan.symbols) {
    if (symbol.name == name) return &symbol;
  }
  return nullptr;
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The sizes of `wanted` that lie in the symbol's range; those that do not become its bound.
std::vector<int64_t> in_range(std::span<const int64_t> wanted, const plan::Symbol& symbol) {
  std::set<int64_t> sizes;
  for (int64_t size : wanted) sizes.insert(std::clamp(size, symbol.min, symbol.max));
  return {sizes.begin(), sizes.end()};
}

bool close(const EvalTensor& a, const EvalTensor& b) {
  if (a.shape != b.shape || a.i != b.i) return false;
  for (size_t i = 0; i < a.f.size(); ++i) {
    if (same_non_finite(a.f[i], b.f[i])) continue;
    if (!(std::abs(a.f[i] - b.f[i]) <= kSameInFp64 * (1 + std::abs(b.f[i])))) return false;
  }
  return true;
}

}  // namespace

// The engine must answer every output of the model, under its name, from the same inputs.
void Sweep::check_same_model() const {
  std::vector<std::string> model_inputs, engine_inputs, engine_outputs;
  for (ir::ValueId id : model_.inputs) model_inputs.push_back(model_.value(id).name);
  for (const Port& port : engine_->inputs()) engine_inputs.push_back(port.name);
  for (const Port& port : engine_->outputs()) engine_outputs.push_back(port.name);
  const auto refuse = [&](const std::string& what, const std::vector<std::string>& in_model,
                          const std::vector<std::string>& in_engine) {
    throw Error(ErrorCode::kInput, "engine '" + request_.engine.string() +
                                       "' was not built from model '" + request_.model.string() +
                                       "': the model's " + what + " are " + join(in_model) +
                                       ", the engine's " + join(in_engine));
  };
  if (std::set(model_inputs.begin(), model_inputs.end()) !=
      std::set(engine_inputs.begin(), engine_inputs.end()))
    refuse("inputs", model_inputs, engine_inputs);
  for (const std::string& name : model_.output_names) {
    if (std::find(engine_outputs.begin(), engine_outputs.end(), name) == engine_outputs.end())
      refuse("outputs", model_.output_names, engine_outputs);
  }
}

// Domains are read off the raised graph and put in the order and sizes of the engine's inputs.
void Sweep::read_domains() {
  const std::shared_ptr<ir::Graph> raised = model_.clone();
  passes::run_passes(*raised, passes::Phase::kRaise, {});
  const Domains found = infer_domains(*raised);
  domains_.padding = found.padding;
  domains_.padding_why = found.padding_why;
  bool padded = false;
  for (size_t i = 0; i < plan_.inputs.size(); ++i) {
    const auto it = std::ranges::find(found.inputs, plan_.input_names[i], &InputDomain::name);
    VERNIER_ASSERT(it != found.inputs.end(), plan_.input_names[i]);
    domains_.inputs.push_back(*it);
    domains_.inputs.back().shape = plan_.values[static_cast<size_t>(plan_.inputs[i])].shape;
    padded = padded || it->pad || it->kind == InputDomain::Kind::kMask;
    report_.notes.push_back(describe(*it));
  }
  if (padded) {
    report_.notes.push_back(fmt::format("padding on the {} ({})",
                                        found.padding == PaddingSide::kRight ? "right" : "left",
                                        found.padding_why));
  }
}

NamedValues Sweep::reference_of(const NamedTensors& inputs) const {
  ops::EvaluateOptions options;
  options.watch = watch_;
  return ops::evaluate(model_, {inputs.begin(), inputs.end()}, options).outputs;
}

std::map<std::string, int64_t> Sweep::sizes_for(int64_t length) const {
  std::map<std::string, int64_t> sizes;
  for (const plan::Symbol& symbol : plan_.symbols) {
    if (symbol.name != axes_.symbol)
      sizes[symbol.name] = std::clamp(length, symbol.min, symbol.max);
  }
  return sizes;
}

// Does the model itself mix rows along these axes? R of a batch against R of its rows. Outputs that
// mix are marked; true if all do.
bool Sweep::mixes_rows(const BatchAxes& axes, NamedValues* whole, NamedValues* parts) {
  std::vector<NamedTensors> rows;
  NamedTensors batch;
  if (!request_.inputs.empty()) {
    batch = request_.inputs.front().arrays;
    int64_t count = 1;
    for (const auto& [name, tensor] : batch) {
      const int axis = axes.of(name);
      if (axis != kNoAxis && static_cast<size_t>(axis) < tensor.rank())
        count = tensor.shape()[static_cast<size_t>(axis)];
    }
    for (int64_t r = 0; count > 1 && r < 2; ++r) rows.push_back(take_row(batch, axes, r));
  }
  if (rows.size() < 2) {
    rows.clear();
    const plan::Symbol* symbol = find_symbol(plan_, length_symbol_);
    auto sizes = sizes_for(symbol ? std::clamp<int64_t>(kLengths[0], symbol->min, symbol->max) : 1);
    sizes[axes.symbol] = 1;
    for (int64_t r : {0, 2}) rows.push_back(sample_row(domains_, axes, sizes, {request_.seed, r}));
  }
  *whole = reference_of(join_rows(rows, axes));
  const NamedValues first = reference_of(rows[0]), second = reference_of(rows[1]);
  *parts = join_rows(std::vector<const NamedValues*>{&first, &second}, axes);
  bool all = true;
  for (const auto& [name, value] : *whole) {
    const bool independent = axes.of(name) != kNoAxis && close(value, parts->at(name));
    all = all && !independent;
  }
  return all;
}

// The size that counts rows: the first candidate along which R treats some output's rows alone.
void Sweep::choose_axes() {
  std::vector<std::string> candidates = batch_candidates(plan_);
  if (!request_.batch_axis.empty()) {
    if (!find_symbol(plan_, request_.batch_axis)) {
      std::vector<std::string> names;
      for (const plan::Symbol& symbol : plan_.symbols) names.push_back(symbol.name);
      throw Error(ErrorCode::kInput, "--batch-axis: the engine has no size '" +
                                         request_.batch_axis + "'; its sizes are " +
                                         (names.empty() ? "all fixed" : join(names)));
    }
    candidates = {request_.batch_axis};
  }
  for (const std::string& candidate : candidates) {
    axes_ = axes_of_symbol(plan_, candidate);
    length_symbol_.clear();
    for (const plan::Symbol& symbol : plan_.symbols) {
      if (symbol.name != candidate && length_symbol_.empty()) length_symbol_ = symbol.name;
    }
    NamedValues whole, parts;
    bool all_mixed = true;
    try {
      all_mixed = mixes_rows(axes_, &whole, &parts);
    } catch (const Error& error) {
      if (!request_.batch_axis.empty() || error.code() != ErrorCode::kInput) throw;
      report_.notes.push_back("'" + candidate +
                              "' does not count rows: the model has no value at " + candidate +
                              " 1 or 2 (" + error.what() + ")");
      continue;
    }
    if (all_mixed && candidate != candidates.back()) continue;
    for (const auto& [name, value] : whole) {
      if (axes_.of(name) != kNoAxis && close(value, parts.at(name))) continue;
      output(name).mixed_by_model = true;
      report_.notes.push_back("output '" + name +
                              "' mixes rows by the model itself: R of a batch " +
                              "is not R of its rows");
    }
    report_.notes.push_back("rows are counted by '" + candidate + "'" +
                            (runs_alone() ? ""
                                          : ", which this engine cannot run at 1: rows are "
                                            "compared within batches only"));
    return;
  }
  axes_ = fixed_axes(plan_);
  for (const plan::Symbol& symbol : plan_.symbols) {
    if (length_symbol_.empty()) length_symbol_ = symbol.name;
  }
  report_.notes.push_back(
      axes_.fixed_rows > 1
          ? fmt::format("the model fixes the batch at {}: its rows cannot run alone, but their "
                        "order and neighbours are checked",
                        axes_.fixed_rows)
          : "no axis counts rows: row checks do not apply");
}

std::vector<int64_t> Sweep::lengths_in_range() {
  const plan::Symbol* symbol = find_symbol(plan_, length_symbol_);
  if (!symbol) return {0};
  if (!request_.lengths.empty()) {
    for (int64_t length : request_.lengths) {
      if (length >= symbol->min && length <= symbol->max) continue;
      throw Error(ErrorCode::kInput,
                  fmt::format("--lengths: {} is outside the engine's range of '{}', {}..{}", length,
                              symbol->name, symbol->min, symbol->max));
    }
    return request_.lengths;
  }
  return request_.depth == Depth::kThorough ? in_range(kThoroughLengths, *symbol)
                                            : in_range(kLengths, *symbol);
}

std::vector<int64_t> Sweep::batches_in_range() const {
  const plan::Symbol* symbol = find_symbol(plan_, axes_.symbol);
  if (!symbol) return {axes_.fixed_rows > 1 ? axes_.fixed_rows : 1};
  if (!request_.batches.empty()) {
    for (int64_t batch : request_.batches) {
      if (batch >= symbol->min && batch <= symbol->max) continue;
      throw Error(ErrorCode::kInput,
                  fmt::format("--batches: {} is outside the engine's range of '{}', {}..{}", batch,
                              symbol->name, symbol->min, symbol->max));
    }
    return request_.batches;
  }
  return request_.depth == Depth::kThorough ? in_range(kThoroughBatches, *symbol)
                                            : in_range(kBatches, *symbol);
}

std::vector<int64_t> Sweep::batches_of(const Group& group) const {
  if (group.seeded) return batches_in_range();
  return {static_cast<int64_t>(group.rows.size())};
}

// The first length takes lengths[index], every other one the next of the sweep in turn.
std::map<std::string, int64_t> Sweep::different_sizes(size_t index,
                                                      const std::vector<int64_t>& lengths) const {
  std::map<std::string, int64_t> sizes = sizes_for(lengths[index]);
  for (const plan::Symbol& symbol : plan_.symbols) {
    if (symbol.name == axes_.symbol || symbol.name == length_symbol_) continue;
    sizes[symbol.name] = std::clamp(lengths[++index % lengths.size()], symbol.min, symbol.max);
  }
  return sizes;
}

// Does the engine take these sizes? Its guards may ask for equal ones.
bool Sweep::runs_at(std::map<std::string, int64_t> sizes) {
  if (!axes_.symbol.empty()) sizes[axes_.symbol] = 1;
  const auto count = static_cast<size_t>(batches_in_range().front());
  const std::vector<NamedTensors> rows(count,
                                       sample_row(domains_, axes_, sizes, {request_.seed, 0}));
  try {
    runner_.run(axes_.known() ? join_rows(rows, axes_) : rows[0]);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInput) throw;
    report_.notes.push_back(text_of(sizes) + " is not run: " + error.what());
    return false;
  }
}

std::string Sweep::text_of(const std::map<std::string, int64_t>& sizes) const {
  std::string text;
  std::set<int64_t> different;
  for (const plan::Symbol& symbol : plan_.symbols) {
    if (symbol.name == axes_.symbol) continue;
    different.insert(sizes.at(symbol.name));
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", symbol.name, sizes.at(symbol.name));
  }
  return different.size() == 1 ? fmt::format("length {}", *different.begin()) : text;
}

void Sweep::add_seeded_group(size_t index, const std::vector<int64_t>& lengths, int64_t rows) {
  std::map<std::string, int64_t> sizes = different_sizes(index, lengths);
  const std::map<std::string, int64_t> equal = sizes_for(lengths[index]);
  if (sizes != equal && !runs_at(sizes)) sizes = equal;
  const std::string text = text_of(sizes);
  Group group{.label = text,
              .sizes_text = text,
              .length = lengths[index],
              .sizes = sizes,
              .seeded = true,
              .rows = {},
              .reference = {},
              .alone = {}};
  if (!axes_.symbol.empty()) sizes[axes_.symbol] = 1;
  for (int64_t r = 0; r < rows; ++r)
    group.rows.push_back(sample_row(domains_, axes_, sizes, {request_.seed, r}));
  groups_.push_back(std::move(group));
}

void Sweep::add_user_group(const UserInputs& inputs) {
  Group group{.label = inputs.label,
              .sizes_text = "",
              .length = 0,
              .sizes = {},
              .seeded = false,
              .rows = {},
              .reference = {},
              .alone = {}};
  int64_t rows = 1;
  for (size_t i = 0; i < plan_.inputs.size(); ++i) {
    const Tensor* tensor = find(inputs.arrays, plan_.input_names[i]);
    if (!tensor) continue;  // the session says what is missing
    const SymShape& shape = plan_.values[static_cast<size_t>(plan_.inputs[i])].shape;
    for (size_t d = 0; d < std::min(shape.size(), tensor->rank()); ++d) {
      const auto symbol = shape[d].as_symbol();
      if (symbol && *symbol == axes_.symbol) rows = tensor->shape()[d];
      if (symbol && *symbol == length_symbol_) group.length = tensor->shape()[d];
    }
  }
  if (group.length > 0) group.sizes_text = fmt::format("length {}", group.length);
  if (axes_.fixed_rows > 1) rows = axes_.fixed_rows;
  runner_.run(inputs.arrays);  // refuses what does not fit, naming input and range
  if (rows < 1) {
    throw Error(ErrorCode::kInput,
                "'" + inputs.label + "' holds no rows: there is nothing to verify");
  }
  for (int64_t r = 0; r < rows; ++r) group.rows.push_back(take_row(inputs.arrays, axes_, r));
  groups_.push_back(std::move(group));
}

void Sweep::make_groups() {
  for (const UserInputs& inputs : request_.inputs) add_user_group(inputs);
  const bool asked = !request_.batches.empty() || !request_.lengths.empty();
  if (!request_.inputs.empty() && !asked) return;
  const std::vector<int64_t> batches = batches_in_range();
  const int64_t most = *std::max_element(batches.begin(), batches.end());
  const std::vector<int64_t> lengths = lengths_in_range();
  for (size_t i = 0; i < lengths.size(); ++i) add_seeded_group(i, lengths, most);
}

}  // namespace vernier::verify
