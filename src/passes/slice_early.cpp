// Slice(f(x, …)) ⇒ f(Slice(x), …)   f: Linear, norms, elementwise; repeated up to an operator that
//   mixes rows. A classifier reads the first token of its encoder: only that row of the last layer
//   remains to be computed.
//   requires: constant bounds; every use of f's result is this slice; the sliced axes are rows of f
//   (not channels that it sums or normalizes); each input of f has the full size there or is
//   broadcast; one request that satisfies both. Rows do not depend on each other, so no bit
//   changes.
#include <algorithm>
#include <map>
#include <set>

#include "analysis/row_axes.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

using enum OpKind;

enum class Operand : uint8_t { kSliced, kKept, kUnclear };
// What the rewrite does with an operand of f, whose result has shape `result`; axes that are not
// sliced may differ (channels).
Operand treatment(const Graph& graph, ValueId input, const SymShape& result,
                  const SliceAttrs& slice) {
  const SymShape& shape = shape_of(graph, input);
  const auto has_rows = [&](int64_t axis) {
    const auto at = static_cast<size_t>(axis);
    return same_shape({shape[at]}, {result[at]});
  };
  if (shape.size() == result.size() && std::ranges::all_of(slice.axes, has_rows))
    return Operand::kSliced;
  const auto is_broadcast = [&](int64_t axis) {
    const int64_t at = axis + static_cast<int64_t>(shape.size()) -
                       static_cast<int64_t>(result.size());  // aligned at the end
    return at < 0 || shape[at].as_constant() == 1;
  };
  return std::ranges::all_of(slice.axes, is_broadcast) ? Operand::kKept : Operand::kUnclear;
}

bool is_constant_slice(const Node& n) {
  return n.op == kSlice && n.inputs.size() == 1 && !n.apart &&
         n.attrs_as<SliceAttrs>().inline_starts;
}

// Every use of `value` is a slice like `slice`.
bool is_only_sliced(const Graph& graph, ValueId value, const Node& slice) {
  if (graph.is_output(value)) return false;
  const auto& users = graph.value(value).users;
  return std::all_of(users.begin(), users.end(), [&](NodeId id) {
    const Node& n = graph.node(id);
    return is_constant_slice(n) && n.attrs == slice.attrs;
  });
}

bool push(Graph& graph, NodeId id) {
  const Node slice = graph.node(id);
  if (!is_constant_slice(slice)) return false;
  const ValueId whole = slice.inputs[0];
  const NodeId producer = graph.value(whole).producer;
  if (producer == ir::kNoNode || !is_only_sliced(graph, whole, slice)) return false;
  const Node f = graph.node(producer);
  if (f.apart || f.outputs.size() != 1 ||
      dtype_of(graph, whole) != dtype_of(graph, slice.outputs[0]))
    return false;
  const auto attrs = slice.attrs_as<SliceAttrs>();
  const int64_t rows = analysis::row_axes(graph, f);
  const SymShape result = shape_of(graph, whole);
  if (std::any_of(attrs.axes.begin(), attrs.axes.end(),
                  [&](int64_t a) { return a < 0 || a >= rows; }))
    return false;
  std::optional<Request> request = f.request;
  for (NodeId user : graph.value(whole).users) {
    request = common_request(*request, graph.node(user).request);
    if (!request) return false;
  }
  std::vector<bool> is_sliced(f.inputs.size(), false);
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    if (!f.has_input(i) || !analysis::holds_rows(f, i)) continue;
    const Operand what = treatment(graph, f.inputs[i], result, attrs);
    if (what == Operand::kUnclear) return false;
    is_sliced[i] = what == Operand::kSliced;
  }
  if (std::none_of(is_sliced.begin(), is_sliced.end(), [](bool b) { return b; })) return false;

  std::vector<ValueId> inputs = f.inputs;
  std::vector<Origin> origins = slice.origins;  // of the first slice: one row in the ledger
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_sliced[i]) continue;
    const auto same =
        std::find(f.inputs.begin(), f.inputs.begin() + static_cast<int64_t>(i), f.inputs[i]) -
        f.inputs.begin();
    if (same < static_cast<int64_t>(i)) {
      inputs[i] = inputs[same];
      continue;
    }
    inputs[i] = ops::emit(graph, kSlice, {f.inputs[i]}, attrs, origins);
    graph.producer(inputs[i])->name = slice.name;
    origins.clear();
  }
  for (NodeId other : users_of(graph, whole)) {
    if (other == id) continue;
    graph.replace_uses(graph.node(other).outputs[0], slice.outputs[0]);
    graph.retire(graph.node(other).origins, LedgerState::kMerged,
                 "computes the same as another node");
    graph.drop_dead(other);
  }
  mutate(graph, id, f.op, std::move(inputs), f.attrs);
  Node& moved = graph.node(id);
  moved.name = f.name;
  moved.origins = f.origins;
  moved.request = *request;
  graph.drop_dead(producer);
  return true;
}

// The slices to visit, in graph order. A slice that could not move is visited again after a change
// next to it.
class Worklist {
 public:
  explicit Worklist(const Graph& graph) {
    for (NodeId id : graph.order()) add(graph, id);
  }

  /// kNoNode: no slice is left.
  NodeId take() {
    if (now_.empty()) {
      now_.swap(next_);
      end_ = place_.size();
    }
    if (now_.empty()) return ir::kNoNode;
    const auto [place, id] = *now_.begin();
    at_ = place;
    now_.erase(now_.begin());
    return id;
  }

  /// Slices of `value` may be able to move now, if it has no other uses.
  void wake_users(const Graph& graph, ValueId value) {
    const auto& users = graph.value(value).users;
    const auto is_slice = [&](NodeId user) { return is_constant_slice(graph.node(user)); };
    if (!std::all_of(users.begin(), users.end(), is_slice)) return;
    for (NodeId user : users) add(graph, user);
  }

 private:
  void add(const Graph& graph, NodeId id) {
    if (!is_constant_slice(graph.node(id))) return;
    // New slices come after all others in the graph's order.
    const size_t place = place_.try_emplace(id, place_.size()).first->second;
    (place > at_ && place < end_ ? now_ : next_).emplace(place, id);
  }

  size_t at_ = 0, end_ = 0;  // of this walk over the graph
  std::map<NodeId, size_t> place_;
  std::set<std::pair<size_t, NodeId>> now_, next_;
};

}  // namespace

int slice_early(Graph& graph) {
  int found = 0;
  Worklist slices(graph);
  for (NodeId id = slices.take(); id != ir::kNoNode; id = slices.take()) {
    if (!is_live(graph, id)) continue;
    const NodeId producer = graph.value(graph.node(id).inputs[0]).producer;
    const std::vector<ValueId> operands =
        producer == ir::kNoNode ? std::vector<ValueId>() : graph.node(producer).inputs;
    if (!push(graph, id)) continue;
    for (ValueId operand : operands) {
      if (operand != kNoValue) slices.wake_users(graph, operand);
    }
    slices.wake_users(graph, graph.node(id).outputs[0]);
    ++found;
  }
  graph.remove_dead();
  graph.sort();
  return found;
}

}  // namespace vernier::passes
