// Evaluators on all threads: see parts.h.
#include "reference/parts.h"

#include <mutex>

#include "core/threads.h"
#include "reference/round_each.h"

namespace vernier::reference {

void in_rounded_parts(
    const EvalCall& call, int64_t count, int64_t least,
    const std::function<void(const EvalCall& part, int64_t begin, int64_t end)>& body) {
  std::mutex peaks_mutex;
  in_parallel(count, least, [&](int64_t begin, int64_t end) {
    Rounding own = call.rounding;
    PointPeaks peaks{};
    if (call.rounding.records()) own.record(&peaks);
    body({call.attrs, call.in, call.out, own}, begin, end);
    if (!call.rounding.records()) return;
    const std::lock_guard lock(peaks_mutex);
    for (size_t point = 0; point < peaks.size(); ++point)
      call.rounding.see(point, std::span(peaks).subspan(point, 1));
  });
}

void round_out_each(const EvalCall& call, size_t point) {
  if (!call.rounding.records() && !call.rounding.changes(point)) return;
  std::vector<double>& y = call.out[0].f;
  in_rounded_parts(
      call, std::ssize(y), kCopyGrain, [&](const EvalCall& part, int64_t begin, int64_t end) {
        round_each(part.rounding, point, {y.data() + begin, static_cast<size_t>(end - begin)});
      });
}

void round_inner_parts(const EvalCall& call, std::span<double> values) {
  if (call.rounding.inner().type == DType::kUndefined) return;
  in_parallel(std::ssize(values), kCopyGrain, [&](int64_t begin, int64_t end) {
    round_inner_each(call.rounding, values.subspan(begin, end - begin));
  });
}

}  // namespace vernier::reference
