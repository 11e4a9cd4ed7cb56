// Translations of Scan and Loop: the nodes of their body, once for each step. A run may end a Loop
// early by a condition that it computes: then all steps are computed, and the carried values are
// those of the last step that the run reaches. Contract: node_context.h, translations.h.
#include <algorithm>
#include <array>
#include <limits>

#include "core/attrs.h"
#include "onnx/conditional.h"
#include "onnx/element_types.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

constexpr int64_t kMaxSteps = 4096;  // of which the body may be empty: no other limit holds then

// Values side by side on a new axis.
ir::ValueId stacked(NodeContext& node, std::vector<ir::ValueId> values, int64_t axis) {
  for (ir::ValueId& value : values)
    value = node.emit(OpKind::kUnsqueeze, {value}, AxesAttrs{.axes = {axis}});
  return node.emit(OpKind::kConcat, std::move(values), AxisAttrs{axis});
}

// ---- Scan --------------------------------------------------------------------------------------

// One number for each of `count` scanned inputs or outputs, 0 by default.
std::vector<int64_t> numbers_of(NodeContext& node, const std::string& attribute, size_t count) {
  std::vector<int64_t> numbers = node.attrs().integers(attribute);
  if (numbers.empty()) numbers.assign(count, 0);
  if (numbers.size() == count) return numbers;
  node.fail("attribute '" + attribute + "' has " + std::to_string(numbers.size()) +
            " numbers; expected " + std::to_string(count));
}

struct ScanNode {
  size_t states = 0, collected = 0;
  // One number for each scanned input; for each collected output.
  std::vector<int64_t> axes = {}, reversed = {};
  std::vector<int64_t> out_axes = {}, out_reversed = {};
};

// The size of the scanned axis of the inputs.
int64_t steps_of(NodeContext& node, const ScanNode& scan, std::span<const ir::ValueId> inputs) {
  std::optional<int64_t> steps;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const SymShape& shape = node.shape(inputs[i]);
    const auto rank = static_cast<int64_t>(shape.size());
    const std::string what = "input " + std::to_string(scan.states + i) + " of shape " + str(shape);
    const int64_t axis = scan.axes[i];
    if (axis < -rank || axis >= rank)
      node.fail(what + " has no axis " + std::to_string(axis) + " to scan");
    const Dim& size = shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
    if (!size.as_constant())
      node.unsupported("its number of steps is not known when the engine is built");
    if (steps && *steps != size.constant())
      node.fail(what + " has " + size.str() + " steps, others have " + std::to_string(*steps));
    steps = size.constant();
  }
  return *steps;
}

void check_steps(NodeContext& node, int64_t steps) {
  if (steps < 1 || steps > kMaxSteps)
    node.unsupported("it has " + std::to_string(steps) + " steps; 1 to " +
                     std::to_string(kMaxSteps) + " are supported");
}

// x at one place of an axis, which goes away.
ir::ValueId element(NodeContext& node, ir::ValueId x, int64_t axis, int64_t at) {
  const Tensor index = Tensor::scalar(DType::kI64, static_cast<double>(at));
  return node.emit(OpKind::kGather, {x, node.constant(index)}, AxisAttrs{axis});
}
// Of `values`, the states and the scanned inputs: the last states, and what the steps give.
std::vector<ir::ValueId> scanned(NodeContext& node, const ScanNode& scan,
                                 std::span<const ir::ValueId> values) {
  const auto inputs = values.subspan(scan.states);
  std::vector<ir::ValueId> state(values.begin(), values.end() - std::ssize(inputs));
  std::vector<std::vector<ir::ValueId>> slices(scan.collected);
  const int64_t steps = steps_of(node, scan, inputs);
  check_steps(node, steps);
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<ir::ValueId> given = state;
    for (size_t i = 0; i < inputs.size(); ++i)
      given.push_back(
          element(node, inputs[i], scan.axes[i], scan.reversed[i] != 0 ? steps - 1 - step : step));
    const std::vector<ir::ValueId> results = node.inline_graph("body", given);
    if (results.size() != node.num_outputs())
      node.fail("its body has " + std::to_string(results.size()) + " outputs; expected " +
                std::to_string(node.num_outputs()));
    state.assign(results.begin(), results.end() - std::ssize(slices));
    for (size_t i = 0; i < slices.size(); ++i) slices[i].push_back(results[scan.states + i]);
  }
  for (size_t i = 0; i < slices.size(); ++i) {
    if (scan.out_reversed[i] != 0) std::ranges::reverse(slices[i]);
    state.push_back(stacked(node, std::move(slices[i]), scan.out_axes[i]));
  }
  return state;
}

// Version 8: axis 0 of all values is a batch, and each of its rows is scanned by itself.
std::vector<ir::ValueId> scanned_by_row(NodeContext& node, const ScanNode& scan,
                                        std::span<const ir::ValueId> values) {
  std::optional<int64_t> rows;
  for (const ir::ValueId value : values) {
    const SymShape& shape = node.shape(value);
    if (shape.empty()) node.fail("a state or scanned input is a number; expected a batch of them");
    const auto size = shape[0].as_constant();
    if (!size) node.unsupported("its batch is not known when the engine is built");
    if (rows && *rows != *size)
      node.fail("its batch is " + std::to_string(*rows) + " of one input and " +
                std::to_string(*size) + " of another");
    rows = size;
  }
  if (*rows < 1) node.unsupported("its batch is empty");
  std::vector<std::vector<ir::ValueId>> results(node.num_outputs());
  for (int64_t row = 0; row < *rows; ++row) {
    std::vector<ir::ValueId> own;
    for (const ir::ValueId value : values) own.push_back(element(node, value, 0, row));
    // All rows have as many steps.
    if (row == 0)
      check_steps(node, *rows * steps_of(node, scan, std::span(own).subspan(scan.states)));
    const std::vector<ir::ValueId> of_row = scanned(node, scan, own);
    for (size_t i = 0; i < results.size(); ++i) results[i].push_back(of_row[i]);
  }
  std::vector<ir::ValueId> all;
  for (auto& result : results) all.push_back(stacked(node, std::move(result), 0));
  return all;
}

// Version 8 begins with the lengths of the sequences, and has no axes of its own.
void translate_scan(NodeContext& node) {
  const bool by_row = node.opset() < 9;
  const size_t first = by_row ? 1 : 0;
  if (by_row && node.has_input(0)) node.unsupported("it has sequence_lens (input 0)");
  const size_t given = std::max(node.num_inputs(), first) - first;
  const int64_t num = node.attrs().required_integer("num_scan_inputs");
  if (num < 1 || num > static_cast<int64_t>(given))
    node.fail("num_scan_inputs is " + std::to_string(num) + "; expected 1 to " +
              std::to_string(given));
  const auto count = static_cast<size_t>(num);
  ScanNode scan{.states = given - count};
  if (scan.states > node.num_outputs())
    node.fail("has " + std::to_string(node.num_outputs()) + " outputs; expected " +
              std::to_string(scan.states) + " states and the scanned ones");
  scan.collected = node.num_outputs() - scan.states;
  const auto numbers = [&](const char* attribute, size_t size) {
    return by_row ? std::vector<int64_t>(size, 0) : numbers_of(node, attribute, size);
  };
  scan.axes = numbers("scan_input_axes", count);
  scan.reversed = numbers_of(node, by_row ? "directions" : "scan_input_directions", count);
  scan.out_axes = numbers("scan_output_axes", scan.collected);
  scan.out_reversed = numbers("scan_output_directions", scan.collected);
  std::vector<ir::ValueId> values;
  for (size_t i = 0; i < given; ++i) values.push_back(node.input(first + i));
  const auto results = by_row ? scanned_by_row(node, scan, values) : scanned(node, scan, values);
  for (size_t i = 0; i < results.size(); ++i) node.set_output(i, results[i]);
}

// ---- Loop --------------------------------------------------------------------------------------

constexpr int64_t kMaxOpenSteps = 64;  // all of them are computed, however early a run ends
constexpr int64_t kNoTripCount = std::numeric_limits<int64_t>::max();  // also what exporters write
constexpr const char* kData = "its condition depends on data, and ";

struct LoopNode {
  const proto::GraphProto* body = nullptr;
  int64_t trip_count = kNoTripCount;
  size_t carried = 0;  // number of carried values
};

// What the steps so far have made of a loop.
struct State {
  std::vector<ir::ValueId> carried;
  std::vector<std::vector<ir::ValueId>> collected;  // by scan output: one value for each step
  std::vector<ir::ValueId> reached;    // by step: does the run reach it? kNoValue: every run does
  ir::ValueId running = ir::kNoValue;  // does the run reach the next step? kNoValue: every one does
  bool ended = false;                  // no run reaches the next step
};

int64_t trip_count_of(NodeContext& node) {
  const ir::ValueId count = node.optional_input(0);
  if (count == ir::kNoValue) return kNoTripCount;
  if (const auto known = node.known_number(count)) return std::max<int64_t>(*known, 0);
  const auto& sizes = node.value(count).values;
  if (sizes && sizes->size() == 1)
    node.unsupported("its trip count is " + sizes->front().str() +
                     ", a size of the inputs; export the model with fixed sizes");
  node.unsupported(
      "its trip count is not known when the engine is built, since it depends on data; export the "
      "model with a constant one");
}

LoopNode read_loop(NodeContext& node) {
  LoopNode loop{.body = node.attrs().graph("body")};
  if (loop.body == nullptr) node.fail("attribute 'body' is missing");
  loop.carried = std::max<size_t>(node.num_inputs(), 2) - 2;
  const auto outputs = static_cast<size_t>(loop.body->output_size());
  const auto given = static_cast<size_t>(loop.body->input_size());
  if (given != loop.carried + 2 || outputs < loop.carried + 1 || node.num_outputs() + 1 > outputs)
    node.fail("its body has " + std::to_string(given) + " inputs and " + std::to_string(outputs) +
              " outputs; expected " + std::to_string(loop.carried + 2) + " inputs and at least " +
              std::to_string(std::max(loop.carried, node.num_outputs()) + 1) + " outputs");
  loop.trip_count = trip_count_of(node);
  return loop;
}

// A number that a body takes as a scalar, or as a list where it declares one.
ir::ValueId number(NodeContext& node, const proto::ValueInfoProto& declared, DType type,
                   int64_t value) {
  const auto& shape = declared.type().tensor_type().shape();
  const Shape dims(shape.dim_size() == 1 ? 1 : 0, 1);
  return node.constant(Tensor::from(type, dims, std::span<const int64_t>(&value, 1)));
}

void require_few_steps(const NodeContext& node, const LoopNode& loop) {
  if (loop.trip_count <= kMaxOpenSteps) return;
  node.unsupported(kData +
                   (loop.trip_count == kNoTripCount
                        ? "it has no trip count"
                        : "its trip count is " + std::to_string(loop.trip_count)) +
                   "; at most " + std::to_string(kMaxOpenSteps) +
                   " steps are supported then, all of which are computed");
}

// Takes the condition into account under which the next step runs.
void continue_if(NodeContext& node, const LoopNode& loop, ir::ValueId condition, State& state) {
  if (const auto known = node.known_number(condition)) {
    state.ended = *known == 0;
    return;
  }
  require_few_steps(node, loop);
  const ir::ValueId more = scalar_condition(node, condition);
  state.running =
      state.running == ir::kNoValue ? more : node.emit(OpKind::kAnd, {state.running, more});
}

// A step that runs has a condition that holds, and what others compute is not read.
void take_step(NodeContext& node, const LoopNode& loop, int64_t step, State& state) {
  const EveryRun before(node.graph());
  std::vector<ir::ValueId> given{number(node, loop.body->input(0), DType::kI64, step),
                                 number(node, loop.body->input(1), DType::kBool, 1)};
  given.insert(given.end(), state.carried.begin(), state.carried.end());
  const std::vector<ir::ValueId> results = node.inline_graph("body", given);
  const bool is_open = state.running != ir::kNoValue;
  if (is_open) {
    const std::string why = before.refusal();
    if (!why.empty())
      node.unsupported(kData + ("its step " + std::to_string(step) +
                                " may refuse a run that ends before it: " + why));
  }
  state.reached.push_back(state.running);
  for (size_t i = 0; i < loop.carried; ++i) {
    const ir::ValueId made = results[i + 1];
    state.carried[i] = is_open
                           ? selected(node, state.running,
                                      {.yes = made,
                                       .no = state.carried[i],
                                       .what = kData + ("its carried value " + std::to_string(i)),
                                       .yes_place = "after step " + std::to_string(step),
                                       .no_place = "before it"})
                           : made;
  }
  for (size_t i = 0; i < state.collected.size(); ++i)
    state.collected[i].push_back(results[loop.carried + 1 + i]);
  if (step + 1 < loop.trip_count) continue_if(node, loop, results[0], state);
}

State unrolled(NodeContext& node, const LoopNode& loop) {
  State state;
  for (size_t i = 0; i < loop.carried; ++i) state.carried.push_back(node.input(i + 2));
  state.collected.resize(static_cast<size_t>(loop.body->output_size()) - loop.carried - 1);
  const ir::ValueId condition = node.optional_input(1);
  if (condition != ir::kNoValue && loop.trip_count > 0) continue_if(node, loop, condition, state);
  for (int64_t step = 0; step < loop.trip_count && !state.ended; ++step) {
    if (step == kMaxSteps)
      node.unsupported("it has more than " + std::to_string(kMaxSteps) + " steps, the limit");
    take_step(node, loop, step, state);
  }
  return state;
}

// What a loop of no steps collects: an empty array of the shape that its body declares.
ir::ValueId nothing(NodeContext& node, const proto::ValueInfoProto& declared) {
  const auto& type = declared.type().tensor_type();
  const std::string what = "output '" + declared.name() + "' of its body";
  Shape shape{0};
  bool is_known = type.has_shape();
  for (const auto& dim : type.shape().dim()) {
    is_known = is_known && dim.has_dim_value() && dim.dim_value() >= 0;
    shape.push_back(dim.dim_value());
  }
  if (!is_known) node.unsupported("it has no steps, and the shape of " + what + " is not declared");
  return node.constant(Tensor::from_bytes(element_type(type.elem_type(), what), shape, {}));
}

// Of the values that the steps give, those of the steps that the run reaches.
ir::ValueId collected(NodeContext& node, const State& state, size_t i) {
  const EveryRun before(node.graph());
  const ir::ValueId all = stacked(node, state.collected[i], 0);
  if (state.reached.back() == ir::kNoValue) return all;  // so is every step before it
  if (const std::string why = before.refusal(); !why.empty())
    node.unsupported(kData + ("what its steps collect may have several shapes: " + why));
  std::vector<ir::ValueId> reached = state.reached;
  std::ranges::replace(reached, ir::kNoValue, node.constant(Tensor::scalar(DType::kBool, 1)));
  return node.emit(OpKind::kCompress, {all, stacked(node, std::move(reached), 0)},
                   CompressAttrs{.axis = 0, .flat = false});
}

void translate_loop(NodeContext& node) {
  const LoopNode loop = read_loop(node);
  const State state = unrolled(node, loop);
  const size_t steps = state.reached.size();
  node.retire("unrolled: " + std::to_string(steps) + (steps == 1 ? " step" : " steps"));
  for (size_t i = 0; i < loop.carried; ++i) node.set_output(i, state.carried[i]);
  for (size_t i = 0; i < state.collected.size(); ++i) {
    const size_t output = loop.carried + i;
    if (!node.wants_output(output)) continue;
    node.set_output(output, steps == 0
                                ? nothing(node, loop.body->output(static_cast<int>(output) + 1))
                                : collected(node, state, i));
  }
}

constexpr std::array kRows{
    Translation{"", "Scan", 8, translate_scan},
    Translation{"", "Loop", 1, translate_loop},
};

}  // namespace

std::span<const Translation> loop_translations() { return kRows; }

}  // namespace vernier::onnx
