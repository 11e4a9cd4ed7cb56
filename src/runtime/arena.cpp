// Arena layout: see arena.h.
#include "runtime/arena.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace vernier::runtime {
namespace {

size_t checked(bool overflows, size_t bytes) {
  if (overflows || bytes > kMostBytes) {
    throw Error(ErrorCode::kInput,
                "the inputs' sizes ask for arrays of more than 2^62 bytes; use smaller shapes");
  }
  return bytes;
}

}  // namespace

size_t sum_of_bytes(size_t a, size_t b) {
  size_t sum = 0;
  const bool overflows = __builtin_add_overflow(a, b, &sum);
  return checked(overflows, sum);
}
size_t product_of_bytes(size_t a, size_t b) {
  size_t product = 0;
  const bool overflows = __builtin_mul_overflow(a, b, &product);
  return checked(overflows, product);
}
size_t round_up(size_t bytes, size_t alignment) {
  return sum_of_bytes(bytes, alignment - 1) / alignment * alignment;
}

size_t place(std::vector<Interval>& intervals, size_t alignment) {
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
      if (sum_of_bytes(offset, current.bytes) <= other->offset) break;
      offset = std::max(offset, round_up(sum_of_bytes(other->offset, other->bytes), alignment));
    }
    current.offset = offset;
    total = std::max(total, sum_of_bytes(offset, round_up(current.bytes, alignment)));
    const auto at = std::upper_bound(
        placed.begin(), placed.end(), &current,
        [](const Interval* a, const Interval* b) { return a->offset < b->offset; });
    placed.insert(at, &current);
  }
  return total;
}

}  // namespace vernier::runtime
