// Tuning by rows: see row_buckets.h.
#include "backend/cuda/kernels/row_buckets.h"

#include <algorithm>
#include <limits>

namespace vernier::backend::cuda {

size_t bucket_of(int64_t rows) {
  const auto it = std::lower_bound(kRowBuckets.begin(), kRowBuckets.end() - 1, rows);
  return static_cast<size_t>(it - kRowBuckets.begin());
}

size_t fastest_way(Device& device, size_t ways,
                   const std::function<void(size_t way, const Execution& execution)>& run) {
  constexpr int kRounds = 4, kRuns = 8;
  const Execution execution = device.execution();
  double least = std::numeric_limits<double>::infinity();
  size_t best = ways;
  for (size_t way = 0; way < ways; ++way) {
    try {
      run(way, execution);  // loads the code, and throws here if it must
    } catch (const Error&) {
      continue;
    }
    const auto recording = device.record([&](const Execution& recorded) {
      for (int i = 0; i < kRuns; ++i) run(way, recorded);
    });
    for (int round = 0; round < kRounds; ++round) {
      const auto first = device.mark(execution.stream);
      recording->replay(execution.stream);
      const auto last = device.mark(execution.stream);
      device.synchronise(execution.stream);
      const double time = device.milliseconds_between(*first, *last);
      if (round > 0 && time < least) least = time, best = way;
    }
  }
  return best;
}

std::string record_text(const std::array<std::string, kRowBuckets.size()>& choices) {
  std::string text = choices[0];
  for (size_t i = 1; i < choices.size(); ++i) text += ';' + choices[i];
  return text;
}

std::array<std::string, kRowBuckets.size()> record_of(std::string_view text) {
  std::array<std::string, kRowBuckets.size()> choices;
  for (std::string& choice : choices) {
    const size_t end = std::min(text.find(';'), text.size());
    choice = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return choices;
}

}  // namespace vernier::backend::cuda
