// Products judged by a random projection: x·(w·r) beside (y − bias − residual)·r in FP64, for
// numbers r that nobody knows. It covers every element of a result at the cost of reading the
// operands. Products that it cannot cover are sampled (sampled_products.h). Contract and limits:
// docs/verification_checks.md "Projection".
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/constant_cache.h"
#include "plan/plan.h"
#include "runtime/session_impl.h"
#include "verify/evidence.h"
#include "verify/sampled_products.h"

namespace vernier::verify {

/// What is projected of a weight [K, N], rounded to what its kernel multiplies; once per engine.
struct ProjectedWeight {
  std::vector<double> along;    ///< [K]: w·r
  std::vector<double> squares;  ///< [K]: the sum over n of (w·r)², for what rounding may do
  double largest = 0;           ///< of |r|
};

/// Watches one run as Poison does, and judges the products in it.
class Projection final : public RunObserver {
 public:
  /// `weights`, by step, are filled by the first run and used by all others of the engine.
  /// `constants`, where given: those that evaluations share.
  Projection(const plan::Plan& plan, const backend::Backend& backend, uint64_t seed,
             std::map<int32_t, ProjectedWeight>& weights, ConstantCache* constants = nullptr);
  void before_run(std::span<std::byte> arena) override;
  void before_step(std::span<std::byte> unwritten) override;
  void after_step(int32_t step, const backend::LaunchCall& call) override;
  /// After the run.
  const ProjectedProducts& products();

 private:
  bool project(int32_t index, const backend::LaunchCall& call);
  const plan::Plan& plan_;
  const backend::Backend& backend_;
  uint64_t seed_;
  std::map<int32_t, ProjectedWeight>& weights_;
  ConstantCache* constants_;
  ProjectedProducts products_;
  std::vector<Sample> samples_;  // to be judged after the run, on all threads
};

}  // namespace vernier::verify
