// Measuring: see measure.h.
#include "verify/sweep/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "verify/sweep/noise.h"
#include "verify/tolerance.h"

namespace vernier::verify {
namespace {

// Where an integer output of E is not R's, R's own decision may be a tie: noise of f32's size on
// the inputs of every step changes it too.
void forgive_ties(const Context& context, const Answer& answer, EvalTensor& got) {
  constexpr uint64_t kTrials = 3;
  const plan::Plan& plan = context.subject.plan;
  const EvalTensor& want = answer.want;
  const auto at = std::ranges::find(plan.output_names, answer.name);
  if (at == plan.output_names.end()) return;
  const auto index = static_cast<size_t>(at - plan.output_names.begin());
  const std::vector<Tensor> ordered = in_plan_order(context, answer.inputs);
  for (uint64_t trial = 0; trial < kTrials; ++trial) {
    PlanEvaluator noisy(plan, context.subject.backend,
                        watched(context, {.evaluation = Evaluation::kIdeal, .seed = trial}));
    noisy.run(ordered);
    const EvalTensor other = noisy.value(static_cast<size_t>(plan.outputs[index]));
    for (size_t i = 0; i < want.i.size(); ++i) {
      if (got.i[i] != want.i[i] && other.i[i] != want.i[i]) got.i[i] = want.i[i];
    }
  }
}

void count_rankings(const Answer& answer, const EvalTensor& got, int axis, OutputResult& result) {
  const EvalTensor& want = answer.want;
  // One value per row: the rows are candidates, ranked against each other.
  if (axis != kNoAxis && want.elems() == answer.batch && answer.batch > 1 && want.is_float()) {
    const Ranking one = ranking(got.f, want.f);
    ++result.rankings;
    result.top1_changes += one.top1_changed;
    result.top5_changes += one.top5_changed;
    result.least_correlation = std::min(result.least_correlation, one.correlation);
  }
  for (const RowMetrics& row : row_metrics(got, want, axis)) {
    result.rankings += row.rankings;
    result.top1_changes += row.top1_changes;
    result.top5_changes += row.top5_changes;
    result.least_correlation = std::min(result.least_correlation, row.least_correlation);
  }
}

std::string misfit_of(const Answer& answer) {
  if (!answer.got) return "missing in the engine's answers";
  if (answer.got->dtype() != answer.want.dtype) {
    return fmt::format("type {}, expected {}", vernier::name(answer.got->dtype()),
                       vernier::name(answer.want.dtype));
  }
  if (answer.got->shape() != answer.want.shape)
    return "shape " + str(answer.got->shape()) + ", expected " + str(answer.want.shape);
  return "";
}

// R's numbers in place of finite ones of these rows.
void take_reference(const EvalTensor& want, int axis, const std::vector<int64_t>& rows,
                    EvalTensor& got) {
  if (axis == kNoAxis || rows.empty()) return;
  int64_t inner = 1;
  for (size_t d = static_cast<size_t>(axis) + 1; d < want.rank(); ++d) inner *= want.shape[d];
  const int64_t count = want.shape[axis];
  for (int64_t i = 0; i < want.elems(); ++i) {
    if (std::ranges::find(rows, i / inner % count) == rows.end()) continue;
    if (!want.is_float())
      got.i[i] = want.i[i];
    else if (std::isfinite(got.f[i]))
      got.f[i] = want.f[i];
  }
}

// The answer with ties taken for R's, and how far it is off. It must fit.
struct Measured {
  EvalTensor got;
  Distance distance;
};
Measured measured(const Context& context, const Answer& answer, Pool& pool,
                  OutputResult& rankings) {
  const int axis = context.inputs.axes.of(answer.name);
  Measured result{.got = EvalTensor::from(*answer.got), .distance = {}};
  take_reference(answer.want, axis, answer.unjudged, result.got);
  Distance& d = result.distance;
  d = distance(result.got, answer.want, axis);
  if (d.different_integers > 0) {
    forgive_ties(context, answer, result.got);
    d = distance(result.got, answer.want, axis);
  }
  const auto finite = static_cast<double>(d.elems - d.wrong_non_finite);
  pool.error += d.rms * d.rms * finite;
  pool.reference += d.rms_reference * d.rms_reference * finite;
  pool.elems += d.elems;
  count_rankings(answer, result.got, axis, rankings);
  return result;
}

}  // namespace

MeasuredOutput measure_alone(const Context& context, const Answer& answer, Pool& pool,
                             OutputResult& rankings) {
  MeasuredOutput output{.name = answer.name, .misfit = misfit_of(answer), .distance = {}};
  if (output.misfit.empty()) output.distance = measured(context, answer, pool, rankings).distance;
  return output;
}

MeasuredOutput measure(Context& context, const Answer& answer, CellResult& cell,
                       OutputResult& line) {
  MeasuredOutput output{.name = answer.name, .misfit = misfit_of(answer), .distance = {}};
  if (!output.misfit.empty()) return output;
  const auto [got, d] = measured(context, answer, context.precision.pools[answer.name], line);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  cell.worst = std::max(cell.worst, d.says_it_all() ? d.worst : kInfinity);
  const double share =
      share_of_limit(d, context.subject.request.tolerance, noise_limit(context, answer.name));
  cell.share_of_limit = std::max(cell.share_of_limit, share);
  line.largest_abs = std::max(line.largest_abs, d.max_abs);
  line.least_cosine = std::min(line.least_cosine, d.cosine);
  const bool worse = d.wrong_non_finite > line.worst.wrong_non_finite ||
                     d.different_integers > line.worst.different_integers ||
                     d.worst > line.worst.worst;
  if (line.worst_cell.empty() || worse) {
    line.worst = d;
    line.worst_cell = cell.label;
    line.rows = row_metrics(got, answer.want, context.inputs.axes.of(answer.name));
  }
  output.distance = d;
  return output;
}

}  // namespace vernier::verify
