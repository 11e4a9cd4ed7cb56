// Metrics: see metrics.h.
#include "verify/metrics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/dtype.h"
#include "core/tasks.h"
#include "evaluate/rows.h"

namespace vernier::verify {

using namespace evaluate;  // NOLINT(google-build-using-namespace): its words are ours
namespace {

constexpr double kEqualSnr = 400;  // dB: more than any two different doubles have

// Row along `axis` of element `i` of a row-major array.
class RowOf {
 public:
  RowOf(const Shape& shape, int axis) {
    for (size_t d = 0; axis >= 0 && d < shape.size(); ++d) {
      if (static_cast<int>(d) == axis) size_ = std::max<int64_t>(shape[d], 1);
      if (static_cast<int>(d) > axis) inner_ *= std::max<int64_t>(shape[d], 1);
    }
  }
  int64_t operator()(int64_t i) const { return i / inner_ % size_; }

 private:
  int64_t size_ = 1, inner_ = 1;
};

double percentile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  const auto at = static_cast<size_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

// Pearson's correlation of the ranks (no ties in practice; equal scores keep their order).
double rank_correlation(const std::vector<size_t>& a, const std::vector<size_t>& b) {
  const auto n = static_cast<double>(a.size());
  if (a.size() < 2) return 1;
  std::vector<double> rank(a.size());
  for (size_t i = 0; i < a.size(); ++i) rank[a[i]] = static_cast<double>(i);
  double squares = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double d = rank[b[i]] - static_cast<double>(i);
    squares += d * d;
  }
  return 1 - 6 * squares / (n * (n * n - 1));
}

// Of a score, by its key.
struct Place {
  uint64_t key;
  uint32_t index;
  bool operator<(const Place& other) const {
    return key < other.key || (key == other.key && index < other.index);
  }
};

// Sorts what is nearly in order; false, all still there: it is not.
bool sort_by_insertion(std::vector<Place>& places) {
  size_t moves = 0;
  const size_t most = 4 * places.size();
  for (size_t i = 1; i < places.size(); ++i) {
    const Place place = places[i];
    size_t at = i;
    for (; at > 0 && place < places[at - 1]; --at) places[at] = places[at - 1];
    places[at] = place;
    moves += i - at;
    if (moves > most) return false;
  }
  return true;
}

}  // namespace

// By keys whose order as whole numbers is that of the scores, the best first; equal scores keep
// their order, NaN comes before all numbers.
std::vector<size_t> best_first(const std::vector<double>& scores, std::span<const size_t> guess) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  std::vector<Place> places(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    const size_t index = guess.empty() ? i : guess[i];
    const double given = scores[index];
    const double score = std::isnan(given) ? std::abs(given) : given + 0.0;  // -0 is 0
    const uint64_t bits = std::bit_cast<uint64_t>(score);
    places[i] = {(bits & kSign) != 0 ? bits : ~(bits | kSign), static_cast<uint32_t>(index)};
  }
  if (guess.empty() || !sort_by_insertion(places)) std::sort(places.begin(), places.end());
  std::vector<size_t> order(scores.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = places[i].index;
  return order;
}

bool same_non_finite(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (std::isinf(a) && a == b);
}

UnitInLastPlace::UnitInLastPlace(DType dtype) {
  int mantissa = 23, least = -126;
  if (dtype == DType::kF64) {
    mantissa = 52;
    least = -1022;
  }
  if (dtype == DType::kF16) {
    mantissa = 10;
    least = -14;
  }
  if (dtype == DType::kBF16) mantissa = 7;
  if (dtype == DType::kTF32) mantissa = 10;
  if (dtype == DType::kF8E4M3) {
    mantissa = 3;
    least = -6;
  }
  if (dtype == DType::kF8E5M2) {
    mantissa = 2;
    least = -14;
  }
  if (dtype == DType::kF8E4M3FNUZ) {
    mantissa = 3;
    least = -7;
  }
  if (dtype == DType::kF8E5M2FNUZ) {
    mantissa = 2;
    least = -15;
  }
  if (dtype == DType::kF4E2M1) {
    mantissa = 1;
    least = 0;
  }
  if (dtype == DType::kF8E8M0) {
    mantissa = 0;
    least = -127;
  }
  const bool counts = dtype == DType::kQ8 || dtype == DType::kQ4;  // in units of 1
  if (counts) mask_ = mantissa = least = 0;
  least_ = std::bit_cast<int64_t>(std::ldexp(1.0, least));
  unit_ = std::ldexp(1.0, -mantissa);
}

double ulp(DType dtype, double value) { return UnitInLastPlace(dtype).at(value); }

Distance distance(const EvalTensor& got, const EvalTensor& want, int row_axis) {
  Distance d;
  d.elems = want.elems();
  const RowOf row(want.shape, row_axis);
  if (!want.is_float()) {
    for (size_t i = 0; i < want.i.size(); ++i) {
      if (got.i[i] == want.i[i]) continue;
      if (d.different_integers++ == 0) d.worst_row = row(static_cast<int64_t>(i));
    }
    return d;
  }
  double squares = 0, squares_want = 0, squares_got = 0, products = 0;
  std::vector<double> errors;
  errors.reserve(want.f.size());
  VERNIER_ASSERT(got.f.size() == want.f.size(), "arrays of two sizes have no distance");
  const double *all_got = got.f.data(), *all_want = want.f.data();
  const UnitInLastPlace unit(got.dtype);
  for (int64_t i = 0; i < d.elems; ++i) {
    const double g = all_got[i], w = all_want[i];
    if (!std::isfinite(g) || !std::isfinite(w)) {
      if (same_non_finite(g, w)) continue;
      if (d.wrong_non_finite++ == 0) d.worst_row = row(i);
      continue;
    }
    const double error = std::abs(g - w);
    errors.push_back(error);
    squares += error * error;
    squares_want += w * w;
    squares_got += g * g;
    products += g * w;
    d.mean_abs += error;
    d.max_abs = std::max(d.max_abs, error);
    if (w != 0) d.max_rel = std::max(d.max_rel, error / std::abs(w));
    d.max_ulp = std::max(d.max_ulp, error / unit.at(w));
    if (const double relative = error / (1 + std::abs(w)); relative > d.worst) {
      d.worst = relative;
      d.worst_index = i;
      if (d.wrong_non_finite == 0) d.worst_row = row(i);
    }
  }
  if (errors.empty()) return d;
  const auto finite = static_cast<double>(errors.size());
  d.mean_abs /= finite;
  d.p99_abs = percentile(std::move(errors), 0.99);
  d.rms = std::sqrt(squares / finite);
  d.rms_reference = std::sqrt(squares_want / finite);
  const double norms = std::sqrt(squares_want) * std::sqrt(squares_got);
  d.cosine = norms > 0 ? products / norms : (squares == 0 ? 1.0 : 0.0);
  d.snr_db = squares == 0 ? kEqualSnr
                          : std::min(kEqualSnr, 10 * std::log10(squares_want / squares + 1e-300));
  return d;
}

Ranking ranking(const std::vector<double>& got, const std::vector<double>& want) {
  constexpr size_t kTop = 5;
  const std::vector<size_t> w = best_first(want), g = best_first(got, w);
  Ranking r;
  r.top1_changed = g[0] != w[0];
  if (want.size() > 1) r.top1_margin = want[w[0]] - want[w[1]];
  const size_t top = std::min(kTop, w.size());
  for (size_t i = 0; i < top; ++i)
    r.top5_changed += std::find(g.begin(), g.begin() + static_cast<std::ptrdiff_t>(top), w[i]) ==
                      g.begin() + static_cast<std::ptrdiff_t>(top);
  r.correlation = rank_correlation(g, w);
  return r;
}

std::vector<RowMetrics> row_metrics(const EvalTensor& got, const EvalTensor& want, int axis) {
  const int64_t rows = axis < 0 ? 1 : want.shape[axis];
  const bool ranked = want.is_float() && want.rank() > 0 &&
                      axis != static_cast<int>(want.rank()) - 1 && want.shape.back() > 1;
  std::vector<RowMetrics> metrics(static_cast<size_t>(rows));
  for_each_task(rows, [&](int64_t r) {
    const EvalTensor g = take_row(got, axis, r), w = take_row(want, axis, r);
    RowMetrics& m = metrics[r];
    m.row = r;
    m.distance = distance(g, w, kNoAxis);
    const auto cols = ranked ? static_cast<size_t>(w.shape.back()) : 0;
    for (size_t at = 0; ranked && at + cols <= w.f.size(); at += cols) {
      const auto begin = static_cast<std::ptrdiff_t>(at),
                 end = static_cast<std::ptrdiff_t>(at + cols);
      const Ranking one = ranking({g.f.begin() + begin, g.f.begin() + end},
                                  {w.f.begin() + begin, w.f.begin() + end});
      ++m.rankings;
      m.top1_changes += one.top1_changed;
      m.top5_changes += one.top5_changed;
      m.least_correlation = std::min(m.least_correlation, one.correlation);
    }
  });
  return metrics;
}

}  // namespace vernier::verify
