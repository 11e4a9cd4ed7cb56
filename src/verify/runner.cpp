// Runner: see runner.h.
#include "verify/runner.h"

#include <fmt/format.h>

namespace vernier::verify {
namespace {

// Row `row` of `rows` in an array of one run, given its shape in the other; the array itself where
// no axis counts rows.
std::optional<Tensor> row_in(const Tensor& t, int64_t row, int64_t rows, const Shape& other,
                             int64_t other_rows) {
  if (t.rank() != other.size()) return std::nullopt;
  for (size_t axis = 0; axis < other.size(); ++axis) {
    const int64_t size = t.shape()[axis];
    if (size * other_rows != other[axis] * rows || size % rows != 0) continue;
    const bool counts = rows != other_rows || size == rows;
    if (!counts || (rows != other_rows && size == other[axis])) continue;
    // Rows may be merged with another axis: [batch·heads, …] holds heads rows of each.
    const int64_t per_row = size / rows;
    Shape split = t.shape();
    split[axis] = rows;
    split.insert(split.begin() + static_cast<std::ptrdiff_t>(axis) + 1, per_row);
    return take_row(t.reshaped(split), static_cast<int>(axis), row);
  }
  return t;
}

}  // namespace

Runner::Runner(std::shared_ptr<const Engine> engine, const SessionOptions& options)
    : session_(std::move(engine), options) {}

NamedTensors Runner::run(const NamedTensors& inputs, RunObserver& observer) {
  return run(inputs, &observer);
}

NamedTensors Runner::run_unwatched(const NamedTensors& inputs) { return run(inputs, nullptr); }

NamedTensors Runner::run(const NamedTensors& inputs, RunObserver* observer) {
  std::vector<Input> refs;
  for (const auto& [name, tensor] : inputs)
    refs.push_back({name, tensor.dtype(), tensor.shape(), tensor.data()});
  NamedTensors answers;
  for (const Output& output : session_.impl().run(refs, observer)) {
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(output.data),
                                           output.bytes);
    answers.emplace_back(
        output.name,
        Tensor::from_bytes(output.dtype, {output.shape.begin(), output.shape.end()}, bytes));
  }
  return answers;
}

NamedTensors Runner::run(const NamedTensors& inputs) {
  Poison poison(kSignallingNan);
  return run(inputs, poison);
}

bool Runner::records() { return !session_.impl().device->host_memory(); }

std::string step_text(const plan::Plan& plan, int32_t step) {
  const plan::Step& s = plan.step(step);
  return fmt::format("step {} ({}, '{}')", step, s.kernel, s.name);
}

Cause cause_at(const plan::Plan& plan, int32_t step) {
  const plan::Step& s = plan.step(step);
  return {.step = step, .kernel = s.kernel, .node = s.name};
}

namespace {

// The tokens of a row, where output `output` of `step` has the tokens of all rows one after the
// other; undefined where it has not, or nobody recorded where rows begin.
Tensor tokens_of(const plan::Plan& plan, const Recorder& run, int32_t step, size_t output,
                 const Tensor& all, int64_t row) {
  const SymShape& shape = plan.value(plan.step(step).outputs[output]).shape;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    for (const auto& [index, arrays] : run.steps()) {
      const plan::Step& counts = plan.step(index);
      if (counts.op != OpKind::kTokenIndex || !counts.has_output(0) || !counts.has_output(2) ||
          !(plan.value(counts.outputs[0]).shape[0] == shape[axis]))
        continue;
      const std::vector<int64_t> starts = arrays[2].integers();
      if (row + 1 >= static_cast<int64_t>(starts.size())) return {};
      const auto at = static_cast<size_t>(row);
      return take_range(all, axis, starts[at], starts[at + 1]);
    }
  }
  return {};
}

}  // namespace

std::string first_difference(const plan::Plan& plan, const Recorder& a, const Recorder& b,
                             const std::optional<RowPair>& pair) {
  for (const auto& [step, arrays] : a.steps()) {
    const auto other = b.steps().find(step);
    if (other == b.steps().end()) continue;
    for (size_t i = 0; i < arrays.size(); ++i) {
      const Tensor &x = arrays[i], &y = other->second[i];
      if (!x.defined() || !y.defined()) continue;
      bool same = false;
      if (pair && plan.step(step).op == OpKind::kTokenIndex) continue;  // places, not contents
      const Tensor tokens_x = pair ? tokens_of(plan, a, step, i, x, pair->row_a) : Tensor();
      if (tokens_x.defined()) {
        const Tensor tokens_y = tokens_of(plan, b, step, i, y, pair->row_b);
        same = tokens_x.shape() != tokens_y.shape() || same_bits(tokens_x, tokens_y);
      } else if (!pair) {
        same = same_bits(x, y);
      } else {
        const auto row_x = row_in(x, pair->row_a, pair->rows_a, y.shape(), pair->rows_b);
        const auto row_y = row_in(y, pair->row_b, pair->rows_b, x.shape(), pair->rows_a);
        same = !row_x || !row_y || same_bits(*row_x, *row_y);
      }
      if (!same) return step_text(plan, step);
    }
  }
  return "";
}

std::vector<std::string> different_outputs(const NamedTensors& a, const NamedTensors& b) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : a) {
    const Tensor* other = find(b, name);
    if (!other || !same_bits(tensor, *other)) names.push_back(name);
  }
  return names;
}

}  // namespace vernier::verify
