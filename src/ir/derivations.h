// What passes record of the constants that they make: core/derivation.h. Contract:
// docs/adding_a_pass.md.
#pragma once
#include <span>

#include "core/derivation.h"
#include "ir/graph.h"

namespace vernier::ir {

/// How the constant `id` was made: what is recorded, else its numbers where they are few or all the
/// same. Null: nothing is known of it.
DerivationPtr derivation_of(const Graph& graph, ValueId id);

/// Output `output` of an operator on others, which gave `made`. Null where one of the others is
/// unknown (ids of the first form: of constants, or kNoValue), or too deep.
DerivationPtr derived(const Graph& graph, const Tensor& made, OpKind op, AttrBytes attrs,
                      std::span<const ValueId> inputs, size_t output = 0);
DerivationPtr derived(DType dtype, Shape shape, OpKind op, AttrBytes attrs,
                      std::vector<DerivationPtr> inputs, size_t output = 0);
/// Numbers that a pass chose.
DerivationPtr derived_numbers(Tensor numbers);

/// Adds a constant that is `from` in another shape.
ValueId add_reshaped_constant(Graph& graph, ValueId from, Shape shape);

/// The constants of an imported graph are the model's own from here on, by their names.
void mark_constants_of_the_model(Graph& graph);

}  // namespace vernier::ir
