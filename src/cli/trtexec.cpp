// vernier trtexec: command lines that were written for NVIDIA's trtexec. Every flag is honored,
// taken with a word why it means nothing here, or refused with the reason and what to write
// instead. Contract: docs/migrating_from_tensorrt.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <thread>

#include "cli/arguments.h"
#include "cli/arrays.h"
#include "cli/common.h"
#include "io/text_file.h"
#include "vernier/calibrate.h"
#include "vernier/compile.h"
#include "vernier/error.h"
#include "vernier/inspect.h"
#include "vernier/printable.h"
#include "vernier/synthetic.h"

namespace vernier::cli {
namespace {

struct Options {
  std::string onnx, save, load, min, opt, max, shapes, layer_precisions, layer_output_types,
      constraints, calib, timing_cache, inputs, layer_info, profile, times, output, on, percentiles;
  std::vector<std::string> plugins;
  bool fp16 = false, bf16 = false, int8 = false, fp8 = false, best = false;
  bool no_tf32 = false, typed = false;
  bool skip_inference = false, verbose = false, dump_layers = false, dump_ranges = false,
       dump_profile = false, dump_output = false, no_transfers = false;
  int iterations = 10, streams = 1, average = 10;
  double warm_up_ms = 200, duration_s = 3, idle_ms = 0;
  std::vector<std::string> notes;  ///< about flags that mean nothing here
};

// ---- flags -------------------------------------------------------------------------------------

struct Meaningless {
  const char* flag;
  bool takes_value;
  const char* why;
};
constexpr Meaningless kMeaningless[] = {
    {"--useCudaGraph", false, "runs on a GPU are always replayed as a CUDA graph"},
    {"--useSpinWait", false, "Vernier waits as it always does"},
    {"--exposeDMA", false, "copies are never hidden in the latency"},
    {"--threads", false, "streams have a thread each"},
    {"--separateProfileRun", false, "--dumpProfile always times steps in a run of its own"},
    {"--useManagedMemory", false, "inputs and outputs are in plain memory"},
    {"--useRuntime", true, "there is one runtime"},
    {"--leanDLLPath", true, "there is one runtime"},
    {"--workspace", true, "no kernel has a choice that needs more memory"},
    {"--memPoolSize", true, "no kernel has a choice that needs more memory"},
    {"--builderOptimizationLevel", true, "every build takes the same kernels"},
    {"--maxAuxStreams", true, "an engine runs on one stream"},
    {"--tacticSources", true, "kernels are listed in 'vernier inspect --plan'"},
    {"--profilingVerbosity", true, "engines always keep the names of all nodes"},
    {"--avgTiming", true, "tuning decides by itself how often it times"},
    {"--minTiming", true, "tuning decides by itself how often it times"},
    {"--heuristic", false, "builds take seconds without it"},
    {"--versionCompatible", false, "an engine file says which version reads it"},
    {"--hardwareCompatibilityLevel", true,
     "an engine file runs on every chip that its target "
     "names"},
    {"--refit", false, "build again instead: it takes seconds"},
    {"--stripWeights", false, "engines hold their weights"},
    {"--stripAllWeights", false, "engines hold their weights"},
    {"--sparsity", true, "weights are multiplied as they are"},
    {"--safe", false, "every engine is checked when it is opened"},
    {"--consistency", false, "every engine is checked when it is opened"},
    {"--directIO", false, "inputs and outputs have the model's own layout"},
    {"--inputIOFormats", true, "inputs have the model's own types and layout"},
    {"--outputIOFormats", true, "outputs have the model's own types and layout"},
    {"--timeDeserialize", false, "an engine is mapped, not deserialized: it opens in milliseconds"},
    {"--timeRefit", false, "there is no refit"},
    {"--preview", true, "there are no preview features"},
    {"--previewFeatures", true, "there are no preview features"},
    {"--explicitBatch", false, "batches are always an axis of the model"},
    {"--explicitPrecision", false, "the scales of a quantized model are always its own"},
    {"--minShapesCalib", true, "'vernier calibrate' finds scales, not the build"},
    {"--optShapesCalib", true, "'vernier calibrate' finds scales, not the build"},
    {"--maxShapesCalib", true, "'vernier calibrate' finds scales, not the build"},
    {"--excludeLeanRuntime", false, "engines hold no runtime"},
    {"--noBuilderCache", false, "nothing is stored unless --timingCacheFile names a file"},
    {"--noCompilationCache", false, "nothing is stored unless --timingCacheFile names a file"},
    {"--tempdir", true, "no kernels are compiled while an engine is built"},
    {"--tempfileControls", true, "no kernels are compiled while an engine is built"},
    {"--nvtxMode", true, "steps are timed by --dumpProfile; there are no NVTX ranges"},
    {"--ignoreParsedPluginLibs", false, "only plugins that the command line names are loaded"},
    {"--pluginInstanceNorm", false, "norms always run on Vernier's kernels"},
    {"--maxTactics", true, "every build takes the same kernels"},
    {"--tilingOptimizationLevel", true, "every build takes the same kernels"},
    {"--l2LimitForTiling", true, "every build takes the same kernels"},
    {"--distributiveIndependence", false, "the bits of a row never depend on its batch"},
    {"--runtimePlatform", true, "an engine file says on which chips it runs"},
    {"--persistentCacheRatio", true, "no part of the L2 cache is set aside"},
    {"--allocationStrategy", true, "a session reserves memory for the sizes that it runs"},
    {"--dumpRefit", false, "there is no refit"},
    {"--monitorMemory", false, "memory is shown by 'vernier inspect --memory'"},
    {"--errorOnTimingCacheMiss", false, "what is not in the cache is timed"},
    {"--restricted", false, "there are no restricted kernels"},
};

struct Refused {
  const char* flag;
  bool takes_value;
  const char* why;
};
constexpr Refused kRefused[] = {
    {"--int4", false, "there is no such mode; use --fp16, --bf16, --int8 or --fp8"},
    {"--uff", true, "only ONNX is read; convert the model with tf2onnx and pass it to --onnx"},
    {"--model", true, "only ONNX is read; convert the Caffe model and pass it to --onnx"},
    {"--deploy", true, "only ONNX is read; convert the Caffe model and pass it to --onnx"},
    {"--output", true, "the outputs of an ONNX model are its own; 'vernier extract' makes others"},
    {"--uffInput", true, "only ONNX is read; convert the model with tf2onnx and pass it to --onnx"},
    {"--uffNHWC", false, "only ONNX is read; convert the model with tf2onnx and pass it to --onnx"},
    {"--implicitBatch", false,
     "batches are an axis of the model; give its range with --minShapes "
     "and --maxShapes"},
    {"--batch", true, "batches are an axis of the model; give sizes with --shapes"},
    {"--maxBatch", true, "batches are an axis of the model; give its range with --maxShapes"},
    {"--useDLACore", true, "there is no code for DLA; leave it out to run on the GPU"},
    {"--allowGPUFallback", false, "there is no code for DLA; leave it out with --useDLACore"},
    {"--buildDLAStandalone", false, "there is no code for DLA"},
    {"--layerDeviceTypes", true, "all steps of an engine run on one device"},
    {"--dumpRawBindingsToFile", false,
     "use --exportOutput=FILE.json, or 'vernier run', which "
     "writes .npz"},
    {"--setPluginsToSerialize", true, "plugins stay files of their own (docs/custom_kernels.md)"},
    {"--markDebug", true, "use 'vernier build --outputs A,B', which keeps values as outputs"},
    {"--markUnfusedTensorsAsDebugTensors", false,
     "use 'vernier localise', which compares all values"},
    {"--saveDebugTensors", true, "use 'vernier localise', which compares all values"},
    {"--saveAllDebugTensors", true, "use 'vernier localise', which compares all values"},
    {"--profile", true, "an engine has one range for each size, and no optimization profiles"},
    {"--useProfile", true, "an engine has one range for each size, and no optimization profiles"},
    {"--useOptimizationProfile", true,
     "an engine has one range for each size, and no optimization profiles"},
    {"--setOptProfile", true,
     "an engine has one range for each size, and no optimization profiles"},
    {"--refitFromOnnx", true, "build again instead: it takes seconds"},
    {"--getPlanVersionOnly", false, "an engine of another version is refused when it is opened"},
    {"--remoteAutoTuningConfig", true, "kernels are timed on the GPU of this machine"},
    {"--cpuOnly", false, "use --on=cpu"},
    {"--weightStreaming", false, "weights are not streamed: they must fit the device"},
    {"--weightStreamingBudget", true, "weights are not streamed: they must fit the device"},
    {"--allowWeightStreaming", false, "weights are not streamed: they must fit the device"},
};

[[noreturn]] void wrong(const std::string& what) { throw Error(ErrorCode::kInput, what); }

// ---- shapes ------------------------------------------------------------------------------------

using Shapes = std::map<std::string, std::vector<int64_t>>;

// "ids:1x4,'mask':1x4" -> {ids: {1, 4}, mask: {1, 4}}. Names may hold colons.
Shapes parse_shapes(const std::string& text, const char* flag) {
  Shapes shapes;
  if (text.empty()) return shapes;
  for (const std::string& part : split_list(text, flag)) {
    const size_t colon = part.rfind(':');
    std::string name = part.substr(0, colon);
    if (name.size() > 1 && (name.front() == '\'' || name.front() == '"') &&
        name.front() == name.back())
      name = name.substr(1, name.size() - 2);
    std::vector<int64_t> sizes;
    bool good = colon != std::string::npos && colon > 0 && !name.empty();
    std::string digits = good ? part.substr(colon + 1) : "";
    good = good && (digits == "scalar" || digits.empty() ||
                    digits.find_first_not_of("0123456789x") == std::string::npos);
    if (good && digits != "scalar") {
      std::replace(digits.begin(), digits.end(), 'x', ',');
      if (!digits.empty()) sizes = parse_sizes(digits, flag);
    }
    if (!good || !shapes.emplace(name, sizes).second)
      wrong(fmt::format("{}={}: '{}' is not NAME:1x128, each name once", flag, text, part));
  }
  return shapes;
}

std::string shape_text(const std::vector<int64_t>& sizes) {
  return fmt::format("{}", fmt::join(sizes, "x"));
}

// Ranges as CompileOptions::shapes has them, by input: "ids=1..8..32x4..128..512".
std::string ranges_of(const Options& options) {
  const Shapes opt = parse_shapes(options.opt, "--optShapes");
  const Shapes min = options.min.empty() ? opt : parse_shapes(options.min, "--minShapes");
  const Shapes max = options.max.empty() ? opt : parse_shapes(options.max, "--maxShapes");
  if (opt.empty() && (!min.empty() || !max.empty()))
    wrong("--minShapes and --maxShapes need --optShapes, the shapes that the engine is tuned for");
  std::string text;
  for (const auto& [name, sizes] : opt) {
    const auto low = min.find(name), high = max.find(name);
    if (low == min.end() || high == max.end() || low->second.size() != sizes.size() ||
        high->second.size() != sizes.size()) {
      wrong(
          fmt::format("input '{}' has --optShapes {} and other or no axes in --minShapes or "
                      "--maxShapes; give all three",
                      name, shape_text(sizes)));
    }
    text += (text.empty() ? "" : ",") + name + "=";
    for (size_t i = 0; i < sizes.size(); ++i) {
      text +=
          fmt::format("{}{}..{}..{}", i == 0 ? "" : "x", low->second[i], sizes[i], high->second[i]);
    }
  }
  for (const Shapes* other : {&min, &max}) {
    for (const auto& [name, sizes] : *other) {
      if (!opt.contains(name))
        wrong(fmt::format("input '{}' has no --optShapes; give all three", name));
    }
  }
  return text;
}

// The named sizes of the engine that make its inputs have these shapes: "batch=8,seq=128".
std::string named_sizes(const Engine& engine, const Shapes& shapes, const char* flag) {
  std::map<std::string, int64_t> sizes;
  for (const auto& [name, wanted] : shapes) {
    const auto port = std::ranges::find(engine.inputs(), name, &Port::name);
    if (port == engine.inputs().end())
      wrong(fmt::format("{}: the engine has no input '{}'", flag, name));
    if (port->dims.size() != wanted.size()) {
      wrong(fmt::format("{}: input '{}' is {}, got {}", flag, name, port->shape_text(),
                        shape_text(wanted)));
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      const PortDim& dim = port->dims[i];
      if (wanted[i] < dim.min || wanted[i] > dim.max) {
        wrong(fmt::format("{}: axis {} of input '{}' is {}, and the engine was built for {}..{}",
                          flag, i, name, wanted[i], dim.min, dim.max));
      }
      if (dim.min == dim.max || dim.text.find_first_of(" +-*(") != std::string::npos) continue;
      const auto known = sizes.emplace(dim.text, wanted[i]).first;
      if (known->second != wanted[i]) {
        wrong(fmt::format("{}: size '{}' is {} in one input and {} in '{}'", flag, dim.text,
                          known->second, wanted[i], name));
      }
    }
  }
  std::string text;
  for (const auto& [name, size] : sizes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, size);
  return text;
}

// ---- the engine --------------------------------------------------------------------------------

// TensorRT's default is FP32 with TF32 products; a strongly typed network has the model's types.
std::string mode_of(const Options& options, const std::string& device) {
  if (options.typed) {
    if (options.fp16 || options.bf16 || options.int8 || options.fp8 || options.best)
      wrong(
          "--stronglyTyped keeps the model's own types, and --fp16, --bf16, --int8, --fp8 and "
          "--best change them; give one or the other");
    return "model";
  }
  if (options.int8 || options.best) return "int8";
  if (options.fp8) return "fp8";
  if (options.fp16) return "fp16";
  if (options.bf16) return "bf16";
  return device == "cuda" && !options.no_tf32 ? "tf32" : "fp32";
}

std::shared_ptr<const Engine> built(Options& options) {
  CompileOptions compile_options;
  const std::string no_gpu = why_unavailable("cuda");
  compile_options.device = !options.on.empty() ? options.on : no_gpu.empty() ? "cuda" : "cpu";
  if (options.on.empty() && !no_gpu.empty())
    options.notes.push_back("the engine is for the CPU: " + no_gpu);
  compile_options.kernels = plugin_kernels(options.plugins);
  compile_options.mode = mode_of(options, compile_options.device);
  compile_options.shapes = ranges_of(options);
  compile_options.layer_precisions = options.layer_precisions;
  compile_options.layer_output_types = options.layer_output_types;
  if (options.constraints == "obey") compile_options.precision_constraints = "obey";
  if (options.constraints == "prefer" || options.constraints == "none") {
    options.notes.push_back("--precisionConstraints=" + options.constraints +
                            ": rules always bind; leave out what need not hold");
  }
  compile_options.tuning_file = options.timing_cache;
  std::filesystem::path scales;
  if (!options.calib.empty()) {
    scales = std::filesystem::temp_directory_path() /
             fmt::format("vernier_trtexec_{}.json",
                         std::chrono::steady_clock::now().time_since_epoch().count());
    import_cache({.model = options.onnx, .cache = options.calib, .output = scales, .limits = {}});
    compile_options.scales = read_text_file(scales.string(), "scales");
    compile_options.scales_file = options.calib;
    compile_options.static_scales = true;
    std::filesystem::remove(scales);
  }
  const Clock clock;
  Progress progress("building the engine of " + options.onnx);
  compile_options.progress = [&](std::string_view name) { progress.stage(name); };
  CompileReport report;
  std::shared_ptr<const Engine> engine;
  const EngineOptions opening{.kernels = compile_options.kernels};
  if (options.save.empty()) {
    auto bytes = compile_to_bytes(options.onnx, compile_options, &report);
    engine = opening.kernels ? Engine::from_bytes(std::move(bytes), *opening.kernels)
                             : Engine::from_bytes(std::move(bytes));
  } else {
    report = compile(options.onnx, options.save, compile_options);
    engine = Engine::open(options.save, opening);
  }
  print_line(fmt::format("Engine built in {:.3f} sec. ({}, {}, {})", clock.ms() / 1e3,
                         compile_options.device, compile_options.mode,
                         counted(report.steps, "step")));
  if (options.verbose) {
    for (const std::string& note : report.notes) print_line("note: " + note);
  }
  return engine;
}

// ---- inputs ------------------------------------------------------------------------------------

std::vector<std::byte> file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) wrong("--loadInputs: cannot read '" + path + "'");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

// Seeded arrays of the asked shapes, and those of files: raw elements of the input's type.
std::vector<InputArray> inputs_of(const Engine& engine, const Options& options) {
  const char* flag = !options.shapes.empty() ? "--shapes" : "--optShapes";
  const Shapes shapes = parse_shapes(!options.shapes.empty() ? options.shapes : options.opt, flag);
  std::vector<InputArray> arrays = synthetic_inputs(engine, named_sizes(engine, shapes, flag));
  if (options.inputs.empty()) return arrays;
  for (const std::string& part : split_list(options.inputs, "--loadInputs")) {
    const size_t colon = part.find(':');
    std::string name = part.substr(0, colon);
    if (name.size() > 1 && name.front() == '\'' && name.back() == '\'')
      name = name.substr(1, name.size() - 2);
    const auto array = std::ranges::find(arrays, name, &InputArray::name);
    if (colon == std::string::npos || array == arrays.end())
      wrong(fmt::format("--loadInputs: '{}' is not INPUT:FILE with an input of the engine", part));
    std::vector<std::byte> bytes = file_bytes(part.substr(colon + 1));
    if (bytes.size() != array->bytes.size()) {
      wrong(
          fmt::format("--loadInputs: '{}' has {} bytes, and input '{}' of shape {} takes {} "
                      "elements of {}: {} bytes; give the shape with --shapes",
                      part.substr(colon + 1), bytes.size(), name, shape_text(array->shape),
                      array->bytes.size() / size_bytes(array->dtype), vernier::name(array->dtype),
                      array->bytes.size()));
    }
    array->bytes = std::move(bytes);
  }
  return arrays;
}

// ---- times -------------------------------------------------------------------------------------

struct Times {
  std::vector<double> latency_ms;  ///< of every run, with the copies from and to the host
  std::vector<double> device_ms;   ///< without them; empty on a CPU
  double wall_ms = 0;
};

// One stream: at least `iterations` runs and `duration_s`, after the warm-up.
void time_stream(const Options& options, Session& session, std::span<const Input> inputs,
                 std::vector<double>& latency) {
  const Clock warm_up;
  do {
    session.run(inputs);
  } while (warm_up.ms() < options.warm_up_ms);
  const Clock total;
  while (static_cast<int>(latency.size()) < options.iterations ||
         total.ms() < options.duration_s * 1e3) {
    if (options.idle_ms > 0)
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(options.idle_ms));
    const Clock clock;
    session.run(inputs);
    latency.push_back(clock.ms());
  }
}

Times timed(const Options& options, const std::shared_ptr<const Engine>& engine,
            std::span<const Input> inputs) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < options.streams; ++i) sessions.push_back(std::make_unique<Session>(engine));
  std::vector<std::vector<double>> latency(sessions.size());
  std::vector<std::exception_ptr> failed(sessions.size());
  const Clock wall;
  std::vector<std::thread> others;
  const auto run = [&](size_t i) {
    try {
      time_stream(options, *sessions[i], inputs, latency[i]);
    } catch (...) {
      failed[i] = std::current_exception();
    }
  };
  for (size_t i = 1; i < sessions.size(); ++i) others.emplace_back(run, i);
  run(0);
  for (std::thread& other : others) other.join();
  Times times;
  times.wall_ms = std::max(wall.ms() - options.warm_up_ms, 1e-3);
  for (const std::exception_ptr& error : failed) {
    if (error) std::rethrow_exception(error);
  }
  for (const std::vector<double>& part : latency)
    times.latency_ms.insert(times.latency_ms.end(), part.begin(), part.end());
  if (engine->device() == "cpu") return times;
  const size_t count = std::clamp<size_t>(times.latency_ms.size(), 10, 1000);
  for (size_t i = 0; i < count; ++i)
    times.device_ms.push_back(sessions[0]->device_milliseconds(inputs, 1));
  return times;
}

std::vector<double> percentiles_of(const Options& options) {
  std::vector<double> all;
  for (const std::string& text : split_list(options.percentiles, "--percentile")) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (*end != 0 || !(value >= 0 && value <= 100))
      wrong("--percentile=" + options.percentiles + ": expected numbers from 0 to 100");
    all.push_back(value);
  }
  return all;
}

// "min = 1.2 ms, max = …, mean = …, median = …, percentile(90%) = …"
std::string summary(std::vector<double> ms, const std::vector<double>& percentiles) {
  std::sort(ms.begin(), ms.end());
  const auto at = [&ms](double percent) {
    const auto last = static_cast<double>(ms.size() - 1);
    return ms[static_cast<size_t>(std::lround(percent / 100 * last))];
  };
  const double mean = std::accumulate(ms.begin(), ms.end(), 0.0) / static_cast<double>(ms.size());
  std::string text = fmt::format(
      "min = {:.6g} ms, max = {:.6g} ms, mean = {:.6g} ms, median = "
      "{:.6g} ms",
      ms.front(), ms.back(), mean, at(50));
  for (double percent : percentiles)
    text += fmt::format(", percentile({:g}%) = {:.6g} ms", percent, at(percent));
  return text;
}

void print_summary(const Options& options, const Times& times) {
  const std::vector<double> percentiles = percentiles_of(options);
  print_line("=== Performance summary ===");
  print_line(fmt::format("Throughput: {:.6g} qps",
                         1e3 * static_cast<double>(times.latency_ms.size()) / times.wall_ms));
  if (!options.no_transfers || times.device_ms.empty())
    print_line("Latency: " + summary(times.latency_ms, percentiles));
  if (!times.device_ms.empty())
    print_line("GPU Compute Time: " + summary(times.device_ms, percentiles));
  print_line(fmt::format("Total Host Walltime: {:.6g} s", times.wall_ms / 1e3));
  if (options.streams > 1) print_line(fmt::format("Streams: {}", options.streams));
}

// ---- files -------------------------------------------------------------------------------------

std::vector<double> values_of(const Output& output) {
  const auto count =
      std::accumulate(output.shape.begin(), output.shape.end(), int64_t{1}, std::multiplies<>());
  const Tensor tensor =
      Tensor::from_bytes(output.dtype, {output.shape.begin(), output.shape.end()},
                         {static_cast<const std::byte*>(output.data), output.bytes});
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(is_float(output.dtype) ? tensor.float_at(i)
                                            : static_cast<double>(tensor.integer_at(i)));
  return values;
}

nlohmann::json outputs_json(Session& session, std::span<const Input> inputs) {
  nlohmann::json all = nlohmann::json::array();
  for (const Output& output : session.run(inputs)) {
    all.push_back({{"name", output.name},
                   {"dimensions", shape_text({output.shape.begin(), output.shape.end()})},
                   {"values", values_of(output)}});
  }
  return all;
}

void write_json(const std::string& path, const char* what, const nlohmann::json& value) {
  io::write_text_file(path, what, value.dump(2) + "\n");
}

void show_layers(const Options& options, const Engine& engine) {
  EngineInspection what;
  what.view = EngineView::kPlan;
  if (options.dump_layers) print(inspect_engine(engine, what));
  if (options.layer_info.empty()) return;
  what.format = InspectFormat::kJson;
  io::write_text_file(options.layer_info, "layer information", inspect_engine(engine, what));
}

void show_ranges(const Options& options, const Engine& engine) {
  if (!options.dump_ranges) return;
  print_line("=== Ranges of sizes ===");
  for (const Port& port : engine.inputs())
    print_line("input " + printable(port.name) + ": " + port.shape_text());
  for (const Port& port : engine.outputs())
    print_line("output " + printable(port.name) + ": " + port.shape_text());
}

void show_profile(const Options& options, const Engine& engine, const std::string& sizes) {
  EngineInspection what;
  what.view = EngineView::kTiming;
  what.shapes = sizes;
  if (options.dump_profile) print(inspect_engine(engine, what));
  if (options.profile.empty()) return;
  what.format = InspectFormat::kJson;
  io::write_text_file(options.profile, "profile", inspect_engine(engine, what));
}

void check_writable(const Options& options) {
  std::vector<std::string> read{options.onnx, options.load, options.calib};
  std::erase(read, std::string());
  const std::vector<std::pair<std::string, std::string>> written{
      {options.save, "engine"},
      {options.layer_info, "layer information"},
      {options.profile, "profile"},
      {options.times, "times"},
      {options.output, "outputs"}};
  for (const auto& [path, what] : written) {
    if (path.empty()) continue;
    check_keeps_inputs(path, read);
    io::check_can_write(path, what);
  }
}

int trtexec(Options options) {
  if (options.onnx.empty() == options.load.empty())
    wrong(
        "vernier trtexec needs a model (--onnx=model.onnx) or an engine (--loadEngine=model.vn), "
        "not both");
  check_writable(options);
  percentiles_of(options);  // refused before the work
  std::shared_ptr<const Engine> engine;
  if (options.load.empty()) {
    engine = built(options);
  } else {
    const EngineOptions opening{.kernels = plugin_kernels(options.plugins)};
    engine = Engine::open(options.load, opening);
  }
  for (const std::string& note : options.notes) print_line("note: " + note);
  show_layers(options, *engine);
  show_ranges(options, *engine);
  if (options.skip_inference) {
    print_line("PASSED vernier trtexec (inference skipped)");
    return 0;
  }
  const std::vector<InputArray> arrays = inputs_of(*engine, options);
  std::vector<Input> inputs;
  for (const InputArray& array : arrays) inputs.push_back(array.ref());
  const Times times = timed(options, engine, inputs);
  print_summary(options, times);
  if (options.dump_output || !options.output.empty()) {
    Session session(engine);
    const nlohmann::json outputs = outputs_json(session, inputs);
    if (options.dump_output) print_json(outputs);
    if (!options.output.empty()) write_json(options.output, "outputs", outputs);
  }
  if (options.dump_profile || !options.profile.empty()) {
    Shapes shapes;
    for (const InputArray& array : arrays) shapes[array.name] = array.shape;
    show_profile(options, *engine, named_sizes(*engine, shapes, "--shapes"));
  }
  if (!options.times.empty()) {
    nlohmann::json rows = nlohmann::json::array();
    for (const double ms : times.latency_ms) rows.push_back({{"latencyMs", ms}});
    write_json(options.times, "times", rows);
  }
  print_line("PASSED vernier trtexec");
  return 0;
}

// ---- registration ------------------------------------------------------------------------------

void add_meaningless(CLI::App& command, const std::shared_ptr<Options>& options) {
  for (const Meaningless& flag : kMeaningless) {
    const std::string note = std::string(flag.flag) + " changes nothing: " + flag.why;
    const auto take = [options, note] { options->notes.push_back(note); };
    if (flag.takes_value)
      command.add_option_function<std::string>(flag.flag, [take](const std::string&) { take(); })
          ->group("Taken without effect");
    else
      command.add_flag_callback(flag.flag, take)->group("Taken without effect");
  }
}

void add_refused(CLI::App& command) {
  for (const Refused& flag : kRefused) {
    const std::string message = std::string(flag.flag) + ": " + flag.why;
    const auto refuse = [message] { wrong(message); };
    if (flag.takes_value)
      command
          .add_option_function<std::string>(flag.flag, [refuse](const std::string&) { refuse(); })
          ->group("");
    else
      command.add_flag_callback(flag.flag, refuse)->group("");
  }
}

void add_build_flags(CLI::App& command, Options& options) {
  command.add_option("--onnx", options.onnx, "ONNX model");
  command.add_option("--saveEngine", options.save, "write the engine to this file");
  command.add_option("--loadEngine", options.load, "run this engine; nothing is built");
  command.add_option("--minShapes", options.min, "smallest shapes: ids:1x4,mask:1x4");
  command.add_option("--optShapes", options.opt, "shapes that the engine is tuned for");
  command.add_option("--maxShapes", options.max, "largest shapes");
  command.add_flag("--fp16", options.fp16, "FP16 products and storage");
  command.add_flag("--bf16", options.bf16, "BF16 products and storage");
  command.add_flag("--int8", options.int8, "INT8 products, 16 bits for the rest");
  command.add_flag("--fp8", options.fp8, "FP8 products, 16 bits for the rest");
  command.add_flag("--best", options.best, "INT8 products where they keep the error bound");
  command.add_flag("--noTF32", options.no_tf32, "FP32 products do not take TF32 operands");
  command.add_flag("--stronglyTyped", options.typed, "the model's own types");
  command.add_option("--layerPrecisions", options.layer_precisions,
                     "types by layer: LayerNormalization_*:fp32,Softmax_12:fp32");
  command.add_option("--layerOutputTypes", options.layer_output_types, "types of layers' outputs");
  command.add_option("--precisionConstraints", options.constraints, "obey, which is always so")
      ->check(CLI::IsMember({"obey", "prefer", "none"}));
  command.add_option("--calib", options.calib, "a calibration cache, with --int8");
  command.add_option("--timingCacheFile", options.timing_cache, "record of what tuning timed");
  for (const char* flag : {"--plugins", "--dynamicPlugins", "--staticPlugins"})
    command.add_option(flag, options.plugins, "kernels of a library (.so)");
  command.add_flag("--skipInference,--buildOnly", options.skip_inference, "build only");
  command.add_option("--on", options.on, "cpu or cuda [the GPU, if there is one] (not trtexec's)")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command.add_option_function<int>(
      "--device",
      [](int number) {
        if (number != 0)
          wrong(
              fmt::format("--device={}: engines run on the first GPU; choose it with "
                          "CUDA_VISIBLE_DEVICES={}",
                          number, number));
      },
      "0: the first GPU");
}

void add_inference_flags(CLI::App& command, Options& options) {
  command.add_option("--shapes", options.shapes, "shapes to run [those of --optShapes]");
  command.add_option("--loadInputs", options.inputs, "raw arrays: ids:ids.bin,mask:mask.bin");
  command.add_option("--iterations", options.iterations, "at least so many runs")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command.add_option("--warmUp", options.warm_up_ms, "milliseconds before it is measured")
      ->check(CLI::Range(0.0, 1e7))
      ->capture_default_str();
  command.add_option("--duration", options.duration_s, "at least so many seconds")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command.add_option("--idleTime,--sleepTime", options.idle_ms, "milliseconds before each run")
      ->check(CLI::Range(0.0, 1e6));
  command.add_option("--avgRuns", options.average, "times are never averages here")
      ->check(CLI::Range(1, 1 << 30));
  command.add_option("--streams,--infStreams", options.streams, "sessions, a thread each")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command.add_option("--percentile", options.percentiles, "percentiles of the summary")
      ->capture_default_str();
  command.add_flag("--noDataTransfers", options.no_transfers, "times of the GPU alone");
  command.add_flag("--verbose", options.verbose, "the notes of the build");
  command.add_flag("--dumpLayerInfo", options.dump_layers, "print the steps of the engine");
  command.add_option("--exportLayerInfo", options.layer_info, "the same as JSON");
  command.add_flag("--dumpOptimizationProfile", options.dump_ranges,
                   "print inputs and outputs with the ranges of their sizes");
  command.add_flag("--dumpProfile", options.dump_profile, "print the time of each step");
  command.add_option("--exportProfile", options.profile, "the same as JSON");
  command.add_option("--exportTimes", options.times, "the time of each run, as JSON");
  command.add_flag("--dumpOutput", options.dump_output, "print the outputs");
  command.add_option("--exportOutput", options.output, "the outputs as JSON");
}

}  // namespace

void add_trtexec(CLI::App& app, Run& chosen) {
  CLI::App* command = app.add_subcommand(
      "trtexec", "Build and time as NVIDIA's trtexec does: its command lines, unchanged");
  const auto options = std::make_shared<Options>();
  options->percentiles = "90,95,99";
  add_build_flags(*command, *options);
  add_inference_flags(*command, *options);
  add_meaningless(*command, options);
  add_refused(*command);
  command->footer(
      "Examples:\n"
      "  vernier trtexec --onnx=model.onnx --saveEngine=model.vn --fp16 "
      "--minShapes=ids:1x4,mask:1x4\n"
      "      --optShapes=ids:8x128,mask:8x128 --maxShapes=ids:32x512,mask:32x512\n"
      "  vernier trtexec --loadEngine=model.vn --shapes=ids:1x128,mask:1x128 --warmUp=500\n"
      "docs/migrating_from_tensorrt.md says what every flag means here");
  command->callback([options, &chosen] { chosen = [options] { return trtexec(*options); }; });
}

}  // namespace vernier::cli
