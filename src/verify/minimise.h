// Minimise: a few of many things that still do what all of them do, by trying sets. Grows a set
// until it works, then takes away what can be spared.
#pragma once
#include <cstddef>
#include <functional>
#include <vector>

namespace vernier::verify {

using Chosen = std::vector<size_t>;  ///< indices, ascending

/// A subset of {0 … count − 1} for which `works` is true and from which no single member can be
/// taken away. `works` is true for the whole set and false for the empty one, about which it is not
/// asked. Things that are likely to be needed come first: the first 1, 2, 4, … are tried until they
/// work. `works` need not be monotone; where it is, about k·log(count) sets are tried for k needed
/// things. It may be asked about a set again.
Chosen minimise(size_t count, const std::function<bool(const Chosen&)>& works);

}  // namespace vernier::verify
