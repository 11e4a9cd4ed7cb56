// How much there is to compute in one run of a plan, before anything is evaluated.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "plan/plan.h"

namespace vernier::evaluate {

/// Operations of one run, of which a build evaluates several: minutes. Models with symbolic sizes
/// are far below.
inline constexpr double kMostWork = 0x1p40;

/// Operations of one run at these sizes, by the operators' costs (rules/rules.h), and elements that
/// are written. Sizes that depend on data count as 1. Throws Error(kInput) where an array would
/// have too many elements.
double work_of(const plan::Plan& plan, const std::map<std::string, int64_t>& sizes);

/// The same in two parts.
struct WorkByPlace {
  double large_products = 0;  ///< of rows with one matrix, that a device for doubles takes
  double rest = 0;
};
/// `least`: multiplications of a product from which it is large.
WorkByPlace work_by_place(const plan::Plan& plan, const std::map<std::string, int64_t>& sizes,
                          double least);

}  // namespace vernier::evaluate
