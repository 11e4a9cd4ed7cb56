// Wrong rewrites: see rewrite_plants.h.
#include "plants/rewrite_plants.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/attrs.h"
#include "ops/infer.h"

namespace vernier::test {

void take_mask_for_a_prefix(ir::Graph& model) {
  const auto found = std::ranges::find_if(
      model.inputs, [&](ir::ValueId id) { return model.value(id).name == "attention_mask"; });
  VERNIER_ASSERT(found != model.inputs.end(), "a model with an attention mask");
  const ir::ValueId mask = *found;
  std::vector<std::pair<ir::NodeId, size_t>> readers;
  for (const ir::NodeId id : model.order()) {
    const ir::Node& node = model.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] == mask) readers.emplace_back(id, i);
  }
  const auto number = [&](int64_t value) {
    return model.add_constant(
        Tensor::from(DType::kI64, {}, std::span<const int64_t>(&value, size_t{1})));
  };
  const auto emit = [&](OpKind op, std::vector<ir::ValueId> inputs, const auto& attrs) {
    return ops::emit(model, op, std::move(inputs), attrs, {});
  };
  // cumsum(1) − 1 < sum(mask)
  const ir::ValueId zeros = emit(OpKind::kMul, {mask, number(0)}, NoAttrs{});
  const ir::ValueId ones = emit(OpKind::kAdd, {zeros, number(1)}, NoAttrs{});
  const ir::ValueId places =
      emit(OpKind::kCumSum, {ones, number(1)}, CumSumAttrs{.exclusive = true});
  const ir::ValueId length = emit(OpKind::kReduceSum, {mask}, ReduceAttrs{.axes = {1}});
  const ir::ValueId inside = emit(OpKind::kLess, {places, length}, NoAttrs{});
  const ir::ValueId prefix = emit(OpKind::kCast, {inside}, CastAttrs{.to = DType::kI64});
  for (const auto& [node, input] : readers) model.set_input(node, input, prefix);
  model.sort();
}

}  // namespace vernier::test
