// Linear(x, w, b, r){compute int8}  ⇒  QuantizedLinear(q, w / s, x's scales, s, b, r)
//   with (q, x's scales) = QuantizeRows(x), one for all readers of x
//   requires: w constant, at most 2^15 products per sum, and a kernel of the device for it
// s: one scale for each column of w, the one among kClips that rounds the column with the least
// error. w / s is not rounded here: like every constant it is rounded where it is stored.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/threads.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

constexpr float kLargestQ8 = 127;
constexpr int64_t kMostProducts = int64_t{1} << 15;  // of the operator's rule
// Shares of a column's largest weight that its scale may reach: the rest saturates.
constexpr std::array kClips{1.0F, 0.93F, 0.86F, 0.79F, 0.72F};

// A weight seen as columns of n numbers: element k of column c is at data[c·column + k·step].
struct Columns {
  const float* data;
  int64_t count, length, column, step;
};

double error_of(const Columns& w, int64_t c, float scale) {
  const float inverse = 1 / scale;
  double sum = 0;
  for (int64_t k = 0; k < w.length; ++k) {
    const float v = w.data[c * w.column + k * w.step];
    const float q = std::clamp(std::nearbyint(v * inverse), -kLargestQ8, kLargestQ8);
    const double error = static_cast<double>(v) - static_cast<double>(q * scale);
    sum += error * error;
  }
  return sum;
}

float scale_of(const Columns& w, int64_t c) {
  float largest = 0;
  for (int64_t k = 0; k < w.length; ++k)
    largest = std::max(largest, std::abs(w.data[c * w.column + k * w.step]));
  const float widest = largest / kLargestQ8;
  if (!(widest > std::numeric_limits<float>::min()) || !std::isfinite(1 / widest)) return 1;
  float best = widest;
  double least = HUGE_VAL;
  for (const float clip : kClips) {
    const double error = error_of(w, c, widest * clip);
    if (error >= least) continue;
    least = error;
    best = widest * clip;
  }
  return best;
}

struct Weight {
  Tensor values, scales;
};

Weight quantized(const Tensor& w, bool trans_w) {
  const int64_t rows = w.shape()[0], cols = w.shape()[1];
  std::vector<float> values(static_cast<size_t>(w.elems()));
  for (int64_t i = 0; i < w.elems(); ++i)
    values[static_cast<size_t>(i)] = static_cast<float>(w.float_at(i));
  const Columns columns{values.data(), trans_w ? rows : cols, trans_w ? cols : rows,
                        trans_w ? cols : 1, trans_w ? 1 : cols};
  std::vector<float> scales(static_cast<size_t>(columns.count));
  constexpr int64_t kLeastColumns = 64;
  in_parallel(columns.count, kLeastColumns, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const float scale = scale_of(columns, c);
      scales[static_cast<size_t>(c)] = scale;
      for (int64_t k = 0; k < columns.length; ++k)
        values[static_cast<size_t>(c * columns.column + k * columns.step)] /= scale;
    }
  });
  return {Tensor::from_bytes(DType::kF32, w.shape(), std::as_bytes(std::span(values))),
          Tensor::from_bytes(DType::kF32, {columns.count}, std::as_bytes(std::span(scales)))};
}

bool is_finite(const Tensor& t) {
  for (int64_t i = 0; i < t.elems(); ++i)
    if (!std::isfinite(t.float_at(i))) return false;
  return true;
}

class Quantizer {
 public:
  Quantizer(Graph& graph, const Takes& takes) : graph_(graph), takes_(takes) {}

  bool quantize(NodeId id) {
    const Node& linear = graph_.node(id);
    if (linear.op != OpKind::kLinear || linear.request.compute.type != DType::kQ8) return false;
    const Tensor* weight = constant_of(graph_, linear.inputs[1]);
    const auto attrs = linear.attrs_as<LinearAttrs>();
    if (weight == nullptr || weight->rank() != 2 || weight->elems() == 0 ||
        weight->shape()[attrs.trans_w ? 1 : 0] > kMostProducts || !is_finite(*weight))
      return false;
    const Rows rows = rows_of(linear.inputs[0], linear.request);
    Node wanted = linear;
    wanted.op = OpKind::kQuantizedLinear;
    wanted.inputs = {rows.values,
                     linear.inputs[1],
                     rows.scales,
                     scales_like(weight->shape()[attrs.trans_w ? 0 : 1]),
                     kNoValue,
                     kNoValue,
                     linear.has_input(2) ? linear.inputs[2] : kNoValue,
                     linear.has_input(3) ? linear.inputs[3] : kNoValue};
    if (!takes_(graph_, wanted)) return false;
    const Weight& made = weight_of(linear.inputs[1], *weight, attrs.trans_w);
    wanted.inputs[1] = graph_.add_constant(made.values);
    wanted.inputs[3] = graph_.add_constant(made.scales);
    mutate(graph_, id, wanted.op, wanted.inputs, wanted.attrs);
    return true;
  }

 private:
  struct Rows {
    ValueId values, scales;
  };
  Rows rows_of(ValueId x, const Request& request) {
    const auto [at, fresh] = rows_.try_emplace(x);
    if (fresh) {
      const NodeId id = graph_.add_node(OpKind::kQuantizeRows, {x}, encode(QuantizeRowsAttrs{}), 2);
      Node& node = graph_.node(id);
      node.request.compute = {DType::kF32, false};
      node.request.by = request.by;
      ops::infer_node(graph_, id);
      at->second = {graph_.node(id).outputs[0], graph_.node(id).outputs[1]};
    }
    return at->second;
  }
  // Stands for the scales until they are known to be wanted.
  ValueId scales_like(int64_t columns) {
    const auto [at, fresh] = scales_like_.try_emplace(columns);
    if (fresh) {
      const std::vector<double> ones(static_cast<size_t>(columns), 1.0);
      at->second =
          graph_.add_constant(Tensor::from(DType::kF32, {columns}, std::span<const double>(ones)));
    }
    return at->second;
  }
  const Weight& weight_of(ValueId id, const Tensor& weight, bool trans_w) {
    const auto [at, fresh] = weights_.try_emplace({id, trans_w});
    if (fresh) at->second = quantized(weight, trans_w);
    return at->second;
  }

  Graph& graph_;
  const Takes& takes_;
  std::map<ValueId, Rows> rows_;
  std::map<int64_t, ValueId> scales_like_;
  std::map<std::pair<ValueId, bool>, Weight> weights_;
};

}  // namespace

int quantize_linear(Graph& graph, const Takes& takes) {
  int found = 0;
  Quantizer quantizer(graph, takes);
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (is_live(graph, id)) found += quantizer.quantize(id);
  }
  return found;
}

}  // namespace vernier::passes
