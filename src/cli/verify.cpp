// vernier verify: an engine compared with the FP64 evaluation of its model. Contract:
// docs/commands.md; what is compared with what: verify/verify.h.
#include "vernier/verify.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <utility>

#include "cli/arguments.h"
#include "cli/arrays.h"
#include "cli/common.h"
#include "io/npz.h"
#include "io/text_file.h"
#include "vernier/error.h"

namespace vernier::cli {
namespace {

struct Options {
  std::string engine, model, expect, tolerance, batches, lengths, batch_axis, from, to, report,
      evaluate_on, against, also, also_python, from_report, labels;
  verify::Task task;
  std::vector<std::string> inputs, plugins;
  uint64_t seed = 1;
  double budget = 0;
  int threads = 0;
  LimitOptions limits;
  bool thorough = false, stamp = false, json = false, timing = false, read_into_memory = false,
       accept_declared = false, cost = false, quick = false, resume = false;
};

void add_report(const Options& options, verify::Request& request) {
  if (options.timing && options.report.empty())
    throw Error(ErrorCode::kInput, "--timing goes into the report; add --report FILE.html");
  if (options.report.empty()) return;
  std::vector<std::string> read = options.inputs;
  read.insert(read.end(), {options.engine, options.model});
  if (!options.expect.empty()) read.push_back(options.expect);
  check_keeps_inputs(options.report, read);
  io::check_can_write(options.report, "report");
  request.html = options.report;
  request.localise = true;
  request.time = options.timing;
}

void add_task(const Options& options, verify::Request& request) {
  request.task = options.task;
  if (!options.labels.empty()) request.task.labels = io::read_arrays(options.labels);
}

int judge_report(const Options& options) {
  if (!options.engine.empty() || !options.model.empty()) {
    throw Error(ErrorCode::kInput,
                "--from-report judges what a report holds; leave out the engine and the model");
  }
  const verify::StoredJudgement judgement = verify::judge_stored(
      read_text_file(options.from_report, "report"), verify::parse_tolerance(options.tolerance));
  print(options.json ? verify::to_json(judgement) : verify::to_text(judgement));
  return verify::exit_code(judgement.verdict);
}

int verify_engine(const Options& options) {
  if (!options.from_report.empty()) return judge_report(options);
  for (const auto& [value, name] :
       {std::pair{&options.engine, "ENGINE"}, std::pair{&options.model, "--model"}}) {
    if (value->empty())
      throw Error(ErrorCode::kInput,
                  std::string(name) + " is required: vernier verify ENGINE.vn --model MODEL.onnx");
  }
  keep_freed_memory();
  verify::Request request;
  request.model = options.model;
  request.engine = options.engine;
  request.kernels = plugin_kernels(options.plugins);
  request.tolerance = verify::parse_tolerance(options.tolerance);
  request.accept_declared = options.accept_declared;
  request.batches = parse_sizes(options.batches, "--batches");
  request.lengths = parse_sizes(options.lengths, "--lengths");
  request.depth = options.thorough ? verify::Depth::kThorough
                  : options.quick  ? verify::Depth::kQuick
                                   : verify::Depth::kDefault;
  request.budget_seconds = options.budget;
  request.batch_axis = options.batch_axis;
  if (!options.from.empty()) request.from = split_list(options.from, "--from");
  if (!options.to.empty()) request.to = split_list(options.to, "--to");
  request.seed = options.seed;
  request.threads = options.threads;
  request.evaluate_on = options.evaluate_on;
  request.against = options.against;
  request.also = options.also;
  request.also_python = options.also_python;
  request.limits = limits_of(options.limits);
  request.read_into_memory = options.read_into_memory;
  const bool part = !request.from.empty() || !request.to.empty();
  if (!part) request.checkpoint = options.engine + ".checkpoint.npz";
  request.resume = options.resume;
  add_report(options, request);
  for (const auto& file :
       io::array_files({options.inputs.begin(), options.inputs.end()}, "--inputs"))
    std::ranges::move(read_user_inputs(options.engine, options.plugins, file.string()),
                      std::back_inserter(request.inputs));
  add_task(options, request);
  if (!options.expect.empty()) {
    if (request.inputs.empty()) {
      throw Error(ErrorCode::kInput,
                  "--expect holds the outputs of --inputs, which is missing; add --inputs IN.npz");
    }
    request.expect = read_outputs(options.engine, options.plugins, options.expect);
  }
  verify::Report report;
  {
    Progress progress("verifying " + options.engine);
    request.progress = [&](const std::string& stage) { progress.stage(stage); };
    report = options.stamp ? verify::verify_and_stamp(request) : verify::verify(request);
  }
  print(options.json ? verify::to_json(report) : verify::to_text(report));
  if (options.cost && !options.json) print(verify::costs_text(report));
  return verify::exit_code(report.verdict);
}

}  // namespace

void add_verify(CLI::App& app, Run& chosen) {
  CLI::App* command =
      app.add_subcommand("verify", "Compare an engine with the FP64 evaluation of its model");
  const auto options = std::make_shared<Options>();
  command->add_option("ENGINE", options->engine, "engine file (.vn)");
  command->add_option("--model", options->model, "the ONNX file it was built from");
  command->add_option("--inputs", options->inputs,
                      "arrays named as the model's inputs (.npz, or .json of Polygraphy), one or "
                      "many, or a folder of .npz; without it, seeded inputs that fit the model are "
                      "made");
  auto* metric = command
                     ->add_option("--metric", options->task.metric,
                                  "a number of your task over all --inputs, of the engine and of "
                                  "FP64: accuracy, spearman, mrr, ndcg or cosine")
                     ->check(CLI::IsMember({"accuracy", "spearman", "mrr", "ndcg", "cosine"}));
  command
      ->add_option("--labels", options->labels,
                   "its labels (.npz): 'labels', and 'groups' for mrr and ndcg, by row of --inputs")
      ->needs(metric);
  command
      ->add_option("--metric-output", options->task.output,
                   "the output that is scored [the only one of floats]")
      ->needs(metric);
  command->add_option(
      "--expect", options->expect,
      "arrays named as the model's outputs: the FP64 evaluation is compared with them");
  command->add_option("--batches", options->batches, "batch sizes of the sweep [1,2,4,8]");
  command->add_option("--lengths", options->lengths, "lengths of the sweep [4,16,48]");
  auto* thorough = command->add_flag("--thorough", options->thorough,
                                     "sweep batches 1,2,3,4,5,8,16,32 and lengths 4,7,16,48,128");
  command
      ->add_flag("--quick", options->quick,
                 "sweep batches 1,4 and lengths 4,48, and no sizes beyond them")
      ->excludes(thorough);
  command
      ->add_option("--budget", options->budget,
                   "seconds that the sweep may take: as many sizes beyond its grid as fit")
      ->check(CLI::PositiveNumber);
  command->add_flag("--resume", options->resume,
                    "go on where the same command was stopped (Ctrl-C, --max-seconds, a crash): "
                    "what it had done is in ENGINE.vn.checkpoint.npz");
  command->add_option("--from", options->from,
                      "verify only the part from these named values of the model, on the engine's "
                      "own numbers there");
  command->add_option("--to", options->to, "... up to these values [the outputs]");
  command->add_option("--report", options->report,
                      "write the report as one HTML file, whatever the verdict");
  command->add_flag("--timing", options->timing, "put the time of every step into the report");
  command->add_flag("--stamp", options->stamp, "write the verdict into the engine file");
  command->add_flag(
      "--accept-declared", options->accept_declared,
      "take kernels' word for errors that they declare above the cap; the certificate "
      "says so");
  command->add_option(
      "--from-report", options->from_report,
      "judge a report of verify --json again, by another --tolerance; nothing runs");
  command->add_option("--batch-axis", options->batch_axis,
                      "the named size that counts rows [found on the model]");
  command->add_option("--seed", options->seed, "seed of the generated inputs [1]");
  command->add_option("--against", options->against,
                      "another engine of the same model (.vn): says by cell whether its answers "
                      "have the same bits, else by how much they differ; decides no verdict");
  auto* also =
      command
          ->add_option("--also", options->also,
                       "another implementation that runs the model on the same inputs: says whose "
                       "answers are nearer to FP64; decides no verdict. onnxruntime is the one")
          ->check(CLI::IsMember({"onnxruntime"}));
  command
      ->add_option("--also-python", options->also_python,
                   "the Python that has onnxruntime [python3]")
      ->needs(also);
  command
      ->add_option("--evaluate-on", options->evaluate_on,
                   "where the FP64 evaluation runs: on the CPU alone, or with cuda on the GPU what "
                   "that takes [the engine's device]")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option(
      "--tolerance", options->tolerance,
      "limits instead of the usual ones, e.g. rms=1e-3,max=1e-2,cos=0.9999,flips=0; "
      "metric=0.002: what --metric may lose");
  add_threads(*command, options->threads);
  add_plugins(*command, options->plugins);
  add_limits(*command, options->limits);
  add_read_into_memory(*command, options->read_into_memory);
  command->add_flag("--json", options->json, "print the report as JSON");
  command->add_flag("--cost", options->cost, "also print how long each part of the work took");
  command->footer(
      "Examples:\n"
      "  vernier verify model.vn --model model.onnx\n"
      "  vernier verify model.vn --model model.onnx --batches 1,4,32 --lengths 16,128\n"
      "  vernier verify model.vn --model model.onnx --stamp\n"
      "  vernier verify model.vn --model model.onnx --report report.html\n"
      "  vernier verify model.vn --model model.onnx --max-memory 8GB --max-seconds 600\n"
      "  vernier verify model.vn --model model.onnx --resume\n"
      "  vernier verify new.vn --model model.onnx --against old.vn\n"
      "  vernier verify model.vn --model model.onnx --also onnxruntime\n"
      "  vernier verify model.vn --model model.onnx --from /enc/0/Add --to /enc/1/Add\n"
      "  vernier verify model.vn --model model.onnx --inputs in.npz --expect out.npz --json\n"
      "  vernier verify int8.vn --model model.onnx --inputs dev/ --metric spearman "
      "--labels dev.npz \\\n      --tolerance metric=0.002\n"
      "  vernier verify --from-report report.json --tolerance rms=1e-3\n"
      "Exit code 1 when the verdict is not 'pass'");
  command->callback([options, &chosen] { chosen = [options] { return verify_engine(*options); }; });
}

}  // namespace vernier::cli
