// Inference of the operators that make or change shapes: Shape, Size, Reshape, Squeeze, Unsqueeze,
// Flatten, Expand, Transpose, ConstantOfShape, Range, EyeLike. Contract: context.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "rules/checks.h"

namespace vernier::rules {
namespace {

// The shape in an input; empty if only the data says it.
std::optional<SymShape> shape_input(InferContext& context, size_t index) {
  if (!context.has_input(index))
    context.fail("has neither a shape attribute nor input " + std::to_string(index));
  return context.values(index);
}

// As many sizes as the list in an input has, all of which only the data says.
SymShape data_sizes(InferContext& context, size_t index) {
  require_list(context, index);
  SymShape sizes;
  for (size_t axis = 0, rank = list_length(context, index); axis < rank; ++axis)
    sizes.push_back(data_size(context, axis));
  return sizes;
}

// Removes equal sizes from both lists, constants by their greatest common divisor.
void cancel_common(SymShape& a, SymShape& b) {
  int64_t ca = 1, cb = 1;
  const auto take_constants = [](SymShape& sizes, int64_t& constant) {
    for (const Dim& d : sizes) constant *= d.as_constant().value_or(1);
    std::erase_if(sizes, [](const Dim& d) { return d.is_constant(); });
  };
  take_constants(a, ca);
  take_constants(b, cb);
  for (auto it = a.begin(); it != a.end();) {
    const auto twin = std::find(b.begin(), b.end(), *it);
    if (twin == b.end()) {
      ++it;
      continue;
    }
    b.erase(twin);
    it = a.erase(it);
  }
  const int64_t common = std::gcd(ca, cb);
  if (common == 0) return;
  a.push_back(ca / common);
  b.push_back(cb / common);
}

// The size written as −1, from the remaining elements.
Dim remaining_size(InferContext& context, const SymShape& in, const SymShape& out, size_t unknown) {
  SymShape others = out;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(unknown));
  const Dim total = product(in), rest = product(others);
  if (rest == Dim(0)) {
    if (total == Dim(0)) return 0;
    context.fail("shape " + str(in) + " cannot become " + str(out) +
                 ": its sizes besides -1 have no elements");
  }
  if (mod(total, rest).is_constant() && mod(total, rest) != Dim(0))
    context.fail("shape " + str(in) + " is not divisible into " + str(out));
  context.require_equal(mod(total, rest), 0);
  return floordiv(total, rest);
}

SymShape reshape_to(InferContext& context, SymShape out, bool allow_zero) {
  const SymShape& in = context.shape(0);
  std::optional<size_t> unknown;
  const SymShape asked = out;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto size = out[i].as_constant();
    if (size == 0 && !allow_zero) {
      if (i >= in.size())
        context.fail("size 0 at axis " + std::to_string(i) + " copies an axis that input " +
                     str(in) + " does not have");
      out[i] = in[i];
    } else if (size == -1) {
      if (unknown) context.fail("shape " + str(asked) + " has more than one -1");
      unknown = i;
    } else if (size && *size < -1) {
      context.fail("shape " + str(asked) + " has a negative size");
    }
  }
  if (unknown) {
    out[*unknown] = remaining_size(context, in, out, *unknown);
    return out;
  }
  if (equal(product(in), product(out)) == false)
    context.fail("shape " + str(in) + " cannot become " + str(out) + ": the counts " +
                 product(in).str() + " and " + product(out).str() + " differ");
  SymShape a = in, b = out;
  cancel_common(a, b);
  context.unify(product(a), product(b));
  return out;
}

void copy_values(InferContext& context) {
  if (auto values = context.values(0)) context.set_values(0, std::move(*values));
}

// Axes of Squeeze and Unsqueeze: input 1, else the attribute; empty if neither is given.
std::optional<std::vector<int64_t>> axes_of(InferContext& context) {
  if (context.has_input(1)) {
    auto axes = context.integers(1);
    if (!axes) context.fail("the axes in input 1 are not constant");
    return axes;
  }
  const auto attrs = context.attrs<AxesAttrs>();
  if (!attrs.given) return std::nullopt;
  return attrs.axes;
}

// Requested sizes must not be negative.
void require_sizes(InferContext& context, const SymShape& sizes, const char* what) {
  for (const Dim& d : sizes) {
    if (less_equal(d, -1) == true) context.fail(what + (" " + str(sizes)) + " has a negative size");
    context.require_at_most(0, d);
  }
}

// The one number of an input; empty if only the data says it.
std::optional<double> number(InferContext& context, size_t index) {
  require_one_element(context, index);
  const Tensor* tensor = context.constant(index);
  if (tensor == nullptr) return std::nullopt;
  return is_float(tensor->dtype()) ? tensor->float_at(0)
                                   : static_cast<double>(tensor->integer_at(0));
}

std::optional<Dim> single_value(InferContext& context, size_t index) {
  require_one_element(context, index);
  const auto values = context.values(index);
  if (!values) return std::nullopt;
  return values->front();
}

}  // namespace

void infer_shape(InferContext& context) {
  const auto attrs = context.attrs<ShapeOfAttrs>();
  const SymShape& in = context.shape(0);
  const int64_t rank = context.rank(0);
  const auto clamp = [rank](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const int64_t start = clamp(attrs.start), end = std::max(start, clamp(attrs.end));
  SymShape sizes(in.begin() + start, in.begin() + end);
  context.set_output(0, DType::kI64, {end - start});
  context.set_values(0, std::move(sizes));
}

void infer_size(InferContext& context) {
  const Dim count = product(context.shape(0));
  context.set_output(0, DType::kI64, {});
  context.set_values(0, {count});
}

void infer_shape_values(InferContext& context) {
  auto attrs = context.attrs<ShapeValuesAttrs>();
  const auto count = static_cast<int64_t>(attrs.values.size());
  if (!is_integer(attrs.dtype))
    context.fail("sizes are held as " + std::string(name(attrs.dtype)) +
                 ", expected an integer type");
  if (attrs.scalar && count != 1) context.fail("a scalar has " + std::to_string(count) + " values");
  context.set_output(0, attrs.dtype, attrs.scalar ? SymShape{} : SymShape{count});
  context.set_values(0, std::move(attrs.values));
}

void infer_reshape(InferContext& context) {
  auto attrs = context.attrs<ShapeAttrs>();
  const auto asked = attrs.has_shape ? std::move(attrs.shape) : shape_input(context, 1);
  if (!asked) {
    require_list(context, 1);
    const Dim count = product(context.shape(0));
    const size_t rank = list_length(context, 1);
    if (rank == 0) context.require_equal(count, 1);
    SymShape out = rank == 1 ? SymShape{count} : data_sizes(context, 1);
    return context.set_output(0, context.dtype(0), std::move(out));
  }
  // In an attribute 0 is a size.
  SymShape out = reshape_to(context, *asked, attrs.has_shape || attrs.allowzero);
  context.set_output(0, context.dtype(0), std::move(out));
  copy_values(context);
}

void infer_squeeze(InferContext& context) {
  const SymShape in = context.shape(0);
  std::vector<bool> drop(in.size(), false);
  if (const auto axes = axes_of(context)) {
    for (int64_t axis : *axes) {
      const size_t at = context.normalize_axis(axis, context.rank(0));
      drop[at] = true;
      if (equal(in[at], 1) == false)
        context.fail("axis " + std::to_string(axis) + " of " + str(in) + " is not 1");
      context.unify(in[at], 1);
    }
  } else {
    for (size_t i = 0; i < in.size(); ++i) drop[i] = in[i] == Dim(1);
  }
  SymShape out;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!drop[i]) out.push_back(in[i]);
  }
  context.set_output(0, context.dtype(0), std::move(out));
  copy_values(context);
}

void infer_unsqueeze(InferContext& context) {
  const auto axes = axes_of(context);
  if (!axes) context.fail("has no axes");
  const auto rank = context.rank(0) + static_cast<int64_t>(axes->size());
  std::vector<bool> added(static_cast<size_t>(rank), false);
  for (int64_t axis : *axes) {
    const size_t at = context.normalize_axis(axis, rank);
    if (added[at]) context.fail("axis " + std::to_string(axis) + " is given twice");
    added[at] = true;
  }
  SymShape out;
  for (size_t i = 0, next = 0; i < added.size(); ++i)
    out.push_back(added[i] ? Dim(1) : context.shape(0)[next++]);
  context.set_output(0, context.dtype(0), std::move(out));
  copy_values(context);
}

void infer_flatten(InferContext& context) {
  const int64_t rank = context.rank(0);
  const int64_t axis = context.attrs<AxisAttrs>().axis;
  const auto split = static_cast<std::ptrdiff_t>(
      axis == rank
          ? axis
          : static_cast<int64_t>(context.normalize_axis(axis, std::max<int64_t>(rank, 1))));
  const SymShape& in = context.shape(0);
  SymShape out{product(SymShape(in.begin(), in.begin() + split)),
               product(SymShape(in.begin() + split, in.end()))};
  context.set_output(0, context.dtype(0), std::move(out));
  copy_values(context);
}

namespace {

// The result of Expand to a shape that only the data says. Sizes of 2 and more, and of 0, stay.
SymShape expanded_by_data(InferContext& context) {
  require_list(context, 1);
  const SymShape& in = context.shape(0);
  const size_t asked = list_length(context, 1), rank = std::max(in.size(), asked);
  SymShape out;
  for (size_t axis = 0; axis < rank; ++axis) {
    const size_t from_end = rank - axis;
    const Dim own = from_end <= in.size() ? in[in.size() - from_end] : Dim(1);
    const bool stays = from_end > asked || own == Dim(0) || less_equal(2, own) == true;
    out.push_back(stays ? own : data_size(context, axis));
  }
  return out;
}

}  // namespace

void infer_expand(InferContext& context) {
  auto attrs = context.attrs<ShapeAttrs>();
  const auto asked = attrs.has_shape ? std::move(attrs.shape) : shape_input(context, 1);
  if (!asked) return context.set_output(0, context.dtype(0), expanded_by_data(context));
  require_sizes(context, *asked, "cannot expand: shape");
  context.set_output(0, context.dtype(0), broadcast(context, context.shape(0), *asked));
  if (context.has_input(1) && !context.values(1)) return;
  propagate_moved_values(context, std::array<size_t, 1>{0});
}

void infer_transpose(InferContext& context) {
  const auto perm = context.attrs<TransposeAttrs>().perm;
  const SymShape& in = context.shape(0);
  std::vector<bool> seen(in.size(), false);
  SymShape out;
  for (int64_t axis : perm) {
    const size_t at = context.normalize_axis(axis, context.rank(0));
    if (seen[at]) context.fail("perm names axis " + std::to_string(axis) + " twice");
    seen[at] = true;
    out.push_back(in[at]);
  }
  if (perm.size() != in.size()) {
    context.fail("perm has " + std::to_string(perm.size()) + " axes, the input " + str(in) +
                 " has " + std::to_string(in.size()));
  }
  context.set_output(0, context.dtype(0), std::move(out));
  propagate_moved_values(context, std::array<size_t, 1>{0});
}

void infer_constant_of_shape(InferContext& context) {
  auto attrs = context.attrs<ConstantOfShapeAttrs>();
  auto asked = attrs.has_shape ? std::move(attrs.shape) : shape_input(context, 0);
  SymShape out = asked ? std::move(*asked) : data_sizes(context, 0);
  require_sizes(context, out, "shape");
  if (attrs.dtype == DType::kUndefined || size_bytes(attrs.dtype) == 0)
    context.fail("fills a tensor of " + std::string(name(attrs.dtype)) +
                 ", which is not a storage type");
  constexpr double kBeyond = 0x1p63;
  if (!is_float(attrs.dtype) && !(attrs.value >= -kBeyond && attrs.value < kBeyond))
    context.fail("the value " + std::to_string(attrs.value) + " is not a valid " +
                 std::string(name(attrs.dtype)));
  const auto count = product(out).as_constant();
  context.set_output(0, attrs.dtype, std::move(out));
  if (is_float(attrs.dtype) || !count || *count > kMaxSymbolicElems) return;
  const auto fill = static_cast<int64_t>(attrs.value);
  context.set_values(0, std::vector<Dim>(static_cast<size_t>(*count), Dim(fill)));
}

void infer_range(InferContext& context) {
  const DType dtype = context.dtype(0);
  for (size_t i = 0; i < 3; ++i) {
    if (context.dtype(i) != dtype) context.fail("start, limit and delta differ in type");
  }
  if (dtype == DType::kBool) context.fail("start, limit and delta are bool, expected numbers");
  if (is_float(dtype)) {
    const auto start = number(context, 0), limit = number(context, 1), delta = number(context, 2);
    if (delta && *delta == 0) context.fail("delta is 0");
    if (!start || !limit || !delta) return context.set_output(0, dtype, {data_size(context, 0)});
    const double count = std::ceil((*limit - *start) / *delta);
    if (!(count < 9e15)) context.fail("has too many elements");
    context.set_output(0, dtype, {static_cast<int64_t>(std::max(count, 0.0))});
    return;
  }
  const auto start = single_value(context, 0), limit = single_value(context, 1);
  const auto delta = single_value(context, 2);
  const auto step = delta ? delta->as_constant() : std::nullopt;
  if (delta && !step) context.fail("delta is not constant");
  if (step == 0) context.fail("delta is 0");
  if (step == INT64_MIN) context.fail("delta is " + std::to_string(*step));
  if (!start || !limit || !step) return context.set_output(0, dtype, {data_size(context, 0)});
  const Dim span = *step > 0 ? *limit - *start : *start - *limit;
  const int64_t stride = std::abs(*step);
  const Dim count = max(floordiv(span + Dim(stride - 1), stride), 0);
  context.set_output(0, dtype, {count});
  const auto known = count.as_constant();
  if (!known || *known > kMaxSymbolicElems) return;
  std::vector<Dim> values;
  for (int64_t i = 0; i < *known; ++i) values.push_back(*start + Dim(i) * Dim(*step));
  context.set_values(0, std::move(values));
}

void infer_eye_like(InferContext& context) {
  const DType asked = context.attrs<EyeLikeAttrs>().dtype;
  if (context.rank(0) != 2) context.fail("input " + str(context.shape(0)) + " is not a matrix");
  context.set_output(0, asked == DType::kUndefined ? context.dtype(0) : asked, context.shape(0));
}

}  // namespace vernier::rules
