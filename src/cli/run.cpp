// vernier run: an engine on the arrays of a file. Contract: docs/commands.md.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/arguments.h"
#include "cli/arrays.h"
#include "cli/common.h"
#include "io/text_file.h"
#include "vernier/packed.h"
#include "vernier/verify.h"

namespace vernier::cli {
namespace {

struct Options {
  std::string engine, inputs, outputs, device;
  std::vector<std::string> plugins;
  int threads = 0;
  LimitOptions limits;
  bool check = false, require_certificate = false, canary = false, read_into_memory = false,
       json = false;
  CertificateTerms terms;
};

/// What the session is to hold the engine to; nothing without --require-certificate.
std::optional<CertificateTerms> terms_of(const Options& options) {
  if (options.require_certificate) return options.terms;
  if (options.terms.own_tolerance || options.terms.declared) {
    throw Error(ErrorCode::kInput,
                "--accept-own-tolerance and --accept-declared say which certificates "
                "--require-certificate takes; add it, or leave them out");
  }
  return std::nullopt;
}

/// `work` whose failed checks begin with the option that asked for them.
template <class Work>
auto asked_by(const std::string& option, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCheckFailed) throw;
    throw Error(error.code(), option + ": " + error.what());
  }
}
template <class Work>
auto certified(const Work& work) {
  return asked_by("--require-certificate", work);
}

/// The message about outputs that hold NaN or infinity; empty: all are finite.
std::string about_non_finite(Session& session, const NamedTensors& inputs,
                             const NamedTensors& outputs) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : outputs) {
    if (verify::is_non_finite(tensor.dtype(), tensor.byte_span())) names.push_back(name);
  }
  return names.empty() ? "" : verify::explain_non_finite(session, as_inputs(inputs), names);
}

bool is_json_name(const std::string& path) { return path.ends_with(".json"); }

/// The arrays to run on. Several sets (iterations of Polygraphy) need a file that holds as many.
io::ArraySets inputs_of(Session& session, const Options& options, std::vector<int64_t>& starts) {
  io::ArraySets sets = read_input_sets(session, options.inputs, &starts);
  if (sets.size() > 1 && !is_json_name(options.outputs)) {
    throw Error(ErrorCode::kInput, "'" + options.inputs + "' holds " + std::to_string(sets.size()) +
                                       " sets of arrays, and '" + options.outputs +
                                       "' has room for the outputs of one; write to a .json file");
  }
  return sets;
}

void write_outputs(const std::string& path, const io::ArraySets& outputs) {
  if (is_json_name(path))
    io::write_polygraphy(path, outputs);
  else
    io::write_npz(path, outputs.front());
}

int run(const Options& options) {
  const Progress progress("running " + options.engine);
  check_keeps_inputs(options.outputs, {options.engine, options.inputs});
  io::check_can_write(options.outputs, "arrays");
  const Limits limits = limits_of(options.limits);
  const EngineOptions opening{.kernels = plugin_kernels(options.plugins),
                              .read_into_memory = options.read_into_memory,
                              .limits = limits};
  const std::shared_ptr<const Engine> engine = Engine::open(options.engine, opening);
  if (!options.device.empty() && options.device != engine->device()) {
    throw Error(ErrorCode::kInput, "--device " + options.device + ": '" + options.engine +
                                       "' was built for " + engine->device() +
                                       "; leave --device out, or build the model for the other");
  }
  const SessionOptions session_options{
      .threads = options.threads, .limits = limits, .certificate = terms_of(options)};
  if (options.canary) {
    asked_by("--canary", [&] {
      return Session(engine, {.threads = options.threads, .limits = limits, .canary = true});
    });
  }
  Session session = certified([&] { return Session(engine, session_options); });
  if (options.check || options.require_certificate) engine->check_weights();
  std::vector<int64_t> starts;  // of packed arrays
  const io::ArraySets inputs = inputs_of(session, options, starts);
  io::ArraySets outputs;
  std::string non_finite;
  for (const NamedTensors& arrays : inputs) {
    outputs.push_back(certified([&] { return run_session(session, arrays); }));
    if (non_finite.empty()) non_finite = about_non_finite(session, arrays, outputs.back());
  }
  engine->check_unchanged();  // before numbers of another file are written
  if (!non_finite.empty() && (options.check || options.require_certificate)) {
    throw Error(ErrorCode::kCheckFailed,
                (options.require_certificate ? "--require-certificate: " : "--check: ") +
                    non_finite + "; nothing was written");
  }
  if (!non_finite.empty()) warn(non_finite);
  if (!starts.empty()) {
    outputs.front() = packed(*engine, outputs.front(), starts);
    outputs.front().emplace_back("cu_seqlens", Tensor::i64(starts));
  }
  write_outputs(options.outputs, outputs);
  if (options.json) {
    print_json({{"engine", options.engine},
                {"inputs", json_of(inputs.front())},
                {"outputs", json_of(outputs.front())},
                {"runs", outputs.size()},
                {"outputs_file", options.outputs},
                {"warning", non_finite}});
  }
  return 0;
}

}  // namespace

void add_run(CLI::App& app, Run& chosen) {
  CLI::App* command = app.add_subcommand("run", "Run an engine on the arrays of a file");
  const auto options = std::make_shared<Options>();
  command->add_option("ENGINE", options->engine, "engine file (.vn)")->required();
  command
      ->add_option("--inputs", options->inputs,
                   "arrays named as the model's inputs (.npz, or .json of Polygraphy); with an "
                   "array cu_seqlens in it, tokens of rows one after the other, without padding")
      ->required();
  command
      ->add_option("-o,--outputs", options->outputs,
                   "where the outputs go (.npz, or .json for Polygraphy)")
      ->required();
  command->add_option("--device", options->device,
                      "what the engine must have been built for: cpu or cuda [its own]");
  add_threads(*command, options->threads);
  add_plugins(*command, options->plugins);
  add_limits(*command, options->limits);
  add_read_into_memory(*command, options->read_into_memory);
  command->add_flag("--check", options->check,
                    "read all weights first and compare their checksums; NaN or infinity in an "
                    "output is an error then");
  command->add_flag("--canary", options->canary,
                    "first run the inputs that the build recorded, and refuse the engine if it "
                    "answers with other bits than it did then");
  command->add_flag("--require-certificate", options->require_certificate,
                    "refuse what was not verified with verdict 'pass': the engine, these sizes, on "
                    "this machine, with this program and these plugins; implies --check");
  command->add_flag("--accept-own-tolerance", options->terms.own_tolerance,
                    "with --require-certificate: also limits that were the user's own");
  command->add_flag("--accept-declared", options->terms.declared,
                    "with --require-certificate: also errors that kernels declare above the cap");
  command->add_flag("--json", options->json, "print the result as JSON");
  command->footer(
      "Examples:\n"
      "  vernier run model.vn --inputs in.npz --outputs out.npz\n"
      "  vernier run model.vn --inputs in.npz -o out.npz --threads 1\n"
      "  vernier run model.vn --inputs in.json -o out.json    Polygraphy's\n"
      "  vernier run model.vn --inputs in.npz -o out.npz --max-memory 4GB --max-seconds 10\n"
      "  vernier run model.vn --inputs in.npz -o out.npz --read-into-memory\n"
      "  vernier run model.vn --inputs in.npz -o out.npz --canary\n"
      "  vernier run model.vn --inputs in.npz -o out.npz --require-certificate");
  command->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace vernier::cli
