// Requests of a whole model: see ask.h.
#include "precision/ask.h"

#include <algorithm>

#include "core/error.h"
#include "precision/requests.h"

namespace vernier::precision {
namespace {

void keep_apart(ir::Graph& imported, const std::set<std::string>& apart) {
  for (ir::NodeId id : imported.order()) {
    ir::Node& node = imported.node(id);
    node.apart = std::ranges::any_of(
        node.origins, [&](const ir::Origin& origin) { return apart.contains(origin.key); });
  }
}

// Promotions of the range audit bind like a rule, except against an exact rule (==) of the user.
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

// Of a graph that was asked its mode and nothing else.
std::set<std::string> quantized_keys(const ir::Graph& raised, Mode mode) {
  std::set<std::string> keys;
  const DType type = quantized_type(mode);
  if (type == DType::kUndefined) return keys;
  for (ir::NodeId id : raised.order()) {
    for (const ir::Origin& origin : raised.node(id).origins)
      if (origin.asked.compute.type == type) keys.insert(origin.key);
  }
  return keys;
}

}  // namespace

Asked ask(const ir::Graph& imported, const Wishes& wishes, const Raise& raise) {
  std::set<std::string> apart;
  std::shared_ptr<ir::Graph> all_raised;  // what rules refer to: no node kept apart
  std::vector<std::string> notes;
  while (true) {
    Asked result;
    if (wishes.known && apart.empty()) {
      result.raised = wishes.known->raised->clone();
    } else {
      result.raised = imported.clone();
      keep_apart(*result.raised, apart);
      raise(*result.raised);
    }
    ask_mode(*result.raised, wishes.policy.mode, wishes.attended);
    result.quantized = quantized_keys(*result.raised, wishes.policy.mode);
    if (!all_raised) {
      all_raised = result.raised->clone();
      notes = apply_rules(*all_raised, wishes.policy.rules);
    }
    keep_rules(*all_raised, *result.raised);
    result.notes = notes;
    promote(*result.raised, wishes.promotions);
    std::vector<std::string> kept =
        keep_constants_finite(*result.raised, wishes.known ? &wishes.known->ranges : nullptr);
    raise_nodes(*result.raised, wishes.raised);
    const size_t before = apart.size();
    std::set<std::string> wanted = join_requests(*result.raised);
    const std::string first = wanted.empty() ? "" : *wanted.begin();
    apart.merge(wanted);
    if (apart.size() > before) continue;
    if (!first.empty()) {
      throw Error(ErrorCode::kInput,
                  "node " + asked_text(*result.raised, first) + ": other nodes of its " +
                      "composite are asked for other types, and it cannot be computed outside the "
                      "composite; ask the same of the whole composite (op: instead of name:), or "
                      "ask for a floor (= instead of ==)");
    }
    std::ranges::move(kept, std::back_inserter(result.notes));
    for (const std::string& key : apart)
      result.notes.push_back("node " + asked_text(*result.raised, key) +
                             ", is computed on its own: its composite is asked for other types");
    return result;
  }
}

bool may_have_short_range(const ir::Graph& imported, const Policy& policy) {
  if (policy.mode == Mode::kFp16 || quantized_type(policy.mode) != DType::kUndefined ||
      !policy.rules.empty())
    return true;
  for (size_t v = 0; v < imported.num_values(); ++v) {
    const DType type = imported.value(static_cast<ir::ValueId>(v)).dtype;
    if (is_narrow(type) && type != DType::kBF16) return true;
  }
  return false;
}

}  // namespace vernier::precision
