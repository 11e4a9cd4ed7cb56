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

}  // namespace

std::vector<std::string> quantization_notes(const plan::Plan& plan, bool mode_is_int8,
                                            const std::set<std::string>& fragile) {
  const auto is_asked = [&fragile](const plan::Step& step) {
    const auto is_fragile = [&](const std::string& key) { return fragile.contains(key); };
    return step.asked.compute.type == DType::kQ8 || std::ranges::any_of(step.origins, is_fragile);
  };
  std::map<std::string, int64_t> largest;
  for (const plan::Symbol& symbol : plan.symbols) largest[symbol.name] = symbol.max;
  int asked = 0, quantized = 0;
  double all = 0, part = 0;
  for (const plan::Step& step : plan.steps) {
    const bool is_product = step.op == OpKind::kLinear || step.op == OpKind::kQuantizedLinear;
    if (!is_product || !is_asked(step)) continue;
    const double work = operations(plan, step, largest);
    ++asked;
    all += work;
    if (step.op != OpKind::kQuantizedLinear) continue;
    ++quantized;
    part += work;
  }
  if (asked == 0 && !mode_is_int8) return {};
  if (quantized == 0 && !fragile.empty()) {
    return {
        fmt::format("warning: int8: nothing is quantized: all of {} cost too much; see the notes "
                    "on them",
                    counted(asked, "product"))};
  }
  if (quantized == 0) {
    const auto of_the_model =
        std::ranges::count(plan.steps, OpKind::kQuantizedLinear, &plan::Step::op);
    if (asked == 0 && of_the_model > 0)
      return {fmt::format(
          "int8: the model is quantized already; {} on its integers",
          of_the_model == 1 ? "1 product runs" : fmt::format("{} products run", of_the_model))};
    return {asked == 0
                ? "warning: int8: nothing is quantized: the model has no product with a constant "
                  "weight, heads excepted; --fp16 gives the same engine"
                : fmt::format("warning: int8: nothing is quantized: no {} kernel takes these "
                              "products (finite weights, sums of at most 32,768 products)",
                              plan.device)};
  }
  return {
      fmt::format("int8: {} of {} with a constant weight, heads excepted: {:.1f} % of their "
                  "operations",
                  quantized, counted(asked, "product"), 100 * part / all)};
}

}  // namespace vernier::compiler
