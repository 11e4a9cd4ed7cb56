// Sites: see sites.h.
#include "calibrate/sites.h"

#include <fmt/format.h>

#include <map>

namespace vernier::calibration {
namespace {

using compiler::QuantizedProduct;

int64_t channels_of(const QuantizedProduct& product) {
  return product.weight.shape()[product.trans_w ? 1 : 0];
}

// Does the step multiply rows of so many channels, its first input?
bool multiplies(const plan::Plan& plan, const plan::Step& step, int64_t channels) {
  if ((flags(step.op) & kProduct) == 0 || !step.has_input(0)) return false;
  const SymShape& shape = plan.value(step.inputs[0]).shape;
  return !shape.empty() && shape.back() == Dim(channels);
}

int32_t step_of(const QuantizedProduct& product, const plan::Plan& plan,
                const std::map<std::string, int32_t>& step_by_key) {
  for (const passes::ProductName& node : product.names) {
    const auto at = step_by_key.find(node.key);
    if (at == step_by_key.end() || at->second == plan::kNone) continue;
    const plan::Step& step = plan.step(at->second);
    if (multiplies(plan, step, channels_of(product))) return at->second;
  }
  return plan::kNone;
}

// Names that several nodes of the model have do not say which one is meant.
std::string label(const passes::ProductName& node, const std::map<std::string, int>& uses) {
  const auto at = uses.find(node.name);
  return node.name.empty() || (at != uses.end() && at->second > 1) ? node.key : node.name;
}

}  // namespace

std::vector<Site> sites_of(const std::vector<QuantizedProduct>& products, const plan::Plan& plan,
                           std::vector<std::string>& notes) {
  std::map<std::string, int32_t> step_by_key;
  std::map<std::string, int> uses;
  for (const plan::LedgerRow& row : plan.ledger) {
    step_by_key[row.key] = row.step;
    ++uses[row.node];
  }
  std::vector<Site> sites;
  std::map<ir::ValueId, size_t> site_of;
  for (const QuantizedProduct& product : products) {
    const int32_t step = step_of(product, plan, step_by_key);
    if (step == plan::kNone) {
      notes.push_back(
          fmt::format("warning: product '{}' is not calibrated: the FP32 engine has no "
                      "step for it. It keeps the scales of its rows",
                      product.names.empty() ? "" : label(product.names[0], uses)));
      continue;
    }
    const auto [at, fresh] = site_of.emplace(product.x, sites.size());
    if (fresh)
      sites.push_back({.x = product.x_name,
                       .products = {},
                       .weights = {},
                       .channels = channels_of(product),
                       .step = step});
    Site& site = sites[at->second];
    for (const passes::ProductName& node : product.names)
      site.products.push_back(label(node, uses));
    site.weights.push_back({product.weight, product.trans_w});
  }
  return sites;
}

}  // namespace vernier::calibration
