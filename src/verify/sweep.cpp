// The checks of verify, cell by cell: see sweep.h.
#include "verify/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "core/names.h"
#include "evaluate/plan_evaluator.h"
#include "evaluate/samples.h"
#include "ops/evaluate.h"
#include "runtime/engine_impl.h"

namespace vernier::verify {

using namespace evaluate;
namespace {

using namespace check_names;

const std::string& first_of(const std::vector<std::string>& names) { return names.front(); }

}  // namespace

std::vector<int64_t> first_rows(int64_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

void count_rankings(OutputResult& result, const RankedOutput& output) {
  const EvalTensor& want = output.want;
  // One value per row: the rows are candidates, ranked against each other.
  if (output.axis != kNoAxis && want.elems() == output.batch && output.batch > 1 &&
      want.is_float()) {
    const Ranking one = ranking(output.answer.f, want.f);
    ++result.rankings;
    result.top1_changes += one.top1_changed;
    result.top5_changes += one.top5_changed;
    result.least_correlation = std::min(result.least_correlation, one.correlation);
  }
  for (const RowMetrics& row : row_metrics(output.answer, want, output.axis)) {
    result.rankings += row.rankings;
    result.top1_changes += row.top1_changes;
    result.top5_changes += row.top5_changes;
    result.least_correlation = std::min(result.least_correlation, row.least_correlation);
  }
}

Sweep::Sweep(std::shared_ptr<const Engine> engine, const ir::Graph& model, const Request& request)
    : engine_(std::move(engine)),
      plan_(engine_->impl().plan),
      model_(model),
      request_(request),
      limits_(request.limits.begun()),
      watch_(limits_),
      runner_(engine_, {.threads = request.threads, .limits = limits_}),
      single_(engine_, {.threads = 1, .limits = limits_}) {}

Check& Sweep::check(const std::string& name) {
  for (Check& c : report_.checks) {
    if (c.name == name) return c;
  }
  return report_.checks.emplace_back(Check{.name = name, .done = 0, .failed = 0, .note = ""});
}

OutputResult& Sweep::output(const std::string& name) {
  for (OutputResult& o : report_.outputs) {
    if (o.name == name) return o;
  }
  report_.outputs.emplace_back().name = name;
  return report_.outputs.back();
}

void Sweep::failed(const std::string& name, Verdict verdict, const std::string& why,
                   CellResult* cell) {
  Check& c = check(name);
  ++c.done;
  if (c.failed++ == 0) c.note = (cell ? cell->label + ": " : "") + why;
  if (cell && verdict < cell->verdict) {
    cell->verdict = verdict;
    cell->why = why;
  }
  if (verdict >= report_.verdict) return;
  report_.verdict = verdict;
  report_.explanation = (cell ? cell->label + ": " : "") + why;
}

EvaluatorOptions Sweep::watched(EvaluatorOptions options) const {
  options.watch = watch_;
  return options;
}

// Of the largest cell, before the first is begun.
void Sweep::check_memory() {
  const PlanEvaluator f(plan_, *engine_->impl().backend);
  for (const Group& group : groups_) {
    if (!group.seeded) continue;  // each evaluation asks, too
    const std::vector<int64_t> batches = batches_of(group);
    ops::Binding sizes = group.sizes;
    if (!axes_.symbol.empty()) sizes[axes_.symbol] = *std::ranges::max_element(batches);
    watch_.check_memory(f.bytes(sizes), [&] {
      return fmt::format("the FP64 evaluation of the plan at {}, batch {}", group.label,
                         *std::ranges::max_element(batches));
    });
  }
}

void Sweep::stage(const std::string& text) const {
  watch_.check_time(text);
  if (request_.progress) request_.progress(text);
}

NamedTensors Sweep::batch_of(const Group& group, const std::vector<int64_t>& rows) const {
  std::vector<NamedTensors> parts;
  for (int64_t row : rows) parts.push_back(group.rows[static_cast<size_t>(row)]);
  return axes_.known() ? join_rows(parts, axes_) : parts[0];
}

// The same bits whatever the memory held before, on one thread and on several, and again.
void Sweep::same_in_every_run(const NamedTensors& inputs, const NamedTensors& answers,
                              CellResult& cell) {
  Poison other(kOtherNumber);
  const auto with_other = different_outputs(answers, runner_.run(inputs, other));
  const auto again = different_outputs(answers, runner_.run(inputs));
  const auto on_one = different_outputs(answers, single_.run(inputs));
  Recorder first, second;
  if (!again.empty() || !on_one.empty()) {
    const bool repeats = again.empty();
    (repeats ? single_ : runner_).run(inputs, first);
    runner_.run(inputs, second);
    const std::string where = first_difference(plan_, first, second);
    failed(kThreads, Verdict::kRace,
           fmt::format("output '{}' has other bits {}; {}", first_of(repeats ? on_one : again),
                       repeats ? "on one thread" : "when the same run is repeated",
                       where.empty() ? "the step did not show itself in one more run"
                                     : "the first step that differs is " + where),
           &cell);
    return;
  }
  passed(kThreads);
  if (with_other.empty()) {
    passed(kMemory);
    return same_unwatched(inputs, answers, cell);
  }
  Recorder with_nan(kSignallingNan), with_number(kOtherNumber);
  runner_.run(inputs, with_nan);
  runner_.run(inputs, with_number);
  failed(kMemory, Verdict::kUninitialisedRead,
         fmt::format("output '{}' depends on what the memory held before the run; the first step "
                     "that does is {}",
                     first_of(with_other), first_difference(plan_, with_nan, with_number)),
         &cell);
}

// Nobody watches a user's runs: a GPU does not wait between the steps, and from the second run on
// it replays a recording of them.
void Sweep::same_unwatched(const NamedTensors& inputs, const NamedTensors& answers,
                           CellResult& cell) {
  for (const char* how : {"when nobody watches the run", "when a run is repeated unwatched"}) {
    const auto different = different_outputs(answers, runner_.run_unwatched(inputs));
    if (different.empty()) continue;
    return failed(kUnwatched, Verdict::kRace,
                  fmt::format("output '{}' has other bits {}: a step does not wait for what it "
                              "reads, or was recorded wrongly",
                              first_of(different), how),
                  &cell);
  }
  passed(kUnwatched);
}

// Where an integer output of E is not R's, R's own decision may be a tie: noise of f32's size on
// the inputs of every step changes it too.
void Sweep::forgive_ties(const std::string& name, const EvalTensor& want, EvalTensor& got,
                         const NamedTensors& inputs) {
  constexpr int kTrials = 3;
  std::vector<Tensor> ordered;
  for (const std::string& input : plan_.input_names) ordered.push_back(*find(inputs, input));
  size_t index = 0;
  while (index < plan_.outputs.size() && plan_.output_names[index] != name) ++index;
  if (index == plan_.outputs.size()) return;
  for (int trial = 0; trial < kTrials; ++trial) {
    PlanEvaluator noisy(
        plan_, *engine_->impl().backend,
        watched({.evaluation = Evaluation::kIdeal, .seed = static_cast<uint64_t>(trial)}));
    noisy.run(ordered, [](size_t, size_t, const EvalTensor&) {});
    const EvalTensor other = noisy.value(static_cast<size_t>(plan_.outputs[index]));
    for (size_t i = 0; i < want.i.size(); ++i) {
      if (got.i[i] != want.i[i] && other.i[i] != want.i[i]) got.i[i] = want.i[i];
    }
  }
}

void Sweep::judge_output(const std::string& name, const EvalTensor& want, const Tensor* got,
                         const NamedTensors& inputs, CellResult& cell) {
  OutputResult& result = output(name);
  const auto fail = [&](Verdict verdict, const std::string& why) {
    if (result.verdict == Verdict::kPass) {
      result.verdict = verdict;
      result.why = cell.label + ": " + why;
    }
    failed(kAnswers, verdict, "output '" + name + "': " + why, &cell);
  };
  if (!got) return fail(Verdict::kBug, "missing in the engine's answers");
  if (got->dtype() != want.dtype) {
    return fail(Verdict::kBug, fmt::format("type {}, expected {}", vernier::name(got->dtype()),
                                           vernier::name(want.dtype)));
  }
  if (got->shape() != want.shape)
    return fail(Verdict::kBug, "shape " + str(got->shape()) + ", expected " + str(want.shape));
  EvalTensor answer = EvalTensor::from(*got);
  const int axis = axes_.of(name);
  Distance d = distance(answer, want, axis);
  if (d.different_integers > 0) {
    forgive_ties(name, want, answer, inputs);
    d = distance(answer, want, axis);
  }
  Pool& pool = pools_[name];
  const auto finite = static_cast<double>(d.elems - d.wrong_non_finite);
  pool.error += d.rms * d.rms * finite;
  pool.reference += d.rms_reference * d.rms_reference * finite;
  pool.elems += d.elems;
  count_rankings(result, {.answer = answer, .want = want, .axis = axis, .batch = cell.batch});
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  cell.worst = std::max(cell.worst, d.says_it_all() ? d.worst : kInfinity);
  cell.share_of_limit =
      std::max(cell.share_of_limit, share_of_limit(d, request_.tolerance, noise_limit(name)));
  const bool first = result.worst_cell.empty();
  const bool worse = d.wrong_non_finite > result.worst.wrong_non_finite ||
                     d.different_integers > result.worst.different_integers ||
                     d.worst > result.worst.worst;
  if (first || worse) {
    result.worst = d;
    result.worst_cell = cell.label;
    result.rows = row_metrics(answer, want, axis);
  }
  const std::string why = complaint(d, request_.tolerance, noise_limit(name));
  if (why.empty()) return passed(kAnswers);
  fail(d.wrong_non_finite > 0 ? Verdict::kNan : Verdict::kPrecision, why);
}

NamedValues Sweep::reference_for(Group& group, const std::vector<int64_t>& rows,
                                 const NamedTensors& inputs) {
  const bool mixed = !axes_.known() || axes_.fixed_rows > 1 ||
                     std::ranges::any_of(report_.outputs, &OutputResult::mixed_by_model);
  if (mixed) return reference_of(inputs);
  while (group.reference.size() < rows.size())  // rows are 0, 1, …
    group.reference.push_back(reference_of(group.rows[group.reference.size()]));
  std::vector<const NamedValues*> parts;
  for (int64_t row : rows) parts.push_back(&group.reference[static_cast<size_t>(row)]);
  return join_rows(parts, axes_);
}

void Sweep::compare_with_reference(Group& group, const std::vector<int64_t>& rows,
                                   const NamedTensors& inputs, const NamedTensors& answers,
                                   CellResult& cell) {
  NamedValues reference = reference_for(group, rows, inputs);
  if (decides(plan_) && !answers_agree(reference, answers))
    reference = reference_on_ties(inputs, reference);
  for (const auto& [name, want] : reference)
    judge_output(name, want, find(answers, name), inputs, cell);
  for (const auto& [name, tensor] : answers) {
    if (reference.contains(name)) continue;
    bool known = false;  // an output that the build added: a value of the model
    for (size_t v = 0; v < model_.num_values(); ++v)
      known = known || model_.value(static_cast<ir::ValueId>(v)).name == name;
    if (!known)
      failed(kAnswers, Verdict::kBug, "output '" + name + "' is not a value of the model", &cell);
  }
}

void Sweep::replay(const NamedTensors& inputs, CellResult& cell) {
  Replay watch(plan_, *engine_->impl().backend, kSignallingNan);
  runner_.run(inputs, watch);
  bool told = cell.verdict == Verdict::kNan && blame_for_non_finite(inputs, watch.steps(), cell);
  if (report_.steps.empty()) report_.steps = watch.steps();
  for (size_t s = 0; s < watch.steps().size(); ++s) {
    const StepResult& step = watch.steps()[s];
    StepResult& worst = report_.steps[s];
    const double rms = std::max(worst.rms_ratio, step.rms_ratio);
    const double inside = std::max(worst.inside_factor, step.inside_factor);
    if (step.ratio > worst.ratio) worst = step;
    worst.rms_ratio = rms;
    worst.inside_factor = inside;
    if (step.passed) {
      passed(kKernels);
      continue;
    }
    // Later steps are judged on their own inputs; the first wrong one is the culprit.
    if (told) continue;
    told = true;
    failed(kKernels, step.non_finite ? Verdict::kOverflow : Verdict::kBug,
           step_text(plan_, step.step) + " is wrong on its own inputs: " + step.why, &cell);
  }
}

void Sweep::run_cell(Group& group, int64_t batch) {
  CellResult cell;
  cell.batch = batch;
  cell.length = group.length;
  cell.sizes = group.sizes_text;
  cell.label = fmt::format("batch {}{}{}", batch, group.label.empty() ? "" : ", ", group.label);
  stage(cell.label);
  const std::vector<int64_t> rows = first_rows(axes_.known() ? batch : 1);
  const NamedTensors inputs = batch_of(group, rows);
  const NamedTensors answers = runner_.run(inputs);
  same_in_every_run(inputs, answers, cell);
  compare_with_reference(group, rows, inputs, answers, cell);
  const RowRun run{.inputs = inputs, .answers = answers, .rows = batch};
  rows_alone(group, run, cell);
  const bool last = static_cast<size_t>(batch) == group.rows.size() || !axes_.known();
  if (last) row_placements(group, run, cell);
  if (last || cell.verdict != Verdict::kPass) {
    stage(cell.label + ": replaying every step in FP64");
    replay(inputs, cell);
  }
  report_.cells.push_back(std::move(cell));
}

void Sweep::compare_expected(Group& group) {
  if (request_.expect.empty()) return;
  Tolerance limit;  // R against what another tool stored in f32
  limit.worst = limit.rms = 1e-4;
  const NamedValues reference =
      reference_of(batch_of(group, first_rows(static_cast<int64_t>(group.rows.size()))));
  for (const auto& [name, tensor] : request_.expect) {
    const auto it = reference.find(name);
    if (it == reference.end()) {
      std::string listed;
      std::vector<std::string> known;
      for (const auto& [output_name, value] : reference) {
        listed += (listed.empty() ? "" : ", ") + output_name;
        known.push_back(output_name);
      }
      throw Error(ErrorCode::kInput, "--expect: array '" + name +
                                         "' is no output of the model; its outputs are " + listed +
                                         did_you_mean(name, known));
    }
    const EvalTensor want = EvalTensor::from(tensor);
    std::string why;
    if (want.shape != it->second.shape)
      why = "shape " + str(it->second.shape) + ", expected " + str(want.shape);
    else if (want.is_float() != it->second.is_float())
      why = fmt::format("type {}, expected {}", vernier::name(it->second.dtype),
                        vernier::name(want.dtype));
    else
      why = complaint(distance(it->second, want), limit);
    if (why.empty()) {
      passed(kExpected);
      continue;
    }
    failed(kExpected, Verdict::kReference,
           "the model's own FP64 value of '" + name + "' is not what was expected: " + why,
           nullptr);
  }
}

std::string Sweep::flips_complaint(const OutputResult& o) const {
  const double share =
      o.rankings > 0 ? static_cast<double>(o.top1_changes) / static_cast<double>(o.rankings) : 0;
  if (!request_.tolerance.flips || share <= *request_.tolerance.flips) return "";
  return fmt::format("{} of {} rankings change their first place, limit {:g}", o.top1_changes,
                     o.rankings, *request_.tolerance.flips);
}

// What is judged over all cells, and the words that go with a pass.
void Sweep::finish() {
  if (ties_ > 0) {
    report_.notes.push_back(fmt::format(
        "{} decisions were ties within what the engine's types explain: the engine's were taken, "
        "and what follows was judged on its path",
        ties_));
  }
  for (auto& [name, pool] : pools_) {
    OutputResult& o = output(name);
    if (pool.noise_elems > 0)
      o.noise_rms = std::sqrt(pool.noise / static_cast<double>(pool.noise_elems));
    if (pool.elems == 0 || pool.reference <= 0) continue;
    o.all_rms = std::sqrt(pool.error / static_cast<double>(pool.elems));
    o.all_rms_reference = std::sqrt(pool.reference / static_cast<double>(pool.elems));
    std::string why = pooled_complaint(pool, o.noise_rms);
    if (const std::string flips = flips_complaint(o); !flips.empty()) why = flips;
    if (why.empty()) continue;
    if (o.verdict == Verdict::kPass) {
      o.verdict = Verdict::kPrecision;
      o.why = why;
    }
    failed(kAnswers, Verdict::kPrecision, "output '" + name + "': " + why, nullptr);
  }
  if (report_.passed())
    report_.explanation = "the engine agrees with the FP64 evaluation of the original model";
}

Report Sweep::run() {
  report_.tolerance = request_.tolerance;
  report_.engine_hash = engine_->content_hash();
  check_same_model();
  for (const char* name : {kRewrite, kKernels, kAnswers, kMemory, kThreads, kUnwatched, kAlone,
                           kDuplicated, kPermuted, kPoisoned, kOwnLength})
    check(name);
  if (!request_.expect.empty()) check(kExpected);
  stage("reading input domains");
  read_domains();
  choose_axes();
  read_precision();
  make_groups();
  check_memory();
  for (Group& group : groups_) {  // all of them first: their noise is every cell's limit
    stage(group.label + ": plan and model in FP64");
    rewrite(group);
    if (&group == &groups_.front()) compare_expected(group);
  }
  for (Group& group : groups_) {
    for (int64_t batch : batches_of(group)) run_cell(group, batch);
    for (int64_t row = 1; row < std::min<int64_t>(4, static_cast<int64_t>(group.rows.size()));
         ++row)
      own_length(group, row);
  }
  finish();
  if (request_.localise) localise_worst();
  return report_;
}

}  // namespace vernier::verify
