// Sizes beyond the sweep's grid: see far_sizes.h.
#include "verify/sweep/far_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "evaluate/plan_work.h"
#include "evaluate/samples.h"
#include "reference/matmul.h"
#include "verify/sweep/inputs.h"

namespace vernier::verify {
namespace {

// Operations in FP64 of all far cells together: seconds on two cores.
constexpr double kFarWork = 2e11, kThoroughFarWork = 10 * kFarWork;
// A row is evaluated once, and the first two four times more: the model, the plan, its rounding.
constexpr double kEvaluationsOfFirstRows = 4;

constexpr int64_t kShortest = 5, kShortLengths = 11;  // of large batches: 5 to 15
constexpr int64_t kMostRows = 64;                     // of a far cell
constexpr int kDrawn = 4;

// Lengths where kernels change variant, within the range.
std::vector<int64_t> edges(const plan::Symbol& length, int64_t above) {
  std::vector<int64_t> found;
  const auto add = [&](int64_t edge) {
    for (const int64_t size : {edge - 1, edge, edge + 1}) {
      if (size > above && size <= length.max) found.push_back(size);
    }
  };
  for (int64_t power = 16; power <= length.max; power *= 2) add(power);
  for (const int64_t block : {48, 96, 128}) {
    for (int64_t edge = block; edge <= length.max && edge <= 8 * block; edge += block) add(edge);
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

int64_t clamped(int64_t size, const plan::Symbol& symbol) {
  return symbol.name.empty() ? size : std::clamp(size, symbol.min, symbol.max);
}

SizeRanges ranges_of(const Context& context) {
  SizeRanges ranges;
  for (const plan::Symbol& symbol : context.subject.plan.symbols) {
    if (symbol.name == context.inputs.axes.symbol) ranges.batch = symbol;
    if (symbol.name == context.inputs.length_symbol) ranges.length = symbol;
  }
  for (const Group& group : context.inputs.groups) {
    ranges.largest_length = std::max(ranges.largest_length, group.length);
    ranges.largest_batch =
        std::max(ranges.largest_batch, std::ranges::max(batches_of(context, group)));
  }
  return ranges;
}

double work_of(const Context& context, const FarSize& size) {
  const auto rows = static_cast<double>(std::min(size.batch, kDistinctFarRows));
  std::map<std::string, int64_t> sizes = sizes_at(context, size.length);
  if (!context.inputs.axes.symbol.empty()) sizes[context.inputs.axes.symbol] = 1;
  return evaluate::work_of(context.subject.plan, sizes) *
         (rows + kEvaluationsOfFirstRows * std::min(rows, 2.0));
}

// Operations of a product of doubles in a second, on all threads.
double measured_rate() {
  constexpr reference::MatMulSizes kSizes{256, 512, 512};
  constexpr int kRuns = 3;
  const std::vector<double> a(static_cast<size_t>(kSizes.m * kSizes.k), 0.5),
      b(static_cast<size_t>(kSizes.k * kSizes.n), 0.25);
  std::vector<double> c(static_cast<size_t>(kSizes.m * kSizes.n), 0.0);
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const auto begun = std::chrono::steady_clock::now();
    reference::multiply_add(kSizes, a.data(), b.data(), c.data());
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begun;
    best = std::max(best, 2.0 * static_cast<double>(kSizes.m * kSizes.n * kSizes.k) /
                              std::max(time.count(), 1e-9));
  }
  return best;
}

// What a budget leaves for cells beyond the grid, in operations of their FP64 evaluation.
double affordable_work(const Context& context) {
  // Of the time of a sweep, products of doubles at full speed are about a third; the grid is
  // evaluated and replayed about ten times.
  constexpr double kShareOfProducts = 1.0 / 3, kGrid = 10;
  double grid = 0;
  for (const Group& group : context.inputs.groups) {
    std::map<std::string, int64_t> sizes = group.sizes;
    if (!context.inputs.axes.symbol.empty()) sizes[context.inputs.axes.symbol] = 1;
    grid += kGrid * static_cast<double>(group.rows.size()) *
            evaluate::work_of(context.subject.plan, sizes);
  }
  const double seconds = context.subject.request.budget_seconds;
  return std::max(0.0, seconds * kShareOfProducts * measured_rate() - grid);
}

// Does the evaluation of this cell stay below the memory that the user allows?
bool fits(const Context& context, const FarSize& size) {
  if (!context.watch.limits_memory()) return true;
  std::map<std::string, int64_t> sizes = sizes_at(context, size.length);
  if (!context.inputs.axes.symbol.empty()) sizes[context.inputs.axes.symbol] = size.batch;
  const PlanEvaluator f(context.subject.plan, context.subject.backend);
  try {
    context.watch.check_memory(f.bytes(sizes), "a cell beyond the grid");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kMachine) throw;
    return false;
  }
  return true;
}

}  // namespace

std::vector<FarSize> far_sizes(const SizeRanges& ranges, uint64_t seed) {
  const bool has_batch = !ranges.batch.name.empty(), has_length = !ranges.length.name.empty();
  std::mt19937_64 random(seed);
  const auto drawn = [&](int64_t first, int64_t count) {
    return first + static_cast<int64_t>(random() % static_cast<uint64_t>(count));
  };
  std::vector<FarSize> sizes;
  const auto add = [&](int64_t batch, int64_t length) {
    const FarSize size{has_batch ? clamped(std::min(batch, kMostRows), ranges.batch) : 1,
                       has_length ? clamped(length, ranges.length) : 0};
    const bool in_grid = size.batch <= ranges.largest_batch && size.length <= ranges.largest_length;
    if (!in_grid && std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
  };
  const int64_t longest = ranges.length.max, most = ranges.batch.max;
  const int64_t brief = drawn(kShortest, kShortLengths), odd = 2 * drawn(16, 16) + 1;
  add(1, longest);
  add(3, longest - 1);
  add(most, brief);
  add(std::min(odd, most - 1), brief);
  add(1, ranges.length.opt);
  const std::vector<int64_t> lengths = edges(ranges.length, ranges.largest_length);
  for (int i = 0; i < kDrawn; ++i) {
    const int64_t rows = drawn(3, 31);
    const int64_t length =
        lengths.empty() ? brief : lengths[random() % static_cast<uint64_t>(lengths.size())];
    add(rows, length);
  }
  return sizes;
}

void add_far_groups(Context& context) {
  const Request& request = context.subject.request;
  const bool chosen =
      !request.inputs.empty() || !request.batches.empty() || !request.lengths.empty();
  if (chosen || request.depth == Depth::kQuick) return;
  double left = request.depth == Depth::kThorough ? kThoroughFarWork : kFarWork;
  if (request.budget_seconds > 0) left = affordable_work(context);
  std::string skipped;
  for (const FarSize& size : far_sizes(ranges_of(context), request.seed)) {
    const double work = work_of(context, size);
    if (work > left || !fits(context, size)) {
      skipped += fmt::format("{}{}x{}", skipped.empty() ? "" : ", ", size.batch, size.length);
      continue;
    }
    // A model that fixes its batch is run with that.
    const int64_t rows = std::max(size.batch, context.inputs.axes.fixed_rows);
    if (add_seeded_rows(context, size.length, rows)) left -= work;
  }
  if (skipped.empty()) return;
  context.notes.push_back(
      "not visited, since their evaluation in FP64 takes too much time or memory: " + skipped +
      " (batch x length); --thorough and a larger --budget take more time, --batches and --lengths "
      "ask for single ones");
}

}  // namespace vernier::verify
