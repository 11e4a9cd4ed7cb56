// Checks of inputs: see binding.h.
#include "runtime/binding.h"

#include <algorithm>
#include <cstring>

#include "backend/elements.h"
#include "backend/operands.h"
#include "core/token_rows.h"
#include "vernier/nearest.h"

namespace vernier::runtime {
namespace {

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

// `before`: the value before it, kNothing before the first.
constexpr int64_t kNothing = -1;
bool keeps(const ValueRule& rule, int64_t value, int64_t size, int64_t before) {
  if (rule.kind == ValueRule::Kind::kNonZero) return value != 0;
  if (rule.kind == ValueRule::Kind::kStarts && (before == kNothing ? value != 0 : value < before))
    return false;
  return allowed_values(rule.kind, size).holds(value) || rule.ignored == value;
}

template <class Integer>
bool all_within(const std::byte* data, int64_t count, const ValueRange& range) {
  const auto low = static_cast<uint64_t>(range.low);
  const uint64_t most = static_cast<uint64_t>(range.high) - low;
  bool outside = false;
  for (int64_t i = 0; i < count; ++i) {
    Integer value;
    std::memcpy(&value, data + i * static_cast<int64_t>(sizeof value), sizeof value);
    outside |= static_cast<uint64_t>(int64_t{value}) - low > most;
  }
  return !outside;
}

// True if every value is in the range that the rule allows. A fast path: ids are checked on every
// run, and the element-by-element check takes ten times as long. False: use that check.
bool all_in_range(const ValueRule& rule, const backend::TensorArg& values, const std::byte* data,
                  int64_t size) {
  if (rule.kind == ValueRule::Kind::kNonZero || rule.kind == ValueRule::Kind::kStarts) return false;
  const ValueRange range = allowed_values(rule.kind, size);
  if (rule.tuples || range.high < range.low || !backend::is_dense(values)) return false;
  if (values.dtype == DType::kI64) return all_within<int64_t>(data, values.elems(), range);
  return values.dtype == DType::kI32 && all_within<int32_t>(data, values.elems(), range);
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

Binding::Binding(const Engine::Impl& engine)
    : engine_(engine),
      inputs_(engine.plan.inputs.size()),
      symbols_(engine.plan.symbols.size() + engine.plan.token_counts.size() +
               engine.plan.data_sizes.size()) {
  make_rules();
}

void Binding::fail(size_t input, const std::string& what) const {
  const Port& port = engine_.inputs[input];
  throw Error(ErrorCode::kInput, "input '" + port.name + "': " + what + "; the engine takes " +
                                     std::string(name(port.dtype)) + " " + port.shape_text());
}

void Binding::make_rules() {
  const plan::Plan& plan = engine_.plan;
  std::vector<std::pair<int32_t, int32_t>> bound_at(plan.symbols.size(), {-1, -1});
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const SymShape& shape = plan.value(plan.inputs[i]).shape;
    std::vector<SizeRule> rules;
    for (size_t d = 0; d < shape.size(); ++d) {
      SizeRule rule;
      if (const auto number = shape[d].as_constant()) {
        rule.number = *number;
      } else if (const auto symbol = shape[d].as_symbol()) {
        rule.symbol = engine_.program.symbol_index(*symbol);
        auto& first = bound_at[rule.symbol];
        rule.kind = first.first < 0 ? SizeRule::Kind::kBinds : SizeRule::Kind::kRepeats;
        if (first.first < 0) first = {static_cast<int32_t>(i), static_cast<int32_t>(d)};
        rule.first_input = first.first;
        rule.first_dim = first.second;
      } else {
        rule.kind = SizeRule::Kind::kExpression;
        rule.slot = engine_.slots_of(plan.inputs[i]).shape[d];
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

void Binding::bind(std::span<const Input> inputs, Data data) {
  const std::vector<Port>& ports = engine_.inputs;
  std::fill(inputs_.begin(), inputs_.end(), nullptr);
  for (const Input& input : inputs) {
    size_t index = 0;
    while (index < ports.size() && ports[index].name != input.name) ++index;
    if (index == ports.size()) {
      throw Error(ErrorCode::kInput, "input '" + std::string(input.name) +
                                         "' does not exist; the engine's inputs are " +
                                         names_of(ports) +
                                         did_you_mean(input.name, plain_names(ports)));
    }
    if (inputs_[index]) fail(index, "given twice");
    inputs_[index] = &input;
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i]) fail(i, "missing");
    const Input& input = *inputs_[i];
    if (input.dtype != ports[i].dtype) fail(i, "got " + std::string(name(input.dtype)));
    if (input.shape.size() != rules_[i].size()) {
      fail(i, "got shape " + str(input.shape) + " with " + std::to_string(input.shape.size()) +
                  " dimensions, expected " + std::to_string(rules_[i].size()));
    }
    if (data == Data::kNeeded && !input.data) fail(i, "its data pointer is null");
    for (size_t d = 0; d < rules_[i].size(); ++d) bind_size(i, d, input.shape[d]);
  }
  check_ranges();
  count_all_tokens(data);
  for (size_t i = 0; i < engine_.plan.data_sizes.size(); ++i) set_data_size(i, kUnknownSize);
}

void Binding::set_data_size(size_t index, int64_t symbol) {
  symbols_[engine_.plan.symbols.size() + engine_.plan.token_counts.size() + index] = symbol;
}

// A mask that lies on the device is not waited for: its tokens may take all places.
void Binding::count_all_tokens(Data data) {
  for (size_t c = 0; c < engine_.plan.token_counts.size(); ++c) {
    const plan::TokenCount& count = engine_.plan.token_counts[c];
    const Input& mask = *inputs_[count.input];
    const int64_t rows = mask.shape[0], length = mask.shape[1];
    int64_t places = rows * length;
    if (places > INT32_MAX)
      fail(static_cast<size_t>(count.input), "got " + std::to_string(places) +
                                                 " places, of which at most 2147483647 can be "
                                                 "counted (build with --unpad off)");
    if (data == Data::kNeeded && mask.memory == Memory::kHost) {
      const auto* bytes = static_cast<const std::byte*>(mask.data);
      places = token_places(count_tokens(mask.dtype, bytes, rows, length, count.rule()), places,
                            count.parts);
    } else if (data == Data::kNeeded) {
      places = uncounted_token_places(places);
    }
    symbols_[engine_.plan.symbols.size() + c] = places;
  }
}

void Binding::bind_size(size_t input, size_t dim, int64_t size) {
  const SizeRule& rule = rules_[input][dim];
  const auto where = [&] {
    return "got shape " + str(inputs_[input]->shape) + ": dimension " + std::to_string(dim) +
           " is " + std::to_string(size);
  };
  if (rule.kind == SizeRule::Kind::kNumber && size != rule.number)
    fail(input, where() + ", expected " + std::to_string(rule.number));
  if (rule.kind == SizeRule::Kind::kBinds) size_of(rule) = size;
  if (rule.kind == SizeRule::Kind::kRepeats && size_of(rule) != size) {
    const auto first = static_cast<size_t>(rule.first_input);
    fail(input, where() + ", but dimension " + std::to_string(rule.first_dim) + " of input '" +
                    engine_.inputs[first].name + "' is " + std::to_string(size_of(rule)) +
                    " and both must be the size '" + engine_.plan.symbol(rule.symbol).name + "'");
  }
}

void Binding::check_ranges() const {
  for (size_t i = 0; i < rules_.size(); ++i) {
    for (size_t d = 0; d < rules_[i].size(); ++d) {
      const SizeRule& rule = rules_[i][d];
      if (rule.kind != SizeRule::Kind::kBinds) continue;
      const plan::Symbol& symbol = engine_.plan.symbol(rule.symbol);
      const int64_t size = size_of(rule);
      if (size >= symbol.min && size <= symbol.max) continue;
      fail(i, "got shape " + str(inputs_[i]->shape) + ": '" + symbol.name + "' (dimension " +
                  std::to_string(d) + ") is " + std::to_string(size) + ", outside " +
                  std::to_string(symbol.min) + ".." + std::to_string(symbol.max) +
                  ", the range it was built for (build with --shapes " + symbol.name +
                  "=MIN..MAX to widen it)");
    }
  }
}

void Binding::check_expressions(const ShapeEntry& entry) const {
  for (size_t i = 0; i < rules_.size(); ++i) {
    for (size_t d = 0; d < rules_[i].size(); ++d) {
      const SizeRule& rule = rules_[i][d];
      if (rule.kind != SizeRule::Kind::kExpression) continue;
      const int64_t expected = entry.slot(rule.slot);
      if (inputs_[i]->shape[d] == expected) continue;
      fail(i, "got shape " + str(inputs_[i]->shape) + ": dimension " + std::to_string(d) + " is " +
                  std::to_string(inputs_[i]->shape[d]) + ", expected " +
                  engine_.inputs[i].dims[d].text + " = " + std::to_string(expected));
    }
  }
}

void Binding::check_values(const ShapeEntry& entry, const Arguments& arguments) const {
  const plan::Segment& segment = engine_.plan.segments[entry.segment];
  for (const IdRule& rule : engine_.id_rules) {
    if (!segment.holds(rule.step)) continue;
    if (inputs_[rule.input]->memory == Memory::kHost || arguments.on_host())
      check_values(rule, entry, arguments);
  }
}

void Binding::check_values(const IdRule& rule, const ShapeEntry& entry,
                           const Arguments& arguments) const {
  const Input& input = *inputs_[rule.input];
  const StepRun& step = entry.steps[rule.step];
  const backend::TensorArg& values = step.in[rule.operand];
  // What the kernel reads, where the caller has it.
  const size_t start =
      arguments.on_host() ? 0 : entry.staged.offset + entry.staged.input_offsets[rule.input];
  const std::byte* data =
      static_cast<const std::byte*>(input.data) + (step.in_sources[rule.operand].offset - start);
  const backend::TensorArg table =
      rule.table == plan::kNone ? backend::TensorArg{} : arguments.value(rule.table, entry.slots);
  const auto axis = static_cast<int>(rule.rule.axis);
  const int of_tuple = rule.rule.tuples && values.rank > 0 ? static_cast<int>(values.dim(-1)) : 1;
  const bool has_axis = table.rank > 0 && rule.rule.kind != ValueRule::Kind::kAxis;
  if (has_axis && axis + of_tuple > table.rank) return;  // a file may say anything
  if (all_in_range(rule.rule, values, data, has_axis ? table.dim(axis) : table.rank)) return;
  int place = -1;  // in its tuple
  const auto width = static_cast<int64_t>(size_bytes(values.dtype));
  int64_t before = kNothing;
  backend::for_each_element(values, [&](int64_t offset) {
    const std::byte* element = data + offset * width;
    const int64_t value = load_integer(values.dtype, element);
    place = place + 1 == of_tuple ? 0 : place + 1;
    const int64_t size = has_axis ? table.dim(axis + place) : table.rank;
    const bool good = keeps(rule.rule, value, size, before);
    before = value;
    if (good) return;
    const int64_t at = (element - static_cast<const std::byte*>(input.data)) / width;
    fail(rule.input, "element " + position_text(at, input.shape) + " is " + std::to_string(value) +
                         ", " + refusal_of(rule.rule, size) + " that step '" +
                         engine_.plan.steps[rule.reader].name + "' " + reads(rule.rule, size));
  });
}

}  // namespace vernier::runtime
