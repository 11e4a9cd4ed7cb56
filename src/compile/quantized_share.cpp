// The share of quantized products: see quantized_share.h.
#include "compile/quantized_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compile/lines.h"
#include "rules/rules.h"

namespace vernier::compiler {
namespace {

// 2 per multiply-add, at the largest sizes.
double operations(const plan::Plan& plan, const plan::Step& step,
                  const std::map<std::string, int64_t>& largest) {
  double sum = 2;
  for (const Dim& d : plan.value(step.outputs[0]).shape)
    sum *= static_cast<double>(d.evaluate(largest));
  return sum * static_cast<double>(plan.value(step.inputs[0]).shape.back().evaluate(largest));
}

// The products that were asked for one quantized type, or would be but for rules, and what they
// got.
struct Share {
  int asked = 0, quantized = 0;
  int ruled_out = 0;         // asked for other types: by rules, by the range audit
  double all = 0, part = 0;  // operations
};

bool is_product(const plan::Step& step) {
  return step.op == OpKind::kLinear || step.op == OpKind::kQuantizedLinear ||
         step.op == OpKind::kWeightOnlyLinear || step.op == OpKind::kLinearAddLayerNorm;
}
bool has_any_of(const plan::Step& step, const std::set<std::string>& keys) {
  return std::ranges::any_of(step.origins,
                             [&](const std::string& key) { return keys.contains(key); });
}

Share share_of(const plan::Plan& plan, DType type, const std::set<std::string>& by_mode,
               const std::set<std::string>& fragile) {
  const OpKind op = is_weight_only(type) ? OpKind::kWeightOnlyLinear : OpKind::kQuantizedLinear;
  std::map<std::string, int64_t> largest;
  for (const plan::Symbol& symbol : plan.symbols) largest[symbol.name] = symbol.max;
  plan.add_bounds(largest);
  Share share;
  for (const plan::Step& step : plan.steps) {
    const bool is_asked = step.asked.compute.type == type;
    if (!is_product(step) || (!is_asked && !has_any_of(step, by_mode))) continue;
    const double work = operations(plan, step, largest);
    ++share.asked;
    share.all += work;
    if (!is_asked && !has_any_of(step, fragile)) ++share.ruled_out;
    if (!is_asked || step.op != op) continue;
    ++share.quantized;
    share.part += work;
  }
  return share;
}

// Are all products of this type those that the mode's fallback keeps in it?
bool is_kept(const plan::Plan& plan, DType type, const std::set<std::string>& fragile) {
  return std::ranges::all_of(plan.steps, [&](const plan::Step& step) {
    return step.asked.compute.type != type || has_any_of(step, fragile);
  });
}

std::string note_of(const plan::Plan& plan, DType type, bool is_mode, const Share& share,
                    bool any_fragile) {
  const std::string mode(type == DType::kQ8 ? "int8" : type == DType::kF8E4M3 ? "fp8" : name(type));
  if (share.quantized > 0)
    return fmt::format("{}: {} of {} {}: {:.1f} % of their operations{}", mode, share.quantized,
                       counted(share.asked, "product"),
                       is_mode ? "with a constant weight, heads excepted" : "that rules ask for it",
                       100 * share.part / share.all,
                       share.ruled_out == 0
                           ? ""
                           : fmt::format("; other types are asked for at {}", share.ruled_out));
  if (share.asked > 0 && share.ruled_out == share.asked)
    return fmt::format(
        "warning: {}: nothing is quantized: other types are asked for at all of {} with a constant "
        "weight, heads excepted",
        mode, counted(share.asked, "product"));
  if (any_fragile)
    return fmt::format(
        "warning: {}: nothing is quantized: all of {} cost too much; see the notes on them", mode,
        counted(share.asked, "product"));
  const auto of_the_model =
      std::ranges::count(plan.steps, OpKind::kQuantizedLinear, &plan::Step::op);
  if (share.asked == 0 && of_the_model > 0)
    return fmt::format(
        "{}: the model is quantized already; {} on its integers", mode,
        of_the_model == 1 ? "1 product runs" : fmt::format("{} products run", of_the_model));
  if (share.asked == 0)
    return fmt::format(
        "warning: {}: nothing is quantized: the model has no product with a constant weight, heads "
        "excepted; {} gives the same engine",
        mode, is_quantized_operand(type) ? "--fp16" : "a mode of 16 bits");
  return fmt::format(
      "warning: {}: nothing is quantized: no {} kernel takes these products (finite weights{})",
      mode, plan.device, is_quantized_operand(type) ? ", sums of at most 32,768 products" : "");
}

}  // namespace

std::vector<std::string> quantization_notes(const plan::Plan& plan, DType of_mode,
                                            const std::set<std::string>& by_mode,
                                            const std::set<std::string>& fragile) {
  const std::set<std::string> none;
  std::vector<std::string> notes;
  for (const DType type : {DType::kQ8, DType::kF8E4M3, DType::kW8, DType::kW4}) {
    const bool is_mode = type == of_mode;
    const Share share =
        is_mode ? share_of(plan, type, by_mode, fragile) : share_of(plan, type, none, none);
    if (!is_mode && (share.asked == 0 || is_kept(plan, type, fragile))) continue;
    notes.push_back(note_of(plan, type, is_mode, share, is_mode && !fragile.empty()));
  }
  return notes;
}

}  // namespace vernier::compiler
