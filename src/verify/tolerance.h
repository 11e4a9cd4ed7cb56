// Tolerance: the limits of E against R. Contract: docs/verification.md "Limits".
#pragma once
#include <optional>
#include <string>

#include "verify/metrics.h"

namespace vernier::verify {

/// Limits; infinity or empty: not checked. NaN, infinities and integers are always checked.
struct Tolerance {
  double worst = 1e-5;          ///< of |E − R| / (1 + |R|), every element
  double rms = 1e-5;            ///< of rms(E − R) / rms(R), over all cells; never below the noise
  bool above_noise = true;      ///< worst and rms do not ask for less than f32 can do here
  std::optional<double> max;    ///< of |E − R|, every element
  std::optional<double> cos;    ///< least cosine similarity of a cell
  std::optional<double> flips;  ///< largest share of rankings whose first place changes
};
/// "rms=1e-3,max=1e-2,cos=0.9999,flips=0" (worst= too): exactly these limits; empty: the usual
/// ones. Throws Error(kInput) on anything else.
Tolerance parse_tolerance(const std::string& text);
/// "worst=1e-05,rms=1e-05": what parse_tolerance reads back.
std::string to_text(const Tolerance& tolerance);

/// Why an array at `distance` fails, or empty (all but rms and flips, which are pooled). `noise`:
/// an error that f32 itself is expected to make here; `worst` does not ask for less.
std::string complaint(const Distance& distance, const Tolerance& limit, double noise = 0);
/// How much of its limits an array at `distance` takes up: above 1 where complaint() complains, the
/// larger the worse; infinite for a wrong NaN or integer. Of rms where no element has a limit.
double share_of_limit(const Distance& distance, const Tolerance& limit, double noise = 0);

}  // namespace vernier::verify
