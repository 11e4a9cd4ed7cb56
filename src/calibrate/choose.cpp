// Choices of calibration: see choose.h.
#include "calibrate/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/threads.h"
#include "passes/quantize.h"

namespace vernier::calibration {
namespace {

constexpr std::array kExponents{0.0, 0.15, 0.3, 0.5, 0.7, 0.85};
constexpr int kMostFactor = 16;  // as files take it (compile/scales.h)
constexpr int64_t kRowsOfErrors =
    256;  // of the sample: the errors of so many rows agree to percents
constexpr float kLargestQ8 = 127;

// y = x·w, rows in parallel.
Matrix multiplied(const Matrix& x, const Matrix& w) {
  Matrix y{x.rows, w.cols, std::vector<float>(static_cast<size_t>(x.rows * w.cols))};
  constexpr int64_t kBlock = 4;
  in_parallel((x.rows + kBlock - 1) / kBlock, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r0 = begin * kBlock; r0 < std::min(end * kBlock, x.rows); r0 += kBlock) {
      for (int64_t k = 0; k < w.rows; ++k) {
        const float* line = w.values.data() + k * w.cols;
        for (int64_t r = r0; r < std::min(r0 + kBlock, x.rows); ++r) {
          const float factor = x.values[r * x.cols + k];
          float* out = y.values.data() + r * w.cols;
          for (int64_t n = 0; n < w.cols; ++n) out[n] += factor * line[n];
        }
      }
    }
  });
  return y;
}

// The weight in f32 as [K, N]; rounded as a build rounds it, where `rounding` says so.
Matrix matrix_of(const ProductWeight& weight, const Tensor& values, const Tensor* scales) {
  const int64_t rows = values.shape()[0], cols = values.shape()[1];
  const bool trans = weight.trans_w;
  Matrix w{trans ? cols : rows, trans ? rows : cols, {}};
  w.values.resize(rows * cols);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      const int64_t k = trans ? j : i, n = trans ? i : j;
      const double value = values.float_at(i * cols + j);
      w.values[k * w.cols + n] =
          static_cast<float>(scales == nullptr ? value : value * scales->float_at(n));
    }
  }
  return w;
}

Matrix rounded_weight(const ProductWeight& weight, std::span<const float> factors) {
  const passes::QuantizedWeight made = passes::quantized_weight(
      weight.values, {.trans_w = weight.trans_w, .exact = false, .factors = factors});
  return matrix_of(weight, made.values, &made.scales);
}

Matrix times(const Matrix& x, std::span<const float> factors) {
  Matrix scaled = x;
  for (size_t i = 0; i < scaled.values.size(); ++i)
    scaled.values[i] *= factors[i % static_cast<size_t>(x.cols)];
  return scaled;
}

double squares(std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return sum;
}

// The products of a site on its sample, and how far rounded operands are from them.
class Products {
 public:
  Products(Matrix x, std::span<const ProductWeight> weights) : x_(std::move(x)) {
    for (const ProductWeight& weight : weights) {
      exact_.push_back(multiplied(x_, matrix_of(weight, weight.values, nullptr)));
      power_ += squares(exact_.back().values);
    }
  }
  const Matrix& x() const { return x_; }
  double error(const Matrix& x, std::span<const Matrix> weights) const {
    double sum = 0;
    for (size_t p = 0; p < weights.size(); ++p) {
      Matrix y = multiplied(x, weights[p]);
      for (size_t i = 0; i < y.values.size(); ++i) y.values[i] -= exact_[p].values[i];
      sum += squares(y.values);
    }
    return power_ > 0 ? std::sqrt(sum / power_) : 0;
  }

 private:
  Matrix x_;
  std::vector<Matrix> exact_;
  double power_ = 0;
};

std::vector<float> largest_rows(std::span<const ProductWeight> weights, int64_t channels) {
  std::vector<float> largest(static_cast<size_t>(channels));
  for (const ProductWeight& weight : weights) {
    const int64_t cols = weight.values.shape()[1];
    for (int64_t i = 0; i < weight.values.elems(); ++i) {
      float& own = largest[weight.trans_w ? i % cols : i / cols];
      own = std::max(own, std::abs(static_cast<float>(weight.values.float_at(i))));
    }
  }
  return largest;
}

std::vector<float> largest_channels(const SiteRows& x) {
  std::vector<float> largest(x.low.size());
  for (size_t k = 0; k < largest.size(); ++k)
    largest[k] = std::max(std::abs(x.low[k]), std::abs(x.high[k]));
  return largest;
}

Matrix first_rows(const Matrix& x, int64_t most) {
  const int64_t rows = std::min(x.rows, most);
  return {rows, x.cols, {x.values.begin(), x.values.begin() + rows * x.cols}};
}

// Of the weights, rounded for the factors with the least error; ties keep the earlier ones.
std::vector<Matrix> choose_factors(const SiteRows& x, std::span<const ProductWeight> weights,
                                   const Products& products, const Watch& watch,
                                   SiteChoice& choice) {
  const std::vector<float> largest_x = largest_channels(x),
                           largest_w = largest_rows(weights, x.kept.cols);
  std::vector<Matrix> best;
  double least = HUGE_VAL;
  for (const double a : kExponents) {
    watch.check_time("choosing factors");
    const std::vector<float> factors = factors_for(largest_x, largest_w, a);
    std::vector<Matrix> rounded;
    for (const ProductWeight& weight : weights) rounded.push_back(rounded_weight(weight, factors));
    const double error = products.error(rounded_rows(times(products.x(), factors)), rounded);
    choice.factor_errors.push_back({fmt::format("{:g}", a), error});
    if (!(error < least)) continue;
    least = error;
    best = std::move(rounded);
    choice.factors = factors;
  }
  return best;
}

struct Candidate {
  std::string name;
  Method method;
  Range range;
};

std::vector<Candidate> ranges_of(const SiteRows& x, std::span<const float> factors,
                                 const Matrix& scaled) {
  Range all;
  for (size_t k = 0; k < x.low.size(); ++k) {
    all.low = std::min(all.low, x.low[k] * factors[k]);
    all.high = std::max(all.high, x.high[k] * factors[k]);
  }
  std::vector<Candidate> ranges{{"max", Method::kMax, all}};
  for (const double share : {0.9999, 0.999, 0.995})
    ranges.push_back({fmt::format("percentile {:g}", 100 * share), Method::kPercentile,
                      percentile_range(scaled.values, share)});
  ranges.push_back({"mse", Method::kMse, mse_range(scaled.values)});
  ranges.push_back({"entropy", Method::kEntropy, entropy_range(scaled.values)});
  return ranges;
}

}  // namespace

std::vector<float> factors_for(std::span<const float> x, std::span<const float> w, double a) {
  std::vector<float> factors(x.size(), 1);
  if (a == 0) return factors;
  const auto used = [&](size_t k) { return x[k] > 0 && w[k] > 0; };
  std::vector<double> wanted, sorted;
  for (size_t k = 0; k < x.size(); ++k) {
    wanted.push_back(used(k) ? (1 - a) * std::log2(w[k]) - a * std::log2(x[k]) : 0);
    if (used(k)) sorted.push_back(wanted.back());
  }
  if (sorted.empty()) return factors;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  for (size_t k = 0; k < x.size(); ++k) {
    if (!used(k)) continue;
    const double exponent =
        std::clamp<double>(std::nearbyint(wanted[k] - *middle), -kMostFactor, kMostFactor);
    factors[k] = static_cast<float>(std::exp2(exponent));
  }
  return factors;
}

Matrix rounded_rows(const Matrix& x, const Range* range) {
  Matrix rounded = x;
  const auto cols = static_cast<size_t>(x.cols);
  for (size_t begin = 0; begin + cols <= x.values.size() && cols > 0; begin += cols) {
    const auto row = std::span(rounded.values).subspan(begin, cols);
    float low = 0, high = 0;
    for (const float v : row) {
      low = std::min(low, v);
      high = std::max(high, v);
    }
    if (range != nullptr) {
      low = range->low;
      high = range->high;
    }
    const double middle = (double{low} + high) / 2, scale = (double{high} - low) / (2 * kLargestQ8);
    for (float& v : row) {
      const double q = scale > 0 ? std::nearbyint((v - middle) / scale) : 0;
      v = static_cast<float>(std::clamp<double>(q, -kLargestQ8, kLargestQ8) * scale +
                             (scale > 0 ? middle : 0));
    }
  }
  return rounded;
}

SiteChoice choose(const SiteRows& x, std::span<const ProductWeight> weights, Method method,
                  const Watch& watch) {
  SiteChoice choice;
  const Products products(first_rows(x.kept, kRowsOfErrors), weights);
  const std::vector<Matrix> rounded = choose_factors(x, weights, products, watch, choice);
  const Matrix scaled = times(products.x(), choice.factors);
  double least = HUGE_VAL;
  for (const Candidate& candidate : ranges_of(x, choice.factors, scaled)) {
    watch.check_time("choosing static ranges");
    const double error = products.error(rounded_rows(scaled, &candidate.range), rounded);
    choice.range_errors.push_back({candidate.name, error});
    if ((method != Method::kOutputError && method != candidate.method) || !(error < least))
      continue;
    least = error;
    choice.range = candidate.range;
    choice.range_method = candidate.name;
  }
  return choice;
}

}  // namespace vernier::calibration
