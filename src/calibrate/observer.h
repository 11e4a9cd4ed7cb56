// The rows that products read, copied while an engine runs. Contract: runtime/run_observer.h.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/sample.h"
#include "core/tensor.h"
#include "evaluate/domain.h"
#include "plan/plan.h"
#include "runtime/run_observer.h"

namespace vernier::calibration {

/// Which positions of the inputs are padding, for values whose rows are positions.
class Padding {
 public:
  Padding(const plan::Plan& plan, const evaluate::Domains& domains);
  /// The input that says which rows of a value of this shape are padding: a mask, or ids with a
  /// padding id, of as many positions. kNone: none does, all rows count.
  int source_of(const SymShape& shape) const;
  /// Takes the arrays of a run.
  void begin(const NamedTensors& inputs);
  /// Is this row no padding? `source` as source_of() gives it.
  bool is_real(int source, int64_t row) const {
    return source == plan::kNone || real_[source][row];
  }

 private:
  struct Source {
    std::string input;
    SymShape shape;
    std::optional<int64_t> pad;  ///< the id of padding; empty: 0 marks it
  };
  std::vector<Source> sources_;          // masks first
  std::vector<std::vector<bool>> real_;  // by source
};

/// A step whose first input is watched.
struct Watched {
  int32_t step = plan::kNone;
  int source = plan::kNone;  ///< of its padding
};

class RowObserver final : public RunObserver {
 public:
  /// `watched[i]` fills `samples[i]`. All must outlive it.
  RowObserver(std::vector<Watched> watched, const Padding& padding,
              std::vector<SiteSample>& samples);
  /// Throws Error(kInput) where a row holds NaN or infinity.
  void after_step(int32_t step, const backend::LaunchCall& call) override;

 private:
  std::vector<Watched> watched_;
  std::multimap<int32_t, size_t> by_step_;
  const Padding& padding_;
  std::vector<SiteSample>& samples_;
  std::vector<float> row_;
};

}  // namespace vernier::calibration
