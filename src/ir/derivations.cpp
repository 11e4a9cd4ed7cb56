// Derivations of a graph's constants: see derivations.h.
#include "ir/derivations.h"

#include <algorithm>
#include <utility>

#include "core/attrs.h"

namespace vernier::ir {
namespace {

constexpr int64_t kFewNumbers = 64;

DerivationPtr too_deep_or(Derivation made) {
  for (const DerivationPtr& input : made.inputs) {
    if (input) made.depth = std::max(made.depth, input->depth + 1);
  }
  if (made.depth > kMaxDerivationDepth) return nullptr;
  return std::make_shared<const Derivation>(std::move(made));
}

}  // namespace

DerivationPtr derivation_of(const Graph& graph, ValueId id) {
  const Value& v = graph.value(id);
  if (v.derivation || !v.is_constant()) return v.derivation;
  const Tensor& t = v.constant;
  Derivation numbers;
  numbers.dtype = t.dtype();
  numbers.shape = t.shape();
  if (t.elems() > 1 && v.uniform && t.dtype() != DType::kUndefined)
    numbers.numbers =
        Tensor::from_bytes(t.dtype(), {1}, t.byte_span().first(size_bytes(t.dtype())));
  else if (t.elems() <= kFewNumbers)
    numbers.numbers = t;
  else
    return nullptr;
  return std::make_shared<const Derivation>(std::move(numbers));
}

DerivationPtr derived(DType dtype, Shape shape, OpKind op, AttrBytes attrs,
                      std::vector<DerivationPtr> inputs, size_t output) {
  Derivation made;
  made.op = op;
  made.attrs = std::move(attrs);
  made.output = output;
  made.inputs = std::move(inputs);
  made.dtype = dtype;
  made.shape = std::move(shape);
  return too_deep_or(std::move(made));
}

DerivationPtr derived(const Graph& graph, const Tensor& made, OpKind op, AttrBytes attrs,
                      std::span<const ValueId> inputs, size_t output) {
  std::vector<DerivationPtr> others;
  for (const ValueId in : inputs) {
    others.push_back(in == kNoValue ? nullptr : derivation_of(graph, in));
    if (in != kNoValue && !others.back()) return nullptr;
  }
  return derived(made.dtype(), made.shape(), op, std::move(attrs), std::move(others), output);
}

DerivationPtr derived_numbers(Tensor numbers) {
  Derivation made;
  made.dtype = numbers.dtype();
  made.shape = numbers.shape();
  made.numbers = std::move(numbers);
  return std::make_shared<const Derivation>(std::move(made));
}

ValueId add_reshaped_constant(Graph& graph, ValueId from, Shape shape) {
  const Tensor reshaped = graph.value(from).constant.reshaped(std::move(shape));
  ShapeAttrs attrs{.shape = {reshaped.shape().begin(), reshaped.shape().end()}, .has_shape = true};
  DerivationPtr how =
      derived(graph, reshaped, OpKind::kReshape, encode(attrs), std::span(&from, 1));
  const DType type = graph.value(from).dtype;
  const ValueId id = graph.add_constant(reshaped);
  graph.value(id).dtype = type;  // its contents may be held wider
  graph.value(id).derivation = std::move(how);
  return id;
}

void mark_constants_of_the_model(Graph& graph) {
  for (size_t i = 0; i < graph.num_values(); ++i) {
    Value& v = graph.value(static_cast<ValueId>(i));
    if (!v.is_constant() || v.name.empty()) continue;
    Derivation own;
    own.name = v.name;
    own.dtype = v.constant.dtype();
    own.shape = v.constant.shape();
    v.derivation = std::make_shared<const Derivation>(std::move(own));
  }
}

}  // namespace vernier::ir
