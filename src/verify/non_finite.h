// Where NaN or infinity begins: from an output back through the values that have it too, to the
// step that makes it. One rule for verify, localise, bisect and run. Contract:
// docs/verification_checks.md "NaN and infinity".
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "plan/plan.h"
#include "vernier/verify.h"

namespace vernier::verify {

/// What of a value counts. Of two kinds in one value, NaN.
enum class Finiteness : uint8_t { kFinite, kInfinite, kNaN };

/// What of E is not finite but is in F, or the reverse: elements that both have alike do not count.
Finiteness unlike(const EvalTensor& e, const EvalTensor& f);

/// What one run made, and where its outputs' NaN and infinities come from.
class NonFiniteTrace {
 public:
  /// `plan` must outlive this.
  explicit NonFiniteTrace(const plan::Plan& plan);
  /// What plan value `value` holds; not an alias. Values that were not noted are finite.
  void note(int32_t value, Finiteness what);
  /// Step `step` makes NaN or infinity of inputs that do not ask for it.
  void note_own(int32_t step) { own_[step] = true; }

  struct Found {
    int32_t step = plan::kNone;      ///< that makes the first infinity or NaN on the way
    int32_t nan_step = plan::kNone;  ///< where NaN begins of it; kNone: the outputs hold no NaN
    /// The steps between the two that make some of their own, both ends included, in order.
    std::vector<int32_t> own_steps;
  };
  /// Empty if the outputs are finite. An infinity that ends on its way to them (exp(−inf) is 0) is
  /// not found.
  std::optional<Found> find() const;

 private:
  size_t base_of(int32_t value) const;
  std::vector<bool> way_back(std::vector<bool> values, Finiteness least, int32_t last) const;
  const plan::Plan& plan_;
  std::vector<Finiteness> values_;  // by plan value
  std::vector<bool> own_;           // by step
};

}  // namespace vernier::verify
