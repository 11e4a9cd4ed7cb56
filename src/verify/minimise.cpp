// Growing, then taking away: see minimise.h.
#include "verify/minimise.h"

#include <algorithm>
#include <numeric>

namespace vernier::verify {
namespace {

// Takes away what can be spared, from the last member to the first: more at once while that goes
// well, then halves of what was too much. True if something was taken.
bool thin_out(Chosen& set, const std::function<bool(const Chosen&)>& works) {
  const size_t before = set.size();
  size_t end = set.size(), many = 1;
  while (end > 0) {
    many = std::min(many, end);
    const auto last = set.begin() + static_cast<std::ptrdiff_t>(end);
    Chosen rest(set.begin(), last - static_cast<std::ptrdiff_t>(many));
    rest.insert(rest.end(), last, set.end());
    if (!rest.empty() && works(rest)) {
      set = std::move(rest);
      end -= many;
      many *= 2;
    } else if (many > 1) {
      many /= 2;
    } else {
      --end;  // needed
    }
  }
  return set.size() < before;
}

}  // namespace

Chosen minimise(size_t count, const std::function<bool(const Chosen&)>& works) {
  Chosen set;
  for (size_t size = 1;; size *= 2) {
    set.resize(std::min(size, count));
    std::iota(set.begin(), set.end(), size_t{0});
    if (set.size() == count || works(set)) break;
  }
  // A member that was needed beside others may not be needed without them.
  while (thin_out(set, works)) {
  }
  return set;
}

}  // namespace vernier::verify
