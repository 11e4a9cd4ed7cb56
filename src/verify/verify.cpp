// Verify on files: see verify.h; the sweep is in sweep/sweep.h.
#include "verify/verify.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/hash.h"
#include "engine/writer.h"
#include "io/text_file.h"
#include "onnx/import.h"
#include "runtime/engine_impl.h"
#include "verify/html/report.h"
#include "verify/sweep/sweep.h"
#include "vernier/inspect.h"
#include "vernier/version.h"

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

std::shared_ptr<ir::Graph> import(const Request& request) {
  onnx::ImportOptions options;
  options.limits = request.limits;
  return onnx::import_model(request.model, options);
}

// One clock for all that is done for a request.
Request begun(Request request) {
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

}  // namespace

Report verify_engine(const std::shared_ptr<const Engine>& engine, const ir::Graph& model,
                     const Request& request) {
  const auto start = std::chrono::steady_clock::now();
  Sweep sweep(engine, model, request);
  const bool part = !request.from.empty() || !request.to.empty();
  Report report = part ? sweep.run_part() : sweep.run();
  report.data_hash = data_hash(request, report);
  if (request.time) report.times = step_times(*engine, request.threads);
  report.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return report;
}

std::shared_ptr<const Engine> open_checked(const Request& request) {
  std::shared_ptr<const Engine> engine = open_engine(request);
  if (request.progress) request.progress("checking weights");
  engine->check_weights();
  return engine;
}

Report verify(const Request& asked) {
  const Request request = begun(asked);
  if (!request.html.empty()) io::check_can_write(request.html, "report");
  const std::shared_ptr<const Engine> engine = open_checked(request);
  Report report = verify_engine(engine, *import(request), request);
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

Localisation localise(const Request& asked) {
  const Request request = begun(asked);
  const std::shared_ptr<const Engine> engine = open_engine(request);
  return localise_model(engine, *import(request), request);
}

Certificate certificate_of(const Report& report, const std::string& model_hash) {
  Certificate certificate;
  certificate.verdict = name(report.verdict);
  certificate.engine_hash = report.engine_hash;
  certificate.model_hash = model_hash;
  certificate.data_hash = report.data_hash;
  std::set<int64_t> batches, lengths;
  for (const CellResult& cell : report.cells) {
    if (cell.far) continue;  // no grid: a certificate means each batch with each length
    batches.insert(cell.batch);
    if (cell.length > 0) lengths.insert(cell.length);
  }
  certificate.batches.assign(batches.begin(), batches.end());
  certificate.lengths.assign(lengths.begin(), lengths.end());
  const auto add = [&](const char* name, double value) {
    if (std::isfinite(value)) certificate.tolerances.push_back({name, value});
  };
  const Tolerance& t = report.tolerance;
  add("worst", t.worst);
  add("rms", t.rms);
  if (t.max) add("max", *t.max);
  if (t.cos) add("cos", *t.cos);
  if (t.flips) add("flips", *t.flips);
  certificate.versions.push_back({"vernier", kVersion});
  return certificate;
}

Report verify_and_stamp(const Request& request) {
  if (!request.from.empty() || !request.to.empty()) {
    throw Error(
        ErrorCode::kInput,
        "--stamp: a part of the model (--from, --to) gives no verdict on the engine; leave out "
        "both options");
  }
  Report report = verify(request);
  engine::stamp_certificate(request.engine, certificate_of(report, file_hash(request.model)),
                            Watch(request.limits));
  return report;
}

}  // namespace vernier::verify
