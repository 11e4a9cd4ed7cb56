// Verify on files: see verify.h; the sweep is in sweep/sweep.h.
#include "verify/verify.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <future>
#include <nlohmann/json.hpp>
#include <set>

#include "compile/zero_fill.h"
#include "core/hash.h"
#include "engine/writer.h"
#include "io/text_file.h"
#include "onnx/import.h"
#include "runtime/certified.h"
#include "runtime/engine_impl.h"
#include "verify/build_options.h"
#include "verify/html/report.h"
#include "verify/sweep/sweep.h"
#include "vernier/inspect.h"

namespace vernier::verify {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The hash of the user's arrays, or of what makes the seeded ones.
std::string data_hash(const Request& request, const Report& report) {
  Hash128 hash;
  for (const UserInputs& inputs : request.inputs) {
    for (const auto& [name, tensor] : inputs.arrays) {
      hash.add(bytes_of(name + str(tensor.shape())));
      hash.add(tensor.byte_span());
    }
  }
  std::string seeded = fmt::format("seed {}", request.seed);
  for (const CellResult& cell : report.cells)
    seeded += fmt::format(";{}x{} {}", cell.batch, cell.length, cell.sizes);
  for (const std::string& note : report.notes) seeded += ";" + note;
  hash.add(bytes_of(seeded));
  return hex(hash.digest());
}

std::shared_ptr<const Engine> open_engine(const Request& request) {
  return Engine::open(request.engine.string(), {.kernels = request.kernels,
                                                .read_into_memory = request.read_into_memory,
                                                .limits = request.limits});
}

// One clock for all that is done for a request, and a page that can be written.
Request begun(Request request) {
  if (!request.html.empty()) io::check_can_write(request.html, "report");
  request.limits = request.limits.begun();
  return request;
}

StepTimes step_times(const Engine& engine, int threads) {
  EngineInspection what;
  what.view = EngineView::kTiming;
  what.format = InspectFormat::kJson;
  what.threads = threads;
  const auto timing = nlohmann::json::parse(inspect_engine(engine, what));
  StepTimes times;
  for (const auto& input : timing.at("inputs"))
    times.inputs += (times.inputs.empty() ? "" : ", ") + input.at("name").get<std::string>() + " " +
                    str(input.at("shape").get<Shape>());
  for (const auto& step : timing.at("steps")) times.ms.push_back(step.at("ms"));
  return times;
}

// What is to be run next.
std::string command_for(const plan::Plan& plan, const Request& request, const Report& report) {
  const std::string engine = request.engine.string(), model = request.model.string();
  std::string plugins;
  for (const plan::Plugin& plugin : plan.build.plugins)
    plugins += " --plugin " + shell_word(plugin.file);
  const auto on_both = [&](std::string_view command, std::string_view more) {
    return fmt::format("vernier {} {} --model {}{}{}", command, shell_word(engine),
                       shell_word(model), plugins, more);
  };
  if (!report.cause.rules.empty()) {
    return fmt::format("{} && {}", build_command(plan, model, engine, report.cause.rules),
                       on_both("verify", ""));
  }
  switch (report.verdict) {
    case Verdict::kPass:
      return on_both("verify", " --stamp");
    case Verdict::kPrecision:
    case Verdict::kOverflow:
    case Verdict::kNan:
      return on_both("bisect", "");
    case Verdict::kDeclared:
      return on_both("verify", " --accept-declared");
    case Verdict::kReference:
      return fmt::format("vernier inspect {}", shell_word(model));
    default:
      return on_both("reduce", " -o part");
  }
}

// The step that adds most, where no step is to blame, and the command.
void complete_cause(const plan::Plan& plan, const Request& request, Report& report) {
  Cause& cause = report.cause;
  if (cause.reason.empty()) cause.reason = report.explanation;
  if (report.verdict == Verdict::kPrecision && cause.step < 0 && report.localisation &&
      report.localisation->has_shares()) {
    const std::vector<size_t> order = report.localisation->by_share(0.05);
    if (!order.empty()) {
      const StepError& most = report.localisation->steps[order.front()];
      cause.step = most.step;
      cause.kernel = most.kernel;
      cause.node = most.name;
      cause.value = fmt::format("adds {:.0f} % of the error at the outputs", 100 * most.share);
    }
  }
  if (request.from.empty() && request.to.empty())
    cause.command = command_for(plan, request, report);
}

}  // namespace

std::shared_ptr<ir::Graph> model_of(const Engine& engine, const Request& request) {
  onnx::ImportOptions options;
  options.limits = request.limits;
  std::shared_ptr<ir::Graph> model = onnx::import_model(request.model, options);
  compiler::zero_fill(*model, engine.impl().plan.build.zero_filled);
  return model;
}

Report verify_engine(const std::shared_ptr<const Engine>& engine, const ir::Graph& model,
                     const Request& request) {
  const auto start = std::chrono::steady_clock::now();
  Sweep sweep(engine, model, request);
  const bool part = !request.from.empty() || !request.to.empty();
  if (part && !request.also.empty()) {
    throw Error(ErrorCode::kInput,
                "--also " + request.also +
                    " judges the answers of the whole model; leave out --from and --to");
  }
  if (request.resume && (part || request.checkpoint.empty())) {
    throw Error(ErrorCode::kInput,
                part ? "--resume goes on with the verification of a whole engine; leave out --from "
                       "and --to"
                     : "resume needs the checkpoint's file, and none is named");
  }
  Report report = part ? sweep.run_part() : sweep.run();
  report.data_hash = data_hash(request, report);
  if (request.time) report.times = step_times(*engine, request.threads);
  complete_cause(engine->impl().plan, request, report);
  report.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return report;
}

Opened open_checked(const Request& request) {
  Opened opened{.engine = open_engine(request), .model = {}};
  if (request.progress) request.progress("checking weights");
  std::future<void> weights = std::async(std::launch::async | std::launch::deferred,
                                         [&] { opened.engine->check_weights(); });
  opened.model = model_of(*opened.engine, request);
  weights.get();
  return opened;
}

namespace {

// Of an engine that is open, whose page is written.
Report verified(const Opened& opened, const Request& request) {
  const auto& [engine, model] = opened;
  Report report = verify_engine(engine, *model, request);
  engine->check_unchanged();
  if (!request.html.empty()) {
    io::write_text_file(request.html, "report",
                        to_html({.report = report,
                                 .plan = engine->impl().plan,
                                 .engine_file = request.engine.filename().string(),
                                 .model_file = request.model.filename().string(),
                                 .model_hash = file_hash(request.model)}));
  }
  return report;
}

}  // namespace

Report verify(const Request& asked) {
  const Request request = begun(asked);
  return verified(open_checked(request), request);
}

Localisation localise(const Request& asked) {
  const Request request = begun(asked);
  const std::shared_ptr<const Engine> engine = open_engine(request);
  return localise_model(engine, *model_of(*engine, request), request);
}

namespace {

// Sizes of one run, each in its place: a size that is not there yet is added.
void add_sizes(const CellResult& cell, Certificate::Range& range) {
  for (const auto& [name, size] : cell.named_sizes) {
    auto there = std::ranges::find(range, name, &Certificate::Size::name);
    if (there == range.end()) there = range.insert(range.end(), {name, {}});
    const auto place = std::ranges::lower_bound(there->swept, size);
    if (place == there->swept.end() || *place != size) there->swept.insert(place, size);
  }
}

// Each batch of the grid was run with each length: one range. What lies outside of it was run just
// as it is.
std::vector<Certificate::Range> ranges_of(const Report& report) {
  std::vector<Certificate::Range> ranges;
  const auto in_grid = [](const CellResult& cell) { return !cell.far && !cell.given; };
  if (std::ranges::any_of(report.cells, in_grid)) ranges.emplace_back();
  for (const CellResult& cell : report.cells) {
    if (in_grid(cell)) add_sizes(cell, ranges[0]);
  }
  for (const CellResult& cell : report.cells) {
    if (in_grid(cell)) continue;
    Certificate::Range range;
    add_sizes(cell, range);
    if (std::ranges::find(ranges, range) == ranges.end()) ranges.push_back(std::move(range));
  }
  return ranges;
}

void add_limit(std::vector<Certificate::Limit>& limits, const char* name,
               std::optional<double> value) {
  if (value && std::isfinite(*value)) limits.push_back({name, *value});
}

std::vector<Certificate::Limit> limits_of(const Tolerance& t) {
  std::vector<Certificate::Limit> limits;
  add_limit(limits, "worst", t.worst);
  add_limit(limits, "rms", t.rms);
  add_limit(limits, "max", t.max);
  add_limit(limits, "cos", t.cos);
  add_limit(limits, "flips", t.flips);
  add_limit(limits, "metric", t.metric);
  return limits;
}

Certificate::OutputLimits limits_of(const OutputResult& output) {
  Certificate::OutputLimits held{.output = output.name,
                                 .noise_rms = output.noise_rms,
                                 .reference_rms = output.all_rms_reference,
                                 .limits = {}};
  const AppliedLimits& applied = output.limits;
  add_limit(held.limits, "worst", applied.worst);
  if (applied.element > 0) add_limit(held.limits, "element", applied.element);
  add_limit(held.limits, "rms", applied.rms);
  add_limit(held.limits, "max", applied.max);
  add_limit(held.limits, "cos", applied.cos);
  add_limit(held.limits, "flips", applied.flips);
  return held;
}

}  // namespace

Certificate certificate_of(const Engine& engine, const Report& report,
                           const std::string& model_hash) {
  Certificate certificate{.verdict = std::string(name(report.verdict)),
                          .engine_hash = report.engine_hash,
                          .model_hash = model_hash,
                          .data_hash = report.data_hash,
                          .ranges = ranges_of(report),
                          .tolerances = limits_of(report.tolerance),
                          .own_tolerance = is_own(report.tolerance),
                          .accepted_declared = report.accepted_declared(),
                          .outputs = {},
                          .versions = runtime::environment_of(*engine.impl().backend),
                          .plugins = runtime::certified_plugins(engine.impl().plan)};
  for (const OutputResult& output : report.outputs)
    certificate.outputs.push_back(limits_of(output));
  return certificate;
}

Report verify_and_stamp(const Request& asked) {
  const Request request = begun(asked);
  if (!request.from.empty() || !request.to.empty()) {
    throw Error(
        ErrorCode::kInput,
        "--stamp: a part of the model (--from, --to) gives no verdict on the engine; leave out "
        "both options");
  }
  const Opened opened = open_checked(request);
  Report report = verified(opened, request);
  engine::stamp_certificate(request.engine,
                            certificate_of(*opened.engine, report, file_hash(request.model)),
                            Watch(request.limits));
  return report;
}

}  // namespace vernier::verify
