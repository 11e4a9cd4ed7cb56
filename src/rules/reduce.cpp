// Inference of reductions and one-axis operators: Reduce*, ArgMax, ArgMin, TopK. Contract:
// context.h.
#include <algorithm>
#include <functional>

#include "rules/checks.h"

namespace vernier::rules {
namespace {

// Which axes are reduced, by ONNX's rules for empty axes.
std::vector<bool> reduced_axes(InferContext& context) {
  const auto attrs = context.attrs<ReduceAttrs>();
  std::vector<int64_t> axes = attrs.axes;
  if (context.has_input(1)) {
    require_signed_index(context, 1);
    const auto given = context.integers(1);
    if (!given) context.fail("the axes in input 1 are not constant");
    axes = *given;
  }
  const auto rank = context.shape(0).size();
  if (axes.empty()) return std::vector<bool>(rank, !attrs.noop_with_empty_axes);
  std::vector<bool> reduced(rank, false);
  for (int64_t axis : axes) reduced[context.normalize_axis(axis, context.rank(0))] = true;
  return reduced;
}

using Combine = std::function<Dim(const Dim&, const Dim&)>;

// Folds the known values of input 0 over the reduced axes.
void reduce_values(InferContext& context, const std::vector<bool>& reduced,
                   const Combine& combine) {
  const auto known = context.values(0);
  if (!known || known->empty() || !is_constant(context.shape(0))) return;
  std::vector<int64_t> sizes;
  for (const Dim& d : context.shape(0)) sizes.push_back(d.constant());
  std::vector<std::optional<Dim>> sums;
  for (size_t flat = 0; flat < known->size(); ++flat) {
    auto rest = static_cast<int64_t>(flat);
    int64_t target = 0, stride = 1;
    for (size_t i = sizes.size(); i-- > 0; rest /= sizes[i]) {
      if (reduced[i]) continue;
      target += rest % sizes[i] * stride;
      stride *= sizes[i];
    }
    sums.resize(std::max<int64_t>(stride, static_cast<int64_t>(sums.size())));
    std::optional<Dim>& sum = sums[target];
    sum = sum ? combine(*sum, (*known)[flat]) : (*known)[flat];
  }
  std::vector<Dim> values;
  for (const auto& sum : sums) values.push_back(*sum);
  context.set_values(0, std::move(values));
}

std::vector<bool> infer_reduced_shape(InferContext& context) {
  const std::vector<bool> reduced = reduced_axes(context);
  const bool keep = context.attrs<ReduceAttrs>().keepdims;
  SymShape out;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (!reduced[i])
      out.push_back(context.shape(0)[i]);
    else if (keep)
      out.push_back(1);
  }
  context.set_output(0, context.dtype(0), std::move(out));
  return reduced;
}

}  // namespace

void infer_reduce(InferContext& context) { infer_reduced_shape(context); }

// The mean of an empty list of floats is NaN; an empty list of integers has no mean.
void infer_reduce_mean(InferContext& context) {
  const std::vector<bool> reduced = infer_reduced_shape(context);
  for (size_t i = 0; i < reduced.size() && !is_float(context.dtype(0)); ++i) {
    if (!reduced[i]) continue;
    const Dim& size = context.shape(0)[i];
    if (equal(size, 0) == true)
      context.fail("the mean of zero integers is undefined: axis " + std::to_string(i) + " of " +
                   str(context.shape(0)) + " is empty");
    context.require_at_most(1, size);
  }
}

void infer_reduce_sum(InferContext& context) {
  reduce_values(context, infer_reduced_shape(context), std::plus<Dim>());
}
void infer_reduce_prod(InferContext& context) {
  reduce_values(context, infer_reduced_shape(context), std::multiplies<Dim>());
}
void infer_reduce_max(InferContext& context) {
  reduce_values(context, infer_reduced_shape(context),
                [](const Dim& a, const Dim& b) { return max(a, b); });
}
void infer_reduce_min(InferContext& context) {
  reduce_values(context, infer_reduced_shape(context),
                [](const Dim& a, const Dim& b) { return min(a, b); });
}

void infer_arg_reduce(InferContext& context) {
  const auto attrs = context.attrs<ArgReduceAttrs>();
  const size_t axis = context.normalize_axis(attrs.axis, context.rank(0));
  SymShape out = context.shape(0);
  if (out[axis] == Dim(0)) context.fail("axis " + std::to_string(axis) + " is empty");
  context.require_at_most(1, out[axis]);
  if (attrs.keepdims)
    out[axis] = 1;
  else
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(axis));
  context.set_output(0, DType::kI64, std::move(out));
}

void infer_one_axis(InferContext& context) {
  require_float(context, 0);
  context.normalize_axis(context.attrs<AxisAttrs>().axis, std::max<int64_t>(context.rank(0), 1));
  context.set_output(0, context.dtype(0), context.shape(0));
}

// The axis, in input 1, is often known only at run time: a value rule checks it.
void infer_cum_sum(InferContext& context) {
  if (context.rank(0) == 0) context.fail("input 0 is a scalar, which has no axis");
  require_integer(context, 1);
  require_one_element(context, 1);
  infer_same(context);
}

void infer_lp_normalization(InferContext& context) {
  const auto attrs = context.attrs<LpNormAttrs>();
  require_float(context, 0);
  context.normalize_axis(attrs.axis, std::max<int64_t>(context.rank(0), 1));
  require_between(context, "p", attrs.p, 1, 2);
  infer_same(context);
}

namespace {

// k of TopK: of the elements of the axis.
void require_count(InferContext& context, const Dim& k, size_t axis) {
  const Dim size = context.shape(0)[axis];
  if (less_equal(k, size) == false) {
    context.fail("k = " + k.str() + " is more than the " + size.str() + " elements of axis " +
                 std::to_string(axis));
  }
  if (less_equal(k, -1) == true) context.fail("k = " + k.str() + " is negative");
  context.require_at_most(0, k);
  context.require_at_most(k, size);
}

}  // namespace

void infer_top_k(InferContext& context) {
  const size_t axis = context.normalize_axis(context.attrs<TopKAttrs>().axis, context.rank(0));
  require_signed_index(context, 1);
  require_one_element(context, 1);
  SymShape out = context.shape(0);
  if (const auto k = context.values(1)) {
    require_count(context, k->front(), axis);
    out[axis] = k->front();
  } else {
    out[axis] = data_size(context, axis, out[axis]);
  }
  context.set_output(0, context.dtype(0), out);
  context.set_output(1, DType::kI64, std::move(out));
}

}  // namespace vernier::rules
