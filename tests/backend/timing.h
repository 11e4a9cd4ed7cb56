// Times kernel rows on large cases: what `test_backend_cuda --time` does (docs/measuring.md,
// "Single kernels"). A few rows of each result are compared with the FP64 evaluator, as in the
// tables of the tests; times decide nothing.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "backend/harness.h"

namespace vernier::backend::test {

/// A case that is timed. Its arrays are large, so they are made when the case is asked for.
struct TimedCase {
  std::string name = {};  ///< operator, sizes, variant, type: "Linear 4096x768x3072 gelu f16"
  std::function<OpCase()> make = {};
  double bytes = 0;  ///< read and written by a launch; 0: every input and output once
};

/// A list of timed cases. Keep it as a namespace-level constant of its file.
class TimedCases {
 public:
  explicit TimedCases(std::vector<TimedCase> (*list)());
};
/// The cases of all lists of the program, in no particular order of lists.
std::vector<TimedCase> timed_cases();

struct TimingOptions {
  std::vector<std::string> parts = {};  ///< of the names of the cases to time; empty: all
  int rest_ms = 0;                      ///< before each timed replay
  int replays = 25;
  bool hot = false;       ///< all launches on the same arrays, which stay in the cache
  bool all_rows = false;  ///< every row that takes the case, not only the first
  bool tuned = false;     ///< with what KernelBody::tune finds to be the fastest
  std::string json = {};  ///< file for the results; empty: none
  size_t copy_bytes = size_t{512} << 20;  ///< of the copy that rates are compared with
};

/// Of one launch, in microseconds.
struct Times {
  double median = 0, p10 = 0, p90 = 0;
};
/// Replays a recording of several launches. Unless `hot`, launches take turns with copies of all
/// arrays that are larger than a cache together.
Times time_kernel(const KernelDef& kernel, const OpCase& c, const TimingOptions& options);

/// Compares up to four rows of the results with the evaluator: empty, or the first difference.
/// `compared`: false where even one row is too much work for the evaluator.
std::string compare_sample(const KernelDef& kernel, const OpCase& c, const Results& got,
                           bool* compared = nullptr);

/// Prints a line per case and row. 0; 1 where a result is wrong or a row failed; 2 where no case
/// has such a name.
int time_cases(const std::vector<TimedCase>& cases, const TimingOptions& options);

/// An array that repeats 2^20 random elements: normal floats, integers from -99 to 99, booleans.
Tensor repeated(DType type, const Shape& shape);

}  // namespace vernier::backend::test
