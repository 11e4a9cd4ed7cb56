// What is in an engine, for people and programs. Contract: include/vernier/inspect.h.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "compile/json.h"
#include "compile/lines.h"
#include "compile/roofline.h"
#include "core/names.h"
#include "runtime/session_impl.h"
#include "vernier/inspect.h"
#include "vernier/synthetic.h"

namespace vernier {
namespace {

using nlohmann::json;

std::string type_name(DType t) { return t == DType::kUndefined ? "" : std::string(name(t)); }
std::string request_name(const TypeRequest& r) {
  return r.type == DType::kUndefined ? "" : (r.exact ? "==" : "") + type_name(r.type);
}

// A value between two parts of one step is never stored.
std::string store_name(const plan::LedgerRow& row) {
  return row.in_register && row.got_store != DType::kUndefined ? "register"
                                                               : type_name(row.got_store);
}

std::string value_text(const plan::Plan& plan, int32_t index) {
  if (index == plan::kNone) return "-";
  const plan::PlanValue& v = plan.value(index);
  return type_name(v.dtype) + str(v.shape);
}

json value_json(const plan::Plan& plan, int32_t index) {
  if (index == plan::kNone) return nullptr;
  const plan::PlanValue& v = plan.value(index);
  return tensor_json(v.name, v.dtype, v.shape);
}

// ---- summary -----------------------------------------------------------------------------------

json limits_json(const std::vector<Certificate::Limit>& limits) {
  json result = json::object();
  for (const Certificate::Limit& limit : limits) result[limit.name] = limit.value;
  return result;
}

json canary_json(const Canary* canary) {
  if (canary == nullptr) return nullptr;
  json versions = json::object(), runs = json::array();
  for (const Certificate::Version& version : canary->versions)
    versions[version.of] = version.number;
  for (const Canary::Run& run : canary->runs) {
    json shapes = json::object();
    for (const Canary::Array& array : run.inputs) shapes[array.name] = array.shape;
    runs.push_back({{"shapes", std::move(shapes)}, {"outputs_hash", run.outputs_hash}});
  }
  return {{"versions", std::move(versions)}, {"runs", std::move(runs)}};
}

json certificate_json(const Certificate* certificate) {
  if (certificate == nullptr) return nullptr;
  json versions = json::object(), ranges = json::array(), outputs = json::array(),
       plugins = json::array();
  for (const Certificate::Version& version : certificate->versions)
    versions[version.of] = version.number;
  for (const Certificate::Range& range : certificate->ranges) {
    json sizes = json::object();
    for (const Certificate::Size& size : range) sizes[size.name] = size.swept;
    ranges.push_back(std::move(sizes));
  }
  for (const Certificate::OutputLimits& output : certificate->outputs) {
    outputs.push_back({{"name", output.output},
                       {"noise_rms", output.noise_rms},
                       {"rms_reference", output.reference_rms},
                       {"limits", limits_json(output.limits)}});
  }
  for (const Certificate::Plugin& p : certificate->plugins)
    plugins.push_back({{"name", p.name}, {"file", p.file}, {"hash", p.hash}});
  return {{"verdict", certificate->verdict},
          {"engine_hash", certificate->engine_hash},
          {"model_hash", certificate->model_hash},
          {"data_hash", certificate->data_hash},
          {"ranges", std::move(ranges)},
          {"tolerance", limits_json(certificate->tolerances)},
          {"own_tolerance", certificate->own_tolerance},
          {"accepted_declared", certificate->accepted_declared},
          {"outputs", std::move(outputs)},
          {"versions", std::move(versions)},
          {"plugins", std::move(plugins)}};
}

json summary_json(const Engine& engine) {
  const plan::Plan& plan = engine.impl().plan;
  const auto ports = [](const std::vector<Port>& list) {
    json result = json::array();
    for (const Port& p : list) result.push_back(port_json(p));
    return result;
  };
  json plugins = json::array();
  for (const plan::Plugin& p : plan.build.plugins)
    plugins.push_back({{"name", p.name}, {"file", p.file}, {"hash", p.hash}});
  size_t fallback = 0;
  for (const plan::Step& step : plan.steps) fallback += backend::is_evaluator(step.kernel);
  return {{"model", plan.model_name},
          {"producer", plan.producer},
          {"device", plan.device},
          {"target", plan.target},
          {"engine_hash", engine.content_hash()},
          {"inputs", ports(engine.inputs())},
          {"outputs", ports(engine.outputs())},
          {"steps", plan.steps.size()},
          {"fallback_steps", fallback},
          {"weight_bytes", engine.weight_bytes()},
          {"onnx_nodes", plan.ledger.size()},
          {"plugins", std::move(plugins)},
          {"certificate", certificate_json(engine.certificate())},
          {"canary", canary_json(engine.canary())},
          {"notes", plan.notes}};
}

std::string limits_text(const std::vector<Certificate::Limit>& limits) {
  std::string text;
  for (const Certificate::Limit& limit : limits)
    text += format_line("{}{} {:.3g}", text.empty() ? "" : ", ", limit.name, limit.value);
  return text;
}

// "batch 1, 2, 4, 8; seq 4, 16, 48": what was run.
std::string sizes_text(const Certificate::Range& range) {
  std::string text;
  for (const Certificate::Size& size : range)
    text += format_line("{}{} {}", text.empty() ? "" : "; ", size.name,
                        fmt::format("{}", fmt::join(size.swept, ", ")));
  return text.empty() ? "fixed sizes" : text;
}

// "canary      3 runs, recorded with target 'x86-64 avx512', …"
std::string canary_text(const Canary* canary) {
  if (canary == nullptr) return "canary      none: answers were not recorded at the build\n";
  std::string versions;
  for (const Certificate::Version& version : canary->versions)
    versions += (versions.empty() ? "" : ", ") + version.of + " '" + version.number + "'";
  return format_line("canary      {}, recorded with {}\n", count_of(canary->runs, "run"), versions);
}

std::string certificate_text(const engine::EngineFile& file) {
  if (file.outdated_records)
    return "certificate of another version, which does not count: verify the engine again\n";
  if (!file.records.certificate) return "certificate none: not verified\n";
  const Certificate& certificate = *file.records.certificate;
  std::string text =
      format_line("certificate {}\n  model     {}\n  data      {}\n", certificate.verdict,
                  certificate.model_hash, certificate.data_hash);
  const auto add = [&](const char* what, const std::string& value) {
    text += format_line("  {:<9} {}\n", what, value);
  };
  for (const Certificate::Range& range : certificate.ranges) add("sizes", sizes_text(range));
  add("limits",
      limits_text(certificate.tolerances) + (certificate.own_tolerance ? " (the user's own)" : ""));
  for (const Certificate::OutputLimits& output : certificate.outputs) {
    add("output",
        format_line("{}: held to {}; noise {:.3g}, rms of the reference {:.3g}", output.output,
                    limits_text(output.limits), output.noise_rms, output.reference_rms));
  }
  if (certificate.accepted_declared) add("accepted", "errors that kernels declare above the cap");
  for (const Certificate::Version& version : certificate.versions)
    add("version", version.of + " " + version.number);
  for (const Certificate::Plugin& plugin : certificate.plugins)
    add("plugin", format_line("{}: {} ({})", plugin.name, plugin.file, plugin.hash));
  return text;
}

std::string summary_text(const Engine& engine) {
  const json s = summary_json(engine);
  std::string text =
      format_line("model       {}\nproducer    {}\ndevice      {} ({})\nhash        {}\n",
                  engine.impl().plan.model_name, engine.impl().plan.producer,
                  engine.impl().plan.device, engine.impl().plan.target, engine.content_hash());
  for (const Port& p : engine.inputs())
    text += format_line("input       {}: {} {}\n", p.name, name(p.dtype), p.shape_text());
  for (const Port& p : engine.outputs())
    text += format_line("output      {}: {} {}\n", p.name, name(p.dtype), p.shape_text());
  text += format_line(
      "steps       {} for {}, {} on the FP64 evaluator\nweights     {:.1f} MB\n",
      engine.impl().plan.steps.size(), count_of(engine.impl().plan.ledger, "ONNX node"),
      s["fallback_steps"].get<size_t>(), static_cast<double>(engine.weight_bytes()) / 1e6);
  for (const plan::Plugin& p : engine.impl().plan.build.plugins)
    text += format_line("plugin      {}: {} ({})\n", p.name, p.file, p.hash);
  text += certificate_text(*engine.impl().file);
  text += canary_text(engine.canary());
  for (const std::string& note : engine.impl().plan.notes)
    text += format_line("note        {}\n", note);
  return text;
}

// ---- plan --------------------------------------------------------------------------------------

json plan_json(const plan::Plan& plan) {
  json steps = json::array();
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const plan::Step& step = plan.steps[s];
    json in = json::array(), out = json::array();
    for (int32_t v : step.inputs) in.push_back(value_json(plan, v));
    for (int32_t v : step.outputs) out.push_back(value_json(plan, v));
    steps.push_back({{"step", s},
                     {"op", name(step.op)},
                     {"kernel", step.kernel},
                     {"node", step.name},
                     {"bit_class", step.bit_class},
                     {"inputs", in},
                     {"outputs", out},
                     {"origins", step.origins}});
  }
  json symbols = json::array();
  for (const plan::Symbol& symbol : plan.symbols) {
    symbols.push_back(
        {{"name", symbol.name}, {"min", symbol.min}, {"opt", symbol.opt}, {"max", symbol.max}});
  }
  json guards = json::array();
  for (const plan::Guard& guard : plan.guards)
    guards.push_back({{"lhs", guard.lhs.str()}, {"rhs", guard.rhs.str()}, {"node", guard.where}});
  return {{"steps", steps}, {"sizes", symbols}, {"guards", guards}};
}

std::string plan_text(const plan::Plan& plan) {
  std::string text =
      format_line("{:>4}  {:<18} {:<36} {:<32} {}\n", "step", "op", "kernel", "output", "node");
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const plan::Step& step = plan.steps[s];
    text += format_line("{:>4}  {:<18} {:<36} {:<32} {}\n", s, name(step.op), step.kernel,
                        value_text(plan, step.outputs[0]), step.name);
  }
  for (const plan::Guard& guard : plan.guards) {
    text +=
        format_line("guard {} == {} (node '{}')\n", guard.lhs.str(), guard.rhs.str(), guard.where);
  }
  return text;
}

// ---- ledger ------------------------------------------------------------------------------------

json text_or_null(const std::string& text) { return text.empty() ? json() : json(text); }

json ledger_json(const plan::Plan& plan, const std::string& node) {
  json rows = json::array();
  for (const plan::LedgerRow& row : plan.ledger) {
    if (!node.empty() && row.node != node && row.key != node) continue;
    json got{{"compute", type_json(row.got_compute)},
             {"accumulate", type_json(row.got_accumulate)},
             {"store", text_or_null(store_name(row))}};
    json asked{{"compute", text_or_null(request_name(row.asked.compute))},
               {"accumulate", text_or_null(request_name(row.asked.accumulate))},
               {"store", text_or_null(request_name(row.asked.store))},
               {"by", row.asked.by}};
    rows.push_back({{"node", row.node},
                    {"key", row.key},
                    {"op", row.op},
                    {"origin_of", row.composite},
                    {"state", name(row.state)},
                    {"asked", asked},
                    {"got", got},
                    {"step", row.step == plan::kNone ? json(nullptr) : json(row.step)},
                    {"kernel", row.kernel},
                    {"why", row.why}});
  }
  return {{"rows", rows}};
}

std::string ledger_text(const plan::Plan& plan, const std::string& node) {
  std::string text = format_line("{:<44} {:<22} {:<24} {:<18} {:<42} {}\n", "node", "op",
                                 "asked (s/c/a), by", "got (s/c/a)", "step", "why");
  for (const plan::LedgerRow& row : plan.ledger) {
    if (!node.empty() && row.node != node && row.key != node) continue;
    const std::string op = row.composite.empty() || row.composite == row.op
                               ? row.op
                               : row.op + " (of " + row.composite + ")";
    const std::string asked = row.asked.by.empty()
                                  ? ""
                                  : format_line("{} / {} / {} {}", request_name(row.asked.store),
                                                request_name(row.asked.compute),
                                                request_name(row.asked.accumulate), row.asked.by);
    const std::string got = row.got_compute == DType::kUndefined
                                ? store_name(row)
                                : store_name(row) + " / " + type_name(row.got_compute) + " / " +
                                      type_name(row.got_accumulate);
    const std::string step =
        row.step == plan::kNone
            ? std::string(name(row.state))
            : format_line("{} {}", row.step,
                          row.state == LedgerState::kMerged ? name(row.state) : row.kernel);
    text += format_line("{:<44} {:<22} {:<24} {:<18} {:<42} {}\n",
                        row.node.empty() ? row.key : row.node, op, asked, got, step, row.why);
  }
  return text;
}

void require_node(const plan::Plan& plan, const std::string& node) {
  std::vector<std::string> known;
  for (const plan::LedgerRow& row : plan.ledger) {
    if (node.empty() || row.node == node || row.key == node) return;
    known.push_back(row.node);
  }
  throw Error(ErrorCode::kInput, "--why: the model has no node '" + node +
                                     "'; --ledger lists them" + did_you_mean(node, known));
}

// ---- memory and timing -------------------------------------------------------------------------

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

struct PreparedRun {
  std::vector<InputArray> arrays;
  std::vector<Input> inputs;
  json tensors = json::array();
};
PreparedRun prepare_run(const Engine& engine, const EngineInspection& what) {
  PreparedRun run{.arrays = {}, .inputs = what.inputs};
  if (run.inputs.empty()) run.arrays = synthetic_inputs(engine, what.shapes);
  for (const InputArray& array : run.arrays) run.inputs.push_back(array.ref());
  for (const Input& input : run.inputs) {
    run.tensors.push_back(
        {{"name", input.name}, {"type", type_json(input.dtype)}, {"shape", input.shape}});
  }
  return run;
}

// "input_ids [4, 128], …"
std::string sizes_text(const json& tensors) {
  std::string text;
  for (const json& tensor : tensors)
    text +=
        (text.empty() ? "" : ", ") + tensor["name"].get<std::string>() + " " + shape_text(tensor);
  return text;
}

// The engine stays alive elsewhere: a session wants shared ownership.
std::shared_ptr<const Engine> borrowed(const Engine& engine) {
  return {std::shared_ptr<void>(), &engine};
}

json rates_json(const compiler::DeviceRates& rates) {
  json products = json::object();
  for (const auto& [type, rate] : rates.flops_per_ms) products[type_name(type)] = rate / 1e6;
  return {{"copy_gb_per_s", rates.copy_bytes_per_ms / 1e6}, {"product_gflop_per_s", products}};
}

// Is a step run once per shape, not in each run?
std::vector<bool> once_per_shape(Session& session) {
  std::vector<bool> once;
  for (const runtime::StepRun& step : session.impl().shapes.back()->steps)
    once.push_back(step.once);
  return once;
}

// How many kernels a run launches, and of a model with attention how many from one attention to the
// next: a layer's.
json kernels_json(const plan::Plan& plan, const std::vector<int64_t>& kernels,
                  const std::vector<bool>& once) {
  int64_t all = 0, since_attention = 0;
  std::vector<double> layers;
  bool seen = false;
  for (size_t s = 0; s < kernels.size(); ++s) {
    if (plan.steps[s].op == OpKind::kAttention) {
      if (seen) layers.push_back(static_cast<double>(since_attention));
      seen = true;
      since_attention = 0;
    }
    if (once[s]) continue;
    all += kernels[s];
    since_attention += kernels[s];
  }
  json result{{"run", all}};
  if (!layers.empty()) result["layer"] = median(layers);
  return result;
}

json timing_json(const Engine& engine, const EngineInspection& what) {
  constexpr int kWarmUps = 2, kRuns = 15;
  const PreparedRun run = prepare_run(engine, what);
  Session session(borrowed(engine), {.threads = what.threads});
  for (int i = 0; i < kWarmUps; ++i) session.run(run.inputs);
  const plan::Plan& plan = engine.impl().plan;
  std::vector<std::vector<double>> by_step(plan.steps.size());
  std::vector<double> whole;
  for (int i = 0; i < kRuns; ++i) {
    whole.push_back(session.impl().time_runs(run.inputs, 1));
    const std::vector<double> ms = session.impl().time_steps(run.inputs);
    for (size_t s = 0; s < ms.size(); ++s) by_step[s].push_back(ms[s]);
  }
  const compiler::DeviceRates rates = compiler::measure_rates(session.impl());
  const std::vector<int64_t> kernels = session.impl().count_kernels(run.inputs);
  const std::vector<bool> once = once_per_shape(session);
  double total = 0, total_floor = 0;
  for (size_t s = 0; s < by_step.size(); ++s)
    if (!once[s]) total += median(by_step[s]);
  json steps = json::array();
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const double ms = median(by_step[s]);
    const double floor = compiler::floor_ms(session.impl(), s, rates);
    if (!once[s]) total_floor += floor;
    steps.push_back({{"step", s},
                     {"op", name(plan.steps[s].op)},
                     {"kernel", plan.steps[s].kernel},
                     {"node", plan.steps[s].name},
                     {"ms", ms},
                     {"once_per_shape", bool{once[s]}},
                     {"share", total > 0 && !once[s] ? ms / total : 0},
                     {"floor_ms", floor},
                     {"of_floor", ms > 0 ? floor / ms : 0}});
    if (!kernels.empty()) steps.back()["kernels"] = kernels[s];
  }
  json result{{"inputs", run.tensors},
              {"runs", kRuns},
              {"total_ms", total},
              {"run_ms", median(whole)},
              {"total_floor_ms", total_floor},
              {"rates", rates_json(rates)},
              {"steps", steps}};
  if (!kernels.empty()) result["kernels"] = kernels_json(plan, kernels, once);
  return result;
}

std::string timing_text(const json& timing) {
  const json& rates = timing["rates"];
  std::string text =
      format_line("measured here: copy {:.1f} GB/s", rates["copy_gb_per_s"].get<double>());
  for (const auto& [type, rate] : rates["product_gflop_per_s"].items())
    text += format_line(", {} product {:.0f} GFLOP/s", type, rate.get<double>());
  text += format_line(
      "\n{} with {}; medians\n{:>4} {:>10} {:>6} {:>10} {:>6} {:>3}  {:<18} "
      "{:<36} {}\n",
      counted(timing["runs"].get<int>(), "run"), sizes_text(timing["inputs"]), "step", "ms",
      "share", "floor", "of it", "", "op", "kernel", "node");
  for (const json& s : timing["steps"]) {
    const std::string kernels = s.contains("kernels") ? s["kernels"].dump() : "";
    const std::string share = s["once_per_shape"].get<bool>()
                                  ? "once"
                                  : fmt::format("{:.1f}%", 100 * s["share"].get<double>());
    text +=
        format_line("{:>4} {:>10.4f} {:>6} {:>10.4f} {:>5.0f}% {:>3}  {:<18} {:<36} {}\n",
                    s["step"].get<int>(), s["ms"].get<double>(), share, s["floor_ms"].get<double>(),
                    100 * s["of_floor"].get<double>(), kernels, s["op"].get<std::string>(),
                    s["kernel"].get<std::string>(), s["node"].get<std::string>());
  }
  const double total = timing["total_ms"].get<double>();
  const double floor = timing["total_floor_ms"].get<double>();
  text += format_line("     {:>10.4f}        {:>10.4f} {:>5.0f}%  total\n", total, floor,
                      total > 0 ? 100 * floor / total : 0);
  text += format_line("     {:>10.4f}  a run that is not stopped between steps\n",
                      timing["run_ms"].get<double>());
  if (std::ranges::any_of(timing["steps"],
                          [](const json& s) { return s["once_per_shape"].get<bool>(); }))
    text += "once: needs the sizes alone; computed by the first run of a shape, and not counted\n";
  if (!timing.contains("kernels")) return text;
  const json& kernels = timing["kernels"];
  text += format_line("kernels: {} in a run", kernels["run"].get<int64_t>());
  if (kernels.contains("layer"))
    text += format_line(", {:.0f} from one Attention to the next", kernels["layer"].get<double>());
  return text + "\n";
}

json memory_json(const Engine& engine, const EngineInspection& what) {
  const PreparedRun run = prepare_run(engine, what);
  Session session(borrowed(engine), {.threads = what.threads});
  session.run(run.inputs);
  const plan::Plan& plan = engine.impl().plan;
  const Session::Impl::ShapeEntry& entry = *session.impl().shapes.back();
  json values = json::array();
  for (size_t s = 0; s < entry.steps.size(); ++s) {
    const auto& step = entry.steps[s];
    for (size_t i = 0; i < step.out.size(); ++i) {
      if (!plan.steps[s].has_output(i)) continue;
      const plan::PlanValue& v = plan.value(plan.steps[s].outputs[i]);
      values.push_back({{"value", v.name},
                        {"step", s},
                        {"last_step", v.last_step},
                        {"offset", step.out_sources[i].offset},
                        {"kept", step.out_sources[i].base == runtime::Source::kKept},
                        {"bytes", static_cast<size_t>(step.out[i].elems()) * size_bytes(v.dtype)}});
    }
    if (step.shape_state && step.shape_state->workspace_bytes > 0) {
      values.push_back({{"value", "workspace of " + plan.steps[s].kernel},
                        {"step", s},
                        {"last_step", s},
                        {"offset", step.workspace_offset},
                        {"kept", false},
                        {"bytes", step.shape_state->workspace_bytes}});
    }
  }
  return {{"inputs", run.tensors},
          {"weight_bytes", engine.weight_bytes()},
          {"arena_bytes", entry.arena_bytes},
          {"kept_bytes", entry.kept.bytes},
          {"values", values}};
}

std::string memory_text(const json& memory) {
  std::string text = format_line(
      "with {}: weights {} (mapped), arena {}\n{:>12} {:>12} {:>11}  {}\n",
      sizes_text(memory["inputs"]), counted(memory["weight_bytes"].get<int64_t>(), "byte"),
      counted(memory["arena_bytes"].get<int64_t>(), "byte"), "offset", "bytes", "steps", "value");
  for (const json& v : memory["values"]) {
    text += format_line("{:>12} {:>12} {:>5}-{:<5}  {}{}\n", v["offset"].get<uint64_t>(),
                        v["bytes"].get<uint64_t>(), v["step"].get<int>(), v["last_step"].get<int>(),
                        v["value"].get<std::string>(), v["kept"].get<bool>() ? " (kept)" : "");
  }
  if (const auto kept = memory["kept_bytes"].get<int64_t>(); kept > 0)
    text += format_line("kept for this shape beside the arena: {}\n", counted(kept, "byte"));
  return text;
}

}  // namespace

std::string inspect_engine(const Engine& engine, const EngineInspection& what) {
  const plan::Plan& plan = engine.impl().plan;
  const bool as_json = what.format == InspectFormat::kJson;
  // Names come from a file: bytes that are not text are replaced.
  const auto dump = [](const json& j) {
    return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  };
  switch (what.view) {
    case EngineView::kPlan:
      return as_json ? dump(plan_json(plan)) : plan_text(plan);
    case EngineView::kLedger:
      require_node(plan, what.node);
      return as_json ? dump(ledger_json(plan, what.node)) : ledger_text(plan, what.node);
    case EngineView::kTiming: {
      const json timing = timing_json(engine, what);
      return as_json ? dump(timing) : timing_text(timing);
    }
    case EngineView::kMemory: {
      const json memory = memory_json(engine, what);
      return as_json ? dump(memory) : memory_text(memory);
    }
    default:
      return as_json ? dump(summary_json(engine)) : summary_text(engine);
  }
}

bool is_engine_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // a pipe would wait
  constexpr std::string_view kMagic("VERNIER\0", 8);
  std::ifstream file(path, std::ios::binary);
  std::string head(kMagic.size(), '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  return file && head == kMagic;
}

}  // namespace vernier
