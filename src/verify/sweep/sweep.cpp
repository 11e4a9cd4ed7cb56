// The sweep: see sweep.h.
#include "verify/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "verify/projection.h"
#include "verify/replay.h"
#include "verify/sweep/again.h"
#include "verify/sweep/constants.h"
#include "verify/sweep/device_for_fp64.h"
#include "verify/sweep/extreme_operands.h"
#include "verify/sweep/far_sizes.h"
#include "verify/sweep/inputs.h"
#include "verify/sweep/measure.h"
#include "verify/sweep/model_and_plan.h"
#include "verify/sweep/noise.h"
#include "verify/sweep/reference.h"
#include "verify/sweep/same_in_fp64.h"

namespace vernier::verify {
namespace {

// Answers that are neither outputs nor other values of the model.
std::vector<std::string> strangers_in(const Context& context, const NamedTensors& answers,
                                      const NamedValues& reference) {
  const ir::Graph& model = context.subject.model;
  std::vector<std::string> strangers;
  for (const auto& [name, tensor] : answers) {
    if (reference.contains(name)) continue;
    bool known = false;  // an output that the build added: a value of the model
    for (size_t v = 0; v < model.num_values(); ++v)
      known = known || model.value(static_cast<ir::ValueId>(v)).name == name;
    if (!known) strangers.push_back(name);
  }
  return strangers;
}

// Is a cell beyond the grid small enough to be replayed?
bool is_brief(const Group& group, int64_t batch) {
  constexpr int64_t kTokens = 512;
  return batch * std::max<int64_t>(1, group.length) <= kTokens;
}

// The rows of a batch that are nothing but padding. What they answer is no more than the replay of
// steps says: a mask of -10000 leaves few bits of the scores that it is added to, in every type.
std::vector<int64_t> empty_rows(const Group& group, int64_t count) {
  std::vector<int64_t> rows;
  for (int64_t row = group.empty_row; row >= 0 && row < count; row += kDistinctFarRows)
    rows.push_back(row);
  return rows;
}

// By how much a step declares more error than it may.
double excess(const StepResult& step) {
  return step.declared > 0 ? step.declared / step.declared_limit : 0;
}

}  // namespace

CostClock::CostClock(Report& report, const char* what) : report_(report) {
  const auto found = std::ranges::find(report.costs, what, &Cost::what);
  place_ = static_cast<size_t>(found - report.costs.begin());
  if (found == report.costs.end()) report.costs.push_back({.what = what});
}
CostClock::~CostClock() {
  const auto time = std::chrono::steady_clock::now() - begun_;
  report_.costs[place_].seconds += std::chrono::duration<double>(time).count();
}

Sweep::Sweep(std::shared_ptr<const Engine> engine, const ir::Graph& model, const Request& request)
    : context_(std::move(engine), model, request),
      fp64_device_(device_for_fp64(request, context_.subject.backend)),
      checkpoint_(context_) {
  const bool has_task = !request.task.metric.empty();
  if (request.tolerance.metric && !has_task) {
    throw Error(ErrorCode::kInput,
                "--tolerance metric= is the loss that --metric may show, which is missing; add "
                "--metric and the task's --inputs and --labels");
  }
  if (has_task && !(request.from.empty() && request.to.empty()))
    throw Error(ErrorCode::kInput, "--metric is of the model's outputs; leave out --from and --to");
  report_.report.tolerance = request.tolerance;
  report_.report.engine_hash = context_.subject.engine->content_hash();
}

bool Sweep::applies(const Check& check) const {
  return !check.why_not || check.why_not(context_).empty();
}

void Sweep::list_checks() {
  for (const CheckRow& row : check_table()) {
    if (!row.check->requested || row.check->requested(context_.subject.request)) report_.list(row);
  }
}

// Of the largest cell, before the first is begun.
void Sweep::check_memory() const {
  const PlanEvaluator f(context_.subject.plan, context_.subject.backend);
  for (const Group& group : context_.inputs.groups) {
    if (!group.seeded) continue;  // each evaluation asks, too
    const int64_t most = std::ranges::max(batches_of(context_, group));
    std::map<std::string, int64_t> sizes = group.sizes;
    if (!context_.inputs.axes.symbol.empty()) sizes[context_.inputs.axes.symbol] = most;
    context_.watch.check_memory(f.bytes(sizes), [&] {
      return fmt::format("the FP64 evaluation of the plan at {}, batch {}", group.label, most);
    });
  }
}

CellResult Sweep::cell_of(const Group& group, int64_t batch) const {
  CellResult cell;
  cell.batch = batch;
  cell.length = group.length;
  cell.sizes = group.sizes_text;
  cell.far = group.far;
  cell.given = !group.seeded;
  cell.label = fmt::format("batch {}{}{}", batch, group.label.empty() ? "" : ", ", group.label);
  return cell;
}

Sweep::Measurement Sweep::ask_about_answers(Group& group, const CellRun& run, CellResult& cell) {
  const int64_t rows = context_.inputs.axes.known() ? run.rows : 1;
  NamedValues reference = reference_beside(
      context_, reference_for(context_, group, rows, run.inputs), run.inputs, run.answers);
  MeasuredAnswers measured;
  for (const auto& [name, want] : reference) {
    const Answer answer{.name = name,
                        .want = want,
                        .got = find(run.answers, name),
                        .inputs = run.inputs,
                        .batch = cell.batch,
                        .unjudged = empty_rows(group, rows)};
    measured.outputs.push_back(measure(context_, answer, cell, report_.output(name)));
  }
  measured.strangers = strangers_in(context_, run.answers, reference);
  ask(measured, &cell);
  return {.reference = std::move(reference), .answers = std::move(measured)};
}

// Outputs of the build's own (--outputs) have a line as soon as their rows are compared.
void Sweep::list_outputs_with_rows(const CellRun& run) {
  for (const auto& [name, tensor] : run.answers) {
    if (context_.inputs.axes.of(name) != kNoAxis) report_.output(name);
  }
}

void Sweep::ask_about_rows_alone(Group& group, const CellRun& run, CellResult& cell) {
  if (!runs_alone(context_) || run.rows < 2) return;
  list_outputs_with_rows(run);
  run_rows_alone(context_, group, run.rows);
  ask(RowsAlone{.batch = run, .inputs = group.rows, .answers = group.alone}, &cell);
}

// Does the model itself mix the rows of a fixed batch? R of them placed otherwise.
void Sweep::mark_mixed(const PlacedRows& rows) {
  const NamedValues before = reference_of(context_, rows.base.inputs);
  const NamedValues after = reference_of(context_, rows.other.inputs);
  for (const auto& named : before) {
    const std::string& name = named.first;
    const int axis = context_.inputs.axes.of(name);
    const bool same = axis != kNoAxis && std::ranges::all_of(rows.moves, [&](const RowMove& move) {
                        return same_in_fp64(take_row(after.at(name), axis, move.to),
                                            take_row(named.second, axis, move.from));
                      });
    if (same || !context_.inputs.mixed.insert(name).second) continue;
    context_.notes.push_back("output '" + name + "' mixes rows by the model itself: R of a row " +
                             "differs in another order or beside other rows");
  }
}

void Sweep::ask_about_placed_rows(const CellRun& base, const Placements& placed, CellResult& cell) {
  list_outputs_with_rows(base);
  const auto& [reversed, copied, poisoned] = placed;
  const ReversedRows in_reverse{{.base = base, .other = reversed.run, .moves = reversed.moves}};
  const CopiedRows in_copies{{.base = base, .other = copied.run, .moves = copied.moves}};
  if (context_.inputs.axes.fixed_rows > 1) {
    mark_mixed(in_reverse);
    mark_mixed(in_copies);
  }
  ask(in_reverse, &cell);
  ask(in_copies, &cell);
  ask(PoisonedRows{{.base = base, .other = poisoned.run, .moves = poisoned.moves}}, &cell);
}

// In a cell beyond the grid products whose projections cover all elements are not judged again, and
// some rows of the others; everything where something is wrong.
std::vector<StepResult> Sweep::replayed(const CellRun& run, const ProjectedProducts& products,
                                        const CellResult& cell) {
  const auto steps_of = [&](ReplayOptions options) {
    options.watch = context_.watch;
    options.constants = context_.in_fp64.get();
    Replay watch(context_.subject.plan, context_.subject.backend, kSignallingNan,
                 std::move(options));
    context_.runs.several.run(run.inputs, watch);
    return watch.steps();
  };
  if (cell.far && cell.verdict == Verdict::kPass) {
    ReplayOptions some{.sample = context_.subject.request.seed};
    for (const ProjectedProduct& product : products.products) some.judged.insert(product.step);
    std::vector<StepResult> steps = steps_of(std::move(some));
    if (std::ranges::all_of(steps, &StepResult::passed)) return steps;
  }
  return steps_of({});
}

void Sweep::replay(const CellRun& run, const ProjectedProducts& products, CellResult& cell) {
  stage(context_, cell.label + ": replaying every step in FP64");
  const std::vector<StepResult> steps = replayed(run, products, cell);
  std::vector<StepResult>& all = report_.report.steps;
  if (all.empty()) all = steps;
  for (size_t s = 0; s < all.size(); ++s) {
    const StepResult& step = steps[s];
    StepResult& worst = all[s];
    const double rms = std::max(worst.rms_ratio, step.rms_ratio);
    const double inside = std::max(worst.inside_factor, step.inside_factor);
    const StepResult declared = excess(step) > excess(worst) ? step : worst;
    if (step.ratio > worst.ratio) worst = step;
    worst.rms_ratio = rms;
    worst.inside_factor = inside;
    worst.declared = declared.declared;
    worst.declared_limit = declared.declared_limit;
  }
  ask(ReplayedSteps{.run = run, .steps = steps, .so_far = cell.verdict}, &cell);
}

void Sweep::run_cell(Group& group, int64_t batch) {
  CellResult cell = cell_of(group, batch);
  scheduled_stage(context_, cell.label);
  const bool rows_known = context_.inputs.axes.known();
  CellRun run{.rows = batch,
              .inputs = batch_of(context_, group, first_rows(rows_known ? batch : 1)),
              .answers = {}};
  Projection products(context_.subject.plan, context_.subject.backend,
                      context_.subject.request.seed, projected_, context_.in_fp64.get());
  timed("cells: runs and projections",
        [&] { run.answers = context_.runs.several.run(run.inputs, products); });
  cell.named_sizes = bind_symbols(context_.subject.plan, in_plan_order(context_, run.inputs));
  for (const plan::TokenCount& count : context_.subject.plan.token_counts)
    cell.named_sizes.erase(count.name);  // of the data, not of the cell
  const bool last = static_cast<size_t>(batch) == group.rows.size() || !rows_known;
  const bool compares = compares_rows(context_, run.answers);
  std::optional<Placements> placed;
  if (rows_known && batch > 1 && (compares || last)) placed = placements_of(context_, group, run);
  timed("cells: run again in other ways", [&] {
    ask(run_again(context_, group, run, compares && placed ? &*placed : nullptr), &cell);
  });
  group.on_one_thread.erase(run.rows);
  ask(products.products(), &cell);
  const Measurement measured =
      timed("cells: answers", [&] { return ask_about_answers(group, run, cell); });
  const bool all_judged = group.empty_row < 0;
  if (second_ && all_judged) {
    timed("cells: ONNX Runtime", [&] {
      second_->compare(context_, cell, run, measured.reference, measured.answers.outputs);
    });
  }
  if (older_ && all_judged) older_->compare(context_, cell.label, run);
  if (task_ && !group.seeded) task_->add(run, measured.reference);
  timed("cells: rows alone", [&] { ask_about_rows_alone(group, run, cell); });
  if (placed && !compares) {
    for (Placement* placement : placed->all())
      placement->run.answers = context_.runs.several.run(placement->run.inputs);
  }
  if (placed)
    timed("cells: rows placed otherwise", [&] { ask_about_placed_rows(run, *placed, cell); });
  if ((last && (!group.far || is_brief(group, batch))) || cell.verdict != Verdict::kPass)
    timed("replay of steps", [&] { replay(run, products.products(), cell); });
  report_.report.cells.push_back(std::move(cell));
}

void Sweep::run_steps_alone(const Group& group) {
  if (group.far) return;
  stage(context_, group.label + ": steps on extreme operands");
  std::map<std::string, int64_t> sizes = group.sizes;
  const std::string& batch = context_.inputs.axes.symbol;
  if (!batch.empty()) sizes[batch] = std::ranges::max(batches_of(context_, group));
  ask(run_on_extreme_operands(context_, sizes, seen_alone_));
}

// What is judged over all cells.
void Sweep::finish() {
  if (context_.ties > 0) {
    context_.notes.push_back(fmt::format(
        "{} decisions were ties within what the engine's types explain: the engine's were taken, "
        "and what follows was judged on its path",
        context_.ties));
  }
  if (context_.ties_of_rewrites > 0) {
    context_.notes.push_back(fmt::format(
        "{} decisions in FP64 were ties that the plan decides otherwise than the model, by the "
        "rounding of its constants: values behind them were compared on the model's path",
        context_.ties_of_rewrites));
  }
  for (const auto& [name, pool] : context_.precision.pools) {
    OutputResult& line = report_.output(name);
    line.noise_rms = noise_rms(pool);
    line.limits = applied_limits(context_, name, pool);
    if (pool.elems == 0 || pool.reference <= 0) continue;
    line.all_rms = std::sqrt(pool.error / static_cast<double>(pool.elems));
    line.all_rms_reference = std::sqrt(pool.reference / static_cast<double>(pool.elems));
  }
  for (const std::string& name : context_.inputs.mixed) report_.output(name).mixed_by_model = true;
  if (task_) report_.report.task = task_->result(context_.subject.request.tolerance);
  ask(FinishedSweep{.outputs = report_.report.outputs,
                    .task = report_.report.task ? &*report_.report.task : nullptr});
  for (const CheckRow& row : check_table()) {
    if (row.check->why_not) report_.explain_nothing(row, row.check->why_not(context_));
  }
  report_.finish();
  report_.report.notes = context_.notes;
  if (older_) report_.report.against = older_->result();
  if (second_) report_.report.also = second_->result();
}

// One step for all evaluations, one for runs beside each other, and one for each cell. Work is in
// evaluations of a token in FP64.
void Sweep::make_schedule() {
  constexpr double kEvaluations = 3;  // of a token of a group: R, and F and I of some
  constexpr double kRun = 0.4, kRunsBeside = 2, kRuns = 7, kFarRuns = 3, kReplays = 6;
  double evaluations = 0, beside = 0;
  std::vector<double> cells;
  for (const Group& group : context_.inputs.groups) {
    const auto length = static_cast<double>(std::max<int64_t>(1, group.length));
    const auto rows = static_cast<double>(group.rows.size());
    evaluations += kEvaluations * length *
                   (group.far ? std::min(rows, static_cast<double>(kDistinctFarRows)) : rows);
    for (const int64_t batch : batches_of(context_, group)) {
      const double tokens = length * static_cast<double>(batch);
      cells.push_back((group.far ? kFarRuns : kRuns) * kRun * tokens);
      beside += kRunsBeside * kRun * tokens;
    }
    if (!group.far) cells.back() += kReplays * length * rows;
  }
  context_.schedule.add(evaluations);
  context_.schedule.add(beside);
  for (const double work : cells) context_.schedule.add(work);
}

std::vector<std::string> Sweep::cell_labels() const {
  std::vector<std::string> labels;
  for (const Group& group : context_.inputs.groups) {
    for (const int64_t batch : batches_of(context_, group))
      labels.push_back(
          fmt::format("{} of {} rows", cell_of(group, batch).label, group.rows.size()));
  }
  return labels;
}

SweepState Sweep::state() const {
  SweepState state{.units = units_,
                   .far_work = context_.far_work.value_or(0),
                   .cells = cell_labels(),
                   .report = report_.report,
                   .pools = context_.precision.pools,
                   .reach = context_.reach,
                   .ties = context_.ties,
                   .ties_of_rewrites = context_.ties_of_rewrites,
                   .mixed = context_.inputs.mixed,
                   .seen_alone = seen_alone_,
                   .notes = context_.notes};
  state.of = 1 + std::ssize(state.cells) + std::ssize(context_.inputs.groups);
  if (older_) state.older = older_->state();
  if (second_) state.second = second_->state();
  if (task_) state.task = task_->state();
  return state;
}

void Sweep::take_over(SweepState state) {
  taken_over_ = state.units;
  checkpoint_.fill(context_.inputs.groups);
  // Of the schedule: the evaluations, the runs beside each other, each cell.
  context_.schedule.done_before(0);
  size_t step = 2;
  int64_t end = 1;  // the unit behind a group
  for (Group& group : context_.inputs.groups) {
    const int64_t cells = std::ssize(batches_of(context_, group));
    for (int64_t cell = 0; cell < cells; ++cell, ++step)
      if (end + cell < taken_over_) context_.schedule.done_before(step);
    end += cells + 1;
    group.done = end <= taken_over_;
  }
  Report& report = report_.report;
  state.report.tolerance = report.tolerance;
  state.report.engine_hash = report.engine_hash;
  report = std::move(state.report);
  report.resumed = fmt::format("went on after {} of {} steps, from '{}'", state.units, state.of,
                               context_.subject.request.checkpoint.string());
  context_.precision.pools = std::move(state.pools);
  context_.reach = state.reach;
  context_.ties = state.ties;
  context_.ties_of_rewrites = state.ties_of_rewrites;
  context_.inputs.mixed = std::move(state.mixed);
  context_.notes = std::move(state.notes);
  seen_alone_ = std::move(state.seen_alone);
  if (older_ && state.older) older_->restore(std::move(*state.older));
  if (second_ && state.second) second_->restore(std::move(*state.second));
  if (task_ && state.task) task_->restore(std::move(*state.task));
}

void Sweep::run_units() {
  std::string& resumed = report_.report.resumed;
  std::optional<SweepState> before = checkpoint_.read(resumed);
  if (before && context_.subject.request.budget_seconds > 0) context_.far_work = before->far_work;
  list_checks();
  if (!context_.subject.request.against.empty()) older_ = std::make_unique<OlderEngine>(context_);
  if (!context_.subject.request.also.empty()) {
    timed("cells: ONNX Runtime", [&] { second_ = std::make_unique<SecondJudge>(context_); });
  }
  timed("inputs", [&] {
    make_inputs(context_);
    add_far_groups(context_);
  });
  if (!context_.subject.request.task.metric.empty()) task_ = std::make_unique<TaskScores>(context_);
  timed("constants", [&] {
    hold_constants(context_);
    ask(EngineConstants{.constants = context_.constants});
  });
  timed("noise: the usual plan", [&] { read_precision(context_); });
  check_memory();
  for (const std::string& name : context_.inputs.mixed) report_.output(name);
  make_schedule();
  if (before && before->cells == cell_labels())
    take_over(std::move(*before));
  else if (before)
    resumed = "the checkpoint was not used: its cells are others. The verification begins anew";
  std::vector<Group>& groups = context_.inputs.groups;
  // First: their noise is every cell's limit.
  unit([&] { timed("model and plan in FP64", [&] { evaluate_groups(); }); });
  timed("cells: on one thread, and rows alone", [&] { run_beside(context_); });
  for (Group& group : groups) {
    for (int64_t batch : batches_of(context_, group)) unit([&] { run_cell(group, batch); });
    unit([&] {
      timed("steps on extreme operands", [&] { run_steps_alone(group); });
      timed("rows without their padding", [&] { ask(FinishedGroup{.group = group}); });
    });
  }
}

Report Sweep::run() {
  try {
    run_units();
  } catch (const Error& error) {
    const bool stopped = error.code() == ErrorCode::kMachine;  // a limit, or Ctrl-C
    const std::string kept = stopped ? checkpoint_.write_last() : "";
    if (kept.empty()) throw;
    throw Error(error.code(), fmt::format("{}. {}", error.what(), kept));
  } catch (...) {  // what a caller's function throws, is the caller's
    checkpoint_.write_last();
    throw;
  }
  finish();
  if (context_.subject.request.localise) {
    const CellOf worst = worst_cell();
    if (worst.group) report_.report.localisation = localise_group(*worst.group, worst.batch);
  }
  checkpoint_.remove();
  return report_.report;
}

}  // namespace vernier::verify
