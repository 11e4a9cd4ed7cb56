// import → raise → precision → fuse → plan → engine. Contract: include/vernier/compile.h.
#include "vernier/compile.h"

#include <algorithm>
#include <filesystem>

#include "compile/canary.h"
#include "compile/clock.h"
#include "compile/pipeline.h"
#include "core/whole_file.h"
#include "engine/writer.h"
#include "runtime/engine_impl.h"

namespace vernier {
namespace {

std::optional<Canary> canary_noted(const std::shared_ptr<const Engine>& engine,
                                   const evaluate::Domains& domains, const CompileOptions& options,
                                   CompileReport& report) {
  std::string note;
  std::optional<Canary> canary = compiler::canary_of(engine, domains, options.limits, note);
  if (!note.empty()) report.notes.push_back(note);
  return canary;
}

}  // namespace

CompileReport compiler::write(const std::string& engine_path, Compiled& compiled,
                              const CompileOptions& options, const Clock& clock) {
  stage(options, "write");
  CompileReport report = report_of(compiled, 0);
  engine::RecordsOf records_of;
  if (options.canary) {
    records_of = [&](const std::filesystem::path& written) {
      stage(options, "canary");
      const backend::Backend& backend = backend_of(options);
      // The weights are in the file now, which the engine maps: not in memory twice.
      for (plan::Blob& blob : compiled.plan.blobs) blob.bytes = Tensor();
      const auto engine = Engine::open(written.string(), EngineOptions{.kernels = &backend});
      return engine::Records{.certificate = {},
                             .canary = canary_noted(engine, compiled.domains, options, report)};
    };
  }
  engine::write_engine(engine_path, compiled.plan, Watch(options.limits), records_of);
  report.ms = clock.ms();
  return report;
}

void compiler::check_targets(const std::string& engine_path, const CompileOptions& options) {
  check_can_write(engine_path, "engine");
  if (!options.tuning_file.empty()) check_can_write(options.tuning_file, "tuning record");
  if (options.export_qdq.empty()) return;
  const auto normal = [](const std::string& path) {
    return std::filesystem::absolute(path).lexically_normal();
  };
  for (const std::string& other : {engine_path, options.tuning_file}) {
    if (other.empty() || normal(other) != normal(options.export_qdq)) continue;
    throw Error(ErrorCode::kInput, "--export-qdq '" + options.export_qdq +
                                       "' is a file that the build writes something else to; give "
                                       "another name");
  }
}

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
  compiler::check_targets(engine_path, asked);
  const compiler::Job job = compiler::begun(asked);
  compiler::Compiled compiled = compiler::run(model_path, job);
  return compiler::write(engine_path, compiled, job.options, clock);
}

std::vector<std::byte> compile_to_bytes(const std::string& model_path,
                                        const CompileOptions& options, CompileReport* report) {
  const compiler::Clock clock;
  const compiler::Job job = compiler::begun(options);
  const compiler::Compiled compiled = compiler::run(model_path, job);
  CompileReport made = compiler::report_of(compiled, 0);
  engine::Records records;
  if (options.canary) {
    const auto engine = Engine::Impl::engine_of(compiled.plan, compiler::backend_of(job.options));
    records.canary = canary_noted(engine, compiled.domains, job.options, made);
  }
  made.ms = clock.ms();
  if (report) *report = std::move(made);
  return engine::engine_bytes(compiled.plan, records);
}

}  // namespace vernier
