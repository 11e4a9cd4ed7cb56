// Loops over doubles, compiled for each instruction set: see round_each.h.
#include "reference/round_each.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/round_each.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace vernier::reference {
namespace HWY_NAMESPACE {

void RoundNearest(const FloatRounder& rounder, double* v, size_t count) {
  for (size_t i = 0; i < count; ++i) v[i] = rounder.nearest(v[i]);
}

// Σ term(v) in 32 sums side by side, the same ones on every instruction set.
template <class Term>
HWY_INLINE double sum_terms(const double* v, size_t count, const Term& term) {
  constexpr size_t kSums = 32;
  double sums[kSums] = {};
  size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (size_t j = 0; j < kSums; ++j) sums[j] += term(v[i + j]);
  }
  for (size_t j = 0; i + j < count; ++j) sums[j] += term(v[i + j]);
  for (size_t width = kSums / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) sums[j] += sums[j + width];
  }
  return sums[0];
}

double SumOf(const double* v, size_t count) {
  return sum_terms(v, count, [](double x) HWY_ATTR { return x; });
}
double SquareSumOf(const double* v, size_t count) {
  return sum_terms(v, count, [](double x) HWY_ATTR { return x * x; });
}
double LargestOf(const double* v, size_t count) {
  constexpr size_t kParts = 32;
  double largest[kParts];
  for (double& part : largest) part = -HUGE_VAL;
  size_t i = 0;
  for (; i + kParts <= count; i += kParts) {
    for (size_t j = 0; j < kParts; ++j) largest[j] = v[i + j] > largest[j] ? v[i + j] : largest[j];
  }
  for (size_t j = 0; i + j < count; ++j) largest[j] = v[i + j] > largest[j] ? v[i + j] : largest[j];
  for (size_t j = 1; j < kParts; ++j) largest[0] = std::max(largest[0], largest[j]);
  return largest[0];
}

void DivideEach(double* v, size_t count, double divisor) {
  for (size_t i = 0; i < count; ++i) v[i] /= divisor;
}

void ReplaceHidden(double* v, const int64_t* keep, size_t count, double fill) {
  for (size_t i = 0; i < count; ++i) v[i] = keep[i] == 0 ? fill : v[i];
}
void AddToHidden(double* v, const int64_t* keep, size_t count, double added) {
  for (size_t i = 0; i < count; ++i) v[i] += keep[i] == 0 ? added : 0.0;
}
}  // namespace HWY_NAMESPACE
}  // namespace vernier::reference
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::reference {
HWY_EXPORT(RoundNearest);
HWY_EXPORT(SumOf);
HWY_EXPORT(SquareSumOf);
HWY_EXPORT(LargestOf);
HWY_EXPORT(DivideEach);
HWY_EXPORT(ReplaceHidden);
HWY_EXPORT(AddToHidden);

void round_each(const PointRounding& rounding, std::span<double> values) {
  if (rounding.type == DType::kUndefined || rounding.type == DType::kF64) return;
  const FloatRounder rounder(rounding.type);
  if (rounding.mode == PointRounding::Mode::kNearest)
    return HWY_DYNAMIC_DISPATCH(RoundNearest)(rounder, values.data(), values.size());
  for (double& v : values) v = rounder.truncated(v);
}

void round_each(const Rounding& rounding, size_t point, std::span<double> values) {
  rounding.see(point, values);
  round_each(rounding.at(point), values);
}

double sum_of(std::span<const double> values) {
  return HWY_DYNAMIC_DISPATCH(SumOf)(values.data(), values.size());
}
double square_sum_of(std::span<const double> values) {
  return HWY_DYNAMIC_DISPATCH(SquareSumOf)(values.data(), values.size());
}

double largest_of(std::span<const double> values) {
  return HWY_DYNAMIC_DISPATCH(LargestOf)(values.data(), values.size());
}

void divide_each(std::span<double> values, double divisor) {
  HWY_DYNAMIC_DISPATCH(DivideEach)(values.data(), values.size(), divisor);
}

void replace_hidden(std::span<double> values, const int64_t* keep, double fill) {
  HWY_DYNAMIC_DISPATCH(ReplaceHidden)(values.data(), keep, values.size(), fill);
}
void add_to_hidden(std::span<double> values, const int64_t* keep, double added) {
  HWY_DYNAMIC_DISPATCH(AddToHidden)(values.data(), keep, values.size(), added);
}

}  // namespace vernier::reference
#endif
