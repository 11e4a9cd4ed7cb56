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
    if (!follow_down(n.outputs[0]) || !follow_up(n.inputs[0], {1, 1})) return std::nullopt;
    if (match_.zeroed && !match_.query_positions && !match_.key_positions)
      return miss(20, match_.probs, "probabilities used by a MatMul with v");
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
      if (user != ir::kNoNode && take_zeroed(graph_.node(user), p)) {
        p = graph_.node(user).outputs[0];
        continue;
      }
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

  // Where(keep, p, 0) or Where(hidden, 0, p), once.
  bool take_zeroed(const Node& n, ValueId p) {
    if (n.op != kWhere || match_.zeroed) return false;
    for (size_t i : {size_t{1}, size_t{2}}) {
      if (n.inputs[i] != p || !is_uniform(graph_, n.inputs[3 - i], 0)) continue;
      if (!same_shape(shape_of(graph_, p), shape_of(graph_, n.outputs[0]))) return false;
      match_.zeroed = ScoreTerm{.kind = ScoreTerm::Kind::kKeep, .value = n.inputs[0]};
      match_.zeroed->negated = i == 2;
      return true;
    }
    return false;
  }

  // On the way from the softmax's input to the product of q and k.
  struct Path {
    double factor;  // of everything above
    int depth;
    bool regrouped = false;  // batch and heads are one axis here, or two of one
    Path next(double to) const { return {to, depth + 1, regrouped}; }
  };

  bool follow_up(ValueId value, const Path& path) {
    value = under_casts(graph_, value);
    const Node* n = graph_.producer(value);
    if (!n || static_cast<int>(match_.terms.size()) > kMaxTerms || ++visits_ > kMaxVisits)
      return fail(path.depth, value, "the product of q and k");
    if (n->op == kMatMul) return take_product(value, *n, path);
    if (n->op == kMul || n->op == kDiv) return follow_scale(*n, path);
    if (n->op == kAdd || n->op == kSub) return follow_blend(*n, path) || follow_sum(*n, path);
    if (n->op == kWhere) return follow_choice(*n, path);
    if (keeps_matrices(*n)) return follow_up(n->inputs[0], {path.factor, path.depth + 1, true});
    return fail(path.depth, value, "MatMul, Add, Mul, Div or Where on the way to the scores");
  }

  // A reshape of the axes in front of the last two.
  bool keeps_matrices(const Node& n) const {
    if (n.op != kReshape) return false;
    const SymShape &from = shape_of(graph_, n.inputs[0]), &to = shape_of(graph_, n.outputs[0]);
    return from.size() > 2 && to.size() > 2 && std::equal(from.end() - 2, from.end(), to.end() - 2);
  }

  // x of c·x and x / c, and c times a factor.
  struct Scaled {
    double factor;
    ValueId value;
  };
  std::optional<Scaled> scaled(const Node& n, double factor) const {
    for (size_t i : {size_t{1}, size_t{0}}) {
      const auto c = uniform(graph_, n.inputs[i]);
      if (!c || (n.op == kDiv && (i == 0 || *c == 0))) continue;
      return Scaled{n.op == kMul ? factor * *c : factor / *c, n.inputs[1 - i]};
    }
    return std::nullopt;
  }

  bool follow_scale(const Node& n, const Path& path) {
    const auto found = scaled(n, path.factor);
    if (found) return follow_up(found->value, path.next(found->factor));
    return fail(path.depth, n.outputs[0], "a constant scale of the scores");
  }

  // scores·b + c·(1 − b), b of 0 and 1 (GPT-2 of PyTorch 1.4): c where b is 0.
  bool follow_blend(const Node& n, const Path& path) {
    if (path.regrouped) return false;
    for (size_t i : {size_t{0}, size_t{1}}) {
      if (n.op == kSub && i == 1) break;
      const Node* product = producer_of(graph_, under_casts(graph_, n.inputs[i]), kMul);
      if (!product) continue;
      for (size_t b : {size_t{1}, size_t{0}}) {
        const auto fill = fill_beside(n.inputs[1 - i], product->inputs[b]);
        const ValueId scores = product->inputs[1 - b];
        if (!fill || !same_shape(shape_of(graph_, scores), shape_of(graph_, n.outputs[0])))
          continue;
        ScoreTerm term{.kind = ScoreTerm::Kind::kKeep, .value = product->inputs[b]};
        term.fill = (n.op == kSub ? -*fill : *fill) * path.factor;
        const AttentionMatch before = match_;
        match_.terms.push_back(term);
        if (follow_up(scores, path.next(path.factor))) return true;
        match_ = before;
      }
    }
    return false;
  }

  // c of c·(1 − b), if b has only 0 and 1.
  std::optional<double> fill_beside(ValueId value, ValueId b) const {
    if (!is_zero_or_one(b)) return std::nullopt;
    value = under_casts(graph_, value);
    if (const auto fill = constant_fill(value, b)) return fill;
    const Node* product = producer_of(graph_, value, kMul);
    for (size_t i : {size_t{0}, size_t{1}}) {
      const auto c = product ? uniform(graph_, product->inputs[i]) : std::nullopt;
      const Node* rest = c ? producer_of(graph_, product->inputs[1 - i], kSub) : nullptr;
      if (rest && is_uniform(graph_, rest->inputs[0], 1) && same_value(graph_, rest->inputs[1], b))
        return c;
    }
    return std::nullopt;
  }

  // The same of constants, of which equal slices may be taken.
  std::optional<double> constant_fill(ValueId value, ValueId b) const {
    const auto sliced = [&](ValueId v) { return producer_of(graph_, v, kSlice); };
    for (const Node* one = sliced(value); one != nullptr; one = sliced(value)) {
      const Node* other = sliced(b);
      if (!other || one->attrs != other->attrs || one->inputs.size() != 1) return std::nullopt;
      value = one->inputs[0];
      b = other->inputs[0];
    }
    const Tensor *own = constant_of(graph_, value), *mask = constant_of(graph_, b);
    if (!own || !mask || own->shape() != mask->shape()) return std::nullopt;
    std::optional<double> fill;
    for (int64_t i = 0; i < mask->elems(); ++i) {
      const double at = own->float_at(i);
      if (mask->float_at(i) == 1 ? at != 0 : at != fill.value_or(at)) return std::nullopt;
      if (mask->float_at(i) == 0) fill = at;
    }
    return fill;
  }

  // Floats: bools as numbers, or a constant and what a slice takes of it.
  bool is_zero_or_one(ValueId value) const {
    constexpr int kMostViews = 8;
    if (!is_float(dtype_of(graph_, value))) return false;
    for (int i = 0; i < kMostViews; ++i) {
      if (const Tensor* t = constant_of(graph_, value)) {
        for (int64_t at = 0; at < t->elems(); ++at)
          if (t->float_at(at) != 0 && t->float_at(at) != 1) return false;
        return true;
      }
      const Node* n = graph_.producer(value);
      if (!n) return false;
      if (n->op == kCast && dtype_of(graph_, n->inputs[0]) == DType::kBool) return true;
      if (n->op != kSlice && n->op != kReshape && n->op != kExpand) return false;
      value = n->inputs[0];
    }
    return false;
  }

  // One operand leads to the scores, the other is a bias, or of relative positions. Either order is
  // tried.
  bool follow_sum(const Node& n, const Path& path) {
    const AttentionMatch before = match_;
    for (size_t i : {size_t{0}, size_t{1}}) {
      if (n.op == kSub && i == 1) break;  // bias − scores is not attention
      if (!same_shape(shape_of(graph_, n.inputs[i]), shape_of(graph_, n.outputs[0]))) continue;
      match_ = before;
      const double factor = n.op == kSub ? -path.factor : path.factor;
      if (!take_positions(n.inputs[1 - i], factor, false)) {
        match_ = before;
        if (path.regrouped) continue;  // a bias would have other axes
        ScoreTerm term;
        term.value = n.inputs[1 - i];
        term.factor = factor;
        match_.terms.push_back(term);
      }
      if (follow_up(n.inputs[i], path.next(path.factor))) return true;
    }
    match_ = before;
    return fail(path.depth, n.outputs[0], "scores plus a mask or bias");
  }

  // A sum of scores by relative position, which nothing else is added to.
  bool take_positions(ValueId value, double factor, bool transposed) {
    value = under_casts(graph_, value);
    const Node* n = graph_.producer(value);
    if (!n || ++position_visits_ > kMaxVisits) return false;
    if (n->op == kAdd) {
      const SymShape& sum = shape_of(graph_, value);
      return std::ranges::all_of(n->inputs, [&](ValueId part) {
        return same_shape(shape_of(graph_, part), sum) && take_positions(part, factor, transposed);
      });
    }
    if (n->op == kMul || n->op == kDiv) {
      const auto found = scaled(*n, factor);
      return found && take_positions(found->value, found->factor, transposed);
    }
    if (keeps_matrices(*n)) return take_positions(n->inputs[0], factor, transposed);
    if (n->op == kTranspose && swaps_last(n->attrs_as<TransposeAttrs>().perm))
      return take_positions(n->inputs[0], factor, !transposed);
    return n->op == kGatherElements && take_gathered(*n, factor, transposed);
  }

  static bool swaps_last(const std::vector<int64_t>& perm) {
    const auto rank = static_cast<int64_t>(perm.size());
    for (int64_t i = 0; i < rank - 2; ++i)
      if (perm[i] != i) return false;
    return rank >= 2 && perm[rank - 2] == rank - 1;
  }

  bool take_gathered(const Node& n, double factor, bool transposed) {
    const SymShape &from = shape_of(graph_, n.inputs[0]), &to = shape_of(graph_, n.outputs[0]);
    const auto rank = static_cast<int64_t>(from.size());
    const int64_t axis = n.attrs_as<AxisAttrs>().axis;
    if (rank < 3 || (axis + rank) % rank != rank - 1) return false;
    if (!std::equal(from.begin(), from.end() - 1, to.begin())) return false;
    std::optional<PositionTerm>& term = transposed ? match_.key_positions : match_.query_positions;
    if (term) return false;
    term = PositionTerm{n.inputs[0], n.inputs[1], factor};
    return true;
  }

  bool follow_choice(const Node& n, const Path& path) {
    for (size_t i : {size_t{1}, size_t{2}}) {
      const auto fill = uniform(graph_, n.inputs[3 - i]);
      if (!fill || path.regrouped ||
          !same_shape(shape_of(graph_, n.inputs[i]), shape_of(graph_, n.outputs[0])))
        continue;
      ScoreTerm term;
      term.kind = ScoreTerm::Kind::kKeep;
      term.value = n.inputs[0];
      term.negated = i == 2;
      term.fill = *fill * path.factor;
      match_.terms.push_back(term);
      return follow_up(n.inputs[i], path.next(path.factor));
    }
    return fail(path.depth, n.outputs[0], "scores, or a constant where they are masked");
  }

  bool take_product(ValueId value, const Node& n, const Path& path) {
    const int64_t rank = rank_of(graph_, value);
    const int depth = path.depth;
    if (rank != rank_of(graph_, match_.probs))
      return fail(depth, value, "scores with the rank of the softmax");
    if (path.regrouped && !same_shape(shape_of(graph_, value), shape_of(graph_, match_.probs)))
      return fail(depth, value, "scores with the batch and heads of the softmax");
    if (rank_of(graph_, n.inputs[0]) != rank || rank_of(graph_, n.inputs[1]) != rank)
      return fail(depth, value, "q and k with the rank of the scores");
    if (!graph_.single_use(value)) return fail(depth, value, "scores with one use");
    match_.scores = value;
    match_.q = n.inputs[0];
    match_.k_transposed = n.inputs[1];
    match_.scale = path.factor;
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
  int visits_ = 0, position_visits_ = 0;
};

}  // namespace

std::optional<AttentionMatch> match_attention(const Graph& graph, NodeId softmax, Trace* trace) {
  return Finder(graph, trace).run(softmax);
}

}  // namespace vernier::passes
