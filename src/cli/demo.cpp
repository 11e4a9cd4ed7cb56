// vernier demo: compiles an example model, runs its stored cases against their FP64 outputs, each
// row alone against the row in its batch, verifies the engine, and ranks the model's evaluation set
// if it has one. Contract: docs/commands.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "cli/arrays.h"
#include "cli/common.h"
#include "demo/ranking.h"
#include "vernier/compile.h"
#include "vernier/error.h"
#include "vernier/printable.h"
#include "vernier/verify.h"

namespace vernier::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kLimit = 1e-5;  // of |E - R| / (1 + |R|), every element of an FP32 engine
constexpr int kTimedRuns = 20;
constexpr int64_t kShownScores = 4;

struct Result {
  double largest_error = 0;  ///< |E - R|
  double worst = 0;          ///< |E - R| / (1 + |R|); infinite where E is NaN
  bool same_bits = true;
};

/// Deletes the engine file when the demo ends, also by an exception.
struct TemporaryFile {
  fs::path path;
  ~TemporaryFile() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

const Tensor& find(const NamedTensors& arrays, const std::string& name) {
  for (const auto& [key, tensor] : arrays) {
    if (key == name) return tensor;
  }
  throw Error(ErrorCode::kCheckFailed, "the engine has no output '" + name + "'");
}

void compare(const Tensor& got, const Tensor& want, const std::string& name, Result& result) {
  if (got.shape() != want.shape()) {
    throw Error(ErrorCode::kCheckFailed, "output '" + name + "' has shape " + str(got.shape()) +
                                             ", stored is " + str(want.shape()));
  }
  for (int64_t i = 0; i < got.elems(); ++i) {
    const double reference = want.float_at(i), error = std::abs(got.float_at(i) - reference);
    const double scaled = error / (1 + std::abs(reference));
    result.largest_error = std::max(result.largest_error, error);
    result.worst = std::isnan(scaled) ? INFINITY : std::max(result.worst, scaled);
  }
}

/// Runs every row alone; true if its outputs have the bits that they have in the batch. Outputs
/// whose first axis is not the batch are left out.
bool rows_alone_equal(Session& session, const NamedTensors& inputs, const NamedTensors& outputs) {
  const int64_t rows = inputs.front().second.shape().front();
  for (int64_t row = 0; row < rows; ++row) {
    NamedTensors alone;
    for (const auto& [name, tensor] : inputs) alone.emplace_back(name, row_of(tensor, row));
    for (const auto& [name, got] : run_session(session, alone)) {
      const Tensor& whole = find(outputs, name);
      if (whole.shape().front() != rows) continue;  // its rows lie on another axis
      const Tensor in_batch = row_of(whole, row);
      if (got.bytes() != in_batch.bytes() ||
          std::memcmp(got.data(), in_batch.data(), got.bytes()) != 0) {
        return false;
      }
    }
  }
  return true;
}

/// "-0.1234 0.5678 ..." : the first value of each of the first rows.
std::string scores(const NamedTensors& outputs) {
  const Tensor& first = outputs.front().second;
  const int64_t rows = first.shape().front();
  std::string text;
  for (int64_t row = 0; row < std::min(rows, kShownScores); ++row) {
    text += fmt::format("{:9.5f}", first.float_at(row * (first.elems() / rows)));
  }
  return text + (rows > kShownScores ? " ..." : "");
}

double median_ms(Session& session, const NamedTensors& inputs) {
  const std::vector<Input> views = as_inputs(inputs);
  std::vector<double> times;
  for (int i = 0; i < kTimedRuns; ++i) {
    const Clock clock;
    session.run(views);
    times.push_back(clock.ms());
  }
  std::nth_element(times.begin(), times.begin() + kTimedRuns / 2, times.end());
  return times[kTimedRuns / 2];
}

Result run_case(Session& session, const fs::path& file) {
  const NamedTensors arrays = io::read_arrays(file);
  const NamedTensors inputs = with_prefix(arrays, "in."), expected = with_prefix(arrays, "out.");
  const NamedTensors outputs = run_session(session, inputs);
  Result result;
  for (const auto& [name, want] : expected) compare(find(outputs, name), want, name, result);
  result.same_bits = rows_alone_equal(session, inputs, outputs);
  const Shape& shape = inputs.front().second.shape();
  print(fmt::format("{}  {:>5}  {:>6}  {:<40} {:>9.1e}  {:<4}  {:>8.3f} ms", file.stem().string(),
                    shape[0], shape.size() > 1 ? shape[1] : 1, scores(outputs),
                    result.largest_error, result.same_bits ? "yes" : "NO",
                    median_ms(session, inputs)));
  return result;
}

std::vector<fs::path> stored_cases(const fs::path& folder) {
  std::vector<fs::path> files;
  for (int i = 0; fs::exists(folder / fmt::format("case_{}.npz", i)); ++i) {
    files.push_back(folder / fmt::format("case_{}.npz", i));
  }
  if (files.empty()) {
    throw Error(ErrorCode::kInput, "'" + folder.string() +
                                       "' has no case_0.npz; give a folder of " +
                                       "tests/models, e.g. tests/models/demo_reranker");
  }
  return files;
}

/// The default sweep of `vernier verify`.
verify::Report verify_engine(const fs::path& folder, const fs::path& engine) {
  verify::Request request;
  request.model = folder / "model.onnx";
  request.engine = engine;
  Progress progress("verifying");
  request.progress = [&](const std::string& stage) { progress.stage(stage); };
  const verify::Report report = verify::verify(request);
  print("\n" + verify::to_text(report));
  return report;
}

int run_demo(const fs::path& folder) {
  const std::vector<fs::path> files = stored_cases(folder);
  const TemporaryFile engine{
      fs::temp_directory_path() /
      fmt::format("vernier-demo-{}.vn", reinterpret_cast<uintptr_t>(&files))};
  const Clock clock;
  const CompileReport report = compile((folder / "model.onnx").string(), engine.path.string());
  print(fmt::format("built {} in {:.2f} s: {}, {}\n", (folder / "model.onnx").string(),
                    clock.ms() / 1e3, counted(report.onnx_nodes, "ONNX node"),
                    counted(report.steps, "step")));
  print(
      "        batch  length  scores                                       error  same  time of a "
      "run");
  const auto opened = Engine::open(engine.path.string());
  Session session(opened);
  Result all;
  for (const fs::path& file : files) {
    const Result result = run_case(session, file);
    all.largest_error = std::max(all.largest_error, result.largest_error);
    all.worst = std::max(all.worst, result.worst);
    all.same_bits = all.same_bits && result.same_bits;
  }
  print(fmt::format("\nlargest error against the FP64 outputs: {:.2e} (limit {:.0e}·(1+|ref|): {})",
                    all.largest_error, kLimit, all.worst <= kLimit ? "kept" : "EXCEEDED"));
  print(fmt::format("each row alone has the bits it has in the batch: {}",
                    all.same_bits ? "yes" : "NO"));
  bool good = all.worst <= kLimit && all.same_bits;
  const verify::Report verdict = verify_engine(folder, engine.path);
  good = verdict.passed() && good;
  if (demo::has_evaluation_set(folder)) {
    std::vector<std::string> inputs;
    for (const Port& port : opened->inputs()) inputs.push_back(port.name);
    constexpr double kDeviations = 6;  // as verify's own limit
    const double noise = kDeviations * verdict.outputs.front().noise_rms;
    const auto run = [&session](const NamedTensors& rows) { return run_session(session, rows); };
    const demo::Ranking ranking = demo::rank_evaluation_set(run, folder, inputs, noise);
    print(demo::to_text(ranking));
    good = ranking.passed() && good;
  }
  return good ? 0 : static_cast<int>(ErrorCode::kCheckFailed);
}

}  // namespace

void add_demo(CLI::App& app, Run& chosen) {
  CLI::App* command = app.add_subcommand(
      "demo", "Compile an example model, run its stored cases, verify it, rank its evaluation set");
  const auto folder = std::make_shared<std::string>();
  command->add_option("FOLDER", *folder, "folder with model.onnx and case_<i>.npz")->required();
  command->footer("Example:\n  vernier demo tests/models/demo_reranker");
  command->callback([folder, &chosen] { chosen = [folder] { return run_demo(*folder); }; });
}

}  // namespace vernier::cli
