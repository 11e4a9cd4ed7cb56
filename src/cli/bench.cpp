// vernier bench: how long one run takes, on synthetic inputs or given ones. Contract:
// docs/commands.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/arguments.h"
#include "cli/arrays.h"
#include "cli/common.h"
#include "vernier/error.h"
#include "vernier/limits.h"
#include "vernier/printable.h"
#include "vernier/synthetic.h"

namespace vernier::cli {
namespace {

constexpr int kWarmUpRuns = 3;  // the first creates what a new shape needs
// Of --batch and --length; catches typing errors only.
constexpr int64_t kMaxSize = int64_t{1} << 24;

constexpr int64_t kDefaultLength = 128;

struct Options {
  std::string engine, inputs, lengths_file, mask;
  std::vector<std::string> plugins;
  int threads = 0;
  double seconds = 2, pause = 0;  ///< pause: milliseconds
  size_t runs = 10;
  int64_t batch = 0, length = 0;  ///< 0: not given
  bool json = false, read_into_memory = false;
};

/// The requested size, checked against the engine's range, or a default within it.
int64_t size_of(const PortDim& dim, int64_t asked, int64_t fallback, const char* option) {
  if (asked == 0) return std::clamp(fallback, dim.min, dim.max);
  if (asked < dim.min || asked > dim.max) {
    throw Error(ErrorCode::kInput,
                fmt::format("{} {}: the engine was built for {} = {}..{}; build it with --shapes "
                            "for other sizes",
                            option, asked, dim.text, dim.min, dim.max));
  }
  return asked;
}

/// "batch=4,seq=128": a named size on axis 0 is the batch, every other one the length.
std::string named_sizes(const Engine& engine, const Options& options) {
  std::map<std::string, int64_t> sizes;
  for (const Port& port : engine.inputs()) {
    for (size_t axis = 0; axis < port.dims.size(); ++axis) {
      const PortDim& dim = port.dims[axis];
      if (dim.min == dim.max || dim.text.find_first_of(" +-*(") != std::string::npos) continue;
      sizes.emplace(dim.text, axis == 0 ? size_of(dim, options.batch, 1, "--batch")
                                        : size_of(dim, options.length, kDefaultLength, "--length"));
    }
  }
  std::string text;
  for (const auto& [name, size] : sizes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, size);
  return text;
}

/// Milliseconds of each run, in order. The pauses between runs are not among them.
std::vector<double> time_runs(const Options& options, const std::function<double()>& timed_run) {
  std::vector<double> times;
  const Clock total;
  while (times.size() < options.runs || total.ms() < options.seconds * 1e3) {
    if (options.pause > 0)
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(options.pause));
    times.push_back(timed_run());
  }
  return times;
}

double quantile(const std::vector<double>& sorted, double q) {
  return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
}

constexpr double kGigabyte = 1e9;

double machine_bytes() { return static_cast<double>(machine_memory_bytes()); }

[[noreturn]] void too_large(const std::string& sizes, const std::string& what, double bytes) {
  throw Error(ErrorCode::kMachine,
              fmt::format("{}: {} take {:.1f} GB, but this machine has {:.1f} GB of memory and "
                          "swap; give a smaller --batch or --length",
                          sizes, what, bytes / kGigabyte, machine_bytes() / kGigabyte));
}

/// Do the inputs and the activations of these sizes fit this machine? Before any array is made.
void check_memory(const Engine& engine, Session& session, const std::string& sizes) {
  const std::vector<InputShape> shapes = synthetic_shapes(engine, sizes);
  double input_bytes = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    double bytes = static_cast<double>(size_bytes(engine.inputs()[i].dtype));
    for (int64_t size : shapes[i].shape) bytes *= static_cast<double>(size);
    input_bytes += bytes;
  }
  if (input_bytes > machine_bytes()) too_large(sizes, "the inputs", input_bytes);
  session.prepare(shapes);
  const double all = input_bytes + static_cast<double>(session.arena_bytes());
  if (all > machine_bytes()) too_large(sizes, "the inputs and activations", all);
}

/// The lengths of rows in a text file, one number after the other.
std::vector<int64_t> read_lengths(const std::string& file) {
  const std::string text = read_text_file(file, "lengths");
  std::vector<int64_t> lengths;
  const char *at = text.data(), *const end = at + text.size();
  while (true) {
    at = std::find_if(at, end, [](char c) { return std::isspace(c) == 0 && c != ','; });
    if (at == end) break;
    int64_t length = 0;
    const auto [last, error] = std::from_chars(at, end, length);
    if (error != std::errc{} || length < 1) {
      throw Error(
          ErrorCode::kInput,
          fmt::format("{}: number {} is not a length: '{}'; expected whole numbers from 1, "
                      "in any number of lines",
                      file, lengths.size() + 1, std::string(at, std::find_if(at, end, [](char c) {
                                                              return std::isspace(c) != 0;
                                                            }))));
    }
    lengths.push_back(length);
    at = last;
  }
  if (lengths.empty()) throw Error(ErrorCode::kInput, file + ": holds no length");
  return lengths;
}

/// Rows of these lengths in their order, --batch at a time, each padded to its longest.
int bench_lengths(const Options& options, const Engine& engine, Session& session) {
  const std::vector<int64_t> lengths = read_lengths(options.lengths_file);
  const auto batch = static_cast<size_t>(options.batch > 0 ? options.batch : 32);
  std::vector<NamedTensors> batches;
  int64_t tokens = 0, places = 0;
  for (size_t begin = 0; begin < lengths.size(); begin += batch) {
    const size_t end = std::min(lengths.size(), begin + batch);
    const std::vector<int64_t> rows(lengths.begin() + static_cast<int64_t>(begin),
                                    lengths.begin() + static_cast<int64_t>(end));
    Options of_batch = options;
    of_batch.batch = static_cast<int64_t>(rows.size());
    of_batch.length = std::ranges::max(rows);
    NamedTensors arrays;
    for (const InputArray& array :
         ragged_inputs(engine, named_sizes(engine, of_batch), rows, options.mask))
      arrays.emplace_back(array.name, Tensor::from_bytes(array.dtype, array.shape, array.bytes));
    batches.push_back(std::move(arrays));
    for (int64_t length : rows) tokens += length;
    places += of_batch.batch * of_batch.length;
  }
  std::vector<std::vector<Input>> inputs;
  for (const NamedTensors& arrays : batches) inputs.push_back(as_inputs(arrays));
  const auto run_all = [&] {
    for (const std::vector<Input>& batch_inputs : inputs) session.run(batch_inputs);
  };
  for (int i = 0; i < kWarmUpRuns; ++i) run_all();
  const std::vector<double> times = time_runs(options, [&] {
    const Clock clock;
    run_all();
    return clock.ms();
  });
  std::vector<double> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  const double median = quantile(sorted, 0.5);
  const auto rows = static_cast<double>(lengths.size());
  if (options.json) {
    print_json({{"engine", options.engine},
                {"threads", options.threads},
                {"rows", lengths.size()},
                {"batch", batch},
                {"batches", batches.size()},
                {"tokens", tokens},
                {"padded_tokens", places},
                {"runs", times.size()},
                {"median_ms", median},
                {"rows_per_second", rows * 1e3 / median},
                {"tokens_per_second", static_cast<double>(tokens) * 1e3 / median},
                {"times_ms", times}});
    return 0;
  }
  print_line(fmt::format("{} in {} of up to {}: {} tokens, {} with padding ({:.0f} %)",
                         counted(static_cast<int64_t>(lengths.size()), "row"),
                         counted(static_cast<int64_t>(batches.size()), "batch", "batches"), batch,
                         tokens, places,
                         1e2 * static_cast<double>(places - tokens) / static_cast<double>(places)));
  print_line(fmt::format("median {:.3f} ms for all   {:.1f} rows/s   {:.0f} tokens/s   {}", median,
                         rows * 1e3 / median, static_cast<double>(tokens) * 1e3 / median,
                         counted(static_cast<int64_t>(times.size()), "pass", "passes")));
  return 0;
}

/// The arrays to run on: the user's, or synthetic ones of the requested sizes.
NamedTensors inputs_of(const Engine& engine, Session& session, const Options& options) {
  if (!options.inputs.empty()) return read_inputs(session, options.inputs);
  NamedTensors arrays;
  for (const InputArray& array : synthetic_inputs(engine, named_sizes(engine, options)))
    arrays.emplace_back(array.name, Tensor::from_bytes(array.dtype, array.shape, array.bytes));
  return arrays;
}

int bench(const Options& options) {
  const EngineOptions opening{.kernels = plugin_kernels(options.plugins),
                              .read_into_memory = options.read_into_memory};
  const std::shared_ptr<const Engine> engine = Engine::open(options.engine, opening);
  Session session(engine, {.threads = options.threads});
  if (!options.lengths_file.empty()) return bench_lengths(options, *engine, session);
  if (options.inputs.empty()) check_memory(*engine, session, named_sizes(*engine, options));
  const NamedTensors arrays = inputs_of(*engine, session, options);
  const std::vector<Input> inputs = as_inputs(arrays);
  for (int i = 0; i < kWarmUpRuns; ++i) session.run(inputs);
  const std::vector<double> times = time_runs(options, [&] {
    const Clock clock;
    session.run(inputs);
    return clock.ms();
  });
  std::vector<double> on_device;  // without the copies from and to the host
  if (engine->device() != "cpu") {
    on_device = time_runs(options, [&] { return session.device_milliseconds(inputs, 1); });
    std::sort(on_device.begin(), on_device.end());
  }
  std::vector<double> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  const double median = quantile(sorted, 0.5);
  std::string text;
  for (const auto& [name, array] : arrays)
    text += fmt::format("{} [{}]  ", name, fmt::join(array.shape(), ", "));
  if (options.json) {
    nlohmann::json json{{"engine", options.engine},
                        {"inputs", json_of(arrays)},
                        {"threads", options.threads},
                        {"pause_ms", options.pause},
                        {"runs", times.size()},
                        {"median_ms", median},
                        {"p10_ms", quantile(sorted, 0.1)},
                        {"p90_ms", quantile(sorted, 0.9)},
                        {"times_ms", times}};
    if (!on_device.empty()) json["device_median_ms"] = quantile(on_device, 0.5);
    print_json(json);
    return 0;
  }
  print_line(fmt::format("{}median {:.3f} ms   p10 {:.3f}   p90 {:.3f}   {}", text, median,
                         quantile(sorted, 0.1), quantile(sorted, 0.9),
                         counted(static_cast<int64_t>(times.size()), "run")));
  if (!on_device.empty()) {
    print_line(fmt::format("on the device alone: median {:.4f} ms   p10 {:.4f}   p90 {:.4f}",
                           quantile(on_device, 0.5), quantile(on_device, 0.1),
                           quantile(on_device, 0.9)));
  }
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Run& chosen) {
  CLI::App* command = app.add_subcommand("bench", "Time an engine on synthetic or given inputs");
  const auto options = std::make_shared<Options>();
  command->add_option("ENGINE", options->engine, "engine file (.vn)")->required();
  CLI::Option* inputs = command->add_option("--inputs", options->inputs,
                                            "arrays to run on (.npz) instead of synthetic ones");
  command->add_option("--batch", options->batch, "rows; default 1")
      ->check(CLI::Range(int64_t{1}, kMaxSize))
      ->excludes(inputs);
  command->add_option("--length", options->length, "tokens per row; default 128")
      ->check(CLI::Range(int64_t{1}, kMaxSize))
      ->excludes(inputs);
  CLI::Option* lengths =
      command
          ->add_option("--lengths", options->lengths_file,
                       "text file with the lengths of rows: a mix of yours, --batch rows (32) at a "
                       "time, each batch padded to its longest")
          ->excludes(inputs);
  command->add_option("--mask", options->mask, "the input that says which places are tokens")
      ->needs(lengths);
  add_threads(*command, options->threads);
  add_plugins(*command, options->plugins);
  add_read_into_memory(*command, options->read_into_memory);
  command->add_option("--seconds", options->seconds, "how long to measure")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command
      ->add_option("--pause", options->pause,
                   "milliseconds of rest before each run, as in a service that is not always busy; "
                   "without rests, large batches keep a GPU at its power limit")
      ->check(CLI::Range(0.0, 1e5))
      ->capture_default_str();
  command->add_option("--runs", options->runs, "minimum number of runs")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_flag("--json", options->json,
                    "print the result as JSON, with the time of every run");
  command->footer(
      "Examples:\n"
      "  vernier bench model.vn\n"
      "  vernier bench model.vn --batch 8 --length 128 --threads 2 --seconds 5 --json\n"
      "  vernier bench model.vn --batch 32 --length 512 --pause 100\n"
      "  vernier bench model.vn --lengths lengths.txt --batch 64");
  command->callback([options, &chosen] { chosen = [options] { return bench(*options); }; });
}

}  // namespace vernier::cli
