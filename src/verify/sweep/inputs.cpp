// Inputs of a sweep: see inputs.h.
#include "verify/sweep/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compile/pipeline.h"
#include "evaluate/samples.h"
#include "ops/evaluate.h"
#include "verify/metrics.h"
#include "verify/sweep/reference.h"

namespace vernier::verify {

namespace {

constexpr int64_t kBatches[] = {1, 2, 4, 8}, kThoroughBatches[] = {1, 2, 3, 4, 5, 8, 16, 32};
constexpr int64_t kLengths[] = {4, 16, 48}, kThoroughLengths[] = {4, 7, 16, 48, 128};
constexpr int64_t kQuickBatches[] = {1, 4}, kQuickLengths[] = {4, 48};
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

// The engine must answer every output of the model, under its name, from the same inputs.
void check_same_model(const Subject& subject) {
  std::vector<std::string> model_inputs, engine_inputs, engine_outputs;
  for (ir::ValueId id : subject.model.inputs) model_inputs.push_back(subject.model.value(id).name);
  for (const Port& port : subject.engine->inputs()) engine_inputs.push_back(port.name);
  for (const Port& port : subject.engine->outputs()) engine_outputs.push_back(port.name);
  const auto refuse = [&](const std::string& what, const std::vector<std::string>& in_model,
                          const std::vector<std::string>& in_engine) {
    throw Error(ErrorCode::kInput,
                "engine '" + subject.request.engine.string() + "' was not built from model '" +
                    subject.request.model.string() + "': the model's " + what + " are " +
                    join(in_model) + ", the engine's " + join(in_engine));
  };
  if (std::set(model_inputs.begin(), model_inputs.end()) !=
      std::set(engine_inputs.begin(), engine_inputs.end()))
    refuse("inputs", model_inputs, engine_inputs);
  for (const std::string& name : subject.model.output_names) {
    if (std::find(engine_outputs.begin(), engine_outputs.end(), name) == engine_outputs.end())
      refuse("outputs", subject.model.output_names, engine_outputs);
  }
}

// Domains are read off the raised graph and put in the order and sizes of the engine's inputs.
void read_domains(Context& context) {
  const Domains found = compiler::domains_of(context.subject.model);
  context.inputs.domains.padding = found.padding;
  context.inputs.domains.padding_why = found.padding_why;
  bool padded = false;
  for (size_t i = 0; i < context.subject.plan.inputs.size(); ++i) {
    const auto it =
        std::ranges::find(found.inputs, context.subject.plan.input_names[i], &InputDomain::name);
    VERNIER_ASSERT(it != found.inputs.end(), context.subject.plan.input_names[i]);
    context.inputs.domains.inputs.push_back(*it);
    context.inputs.domains.inputs.back().shape =
        context.subject.plan.value(context.subject.plan.inputs[i]).shape;
    padded = padded || it->pad || it->kind == InputDomain::Kind::kMask;
    context.notes.push_back(describe(*it));
  }
  if (padded) {
    context.notes.push_back(fmt::format("padding on the {} ({})",
                                        found.padding == PaddingSide::kRight ? "right" : "left",
                                        found.padding_why));
  }
}

// Does the model itself mix rows along these axes? R of a batch against R of its rows. Outputs that
// mix are marked; true if all do.
bool mixes_rows(const Context& context, NamedValues* whole, NamedValues* parts) {
  const BatchAxes& axes = context.inputs.axes;
  std::vector<NamedTensors> rows;
  NamedTensors batch;
  if (!context.subject.request.inputs.empty()) {
    batch = context.subject.request.inputs.front().arrays;
    int64_t count = 1;
    for (const auto& [name, tensor] : batch) {
      const int axis = axes.of(name);
      if (axis != kNoAxis && static_cast<size_t>(axis) < tensor.rank())
        count = tensor.shape()[axis];
    }
    for (int64_t r = 0; count > 1 && r < 2; ++r) rows.push_back(take_row(batch, axes, r));
  }
  if (rows.size() < 2) {
    rows.clear();
    const plan::Symbol* symbol = find_symbol(context.subject.plan, context.inputs.length_symbol);
    auto sizes =
        sizes_at(context, symbol ? std::clamp<int64_t>(kLengths[0], symbol->min, symbol->max) : 1);
    sizes[axes.symbol] = 1;
    for (int64_t r : {0, 2})
      rows.push_back(
          sample_row(context.inputs.domains, axes, sizes, {context.subject.request.seed, r}));
  }
  *whole = reference_of(context, join_rows(rows, axes));
  const NamedValues first = reference_of(context, rows[0]), second = reference_of(context, rows[1]);
  *parts = join_rows(std::vector<const NamedValues*>{&first, &second}, axes);
  bool all = true;
  for (const auto& [name, value] : *whole) {
    const bool independent = axes.of(name) != kNoAxis && close(value, parts->at(name));
    all = all && !independent;
  }
  return all;
}

// The size that counts rows: the first candidate along which R treats some output's rows alone.
void choose_axes(Context& context) {
  std::vector<std::string> candidates = batch_candidates(context.subject.plan);
  if (!context.subject.request.batch_axis.empty()) {
    if (!find_symbol(context.subject.plan, context.subject.request.batch_axis)) {
      std::vector<std::string> names;
      for (const plan::Symbol& symbol : context.subject.plan.symbols) names.push_back(symbol.name);
      throw Error(ErrorCode::kInput, "--batch-axis: the engine has no size '" +
                                         context.subject.request.batch_axis + "'; its sizes are " +
                                         (names.empty() ? "all fixed" : join(names)));
    }
    candidates = {context.subject.request.batch_axis};
  }
  for (const std::string& candidate : candidates) {
    context.inputs.axes = axes_of_symbol(context.subject.plan, candidate);
    context.inputs.length_symbol.clear();
    for (const plan::Symbol& symbol : context.subject.plan.symbols) {
      if (symbol.name != candidate && context.inputs.length_symbol.empty())
        context.inputs.length_symbol = symbol.name;
    }
    NamedValues whole, parts;
    bool all_mixed = true;
    try {
      all_mixed = mixes_rows(context, &whole, &parts);
    } catch (const Error& error) {
      if (!context.subject.request.batch_axis.empty() || error.code() != ErrorCode::kInput) throw;
      context.notes.push_back("'" + candidate +
                              "' does not count rows: the model has no value at " + candidate +
                              " 1 or 2 (" + error.what() + ")");
      continue;
    }
    if (all_mixed && candidate != candidates.back()) continue;
    for (const auto& [name, value] : whole) {
      if (context.inputs.axes.of(name) != kNoAxis && close(value, parts.at(name))) continue;
      context.inputs.mixed.insert(name);
      context.notes.push_back("output '" + name +
                              "' mixes rows by the model itself: R of a batch " +
                              "is not R of its rows");
    }
    context.notes.push_back("rows are counted by '" + candidate + "'" +
                            (runs_alone(context) ? ""
                                                 : ", which this engine cannot run at 1: rows are "
                                                   "compared within batches only"));
    return;
  }
  context.inputs.axes = fixed_axes(context.subject.plan);
  for (const plan::Symbol& symbol : context.subject.plan.symbols) {
    if (context.inputs.length_symbol.empty()) context.inputs.length_symbol = symbol.name;
  }
  context.notes.push_back(
      context.inputs.axes.fixed_rows > 1
          ? fmt::format("the model fixes the batch at {}: its rows cannot run alone, but their "
                        "order and neighbours are checked",
                        context.inputs.axes.fixed_rows)
          : "no axis counts rows: row checks do not apply");
}

std::vector<int64_t> lengths_in_range(const Context& context) {
  const plan::Symbol* symbol = find_symbol(context.subject.plan, context.inputs.length_symbol);
  if (!symbol) return {0};
  if (!context.subject.request.lengths.empty()) {
    for (int64_t length : context.subject.request.lengths) {
      if (length >= symbol->min && length <= symbol->max) continue;
      throw Error(ErrorCode::kInput,
                  fmt::format("--lengths: {} is outside the engine's range of '{}', {}..{}", length,
                              symbol->name, symbol->min, symbol->max));
    }
    return context.subject.request.lengths;
  }
  const Depth depth = context.subject.request.depth;
  return depth == Depth::kThorough ? in_range(kThoroughLengths, *symbol)
         : depth == Depth::kQuick  ? in_range(kQuickLengths, *symbol)
                                   : in_range(kLengths, *symbol);
}

std::vector<int64_t> batches_in_range(const Context& context) {
  const plan::Symbol* symbol = find_symbol(context.subject.plan, context.inputs.axes.symbol);
  if (!symbol) return {context.inputs.axes.fixed_rows > 1 ? context.inputs.axes.fixed_rows : 1};
  if (!context.subject.request.batches.empty()) {
    for (int64_t batch : context.subject.request.batches) {
      if (batch >= symbol->min && batch <= symbol->max) continue;
      throw Error(ErrorCode::kInput,
                  fmt::format("--batches: {} is outside the engine's range of '{}', {}..{}", batch,
                              symbol->name, symbol->min, symbol->max));
    }
    return context.subject.request.batches;
  }
  const Depth depth = context.subject.request.depth;
  return depth == Depth::kThorough ? in_range(kThoroughBatches, *symbol)
         : depth == Depth::kQuick  ? in_range(kQuickBatches, *symbol)
                                   : in_range(kBatches, *symbol);
}

// The first length takes lengths[index], every other one the next of the sweep in turn.
std::map<std::string, int64_t> different_sizes(const Context& context, size_t index,
                                               const std::vector<int64_t>& lengths) {
  std::map<std::string, int64_t> sizes = sizes_at(context, lengths[index]);
  for (const plan::Symbol& symbol : context.subject.plan.symbols) {
    if (symbol.name == context.inputs.axes.symbol || symbol.name == context.inputs.length_symbol)
      continue;
    sizes[symbol.name] = std::clamp(lengths[++index % lengths.size()], symbol.min, symbol.max);
  }
  return sizes;
}

std::string text_of(const Context& context, const std::map<std::string, int64_t>& sizes) {
  std::string text;
  std::set<int64_t> different;
  for (const plan::Symbol& symbol : context.subject.plan.symbols) {
    if (symbol.name == context.inputs.axes.symbol) continue;
    different.insert(sizes.at(symbol.name));
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", symbol.name, sizes.at(symbol.name));
  }
  return different.size() == 1 ? fmt::format("length {}", *different.begin()) : text;
}

// Does the engine take these sizes? Its guards may ask for equal ones.
bool runs_at(Context& context, std::map<std::string, int64_t> sizes) {
  if (!context.inputs.axes.symbol.empty()) sizes[context.inputs.axes.symbol] = 1;
  const auto count = static_cast<size_t>(batches_in_range(context).front());
  const std::vector<NamedTensors> rows(
      count, sample_row(context.inputs.domains, context.inputs.axes, sizes,
                        {context.subject.request.seed, 0}));
  try {
    context.runs.several.run(context.inputs.axes.known() ? join_rows(rows, context.inputs.axes)
                                                         : rows[0]);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInput) throw;
    context.notes.push_back(text_of(context, sizes) + " is not run: " + error.what());
    return false;
  }
}

// A group of seeded rows of these sizes, which repeat after `distinct` of them; the last of these
// is row `empty`.
Group seeded_group(const Context& context, std::map<std::string, int64_t> sizes, int64_t length,
                   int64_t rows, int64_t distinct, RowFill fill = RowFill::kByIndex,
                   int64_t empty = -1) {
  const std::string text = text_of(context, sizes);
  Group group{.label = text,
              .sizes_text = text,
              .length = length,
              .sizes = sizes,
              .seeded = true,
              .rows = {},
              .reference = {},
              .exact = {},
              .alone = {}};
  if (!context.inputs.axes.symbol.empty()) sizes[context.inputs.axes.symbol] = 1;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t index = r % distinct;
    group.rows.push_back(
        sample_row(context.inputs.domains, context.inputs.axes, sizes,
                   {context.subject.request.seed, index, index == empty ? RowFill::kNone : fill}));
  }
  group.empty_row = empty;
  return group;
}

// Is R of a row of nothing but padding a number? Where a mask is -infinity it is not.
bool is_finite_without_tokens(Context& context, std::map<std::string, int64_t> sizes) {
  if (!context.inputs.axes.symbol.empty()) sizes[context.inputs.axes.symbol] = 1;
  const NamedTensors row =
      sample_row(context.inputs.domains, context.inputs.axes, sizes,
                 {context.subject.request.seed, kDistinctFarRows - 1, RowFill::kNone});
  for (const auto& [name, value] : reference_of(context, row)) {
    if (std::ranges::all_of(value.f, [](double v) { return std::isfinite(v); })) continue;
    context.notes.push_back("no row is nothing but padding: the model's own answer '" + name +
                            "' to it is no finite number");
    return false;
  }
  return true;
}

void add_seeded_group(Context& context, size_t index, const std::vector<int64_t>& lengths,
                      int64_t rows) {
  std::map<std::string, int64_t> sizes = different_sizes(context, index, lengths);
  const std::map<std::string, int64_t> equal = sizes_at(context, lengths[index]);
  if (sizes != equal && !runs_at(context, sizes)) sizes = equal;
  context.inputs.groups.push_back(seeded_group(context, sizes, lengths[index], rows, rows));
}

void add_user_group(Context& context, const UserInputs& inputs) {
  Group group{.label = inputs.label,
              .sizes_text = "",
              .length = 0,
              .sizes = {},
              .seeded = false,
              .rows = {},
              .reference = {},
              .exact = {},
              .alone = {}};
  int64_t rows = 1;
  for (size_t i = 0; i < context.subject.plan.inputs.size(); ++i) {
    const Tensor* tensor = find(inputs.arrays, context.subject.plan.input_names[i]);
    if (!tensor) continue;  // the session says what is missing
    const SymShape& shape = context.subject.plan.value(context.subject.plan.inputs[i]).shape;
    for (size_t d = 0; d < std::min(shape.size(), tensor->rank()); ++d) {
      const auto symbol = shape[d].as_symbol();
      if (symbol && *symbol == context.inputs.axes.symbol) rows = tensor->shape()[d];
      if (symbol && *symbol == context.inputs.length_symbol) group.length = tensor->shape()[d];
    }
  }
  if (group.length > 0) group.sizes_text = fmt::format("length {}", group.length);
  if (context.inputs.axes.fixed_rows > 1) rows = context.inputs.axes.fixed_rows;
  context.runs.several.run(inputs.arrays);  // refuses what does not fit, naming input and range
  if (rows < 1) {
    throw Error(ErrorCode::kInput,
                "'" + inputs.label + "' holds no rows: there is nothing to verify");
  }
  for (int64_t r = 0; r < rows; ++r)
    group.rows.push_back(take_row(inputs.arrays, context.inputs.axes, r));
  context.inputs.groups.push_back(std::move(group));
}

void make_groups(Context& context) {
  for (const UserInputs& inputs : context.subject.request.inputs) add_user_group(context, inputs);
  const bool asked =
      !context.subject.request.batches.empty() || !context.subject.request.lengths.empty();
  if (!context.subject.request.inputs.empty() && !asked) return;
  const std::vector<int64_t> batches = batches_in_range(context);
  const int64_t most = *std::max_element(batches.begin(), batches.end());
  const std::vector<int64_t> lengths = lengths_in_range(context);
  for (size_t i = 0; i < lengths.size(); ++i) add_seeded_group(context, i, lengths, most);
}

}  // namespace

std::map<std::string, int64_t> sizes_at(const Context& context, int64_t length) {
  std::map<std::string, int64_t> sizes;
  for (const plan::Symbol& symbol : context.subject.plan.symbols) {
    if (symbol.name != context.inputs.axes.symbol)
      sizes[symbol.name] = std::clamp(length, symbol.min, symbol.max);
  }
  return sizes;
}

bool add_seeded_rows(Context& context, int64_t length, int64_t rows, OtherRows others) {
  const std::map<std::string, int64_t> sizes = sizes_at(context, length);
  if (!runs_at(context, sizes)) return false;
  const bool full = others == OtherRows::kFull,
             empty = others == OtherRows::kEmpty && is_finite_without_tokens(context, sizes);
  Group group = seeded_group(context, sizes, length, rows, kDistinctFarRows,
                             full ? RowFill::kAll : RowFill::kByIndex,
                             empty ? std::min(rows, kDistinctFarRows) - 1 : -1);
  group.far = true;
  if (full) group.label += ", no padding";
  if (empty) group.label += ", a row of padding only";
  context.inputs.groups.push_back(std::move(group));
  return true;
}

void make_inputs(Context& context) {
  check_same_model(context.subject);
  stage(context, "reading input domains");
  read_domains(context);
  choose_axes(context);
  make_groups(context);
}

std::vector<int64_t> batches_of(const Context& context, const Group& group) {
  if (group.seeded && !group.far) return batches_in_range(context);
  return {static_cast<int64_t>(group.rows.size())};
}

int64_t rows_evaluated_together(int64_t length) {
  constexpr int64_t kMostPositions = 512;
  return std::clamp<int64_t>(kMostPositions / std::max<int64_t>(1, length), 1, kDistinctFarRows);
}

}  // namespace vernier::verify
