// Evaluates one operator: see eval_node.h.
#include "ops/eval_node.h"

#include "core/op_attrs.h"
#include "ir/graph.h"
#include "ops/infer.h"

namespace vernier::test {

EvalTensor eval_node(OpKind op, const std::string& attrs, std::vector<EvalTensor> inputs,
                     const Rounding& rounding) {
  ir::Graph graph;
  std::vector<ir::ValueId> ids;
  std::vector<const EvalTensor*> in;
  for (const EvalTensor& t : inputs) {
    const bool absent = t.dtype == DType::kUndefined;
    ids.push_back(absent ? ir::kNoValue : graph.add_constant(t.to_tensor()));
    in.push_back(absent ? nullptr : &t);
  }
  const ir::NodeId id = graph.add_node(op, ids, parse_attrs(op, attrs));
  ops::infer_node(graph, id);
  const ir::Value& value = graph.value(graph.node(id).outputs[0]);
  Shape shape;
  for (const Dim& d : value.shape) shape.push_back(d.constant());
  EvalTensor out(value.dtype, shape);
  evaluator(op)({graph.node(id).attrs, in, std::span(&out, 1), rounding});
  return out;
}

EvalTensor tensor(Shape shape, std::vector<double> values) {
  EvalTensor t(DType::kF64, std::move(shape));
  VERNIER_ASSERT(t.f.size() == values.size());
  t.f = std::move(values);
  return t;
}

EvalTensor random_tensor(Shape shape, uint64_t seed) {
  EvalTensor t(DType::kF64, std::move(shape));
  uint64_t state = seed * 2 + 1;
  for (double& v : t.f) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    v = static_cast<double>(static_cast<int64_t>(state) >> 11) * 0x1p-52;
  }
  return t;
}

EvalTensor integers(DType dtype, Shape shape, std::vector<int64_t> values) {
  EvalTensor t(dtype, std::move(shape));
  VERNIER_ASSERT(t.i.size() == values.size());
  t.i = std::move(values);
  return t;
}

}  // namespace vernier::test
