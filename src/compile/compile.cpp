// import → raise → precision → fuse → plan → engine. Contract: include/vernier/compile.h.
#include "vernier/compile.h"

#include <algorithm>

#include "compile/clock.h"
#include "compile/pipeline.h"
#include "core/whole_file.h"
#include "engine/writer.h"

namespace vernier {
CompileReport compiler::report_of(const Compiled& compiled, double ms) {
  CompileReport report;
  report.model = compiled.plan.model_name;
  report.onnx_nodes = compiled.onnx_nodes;
  report.steps = static_cast<int64_t>(compiled.plan.steps.size());
  for (const plan::Step& step : compiled.plan.steps)
    report.fallback_steps += backend::is_evaluator(step.kernel);
  for (const plan::Blob& blob : compiled.plan.blobs) report.weight_bytes += blob.bytes.bytes();
  report.notes = compiled.plan.notes;
  report.notes.insert(report.notes.end(), compiled.report_notes.begin(),
                      compiled.report_notes.end());
  report.policy = compiled.plan.build.policy;
  report.ms = ms;
  return report;
}

CompileReport compile(const std::string& model_path, const std::string& engine_path,
                      const CompileOptions& asked) {
  const compiler::Clock clock;
  check_can_write(engine_path, "engine");  // before the work
  if (!asked.tuning_file.empty()) check_can_write(asked.tuning_file, "tuning record");
  const compiler::Job job = compiler::begun(asked);
  const compiler::Compiled compiled = compiler::run(model_path, job);
  compiler::stage(job.options, "write");
  engine::write_engine(engine_path, compiled.plan, Watch(job.options.limits));
  return compiler::report_of(compiled, clock.ms());
}

std::vector<std::byte> compile_to_bytes(const std::string& model_path,
                                        const CompileOptions& options, CompileReport* report) {
  const compiler::Clock clock;
  const compiler::Compiled compiled = compiler::run(model_path, compiler::begun(options));
  if (report) *report = compiler::report_of(compiled, clock.ms());
  return engine::engine_bytes(compiled.plan);
}

}  // namespace vernier
