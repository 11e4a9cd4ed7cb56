// Arena layout: see arena.h.
#include "runtime/arena.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

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

namespace {

// Memory that is taken, as ranges that neither touch nor overlap.
class TakenMemory {
 public:
  // The first byte from `at` on behind which `bytes` lie free; ranges end where the next may begin.
  size_t first_free(size_t at, size_t bytes) const {
    auto next = ranges_.upper_bound(at);
    if (next != ranges_.begin()) at = std::max(at, std::prev(next)->second);
    for (; next != ranges_.end() && sum_of_bytes(at, bytes) > next->first; ++next)
      at = next->second;
    return at;
  }
  void take(size_t begin, size_t end) {
    auto next = ranges_.upper_bound(begin);
    if (next != ranges_.begin() && std::prev(next)->second >= begin) --next;
    while (next != ranges_.end() && next->first <= end) {
      begin = std::min(begin, next->first);
      end = std::max(end, next->second);
      next = ranges_.erase(next);
    }
    ranges_.emplace(begin, end);
  }

 private:
  std::map<size_t, size_t> ranges_;  // begin -> end
};

// What is taken at which steps: a tree over the steps, in which an interval is written at the
// O(log steps) nodes whose steps it covers whole (`through`), and at those above them (`within`).
class TakenBySteps {
 public:
  explicit TakenBySteps(int32_t steps) : steps_(std::max(steps, 1)) {}

  // The lowest place that is free during all steps of `wanted`.
  size_t lowest(const Interval& wanted) {
    std::vector<const TakenMemory*> around;
    collect(1, 0, steps_ - 1, wanted, around);
    size_t at = 0;
    for (size_t agree = 0, i = 0; agree < around.size(); i = (i + 1) % around.size()) {
      const size_t moved = around[i]->first_free(at, wanted.bytes);
      agree = moved == at ? agree + 1 : 1;
      at = moved;
    }
    return at;
  }
  void take(const Interval& interval, size_t end) { write(1, 0, steps_ - 1, interval, end); }

 private:
  struct Node {
    TakenMemory within, through;
  };

  void collect(size_t node, int32_t first, int32_t last, const Interval& wanted,
               std::vector<const TakenMemory*>& around) const {
    const auto found = nodes_.find(node);
    if (found == nodes_.end() || last < wanted.first || wanted.last < first) return;
    if (wanted.first <= first && last <= wanted.last) {
      around.push_back(&found->second.within);
      return;
    }
    around.push_back(&found->second.through);
    const int32_t middle = first + (last - first) / 2;
    collect(2 * node, first, middle, wanted, around);
    collect(2 * node + 1, middle + 1, last, wanted, around);
  }
  void write(size_t node, int32_t first, int32_t last, const Interval& interval, size_t end) {
    if (last < interval.first || interval.last < first) return;
    Node& here = nodes_[node];
    here.within.take(interval.offset, end);
    if (interval.first <= first && last <= interval.last)
      return here.through.take(interval.offset, end);
    const int32_t middle = first + (last - first) / 2;
    write(2 * node, first, middle, interval, end);
    write(2 * node + 1, middle + 1, last, interval, end);
  }

  int32_t steps_;
  std::unordered_map<size_t, Node> nodes_;  // 1 is the root; of n the children are 2n and 2n + 1
};

}  // namespace

size_t place(std::vector<Interval>& intervals, size_t alignment) {
  std::vector<size_t> by_size(intervals.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return intervals[a].bytes > intervals[b].bytes; });
  int32_t steps = 0;
  for (const Interval& interval : intervals) steps = std::max(steps, interval.last + 1);
  TakenBySteps taken(steps);
  size_t total = 0;
  for (size_t index : by_size) {
    Interval& current = intervals[index];
    current.offset = 0;
    if (current.bytes == 0) continue;  // and so are all after it
    current.offset = taken.lowest(current);
    const size_t end = sum_of_bytes(current.offset, round_up(current.bytes, alignment));
    taken.take(current, end);
    total = std::max(total, end);
  }
  return total;
}

}  // namespace vernier::runtime
