// vernier build: a model into an engine file. Contract: docs/commands.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/arguments.h"
#include "cli/common.h"
#include "io/text_file.h"
#include "vernier/compare.h"
#include "vernier/compile.h"
#include "vernier/error.h"
#include "vernier/printable.h"
#include "vernier/verify.h"

namespace vernier::cli {
namespace {

struct Options {
  std::string model, engine, shapes, outputs, tolerance, tuning, device = "cpu";
  std::vector<std::string> fuse, plugins;
  std::string unpad = "auto";
  std::vector<std::string> rules;
  std::string policy, save_policy, layer_precisions, layer_output_types, constraints, scales;
  std::string export_qdq;
  bool static_scales = false;
  bool fp32 = false, tf32 = false, fp16 = false, bf16 = false, int8 = false, fp8 = false,
       w8 = false, w4 = false;
  LimitOptions limits;
  bool seed_missing_weights = false, verify = false, json = false, accept_declared = false,
       stamp = false;
  bool no_compare = false, force = false, no_canary = false;
  double int8_error = 100 * CompileOptions().int8_error;  ///< percent
};

/// "qkv_merge=off" -> "qkv_merge".
std::string pass_switched_off(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || text.substr(equals) != "=off") {
    throw Error(ErrorCode::kInput,
                "--fuse '" + text + "': write PASS=off, e.g. --fuse linear_activation=off");
  }
  return text.substr(0, equals);
}

/// Does the verdict go into the file? Under limits of the user's own only if --stamp asks for it.
bool stamps(const Options& options) { return options.tolerance.empty() || options.stamp; }

/// Verifies the engine just built and stamps it; the report goes where the build's does.
verify::Report verify_built(const Options& options, const Limits& limits) {
  verify::Request request;
  request.model = options.model;
  request.engine = options.engine;
  request.kernels = plugin_kernels(options.plugins);
  request.tolerance = verify::parse_tolerance(options.tolerance);
  request.accept_declared = options.accept_declared;
  request.limits = limits;
  Progress progress("verifying " + options.engine);
  request.progress = [&](const std::string& stage) { progress.stage(stage); };
  return stamps(options) ? verify::verify_and_stamp(request) : verify::verify(request);
}

std::string mode_of(const Options& options) {
  std::string mode;
  for (const auto& [given, name] :
       {std::pair{options.fp32, "fp32"}, std::pair{options.tf32, "tf32"},
        std::pair{options.fp16, "fp16"}, std::pair{options.bf16, "bf16"},
        std::pair{options.int8, "int8"}, std::pair{options.fp8, "fp8"}, std::pair{options.w8, "w8"},
        std::pair{options.w4, "w4"}}) {
    if (!given) continue;
    if (!mode.empty()) {
      throw Error(ErrorCode::kInput, "--" + mode + " and --" + name +
                                         " exclude each other: a build has one mode; change single "
                                         "nodes with --rule");
    }
    mode = name;
  }
  return mode;
}

void take_precision(const Options& options, CompileOptions& compile_options) {
  compile_options.mode = mode_of(options);
  compile_options.rules = options.rules;
  compile_options.layer_precisions = options.layer_precisions;
  compile_options.layer_output_types = options.layer_output_types;
  compile_options.precision_constraints = options.constraints;
  compile_options.static_scales = options.static_scales;
  compile_options.export_qdq = options.export_qdq;
  compile_options.int8_error = options.int8_error / 100;
  if (!options.scales.empty()) {
    compile_options.scales = read_text_file(options.scales, "scales");
    compile_options.scales_file = options.scales;
  }
  if (options.policy.empty()) return;
  compile_options.policy = read_text_file(options.policy, "policy");
  compile_options.policy_file = options.policy;
}

/// As the mode asks; int8, fp8, w8 and w4 only where they are no slower than 16 bits, unless the
/// options say otherwise.
ComparedReport built(const Options& options, const CompileOptions& compile_options) {
  if (options.no_compare)
    return {compile(options.model, options.engine, compile_options), std::nullopt};
  using enum CompareOptions::Keep;
  return compile_faster(options.model, options.engine, compile_options,
                        {.keep = options.force ? kQuantized : kFaster});
}

int build(const Options& options) {
  check_keeps_inputs(options.engine, {options.model, options.scales});
  check_keeps_inputs(options.export_qdq, {options.model, options.scales, options.policy});
  if (!options.tolerance.empty() && !options.verify) {
    throw Error(ErrorCode::kInput,
                "--tolerance limits what --verify accepts; add --verify to the build");
  }
  if ((options.stamp || options.accept_declared) && !options.verify) {
    throw Error(ErrorCode::kInput,
                std::string(options.stamp ? "--stamp" : "--accept-declared") +
                    " is about the verdict of --verify; add --verify to the build");
  }
  verify::parse_tolerance(options.tolerance);  // refused before the work
  if (!options.save_policy.empty()) {
    check_keeps_inputs(options.save_policy, {options.model, options.export_qdq});
    io::check_can_write(options.save_policy, "policy");
  }
  CompileOptions compile_options;
  compile_options.limits = limits_of(options.limits);
  compile_options.device = options.device;
  compile_options.kernels = plugin_kernels(options.plugins);
  compile_options.shapes = options.shapes;
  compile_options.tuning_file = options.tuning;
  compile_options.seed_missing_weights = options.seed_missing_weights;
  compile_options.canary = !options.no_canary;
  if (!options.outputs.empty())
    compile_options.extra_outputs = split_list(options.outputs, "--outputs");
  for (const std::string& text : options.fuse) {
    compile_options.passes_off.push_back(pass_switched_off(text));
  }
  if (options.unpad == "off") compile_options.passes_off.emplace_back("unpad");
  compile_options.zero_fill = options.unpad == "zero-fill";
  take_precision(options, compile_options);
  ComparedReport all;
  {
    Progress progress("building " + options.engine);
    compile_options.progress = [&](std::string_view name) { progress.stage(name); };
    all = built(options, compile_options);
  }
  const CompileReport& report = all.build;
  if (!options.save_policy.empty())
    io::write_text_file(options.save_policy, "policy", report.policy);
  std::optional<verify::Report> verdict;
  if (options.verify) verdict = verify_built(options, compile_options.limits);
  const int code = !verdict || verdict->passed() ? 0 : static_cast<int>(ErrorCode::kCheckFailed);
  if (options.json) {
    nlohmann::json json{{"engine", options.engine},
                        {"weight_bytes", report.weight_bytes},
                        {"onnx_nodes", report.onnx_nodes},
                        {"steps", report.steps},
                        {"fallback_steps", report.fallback_steps},
                        {"notes", report.notes},
                        {"ms", report.ms}};
    if (all.comparison) json["comparison"] = nlohmann::json::parse(to_json(*all.comparison));
    if (verdict) {
      json["verification"] = nlohmann::json::parse(verify::to_json(*verdict));
      json["stamped"] = stamps(options);
    }
    print_json(json);
    return code;
  }
  print_line(fmt::format("{}: {}, {} ({} on the FP64 evaluator), {:.1f} MB of weights, {:.2f} s",
                         options.engine, counted(report.onnx_nodes, "ONNX node"),
                         counted(report.steps, "step"), report.fallback_steps,
                         static_cast<double>(report.weight_bytes) / 1e6, report.ms / 1e3));
  for (const std::string& note : report.notes) print_line("note: " + note);
  if (verdict) print(verify::to_text(*verdict));
  if (verdict && !stamps(options)) {
    print_line(
        "not stamped: the limits of --tolerance are your own; --stamp writes the verdict into "
        "the file, and 'vernier run --require-certificate' takes it with "
        "--accept-own-tolerance");
  }
  return code;
}

}  // namespace

void add_build(CLI::App& app, Run& chosen) {
  CLI::App* command = app.add_subcommand("build", "Compile an ONNX model into an engine file");
  const auto options = std::make_shared<Options>();
  command->add_option("MODEL", options->model, "ONNX file")->required();
  command->add_option("-o,--output", options->engine, "engine file to write (.vn)")->required();
  command
      ->add_option_function<std::string>(
          "--saveEngine",
          [](const std::string& file) {
            throw Error(ErrorCode::kInput,
                        "--saveEngine is trtexec's; write -o " + file +
                            ", or run the whole command line with 'vernier trtexec'");
          })
      ->group("");
  add_device(*command, options->device);
  add_plugins(*command, options->plugins);
  command->add_flag("--fp32", options->fp32,
                    "compute and store in FP32, whatever types the model was exported with");
  command->add_flag("--tf32", options->tf32, "products may take TF32 operands");
  command->add_flag("--fp16", options->fp16,
                    "products take FP16 operands, values are stored in FP16; the rest computes in "
                    "FP32");
  command->add_flag("--bf16", options->bf16, "as --fp16, in BF16");
  command->add_flag(
      "--int8", options->int8,
      "products with a constant weight take INT8 operands, scaled by row; the rest is "
      "as with --fp16");
  command->add_flag(
      "--fp8", options->fp8,
      "as --int8, with FP8 (E4M3) operands: for GPUs; a CPU computes the same, slowly");
  command->add_flag(
      "--w8", options->w8,
      "for one row: weights of products in INT8, a scale for each column; the rest is "
      "as with --bf16 on a CPU, with --fp16 on a GPU");
  command->add_flag("--w4", options->w4, "as --w8, in 4 bits: a scale for each column and 32 rows");
  command
      ->add_option("--rule", options->rules,
                   "change the precision of nodes, e.g. 'op:LayerNorm compute=f32'; later rules "
                   "win")
      ->allow_extra_args(false);
  command->add_option("--policy", options->policy, "read mode and rules from this JSON file");
  command->add_option("--save-policy", options->save_policy,
                      "write mode and rules to this JSON file");
  command->add_option("--layerPrecisions", options->layer_precisions,
                      "trtexec's spelling of compute rules, e.g. 'LayerNormalization_*:fp32'");
  command->add_option("--layerOutputTypes", options->layer_output_types,
                      "trtexec's spelling of store rules");
  command->add_option("--precisionConstraints", options->constraints,
                      "trtexec's; 'obey' is what Vernier always does");
  command->add_option(
      "--scales", options->scales,
      "with --int8 or --fp8: factors of channels from this file, as 'vernier calibrate' "
      "writes it");
  command->add_flag(
      "--static", options->static_scales,
      "with --scales: quantized operands take the file's static ranges, not that of each "
      "row; less exact");
  command->add_option(
      "--export-qdq", options->export_qdq,
      "with --int8 and --static, or with --fp8: also write the model with its products "
      "of 8 bits as QuantizeLinear and DequantizeLinear (.onnx), for other runtimes");
  command
      ->add_option(
          "--int8-error", options->int8_error,
          "with --int8, --fp8, --w8 and --w4: percent by which quantization may move an output, "
          "rms; the products that cost most are kept in 16 bits (of --w4 in w8) until it "
          "holds; from 100 on nothing is measured")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  command->add_flag("--no-canary", options->no_canary,
                    "do not run the engine on seeded inputs and record the hashes of its answers");
  CLI::Option* no_compare = command->add_flag(
      "--no-compare", options->no_compare,
      "with --int8, --fp8, --w8 and --w4: do not time the engine beside one in 16 bits");
  command
      ->add_flag(
          "--force", options->force,
          "with --int8, --fp8, --w8 and --w4: keep the engine even where it is slower than 16 bits")
      ->excludes(no_compare);
  command->add_option("--shapes", options->shapes,
                      "range of each named size, e.g. 'batch=1..32,seq=4..512'");
  command->add_option(
      "--tuning", options->tuning,
      "JSON file of the fastest variants on the device: read if it exists, completed "
      "and written; the same file gives the same engine");
  command->add_option(
      "--outputs", options->outputs,
      "also return these values of the graph, e.g. Add_12,Softmax_3; they have their "
      "padding, which is then computed");
  command
      ->add_option(
          "--unpad", options->unpad,
          "auto computes only tokens where padding reaches no output; zero-fill makes outputs that "
          "have a place for each token 0 at padding, and computes only tokens for them, too; off "
          "computes padding")
      ->check(CLI::IsMember({"auto", "off", "zero-fill"}));
  command->add_option("--fuse", options->fuse, "PASS=off switches an optional pass off")
      ->allow_extra_args(false);
  command->add_flag("--seed-missing-weights", options->seed_missing_weights,
                    "seeded values for weight files that are absent (speed work on a bare graph)");
  command->add_flag("--verify", options->verify,
                    "verify the engine over the default sweep and write the verdict into it; exit "
                    "code 1 when it is not 'pass'");
  command->add_option("--tolerance", options->tolerance,
                      "limits of --verify instead of the usual ones, e.g. rms=1e-3,max=1e-2");
  command->add_flag("--stamp", options->stamp,
                    "with --verify --tolerance: write the verdict into the file all the same");
  command->add_flag("--accept-declared", options->accept_declared,
                    "with --verify: take kernels' word for errors that they declare above the cap");
  add_limits(*command, options->limits);
  command->add_flag("--json", options->json, "print the result as JSON");
  command->footer(
      "Examples:\n"
      "  vernier build model.onnx -o model.vn\n"
      "  vernier build model.onnx -o model.vn --shapes 'batch=1..32,seq=4..512'\n"
      "  vernier build model.onnx -o model.vn --verify\n"
      "  vernier build untrusted.onnx -o model.vn --max-memory 8GB --max-seconds 120\n"
      "  vernier build model.onnx -o model.vn --bf16 --rule 'role:head compute=f32' --verify\n"
      "  vernier build model.onnx -o model.vn --int8 --scales scales.json --verify\n"
      "  vernier build model.onnx -o model.vn --int8 --scales scales.json --static\n"
      "  vernier build model.onnx -o model.vn --int8 --scales scales.json --static "
      "--export-qdq model.qdq.onnx\n"
      "  vernier build model.onnx -o model.vn --int8 --no-compare\n"
      "  vernier build model.onnx -o model.vn --w8 --shapes 'batch=1,seq=1..128'\n"
      "  vernier build model.onnx -o model.vn --w4 --rule 'layer:0 compute=w8' --verify\n"
      "  vernier build model.onnx -o model.vn --fp16 "
      "--layerPrecisions='LayerNormalization_*:fp32'\n"
      "  vernier build model.onnx -o debug.vn --outputs Add_12 --fuse linear_activation=off");
  command->callback([options, &chosen] { chosen = [options] { return build(*options); }; });
}

}  // namespace vernier::cli
