// What calibration chooses for a site, each by the error at the results of its products on a sample
// of rows: the factors of channels, and a static range. Contract: docs/quantization.md
// "Calibration".
#pragma once
#include <span>
#include <string>
#include <vector>

#include "calibrate/ranges.h"
#include "core/limits.h"
#include "core/tensor.h"

namespace vernier::calibration {

/// A row-major matrix.
struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<float> values;
};

/// The constant operand of a product: [K, N], or [N, K] with trans_w.
struct ProductWeight {
  Tensor values;
  bool trans_w = false;
};

/// Rows of x that were seen, and the largest magnitude of each channel over all of the data.
struct SiteRows {
  Matrix kept;
  std::vector<float> low, high;  ///< by channel
};

struct NamedError {
  std::string name;
  double error = 0;  ///< rms of the difference at the products' results / rms of the results
};

struct SiteChoice {
  std::vector<float> factors;             ///< by channel, powers of two
  std::vector<NamedError> factor_errors;  ///< by exponent; the first is of factors that are all 1
  Range range;                            ///< of x·factor
  std::string range_method;
  std::vector<NamedError> range_errors;  ///< of every candidate
};

/// 2^round(log2(w^(1-a) / x^a)) by channel, relative to the median channel and within 2^±16; x and
/// w are the largest magnitudes of the channel in x and of its row in the weights. a = 0: all 1.
/// A channel that x or the weights never use has factor 1.
std::vector<float> factors_for(std::span<const float> x, std::span<const float> w, double a);

/// x as QuantizeRows takes it and QuantizedLinear reads it: rows rounded to 8 bits, and back.
/// `range`: the range of all rows; null: of each row.
Matrix rounded_rows(const Matrix& x, const Range* range = nullptr);

/// Deterministic. Takes rows · K · N products for each of about 20 candidates.
SiteChoice choose(const SiteRows& x, std::span<const ProductWeight> weights, Method method,
                  const Watch& watch);

}  // namespace vernier::calibration
