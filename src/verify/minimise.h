// Minimise: the fewest of some things that still do what all of them do, by trying sets (delta
// debugging: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002).
#pragma once
#include <cstddef>
#include <functional>
#include <vector>

namespace vernier::verify {

using Chosen = std::vector<size_t>;  ///< indices, ascending

/// A subset of {0 … count − 1} for which `works` is true and from which no single member can be
/// taken away. `works` is true for the whole set and false for the empty one; it is asked about the
/// first few (1, 2, 4, …), then about parts of the first that works, so things that are likely to
/// be needed come first. It need not be monotone. Sets may be asked about more than once.
Chosen minimise(size_t count, const std::function<bool(const Chosen&)>& works);

}  // namespace vernier::verify
