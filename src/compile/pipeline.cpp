// The compiler's stages: see pipeline.h.
#include "compile/pipeline.h"

#include <algorithm>

#include "compile/side_outputs.h"
#include "compile/tune.h"
#include "compile/weights.h"
#include "core/names.h"
#include "onnx/import.h"
#include "plan/planner.h"
#include "precision/constant_range.h"
#include "precision/policy_file.h"
#include "precision/requests.h"
#include "precision/typing.h"
#include "runtime/backends.h"
#include "runtime/plugins.h"

namespace vernier::compiler {

const backend::Backend& backend_named(const std::string& device) {
  return runtime::backend_named(device, "--device");
}

CompileOptions begun(CompileOptions options) {
  options.limits = options.limits.begun();
  return options;
}

void stage(const CompileOptions& options, std::string_view name) {
  Watch(options.limits).check_time(name);
  if (options.progress) options.progress(name);
}

namespace {

// What a build holds of the model: its constants, and once more as an engine packs them.
uint64_t bytes_held(const ir::Graph& graph) {
  uint64_t bytes = 0;
  for (size_t v = 0; v < graph.num_values(); ++v) {
    const ir::Value& value = graph.value(static_cast<ir::ValueId>(v));
    if (value.is_constant()) bytes = saturating_sum(bytes, value.constant.bytes());
  }
  return saturating_product(bytes, 2);
}

ir::ValueId find_value(const ir::Graph& graph, const std::string& name) {
  for (size_t v = 0; v < graph.num_values(); ++v) {
    if (graph.value(static_cast<ir::ValueId>(v)).name == name) return static_cast<ir::ValueId>(v);
  }
  return ir::kNoValue;
}

void check_outputs(const ir::Graph& graph, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!name.empty() && find_value(graph, name) != ir::kNoValue) continue;
    std::vector<std::string> known;
    for (size_t v = 0; v < graph.num_values(); ++v) {
      const std::string& other = graph.value(static_cast<ir::ValueId>(v)).name;
      if (!other.empty()) known.push_back(other);
    }
    throw Error(ErrorCode::kInput,
                "--outputs: the model has no value '" + name + "'" + nearest_names(name, known));
  }
}

void add_outputs(ir::Graph& graph, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::ranges::find(graph.output_names, name) != graph.output_names.end()) continue;
    graph.outputs.push_back(find_value(graph, name));
    graph.output_names.push_back(name);
  }
}

passes::PassOptions pass_options(const CompileOptions& options, const ir::Graph& imported) {
  passes::PassOptions result;
  result.watch = Watch(options.limits);
  if (options.limits.max_bytes > 0) result.watch = result.watch.holding(bytes_held(imported));
  result.off = {options.passes_off.begin(), options.passes_off.end()};
  if (options.progress) {
    result.after = [&options](std::string_view pass, const ir::Graph&) { options.progress(pass); };
  }
  return result;
}

precision::Policy policy_of(const CompileOptions& options) {
  precision::Policy policy{.mode = precision::Mode::kModel, .rules = {}};
  if (!options.policy.empty()) policy = precision::load_policy(options.policy, options.policy_file);
  if (!options.mode.empty()) {
    const auto mode = precision::parse_mode(options.mode);
    if (!mode) {
      throw Error(ErrorCode::kInput,
                  "mode: got '" + options.mode + "', expected model, fp32, tf32, fp16 or bf16");
    }
    policy.mode = *mode;
  }
  const auto add = [&](std::vector<precision::Rule> rules) {
    for (precision::Rule& rule : rules) policy.rules.push_back(std::move(rule));
  };
  if (!options.layer_precisions.empty())
    add(precision::parse_layer_precisions(options.layer_precisions));
  if (!options.layer_output_types.empty())
    add(precision::parse_layer_output_types(options.layer_output_types));
  for (const std::string& text : options.rules) policy.rules.push_back(precision::parse_rule(text));
  if (!options.precision_constraints.empty())
    precision::check_precision_constraints(options.precision_constraints, policy.rules.size());
  return policy;
}

}  // namespace

std::shared_ptr<ir::Graph> import(const std::string& model_path, const CompileOptions& options,
                                  Compiled& result) {
  stage(options, "import");
  onnx::ImportOptions import_options;
  if (options.seed_missing_weights) import_options.missing_weights = onnx::MissingWeights::kSeeded;
  import_options.limits = options.limits;
  onnx::ImportReport report;
  std::shared_ptr<ir::Graph> graph = onnx::import_model(model_path, import_options, &report);
  result.onnx_nodes = report.nodes;
  result.plan.model_name = graph->name;
  result.plan.producer = report.producer;
  result.plan.notes = report.notes;
  for (const std::string& line : non_finite_weights(*graph))
    result.plan.notes.push_back("warning: " + line);
  check_outputs(*graph, options.extra_outputs);
  Watch(options.limits).check_memory(bytes_held(*graph), "the model's weights and their packing");
  return graph;
}

std::shared_ptr<ir::Graph> raise(const std::string& model_path, const CompileOptions& options,
                                 Compiled& result) {
  std::shared_ptr<ir::Graph> graph = import(model_path, options, result);
  passes::run_passes(*graph, passes::Phase::kRaise, pass_options(options, *graph));
  return graph;
}

namespace {

struct Asked {
  std::shared_ptr<ir::Graph> raised;
  std::vector<std::string> notes;
};

void keep_apart(ir::Graph& imported, const std::set<std::string>& apart) {
  for (ir::NodeId id : imported.order()) {
    ir::Node& node = imported.node(id);
    node.apart = std::ranges::any_of(
        node.origins, [&](const ir::Origin& origin) { return apart.contains(origin.key); });
  }
}

// What the range audit found out binds like a rule, except where a rule of the user's insists.
void promote(ir::Graph& raised, const std::vector<Promotion>& promotions) {
  const auto raise_to_f32 = [](TypeRequest& wish, Request& asked) {
    if (wish.exact || represents(wish.type, DType::kF32)) return;
    wish.type = DType::kF32;
    asked.by = "range audit (over " + asked.by + ")";
  };
  for (ir::NodeId id : raised.order()) {
    for (ir::Origin& origin : raised.node(id).origins) {
      for (const Promotion& promotion : promotions) {
        if (std::ranges::find(promotion.nodes, origin.key) == promotion.nodes.end()) continue;
        if (promotion.compute) raise_to_f32(origin.asked.compute, origin.asked);
        if (promotion.store && origin.asked.store.type != DType::kUndefined)
          raise_to_f32(origin.asked.store, origin.asked);
      }
    }
  }
}

// "'/enc/Pow_3', asked for compute == f16, accumulate >= f32 (rule 2)".
std::string asked_text(const ir::Graph& graph, const std::string& key) {
  for (ir::NodeId id : graph.order()) {
    for (const ir::Origin& origin : graph.node(id).origins) {
      if (origin.key == key)
        return "'" + origin.name + "', asked for " + request_text(origin.asked);
    }
  }
  return key;
}

// Over the mode and every rule.
void raise_nodes(ir::Graph& raised, const std::set<std::string>& keys) {
  const auto to_f32 = [](TypeRequest& wish) {
    if (wish.type == DType::kUndefined || represents(wish.type, DType::kF32)) return;
    wish = {DType::kF32, false};
  };
  for (ir::NodeId id : raised.order()) {
    for (ir::Origin& origin : raised.node(id).origins) {
      if (!keys.contains(origin.key)) continue;
      Request& asked = origin.asked;
      for (TypeRequest* wish : {&asked.compute, &asked.inner, &asked.accumulate, &asked.store})
        to_f32(*wish);
      asked.by = "raised (over " + asked.by + ")";
    }
  }
}

// The raised graph with a request at every node. A node whose request no composite around it can
// honour is kept out of composites, and raising is done again.
Asked ask(const ir::Graph& imported, const CompileOptions& options,
          const std::set<std::string>& raised) {
  const precision::Policy policy = policy_of(options);
  std::set<std::string> apart;
  std::shared_ptr<ir::Graph> all_raised;  // what rules speak of: no node apart yet
  std::vector<std::string> notes;
  while (true) {
    Asked result;
    result.raised = imported.clone();
    keep_apart(*result.raised, apart);
    passes::run_passes(*result.raised, passes::Phase::kRaise, pass_options(options, imported));
    precision::ask_mode(*result.raised, policy.mode);
    if (!all_raised) {
      all_raised = result.raised->clone();
      notes = precision::apply_rules(*all_raised, policy.rules);
    }
    precision::keep_rules(*all_raised, *result.raised);
    result.notes = notes;
    promote(*result.raised, options.promotions);
    std::vector<std::string> kept = precision::keep_constants_finite(*result.raised);
    raise_nodes(*result.raised, raised);
    const size_t before = apart.size();
    std::set<std::string> wanted = precision::join_requests(*result.raised);
    const std::string first = wanted.empty() ? "" : *wanted.begin();
    apart.merge(wanted);
    if (apart.size() > before) continue;
    if (!first.empty()) {
      throw Error(ErrorCode::kInput,
                  "node " + asked_text(*result.raised, first) + ": the nodes around it in one " +
                      "composite are asked for other types, and it cannot be taken out of it; ask "
                      "the same of the whole composite (op: instead of name:), or a floor (= "
                      "instead of ==)");
    }
    std::ranges::move(kept, std::back_inserter(result.notes));
    for (const std::string& key : apart)
      result.notes.push_back("node " + asked_text(*result.raised, key) +
                             ", stands alone: the composite around it does something else");
    return result;
  }
}

plan::BuildOptions record_of(const CompileOptions& options) {
  return {.policy = precision::save_policy(policy_of(options)),
          .promotions = options.promotions,
          .shapes = options.shapes,
          .passes_off = options.passes_off,
          .outputs = options.extra_outputs,
          .plugins = {}};
}

// The plugins that steps come from, for whoever opens the engine and whoever reads the ledger.
void record_plugins(plan::Plan& plan) {
  plan.build.plugins = runtime::plugins_of(plan);
  for (plan::LedgerRow& row : plan.ledger) {
    const std::string plugin = runtime::plugin_of(row.kernel);
    if (!plugin.empty()) row.why += "; of plugin " + runtime::plugin_text(plan, plugin);
  }
}

}  // namespace

std::shared_ptr<ir::Graph> typed(const ir::Graph& imported, const CompileOptions& options) {
  const Asked asked = ask(imported, options, {});
  precision::type_graph(*asked.raised);
  return asked.raised;
}

plan::Plan plan_of(const ir::Graph& imported, const CompileOptions& options,
                   plan::PlanOptions::Constants constants, const std::set<std::string>& raised,
                   plan::KeptConstants* kept) {
  const backend::Backend& backend =
      options.backend ? *options.backend : backend_named(options.device);
  Asked asked = ask(imported, options, raised);
  ir::Graph& graph = *asked.raised;
  std::vector<plan::TableBound> table_bounds = plan::table_bounds(graph);
  precision::type_graph(graph);
  passes::PassOptions fusions = pass_options(options, imported);
  fusions.takes = [&backend](const ir::Graph& fused, const ir::Node& node) {
    return plan::has_kernel(fused, node, backend);
  };
  passes::run_passes(graph, passes::Phase::kFuse, fusions);
  if (!options.extra_outputs.empty()) {
    const std::shared_ptr<ir::Graph> marked = imported.clone();
    add_outputs(*marked, options.extra_outputs);
    passes::run_passes(*marked, passes::Phase::kRaise, pass_options(options, imported));
    add_side_outputs(graph, *marked, options.extra_outputs);
  }
  stage(options, "plan");
  const auto watch_node = [&options](std::string_view node) {
    Watch(options.limits).check_time([&] { return "planning node '" + std::string(node) + "'"; });
  };
  plan::Plan plan = plan::make_plan(graph, backend,
                                    {.shapes = options.shapes,
                                     .table_bounds = std::move(table_bounds),
                                     .constants = constants,
                                     .progress = watch_node,
                                     .kept = kept});
  plan.notes.insert(plan.notes.begin(), asked.notes.begin(), asked.notes.end());
  plan.build = record_of(options);
  record_plugins(plan);
  return plan;
}

bool may_have_short_range(const ir::Graph& imported, const CompileOptions& options) {
  const precision::Policy policy = policy_of(options);
  if (policy.mode == precision::Mode::kFp16 || !policy.rules.empty()) return true;
  for (size_t v = 0; v < imported.num_values(); ++v) {
    const DType type = imported.value(static_cast<ir::ValueId>(v)).dtype;
    if (is_float(type) && type != DType::kBF16 && size_bytes(type) < size_bytes(DType::kF32))
      return true;
  }
  return false;
}

CompileOptions options_of(const plan::Plan& plan) {
  CompileOptions options;
  options.device = plan.device;
  options.policy = plan.build.policy;
  options.policy_file = "the engine's policy";
  options.promotions = plan.build.promotions;
  options.shapes = plan.build.shapes;
  options.passes_off = plan.build.passes_off;
  options.extra_outputs = plan.build.outputs;
  return options;
}

Compiled run(const ir::Graph& imported, Compiled result, const CompileOptions& options) {
  plan::Plan plan = plan_of(imported, options);
  plan.model_name = result.plan.model_name;
  plan.producer = result.plan.producer;
  plan.notes.insert(plan.notes.begin(), result.plan.notes.begin(), result.plan.notes.end());
  result.plan = std::move(plan);
  tune(result.plan, options);
  return result;
}

Compiled run(const std::string& model_path, const CompileOptions& options) {
  backend_named(options.device);  // refuse a wrong device before the work
  policy_of(options);             // and a wrong rule
  Compiled result;
  const std::shared_ptr<ir::Graph> imported = import(model_path, options, result);
  return run(*imported, std::move(result), options);
}

}  // namespace vernier::compiler
