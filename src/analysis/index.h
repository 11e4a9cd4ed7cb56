// Integer tensors as affine functions of their position: proves that a comparison of Ranges is a
// causal mask, or that a Gather by position is the identity.
#pragma once
#include <optional>
#include <vector>

#include "analysis/facts.h"

namespace vernier::analysis {

/// value[i0, i1, …] = offset + Σ coefficients[axis] · i_axis, for every position in the shape.
/// Axes of size 1 have coefficient 0.
struct Affine {
  Dim offset;
  std::vector<Dim> coefficients;
};

/// The affine form of an integer tensor computed from Range, arithmetic with sizes, layout changes
/// and broadcasts; empty if it is not provably affine.
std::optional<Affine> affine(const Graph& graph, ValueId value);

/// As above, for a constant.
std::optional<Affine> affine(const Tensor& constant);

/// Proven bounds of the elements, each empty if unknown.
struct Bounds {
  std::optional<Dim> low, high;
};
Bounds bounds(const Graph& graph, ValueId value);

/// True if the tensor counts its own elements in row-major order: 0, 1, 2, …
bool is_row_major_index(const Affine& form, const SymShape& shape);

/// What a bool tensor [..., Sq, Sk] means for query i (second last axis) and key j (last axis).
enum class CausalKind : uint8_t {
  kNotCausal,
  kSeen,    ///< true where j <= i + (Sk - Sq)
  kHidden,  ///< true where j >  i + (Sk - Sq)
};
/// Proves it for comparisons of Ranges, Trilu of uniform tensors, and constant matrices (also cut
/// to the top left square by Slice).
CausalKind causal_kind(const Graph& graph, ValueId value);

}  // namespace vernier::analysis
