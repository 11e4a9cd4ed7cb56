// Indices that depend on the distance of two places only: see relative_index.h.
//   index[.., i, j] = f(i − j) ⇒ list[n] = f(n − before)
//   requires: elementwise operators on numbers, sizes and i − j (index.h), the last a Clip to
//     [0, size); or a constant matrix whose diagonals are uniform
#include "passes/relative_index.h"

#include <algorithm>
#include <set>

#include "core/attrs.h"

namespace vernier::passes {
namespace {

using enum OpKind;

constexpr size_t kMostNodes = 64;  // that compute one index

bool is_zero(const Dim& d) { return d == Dim(0); }

// [1, .., rows, cols], or one number.
bool is_matrix(const SymShape& shape, const SymShape& matrix) {
  const auto one = [](const Dim& d) { return d == Dim(1); };
  if (std::ranges::all_of(shape, one)) return true;
  const size_t rank = shape.size(), own = matrix.size();
  return rank >= 2 && std::all_of(shape.begin(), shape.end() - 2, one) &&
         shape[rank - 2] == matrix[own - 2] && shape[rank - 1] == matrix[own - 1];
}

// A number, or offset + c·(row − col).
bool is_difference(const analysis::Affine& form) {
  const std::vector<Dim>& c = form.coefficients;
  if (std::ranges::all_of(c, is_zero)) return true;
  const size_t rank = c.size();
  return rank >= 2 && std::all_of(c.begin(), c.end() - 2, is_zero) && c[rank - 2].is_constant() &&
         c[rank - 2] + c[rank - 1] == Dim(0);
}

bool keeps_elements(OpKind op) {
  return op == kReshape || op == kExpand || op == kIdentity || op == kUnsqueeze || op == kSqueeze;
}

// What computes an index, from its last node to its first.
class Search {
 public:
  Search(const Graph& graph, SymShape matrix) : graph_(graph), matrix_(std::move(matrix)) {}

  bool visit(ValueId value) {
    if (value == kNoValue || known_.contains(value)) return true;
    known_.insert(value);
    if (!is_matrix(shape_of(graph_, value), matrix_)) return false;
    if (uniform(graph_, value)) return true;
    if (const auto form = analysis::affine(graph_, value); form && is_difference(*form)) {
      leaves.emplace(value, *form);
      return true;
    }
    const Node* n = graph_.producer(value);
    if (n == nullptr || n->outputs.size() != 1 || known_.size() > kMostNodes) return false;
    const bool views = keeps_elements(n->op);
    if (!views && (flags(n->op) & kElementwise) == 0) return false;
    const size_t operands = views ? 1 : n->inputs.size();
    for (size_t i = 0; i < operands; ++i)
      if (!visit(n->inputs[i])) return false;
    nodes.push_back(graph_.value(value).producer);
    return true;
  }

  std::vector<NodeId> nodes;
  std::map<ValueId, analysis::Affine> leaves;

 private:
  const Graph& graph_;
  const SymShape matrix_;
  std::set<ValueId> known_;
};

bool is_clipped(const Graph& graph, ValueId value, int64_t size) {
  const Node* clip = graph.producer(value);
  while (clip != nullptr && keeps_elements(clip->op)) clip = graph.producer(clip->inputs[0]);
  if (clip == nullptr || clip->op != kClip || !clip->has_input(1) || !clip->has_input(2))
    return false;
  const auto low = uniform(graph, clip->inputs[1]), high = uniform(graph, clip->inputs[2]);
  return low && high && *low >= 0 && *low <= *high && *high <= static_cast<double>(size - 1);
}

// Integers from `start` on, `count` of them; one number if they are the same.
ValueId emit_range(Graph& graph, const Dim& start, int64_t step, const Dim& count, DType dtype) {
  ValueId range = emit_size(graph, start);
  if (step != 0) {
    const ValueId end = emit_size(graph, start + Dim(step) * count);
    range = ops::emit(graph, kRange, {range, end, emit_size(graph, step)}, NoAttrs{}, {});
  }
  if (dtype == DType::kI64) return range;
  CastAttrs cast;
  cast.to = dtype;
  return ops::emit(graph, kCast, {range}, cast, {});
}

}  // namespace

std::optional<RelativeIndex> RelativeIndex::find(const Graph& graph, ValueId index, int64_t size) {
  while (const Node* expand = producer_of(graph, index, kExpand)) index = expand->inputs[0];
  const SymShape& shape = shape_of(graph, index);
  if (shape.size() < 2 || !is_clipped(graph, index, size)) return std::nullopt;
  Search search(graph, shape);
  if (!search.visit(index)) return std::nullopt;
  RelativeIndex found;
  found.value_ = index;
  found.nodes_ = std::move(search.nodes);
  found.leaves_ = std::move(search.leaves);
  return found;
}

ValueId RelativeIndex::emit(Graph& graph, const Dim& before, const Dim& count, bool backwards,
                            std::map<ValueId, ValueId>& lists) const {
  const auto list_of = [&](ValueId value) {
    if (value == kNoValue) return value;
    const auto [it, fresh] = lists.try_emplace(value, kNoValue);
    if (!fresh) return it->second;
    const DType dtype = dtype_of(graph, value);
    if (const auto c = uniform(graph, value)) return it->second = add_scalar(graph, dtype, *c);
    const analysis::Affine& form = leaves_.at(value);
    const size_t rank = form.coefficients.size();
    const int64_t own = rank < 2 ? 0 : form.coefficients[rank - 2].constant();
    const int64_t step = backwards ? -own : own;
    return it->second = emit_range(graph, form.offset - Dim(step) * before, step, count, dtype);
  };
  for (NodeId id : nodes_) {
    const Node node = graph.node(id);
    if (lists.contains(node.outputs[0])) continue;
    if (keeps_elements(node.op)) {
      lists[node.outputs[0]] = list_of(node.inputs[0]);
      continue;
    }
    std::vector<ValueId> inputs;
    for (ValueId in : node.inputs) inputs.push_back(list_of(in));
    lists[node.outputs[0]] = ops::emit(graph, node.op, std::move(inputs), node.attrs, node.origins);
  }
  return list_of(value_);
}

ValueId BucketLists::get(Graph& graph, const RelativeIndex& index, const Dim& places,
                         bool backwards) {
  const Key key{index.value(), places.str(), {}, backwards};
  const auto [it, fresh] = lists_.try_emplace(key, kNoValue);
  if (!fresh) return it->second;
  const Dim count = places + places;
  const ValueId both = index.emit(graph, places, count + Dim(1), false, shared_[places.str()]);
  const ValueId start = emit_size_list(graph, backwards ? count : Dim(0)),
                end = emit_size_list(graph, backwards ? Dim(0) : count),
                step = emit_size_list(graph, backwards ? -1 : 1);
  return it->second =
             ops::emit(graph, kSlice, {both, start, end, kNoValue, step}, SliceAttrs{}, {});
}

ValueId BucketLists::get(Graph& graph, const RelativeIndex& index, const Dim& before,
                         const Dim& count, bool backwards) {
  const Key key{index.value(), before.str(), count.str(), backwards};
  const auto [it, fresh] = lists_.try_emplace(key, kNoValue);
  if (!fresh) return it->second;
  std::map<ValueId, ValueId> own;
  return it->second = index.emit(graph, before, count, backwards, own);
}

}  // namespace vernier::passes
