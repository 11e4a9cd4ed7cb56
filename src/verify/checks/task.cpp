// Does the task lose no more than --tolerance metric= allows?
#include <fmt/format.h>

#include "verify/checks/table.h"
#include "verify/tolerance.h"

namespace vernier::verify::checks {
namespace {

Findings ask_task(Context&, const FinishedSweep& sweep) {
  if (sweep.task == nullptr) return {};
  const TaskResult& task = *sweep.task;
  Finding finding;
  if (task.most && !(task.loss() <= *task.most)) {
    finding = failure(Verdict::kPrecision,
                      fmt::format("{} of '{}' over {} {} is {:.6g}, and {:.6g} in FP64: it loses "
                                  "{:.3g}, limit {:g}",
                                  task.metric, task.output, task.count, task.unit, task.engine,
                                  task.reference, task.loss(), *task.most));
    finding.output = task.output;
  }
  finding.note = task_text(task);
  return {finding};
}

bool requested(const Request& request) { return !request.task.metric.empty(); }

}  // namespace

constexpr Check task{.ask = &ask_task, .requested = &requested};

}  // namespace vernier::verify::checks
