// BatchNormalization(Conv(x, w, b), scale, bias, mean, var) ⇒ Conv(x, w·a, (b − mean)·a + bias)
//   with a = scale / √(var + ε) per output channel
//   requires: w, b and the four vectors constant f32; the convolution used once; one request that
//   f32 weights satisfy; new weights finite; each channel's shift at most kMaxCancellation times
//   the result. New weights are computed in double and rounded once.
#include <algorithm>
#include <array>
#include <cmath>

#include "ir/derivations.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

// Rounding weights and bias to f32 changes each by about 2.4e-8 of its value (rms). Where they
// cancel, this is relative to the difference: with terms 16 times as large as |scale| + |bias| up
// to 8e-7. A rewrite may change a result by 1e-6 (verify: F against R).
constexpr double kMaxCancellation = 16;

struct Weights {
  Tensor w, bias;
};

bool all_constant_f32(const Graph& graph, const std::vector<ValueId>& values, size_t first) {
  for (size_t i = first; i < values.size(); ++i) {
    const Tensor* t = constant_of(graph, values[i]);
    if (values[i] != kNoValue && (!t || t->dtype() != DType::kF32)) return false;
  }
  return true;
}

bool all_finite(const Tensor& t) {
  for (int64_t i = 0; i < t.elems(); ++i) {
    if (!std::isfinite(t.float_at(i))) return false;
  }
  return true;
}

// The weights of the merged convolution, or nothing if they would lose too much accuracy.
std::optional<Weights> fold_weights(const Graph& graph, const Node& conv, const Node& norm) {
  const Tensor& w = *constant_of(graph, conv.inputs[1]);
  const Tensor* b = conv.has_input(2) ? constant_of(graph, conv.inputs[2]) : nullptr;
  const auto stored = [&](size_t i, int64_t c) {
    return constant_of(graph, norm.inputs[i])->float_at(c);
  };
  const double epsilon = norm.attrs_as<BatchNormAttrs>().epsilon;
  const int64_t channels = w.shape()[0];
  std::vector<double> weights, biases;
  weights.reserve(w.elems());
  for (int64_t c = 0; c < channels; ++c) {
    const double scale = stored(1, c), bias = stored(2, c);
    const double a = scale / std::sqrt(stored(4, c) + epsilon);
    const double shift = ((b ? b->float_at(c) : 0.0) - stored(3, c)) * a;
    // The result of a channel has the deviation |scale| around the mean `bias`.
    if (std::abs(shift) > kMaxCancellation * (std::abs(scale) + std::abs(bias))) return {};
    biases.push_back(shift + bias);
    const int64_t per_channel = w.elems() / channels;
    for (int64_t i = 0; i < per_channel; ++i)
      weights.push_back(w.float_at(c * per_channel + i) * a);
  }
  Weights folded{Tensor::from(DType::kF32, w.shape(), std::span<const double>(weights)),
                 Tensor::from(DType::kF32, {channels}, std::span<const double>(biases))};
  if (!all_finite(folded.w) || !all_finite(folded.bias)) return {};
  return folded;
}

// The same as an expression: in f64, rounded to f32 at the end.
class Expression {
 public:
  Expression(const Graph& graph, const Node& conv, const Node& norm, const Weights& folded)
      : graph_(graph), shape_{folded.bias.elems()} {
    const double epsilon = norm.attrs_as<BatchNormAttrs>().epsilon;
    const DerivationPtr eps = ir::derived_numbers(Tensor::scalar(DType::kF64, epsilon));
    const DerivationPtr deviation =
        of(OpKind::kSqrt, {of(OpKind::kAdd, {wide(norm.inputs[4]), eps})});
    const DerivationPtr a = of(OpKind::kDiv, {wide(norm.inputs[1]), deviation});
    DerivationPtr shift = wide(norm.inputs[3]);
    shift = conv.has_input(2) ? of(OpKind::kSub, {wide(conv.inputs[2]), shift})
                              : of(OpKind::kNeg, {shift});
    bias = narrow(of(OpKind::kAdd, {of(OpKind::kMul, {shift, a}), wide(norm.inputs[2])}));
    const Shape& shape = folded.w.shape();
    Shape column(shape.size(), 1);
    column[0] = shape[0];
    const ShapeAttrs attrs{.shape = {column.begin(), column.end()}, .has_shape = true};
    const DerivationPtr factor =
        a ? ir::derived(DType::kF64, column, OpKind::kReshape, encode(attrs), {a}) : nullptr;
    shape_ = shape;
    w = narrow(of(OpKind::kMul, {wide(conv.inputs[1]), factor}));
  }
  DerivationPtr w, bias;

 private:
  // Null where an operand is unknown.
  DerivationPtr of(OpKind op, std::vector<DerivationPtr> inputs, DType type = DType::kF64,
                   AttrBytes attrs = encode(NoAttrs{})) const {
    if (std::ranges::find(inputs, nullptr) != inputs.end()) return nullptr;
    return ir::derived(type, shape_, op, std::move(attrs), std::move(inputs));
  }
  DerivationPtr wide(ValueId id) const {
    return of(OpKind::kCast, {ir::derivation_of(graph_, id)}, DType::kF64,
              encode(CastAttrs{.to = DType::kF64}));
  }
  DerivationPtr narrow(const DerivationPtr& exact) const {
    return of(OpKind::kCast, {exact}, DType::kF32, encode(CastAttrs{.to = DType::kF32}));
  }
  const Graph& graph_;
  Shape shape_;  // the shape of what is computed
};

// Does an f32 constant satisfy the request?
bool allows_f32(const Request& request) {
  return std::ranges::all_of(std::array{request.compute, request.inner}, [](TypeRequest r) {
    return r.exact ? r.type == DType::kF32
                   : r.type == DType::kUndefined || represents(DType::kF32, r.type);
  });
}

bool fuse(Graph& graph, NodeId id) {
  const Node& norm = graph.node(id);
  if (norm.op != OpKind::kBatchNormalization) return false;
  const Node* conv = producer_of(graph, norm.inputs[0], OpKind::kConv);
  if (!conv || !graph.single_use(norm.inputs[0])) return false;
  if (!all_constant_f32(graph, conv->inputs, 1) || !all_constant_f32(graph, norm.inputs, 1))
    return false;
  const auto request = fused_request(*conv, norm);
  if (!request || !allows_f32(*request)) return false;
  const auto folded = fold_weights(graph, *conv, norm);
  if (!folded) return false;
  OriginSet origins;
  origins.add(graph, conv);
  origins.add(graph, &norm);
  const Expression made(graph, *conv, norm, *folded);
  const ValueId w = graph.add_constant(folded->w), bias = graph.add_constant(folded->bias);
  graph.value(w).derivation = made.w;
  graph.value(bias).derivation = made.bias;
  mutate(graph, id, OpKind::kConv, {conv->inputs[0], w, bias}, conv->attrs);
  graph.node(id).origins = origins.list();
  graph.node(id).request = *request;
  return true;
}

}  // namespace

int fuse_conv_batch_norm(Graph& graph) {
  int found = 0;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (is_live(graph, id)) found += fuse(graph, id);
  }
  return found;
}

}  // namespace vernier::passes
