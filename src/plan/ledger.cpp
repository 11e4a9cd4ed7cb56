// Ledger rows: see ledger.h.
#include "plan/ledger.h"

#include <algorithm>
#include <set>

#include "precision/onnx_nodes.h"
#include "precision/requests.h"

namespace vernier::plan {
namespace {

bool before(const LedgerRow& a, const LedgerRow& b) {
  return precision::compare_keys(a.key, b.key) < 0;
}

LedgerRow row_of(const ir::Origin& origin) {
  LedgerRow row;
  row.key = origin.key;
  row.node = origin.name;
  row.op = origin.op_type;
  row.asked = origin.asked;
  return row;
}

// What the step does to this one ONNX node of it.
void fill_types(const Numerics& numerics, const ir::Node& node, LedgerRow& row) {
  const bool in_product = (flags(node.op) & kProduct) != 0;
  const bool besides = in_product && node.origins.size() > 1 && !precision::is_product(row.op);
  row.got_compute = besides ? numerics.inner : numerics.compute;
  row.got_accumulate = numerics.accumulate;
  const auto last = std::ranges::max_element(
      node.origins, [](const auto& a, const auto& b) { return precision::later_in_file(b, a); });
  // A Cast for an operand at the end of a chain: what is stored is no longer this node's result.
  const bool converted =
      node.op == OpKind::kFusedElementwise && node.request.store.type != last->asked.store.type;
  row.in_register = converted || (node.origins.size() > 1 && last->key != row.key);
  const DType in_register = in_product ? numerics.inner : numerics.compute;
  row.got_store = row.in_register ? in_register : numerics.store;
  if (row.asked.store.type == DType::kUndefined) row.got_store = DType::kUndefined;
}

void fill_from_step(const Plan& plan, const Place& place, const ir::Node& node, LedgerRow& row) {
  row.state = place.state;
  row.step = place.step;
  row.why = place.why;
  if (place.step == kNone) return;
  const Step& step = plan.step(place.step);
  row.kernel = step.kernel;
  if (place.state == LedgerState::kMerged) return;
  if (node.origins.size() > 1 || name(node.op) != row.op) row.composite = name(node.op);
  // Kernels of integers say f32 for the floats they do not have.
  if (!row.asked.by.empty()) fill_types(step.numerics, node, row);
  row.why = "satisfies" + (place.why.empty() ? "" : "; not used: " + place.why);
}

}  // namespace

void write_ledger(const ir::Graph& graph, const std::map<ir::NodeId, Place>& places, Plan& plan) {
  std::set<std::string> seen;
  // A node split over several (QKV merged, then cut) is reported for the first that computes.
  for (const bool views : {false, true}) {
    for (ir::NodeId id : graph.order()) {
      const ir::Node& node = graph.node(id);
      if (((flags(node.op) & kView) != 0) != views) continue;
      const auto place = places.find(id);
      VERNIER_ASSERT(place != places.end(), node.name);
      for (const ir::Origin& origin : node.origins) {
        if (!seen.insert(origin.key).second) continue;
        LedgerRow row = row_of(origin);
        fill_from_step(plan, place->second, node, row);
        plan.ledger.push_back(std::move(row));
      }
    }
  }
  for (const ir::Retired& retired : graph.retired) {
    if (!seen.insert(retired.origin.key).second) continue;
    LedgerRow row = row_of(retired.origin);
    row.state = retired.state;
    row.why = retired.why;
    plan.ledger.push_back(std::move(row));
  }
  std::stable_sort(plan.ledger.begin(), plan.ledger.end(), before);
}

}  // namespace vernier::plan
