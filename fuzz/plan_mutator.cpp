// Changes to plans: see plan_mutator.h.
#include "plan_mutator.h"

#include <map>

#include "backend/cpu/cpu.h"
#include "core/op_attrs.h"
#include "engine/assemble.h"
#include "engine/codec.h"
#include "field_changes.h"

namespace vernier::fuzz {
namespace {

using plan::Plan;
using plan::PlanValue;

std::vector<std::string> symbol_names(const Plan& plan) {
  std::vector<std::string> names;
  for (const plan::Symbol& symbol : plan.symbols) names.push_back(symbol.name);
  return names;
}

// Any field below one item of a list, or of the plan if the list is empty.
template <class T>
void change_item(Plan& plan, std::vector<T>& list, Choices& choices) {
  FieldChanges changes(symbol_names(plan));
  if (list.empty())
    changes(plan);
  else
    changes(choices.of(list));
  changes.make_one(choices);
}

void for_each_dim(Plan& plan, const std::function<void(Dim&)>& body) {
  EachField<Dim> each(body);
  each(plan);
  for (plan::Step& step : plan.steps) for_each_attr_dim(step.op, step.attrs, body);
}

bool known(const Plan& plan, int32_t value) {
  return value >= 0 && static_cast<size_t>(value) < plan.values.size();
}
bool same_array(const Plan& plan, int32_t a, int32_t b) {
  if (!known(plan, a) || !known(plan, b)) return false;
  const PlanValue &x = plan.values[static_cast<size_t>(a)],
                  &y = plan.values[static_cast<size_t>(b)];
  return x.dtype == y.dtype && x.shape == y.shape;
}

// ---- changes that try to keep the plan valid; false: nothing to change

bool change_weights(Plan& plan, Choices& choices) {
  if (plan.blobs.empty()) return false;
  plan::Blob& blob = choices.of(plan.blobs);
  const auto old = blob.bytes.byte_span();
  Bytes bytes(old.begin(), old.end());
  const size_t width = std::max<size_t>(size_bytes(blob.bytes.dtype()), 1);
  if (bytes.size() < width) return false;
  // All ones is −1 or a NaN, the others are the exponents' ends of f32 and of 16-bit floats.
  constexpr std::array<uint64_t, 8> kPatterns{
      0, UINT64_MAX, 0x7f800000, 0xff7fffff7c007c00, 0x7fc00000, 0x7f7f7f7f7f7f7f7f, 2, 0x80000000};
  for (size_t count = 1 + choices.below(3); count > 0; --count) {
    const uint64_t pattern =
        choices.one_in(2) ? kPatterns[choices.below(kPatterns.size())] : choices.bits(2);
    const size_t at = choices.below(bytes.size() / width) * width;
    for (size_t i = 0; i < width; ++i)
      bytes[at + i] = static_cast<std::byte>(pattern >> (8 * (i % 8)));
  }
  blob.bytes = Tensor::from_bytes(blob.bytes.dtype(), blob.bytes.shape(), bytes);
  return true;
}

bool change_real_attr(Plan& plan, Choices& choices) {
  if (plan.steps.empty()) return false;
  const size_t first = choices.below(plan.steps.size());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    plan::Step& step = plan.steps[(first + i) % plan.steps.size()];
    if (change_real_attrs(step.op, step.attrs, choices)) return true;
  }
  return false;
}

bool change_range(Plan& plan, Choices& choices) {
  if (plan.symbols.empty()) return false;
  plan::Symbol& symbol = choices.of(plan.symbols);
  symbol.min = 1 + static_cast<int64_t>(choices.below(3));
  symbol.opt = symbol.min + static_cast<int64_t>(choices.below(4));
  symbol.max = choices.one_in(4) ? INT64_MAX : symbol.opt + static_cast<int64_t>(choices.bits(2));
  return true;
}

bool replace_symbol(Plan& plan, Choices& choices) {
  if (plan.symbols.empty()) return false;
  const std::string name = choices.of(plan.symbols).name;
  const Dim by = choices.one_in(2) ? Dim(1 + static_cast<int64_t>(choices.below(9)))
                                   : Dim::symbol(choices.of(plan.symbols).name);
  const std::map<std::string, Dim> replacements{{name, by}};
  for_each_dim(plan, [&](Dim& dim) { dim = dim.substitute(replacements); });
  return true;
}

// Replaces one number everywhere that it is a size; arrays get as many bytes as they need.
bool resize(Plan& plan, Choices& choices) {
  std::vector<int64_t> sizes;
  for (const PlanValue& value : plan.values) {
    for (const Dim& dim : value.shape)
      if (const auto size = dim.as_constant(); size && *size > 1) sizes.push_back(*size);
  }
  if (sizes.empty()) return false;
  const int64_t from = choices.of(sizes), to = static_cast<int64_t>(choices.below(40));
  for_each_dim(plan, [&](Dim& dim) {
    if (dim.as_constant() == from) dim = Dim(to);
  });
  for (plan::Blob& blob : plan.blobs) {
    std::ranges::replace(blob.shape, from, to);
    if (!blob.layout.empty() || num_elems(blob.shape) > 1 << 20) continue;
    Bytes bytes(blob.bytes.byte_span().begin(), blob.bytes.byte_span().end());
    bytes.resize(static_cast<size_t>(num_elems(blob.shape)) * size_bytes(blob.dtype));
    blob.bytes = Tensor::from_bytes(blob.dtype, blob.shape, bytes);
  }
  return true;
}

bool rename(Plan& plan, Choices& choices) {
  std::vector<std::string*> texts{&plan.model_name, &plan.producer, &plan.target};
  for (PlanValue& value : plan.values) texts.push_back(&value.name);
  for (std::string& note : plan.notes) texts.push_back(&note);
  for (plan::Guard& guard : plan.guards) texts.push_back(&guard.where);
  for (plan::Step& step : plan.steps) {
    texts.push_back(&step.name);
    texts.push_back(&step.tuning);
    for (std::string& origin : step.origins) texts.push_back(&origin);
  }
  for (auto* names : {&plan.input_names, &plan.output_names})
    for (std::string& port : *names) texts.push_back(&port);
  change_text(*choices.of(texts), choices);
  return true;
}

bool lengthen_life(Plan& plan, Choices& choices) {
  if (plan.values.empty() || plan.steps.empty()) return false;
  PlanValue& value = choices.of(plan.values);
  if (value.kind != PlanValue::Kind::kArena || value.first_step < 0) return false;
  value.first_step -=
      static_cast<int32_t>(choices.below(static_cast<size_t>(value.first_step) + 1));
  const auto last = static_cast<int32_t>(choices.below(plan.steps.size()));
  value.last_step = std::max(value.last_step, last);
  return true;
}

// Another value of the same type and shape, with its lifetime extended.
bool rewire(Plan& plan, Choices& choices) {
  if (plan.steps.empty()) return false;
  const size_t s = choices.below(plan.steps.size());
  plan::Step& step = plan.steps[s];
  if (step.inputs.empty()) return false;
  int32_t& input = choices.of(step.inputs);
  std::vector<int32_t> others;
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const auto other = static_cast<int32_t>(v);
    if (other != input && same_array(plan, input, other)) others.push_back(other);
  }
  if (others.empty()) return false;
  input = choices.of(others);
  const PlanValue& taken = plan.values[static_cast<size_t>(input)];
  const int32_t base = taken.kind == PlanValue::Kind::kAlias ? taken.alias_of : input;
  if (!known(plan, base)) return true;
  PlanValue& memory = plan.values[static_cast<size_t>(base)];
  if (memory.kind == PlanValue::Kind::kArena)
    memory.last_step = std::max(memory.last_step, static_cast<int32_t>(s));
  return true;
}

// Another kernel row: of the same operator, or of another that takes as many inputs.
bool change_kernel(Plan& plan, Choices& choices) {
  if (plan.steps.empty()) return false;
  plan::Step& step = choices.of(plan.steps);
  const bool same_operator = choices.one_in(2);
  std::vector<const backend::KernelDef*> rows;
  for (const backend::KernelDef& row : backend::cpu_backend().kernels) {
    const Arity wanted = arity(step.op), has = arity(row.op);
    const bool alike = flags(row.op) & kElementwise && flags(step.op) & kElementwise &&
                       has.min_in == wanted.min_in && has.max_in == wanted.max_in;
    if (same_operator ? row.op == step.op && row.name != step.kernel : alike) rows.push_back(&row);
  }
  if (rows.empty()) return false;
  const backend::KernelDef& row = *choices.of(rows);
  step.kernel = row.name;
  step.bit_class = row.bit_class;
  if (!same_operator) step.attrs = default_attrs(row.op);
  step.op = row.op;
  return true;
}

bool add_guard(Plan& plan, Choices& choices) {
  if (plan.symbols.empty()) return false;
  const Dim size = Dim::symbol(choices.of(plan.symbols).name);
  const Dim number(static_cast<int64_t>(choices.below(600)));
  plan.guards.push_back(
      {.lhs = choices.one_in(2) ? size : min(size, number), .rhs = size, .where = "added"});
  return true;
}

// A value that lives to the end, or is extended to it, becomes an output.
bool add_output(Plan& plan, Choices& choices) {
  if (plan.values.empty() || plan.steps.empty()) return false;
  const auto v = choices.below(plan.values.size());
  PlanValue& value = plan.values[v];
  if (value.kind == PlanValue::Kind::kArena)
    value.last_step = static_cast<int32_t>(plan.steps.size()) - 1;
  plan.outputs.push_back(static_cast<int32_t>(v));
  plan.output_names.push_back("added" + std::to_string(plan.outputs.size()));
  return true;
}

bool drop_output(Plan& plan, Choices& choices) {
  if (plan.outputs.size() < 2 || plan.output_names.size() != plan.outputs.size()) return false;
  const auto at = static_cast<std::ptrdiff_t>(choices.below(plan.outputs.size()));
  plan.outputs.erase(plan.outputs.begin() + at);
  plan.output_names.erase(plan.output_names.begin() + at);
  return true;
}

bool change_ledger(Plan& plan, Choices& choices) {
  if (plan.ledger.empty()) return false;
  if (choices.one_in(3)) {
    plan.ledger.clear();
    return true;
  }
  change_item(plan, plan.ledger, choices);
  return true;
}

bool swap_operands(Plan& plan, Choices& choices) {
  if (plan.steps.empty()) return false;
  plan::Step& step = choices.of(plan.steps);
  if (step.inputs.size() < 2) return false;
  int32_t &a = choices.of(step.inputs), &b = choices.of(step.inputs);
  if (a == b || !same_array(plan, a, b)) return false;
  std::swap(a, b);
  return true;
}

constexpr std::array kGentle{&change_weights, &change_weights, &change_real_attr, &change_range,
                             &replace_symbol, &resize,         &rename,           &lengthen_life,
                             &rewire,         &change_kernel,  &add_guard,        &add_output,
                             &drop_output,    &change_ledger,  &swap_operands};

}  // namespace

void change_plan_gently(Plan& plan, Choices choices) {
  const size_t first = choices.below(kGentle.size());
  for (size_t i = 0; i < kGentle.size(); ++i)
    if (kGentle[(first + i) % kGentle.size()](plan, choices)) return;
}

void change_plan(Plan& plan, Choices choices) {
  // Measured: with every change a single field, one mutant in five opens (fuzz/README.md).
  constexpr size_t kOfSixteen = 10;
  if (choices.below(16) < kOfSixteen) return change_plan_gently(plan, choices);
  switch (choices.below(8)) {
    case 0:
    case 1:
      return change_item(plan, plan.values, choices);
    case 2:
    case 3:
    case 4:
      return change_item(plan, plan.steps, choices);
    case 5:
      return change_item(plan, plan.blobs, choices);
    case 6:
      return change_item(plan, plan.symbols, choices);
    default: {
      FieldChanges changes(symbol_names(plan));
      changes(plan);
      changes.make_one(choices);
    }
  }
}

Bytes engine_file(const Plan& plan) {
  engine::Sections sections;
  sections.plan = engine::encode_plan(plan);
  sections.ledger = engine::encode_ledger(plan);
  for (const plan::Blob& blob : plan.blobs) {
    sections.weights.resize(engine::align_up(sections.weights.size(), engine::kBlobAlignment));
    const auto bytes = blob.bytes.byte_span();
    sections.weights.insert(sections.weights.end(), bytes.begin(), bytes.end());
  }
  return engine::assemble(std::move(sections));
}

}  // namespace vernier::fuzz
