// The compiler's stages: see pipeline.h.
#include "compile/pipeline.h"

#include <algorithm>

#include "compile/export_qdq.h"
#include "compile/fallback.h"
#include "compile/quantized_share.h"
#include "compile/range_audit.h"
#include "compile/scales_use.h"
#include "compile/side_outputs.h"
#include "compile/tune.h"
#include "compile/weights.h"
#include "compile/zero_fill.h"
#include "core/attrs.h"
#include "core/names.h"
#include "onnx/import.h"
#include "plan/planner.h"
#include "precision/ask.h"
#include "precision/onnx_nodes.h"
#include "precision/policy_file.h"
#include "precision/typing.h"
#include "runtime/backends.h"
#include "runtime/plugins.h"

namespace vernier::compiler {

const backend::Backend& backend_named(const std::string& device) {
  return runtime::backend_named(device, "--device");
}

Job begun(Job job) {
  job.options.limits = job.options.limits.begun();
  return job;
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
  if (!options.extra_outputs.empty()) result.off.insert("unpad");  // they have padding, too
  if (options.progress) {
    result.after = [&options](std::string_view pass, const ir::Graph&) { options.progress(pass); };
  }
  return result;
}

// `graph` is `imported`, or comes from it.
void raise_graph(ir::Graph& graph, const CompileOptions& options, const ir::Graph& imported) {
  passes::run_passes(graph, passes::Phase::kRaise, pass_options(options, imported));
}

precision::Policy policy_of(const CompileOptions& options) {
  precision::Policy policy{.mode = precision::Mode::kModel, .rules = {}};
  if (!options.policy.empty()) policy = precision::load_policy(options.policy, options.policy_file);
  if (!options.mode.empty()) {
    const auto mode = precision::parse_mode(options.mode);
    if (!mode) {
      throw Error(ErrorCode::kInput,
                  "mode: got '" + options.mode +
                      "', expected model, fp32, tf32, fp16, bf16, int8, fp8, w8 or w4");
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

Job::Job(CompileOptions asked) : options(std::move(asked)), policy(policy_of(options)) {
  if (!options.scales.empty()) scales = load_scales(options.scales, options.scales_file);
  if (options.static_scales && !scales)
    throw Error(ErrorCode::kInput,
                "--static takes the ranges of operands from a scales file, and there is none; add "
                "--scales FILE, as 'vernier calibrate' writes it");
  if (!(options.int8_error > 0)) {
    throw Error(ErrorCode::kInput,
                "--int8-error: got " + std::to_string(100 * options.int8_error) +
                    ", expected a positive number of percent; give a large one to keep every "
                    "product quantized");
  }
}

std::shared_ptr<ir::Graph> import(const std::string& model_path, const CompileOptions& options,
                                  Compiled& result) {
  stage(options, "import");
  onnx::ImportOptions import_options;
  if (options.seed_missing_weights) import_options.missing_weights = onnx::MissingWeights::kSeeded;
  import_options.limits = options.limits;
  onnx::ImportReport report;
  std::shared_ptr<ir::Graph> graph = onnx::import_model(model_path, import_options, &report);
  result.onnx_nodes = static_cast<int64_t>(precision::onnx_nodes(*graph).size());
  result.opset = report.opset;
  result.exported_policy = report.policy;
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
  raise_graph(*graph, options, *graph);
  return graph;
}

const backend::Backend& backend_of(const CompileOptions& options) {
  return options.kernels ? *options.kernels : backend_named(options.device);
}

evaluate::Domains domains_of(const ir::Graph& imported) {
  const std::shared_ptr<ir::Graph> raised = imported.clone();
  passes::run_passes(*raised, passes::Phase::kRaise, {});
  return evaluate::infer_domains(*raised);
}

namespace {

precision::Asked ask(const ir::Graph& imported, const Job& job,
                     const std::set<std::string>& raised) {
  const precision::Wishes wishes{.policy = job.policy,
                                 .promotions = job.options.promotions,
                                 .raised = raised,
                                 .attended = backend_of(job.options).attended,
                                 .known = job.known.get()};
  return precision::ask(imported, wishes,
                        [&](ir::Graph& graph) { raise_graph(graph, job.options, imported); });
}

}  // namespace

Job planned_again(const ir::Graph& imported, Job job) {
  const std::shared_ptr<ir::Graph> raised = imported.clone();
  raise_graph(*raised, job.options, imported);
  job.known = std::make_shared<const precision::KnownModel>(raised);
  return job;
}

namespace {

plan::BuildOptions record_of(const Job& job) {
  const CompileOptions& options = job.options;
  return {.policy = precision::save_policy(job.policy),
          .promotions = options.promotions,
          .shapes = options.shapes,
          .passes_off = options.passes_off,
          .outputs = options.extra_outputs,
          .plugins = {},
          .scales = job.scales ? save_scales(recorded(*job.scales)) : std::string(),
          .static_scales = options.static_scales,
          .zero_fill = options.zero_fill,
          .zero_filled = {}};
}

// Which plugins steps come from, for those who open the engine or read the ledger.
void record_plugins(plan::Plan& plan) {
  plan.build.plugins = runtime::plugins_of(plan);
  for (plan::LedgerRow& row : plan.ledger) {
    const std::string plugin = runtime::plugin_of(row.kernel);
    if (!plugin.empty()) row.why += "; of plugin " + runtime::plugin_text(plan, plugin);
  }
}

}  // namespace

std::shared_ptr<ir::Graph> typed(const ir::Graph& imported, const Job& job) {
  const precision::Asked asked = ask(imported, job, {});
  precision::type_graph(*asked.raised);
  return asked.raised;
}

namespace {

// Refused before the work: the mode would change nothing.
void check_quantizes(const Job& job, const backend::Backend& backend) {
  const DType type = precision::quantized_type(job.policy.mode);
  if (type == DType::kUndefined) return;
  const bool weights = is_weight_only(type);
  const auto multiplies = [&](const backend::KernelDef& row) {
    return row.op == (weights ? OpKind::kWeightOnlyLinear : OpKind::kQuantizedLinear) &&
           !backend::is_evaluator(row.name);
  };
  if (std::ranges::any_of(backend.kernels, multiplies)) return;
  const std::string mode(name(job.policy.mode));
  throw Error(ErrorCode::kInput,
              "mode " + mode + ": this version has no " + std::string(backend.name) +
                  " kernel for " +
                  (weights ? "products of quantized weights" : "products of 8 bits") +
                  "; build with fp16 or bf16, or with " + mode + " for the device cpu");
}

// What the model says of its int8 products itself.
void take_int8_operands(const ir::Graph& graph, passes::PassOptions& options) {
  for (const auto& [key, operands] : graph.int8_operands) {
    const auto shared = [](const std::vector<float>& numbers) {
      return std::make_shared<const std::vector<float>>(numbers);
    };
    options.ranges.emplace(key,
                           passes::range_of({operands.x_scale, operands.x_zero}, operands.type));
    options.weight_scales.emplace(key, shared(operands.w_scales));
    if (!operands.factors.empty()) options.factors.emplace(key, shared(operands.factors));
  }
}

}  // namespace

Fused fuse(const ir::Graph& imported, const Job& job, const std::set<std::string>& raised,
           plan::PlanOptions::Constants constants, const Quantizes& quantizes) {
  const CompileOptions& options = job.options;
  const backend::Backend& backend = backend_of(options);
  check_quantizes(job, backend);
  precision::Asked asked = ask(imported, job, raised);
  ir::Graph& graph = *asked.raised;
  std::vector<plan::TableBound> table_bounds = plan::table_bounds(graph);
  precision::type_graph(graph);
  passes::PassOptions fusions = pass_options(options, imported);
  fusions.exact_weights = constants == plan::PlanOptions::Constants::kExact;
  fusions.takes = [&backend](const ir::Graph& fused, const ir::Node& node) {
    return plan::has_kernel(fused, node, backend);
  };
  std::optional<ScalesUse> use;
  take_int8_operands(graph, fusions);
  if (job.scales) {
    check_scales_names(*job.scales, options.scales_file, graph);
    use.emplace(*job.scales, options.scales_file,
                options.static_scales ? OperandScales::kStatic : OperandScales::kByRow);
    fusions.factors = use->factors();
    fusions.ranges = use->ranges();
  }
  fusions.quantizes = [&](const ir::Graph& fused, const ir::Node& product, const Tensor& weight,
                          const std::optional<passes::StaticRange>& range) {
    if (use) use->take(fused, product, weight);
    if (quantizes) quantizes(fused, product, weight, range);
  };
  passes::run_passes(graph, passes::Phase::kFuse, fusions);
  if (use) use->check_ranges();
  for (std::string& note : use ? use->notes() : std::vector<std::string>())
    asked.notes.push_back(std::move(note));
  if (!options.extra_outputs.empty()) {
    const std::shared_ptr<ir::Graph> marked = imported.clone();
    add_outputs(*marked, options.extra_outputs);
    raise_graph(*marked, options, imported);
    add_side_outputs(graph, *marked, options.extra_outputs);
  }
  return {std::move(asked.raised), std::move(table_bounds), std::move(asked.notes),
          std::move(asked.quantized)};
}

namespace {

plan::PlanOptions plan_options(const Fused& fused, const Job& job,
                               plan::PlanOptions::Constants constants, plan::KeptConstants* kept) {
  const CompileOptions& options = job.options;
  stage(options, "plan");
  const auto watch_node = [&options](std::string_view node) {
    Watch(options.limits).check_time([&] { return "planning node '" + std::string(node) + "'"; });
  };
  return {.shapes = options.shapes,
          .table_bounds = fused.table_bounds,
          .constants = constants,
          .progress = watch_node,
          .kept = kept};
}

plan::Plan finished(plan::Plan plan, const Fused& fused, const Job& job) {
  plan.notes.insert(plan.notes.begin(), fused.notes.begin(), fused.notes.end());
  const DType quantized = precision::quantized_type(job.policy.mode);
  for (std::string& note : quantization_notes(plan, quantized, fused.quantized, job.fragile))
    plan.notes.push_back(std::move(note));
  plan.build = record_of(job);
  record_plugins(plan);
  return plan;
}

}  // namespace

plan::Plan plan_fused(const Fused& fused, const Job& job, plan::PlanOptions::Constants constants,
                      plan::KeptConstants* kept) {
  const plan::PlanOptions options = plan_options(fused, job, constants, kept);
  const ir::Graph& graph = *fused.graph;
  return finished(plan::make_plan(graph, backend_of(job.options), options), fused, job);
}

plan::Plan plan_fused(Fused&& fused, const Job& job, plan::PlanOptions::Constants constants,
                      plan::KeptConstants* kept) {
  const plan::PlanOptions options = plan_options(fused, job, constants, kept);
  return finished(plan::make_plan(std::move(*fused.graph), backend_of(job.options), options), fused,
                  job);
}

plan::Plan plan_of(const ir::Graph& imported, const Job& job,
                   plan::PlanOptions::Constants constants, const std::set<std::string>& raised,
                   plan::KeptConstants* kept) {
  return plan_fused(fuse(imported, job, raised, constants), job, constants, kept);
}

std::vector<QuantizedProduct> quantized_products(const ir::Graph& imported, const Job& job) {
  std::vector<QuantizedProduct> found;
  const auto take = [&found](const ir::Graph& graph, const ir::Node& product, const Tensor& weight,
                             const std::optional<passes::StaticRange>&) {
    QuantizedProduct& own = found.emplace_back();
    own.names = passes::product_names(product);
    own.x = product.inputs[0];
    own.x_name = graph.value(own.x).name;
    own.weight = weight;
    own.trans_w = product.attrs_as<LinearAttrs>().trans_w;
  };
  fuse(imported, job, {}, plan::PlanOptions::Constants::kStored, take);
  return found;
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
  options.scales = plan.build.scales;
  options.scales_file = "the engine's scales";
  options.static_scales = plan.build.static_scales;
  options.zero_fill = plan.build.zero_fill;
  return options;
}

Compiled run(const std::string& model_path, const Job& asked) {
  check_quantizes(asked, backend_of(asked.options));  // refused before the work
  check_export(asked, model_path);
  Job job = asked;
  if (job.scales) check_scales_model(*job.scales, job.options.scales_file, model_path);
  Compiled result;
  std::shared_ptr<ir::Graph> imported = import(model_path, job.options, result);
  check_export(job, result);
  std::vector<plan::ZeroFilled> zero_filled;
  if (job.options.zero_fill) zero_filled = zero_fillable(*imported, result.plan.notes);
  zero_fill(*imported, zero_filled);
  const bool is_decided = take_exported_policy(*imported, result, job);
  if (is_decided) check_quantizes(job, backend_of(job.options));
  RangeAudit audit = promote_out_of_range(*imported, job);
  const Fallback fallback =
      is_decided ? Fallback() : keep_fragile_products(*imported, job, std::move(audit.exact));
  audit.exact.reset();
  std::vector<TakenProduct> quantized;
  const auto take = [&quantized](const ir::Graph&, const ir::Node& product, const Tensor&,
                                 const std::optional<passes::StaticRange>& range) {
    quantized.push_back({.names = passes::product_names(product),
                         .type = product.request.compute.type,
                         .range = range});
  };
  Fused fused = audit.fused ? std::move(*audit.fused)
                            : fuse(*imported, job, {}, plan::PlanOptions::Constants::kStored, take);
  std::vector<onnx::QdqProduct> exported;
  if (!job.options.export_qdq.empty()) exported = qdq_products(*imported, job, quantized);
  if (job.options.canary)
    result.domains = audit.domains ? std::move(*audit.domains) : domains_of(*imported);
  imported.reset();  // the planner can then release the weights
  plan::Plan plan =
      plan_fused(std::move(fused), job, plan::PlanOptions::Constants::kStored, nullptr);
  plan.model_name = result.plan.model_name;
  plan.producer = result.plan.producer;
  plan.build.zero_filled = std::move(zero_filled);
  plan.notes.insert(plan.notes.begin(), result.plan.notes.begin(), result.plan.notes.end());
  plan.notes.insert(plan.notes.end(), audit.notes.begin(), audit.notes.end());
  plan.notes.insert(plan.notes.end(), fallback.notes.begin(), fallback.notes.end());
  explain(fallback, plan);
  result.plan = std::move(plan);
  tune(result.plan, job.options);
  if (!exported.empty()) result.report_notes = write_export(job, model_path, exported);
  return result;
}

}  // namespace vernier::compiler
