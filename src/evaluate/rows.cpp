// Rows of a batch: see rows.h.
#include "evaluate/rows.h"

#include <algorithm>
#include <cstring>

namespace vernier::evaluate {
namespace {

// An array seen as [outer, size, inner] around one axis.
struct Cut {
  int64_t outer = 1, size = 1, inner = 1;
  Cut(const Shape& shape, int axis) {
    for (size_t i = 0; i < shape.size(); ++i) {
      if (static_cast<int>(i) < axis) outer *= shape[i];
      if (static_cast<int>(i) == axis) size = shape[i];
      if (static_cast<int>(i) > axis) inner *= shape[i];
    }
  }
};

Shape with_size(Shape shape, int axis, int64_t size) {
  shape[axis] = size;
  return shape;
}

// Copies `count` elements of `width` bytes at row `from` of a cut to row `to` of another.
void copy_row(const std::byte* src, const Cut& from, int64_t row, std::byte* dst, const Cut& to,
              int64_t at, size_t width) {
  const size_t run = static_cast<size_t>(from.inner) * width;
  for (int64_t o = 0; o < from.outer; ++o) {
    std::memcpy(dst + static_cast<size_t>(o * to.size + at) * run,
                src + static_cast<size_t>(o * from.size + row) * run, run);
  }
}

template <class T>
std::byte* raw(std::vector<T>& v) {
  return reinterpret_cast<std::byte*>(v.data());
}
template <class T>
const std::byte* raw(const std::vector<T>& v) {
  return reinterpret_cast<const std::byte*>(v.data());
}

Tensor join(const std::vector<const Tensor*>& rows, int axis) {
  const Shape shape = with_size(rows[0]->shape(), axis, static_cast<int64_t>(rows.size()));
  const size_t width = size_bytes(rows[0]->dtype());
  std::vector<std::byte> bytes(static_cast<size_t>(num_elems(shape)) * width);
  const Cut to(shape, axis), from(rows[0]->shape(), axis);
  for (size_t r = 0; r < rows.size(); ++r)
    copy_row(rows[r]->data(), from, 0, bytes.data(), to, static_cast<int64_t>(r), width);
  return Tensor::from_bytes(rows[0]->dtype(), shape, bytes);
}

EvalTensor join(const std::vector<const EvalTensor*>& rows, int axis) {
  const Shape shape = with_size(rows[0]->shape, axis, static_cast<int64_t>(rows.size()));
  EvalTensor joined(rows[0]->dtype, shape);
  const Cut to(shape, axis), from(rows[0]->shape, axis);
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto at = static_cast<int64_t>(r);
    if (joined.is_float())
      copy_row(raw(rows[r]->f), from, 0, raw(joined.f), to, at, sizeof(double));
    else
      copy_row(raw(rows[r]->i), from, 0, raw(joined.i), to, at, sizeof(int64_t));
  }
  return joined;
}

int axis_of(const SymShape& shape, const std::string& symbol) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].as_symbol() == symbol) return static_cast<int>(i);
  }
  return kNoAxis;
}

// A symbol that sizes two axes, or a part of one, counts something else than rows.
bool counts_one_axis(const SymShape& shape, const std::string& symbol) {
  const auto names = [&](const Dim& d) { return std::ranges::count(d.symbols(), symbol) > 0; };
  return std::ranges::count_if(shape, names) == 1 && axis_of(shape, symbol) != kNoAxis;
}

const SymShape& shape_of(const plan::Plan& plan, int32_t value) { return plan.value(value).shape; }

}  // namespace

BatchAxes axes_of_symbol(const plan::Plan& plan, const std::string& symbol) {
  BatchAxes axes{.symbol = symbol, .fixed_rows = 0, .axis = {}};
  const auto add = [&](const std::string& name, int32_t value) {
    const int axis = axis_of(shape_of(plan, value), symbol);
    if (axis != kNoAxis) axes.axis[name] = axis;
  };
  for (size_t i = 0; i < plan.inputs.size(); ++i) add(plan.input_names[i], plan.inputs[i]);
  for (size_t i = 0; i < plan.outputs.size(); ++i) add(plan.output_names[i], plan.outputs[i]);
  return axes;
}

BatchAxes fixed_axes(const plan::Plan& plan) {
  BatchAxes axes;
  std::vector<std::pair<std::string, int32_t>> ports;
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    ports.emplace_back(plan.input_names[i], plan.inputs[i]);
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    ports.emplace_back(plan.output_names[i], plan.outputs[i]);
  std::optional<int64_t> rows;
  for (const auto& [name, value] : ports) {
    const SymShape& shape = shape_of(plan, value);
    const auto first = shape.empty() ? std::nullopt : shape[0].as_constant();
    if (!first || *first < 2 || (rows && rows != first)) return {};
    rows = first;
    axes.axis[name] = 0;
  }
  axes.fixed_rows = rows.value_or(0);
  return axes;
}

std::vector<std::string> batch_candidates(const plan::Plan& plan) {
  std::vector<std::string> candidates;
  if (plan.inputs.empty()) return candidates;
  for (const Dim& d : shape_of(plan, plan.inputs[0])) {
    const auto symbol = d.as_symbol();
    if (!symbol) continue;
    const bool everywhere = std::ranges::all_of(plan.inputs, [&](int32_t input) {
      const SymShape& shape = shape_of(plan, input);
      return is_constant(shape) || counts_one_axis(shape, *symbol);
    });
    if (everywhere) candidates.push_back(*symbol);
  }
  return candidates;
}

std::string batch_symbol(const plan::Plan& plan) {
  const std::vector<std::string> candidates = batch_candidates(plan);
  return candidates.empty() ? "" : candidates.front();
}

Tensor take_range(const Tensor& t, size_t axis, int64_t begin, int64_t end) {
  Shape shape = t.shape();
  shape[axis] = end - begin;
  size_t inner = size_bytes(t.dtype()), outer = 1;
  for (size_t d = axis + 1; d < shape.size(); ++d) inner *= static_cast<size_t>(shape[d]);
  for (size_t d = 0; d < axis; ++d) outer *= static_cast<size_t>(shape[d]);
  const size_t all = static_cast<size_t>(t.shape()[axis]) * inner,
               part = static_cast<size_t>(end - begin) * inner,
               first = static_cast<size_t>(begin) * inner;
  std::vector<std::byte> bytes(outer * part);
  for (size_t o = 0; o < outer; ++o)
    std::copy_n(t.byte_span().data() + o * all + first, part, bytes.data() + o * part);
  return Tensor::from_bytes(t.dtype(), shape, bytes);
}

Tensor take_row(const Tensor& t, int axis, int64_t row) {
  if (axis == kNoAxis) return t;
  const Shape shape = with_size(t.shape(), axis, 1);
  const size_t width = size_bytes(t.dtype());
  std::vector<std::byte> bytes(static_cast<size_t>(num_elems(shape)) * width);
  copy_row(t.data(), Cut(t.shape(), axis), row, bytes.data(), Cut(shape, axis), 0, width);
  return Tensor::from_bytes(t.dtype(), shape, bytes);
}

EvalTensor take_row(const EvalTensor& t, int axis, int64_t row) {
  if (axis == kNoAxis) return t;
  EvalTensor one(t.dtype, with_size(t.shape, axis, 1));
  const Cut from(t.shape, axis), to(one.shape, axis);
  if (t.is_float())
    copy_row(raw(t.f), from, row, raw(one.f), to, 0, sizeof(double));
  else
    copy_row(raw(t.i), from, row, raw(one.i), to, 0, sizeof(int64_t));
  return one;
}

NamedTensors take_row(const NamedTensors& arrays, const BatchAxes& axes, int64_t row) {
  NamedTensors rows;
  for (const auto& [name, tensor] : arrays)
    rows.emplace_back(name, take_row(tensor, axes.of(name), row));
  return rows;
}

NamedValues take_row(const NamedValues& values, const BatchAxes& axes, int64_t row) {
  NamedValues rows;
  for (const auto& [name, value] : values) rows[name] = take_row(value, axes.of(name), row);
  return rows;
}

NamedValues join_rows(const std::vector<NamedValues>& rows, const BatchAxes& axes) {
  std::vector<const NamedValues*> parts;
  for (const NamedValues& row : rows) parts.push_back(&row);
  return join_rows(parts, axes);
}

NamedTensors join_rows(const std::vector<NamedTensors>& rows, const BatchAxes& axes) {
  NamedTensors joined;
  for (const auto& [name, first] : rows[0]) {
    const int axis = axes.of(name);
    std::vector<const Tensor*> parts;
    for (const NamedTensors& row : rows) parts.push_back(find(row, name));
    joined.emplace_back(name, axis == kNoAxis ? first : join(parts, axis));
  }
  return joined;
}

NamedValues join_rows(const std::vector<const NamedValues*>& rows, const BatchAxes& axes) {
  NamedValues joined;
  for (const auto& [name, first] : *rows[0]) {
    const int axis = axes.of(name);
    std::vector<const EvalTensor*> parts;
    for (const NamedValues* row : rows) parts.push_back(&row->at(name));
    joined[name] = axis == kNoAxis ? first : join(parts, axis);
  }
  return joined;
}

const Tensor* find(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return &tensor;
  }
  return nullptr;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

}  // namespace vernier::evaluate
