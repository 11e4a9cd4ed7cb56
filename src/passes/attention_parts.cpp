// Masks, head layout and rotary tables of attention: see attention_parts.h.
#include "passes/attention_parts.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "analysis/index.h"
#include "passes/canonicalise.h"

namespace vernier::passes {
namespace {

using enum OpKind;

constexpr double kAbsorbs = -1e30;     // scores + this equals this
constexpr double kHidesAlways = -1e8;  // exp(this + score − max) is 0 if the maximum is a score

// ---- masks

// Conditions joined by And (or, under a negation, by Or), each with its own negation.
struct Condition {
  ValueId value;
  bool negated;
};
constexpr int kMaxMaskNodes = 64;  // nodes that one mask is split into; the rest stays one mask

// a and b of bool(a·b) and a·b == 1, of integers: masks, which are 0 and 1 where models multiply
// them. Emits what is true where they are.
std::optional<std::array<ValueId, 2>> split_product(Graph& graph, const Node& n) {
  if (n.op != kEqual && !(n.op == kCast && n.attrs_as<CastAttrs>().to == DType::kBool))
    return std::nullopt;
  const Node* product = producer_of(graph, n.inputs[0], kMul);
  if (!product || !is_integer(dtype_of(graph, n.inputs[0]))) return std::nullopt;
  if (n.op == kEqual && !is_uniform(graph, n.inputs[1], 1)) return std::nullopt;
  const Node own = n;
  const std::vector<ValueId> masks = product->inputs;
  std::array<ValueId, 2> parts{};
  for (size_t i : {size_t{0}, size_t{1}}) {
    std::vector<ValueId> inputs = own.inputs;
    inputs[0] = masks[i];
    parts[i] = ops::emit(graph, own.op, std::move(inputs), own.attrs, own.origins);
  }
  return parts;
}

void flatten_condition(const Graph& graph, Condition condition, std::vector<Condition>& out,
                       OriginSet& origins) {
  std::vector<Condition> open{condition};  // a stack
  for (int taken = 0; !open.empty();) {
    const Condition c = open.back();
    open.pop_back();
    const Node* n = taken < kMaxMaskNodes ? graph.producer(c.value) : nullptr;
    const bool is_not = n && n->op == kNot;
    if (!is_not && !(n && n->op == (c.negated ? kOr : kAnd))) {
      out.push_back(c);
      continue;
    }
    ++taken;
    origins.add(graph, n);
    for (auto in = n->inputs.rbegin(); in != n->inputs.rend(); ++in)
      open.push_back({*in, is_not ? !c.negated : c.negated});
  }
}

class Combiner {
 public:
  Combiner(Graph& graph, Trace* trace) : graph_(graph), trace_(trace) {}

  std::optional<CombinedMasks> run(const AttentionMatch& match) {
    dtype_ = dtype_of(graph_, match.q);
    has_positions_ = match.query_positions || match.key_positions;
    std::vector<ScoreTerm> terms;
    for (const ScoreTerm& term : match.terms) split_sum(term, terms);
    read_additive_masks(terms);
    if (terms.size() == 1) read_causal_triangle(terms[0]);
    for (const ScoreTerm& term : terms) {
      const bool ok = term.kind == ScoreTerm::Kind::kBias ? add_bias(term) : add_keep(term);
      if (!ok) return std::nullopt;
    }
    if (match.zeroed && !zero_hidden_rows(*match.zeroed)) return std::nullopt;
    join_keeps();
    result_.bias = bias_;
    result_.origins = origins_.list();
    return result_;
  }

 private:
  bool miss(ValueId at, const char* expected) {
    if (trace_) trace_->miss(10, at, expected);
    return false;
  }

  // A sum of biases term by term, so that a padding mask and a position bias keep their sizes.
  void split_sum(const ScoreTerm& sum, std::vector<ScoreTerm>& terms) {
    std::vector<ScoreTerm> open{sum};  // a stack
    for (int taken = 0; !open.empty();) {
      const ScoreTerm term = open.back();
      open.pop_back();
      const bool may = term.kind == ScoreTerm::Kind::kBias && taken < kMaxMaskNodes;
      const Node* n = may ? producer_of(graph_, under_casts(graph_, term.value), kAdd) : nullptr;
      const bool has_mask = n && (additive_mask(n->inputs[0]) || additive_mask(n->inputs[1]));
      if (!has_mask) {
        terms.push_back(term);
        continue;
      }
      ++taken;
      origins_.add(graph_, n);
      for (auto part = n->inputs.rbegin(); part != n->inputs.rend(); ++part) {
        open.push_back(term);
        open.back().value = *part;
      }
    }
  }

  // Where(c, 0, F) or Where(c, F, 0) with F so low that it absorbs every score.
  std::optional<ScoreTerm> additive_mask(ValueId value) const {
    const Node* n = producer_of(graph_, under_casts(graph_, value), kWhere);
    if (!n) return std::nullopt;
    for (size_t i : {size_t{1}, size_t{2}}) {
      const auto fill = uniform(graph_, n->inputs[i]);
      if (!fill || !is_uniform(graph_, n->inputs[3 - i], 0) || *fill > kAbsorbs) continue;
      ScoreTerm term;
      term.kind = ScoreTerm::Kind::kKeep;
      term.negated = i == 1;
      term.fill = *fill;
      term.value = n->inputs[0];
      return term;
    }
    return std::nullopt;
  }

  // Additive masks as keep masks: all of them if every fill is −inf; a mask with a finite fill only
  // if it is the outermost term and the only mask (two of them would add up).
  void read_additive_masks(std::vector<ScoreTerm>& terms) {
    size_t masks = 0, finite = 0;
    for (const ScoreTerm& term : terms) {
      const bool keep = term.kind == ScoreTerm::Kind::kKeep;
      const auto mask = keep ? std::optional(term) : additive_mask(term.value);
      if (!mask || term.factor <= 0) continue;
      ++masks;
      finite += mask->fill != -INFINITY;
    }
    if (finite > 0 && masks > 1) return;
    std::vector<ScoreTerm> others, masked;
    for (const ScoreTerm& term : terms) {
      const bool keep = term.kind == ScoreTerm::Kind::kKeep;
      auto mask = keep || term.factor <= 0 ? std::nullopt : additive_mask(term.value);
      if (!mask || mask->fill * term.factor > kAbsorbs) {
        others.push_back(term);
        continue;
      }
      origins_.add_value(graph_, under_casts(graph_, term.value));
      mask->fill *= term.factor;
      masked.push_back(*mask);
    }
    terms = std::move(others);
    terms.insert(terms.end(), masked.begin(), masked.end());
  }

  // The added triangle of one very low constant.
  void read_causal_triangle(ScoreTerm& term) {
    if (term.kind != ScoreTerm::Kind::kBias) return;
    const auto c = triangle_value(term.value);
    if (!c || *c * term.factor > kHidesAlways) return;
    if (analysis::causal_kind(graph_, term.value) != analysis::CausalKind::kHidden) return;
    term.kind = ScoreTerm::Kind::kKeep;
    term.negated = true;
    term.fill = *c * term.factor;
  }
  // The value of the triangle's nonzero elements, if they are equal.
  std::optional<double> triangle_value(ValueId value) const {
    const Node* n = graph_.producer(value);
    for (int taken = 0; n && (n->op == kReshape || n->op == kSlice) && taken < kMaxMaskNodes;
         ++taken) {
      value = n->inputs[0];
      n = graph_.producer(value);
    }
    if (n && n->op == kTrilu) return uniform(graph_, n->inputs[0]);
    if (n && n->op == kWhere) return std::nullopt;  // read_additive_mask's case
    const Tensor* t = constant_of(graph_, value);
    if (!t || !is_float(t->dtype())) return std::nullopt;
    double found = 0;
    for (int64_t i = 0; i < t->elems(); ++i) {
      const double v = t->float_at(i);
      if (v == 0) continue;
      if (found != 0 && v != found) return std::nullopt;
      found = v;
    }
    return found == 0 ? std::nullopt : std::optional(found);
  }

  bool add_bias(const ScoreTerm& term) {
    if (has_keep_ && result_.fill != -INFINITY) {
      if (result_.fill > kAbsorbs)
        return miss(term.value, "no bias added after a mask with a small fill");
      masks_to_bias();
    }
    ValueId value = term.value;
    if (term.factor != 1) {
      const ValueId c = add_scalar(graph_, dtype_of(graph_, value), term.factor);
      value = ops::emit(graph_, kMul, {value, c}, NoAttrs{}, {});
    }
    join_bias(value);
    return true;
  }
  void join_bias(ValueId value) {
    bias_ = bias_ == kNoValue ? value : ops::emit(graph_, kAdd, {bias_, value}, NoAttrs{}, {});
  }

  // Later terms are added to hidden scores too: fill + bias. As a bias the mask has the same
  // meaning, because scores + fill equals fill.
  void masks_to_bias() {
    for (const ScoreTerm& mask : masks_) {
      const ValueId zero = add_scalar(graph_, dtype_, 0);
      const ValueId fill = add_scalar(graph_, dtype_, mask.fill);
      std::vector<ValueId> choice{mask.value, zero, fill};
      if (mask.negated) std::swap(choice[1], choice[2]);
      join_bias(ops::emit(graph_, kWhere, std::move(choice), NoAttrs{}, origins_.list()));
    }
    masks_.clear();
    keeps_.clear();
    has_keep_ = false;
    result_.causal = false;
    result_.fill = -INFINITY;
  }

  bool add_keep(const ScoreTerm& term) {
    if (has_keep_ && term.fill != result_.fill)
      return miss(term.value, "masks with one fill value");
    has_keep_ = true;
    masks_.push_back(term);
    result_.fill = term.fill;
    std::vector<Condition> parts;
    flatten_condition(graph_, {term.value, term.negated}, parts, origins_);
    if (has_positions_) split_products(parts);
    for (const Condition& part : parts) {
      const analysis::CausalKind wanted =
          part.negated ? analysis::CausalKind::kHidden : analysis::CausalKind::kSeen;
      if (analysis::causal_kind(graph_, part.value) == wanted) {
        result_.causal = true;
        origins_.add_value(graph_, part.value);
      } else {
        keeps_.push_back(part);
      }
    }
    return true;
  }

  // A mask of queries times one of keys, as two.
  void split_products(std::vector<Condition>& parts) {
    std::vector<Condition> split;
    for (const Condition& part : parts) {
      const Node* n = part.negated ? nullptr : graph_.producer(part.value);
      const auto masks = n ? split_product(graph_, *n) : std::nullopt;
      if (!masks) {
        split.push_back(part);
        continue;
      }
      for (ValueId mask : *masks) split.push_back({mask, false});
    }
    parts = std::move(split);
  }

  // Probabilities are 0 where the only mask hides them: so they are beside a finite score, if its
  // fill is low enough, and then a fill of −inf makes no difference.
  bool zero_hidden_rows(const ScoreTerm& zeroed) {
    const bool same = masks_.size() == 1 && masks_[0].negated == zeroed.negated &&
                      same_value(graph_, masks_[0].value, zeroed.value);
    if (!same || result_.causal || result_.fill > kAbsorbs)
      return miss(zeroed.value, "probabilities that are 0 where the mask hides them");
    result_.zero_hidden_rows = true;
    result_.fill = -INFINITY;
    return true;
  }

  // [.., Sq, 1]
  bool is_of_queries(ValueId mask) const {
    const SymShape& shape = shape_of(graph_, mask);
    return shape.size() >= 2 && shape.back() == Dim(1) && !(shape[shape.size() - 2] == Dim(1));
  }

  void join_keeps() {
    for (const Condition& c : keeps_) {
      ValueId value = c.value;
      if (dtype_of(graph_, value) != DType::kBool) {
        CastAttrs cast;
        cast.to = DType::kBool;
        value = ops::emit(graph_, kCast, {value}, cast, origins_.list());
      }
      if (c.negated) value = ops::emit(graph_, kNot, {value}, NoAttrs{}, origins_.list());
      // Only the kernels that take scores by relative position take masks of queries.
      ValueId& keep = has_positions_ && is_of_queries(value) ? result_.keep_queries : result_.keep;
      keep = keep == kNoValue ? value
                              : ops::emit(graph_, kAnd, {keep, value}, NoAttrs{}, origins_.list());
    }
  }

  Graph& graph_;
  Trace* trace_;
  CombinedMasks result_;
  ValueId bias_ = kNoValue;
  bool has_keep_ = false, has_positions_ = false;
  std::vector<ScoreTerm> masks_;
  std::vector<Condition> keeps_;
  DType dtype_ = DType::kF32;
  OriginSet origins_;
};

}  // namespace

std::optional<CombinedMasks> combine_terms(Graph& graph, const AttentionMatch& match,
                                           Trace* trace) {
  return Combiner(graph, trace).run(match);
}

HeadSplit head_split(const Graph& graph, const AttentionMatch& match) {
  const SymShape& scores = shape_of(graph, match.scores);
  if (scores.size() == 4) return {scores[0], scores[1]};
  const HeadSplit one{scores[0], 1};
  // q [N, S, D] = Transpose(Reshape(x [S, B, E] → [S, N, D]), [1, 0, 2])
  const Node* transpose = producer_of(graph, match.q, kTranspose);
  if (!transpose || transpose->attrs_as<TransposeAttrs>().perm != std::vector<int64_t>{1, 0, 2})
    return one;
  const Node* view = producer_of(graph, transpose->inputs[0], kReshape);
  if (!view || rank_of(graph, view->inputs[0]) != 3) return one;
  const SymShape &x = shape_of(graph, view->inputs[0]), &y = shape_of(graph, transpose->inputs[0]);
  if (!(x[0] == y[0]) || y[2] == Dim(0) || !(mod(x[2], y[2]) == Dim(0))) return one;
  const Dim heads = floordiv(x[2], y[2]);
  if (!(x[1] * heads == scores[0])) return one;
  return {x[1], heads};
}

namespace {

struct Rotated {
  ValueId x = kNoValue, cos = kNoValue, sin = kNoValue;
};

// x's last axis from `start`, half of it long?
bool is_half(const Graph& graph, ValueId value, ValueId x, bool upper) {
  const Node* slice = producer_of(graph, value, kSlice);
  const SymShape& shape = shape_of(graph, x);
  if (!slice || slice->inputs[0] != x || shape.empty()) return false;
  const auto width = shape.back().as_constant();
  if (!width || *width % 2 != 0) return false;
  const auto attrs = slice->attrs_as<SliceAttrs>();
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  return attrs.inline_starts && attrs.axes == std::vector<int64_t>{last} && attrs.steps[0] == 1 &&
         attrs.starts[0] == (upper ? *width / 2 : 0) && attrs.sizes[0] == Dim(*width / 2);
}

// The same with the two outputs of a Split.
bool is_split_half(const Graph& graph, ValueId value, ValueId x, bool upper) {
  const Node* split = producer_of(graph, value, kSplit);
  if (!split || split->inputs[0] != x || split->outputs.size() != 2) return false;
  const auto attrs = split->attrs_as<SplitAttrs>();
  return attrs.axis == rank_of(graph, x) - 1 && attrs.sizes.size() == 2 &&
         attrs.sizes[0] == attrs.sizes[1] && split->outputs[upper ? 1 : 0] == value;
}

// Concat(−x[D/2:], x[:D/2])
bool is_rotated_half(const Graph& graph, ValueId value, ValueId x) {
  const Node* concat = producer_of(graph, value, kConcat);
  if (!concat || concat->inputs.size() != 2) return false;
  const int64_t rank = rank_of(graph, value);
  if ((concat->attrs_as<AxisAttrs>().axis + rank) % rank != rank - 1) return false;
  const Node* negated = producer_of(graph, concat->inputs[0], kNeg);
  if (!negated) return false;
  const ValueId high = negated->inputs[0], low = concat->inputs[1];
  return (is_half(graph, high, x, true) && is_half(graph, low, x, false)) ||
         (is_split_half(graph, high, x, true) && is_split_half(graph, low, x, false));
}

std::optional<Rotated> match_rotated(const Graph& graph, ValueId value) {
  const Node* add = producer_of(graph, value, kAdd);
  if (!add) return std::nullopt;
  for (size_t i : {size_t{0}, size_t{1}}) {
    const Node* plain = producer_of(graph, add->inputs[i], kMul);
    const Node* turned = producer_of(graph, add->inputs[1 - i], kMul);
    if (!plain || !turned) continue;
    for (size_t a : {size_t{0}, size_t{1}}) {
      for (size_t b : {size_t{0}, size_t{1}}) {
        if (is_rotated_half(graph, turned->inputs[b], plain->inputs[a]))
          return Rotated{plain->inputs[a], plain->inputs[1 - a], turned->inputs[1 - b]};
      }
    }
  }
  return std::nullopt;
}

// [.., 1, S, D]: one table for all heads of x [B, H, S, D].
bool is_table(const Graph& graph, ValueId table, const SymShape& x) {
  const SymShape& s = shape_of(graph, table);
  const size_t rank = s.size();
  if (rank < 2 || rank > 4 || !(s.back() == x.back()) || !(s[rank - 2] == x[2])) return false;
  return rank < 3 || s[rank - 3] == Dim(1);
}

}  // namespace

ValueId untransposed_key(Graph& graph, ValueId k_transposed, const std::vector<Origin>& origins) {
  std::vector<int64_t> swap{0, 2, 1};
  if (rank_of(graph, k_transposed) == 4) swap = {0, 1, 3, 2};
  const Node* transpose = producer_of(graph, k_transposed, kTranspose);
  if (transpose && transpose->attrs_as<TransposeAttrs>().perm == swap) return transpose->inputs[0];
  return emit_transpose(graph, k_transposed, std::move(swap), origins);
}

std::optional<RotaryMatch> match_rotary(const Graph& graph, ValueId q, ValueId k) {
  if (rank_of(graph, q) != 4 || rank_of(graph, k) != 4) return std::nullopt;
  const auto a = match_rotated(graph, q), b = match_rotated(graph, k);
  if (!a || !b || a->cos != b->cos || a->sin != b->sin) return std::nullopt;
  // Tables with more axes or entries than x would broadcast x.
  if (!same_shape(shape_of(graph, a->x), shape_of(graph, q)) ||
      !same_shape(shape_of(graph, b->x), shape_of(graph, k)))
    return std::nullopt;
  if (!is_table(graph, a->cos, shape_of(graph, a->x)) ||
      !is_table(graph, a->sin, shape_of(graph, a->x)))
    return std::nullopt;
  RotaryMatch m{a->x, b->x, a->cos, a->sin, false, {}};
  OriginSet origins;
  const ValueId stop[] = {a->x, b->x, a->cos, a->sin};
  collect_origins(graph, q, stop, origins);
  collect_origins(graph, k, stop, origins);
  m.origins = origins.list();
  return m;
}

ValueId rotary_table(Graph& graph, ValueId table, const std::vector<Origin>& origins) {
  SymShape shape = shape_of(graph, table);
  if (shape.size() == 2) shape.insert(shape.begin(), Dim(1));
  std::swap(shape[shape.size() - 3], shape[shape.size() - 2]);
  return emit_reshape(graph, table, std::move(shape), origins);
}

}  // namespace vernier::passes
