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

std::string first_difference(const plan::Plan& plan, const Recorder& a, const Recorder& b,
                             const std::optional<RowPair>& pair) {
  for (const auto& [step, arrays] : a.steps()) {
    const auto other = b.steps().find(step);
    if (other == b.steps().end()) continue;
    for (size_t i = 0; i < arrays.size(); ++i) {
      const Tensor &x = arrays[i], &y = other->second[i];
      if (!x.defined() || !y.defined()) continue;
      bool same = false;
      if (!pair) {
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
