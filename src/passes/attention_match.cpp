// Matches softmax(scale · q kᵀ + …) v around a Softmax: see attention.h.
#include <algorithm>
#include <cmath>

#include "passes/attention.h"

namespace vernier::passes {
namespace {

using enum OpKind;

constexpr int kMaxTerms = 16;
constexpr int kMaxVisits = 256;  // nodes that one search for the scores visits

class Finder {
 public:
  Finder(const Graph& graph, Trace* trace) : graph_(graph), trace_(trace) {}

  std::optional<AttentionMatch> run(NodeId softmax) {
    const Node& n = graph_.node(softmax);
    if (n.op != kSoftmax) return std::nullopt;
    const int64_t rank = rank_of(graph_, n.outputs[0]);
    const int64_t axis = n.attrs_as<AxisAttrs>().axis;
    if (rank < 3 || rank > 4) return miss(0, n.outputs[0], "scores [batch, heads, queries, keys]");
    if ((axis + rank) % rank != rank - 1)
      return miss(0, n.outputs[0], "a softmax over the last axis");
    match_.probs = n.outputs[0];
    if (!follow_down(n.outputs[0]) || !follow_up(n.inputs[0], 1, 1)) return std::nullopt;
    // The kernels' softmax is no wider than their products; the model's own may be.
    if (dtype_of(graph_, n.outputs[0]) == DType::kF64 &&
        dtype_of(graph_, match_.out) != DType::kF64)
      return miss(0, n.outputs[0], "a softmax in the type of its products, not in f64");
    std::reverse(match_.terms.begin(), match_.terms.end());
    if (!take_scaled_operands()) return std::nullopt;
    return match_;
  }

 private:
  std::nullopt_t miss(int depth, ValueId at, std::string expected) {
    if (trace_) trace_->miss(depth, at, std::move(expected));
    return std::nullopt;
  }
  bool fail(int depth, ValueId at, std::string expected) {
    miss(depth, at, std::move(expected));
    return false;
  }

  // Where(IsNaN(p), 0, p), the only users of p.
  const Node* nan_guard(ValueId p) const {
    const ir::UserList& list = graph_.value(p).users;
    if (list.size() != 2 || graph_.is_output(p)) return nullptr;
    const NodeId users[] = {list.front(), *std::next(list.begin())};
    for (size_t i : {size_t{0}, size_t{1}}) {
      const Node &test = graph_.node(users[i]), &choice = graph_.node(users[1 - i]);
      if (test.op != kIsNaN || choice.op != kWhere || choice.inputs[0] != test.outputs[0] ||
          choice.inputs[2] != p || !graph_.single_use(test.outputs[0]))
        continue;
      if (is_uniform(graph_, choice.inputs[1], 0)) return &choice;
    }
    return nullptr;
  }

  // From the probabilities to the product with v.
  bool follow_down(ValueId p) {
    for (;;) {
      if (const Node* guard = nan_guard(p)) {
        match_.zero_nan_rows = true;
        p = guard->outputs[0];
        continue;
      }
      const NodeId user = sole_user(graph_, p);
      if (user == ir::kNoNode) return fail(20, p, "probabilities with one use, the product with v");
      const Node& n = graph_.node(user);
      const DType to = n.op == kCast ? n.attrs_as<CastAttrs>().to : DType::kUndefined;
      if (is_float(to) && !is_small_float(to)) {
        p = n.outputs[0];
        continue;
      }
      if (n.op != kMatMul || n.inputs[0] != p || n.inputs[1] == p)
        return fail(20, p, "probabilities used by a MatMul with v");
      match_.v = n.inputs[1];
      match_.out = n.outputs[0];
      if (rank_of(graph_, match_.v) != rank_of(graph_, p))
        return fail(21, match_.v, "v with the rank of the probabilities");
      return true;
    }
  }

  // From the softmax's input to the product of q and k. `factor` multiplies everything above.
  bool follow_up(ValueId value, double factor, int depth) {
    value = under_casts(graph_, value);
    const Node* n = graph_.producer(value);
    if (!n || static_cast<int>(match_.terms.size()) > kMaxTerms || ++visits_ > kMaxVisits)
      return fail(depth, value, "the product of q and k");
    if (n->op == kMatMul) return take_product(value, *n, factor, depth);
    if (n->op == kMul || n->op == kDiv) return follow_scale(*n, factor, depth);
    if (n->op == kAdd || n->op == kSub) return follow_sum(*n, factor, depth);
    if (n->op == kWhere) return follow_choice(*n, factor, depth);
    return fail(depth, value, "MatMul, Add, Mul, Div or Where on the way to the scores");
  }

  bool follow_scale(const Node& n, double factor, int depth) {
    for (size_t i : {size_t{1}, size_t{0}}) {
      const auto c = uniform(graph_, n.inputs[i]);
      if (!c || (n.op == kDiv && (i == 0 || *c == 0))) continue;
      return follow_up(n.inputs[1 - i], n.op == kMul ? factor * *c : factor / *c, depth + 1);
    }
    return fail(depth, n.outputs[0], "a constant scale of the scores");
  }

  // One operand leads to the scores, the other is a bias. Either order is tried.
  bool follow_sum(const Node& n, double factor, int depth) {
    const size_t before = match_.terms.size();
    for (size_t i : {size_t{0}, size_t{1}}) {
      if (n.op == kSub && i == 1) break;  // bias − scores is not attention
      if (!same_shape(shape_of(graph_, n.inputs[i]), shape_of(graph_, n.outputs[0]))) continue;
      match_.terms.resize(before);
      ScoreTerm term;
      term.value = n.inputs[1 - i];
      term.factor = n.op == kSub ? -factor : factor;
      match_.terms.push_back(term);
      if (follow_up(n.inputs[i], factor, depth + 1)) return true;
    }
    match_.terms.resize(before);
    return fail(depth, n.outputs[0], "scores plus a mask or bias");
  }

  bool follow_choice(const Node& n, double factor, int depth) {
    for (size_t i : {size_t{1}, size_t{2}}) {
      const auto fill = uniform(graph_, n.inputs[3 - i]);
      if (!fill || !same_shape(shape_of(graph_, n.inputs[i]), shape_of(graph_, n.outputs[0])))
        continue;
      ScoreTerm term;
      term.kind = ScoreTerm::Kind::kKeep;
      term.value = n.inputs[0];
      term.negated = i == 2;
      term.fill = *fill * factor;
      match_.terms.push_back(term);
      return follow_up(n.inputs[i], factor, depth + 1);
    }
    return fail(depth, n.outputs[0], "scores, or a constant where they are masked");
  }

  bool take_product(ValueId value, const Node& n, double factor, int depth) {
    const int64_t rank = rank_of(graph_, value);
    if (rank != rank_of(graph_, match_.probs))
      return fail(depth, value, "scores with the rank of the softmax");
    if (rank_of(graph_, n.inputs[0]) != rank || rank_of(graph_, n.inputs[1]) != rank)
      return fail(depth, value, "q and k with the rank of the scores");
    if (!graph_.single_use(value)) return fail(depth, value, "scores with one use");
    match_.scores = value;
    match_.q = n.inputs[0];
    match_.k_transposed = n.inputs[1];
    match_.scale = factor;
    return true;
  }

  // Scale on q and k themselves (also split as a square root on each).
  bool take_scaled_operands() {
    for (ValueId* operand : {&match_.q, &match_.k_transposed}) {
      while (++visits_ <= kMaxVisits) {
        const ValueId bare = under_casts(graph_, *operand);
        const Node* n = graph_.producer(bare);
        if (!n || (n->op != kMul && n->op != kDiv)) break;
        size_t scalar = 1;
        auto c = uniform(graph_, n->inputs[1]);
        if (!c && n->op == kMul) {
          c = uniform(graph_, n->inputs[0]);
          scalar = 0;
        }
        const bool keeps_shape =
            c && same_shape(shape_of(graph_, n->inputs[1 - scalar]), shape_of(graph_, bare));
        if (!keeps_shape || *c == 0) break;
        match_.scale = n->op == kMul ? match_.scale * *c : match_.scale / *c;
        *operand = n->inputs[1 - scalar];
      }
    }
    return check_operands();
  }

  bool check_operands() {
    const auto leading = [&](ValueId v) {
      const SymShape& s = shape_of(graph_, v);
      return SymShape(s.begin(), s.end() - 2);
    };
    const SymShape wanted = leading(match_.scores);
    for (ValueId v : {match_.q, match_.k_transposed, match_.v}) {
      if (!same_shape(leading(v), wanted))
        return fail(22, v, "q, k and v with the batch and heads of the scores");
    }
    const DType dtype = dtype_of(graph_, match_.out);
    for (ValueId v : {match_.q, match_.k_transposed, match_.v}) {
      if (dtype_of(graph_, v) != dtype) return fail(22, v, "q, k and v of one type");
    }
    return true;
  }

  const Graph& graph_;
  Trace* trace_;
  AttentionMatch match_;
  int visits_ = 0;
};

}  // namespace

std::optional<AttentionMatch> match_attention(const Graph& graph, NodeId softmax, Trace* trace) {
  return Finder(graph, trace).run(softmax);
}

}  // namespace vernier::passes
