// Reduce: see reduce.h. Steps near the one that is to blame are tried first, then the single nodes
// of those that are needed.
#include "verify/reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <numeric>

#include "compile/pipeline.h"
#include "core/hash.h"
#include "engine/writer.h"
#include "io/npz.h"
#include "io/text_file.h"
#include "onnx/import.h"
#include "precision/policy_file.h"
#include "precision/requests.h"
#include "runtime/engine_impl.h"
#include "verify/build_options.h"
#include "verify/cutter.h"
#include "verify/minimise.h"
#include "verify/sweep/sweep.h"
#include "vernier/printable.h"

namespace vernier::verify {

using namespace evaluate;  // NOLINT(google-build-using-namespace): its words are ours
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using MainNodes = std::set<size_t>;

constexpr const char* kModelFile = "model.onnx";
constexpr const char* kEngineFile = "model.vn";
constexpr const char* kInputsFile = "inputs.npz";
constexpr const char* kCommandFile = "command.txt";
constexpr const char* kScalesFile = "scales.json";

// Findings that stand for each other: an infinity is what a large error becomes.
Verdict family(Verdict verdict) {
  return verdict == Verdict::kNan || verdict == Verdict::kOverflow ? Verdict::kPrecision : verdict;
}

// Was this asked by somebody, not by the mode?
bool asked_for(const plan::LedgerRow& row) {
  return row.asked.by.starts_with("rule") || row.asked.by.starts_with("range audit");
}

// A key as the part counts main nodes ("#172", "/function/3#17"), or a name that begins like it
// ("/function/3/MatMul_0").
std::string renumbered(const std::string& text, size_t number) {
  const size_t begin = (text.starts_with('/') ? text.find('/', 1) : text.find('#')) + 1;
  const size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
  return text.substr(0, begin) + std::to_string(number) + text.substr(end);
}

// The number in the part of a node of the whole model.
size_t number_in(const Cut& cut, size_t main) {
  return static_cast<size_t>(std::distance(cut.nodes.begin(), cut.nodes.find(main)));
}

// How the part calls the node of a ledger row. Calls of functions are numbered anew.
std::string name_in(const Cut& cut, const plan::LedgerRow& row) {
  if (!row.key.starts_with('/')) return row.node;
  return renumbered(row.node, number_in(cut, onnx::main_node_of(row.key)));
}

// Parts of one model, built as its engine was and verified on what goes into them.
class Parts {
 public:
  Parts(const Engine& engine, const onnx::ModelSlicer& slicer, const ir::Graph& model,
        const Request& request, Trial trial, Verdict verdict)
      : plan_(engine.impl().plan),
        backend_(*engine.impl().backend),
        slicer_(slicer),
        request_(request),
        family_(family(verdict)),
        cutter_(slicer, model, plan_, std::move(trial.inputs)) {
    precision::Policy policy;
    if (!plan_.build.policy.empty())
      policy = precision::load_policy(plan_.build.policy, "the engine's policy");
    mode_ = std::string(precision::name(policy.mode));
    if (!plan_.build.scales.empty())
      scales_ = compiler::load_scales(plan_.build.scales, "the engine's scales");
  }
  const Cutter& cutter() const { return cutter_; }
  int builds() const { return builds_; }
  const std::string& mode() const { return mode_; }

  CompileOptions options_for(const Cut& cut) const;
  Request request_for(NamedTensors inputs) const {
    Request request;
    request.kernels = &backend_;
    request.inputs.push_back({kInputsFile, std::move(inputs)});
    request.tolerance = request_.tolerance;
    request.threads = request_.threads;
    request.limits = request_.limits;
    return request;
  }
  bool same_failure(const Report& report) const { return family(report.verdict) == family_; }
  /// Does the part around these nodes fail as the whole does? Parts are built once.
  bool fails(const MainNodes& chosen);

 private:
  bool fails(const Cut& cut) const;
  std::vector<std::string> rules_for(const Cut& cut) const;
  compiler::Scales scales_for(const Cut& cut) const;

  const plan::Plan& plan_;
  const backend::Backend& backend_;
  const onnx::ModelSlicer& slicer_;
  const Request& request_;
  Verdict family_;
  std::string mode_;
  std::optional<compiler::Scales> scales_;
  Cutter cutter_;
  std::map<MainNodes, bool> tried_;  // by nodes of the cut
  int builds_ = 0;
};

// One rule for every node that was asked for something: selectors of the whole model mean other
// nodes in a part. So do modes that quantize, which look for blocks and heads: their products are
// named.
std::vector<std::string> Parts::rules_for(const Cut& cut) const {
  std::vector<std::string> rules;
  const auto mode = precision::parse_mode(mode_);
  const bool quantizes = mode && precision::quantized_type(*mode) != DType::kUndefined;
  for (const plan::LedgerRow& row : plan_.ledger) {
    if (!cut.nodes.contains(onnx::main_node_of(row.key))) continue;
    plan::LedgerRow wanted = row;
    if (!asked_for(row)) {
      const bool weighs = row.step != plan::kNone && precision::is_product(row.op) &&
                          plan_.step(row.step).op != OpKind::kAttention;
      if (!quantizes || !weighs) continue;
      wanted.asked = {.compute = row.asked.compute, .accumulate = {}, .store = {}, .by = {}};
    }
    for (std::string& rule : asking_rules(wanted, name_in(cut, row)))
      rules.push_back(std::move(rule));
  }
  return rules;
}

// What the engine's scales say of the part's products, under the names that they have there.
compiler::Scales Parts::scales_for(const Cut& cut) const {
  compiler::Scales own = *scales_;
  for (compiler::ScalesSite& site : own.sites) {
    std::vector<std::string> products;
    for (const plan::LedgerRow& row : plan_.ledger) {
      const size_t main = onnx::main_node_of(row.key);
      if (!cut.nodes.contains(main)) continue;
      if (std::ranges::find(site.products, row.key) != site.products.end())
        products.push_back(renumbered(row.key, number_in(cut, main)));
      else if (std::ranges::find(site.products, row.node) != site.products.end())
        products.push_back(name_in(cut, row));
    }
    site.products = std::move(products);
  }
  std::erase_if(own.sites, [](const auto& site) { return site.products.empty(); });
  return own;
}

// The engine's options for a part.
CompileOptions Parts::options_for(const Cut& cut) const {
  CompileOptions options;
  options.device = plan_.device;
  options.kernels = &backend_;
  options.mode = mode_;
  options.passes_off = plan_.build.passes_off;
  options.limits = request_.limits;
  options.rules = rules_for(cut);
  if (!scales_) return options;
  compiler::Scales scales = scales_for(cut);
  if (scales.sites.empty()) return options;
  scales.model_file = kModelFile;
  scales.model_hash = hash_of(cut.model);
  options.scales = compiler::save_scales(scales);
  options.scales_file = kScalesFile;
  options.static_scales = plan_.build.static_scales;
  return options;
}

bool Parts::fails(const Cut& cut) const {
  try {
    const std::shared_ptr<ir::Graph> model = onnx::import_model_bytes(cut.model, {});
    const plan::Plan plan = compiler::plan_of(*model, options_for(cut));
    const Request request = request_for(cut.inputs);
    Sweep sweep(Engine::from_bytes(engine::engine_bytes(plan), backend_), *model, request);
    return same_failure(sweep.run());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInput) throw;
    return false;  // such a part cannot be built with these rules or run alone
  }
}

bool Parts::fails(const MainNodes& chosen) {
  const std::optional<Cut> cut = cutter_.cut(chosen);
  if (!cut) return false;
  const auto known = tried_.find(cut->nodes);
  if (known != tried_.end()) return known->second;
  ++builds_;
  const bool failed = fails(*cut);
  if (request_.progress) {
    request_.progress(fmt::format("build {}, {} of {}: {}", builds_, cut->nodes.size(),
                                  counted(slicer_.nodes().size(), "node"),
                                  failed ? "fails" : "does not fail"));
  }
  return tried_[cut->nodes] = failed;
}

// The step that a report blames.
int32_t blamed_step(const Report& report) {
  if (!report.rewrites.empty()) return report.rewrites.front().step;
  for (const StepResult& step : report.steps) {
    if (!step.passed) return step.step;
  }
  if (!report.localisation) return 0;
  if (report.localisation->first_non_finite >= 0) return report.localisation->first_non_finite;
  const std::vector<size_t> order = report.localisation->by_share(0);
  return order.empty() ? 0 : report.localisation->steps[order[0]].step;
}

// The nodes of every step, those nearest to `blamed` first.
std::vector<MainNodes> nodes_by_step(const plan::Plan& plan, int32_t blamed) {
  std::map<int32_t, MainNodes> by_step;
  for (const plan::LedgerRow& row : plan.ledger) {
    if (row.step != plan::kNone) by_step[row.step].insert(onnx::main_node_of(row.key));
  }
  std::vector<int32_t> order;
  for (const auto& [step, nodes] : by_step) order.push_back(step);
  std::ranges::stable_sort(order, {}, [&](int32_t step) { return std::abs(step - blamed); });
  std::vector<MainNodes> groups;
  for (int32_t step : order) groups.push_back(by_step[step]);
  return groups;
}

MainNodes joined(const std::vector<MainNodes>& groups, const Chosen& chosen) {
  MainNodes all;
  for (size_t i : chosen) all.insert(groups[i].begin(), groups[i].end());
  return all;
}

MainNodes smallest_part(const std::vector<MainNodes>& groups, Parts& parts) {
  const Chosen chosen = minimise(
      groups.size(), [&](const Chosen& some) { return parts.fails(joined(groups, some)); });
  return joined(groups, chosen);
}

std::string command_of(const CompileOptions& options, const Tolerance& tolerance,
                       const std::vector<std::string>& plugins) {
  std::string plugin_options;
  for (const std::string& file : plugins)
    plugin_options += " --plugin " + shell_word(fs::absolute(file).string());
  std::string build = fmt::format("vernier build {} -o {}", kModelFile, kEngineFile);
  if (options.mode != precision::name(precision::Mode::kModel)) build += " --" + options.mode;
  for (const std::string& pass : options.passes_off)
    build += " --fuse " + shell_word(pass + "=off");
  for (const std::string& rule : options.rules) build += " --rule " + shell_word(rule);
  if (!options.scales.empty()) build += fmt::format(" --scales {}", kScalesFile);
  if (options.static_scales) build += " --static";
  std::string verify =
      fmt::format("vernier verify {} --model {} --inputs {}", kEngineFile, kModelFile, kInputsFile);
  build += plugin_options;
  verify += plugin_options;
  if (!tolerance.above_noise) verify += " --tolerance " + to_text(tolerance);
  return build + " && " + verify;
}

// Writes the files, then does from them what the command does.
void write_and_repeat(const Cut& cut, const Parts& parts, const ReduceTarget& target,
                      Reduction& found) {
  const fs::path& folder = target.folder;
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    throw Error(ErrorCode::kMachine,
                "cannot make folder '" + folder.string() + "' for the part: " + failed.message());
  }
  const CompileOptions options = parts.options_for(cut);
  Request request = parts.request_for({});
  request.model = folder / kModelFile;
  request.engine = folder / kEngineFile;
  const auto* text = reinterpret_cast<const char*>(cut.model.data());
  io::write_text_file(request.model, "model", {text, cut.model.size()});
  io::write_npz(folder / kInputsFile, cut.inputs);
  if (!options.scales.empty()) io::write_text_file(folder / kScalesFile, "scales", options.scales);
  found.command = command_of(options, request.tolerance, target.plugins);
  io::write_text_file(folder / kCommandFile, "command", found.command + "\n");
  request.inputs[0].arrays = io::read_arrays(folder / kInputsFile);
  compile(request.model.string(), request.engine.string(), options);
  const Report report = verify(request);
  fs::remove(request.engine, failed);
  found.part_verdict = report.verdict;
  found.part_explanation = report.explanation;
  found.outcome =
      parts.same_failure(report) ? ReduceOutcome::kReduced : ReduceOutcome::kNotReproduced;
}

// What a sweep that failed is reduced with.
struct Failure {
  Sweep& sweep;
  const Report& report;
  const Engine& engine;
  const ir::Graph& model;
  const onnx::ModelSlicer& slicer;
  const Request& request;
};

void reduce_failure(const Failure& failure, const ReduceTarget& target, Reduction& found) {
  const auto& [sweep, report, engine, model, slicer, request] = failure;
  Trial trial = sweep.smallest_failing_trial();
  found.inputs = trial.label;
  Parts parts(engine, slicer, model, request, std::move(trial), report.verdict);
  const std::vector<MainNodes> steps = nodes_by_step(engine.impl().plan, blamed_step(report));
  Chosen everything(steps.size());
  std::iota(everything.begin(), everything.end(), size_t{0});
  found.outcome = ReduceOutcome::kNotReproduced;
  if (!steps.empty() && parts.fails(joined(steps, everything))) {
    std::vector<MainNodes> single;
    for (size_t node : smallest_part(steps, parts)) single.push_back({node});
    const MainNodes chosen = smallest_part(single, parts);
    const std::optional<Cut> cut = parts.cutter().cut(chosen);
    VERNIER_ASSERT(cut.has_value(), "a part that failed");
    for (size_t node : cut->nodes) found.nodes.push_back(slicer.nodes()[node].name);
    write_and_repeat(*cut, parts, target, found);
  }
  found.builds = parts.builds();
}

}  // namespace

Reduction reduce_engine(const std::shared_ptr<const Engine>& engine, const ir::Graph& model,
                        const onnx::ModelSlicer& slicer, const Request& request,
                        const ReduceTarget& target) {
  const auto start = Clock::now();
  Request whole = request;
  whole.localise = true;
  whole.from.clear();
  whole.to.clear();
  Sweep sweep(engine, model, whole);
  const Report report = sweep.run();
  Reduction found;
  found.verdict = report.verdict;
  found.explanation = report.explanation;
  found.model_nodes = slicer.nodes().size();
  found.folder = target.folder;
  if (!report.passed())
    reduce_failure({sweep, report, *engine, model, slicer, whole}, target, found);
  found.ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return found;
}

Reduction reduce(const Request& asked, const ReduceTarget& target) {
  Request request = asked;
  request.limits = asked.limits.begun();
  const Opened opened = open_checked(request);
  return reduce_engine(opened.engine, *opened.model, onnx::ModelSlicer(request.model), request,
                       target);
}

}  // namespace vernier::verify
