// Calibrate: the model in FP32 over the data, a sample of what its int8 products will read, and the
// choices made on it. Contract: vernier/calibrate.h.
#include "vernier/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "calibrate/checkpoint.h"
#include "calibrate/observer.h"
#include "calibrate/sites.h"
#include "compile/export_qdq.h"
#include "core/hash.h"
#include "core/whole_file.h"
#include "evaluate/rows.h"
#include "io/npz.h"
#include "io/text_file.h"
#include "runtime/engine_impl.h"
#include "runtime/session_impl.h"
#include "vernier/printable.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using calibration::Site;
using calibration::SiteSample;

constexpr int64_t kFewTokens = 1000;        // below: a warning
constexpr int64_t kMostElems = 16384;       // of an input, in one run
constexpr int64_t kMostRows = 256;          // of a sample
constexpr int64_t kFewestRows = 64;         // likewise, where channels are many
constexpr int64_t kSampleBytes = 64 << 20;  // of all samples

std::vector<fs::path> files_of(const std::vector<fs::path>& data) {
  std::vector<fs::path> files = io::array_files(data, "--data");
  if (files.empty())
    throw Error(ErrorCode::kInput, "--data is missing; expected .npz files or a folder of them");
  return files;
}

CompileOptions compile_options(const CalibrateOptions& options, const std::string& mode) {
  CompileOptions result;
  result.mode = mode;
  result.shapes = options.shapes;
  result.limits = options.limits;
  result.passes_off = {"unpad"};  // rows are looked at by their places, padding too
  return result;
}

int64_t capacity_of(const std::vector<Site>& sites) {
  int64_t channels = 1;
  for (const Site& site : sites) channels += site.channels;
  return std::clamp(kSampleBytes / (channels * int64_t{sizeof(float)}), kFewestRows, kMostRows);
}

// One calibration: what is known before the data, and what they have shown so far.
class Calibration {
 public:
  explicit Calibration(const CalibrateOptions& options)
      : options_(options), watch_(options_.limits), files_(files_of(options.data)) {
    method_ = calibration::parse_method(options.method);
    check_can_write(options.output, "scales");
    model_hash_ = file_hash(options.model);
    prepare();
    resume();
  }

  CalibrateReport run();

 private:
  void stage(const std::string& text) const {
    if (options_.progress) options_.progress(text);
  }
  void prepare();
  void resume();
  std::string about_text() const;
  int64_t rows_at_once(const NamedTensors& arrays) const;
  void run_file(size_t index);
  void run_piece(const fs::path& file, const NamedTensors& arrays);
  calibration::SiteChoice choice_of(size_t site) const;
  void check_seen() const;

  CalibrateOptions options_;
  Watch watch_;
  std::vector<fs::path> files_;
  calibration::Method method_{};
  std::string model_hash_;
  std::vector<Site> sites_;
  std::vector<SiteSample> samples_;  // by site
  std::shared_ptr<const Engine> engine_;
  std::optional<Session> session_;
  std::optional<calibration::Padding> padding_;
  std::optional<calibration::RowObserver> observer_;
  evaluate::BatchAxes axes_;
  int64_t most_rows_ = 1;  // of a batch, that the engine takes
  std::string about_;
  calibration::Done done_;
  CalibrateReport report_;
};

void Calibration::prepare() {
  stage("reading the model");
  compiler::Compiled compiled;
  const compiler::Job int8 = compile_options(options_, "int8"),
                      fp32 = compile_options(options_, "fp32");
  const std::shared_ptr<ir::Graph> imported =
      compiler::import(options_.model.string(), fp32.options, compiled);
  compiler::check_can_calibrate(*imported, options_.model.string());
  const std::vector<compiler::QuantizedProduct> products =
      compiler::quantized_products(*imported, int8);
  engine_ =
      Engine::Impl::engine_of(compiler::plan_of(*imported, fp32), compiler::backend_named("cpu"));
  const plan::Plan& plan = engine_->impl().plan;
  sites_ = calibration::sites_of(products, plan, report_.notes);
  if (sites_.empty())
    throw Error(ErrorCode::kInput,
                "there is nothing to calibrate: mode int8 quantizes no product of '" +
                    options_.model.string() +
                    "' (products with a constant weight, heads excepted)");
  padding_.emplace(plan, compiler::domains_of(*imported));
  std::vector<calibration::Watched> watched;
  for (size_t s = 0; s < sites_.size(); ++s) {
    const plan::Step& step = plan.step(sites_[s].step);
    watched.push_back({sites_[s].step, padding_->source_of(plan.value(step.inputs[0]).shape)});
    samples_.emplace_back(sites_[s].channels, capacity_of(sites_), s + 1);
  }
  observer_.emplace(std::move(watched), *padding_, samples_);
  session_.emplace(engine_, SessionOptions{.threads = options_.threads, .limits = options_.limits});
  const std::string batch = evaluate::batch_symbol(plan);
  if (batch.empty()) return;
  axes_ = evaluate::axes_of_symbol(plan, batch);
  most_rows_ = std::ranges::find(plan.symbols, batch, &plan::Symbol::name)->max;
}

// Equal texts: the same batches give the same samples.
std::string Calibration::about_text() const {
  nlohmann::json about{{"format", 1},
                       {"model", model_hash_},
                       {"shapes", options_.shapes},
                       {"files", nlohmann::json::array()}};
  for (const fs::path& file : files_) about["files"].push_back(file_hash(file));
  for (const Site& site : sites_) about["channels"].push_back(site.channels);
  return about.dump();
}

void Calibration::resume() {
  const fs::path path = calibration::checkpoint_of(options_.output);
  about_ = about_text();
  switch (calibration::read_checkpoint(path, about_, done_, samples_)) {
    case calibration::Resume::kNothing:
      return;
    case calibration::Resume::kGoesOn:
      report_.notes.push_back(fmt::format(
          "went on after {} of '{}'", counted(done_.batches, "batch", "batches"), path.string()));
      return;
    case calibration::Resume::kOfOther:
      report_.notes.push_back(
          fmt::format("'{}' was not used: it is damaged, or of another model, of other data or "
                      "shapes. The calibration began anew",
                      path.string()));
  }
}

// As many rows as the engine takes, and as a run of bounded memory.
int64_t Calibration::rows_at_once(const NamedTensors& arrays) const {
  int64_t rows = most_rows_;
  for (const auto& [name, tensor] : arrays) {
    const int axis = axes_.of(name);
    if (axis == evaluate::kNoAxis || static_cast<size_t>(axis) >= tensor.rank()) continue;
    const int64_t count = std::max<int64_t>(1, tensor.shape()[axis]);
    rows = std::min(
        rows, std::max<int64_t>(1, kMostElems / std::max<int64_t>(1, tensor.elems() / count)));
  }
  return rows;
}

void Calibration::run_piece(const fs::path& file, const NamedTensors& arrays) {
  watch_.check_time([&] {
    return fmt::format("calibrating, {} done", counted(done_.batches, "batch", "batches"));
  });
  std::vector<Input> inputs;
  for (const auto& [name, tensor] : arrays)
    inputs.push_back({name, tensor.dtype(), tensor.shape(), tensor.data()});
  try {
    session_->check_inputs(inputs);
    padding_->begin(arrays);
    session_->impl().run(inputs, &*observer_);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInput) throw;
    throw Error(ErrorCode::kInput, "data '" + file.string() + "': " + error.what());
  }
}

// The rows [begin, end) of arrays that have as many.
NamedTensors rows_between(const NamedTensors& arrays, const evaluate::BatchAxes& axes,
                          int64_t begin, int64_t end) {
  std::vector<NamedTensors> rows;
  for (int64_t r = begin; r < end; ++r) rows.push_back(evaluate::take_row(arrays, axes, r));
  return evaluate::join_rows(rows, axes);
}

// How many rows the arrays have, or 0 where they do not agree on it.
int64_t rows_of(const NamedTensors& arrays, const evaluate::BatchAxes& axes) {
  int64_t rows = -1;
  for (const auto& [name, tensor] : arrays) {
    const int axis = axes.of(name);
    if (axis == evaluate::kNoAxis) continue;
    if (static_cast<size_t>(axis) >= tensor.rank()) return 0;
    const int64_t own = tensor.shape()[axis];
    if (rows >= 0 && own != rows) return 0;
    rows = own;
  }
  return std::max<int64_t>(rows, 0);
}

void Calibration::run_file(size_t index) {
  const fs::path& file = files_[index];
  const NamedTensors arrays = io::read_arrays(file);
  const int64_t rows = rows_of(arrays, axes_), most = rows_at_once(arrays);
  const int64_t pieces = rows <= most ? 1 : (rows + most - 1) / most;
  for (int64_t piece = done_.pieces; piece < pieces; ++piece) {
    stage(fmt::format("batch {} ('{}', file {} of {})", done_.batches + 1, file.filename().string(),
                      index + 1, files_.size()));
    if (pieces == 1)
      run_piece(file, arrays);
    else
      run_piece(file,
                rows_between(arrays, axes_, piece * most, std::min(rows, (piece + 1) * most)));
    ++done_.pieces;
    ++done_.batches;
    if (piece + 1 < pieces)
      calibration::write_checkpoint(calibration::checkpoint_of(options_.output), about_, done_,
                                    samples_);
  }
  done_.pieces = 0;
  ++done_.files;
  calibration::write_checkpoint(calibration::checkpoint_of(options_.output), about_, done_,
                                samples_);
}

calibration::SiteChoice Calibration::choice_of(size_t index) const {
  const SiteSample& sample = samples_[index];
  return calibration::choose({.kept = {sample.kept_rows(), sample.channels, sample.kept},
                              .low = sample.low,
                              .high = sample.high},
                             sites_[index].weights, method_, watch_);
}

// Rows that are all padding show nothing.
void Calibration::check_seen() const {
  for (size_t s = 0; s < sites_.size(); ++s) {
    if (samples_[s].rows > 0) continue;
    throw Error(ErrorCode::kInput,
                fmt::format("the data have no row for product '{}': all of them are padding. "
                            "Expected attention masks with ones",
                            sites_[s].products[0]));
  }
}

compiler::ScalesSite saved(const Site& site, const SiteSample& sample,
                           const calibration::SiteChoice& choice) {
  compiler::ScalesSite own;
  own.x = site.x;
  own.products = site.products;
  own.factors = choice.factors;
  own.rows = sample.rows;
  own.low = choice.range.low;
  own.high = choice.range.high;
  own.range_method = choice.range_method;
  for (const calibration::NamedError& each : choice.factor_errors)
    own.factor_errors.emplace_back(each.name, each.error);
  for (const calibration::NamedError& each : choice.range_errors)
    own.range_errors.emplace_back(each.name, each.error);
  return own;
}

const calibration::NamedError& least(const std::vector<calibration::NamedError>& errors) {
  return *std::ranges::min_element(errors, {}, &calibration::NamedError::error);
}

CalibratedSite reported(const compiler::ScalesSite& site, const calibration::SiteChoice& choice) {
  CalibratedSite own;
  own.x = site.x;
  own.products = site.products;
  own.channels = std::ssize(site.factors);
  own.rows = site.rows;
  own.exponent = least(choice.factor_errors).name;
  own.plain_error = choice.factor_errors[0].error;
  own.error = least(choice.factor_errors).error;
  own.low = site.low;
  own.high = site.high;
  own.range_method = site.range_method;
  own.static_error =
      std::ranges::find(choice.range_errors, site.range_method, &calibration::NamedError::name)
          ->error;
  return own;
}

CalibrateReport Calibration::run() {
  for (size_t i = static_cast<size_t>(done_.files); i < files_.size(); ++i) run_file(i);
  check_seen();
  compiler::Scales scales{.model_file = options_.model.filename().string(),
                          .model_hash = model_hash_,
                          .data_files = {},
                          .batches = done_.batches,
                          .method = std::string(calibration::name(method_)),
                          .sites = {}};
  for (const fs::path& file : files_) scales.data_files.push_back(file.filename().string());
  for (const SiteSample& sample : samples_) scales.tokens = std::max(scales.tokens, sample.rows);
  for (size_t s = 0; s < sites_.size(); ++s) {
    stage(fmt::format("choosing scales, site {} of {}", s + 1, sites_.size()));
    const calibration::SiteChoice choice = choice_of(s);
    scales.sites.push_back(saved(sites_[s], samples_[s], choice));
    report_.sites.push_back(reported(scales.sites.back(), choice));
  }
  if (scales.tokens < kFewTokens)
    report_.notes.push_back(fmt::format(
        "warning: the data have {} without padding, fewer than {}: what they do not show may be "
        "far beyond these ranges. Add batches of the kind that the model will see",
        counted(scales.tokens, "token"), kFewTokens));
  report_.files = scales.data_files;
  report_.batches = scales.batches;
  report_.tokens = scales.tokens;
  io::write_text_file(options_.output, "scales", compiler::save_scales(scales));
  std::error_code gone;
  fs::remove(calibration::checkpoint_of(options_.output), gone);
  return std::move(report_);
}

}  // namespace

CalibrateReport calibrate(const CalibrateOptions& asked) {
  const auto start = Limits::Clock::now();
  CalibrateOptions options = asked;
  options.limits = options.limits.begun();
  CalibrateReport report = Calibration(options).run();
  report.ms = std::chrono::duration<double, std::milli>(Limits::Clock::now() - start).count();
  return report;
}

}  // namespace vernier
