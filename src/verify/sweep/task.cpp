// The scores of a task: see task.h.
#include "verify/sweep/task.h"

#include <fmt/format.h>

#include <algorithm>

#include "vernier/nearest.h"

namespace vernier::verify {
namespace {

std::string output_of(const Context& context, const std::string& asked) {
  const ir::Graph& model = context.subject.model;
  std::vector<std::string> floats;
  for (size_t i = 0; i < model.outputs.size(); ++i)
    if (is_float(model.value(model.outputs[i]).dtype)) floats.push_back(model.output_names[i]);
  if (asked.empty() && floats.size() == 1) return floats.front();
  if (std::ranges::find(floats, asked) != floats.end()) return asked;
  throw Error(ErrorCode::kInput,
              asked.empty()
                  ? fmt::format("--metric: the model has {} outputs of floats; add "
                                "--metric-output with one of {}",
                                floats.size(), fmt::join(floats, ", "))
                  : fmt::format("--metric-output: '{}' is no output of floats; those of "
                                "the model are {}{}",
                                asked, fmt::join(floats, ", "), did_you_mean(asked, floats)));
}

std::vector<double> numbers_of(const Tensor& tensor) {
  const EvalTensor value = EvalTensor::from(tensor);
  std::vector<double> numbers;
  for (int64_t i = 0; i < value.elems(); ++i) numbers.push_back(value.value(i));
  return numbers;
}

// An array of the labels. Of a file with one array this one is it, whatever its name.
std::vector<double> labels_named(const Task& task, const std::string& name, bool only) {
  const Tensor* found = find(task.labels, name);
  if (found == nullptr && only && task.labels.size() == 1) found = &task.labels.front().second;
  if (found != nullptr) return numbers_of(*found);
  std::vector<std::string> names;
  for (const auto& [given, tensor] : task.labels) names.push_back(given);
  throw Error(
      ErrorCode::kInput,
      fmt::format("--labels: array '{}' is missing, which --metric {} needs; the file has {}", name,
                  task.metric, names.empty() ? "none" : fmt::to_string(fmt::join(names, ", "))));
}

void check_count(const char* what, size_t got, int64_t expected, const std::string& of) {
  if (std::cmp_equal(got, expected)) return;
  throw Error(ErrorCode::kInput,
              fmt::format("--labels: {} {}, expected {} for {}", got, what, expected, of));
}

// Can this number of labels fit this number of rows? Checked before anything runs, when the shape
// of the output is not known yet.
bool may_fit(const std::string& metric, int64_t labels, int64_t rows) {
  if (!needs_labels(metric)) return true;
  if (metric == "accuracy") return labels > 0 && rows > 0 && labels % rows == 0;
  return labels == rows || (metric == "spearman" && 2 * labels == rows);
}

int64_t rows_of_inputs(const Context& context) {
  int64_t rows = 0;
  for (const Group& group : context.inputs.groups)
    if (!group.seeded) rows += std::ssize(group.rows);
  return rows;
}

}  // namespace

TaskScores::TaskScores(const Context& context) : task_(context.subject.request.task) {
  const auto known = metric_names();
  if (std::ranges::find(known, task_.metric) == known.end()) {
    throw Error(ErrorCode::kInput, fmt::format("--metric: got '{}', expected {}", task_.metric,
                                               fmt::join(known, ", ")));
  }
  if (context.subject.request.inputs.empty()) {
    throw Error(ErrorCode::kInput,
                "--metric is measured on data of the task, and there is none; add --inputs with "
                ".npz files or a folder of them");
  }
  output_ = output_of(context, task_.output);
  const BatchAxes& axes = context.inputs.axes;
  axis_ = axes.of(output_);
  if (!axes.known() || axis_ == kNoAxis) {
    throw Error(ErrorCode::kInput, "--metric: output '" + output_ +
                                       "' has no rows that are those of the inputs; name the size "
                                       "that counts rows with --batch-axis");
  }
  if (needs_labels(task_.metric))
    labels_ = labels_named(task_, "labels", !needs_groups(task_.metric));
  if (needs_groups(task_.metric)) groups_ = labels_named(task_, "groups", false);
  const int64_t rows = rows_of_inputs(context);
  const std::string of = fmt::format("{} rows of --inputs", rows);
  if (!may_fit(task_.metric, std::ssize(labels_), rows))
    check_count("labels", labels_.size(), rows, of);
  if (needs_groups(task_.metric)) check_count("groups", groups_.size(), rows, of);
}

// Rows first; the last axis holds what is compared.
void TaskScores::add(const EvalTensor& value, Scores& scores) const {
  const int64_t rows = value.shape[static_cast<size_t>(axis_)];
  std::vector<double> numbers;
  int64_t width = 1;
  for (int64_t row = 0; row < rows; ++row) {
    const EvalTensor one = take_row(value, axis_, row);
    width = one.rank() > 1 ? one.shape.back() : 1;
    for (int64_t i = 0; i < one.elems(); ++i) numbers.push_back(one.value(i));
  }
  const int64_t each = rows > 0 ? std::ssize(numbers) / rows : 0;
  const int64_t n = width > 0 ? each / width : 0;
  if (scores.rows > 0 && (scores.n != n || scores.width != width)) {
    throw Error(ErrorCode::kInput,
                fmt::format("--metric: rows of output '{}' have {} numbers in one batch and {} in "
                            "another; give inputs of one length",
                            output_, scores.n * scores.width, each));
  }
  scores.n = n;
  scores.width = width;
  scores.rows += rows;
  scores.values.insert(scores.values.end(), numbers.begin(), numbers.end());
}

void TaskScores::add(const CellRun& run, const NamedValues& reference) {
  const Tensor* got = find(run.answers, output_);
  const auto want = reference.find(output_);
  if (got == nullptr || want == reference.end() || got->shape() != want->second.shape)
    return;  // a finding of its own
  add(EvalTensor::from(*got), state_.engine);
  add(want->second, state_.reference);
}

TaskResult TaskScores::result(const Tolerance& tolerance) const {
  const std::string of = fmt::format("{} rows of output '{}'", state_.engine.rows, output_);
  check_count("labels", labels_.size(), labels_for(task_.metric, state_.engine), of);
  if (needs_groups(task_.metric)) check_count("groups", groups_.size(), state_.engine.rows, of);
  Measured measured = measure_task(task_.metric, state_.engine, state_.reference, labels_, groups_);
  return {.metric = task_.metric,
          .output = output_,
          .unit = std::move(measured.unit),
          .count = measured.count,
          .engine = measured.engine,
          .reference = measured.reference,
          .changed = measured.changed,
          .largest_shift = measured.largest_shift,
          .most = tolerance.metric};
}

}  // namespace vernier::verify
