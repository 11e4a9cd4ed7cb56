// Arena layout: see arena.h.
#include "runtime/arena.h"

#include <algorithm>
#include <numeric>

namespace vernier::runtime {

size_t place(std::vector<Interval>& intervals, size_t alignment) {
  const auto round_up = [alignment](size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  };
  std::vector<size_t> by_size(intervals.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return intervals[a].bytes > intervals[b].bytes; });
  std::vector<const Interval*> placed;  // by offset
  size_t total = 0;
  for (size_t index : by_size) {
    Interval& current = intervals[index];
    size_t offset = 0;
    for (const Interval* other : placed) {
      if (other->last < current.first || current.last < other->first) continue;
      if (offset + current.bytes <= other->offset) break;
      offset = std::max(offset, round_up(other->offset + other->bytes));
    }
    current.offset = offset;
    total = std::max(total, offset + round_up(current.bytes));
    const auto at = std::upper_bound(
        placed.begin(), placed.end(), &current,
        [](const Interval* a, const Interval* b) { return a->offset < b->offset; });
    placed.insert(at, &current);
  }
  return total;
}

}  // namespace vernier::runtime
