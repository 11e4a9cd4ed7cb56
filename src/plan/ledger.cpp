// Ledger rows: see ledger.h.
#include "plan/ledger.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace vernier::plan {
namespace {

// "/fn_call/3#17" sorts by path, then by number.
bool before(const LedgerRow& a, const LedgerRow& b) {
  const auto split = [](const std::string& key) {
    const size_t hash = key.rfind('#');
    int64_t number = 0;
    if (hash != std::string::npos)
      std::from_chars(key.data() + hash + 1, key.data() + key.size(), number);
    return std::pair(key.substr(0, hash), number);
  };
  return split(a.key) < split(b.key);
}

LedgerRow row_of(const ir::Origin& origin) {
  LedgerRow row;
  row.key = origin.key;
  row.node = origin.name;
  row.op = origin.op_type;
  return row;
}

void fill_from_step(const Plan& plan, const Place& place, const ir::Node& node, LedgerRow& row) {
  row.state = place.state;
  row.step = place.step;
  row.asked = node.request;
  row.why = place.why;
  if (place.step == kNone) return;
  const Step& step = plan.steps[static_cast<size_t>(place.step)];
  row.kernel = step.kernel;
  if (place.state == "merged") return;
  if (node.origins.size() > 1 || name(node.op) != row.op) row.composite = name(node.op);
  // Kernels of integers say f32 for the floats they do not have.
  if (node.request.compute.type != DType::kUndefined) {
    row.got_store = step.numerics.store;
    row.got_compute = step.numerics.compute;
    row.got_accumulate = step.numerics.accumulate;
  }
  row.why = "satisfies" + (place.why.empty() ? "" : "; not used: " + place.why);
}

}  // namespace

void write_ledger(const ir::Graph& graph, const std::map<ir::NodeId, Place>& places, Plan& plan) {
  std::set<std::string> seen;
  for (ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    const auto place = places.find(id);
    VERNIER_ASSERT(place != places.end(), node.name);
    for (const ir::Origin& origin : node.origins) {
      // A node split over several (QKV merged, then cut) is told by the first.
      if (!seen.insert(origin.key).second) continue;
      LedgerRow row = row_of(origin);
      fill_from_step(plan, place->second, node, row);
      plan.ledger.push_back(std::move(row));
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
