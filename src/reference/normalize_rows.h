// Row normalization in FP64, shared by LayerNorm, RMSNorm, AddLayerNorm, LinearAddLayerNorm,
// GroupNormalization and EmbedNorm. Mean and variance are two passes in double.
#pragma once
#include <span>

#include "core/evaluator.h"

namespace vernier::reference {

/// The operator's rounding points for the row's statistics and its normalized values.
struct NormPoints {
  size_t x, mean, var, normalized, out;
};
inline constexpr NormPoints kNormIndex{0, 1, 2, 3, 4};
inline constexpr NormPoints kAddNormIndex{1, 2, 3, 4, 5};     // x is the sum
inline constexpr NormPoints kLinearNormIndex{3, 4, 5, 6, 7};  // and here

struct RowStatistics {
  double mean, inv_std;
};
/// row = (row − mean)/√(var + epsilon), with x, mean, var and normalised rounded at their points,
/// sums with the accumulator, and everything between them an inner result; var is the
/// biased variance. An empty row has NaN statistics.
RowStatistics normalize_row(std::span<double> row, double epsilon, const Rounding& rounding,
                            const NormPoints& points);

/// normalize_row() of every row of output 0, of `columns` elements each. Their statistics go to
/// `mean` and `inv_std`, which may be null.
void normalize_rows(const EvalCall& call, size_t columns, double epsilon, const NormPoints& points,
                    EvalTensor* mean = nullptr, EvalTensor* inv_std = nullptr);

/// Output 0 = round(output 0·scale + bias) at point `out`; scale and bias broadcast to it, bias may
/// be null. The product is an inner result.
void scale_and_shift(const EvalCall& call, const EvalTensor& scale, const EvalTensor* bias,
                     size_t out_point);

}  // namespace vernier::reference
