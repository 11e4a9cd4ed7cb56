// Sizes beyond the sweep's grid: see far_sizes.h.
#include "verify/sweep/far_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>

#include "core/fp64_device.h"
#include "evaluate/plan_work.h"
#include "evaluate/samples.h"
#include "reference/matmul.h"
#include "verify/sweep/inputs.h"

namespace vernier::verify {
namespace {

// Operations in FP64 of all far cells together: seconds on two cores. Beside a GPU for doubles
// there are more cores, and what it takes counts less.
constexpr double kFarWork = 2e11, kFarWorkWithGpu = 10 * kFarWork, kThorough = 10,
                 kOnGpu = 1 / 200.0;
// Of a row: the model and the plan; of the first two rows, also its rounding, beside the plan where
// that decides.
constexpr double kEvaluationsOfRows = 2, kEvaluationsOfFirstRows = 2;

constexpr int64_t kShortest = 5, kShortLengths = 11;  // of large batches: 5 to 15
constexpr int64_t kMostRows = 64;                     // of a far cell
constexpr int kDrawn = 4;
constexpr int64_t kMostMultiples = 8;                   // of a size that repeats
constexpr int64_t kRowsDrawnFrom = 3, kRowsDrawn = 31;  // 3 to 33

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
  ranges.variants = variants_of(context.subject.plan, context.subject.backend);
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
  // Rows are evaluated together, so that a product of each is as much larger.
  const auto together = std::min(rows, static_cast<double>(rows_evaluated_together(size.length)));
  const evaluate::WorkByPlace work =
      evaluate::work_by_place(context.subject.plan, sizes, least_on_device() / together);
  return (work.rest + kOnGpu * work.large_products) *
         (kEvaluationsOfRows * rows + kEvaluationsOfFirstRows * std::min(rows, 2.0));
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

// Draws cells, and keeps those that the grid has not.
class Chooser {
 public:
  Chooser(const SizeRanges& ranges, uint64_t seed) : ranges_(ranges), random_(seed) {}

  int64_t drawn(int64_t first, int64_t count) {
    return first + static_cast<int64_t>(random_() % static_cast<uint64_t>(count));
  }
  void add(int64_t batch, int64_t length) {
    const FarSize size{has_batch() ? clamped(std::min(batch, kMostRows), ranges_.batch) : 1,
                       has_length() ? clamped(length, ranges_.length) : 0};
    if (!in_grid(size) && std::ranges::find(sizes_, size) == sizes_.end()) sizes_.push_back(size);
  }
  void add_at_an_edge(const std::vector<int64_t>& lengths, int64_t brief) {
    const int64_t rows = drawn(kRowsDrawnFrom, kRowsDrawn);
    add(rows, lengths.empty() ? brief : lengths[drawn(0, std::ssize(lengths))]);
  }
  // A size where a kernel changes its variant, or one beside it. False: the ranges have none.
  bool add_at_a_variant(size_t which) {
    const backend::VariantSize& variant = ranges_.variants[which % ranges_.variants.size()];
    const bool of_rows = variant.of == backend::VariantSize::Of::kRows;
    const int64_t within = of_rows ? kMostMultiples : ranges_.length.max / variant.size;
    const int64_t times =
        variant.repeats ? drawn(1, std::clamp<int64_t>(within, 1, kMostMultiples)) : 1;
    const int64_t size = variant.size * times + drawn(-1, 3);
    if (of_rows) return add_rows(size);
    if (!has_length() || size < ranges_.length.min || size > ranges_.length.max) return false;
    add(drawn(kRowsDrawnFrom, kRowsDrawn), size);
    return true;
  }
  std::vector<FarSize> take() { return std::move(sizes_); }

 private:
  bool has_batch() const { return !ranges_.batch.name.empty(); }
  bool has_length() const { return !ranges_.length.name.empty(); }
  bool in_grid(const FarSize& size) const {
    return size.batch <= ranges_.largest_batch && size.length <= ranges_.largest_length;
  }
  // So many rows of all sequences, from a drawn batch on.
  bool add_rows(int64_t rows) {
    if (!has_length()) return false;
    const int64_t most = has_batch() ? std::min(kMostRows, ranges_.batch.max) : 1;
    const int64_t first = drawn(0, most);
    for (int64_t i = 0; i < most; ++i) {
      const int64_t batch = 1 + (first + i) % most, length = rows / batch;
      const bool fits = rows % batch == 0 && length >= ranges_.length.min &&
                        length <= ranges_.length.max &&
                        (!has_batch() || batch >= ranges_.batch.min);
      if (!fits || in_grid({batch, length})) continue;
      add(batch, length);
      return true;
    }
    return false;
  }

  const SizeRanges& ranges_;
  std::mt19937_64 random_;
  std::vector<FarSize> sizes_;
};

// "rows 16 and its multiples, length 96"
std::string text_of(const std::vector<backend::VariantSize>& variants) {
  std::string text;
  for (const backend::VariantSize& variant : variants) {
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ",
                        variant.of == backend::VariantSize::Of::kRows ? "rows" : "length",
                        variant.size, variant.repeats ? " and its multiples" : "");
  }
  return text;
}

// Rows that the grid does not have: rows of length 1, and batches without padding. Engines may run
// both on separate code paths. A row of nothing but padding is in one of the cells below.
void add_other_rows(Context& context, const SizeRanges& ranges) {
  constexpr int64_t kRows = 3, kLeast = 9, kLengths = 32;
  if (ranges.length.name.empty() || ranges.batch.name.empty()) return;
  const int64_t rows = clamped(kRows, ranges.batch);
  if (ranges.length.min <= 1) add_seeded_rows(context, 1, rows);
  const auto length =
      kLeast + static_cast<int64_t>(context.subject.request.seed % static_cast<uint64_t>(kLengths));
  if (rows > 1 && evaluate::masks_somewhere(context.inputs.domains))
    add_seeded_rows(context, clamped(length, ranges.length), rows, OtherRows::kFull);
}

// The cell of the shortest rows, and of most of them, where some may be nothing but padding.
std::optional<FarSize> brief_cell(const Context& context, const std::vector<FarSize>& sizes) {
  constexpr int64_t kLeastRows = 3;
  if (!evaluate::masks_somewhere(context.inputs.domains) || !context.inputs.axes.known() ||
      context.inputs.axes.fixed_rows > 1)
    return std::nullopt;
  std::optional<FarSize> found;
  for (const FarSize& size : sizes) {
    if (size.batch < kLeastRows || size.length < 2) continue;
    const bool better = !found || size.length < found->length ||
                        (size.length == found->length && size.batch > found->batch);
    if (better) found = size;
  }
  return found;
}

}  // namespace

std::vector<backend::VariantSize> variants_of(const plan::Plan& plan,
                                              const backend::Backend& backend) {
  std::vector<backend::VariantSize> variants;
  for (const plan::Step& step : plan.steps) {
    const backend::KernelDef* kernel = backend::find_kernel(backend, step.kernel);
    if (!kernel) continue;
    for (const backend::VariantSize& variant : kernel->variants) {
      const bool known = std::ranges::any_of(variants, [&](const backend::VariantSize& other) {
        return other.of == variant.of && other.size == variant.size;
      });
      if (!known) variants.push_back(variant);
    }
  }
  return variants;
}

std::vector<FarSize> far_sizes(const SizeRanges& ranges, uint64_t seed) {
  Chooser chooser(ranges, seed);
  const int64_t longest = ranges.length.max, most = ranges.batch.max;
  const int64_t brief = chooser.drawn(kShortest, kShortLengths),
                odd = 2 * chooser.drawn(16, 16) + 1;
  chooser.add(1, longest);
  chooser.add(3, longest - 1);
  chooser.add(most, brief);
  chooser.add(std::min(odd, most - 1), brief);
  chooser.add(1, ranges.length.opt);
  const std::vector<int64_t> lengths = edges(ranges.length, ranges.largest_length);
  for (int i = 0; i < kDrawn; ++i) {
    const bool at_a_variant = i % 2 == 1 && !ranges.variants.empty() &&
                              chooser.add_at_a_variant(seed + static_cast<uint64_t>(i / 2));
    if (!at_a_variant) chooser.add_at_an_edge(lengths, brief);
  }
  chooser.add(most, longest);
  return chooser.take();
}

void add_far_groups(Context& context) {
  const Request& request = context.subject.request;
  const bool chosen =
      !request.inputs.empty() || !request.batches.empty() || !request.lengths.empty();
  if (chosen || request.depth == Depth::kQuick) return;
  double left = least_on_device() > 0 ? kFarWorkWithGpu : kFarWork;
  if (request.depth == Depth::kThorough) left *= kThorough;
  if (request.budget_seconds > 0) {
    if (!context.far_work) context.far_work = affordable_work(context);
    left = *context.far_work;
  }
  std::string skipped;
  const SizeRanges ranges = ranges_of(context);
  add_other_rows(context, ranges);
  const std::vector<FarSize> sizes = far_sizes(ranges, request.seed);
  std::optional<FarSize> with_empty_row = brief_cell(context, sizes);
  for (const FarSize& size : sizes) {
    const double work = work_of(context, size);
    if (work > left || !fits(context, size)) {
      skipped += fmt::format("{}{}x{}", skipped.empty() ? "" : ", ", size.batch, size.length);
      continue;
    }
    // A model that fixes its batch is run with that.
    const int64_t rows = std::max(size.batch, context.inputs.axes.fixed_rows);
    const OtherRows others = size == with_empty_row ? OtherRows::kEmpty : OtherRows::kNone;
    if (add_seeded_rows(context, size.length, rows, others)) left -= work;
  }
  const std::vector<backend::VariantSize> variants =
      variants_of(context.subject.plan, context.subject.backend);
  if (!variants.empty()) {
    context.notes.push_back(
        "cells beyond the grid include sizes beside those where kernels say "
        "that they change variant: " +
        text_of(variants));
  }
  if (skipped.empty()) return;
  context.notes.push_back(
      "not visited, since their evaluation in FP64 takes too much time or memory: " + skipped +
      " (batch x length); --thorough and a larger --budget take more time, --batches and --lengths "
      "ask for single ones");
}

}  // namespace vernier::verify
