// Evaluators on all threads: see parts.h.
#include "reference/parts.h"

#include <mutex>

#include "core/threads.h"

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

}  // namespace vernier::reference
