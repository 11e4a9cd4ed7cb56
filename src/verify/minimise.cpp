// Delta debugging: see minimise.h.
#include "verify/minimise.h"

#include <algorithm>
#include <numeric>

namespace vernier::verify {
namespace {

// Part `index` of `parts` nearly equal ones of `set`.
Chosen part_of(const Chosen& set, size_t index, size_t parts) {
  const auto at = [&](size_t i) {
    return set.begin() + static_cast<std::ptrdiff_t>(set.size() * i / parts);
  };
  return {at(index), at(index + 1)};
}

Chosen without(const Chosen& set, const Chosen& part) {
  Chosen rest;
  std::ranges::set_difference(set, part, std::back_inserter(rest));
  return rest;
}

}  // namespace

Chosen minimise(size_t count, const std::function<bool(const Chosen&)>& works) {
  Chosen set;
  for (size_t size = 1;; size *= 2) {
    set.resize(std::min(size, count));
    std::iota(set.begin(), set.end(), size_t{0});
    if (set.size() == count || works(set)) break;
  }
  size_t parts = 2;
  while (set.size() > 1) {
    parts = std::min(parts, set.size());
    bool smaller = false;
    for (size_t i = 0; i < parts && !smaller; ++i) {
      const Chosen part = part_of(set, i, parts);
      if (!works(part)) continue;
      set = part;
      parts = 2;
      smaller = true;
    }
    for (size_t i = 0; parts > 2 && i < parts && !smaller; ++i) {
      const Chosen rest = without(set, part_of(set, i, parts));
      if (!works(rest)) continue;
      set = rest;
      --parts;
      smaller = true;
    }
    if (smaller) continue;
    if (parts == set.size()) break;
    parts *= 2;
  }
  return set;
}

}  // namespace vernier::verify
