// Matches decomposed normalizations: see norms.h.
#include "passes/norms.h"

namespace vernier::passes {
namespace {

using enum OpKind;

// All forms of `centered` · 1/sqrt(mean(centered²) + epsilon), with `centered` given.
bool divides_by_deviation(const Patterns& p, const Node& anchor, const ValueId& centered,
                          ValueId& mean_square, double& epsilon) {
  // mean(d²) with d·d or Pow(d, 2).
  const auto square = p.either(p.op<kMul>(p.same(centered), p.same(centered)),
                               p.op<kPow>(p.same(centered), p.scalar(2)));
  const auto variance = p.as(mean_square, p.op<kReduceMean>(square));
  const auto stabilized = [&](ValueId v) {
    if (p.op<kAdd>(variance, p.constant(epsilon))(v)) return true;
    epsilon = 0;
    return variance(v);
  };
  const auto deviation = p.either(p.op<kSqrt>(stabilized), p.op<kPow>(stabilized, p.scalar(0.5)));
  const auto inverse =
      p.either(p.either(p.op<kReciprocal>(deviation), p.op<kDiv>(p.scalar(1), deviation)),
               p.op<kPow>(stabilized, p.scalar(-0.5)));
  if (anchor.op == kDiv) return deviation(anchor.inputs[1]);
  return inverse(anchor.inputs[0]) || inverse(anchor.inputs[1]);
}

// The operand of the anchor that is normalized: for Mul, the one that is not the inverse deviation.
ValueId normalized_operand(const Graph& graph, const Node& anchor) {
  if (anchor.op == kDiv) return anchor.inputs[0];
  for (size_t i : {size_t{0}, size_t{1}}) {
    const Node* n = graph.producer(under_casts(graph, anchor.inputs[1 - i]));
    const bool inverse = n && (n->op == kReciprocal || n->op == kDiv || n->op == kPow);
    if (inverse && rank_of(graph, anchor.inputs[i]) > 0) return anchor.inputs[i];
  }
  return kNoValue;
}

// True if the shape of a scale or bias is that of the normalized axes, up to leading ones.
bool fits_axes(const Graph& graph, ValueId value, const SymShape& x, int64_t axis) {
  const SymShape& shape = shape_of(graph, value);
  const auto wanted = static_cast<std::ptrdiff_t>(x.size()) - axis;
  const auto rank = static_cast<std::ptrdiff_t>(shape.size());
  if (rank < wanted || rank > static_cast<std::ptrdiff_t>(x.size())) return false;
  for (std::ptrdiff_t i = 0; i < rank - wanted; ++i) {
    if (!(shape[i] == Dim(1))) return false;
  }
  return std::equal(shape.end() - wanted, shape.end(), x.begin() + axis);
}

// The other operand of the sole user of `out`, if that is an `op` whose other operand fits.
ValueId next_operand(const Graph& graph, OpKind op, const NormMatch& m, ValueId& result) {
  ValueId at = m.out;
  NodeId user = sole_user(graph, at);
  const auto only_widens = [&graph](NodeId id) {
    if (graph.node(id).op != kCast) return false;
    const DType to = graph.node(id).attrs_as<CastAttrs>().to;
    return is_float(to) && !is_small_float(to);
  };
  while (user != ir::kNoNode && only_widens(user)) {
    at = graph.node(user).outputs[0];
    user = sole_user(graph, at);
  }
  if (user == ir::kNoNode || graph.node(user).op != op) return kNoValue;
  const Node& n = graph.node(user);
  const ValueId other = n.inputs[0] == at ? n.inputs[1] : n.inputs[0];
  if (other == at || !fits_axes(graph, other, shape_of(graph, m.x), m.axis)) return kNoValue;
  result = n.outputs[0];
  return other;
}

void take_scale_and_bias(const Graph& graph, NormMatch& m, bool with_bias) {
  ValueId result = kNoValue;
  if (const ValueId scale = next_operand(graph, kMul, m, result); scale != kNoValue) {
    m.scale = scale;
    m.out = result;
  }
  if (!with_bias) return;
  if (const ValueId bias = next_operand(graph, kAdd, m, result); bias != kNoValue) {
    m.bias = bias;
    m.out = result;
  }
}

bool is_anchor(const Node& n) { return n.op == kDiv || n.op == kMul; }

// The first reduced axis, if `value` is the mean of x over its last axes.
std::optional<int64_t> mean_axis(const Graph& graph, ValueId value, ValueId x) {
  const Node* mean = producer_of(graph, under_casts(graph, value), kReduceMean);
  if (!mean || rank_of(graph, mean->inputs[0]) != rank_of(graph, x)) return std::nullopt;
  return reduces_last_axes(graph, *mean);
}

// False for a constant of higher rank than x, which would broadcast the result.
bool keeps_shape(const Graph& graph, const NormMatch& m) {
  return same_shape(shape_of(graph, m.out), shape_of(graph, m.x));
}

// `inverse` is scale / sqrt(mean((x − mean)²) + ε), in either order; sets scale and ε.
bool match_inverse(const Patterns& p, NormMatch& m, ValueId mean, ValueId inverse) {
  const Graph& graph = p.graph();
  const Node* product = producer_of(graph, inverse, kMul);
  if (!product || !fits_axes(graph, m.bias, shape_of(graph, m.x), m.axis)) return false;
  for (size_t i : {size_t{0}, size_t{1}}) {
    m.scale = product->inputs[i];
    if (!fits_axes(graph, m.scale, shape_of(graph, m.x), m.axis)) continue;
    ValueId d = kNoValue, mean_square = kNoValue;
    const auto centered =
        p.either(p.op<kSub>(p.same(m.x), p.same(mean)), p.op<kSub>(p.same(mean), p.same(m.x)));
    const auto square =
        p.either(p.op<kMul>(p.as(d, centered), p.same(d)), p.op<kPow>(centered, p.scalar(2)));
    const auto variance = p.as(mean_square, p.op<kReduceMean>(square));
    const auto deviation = p.op<kSqrt>(p.op<kAdd>(variance, p.constant(m.epsilon)));
    const auto inverted =
        p.either(p.op<kReciprocal>(deviation), p.op<kDiv>(p.scalar(1), deviation));
    if (!inverted(product->inputs[1 - i])) continue;
    if (mean_axis(graph, mean_square, m.x) == m.axis) return true;
  }
  return false;
}

// TensorFlow's batch norm form:  x·i + (bias − mean·i)  with  i = scale / sqrt(var + ε).
std::optional<NormMatch> match_batch_form(const Graph& graph, const Node& add, Trace* trace) {
  const Patterns p(graph, trace);
  for (size_t order : {size_t{0}, size_t{1}}) {
    const Node* shift = producer_of(graph, add.inputs[1 - order], kSub);
    const Node* scaled = producer_of(graph, add.inputs[order], kMul);
    const Node* moved = shift ? producer_of(graph, shift->inputs[1], kMul) : nullptr;
    if (!scaled || !moved) continue;
    for (size_t a : {size_t{0}, size_t{1}}) {
      for (size_t b : {size_t{0}, size_t{1}}) {
        if (scaled->inputs[1 - a] != moved->inputs[1 - b]) continue;
        NormMatch m;
        m.x = scaled->inputs[a];
        const ValueId mean = moved->inputs[b], inverse = moved->inputs[1 - b];
        const Node* reduce = producer_of(graph, mean, kReduceMean);
        const auto axis =
            reduce && reduce->inputs[0] == m.x ? reduces_last_axes(graph, *reduce) : std::nullopt;
        if (!axis) continue;
        m.axis = *axis;
        m.bias = shift->inputs[0];
        m.out = add.outputs[0];
        if (keeps_shape(graph, m) && match_inverse(p, m, mean, inverse)) return m;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<NormMatch> match_layer_norm(const Graph& graph, NodeId anchor, Trace* trace) {
  const Node& n = graph.node(anchor);
  if (n.op == kAdd) return match_batch_form(graph, n, trace);
  if (!is_anchor(n)) return std::nullopt;
  const Patterns p(graph, trace);
  const ValueId centered = normalized_operand(graph, n);
  if (centered == kNoValue) return std::nullopt;
  NormMatch m;
  ValueId mean = kNoValue, mean_square = kNoValue;
  const auto subtract = p.op<kSub>(p.any(m.x), p.as(mean, p.op<kReduceMean>(p.same(m.x))));
  if (!subtract(centered)) return std::nullopt;
  if (!divides_by_deviation(p, n, centered, mean_square, m.epsilon)) return std::nullopt;
  const auto axis = mean_axis(graph, mean, m.x), axis2 = mean_axis(graph, mean_square, m.x);
  if (!axis || axis != axis2) {
    if (trace) trace->miss(100, mean, "a mean over the last axes, kept as size 1");
    return std::nullopt;
  }
  m.axis = *axis;
  m.out = n.outputs[0];
  if (!keeps_shape(graph, m)) return std::nullopt;
  take_scale_and_bias(graph, m, true);
  return m;
}

std::optional<NormMatch> match_rms_norm(const Graph& graph, NodeId anchor, Trace* trace) {
  const Node& n = graph.node(anchor);
  if (!is_anchor(n)) return std::nullopt;
  const Patterns p(graph, trace);
  NormMatch m;
  m.x = normalized_operand(graph, n);
  if (m.x == kNoValue) return std::nullopt;
  ValueId mean_square = kNoValue;
  if (!divides_by_deviation(p, n, m.x, mean_square, m.epsilon)) return std::nullopt;
  const auto axis = mean_axis(graph, mean_square, m.x);
  if (!axis) {
    if (trace) trace->miss(100, mean_square, "a mean over the last axes, kept as size 1");
    return std::nullopt;
  }
  m.axis = *axis;
  m.out = n.outputs[0];
  if (!keeps_shape(graph, m)) return std::nullopt;
  take_scale_and_bias(graph, m, false);
  return m;
}

namespace {

ValueId as_type(Graph& graph, ValueId value, DType dtype, const std::vector<Origin>& origins) {
  if (dtype_of(graph, value) == dtype) return value;
  CastAttrs attrs;
  attrs.to = dtype;
  return ops::emit(graph, kCast, {value}, attrs, origins);
}

// The operand in the type and shape that the composite takes: [axes …].
ValueId parameter(Graph& graph, ValueId value, const NormMatch& m,
                  const std::vector<Origin>& origins) {
  const SymShape& x = shape_of(graph, m.x);
  const SymShape axes(x.begin() + m.axis, x.end());
  const ValueId shaped = emit_reshape(graph, value, axes, origins);
  return as_type(graph, shaped, dtype_of(graph, m.x), origins);
}

ValueId ones(Graph& graph, const NormMatch& m, const std::vector<Origin>& origins) {
  const SymShape& x = shape_of(graph, m.x);
  const ValueId one = add_scalar(graph, dtype_of(graph, m.x), 1);
  return emit_expand(graph, one, SymShape(x.begin() + m.axis, x.end()), origins);
}

}  // namespace

void replace_norm(Graph& graph, OpKind op, const NormMatch& m) {
  OriginSet set;
  const ValueId stop[] = {m.x, m.scale, m.bias};
  collect_origins(graph, m.out, stop, set);
  const std::vector<Origin>& origins = set.list();
  const DType wide = dtype_of(graph, m.out);
  std::vector<ValueId> inputs{
      m.x, m.scale == kNoValue ? ones(graph, m, origins) : parameter(graph, m.scale, m, origins)};
  if (m.bias != kNoValue) inputs.push_back(parameter(graph, m.bias, m, origins));
  NormAttrs attrs;
  attrs.axis = m.axis - rank_of(graph, m.x);
  attrs.epsilon = m.epsilon;
  const ValueId result = ops::emit(graph, op, std::move(inputs), attrs, origins);
  // Exporters compute the statistics of 16-bit tensors in f32, which counts as the model's request.
  if (wide != dtype_of(graph, m.x))
    graph.producer(result)->request = {{wide, false}, {}, {}, "model"};
  graph.replace_uses(m.out, as_type(graph, result, wide, origins));
}

}  // namespace vernier::passes
