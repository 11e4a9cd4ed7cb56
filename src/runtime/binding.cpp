// Binding inputs: names, types, shapes and ranges, before anything runs. Part of Session::Impl.
#include <algorithm>

#include "core/names.h"
#include "runtime/session_impl.h"

namespace vernier {
namespace {

std::string shape_text(std::span<const int64_t> shape) { return str(shape); }

std::string names_of(const std::vector<Port>& ports) {
  std::string text;
  for (const Port& port : ports)
    text += (text.empty() ? "" : ", ") + ("'" + port.name + "' " + port.shape_text());
  return text;
}

std::vector<std::string> plain_names(const std::vector<Port>& ports) {
  std::vector<std::string> names;
  for (const Port& port : ports) names.push_back(port.name);
  return names;
}

// Calls visit(offset in elements) for each element of a view.
template <class Visit>
void for_each_element(const backend::TensorArg& view, const Visit& visit) {
  std::array<int64_t, backend::kMaxRank> position{};
  int64_t at = 0;
  for (int64_t left = view.elems(); left > 0; --left) {
    visit(at);
    for (int d = view.rank - 1; d >= 0; --d) {
      const auto axis = static_cast<size_t>(d);
      at += view.strides[axis];
      if (++position[axis] < view.shape[axis]) break;
      at -= view.strides[axis] * view.shape[axis];
      position[axis] = 0;
    }
  }
}

// `before`: the value before it, kNothing before the first.
constexpr int64_t kNothing = -1;
bool keeps(const ValueRule& rule, int64_t value, int64_t size, int64_t before) {
  if (rule.kind == ValueRule::Kind::kNonZero) return value != 0;
  if (rule.kind == ValueRule::Kind::kStarts && (before == kNothing ? value != 0 : value < before))
    return false;
  return allowed_values(rule.kind, size).holds(value) || rule.ignored == value;
}

// What is wrong with a value, up to "that step 'x' …".
std::string refusal_of(const ValueRule& rule, int64_t size) {
  switch (rule.kind) {
    case ValueRule::Kind::kNonZero:
      return "a divisor of integers";
    case ValueRule::Kind::kAxis:
      return "no axis of the array of rank " + std::to_string(size);
    case ValueRule::Kind::kStarts:
      return "no start of a sequence among the " + std::to_string(size) + " rows";
    case ValueRule::Kind::kLength:
      return "no length of the axis of " + std::to_string(size) + " entries";
    default:
      return "outside the table of " + std::to_string(size) + " entries";
  }
}

// What the step does with such values and which it takes.
std::string reads(const ValueRule& rule, int64_t size) {
  const ValueRange allowed = allowed_values(rule.kind, size);
  const std::string last = std::to_string(allowed.high);
  switch (rule.kind) {
    case ValueRule::Kind::kNonZero:
      return "divides by (it must not be 0)";
    case ValueRule::Kind::kAxis:
      return "works along (" + std::to_string(allowed.low) + ".." + last + ")";
    case ValueRule::Kind::kIndex:
      return "reads (0.." + last + ", or " + std::to_string(allowed.low) + "..-1 from its end)";
    case ValueRule::Kind::kStarts:
      return "divides (starts ascend from 0 to at most " + last + ")";
    default:
      return "reads (0.." + last + ")";
  }
}

}  // namespace

void Session::Impl::fail(size_t input, const std::string& what) const {
  const Port& port = parts.inputs[input];
  throw Error(ErrorCode::kInput, "input '" + port.name + "': " + what + "; the engine takes " +
                                     std::string(name(port.dtype)) + " " + port.shape_text());
}

void Session::Impl::make_rules() {
  const plan::Plan& plan = parts.plan;
  std::vector<std::pair<int32_t, int32_t>> bound_at(plan.symbols.size(), {-1, -1});
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const auto value = static_cast<size_t>(plan.inputs[i]);
    std::vector<SizeRule> rules;
    for (size_t d = 0; d < plan.values[value].shape.size(); ++d) {
      const Dim& dim = plan.values[value].shape[d];
      SizeRule rule;
      if (const auto number = dim.as_constant()) {
        rule.number = *number;
      } else if (const auto symbol = dim.as_symbol()) {
        rule.symbol = parts.program.symbol_index(*symbol);
        auto& first = bound_at[static_cast<size_t>(rule.symbol)];
        rule.kind = first.first < 0 ? SizeRule::Kind::kBinds : SizeRule::Kind::kRepeats;
        if (first.first < 0) first = {static_cast<int32_t>(i), static_cast<int32_t>(d)};
        rule.first_input = first.first;
        rule.first_dim = first.second;
      } else {
        rule.kind = SizeRule::Kind::kExpression;
        rule.slot = parts.slots[value].shape[d];
      }
      rules.push_back(rule);
    }
    rules_.push_back(std::move(rules));
  }
  for (size_t s = 0; s < bound_at.size(); ++s) {
    if (bound_at[s].first >= 0) continue;
    throw Error(ErrorCode::kInput, "the engine's size '" + plan.symbols[s].name +
                                       "' is not the size of any input; build the engine again");
  }
}

void Session::Impl::bind(std::span<const Input> inputs, Data data) {
  std::fill(bound_.begin(), bound_.end(), nullptr);
  for (const Input& input : inputs) {
    size_t index = 0;
    while (index < parts.inputs.size() && parts.inputs[index].name != input.name) ++index;
    if (index == parts.inputs.size()) {
      throw Error(ErrorCode::kInput, "input '" + std::string(input.name) +
                                         "' does not exist; the engine's inputs are " +
                                         names_of(parts.inputs) +
                                         did_you_mean(input.name, plain_names(parts.inputs)));
    }
    if (bound_[index]) fail(index, "given twice");
    bound_[index] = &input;
  }
  for (size_t i = 0; i < bound_.size(); ++i) {
    if (!bound_[i]) fail(i, "missing");
    const Input& input = *bound_[i];
    if (input.dtype != parts.inputs[i].dtype) fail(i, "got " + std::string(name(input.dtype)));
    if (input.shape.size() != rules_[i].size()) {
      fail(i, "got shape " + shape_text(input.shape) + " with " +
                  std::to_string(input.shape.size()) + " dimensions, expected " +
                  std::to_string(rules_[i].size()));
    }
    if (data == Data::kNeeded && !input.data) fail(i, "its data pointer is null");
    for (size_t d = 0; d < rules_[i].size(); ++d) bind_size(i, d, input.shape[d]);
  }
  check_range();
}

void Session::Impl::bind_size(size_t input, size_t dim, int64_t size) {
  const SizeRule& rule = rules_[input][dim];
  const auto where = [&] {
    return "got shape " + shape_text(bound_[input]->shape) + ": dimension " + std::to_string(dim) +
           " is " + std::to_string(size);
  };
  if (rule.kind == SizeRule::Kind::kNumber && size != rule.number)
    fail(input, where() + ", expected " + std::to_string(rule.number));
  if (rule.kind == SizeRule::Kind::kBinds) symbols_[static_cast<size_t>(rule.symbol)] = size;
  if (rule.kind == SizeRule::Kind::kRepeats && symbols_[static_cast<size_t>(rule.symbol)] != size) {
    const auto first = static_cast<size_t>(rule.first_input);
    fail(input, where() + ", but dimension " + std::to_string(rule.first_dim) + " of input '" +
                    parts.inputs[first].name + "' is " +
                    std::to_string(symbols_[static_cast<size_t>(rule.symbol)]) +
                    " and both must be the size '" +
                    parts.program.symbol(static_cast<size_t>(rule.symbol)) + "'");
  }
}

void Session::Impl::check_range() const {
  for (size_t i = 0; i < rules_.size(); ++i) {
    for (size_t d = 0; d < rules_[i].size(); ++d) {
      const SizeRule& rule = rules_[i][d];
      if (rule.kind != SizeRule::Kind::kBinds) continue;
      const plan::Symbol& symbol = parts.plan.symbols[static_cast<size_t>(rule.symbol)];
      const int64_t size = symbols_[static_cast<size_t>(rule.symbol)];
      if (size >= symbol.min && size <= symbol.max) continue;
      fail(i, "got shape " + shape_text(bound_[i]->shape) + ": '" + symbol.name + "' (dimension " +
                  std::to_string(d) + ") is " + std::to_string(size) + ", outside " +
                  std::to_string(symbol.min) + ".." + std::to_string(symbol.max) +
                  ", the range it was built for (build with --shapes " + symbol.name +
                  "=MIN..MAX to widen it)");
    }
  }
}

void Session::Impl::check_expressions(const ShapeEntry& entry) const {
  for (size_t i = 0; i < rules_.size(); ++i) {
    for (size_t d = 0; d < rules_[i].size(); ++d) {
      const SizeRule& rule = rules_[i][d];
      if (rule.kind != SizeRule::Kind::kExpression) continue;
      const int64_t expected = entry.slots[static_cast<size_t>(rule.slot)];
      if (bound_[i]->shape[d] == expected) continue;
      fail(i, "got shape " + shape_text(bound_[i]->shape) + ": dimension " + std::to_string(d) +
                  " is " + std::to_string(bound_[i]->shape[d]) + ", expected " +
                  parts.inputs[i].dims[d].text + " = " + std::to_string(expected));
    }
  }
}

// Values that a step refuses, before anything runs. The CPU's kernels check those that a model
// computes.
void Session::Impl::check_ids(const ShapeEntry& entry) const {
  for (const runtime::IdRule& rule : parts.id_rules) {
    const Input& input = *bound_[rule.input];
    if (input.memory == Memory::kDevice && !on_host()) continue;
    const StepRun& step = entry.steps[rule.step];
    const backend::TensorArg& values = step.in[rule.operand];
    // What the kernel reads, where the caller has it.
    const size_t start = on_host() ? 0 : entry.staged_offset + entry.input_offsets[rule.input];
    const std::byte* data =
        static_cast<const std::byte*>(input.data) + (step.in_sources[rule.operand].offset - start);
    const backend::TensorArg table =
        rule.table == plan::kNone ? backend::TensorArg{} : argument(entry, rule.table);
    const auto axis = static_cast<int>(rule.rule.axis);
    const int of_tuple = rule.rule.tuples && values.rank > 0 ? static_cast<int>(values.dim(-1)) : 1;
    const bool has_axis = table.rank > 0 && rule.rule.kind != ValueRule::Kind::kAxis;
    if (has_axis && axis + of_tuple > table.rank) continue;  // a file may say anything
    int place = -1;                                          // in its tuple
    const auto width = static_cast<int64_t>(size_bytes(values.dtype));
    int64_t before = kNothing;
    for_each_element(values, [&](int64_t offset) {
      const std::byte* element = data + offset * width;
      const int64_t value = load_integer(values.dtype, element);
      place = place + 1 == of_tuple ? 0 : place + 1;
      const int64_t size = has_axis ? table.dim(axis + place) : table.rank;
      const bool good = keeps(rule.rule, value, size, before);
      before = value;
      if (good) return;
      const int64_t at = (element - static_cast<const std::byte*>(input.data)) / width;
      fail(rule.input, "element " + position_text(at, input.shape) + " is " +
                           std::to_string(value) + ", " + refusal_of(rule.rule, size) +
                           " that step '" + parts.plan.steps[rule.reader].name + "' " +
                           reads(rule.rule, size));
    });
  }
}

}  // namespace vernier
