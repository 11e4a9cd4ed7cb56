// The Q/DQ model of `build --export-qdq`: see export_qdq.h.
#include "compile/export_qdq.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "compile/lines.h"
#include "compile/scales_use.h"
#include "core/attrs.h"
#include "core/whole_file.h"
#include "onnx/slice.h"
#include "precision/policy_file.h"

namespace vernier::compiler {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::kInput, "--export-qdq: " + what);
}

std::string label(const passes::ProductName& product) {
  return product.name.empty() ? product.key : product.name;
}

// The nodes of a graph by the keys of their origins.
std::map<std::string, const ir::Node*> by_key(const ir::Graph& graph, std::vector<OpKind> kinds) {
  std::map<std::string, const ir::Node*> found;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (std::ranges::find(kinds, node.op) == kinds.end()) continue;
    for (const ir::Origin& origin : node.origins) found.emplace(origin.key, &node);
  }
  return found;
}

// A constant, or the transpose of one; null otherwise.
struct Matrix {
  const Tensor* values = nullptr;
  bool turned = false;
};
Matrix matrix_of(const ir::Graph& graph, ir::ValueId value) {
  Matrix matrix;
  while (!graph.value(value).is_constant()) {
    const ir::Node* node = graph.producer(value);
    if (node == nullptr || (node->op != OpKind::kTranspose && node->op != OpKind::kIdentity))
      return {};
    if (node->op == OpKind::kTranspose) matrix.turned = !matrix.turned;
    value = node->inputs[0];
  }
  matrix.values = &graph.value(value).constant;
  return matrix;
}

// Are they equal, the second one turned?
bool equal(const Tensor& a, const Tensor& b, bool turned) {
  const Shape shape = turned ? Shape{b.shape()[1], b.shape()[0]} : b.shape();
  if (a.shape() != shape) return false;
  if (!turned && a.dtype() == b.dtype()) return std::memcmp(a.data(), b.data(), a.bytes()) == 0;
  const int64_t cols = a.shape()[1];
  for (int64_t i = 0; i < a.elems(); ++i) {
    const int64_t other = turned ? i % cols * a.shape()[0] + i / cols : i;
    if (a.float_at(i) != b.float_at(other)) return false;
  }
  return true;
}

class Exporter {
 public:
  Exporter(const ir::Graph& imported, const Job& job)
      : imported_(imported),
        typed_(typed(imported, job)),
        nodes_(by_key(imported, {OpKind::kMatMul, OpKind::kGemm})),
        linears_(by_key(*typed_, {OpKind::kLinear})),
        factors_(job.scales ? column_factors(*job.scales) : passes::ColumnFactors()) {}

  onnx::QdqProduct product(const passes::ProductName& name, const TakenProduct& taken) const {
    const auto linear = linears_.find(name.key);
    VERNIER_ASSERT(linear != linears_.end(), name.key);
    const Tensor& weight = typed_->value(linear->second->inputs[1]).constant;
    const bool trans_w = linear->second->attrs_as<LinearAttrs>().trans_w;
    check_node(name, weight, trans_w);
    if (!taken.range)
      fail(
          fmt::format("the scales of the rows that product '{}' takes are found at run time, and "
                      "QuantizeLinear takes fixed ones. Add --static, with --scales as 'vernier "
                      "calibrate' writes them, or keep it in 16 bits with --rule 'name:{} "
                      "compute=f16'",
                      label(name), label(name)));
    const passes::StaticScale scale = passes::static_scale(*taken.range, taken.type);
    onnx::QdqProduct made{.node = onnx::main_node_of(name.key),
                          .name = label(name),
                          .type = taken.type == DType::kQ8 ? DType::kI8 : taken.type,
                          .w = {},
                          .trans_w = trans_w,
                          .w_scales = {},
                          .x_scale = scale.scale,
                          .x_zero = static_cast<int>(scale.zero),
                          .factors = factors_of(name)};
    passes::QuantizedWeight whole = passes::quantized_weight(
        weight, {.type = taken.type, .trans_w = trans_w, .factors = made.factors});
    made.w = std::move(whole.values);
    made.w_scales = std::move(whole.scales);
    return made;
  }

 private:
  // Empty where all are 1.
  std::vector<float> factors_of(const passes::ProductName& name) const {
    const passes::SharedFactors factors = passes::factors_of(name, factors_);
    const bool changes =
        factors && std::ranges::any_of(*factors, [](float factor) { return factor != 1; });
    return changes ? *factors : std::vector<float>();
  }

  // Not, for example, a FusedMatMul, which import makes a MatMul of.
  static bool is_plain(const ir::Node& node, const std::string& key) {
    const auto origin = std::ranges::find(node.origins, key, &ir::Origin::key);
    return origin->op_type == "MatMul" || origin->op_type == "Gemm";
  }

  void check_node(const passes::ProductName& name, const Tensor& weight, bool trans_w) const {
    const std::string instead = fmt::format(
        "; keep it in 16 bits with --rule 'name:{} compute=f16', or build without --export-qdq",
        label(name));
    if (name.key.starts_with('/'))
      fail(
          fmt::format("product '{}' is in a local function or a branch of If, whose nodes stand "
                      "for several products. Inline the model's functions first, as "
                      "onnx.inliner.inline_local_functions does{}",
                      label(name), instead));
    const auto found = nodes_.find(name.key);
    if (found == nodes_.end() || !is_plain(*found->second, name.key))
      fail(
          fmt::format("product '{}' is not made by a MatMul or a Gemm, expected one of these to "
                      "write Q/DQ operators around its operands{}",
                      label(name), instead));
    const ir::Node& node = *found->second;
    const DType type = imported_.value(node.inputs[0]).dtype;
    if (type != DType::kF32)
      fail(
          fmt::format("product '{}' takes {}, expected f32: the scales of Q/DQ operators have the "
                      "type of what they quantize. Export the model in float32",
                      label(name), vernier::name(type)));
    const Matrix own = matrix_of(imported_, node.inputs[1]);
    const bool trans_b = node.op == OpKind::kGemm && node.attrs_as<GemmAttrs>().trans_b;
    if (own.values == nullptr || own.values->rank() != 2 ||
        !equal(weight, *own.values, own.turned != (trans_b != trans_w)))
      fail(
          fmt::format("the weight of product '{}' is computed from constants, expected an "
                      "initializer. Fold the constants first, as onnxsim does{}",
                      label(name), instead));
  }

  const ir::Graph& imported_;
  std::shared_ptr<const ir::Graph> typed_;
  std::map<std::string, const ir::Node*> nodes_, linears_;
  passes::ColumnFactors factors_;
};

// May products of this build take operands of `type`?
bool asks_for(const Job& job, DType type) {
  const auto asks = [type](const precision::Rule& rule) { return rule.compute.type == type; };
  return precision::quantized_type(job.policy.mode) == type ||
         std::ranges::any_of(job.policy.rules, asks);
}

// "24 products with static int8 operands"
std::string written_text(const std::vector<onnx::QdqProduct>& products) {
  std::string text;
  for (const DType type : {DType::kI8, DType::kF8E4M3}) {
    const auto count = std::ranges::count(products, type, &onnx::QdqProduct::type);
    if (count == 0) continue;
    text +=
        fmt::format("{}{} {} with static {} operands", text.empty() ? "" : ", ", count,
                    count == 1 ? "product" : "products", type == DType::kI8 ? "int8" : "f8e4m3");
  }
  return text;
}

}  // namespace

void check_export(const Job& job, const std::string& model_path) {
  const std::string& to = job.options.export_qdq;
  if (to.empty()) return;
  const bool int8 = asks_for(job, DType::kQ8);
  if (!int8 && !asks_for(job, DType::kF8E4M3))
    fail(
        "a Q/DQ model has products in int8 or fp8, and this build asks for none; add --int8, "
        "--scales and --static, or --fp8");
  if (int8 && !job.options.static_scales)
    fail(
        "the scales of rows are found at run time, and QuantizeLinear takes fixed ones "
        "(DynamicQuantizeLinear has one scale for all rows: other numbers). Add --static, with "
        "--scales as 'vernier calibrate' writes them");
  if (job.options.seed_missing_weights)
    fail("a Q/DQ model holds all weights; build without --seed-missing-weights");
  std::error_code error;  // two files that are not there are not the same
  if (std::filesystem::equivalent(to, model_path, error))
    fail("writing '" + to + "' would destroy the model, which the build reads; give another name");
  check_can_write(to, "Q/DQ model");
}

void check_export(const Job& job, const Compiled& imported) {
  if (job.options.export_qdq.empty()) return;
  for (const DType type : {DType::kQ8, DType::kF8E4M3}) {
    if (asks_for(job, type) && imported.opset < onnx::oldest_qdq_opset(type))
      fail(onnx::opset_message(imported.opset, type));
  }
}

std::vector<onnx::QdqProduct> qdq_products(const ir::Graph& imported, const Job& job,
                                           const std::vector<TakenProduct>& taken) {
  if (taken.empty())
    fail("no product of this build is in 8 bits; the notes of a build without it have the reasons");
  const Exporter exporter(imported, job);
  std::vector<onnx::QdqProduct> products;
  for (const TakenProduct& product : taken)
    for (const passes::ProductName& name : product.names)
      products.push_back(exporter.product(name, product));
  return products;
}

std::vector<std::string> write_export(const Job& job, const std::string& model_path,
                                      const std::vector<onnx::QdqProduct>& products) {
  stage(job.options, "export Q/DQ");
  const std::string& to = job.options.export_qdq;
  onnx::write_qdq_model(
      model_path, to, products,
      {.policy = precision::save_policy(job.policy), .limits = job.options.limits});
  std::string kept;
  if (!job.fragile.empty())
    kept = fmt::format("; {} that {} costs too much {} not quantized there either",
                       count_of(job.fragile, "product"), precision::name(job.policy.mode),
                       job.fragile.size() == 1 ? "is" : "are");
  return {format_line("Q/DQ model '{}': {}{}", to, written_text(products), kept),
          format_line("Q/DQ model '{}': what else the mode and the rules ask for is not part of "
                      "ONNX. Other runtimes compute the rest in the model's types; 'vernier build' "
                      "takes mode and rules from the metadata 'vernier.int8'",
                      to)};
}

void check_can_calibrate(const ir::Graph& imported, const std::string& model) {
  if (imported.int8_operands.empty()) return;
  throw Error(ErrorCode::kInput,
              fmt::format("'{}' has the scales of its quantized products itself ('vernier build "
                          "--export-qdq' wrote it); calibrate the model that it was made from",
                          model));
}

bool take_exported_policy(const ir::Graph& imported, Compiled& compiled, Job& job) {
  if (!imported.int8_operands.empty() && job.scales)
    throw Error(
        ErrorCode::kInput,
        fmt::format("scales '{}': the model has the scales of its quantized products itself "
                    "('vernier build --export-qdq' wrote it). Build without --scales, or "
                    "build the model that it was made from",
                    job.options.scales_file));
  const CompileOptions& options = job.options;
  if (compiled.exported_policy.empty() || !options.mode.empty() || !options.policy.empty())
    return false;
  precision::Policy policy =
      precision::load_policy(compiled.exported_policy, "the model's metadata 'vernier.int8'");
  compiled.plan.notes.push_back(fmt::format(
      "mode {}{} as the model was written with; a mode or a policy of yours replaces it",
      precision::name(policy.mode),
      policy.rules.empty() ? "" : " and " + count_of(policy.rules, "rule")));
  std::ranges::move(job.policy.rules, std::back_inserter(policy.rules));
  job.policy = std::move(policy);
  return true;
}

}  // namespace vernier::compiler
