// Inference of the operators that select by value, so that the data says how many: Compress,
// Unique, NonMaxSuppression. Contract: context.h.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/evaluator.h"
#include "rules/checks.h"

namespace vernier::rules {
namespace {

// Work up to which results are computed to count them while a model is built: rules run often.
constexpr double kMostCountedWork = 0x1p16;

// The shape of output 0 where all inputs are constants: what the evaluator makes of them.
std::optional<Shape> counted_shape(InferContext& context, DType dtype, double work) {
  if (!context.at_run() && !(work <= kMostCountedWork)) return std::nullopt;
  std::vector<EvalTensor> inputs(context.num_inputs());
  std::vector<const EvalTensor*> in(inputs.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!context.has_input(i)) continue;
    const Tensor* constant = context.constant(i);
    if (constant == nullptr) return std::nullopt;
    inputs[i] = EvalTensor::from(*constant);
    in[i] = &inputs[i];
  }
  std::vector<EvalTensor> out(context.num_outputs());
  out[0].dtype = dtype;
  with_node(context, [&] { evaluator(context.op())({context.attr_bytes(), in, out, Rounding{}}); });
  return out[0].shape;
}

// Elements of a shape as a number; a size that is not known counts 1.
double elems_of(const SymShape& shape) {
  double elems = 1;
  for (const Dim& d : shape) elems *= static_cast<double>(d.as_constant().value_or(1));
  return elems;
}

// The size along `axis`, or of all elements.
Dim whole_size(InferContext& context, bool flat, int64_t axis) {
  if (flat) return product(context.shape(0));
  return context.shape(0)[context.normalize_axis(axis, context.rank(0))];
}

// The shape of input 0 with `count` along `axis`, or a list.
SymShape with_count(InferContext& context, bool flat, int64_t axis, const Dim& count) {
  if (flat) return {count};
  SymShape out = context.shape(0);
  out[context.normalize_axis(axis, context.rank(0))] = count;
  return out;
}

}  // namespace

void infer_compress(InferContext& context) {
  const auto attrs = context.attrs<CompressAttrs>();
  if (context.dtype(1) != DType::kBool || context.rank(1) != 1) {
    context.fail("the condition is " + std::string(name(context.dtype(1))) + str(context.shape(1)) +
                 ", expected a list of bool");
  }
  const Dim size = whole_size(context, attrs.flat, attrs.axis), length = context.shape(1)[0];
  if (less_equal(length, size) == false) {
    context.fail("the condition has " + length.str() + " elements, but there are " + size.str() +
                 " to select from");
  }
  context.require_at_most(length, size);
  std::optional<Dim> count;
  if (const Tensor* condition = context.constant(1)) {
    int64_t selected = 0;
    for (int64_t i = 0; i < condition->elems(); ++i) selected += condition->integer_at(i) != 0;
    count = selected;
  } else if (const auto known = context.integers(1)) {
    count = std::ranges::count_if(*known, [](int64_t wanted) { return wanted != 0; });
  }
  if (!count) count = context.fresh_size("Compress", length);
  context.set_output(0, context.dtype(0), with_count(context, attrs.flat, attrs.axis, *count));
  propagate_moved_values(context, std::array<size_t, 1>{0});
}

void infer_unique(InferContext& context) {
  const auto attrs = context.attrs<UniqueAttrs>();
  const Dim size = whole_size(context, attrs.flat, attrs.axis);
  std::optional<Dim> count;
  if (const auto shape = counted_shape(context, context.dtype(0), elems_of(context.shape(0)))) {
    const size_t axis = attrs.flat ? 0 : context.normalize_axis(attrs.axis, context.rank(0));
    count = shape->at(axis);
  }
  if (!count) count = context.fresh_size("Unique", size);
  context.set_output(0, context.dtype(0), with_count(context, attrs.flat, attrs.axis, *count));
  context.set_output(1, DType::kI64, {*count});
  context.set_output(2, DType::kI64, {size});
  context.set_output(3, DType::kI64, {*count});
}

// Elements are sorted: about log2(n) comparisons for each.
Cost cost_unique(const CostCall& call) {
  const auto elems = static_cast<double>(num_elems(call.in[0]));
  return {elems * (1 + std::log2(std::max(elems, 1.0))), tensor_bytes(call)};
}

// Boxes [N, S, 4] and scores [N, C, S] give triples (image, class, box).
void infer_non_max_suppression(InferContext& context) {
  require_float(context, 0);
  require_float(context, 1);
  require_rank(context, 0, 3);
  require_rank(context, 1, 3);
  const SymShape boxes = context.shape(0), scores = context.shape(1);
  context.unify(boxes[0], scores[0]);
  context.unify(boxes[1], scores[2]);
  context.unify(boxes[2], 4);
  require_signed_index(context, 2);
  for (size_t i = 2; i <= 4; ++i) {
    if (!context.has_input(i)) continue;
    if (i > 2) require_float(context, i);
    require_one_element(context, i);
  }
  Dim most = context.has_input(2) ? boxes[1] : Dim(0);  // of a class in an image
  if (context.has_input(2)) {
    const auto asked = context.values(2);
    if (asked) most = min(max(asked->front(), 0), most);
  }
  const Dim upper = scores[0] * scores[1] * most;
  std::optional<Dim> count;
  if (upper == Dim(0)) count = 0;
  const double work = elems_of(scores) * elems_of({boxes[1]});
  if (!count) {
    if (const auto shape = counted_shape(context, DType::kI64, work)) count = shape->at(0);
  }
  if (!count) count = context.fresh_size("NonMaxSuppression", upper);
  context.set_output(0, DType::kI64, {*count, 3});
}

// The scores of each class are sorted; each selected box is compared with at most all others.
Cost cost_non_max_suppression(const CostCall& call) {
  constexpr double kComparison = 16;
  const auto scores = static_cast<double>(num_elems(call.in[1]));
  const auto boxes = static_cast<double>(call.in[0][1]);
  const auto selected = call.out[0].empty() ? 0.0 : static_cast<double>(call.out[0][0]);
  return {scores * (1 + std::log2(std::max(boxes, 1.0))) + kComparison * selected * boxes,
          tensor_bytes(call)};
}

}  // namespace vernier::rules
