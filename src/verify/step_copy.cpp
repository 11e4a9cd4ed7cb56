// Copies of steps: see step_copy.h.
#include "verify/step_copy.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace vernier::verify {
namespace {

// Copies `count` elements that lie `step` elements apart.
template <class Element>
void copy_elements(const std::byte* src, int64_t step, int64_t count, std::byte* dst) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(dst + i * sizeof(Element), src + i * step * static_cast<int64_t>(sizeof(Element)),
                sizeof(Element));
}
void copy_elements(size_t width, const std::byte* src, int64_t step, int64_t count,
                   std::byte* dst) {
  switch (width) {
    case 1:
      return copy_elements<uint8_t>(src, step, count, dst);
    case 2:
      return copy_elements<uint16_t>(src, step, count, dst);
    case 4:
      return copy_elements<uint32_t>(src, step, count, dst);
    default:
      VERNIER_ASSERT(width == 8, std::to_string(width));
      return copy_elements<uint64_t>(src, step, count, dst);
  }
}

}  // namespace

Tensor copy_of(const backend::TensorArg& arg) {
  const Shape shape(arg.shape.begin(), arg.shape.begin() + arg.rank);
  const size_t width = size_bytes(arg.dtype);
  const int64_t elems = arg.elems();
  return Tensor::filled(arg.dtype, shape, [&](std::byte* to) {
    if (elems == 0) return;
    // The last axes that lie as they would in a dense array are copied as a whole.
    size_t outer = shape.size();
    int64_t run = 1;
    while (outer > 0 && (arg.strides[outer - 1] == run || shape[outer - 1] == 1))
      run *= shape[--outer];
    int64_t step = 0, inner = 1;  // of the axis before them
    if (outer > 0) {
      inner = shape[--outer];
      step = arg.strides[outer];
    }
    std::vector<int64_t> index(outer, 0);
    for (int64_t at = 0; at < elems; at += run * inner) {
      int64_t from = 0;
      for (size_t d = 0; d < outer; ++d) from += index[d] * arg.strides[d];
      const std::byte* src = arg.data + from * static_cast<int64_t>(width);
      std::byte* dst = to + static_cast<size_t>(at) * width;
      if (run == 1) {
        copy_elements(width, src, step, inner, dst);
      } else {
        for (int64_t i = 0; i < inner; ++i)
          std::memcpy(dst + static_cast<size_t>(i * run) * width,
                      src + i * step * static_cast<int64_t>(width),
                      static_cast<size_t>(run) * width);
      }
      for (size_t d = outer; d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
    }
  });
}

namespace {

// Row `row` of an array of rows of `inner` axes.
backend::TensorArg row_of(const backend::TensorArg& arg, int inner, int64_t row) {
  backend::TensorArg one = arg;
  const int outer = arg.rank - inner;
  int64_t at = 0;
  for (int d = outer - 1; d >= 0; --d) {
    at += row % arg.dim(d) * arg.stride(d);
    row /= arg.dim(d);
  }
  one.data += at * static_cast<int64_t>(size_bytes(arg.dtype));
  one.rank = inner;
  for (int d = 0; d < inner; ++d) {
    one.shape[d] = arg.dim(outer + d);
    one.strides[d] = arg.stride(outer + d);
  }
  return one;
}

// Some rows of it; its other axes become 1, and their number.
Tensor rows_of(const backend::TensorArg& arg, int inner, std::span<const int64_t> rows) {
  const int outer = arg.rank - inner;
  Shape shape(arg.shape.begin(), arg.shape.begin() + arg.rank);
  for (int d = 0; d < outer; ++d) shape[d] = d + 1 == outer ? std::ssize(rows) : 1;
  return Tensor::filled(arg.dtype, shape, [&](std::byte* to) {
    for (const int64_t row : rows) {
      const Tensor one = copy_of(row_of(arg, inner, row));
      std::memcpy(to, one.data(), one.bytes());
      to += one.bytes();
    }
  });
}

}  // namespace

int64_t rows_in(const backend::TensorArg& arg, int inner) {
  if (arg.rank <= inner) return 0;
  int64_t rows = 1;
  for (int d = 0; d < arg.rank - inner; ++d) rows *= arg.dim(d);
  return rows;
}

std::optional<StepCopy> copy_rows(const plan::Plan& plan, int32_t step,
                                  const backend::LaunchCall& call, const RowsOfStep& part) {
  std::vector<backend::TensorArg> in(call.in.begin(), call.in.end());
  const int64_t all = rows_in(call.out[0], part.inner);
  const auto has_rows = [&](const backend::TensorArg& arg) {
    return !arg.data || (all > 0 && rows_in(arg, part.inner) == all);
  };
  if (!std::ranges::all_of(call.out, has_rows)) return std::nullopt;
  for (const size_t i : part.with_rows) {
    if (i >= in.size()) continue;
    if (!has_rows(in[i])) return std::nullopt;
    in[i].data = nullptr;  // copied below
  }
  backend::LaunchCall without = call;
  without.in = in;
  without.out = {};
  StepCopy copy = copy_step(plan, step, without);
  const auto keep = [&](const backend::TensorArg& arg) {
    Tensor some = arg.data ? rows_of(arg, part.inner, part.rows) : Tensor();
    if (arg.data) copy.bytes += some.bytes();
    return some;
  };
  for (const size_t i : part.with_rows)
    if (i < in.size()) copy.in[i] = keep(call.in[i]);
  for (const backend::TensorArg& arg : call.out) copy.out.push_back(keep(arg));
  return copy;
}

StepCopy copy_step(const plan::Plan& plan, int32_t step, const backend::LaunchCall& call) {
  const plan::Step& of = plan.step(step);
  StepCopy copy{.step = step, .in = {}, .out = {}};
  const auto keep = [&](const backend::TensorArg& arg, std::vector<Tensor>& to) {
    to.push_back(arg.data ? copy_of(arg) : Tensor());
    if (arg.data) copy.bytes += to.back().bytes();
  };
  for (size_t i = 0; i < call.in.size(); ++i) {
    const bool is_constant =
        of.has_input(i) && plan.value(of.inputs[i]).kind == plan::PlanValue::Kind::kConstant;
    if (is_constant)
      copy.in.push_back(plan.blob_of(plan.value(of.inputs[i])).bytes);
    else
      keep(call.in[i], copy.in);
  }
  for (const backend::TensorArg& arg : call.out) keep(arg, copy.out);
  return copy;
}

}  // namespace vernier::verify
