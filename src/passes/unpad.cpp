// f(x [B, S, …], …) ⇒ f'(pack(x) [1, T, …], …)   for the part of a graph that computes tokens alone
//   or attends over a row's tokens: T counts the tokens of the batch instead of all B·S places.
//   TokenIndex finds them in the mask; Attention takes their sequences (cu_seqlens).
//   requires: an Attention whose keep mask or bias hides keys by their place [B, 1, 1, S], where an
//   input [B, S] is padding, so that their probabilities are 0; every other reader of what is
//   packed is one that padding does not reach: the first or the last place of a row, a MaskedMean
//   or a ZeroPadding with the same mask, a GatherND or GatherElements of one place in each row that
//   is a token's (the last one). Left out are places behind a row's tokens, unless its last place
//   is read, and in front of them, unless its first place or places by number (relative positions)
//   are read. A row that has holes, no token or padding that is not left out keeps all its places,
//   and its keep mask. No bit of a token changes by padding behind it: sums over keys begin at the
//   same key, and leave out terms that are 0. With padding in front, they begin at the row's first
//   token: the bits are those of the row without padding.
//   Source: Zeng et al., arXiv:2208.08124; Zhai et al., ByteTransformer, arXiv:2210.03052.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "analysis/facts.h"
#include "analysis/row_axes.h"
#include "core/attrs.h"
#include "core/token_rows.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/token_masks.h"
#include "passes/token_reads.h"

namespace vernier::passes {
namespace {

using enum OpKind;
using enum AttentionAttrs::Input;

// A fill of at most this absorbs any score: in f32, fill + score equals fill.
constexpr double kAbsorbs = -1e30;

// ---- what one mask packs

class Packer {
 public:
  Packer(Graph& graph, TokenMask mask)
      : graph_(graph),
        mask_(mask),
        batch_(shape_of(graph, mask.input)[0]),
        length_(shape_of(graph, mask.input)[1]) {}

  /// Returns the number of nodes that compute tokens only.
  int run() {
    if (length_.as_constant() == 1) return 0;
    choose_sides();
    note();
    if (attentions() == 0) return 0;
    rewrite();
    return static_cast<int>(region_.size());
  }

 private:
  // ---- sizes

  bool same(const Dim& a, const Dim& b) const { return analysis::same_size(graph_, a, b); }
  // [B, S, …]
  bool has_places(ValueId value) const {
    const SymShape& shape = shape_of(graph_, value);
    return shape.size() >= 2 && same(shape[0], batch_) && same(shape[1], length_);
  }

  /// How a node of the region reads an operand.
  enum class Reading : uint8_t {
    kWhole,    ///< as it is: it has neither rows nor places
    kTokens,   ///< [B, S, …]
    kByPlace,  ///< [1, S, …] or [S, …]: the same for every row
    kHeads,    ///< [B, H, S, …], made of [B, S, H, …] in the region
    kUnclear,
  };
  // `rank`: of the result that it is broadcast to, which begins [B, S].
  Reading reading(ValueId value, size_t rank) const {
    const SymShape& shape = shape_of(graph_, value);
    if (shape.size() + 2 <= rank) return Reading::kWhole;
    if (shape.size() > rank) return Reading::kUnclear;
    const bool has_rows = shape.size() == rank;
    const Dim& places = shape[has_rows ? 1 : 0];
    const bool one_row = !has_rows || shape[0] == Dim(1);
    if (has_rows && has_places(value)) return Reading::kTokens;
    if (one_row && places == Dim(1)) return Reading::kWhole;
    return one_row && same(places, length_) ? Reading::kByPlace : Reading::kUnclear;
  }

  // ---- the region

  bool keeps_leading_axes(const Node& node) const {
    switch (node.op) {
      case kReshape:
        return has_places(node.inputs[0]);
      case kTranspose: {
        const auto& perm = node.attrs_as<TransposeAttrs>().perm;
        return perm.size() >= 2 && perm[0] == 0 && perm[1] == 1;
      }
      case kSlice: {
        const auto attrs = node.attrs_as<SliceAttrs>();
        return attrs.inline_starts && node.inputs.size() == 1 &&
               std::ranges::all_of(attrs.axes, [](int64_t axis) { return axis >= 2; });
      }
      case kSplit: {
        const int64_t axis = node.attrs_as<SplitAttrs>().axis;
        return (axis < 0 ? axis + rank_of(graph_, node.inputs[0]) : axis) >= 2;
      }
      default:
        return false;
    }
  }

  // [B, S, H, …] as [B, H, S, …], or back.
  static bool swaps_heads(const Node& node) {
    return node.op == kTranspose &&
           node.attrs_as<TransposeAttrs>().perm == std::vector<int64_t>{0, 2, 1, 3};
  }
  // A product for each head with one weight [1, H, D, P] for all tokens.
  bool multiplies_heads(const Node& node) const {
    if (node.op != kMatMul || !has_heads(node.inputs[0])) return false;
    const SymShape& weight = shape_of(graph_, node.inputs[1]);
    return weight.size() == 4 && weight[0] == Dim(1);
  }
  // Is it [B, H, S, …], of places?
  bool has_heads(ValueId value) const {
    const Node* n = graph_.producer(value);
    if (n == nullptr) return false;
    if (swaps_heads(*n)) return has_places(n->inputs[0]) && !has_heads(n->inputs[0]);
    return multiplies_heads(*n);
  }
  // As readings(), of what makes scores by relative position.
  std::vector<Reading> head_readings(const Node& node) const {
    if (swaps_heads(node) && has_heads(node.inputs[0])) return {Reading::kHeads};
    if (swaps_heads(node) && has_places(node.inputs[0])) return {Reading::kTokens};
    if (multiplies_heads(node)) return {Reading::kHeads, Reading::kWhole};
    return {};
  }

  // What the operands of a node are to it, by input; empty: it cannot compute tokens only.
  std::vector<Reading> readings(const Node& node) const {
    std::vector<Reading> found(node.inputs.size(), Reading::kWhole);
    if (!node.subgraphs.empty() || node.op == kTokenIndex) return {};
    if (auto heads = head_readings(node); !heads.empty()) return heads;
    for (ValueId out : node.outputs) {
      if (out != kNoValue && !has_places(out)) return {};
    }
    // Ids and places are few: packed where they are read.
    if (!is_float(dtype_of(graph_, node.outputs[0]))) return {};
    const size_t rank = shape_of(graph_, node.outputs[0]).size();
    const auto read = [&](size_t i, size_t of_rank) {
      if (node.has_input(i)) found[i] = reading(node.inputs[i], of_rank);
      return found[i] != Reading::kUnclear;
    };
    if (flags(node.op) & kView && node.op != kIdentity) {
      if (!keeps_leading_axes(node) || !has_places(node.inputs[0])) return {};
      found[0] = Reading::kTokens;
      return found;
    }
    if (node.op == kGather) {
      // A table's rows.
      const bool leading = node.attrs_as<AxisAttrs>().axis == 0;
      const size_t ids_rank = shape_of(graph_, node.inputs[1]).size();
      if (!leading || !graph_.value(node.inputs[0]).is_constant() || !read(1, ids_rank)) return {};
      return found;
    }
    if (node.op == kEmbedNorm) {
      const int64_t tables = node.attrs_as<EmbedNormAttrs>().tables;
      for (int64_t t = 0; t < tables; ++t)
        if (!read(static_cast<size_t>(2 * t), rank - 1)) return {};
      return found;
    }
    if (node.op == kQuantizeRows)
      return rank >= 3 && read(0, rank) ? found : std::vector<Reading>();
    if (analysis::row_axes(graph_, node) < 2) return {};
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (analysis::holds_rows(node, i) && !read(i, rank)) return {};
    return found;
  }

  // What hides the keys of an attention: a keep mask [B, 1, 1, S] of this mask, or a bias.
  std::optional<HidingBias> bias_of(const Node& node) {
    if (node.has_input(kKeep) || !node.has_input(kBias)) return std::nullopt;
    const auto [it, fresh] = biases_.try_emplace(node.inputs[kBias]);
    if (fresh) it->second = hiding_bias(graph_, node.inputs[kBias]);
    return it->second && it->second->of_mask.mask == mask_ ? it->second : std::nullopt;
  }
  bool has_keep(const Node& node) const {
    return node.has_input(kKeep) && token_mask_of(graph_, node.inputs[kKeep]) == mask_;
  }
  bool has_mask(const Node& node) { return has_keep(node) || bias_of(node).has_value(); }

  // An Attention over the places of rows that this mask hides. Why not: `why`, where it has the
  // mask.
  std::optional<std::vector<Reading>> attention_readings(const Node& node, std::string& why) {
    if (!has_mask(node)) return std::nullopt;
    const std::optional<HidingBias> bias = bias_of(node);
    if (!bias) {
      const SymShape& keep = shape_of(graph_, node.inputs[kKeep]);
      if (keep.size() != 4 || !same(keep[0], batch_) || !(keep[1] == Dim(1)) ||
          !(keep[2] == Dim(1)) || !same(keep[3], length_))
        return std::nullopt;
    }
    const auto attrs = node.attrs_as<AttentionAttrs>();
    const SymShape& q = shape_of(graph_, node.inputs[kQ]);
    const bool one_query = q[1] == Dim(1);
    std::vector<Reading> found(node.inputs.size(), Reading::kWhole);
    const auto refuse = [&](const char* what) {
      why = "attention '" + node.name + "' " + what;
      return std::nullopt;
    };
    if (node.has_input(kStartsQ)) return refuse("takes sequences already");
    const ValueId by_places = bias                    ? bias->by_places
                              : node.has_input(kBias) ? node.inputs[kBias]
                                                      : kNoValue;
    if (by_places != kNoValue && !is_by_places(by_places, one_query))
      return refuse("adds a bias that is not one by pairs of places, the same for all rows");
    if (by_places != kNoValue && sides_.front)
      return refuse("adds a bias by places, which padding in front moves");
    if (!bias && !(attrs.fill <= kHidingFill) && !attrs.masks_add)
      return refuse("leaves hidden keys a probability");
    // Its mask becomes a keep mask.
    if (bias && by_places != kNoValue &&
        (!(bias->of_mask.fill <= kAbsorbs) || attrs.masks_add ||
         (attrs.causal && attrs.fill != bias->of_mask.fill)))
      return refuse("adds a mask to a bias, and scores show through it");
    if (!has_places(node.inputs[kK]) || !has_places(node.inputs[kV]) ||
        !(one_query ? same(q[0], batch_) : has_places(node.inputs[kQ])))
      return refuse("has queries or keys of other places");
    if (one_query && (attrs.causal || node.has_input(kCosines)))
      return refuse("is causal or rotated, and has one query for each row");
    if (one_query && graph_.is_output(node.outputs[0])) return refuse("is an output");
    for (size_t i : {kQueryPositions, kKeyPositions}) {
      if (!node.has_input(i)) continue;
      if (one_query || !has_places(node.inputs[i]))
        return refuse("has scores by relative position of other places");
      found[i] = Reading::kTokens;
    }
    if (node.has_input(kKeepQueries) &&
        (one_query || token_mask_of(graph_, node.inputs[kKeepQueries]) != mask_))
      return refuse("hides queries by another mask");
    found[kK] = found[kV] = Reading::kTokens;
    if (!bias) found[kKeep] = Reading::kTokens;
    found[kQ] = one_query ? Reading::kWhole : Reading::kTokens;
    for (size_t i : {kCosines, kSines}) {
      if (node.has_input(i)) found[i] = reading(node.inputs[i], 4);
      if (i < found.size() && found[i] == Reading::kUnclear)
        return refuse("has rotary tables of other places");
    }
    return found;
  }

  // A bias [1, H or 1, S, S], of one query [1, H or 1, 1, S]: of relative positions.
  bool is_by_places(ValueId bias, bool one_query) const {
    SymShape shape = shape_of(graph_, bias);
    if (shape.size() > 4) return false;
    shape.insert(shape.begin(), 4 - shape.size(), Dim(1));
    const bool by_query = shape[2] == Dim(1) || (!one_query && same(shape[2], length_));
    return shape[0] == Dim(1) && by_query && (shape[3] == Dim(1) || same(shape[3], length_));
  }

  // Those with which most is packed, attentions first; of equal ones the first.
  void choose_sides() {
    constexpr std::array kChoices{Sides{.front = true, .behind = true},
                                  Sides{.front = false, .behind = true},
                                  Sides{.front = true, .behind = false}};
    Sides best = kChoices[1];
    std::pair<int, size_t> most{0, 0};
    for (const Sides& choice : kChoices) {
      sides_ = choice;
      find_region();
      const std::pair packed{attentions(), region_.size()};
      if (packed.first == 0 || packed <= most) continue;
      most = packed;
      best = choice;
    }
    sides_ = best;
    find_region();
  }

  void find_region() {
    region_.clear();
    masked_ = 0;
    why_not_.clear();
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      std::string why;
      if (node.op == kAttention) {
        const bool masked = has_mask(node);
        masked_ += masked;
        auto found = attention_readings(node, why);
        if (found) region_.emplace(id, std::move(*found));
        if (masked && why_not_.empty()) why_not_ = why;
        continue;
      }
      std::vector<Reading> found = readings(node);
      if (std::ranges::any_of(
              found, [](Reading r) { return r == Reading::kTokens || r == Reading::kHeads; }))
        region_.emplace(id, std::move(found));
    }
    while (drop_read_by_others() || drop_unattended() || drop_headless()) {
    }
  }

  bool in_region(NodeId id) const { return region_.contains(id); }
  bool makes_tokens(NodeId id) const {
    const Node& node = graph_.node(id);
    return node.op != kAttention || has_places(node.outputs[0]);
  }

  // The number that an input is known to be.
  std::optional<Dim> number(const Node& n, size_t i) const {
    if (!n.has_input(i)) return std::nullopt;
    const ir::Value& value = graph_.value(n.inputs[i]);
    if (value.values && value.values->size() == 1) return value.values->front();
    if (value.is_constant() && is_integer(value.dtype) && value.constant.elems() == 1)
      return Dim(value.constant.integer_at(0));
    return std::nullopt;
  }
  // The only place of each row that a node takes: x[:, 0], x[:, -1], and slices of one place.
  std::optional<Dim> taken_place(const Node& n, ValueId value) const {
    if (n.inputs[0] != value) return std::nullopt;
    if (n.op == kGather && n.attrs_as<AxisAttrs>().axis == 1) return number(n, 1);
    if (n.op != kSlice || shape_of(graph_, n.outputs[0]).size() < 2) return std::nullopt;
    const auto attrs = n.attrs_as<SliceAttrs>();
    const auto only = [](const std::vector<int64_t>& list, int64_t number) {
      return list == std::vector<int64_t>{number};
    };
    if (attrs.inline_starts) {
      const bool one = only(attrs.axes, 1) && attrs.starts.size() == 1 && only(attrs.steps, 1) &&
                       attrs.sizes.size() == 1 && attrs.sizes[0] == Dim(1);
      return one ? std::optional(Dim(attrs.starts[0])) : std::nullopt;
    }
    constexpr size_t kStarts = 1, kAxes = 3, kSteps = 4;
    const bool along = number(n, kAxes) == Dim(1) &&
                       (!n.has_input(kSteps) || number(n, kSteps) == Dim(1)) &&
                       shape_of(graph_, n.outputs[0])[1] == Dim(1);
    return along ? number(n, kStarts) : std::nullopt;
  }
  bool takes_first_token(const Node& n, ValueId value) const {
    return !sides_.front && n.op == kSlice && taken_place(n, value) == Dim(0);
  }
  bool takes_last_place(const Node& n, ValueId value) const {
    if (sides_.behind) return false;
    const std::optional<Dim> place = taken_place(n, value);
    return place && (*place == Dim(-1) || same(*place, length_ - Dim(1)));
  }
  bool means_tokens(const Node& n, ValueId value) const {
    return n.op == kMaskedMean && n.inputs[0] == value && n.inputs[1] != value &&
           token_mask_of(graph_, n.inputs[1]) == mask_;
  }
  // Its padding is 0, whatever x has there.
  bool zeroes_padding(const Node& n) const {
    return n.op == kZeroPadding && !n.has_input(2) &&
           n.attrs_as<ZeroPaddingAttrs>().padding == mask_.padding && n.inputs[1] == mask_.input;
  }
  // Where the only place of each row that a node reads is computed: pairs of row and place [B, 2]
  // (GatherND), or a place [B, 1, 1] (GatherElements); kNoValue: it reads otherwise.
  ValueId read_places(const Node& n, ValueId value) const {
    if (n.inputs[0] != value) return kNoValue;
    const ValueId index = n.inputs.size() > 1 ? n.inputs[1] : kNoValue;
    if (n.op == kGatherND && n.attrs_as<GatherNDAttrs>().batch_dims == 0) {
      const SymShape& pairs = shape_of(graph_, index);
      return pairs.size() == 2 && same(pairs[0], batch_) && pairs[1] == Dim(2) ? index : kNoValue;
    }
    if (n.op != kGatherElements || n.attrs_as<AxisAttrs>().axis != 1) return kNoValue;
    const Node* maker = graph_.producer(index);
    if (maker == nullptr || maker->op != kExpand) return kNoValue;
    const SymShape &one = shape_of(graph_, maker->inputs[0]), &all = shape_of(graph_, index);
    const bool by_row =
        one.size() == all.size() && one.size() >= 2 && same(one[0], batch_) &&
        std::all_of(one.begin() + 1, one.end(), [](const Dim& d) { return d == Dim(1); });
    const SymShape& x = shape_of(graph_, value);
    const bool whole = all.size() == x.size() && all[1] == Dim(1) &&
                       std::equal(all.begin() + 2, all.end(), x.begin() + 2);
    return by_row && whole ? maker->inputs[0] : kNoValue;
  }
  // One place of each row, which the mask says: that of a token.
  bool takes_named_token(const Node& n, ValueId value) {
    const ValueId index = read_places(n, value);
    if (index == kNoValue) return false;
    const auto [it, fresh] = names_tokens_.try_emplace(index);
    if (fresh) it->second = names_tokens(graph_, index, mask_);
    return (it->second.front || !sides_.front) && (it->second.behind || !sides_.behind);
  }
  // Does padding not reach what `user` makes of `value`?
  bool reads_tokens(const Node& user, ValueId value) {
    return takes_first_token(user, value) || takes_last_place(user, value) ||
           means_tokens(user, value) || zeroes_padding(user) || takes_named_token(user, value);
  }

  // Nodes whose padding something else reads.
  bool drop_read_by_others() {
    bool changed = false;
    const std::vector<NodeId>& order = graph_.order();
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      if (!in_region(*it) || !makes_tokens(*it)) continue;
      for (ValueId out : graph_.node(*it).outputs) {
        if (out == kNoValue) continue;
        const std::string reader = other_reader(out);
        if (reader.empty()) continue;
        if (why_not_.empty() && is_float(dtype_of(graph_, out))) why_not_ = reader;
        region_.erase(*it);
        changed = true;
        break;
      }
    }
    return changed;
  }
  std::string other_reader(ValueId value) {
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      if (graph_.outputs[i] == value)
        return "output '" + graph_.output_names[i] + "' has the padding, too";
    }
    for (NodeId user : graph_.value(value).users) {
      const Node& n = graph_.node(user);
      if (!in_region(user) && (has_heads(value) || !reads_tokens(n, value)))
        return "node '" + n.name + "' (" + std::string(vernier::name(n.op)) +
               ") reads the padding, too";
    }
    return "";
  }

  // Nodes that no Attention of the region reads, and that read none.
  bool drop_unattended() {
    std::set<NodeId> kept;
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (!in_region(id)) continue;
      const bool follows = std::ranges::any_of(node.inputs, [&](ValueId in) {
        return in != kNoValue && kept.contains(graph_.value(in).producer);
      });
      if (node.op == kAttention || follows) kept.insert(id);
    }
    std::set<NodeId> before;
    for (auto it = graph_.order().rbegin(); it != graph_.order().rend(); ++it) {
      const Node& node = graph_.node(*it);
      if (!in_region(*it)) continue;
      bool leads = node.op == kAttention;
      for (ValueId out : node.outputs) {
        if (out == kNoValue) continue;
        for (NodeId user : graph_.value(out).users) leads = leads || before.contains(user);
      }
      if (leads) before.insert(*it);
    }
    return std::erase_if(region_, [&](const auto& entry) {
             return !kept.contains(entry.first) && !before.contains(entry.first);
           }) > 0;
  }

  // Nodes whose operand by heads is not made in the region.
  bool drop_headless() {
    return std::erase_if(region_, [&](const auto& entry) {
             const auto& [id, readings] = entry;
             for (size_t i = 0; i < readings.size(); ++i) {
               const ValueId in = graph_.node(id).inputs[i];
               if (readings[i] == Reading::kHeads && !in_region(graph_.value(in).producer))
                 return true;
             }
             return false;
           }) > 0;
  }

  int attentions() const {
    return static_cast<int>(std::ranges::count_if(
        region_, [&](const auto& entry) { return graph_.node(entry.first).op == kAttention; }));
  }

  void note() {
    const int packed = attentions();
    if (masked_ == 0) return;
    std::string text = "unpadding: " + std::to_string(packed) + " of " + std::to_string(masked_) +
                       " attentions, and what lies between them, compute only tokens ('" +
                       graph_.value(mask_.input).name + "' is not " +
                       std::to_string(mask_.padding) + " there)";
    if (packed < masked_ && !why_not_.empty()) text += ": " + why_not_;
    if (packed > 0 && sides_.front)
      text += sides_.behind
                  ? "; left padding is skipped too, and its amount does not change any bits"
                  : "; only left padding is skipped, and its amount does not change any bits";
    graph_.notes.push_back(std::move(text));
  }

  // ---- the rewrite

  std::string free_symbol() const {
    std::set<std::string> taken;
    for (ValueId in : graph_.inputs) {
      for (const Dim& d : shape_of(graph_, in))
        for (const std::string& symbol : d.symbols()) taken.insert(symbol);
    }
    for (const ir::TokenCount& count : graph_.token_counts) taken.insert(count.symbol);
    std::string symbol = "tokens";
    for (int i = 2; taken.contains(symbol); ++i) symbol = "tokens_" + std::to_string(i);
    return symbol;
  }

  void emit_index() {
    const std::string symbol = free_symbol();
    tokens_ = Dim::symbol(symbol);
    const TokenRule rule{mask_.padding, sides_.front, sides_.behind};
    graph_.token_counts.push_back({symbol, mask_.input, rule});
    rows_ = ops::emit(graph_, kTokenIndex, {mask_.input},
                      TokenIndexAttrs{rule.padding, rule.front, rule.behind, {tokens_}}, {}, 6);
    Node& index = *graph_.producer(rows_);
    index.name = "tokens of " + graph_.value(mask_.input).name;
    positions_ = index.outputs[1];
    starts_ = index.outputs[2];
    places_ = index.outputs[3];
    ordinals_ = index.outputs[4];
    kept_ = emit_reshape(graph_, index.outputs[5], {1, 1, 1, tokens_}, {});
  }

  ValueId gather(ValueId data, ValueId indices, int64_t axis, const Node* like) {
    Request request = like != nullptr ? like->request : Request{};
    // Nothing is asked of a view.
    for (const Node* maker = graph_.producer(data); maker != nullptr && request.by.empty();
         maker = graph_.producer(maker->inputs[0])) {
      request = maker->request;
      if (!(flags(maker->op) & kView) || !maker->has_input(0)) break;
    }
    const std::string name = like != nullptr ? like->name : graph_.value(data).name;
    const ValueId y = ops::emit(graph_, kGather, {data, indices}, AxisAttrs{axis}, {});
    Node& made = *graph_.producer(y);
    if (is_float(dtype_of(graph_, data))) made.request = request;
    made.name = name;
    ops::infer_node(graph_, graph_.value(y).producer);
    return y;
  }

  // [B, S, …] ⇒ [1, T, …]
  ValueId pack(ValueId value, const Node& reader) {
    const auto [it, fresh] = packed_.try_emplace(value, kNoValue);
    if (!fresh) return it->second;
    SymShape shape = shape_of(graph_, value);
    shape.erase(shape.begin());
    shape[0] = batch_ * length_;
    const ValueId rows = gather(emit_reshape(graph_, value, shape, {}), rows_, 0, &reader);
    shape[0] = tokens_;
    shape.insert(shape.begin(), Dim(1));
    return packed_[value] = emit_reshape(graph_, rows, shape, {});
  }
  // [B, 1, 1, S] ⇒ [1, 1, 1, T], of the type that it has: f16 does not hold the lowest of f32.
  ValueId pack_keys(ValueId value) {
    const auto [it, fresh] = keys_.try_emplace(value, kNoValue);
    if (!fresh) return it->second;
    const ValueId whole = emit_reshape(graph_, value, {batch_ * length_}, {});
    return it->second =
               emit_reshape(graph_, gather(whole, rows_, 0, nullptr), {1, 1, 1, tokens_}, {});
  }
  // [1, S, …] ⇒ [1, T, …], [S, …] ⇒ [T, …]
  ValueId pack_places(ValueId value, size_t rank, const Node& reader) {
    const auto [it, fresh] = by_place_.try_emplace(value, kNoValue);
    if (!fresh) return it->second;
    const int64_t axis = shape_of(graph_, value).size() == rank ? 1 : 0;
    return by_place_[value] = gather(value, positions_, axis, &reader);
  }
  // [1, T, …] ⇒ [B, S, …]: padding has what the first token of its row has.
  ValueId unpack(ValueId value, const Node& maker) {
    const auto [it, fresh] = unpacked_.try_emplace(value, kNoValue);
    if (!fresh) return it->second;
    SymShape shape = shape_of(graph_, value);
    shape.erase(shape.begin());
    const ValueId rows = emit_reshape(graph_, value, shape, {});
    return unpacked_[value] = gather(rows, places_, 0, &maker);
  }
  // What the first token of each row has: [1, T, …] ⇒ [B, 1, …], in place of a slice.
  void take_first(NodeId slice, ValueId value) {
    const Node node = graph_.node(slice);
    if (first_ == kNoValue) {
      first_ = ops::emit(
          graph_, kSlice, {starts_},
          SliceAttrs{
              .inline_starts = true, .starts = {0}, .axes = {0}, .steps = {1}, .sizes = {batch_}},
          {});
    }
    const ValueId rows = gather(value, first_, 1, &node);
    graph_.producer(rows)->origins = node.origins;
    SymShape shape = shape_of(graph_, rows);
    std::swap(shape[0], shape[1]);
    graph_.replace_uses(node.outputs[0], emit_reshape(graph_, rows, shape, {}));
    graph_.node(slice).origins.clear();
    graph_.drop_dead(slice);
  }

  // What the token at the read place of each row has: [1, T, …] ⇒ the node's result.
  void take_named(NodeId id, ValueId value) {
    const Node node = graph_.node(id);
    const ValueId index = read_places(node, value);
    ValueId tokens = kNoValue;  // [B]
    if (node.op == kGatherND) {
      tokens = ops::emit(graph_, kGatherND, {places_, index}, GatherNDAttrs{}, {});
    } else {
      const ValueId column = emit_reshape(graph_, index, {batch_, Dim(1)}, {});
      tokens = emit_reshape(graph_,
                            ops::emit(graph_, kGatherElements, {places_, column}, AxisAttrs{1}, {}),
                            {batch_}, {});
    }
    take_tokens(id, value, tokens);
  }
  // What the last place of each row has, which is never left out: [1, T, …] ⇒ [B, 1, …].
  void take_last(NodeId slice, ValueId value) {
    if (last_ == kNoValue) {
      const ValueId end = graph_.add_constant(Tensor::scalar(DType::kI64, -1));
      last_ = ops::emit(graph_, kGather, {places_, end}, AxisAttrs{1}, {});  // [B]
    }
    take_tokens(slice, value, last_);
  }
  // What these tokens [B] have: [1, T, …] ⇒ the node's result.
  void take_tokens(NodeId id, ValueId value, ValueId tokens) {
    const Node node = graph_.node(id);
    SymShape shape = shape_of(graph_, value);
    shape.erase(shape.begin());
    const ValueId rows = gather(emit_reshape(graph_, value, shape, {}), tokens, 0, &node);
    graph_.producer(rows)->origins = node.origins;
    const SymShape result = shape_of(graph_, node.outputs[0]);
    graph_.replace_uses(node.outputs[0], emit_reshape(graph_, rows, result, {}));
    graph_.node(id).origins.clear();
    graph_.drop_dead(id);
  }

  void rewrite() {
    emit_index();
    // Sizes of what is read from outside are those of before: packed first.
    const std::vector<NodeId> order(graph_.order());
    for (NodeId id : order) {
      if (!in_region(id)) continue;
      if (graph_.node(id).op == kAttention)
        rewrite_attention(id);
      else
        rewrite_node(id);
    }
    for (NodeId id : order) {
      if (makes_packed_.contains(id)) serve_others(id);
    }
  }

  std::vector<ValueId> operands(const Node& node, size_t rank) {
    const std::vector<Reading>& readings = region_.at(graph_.value(node.outputs[0]).producer);
    std::vector<ValueId> inputs = node.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!node.has_input(i)) continue;
      if (readings[i] == Reading::kByPlace) inputs[i] = pack_places(inputs[i], rank, node);
      if (readings[i] != Reading::kTokens) continue;
      if (!makes_packed_.contains(graph_.value(inputs[i]).producer))
        inputs[i] = pack(inputs[i], node);
    }
    return inputs;
  }

  void rewrite_node(NodeId id) {
    const Node node = graph_.node(id);
    const size_t rank = shape_of(graph_, node.outputs[0]).size();
    const bool ids = node.op == kGather || node.op == kEmbedNorm;
    // verify would take the axis of heads for places.
    const Reading first = region_.at(id)[0];
    if (swaps_heads(node) ? first == Reading::kTokens : first == Reading::kHeads)
      graph_.value(node.outputs[0]).name.clear();
    graph_.set_inputs(id, operands(node, ids ? rank - 1 : rank));
    if (node.op == kReshape) {
      SymShape shape = shape_of(graph_, node.outputs[0]);
      shape[0] = Dim(1);
      shape[1] = tokens_;
      graph_.node(id).attrs = encode(shape_attrs(shape));
      graph_.set_inputs(id, {graph_.node(id).inputs[0]});
    }
    makes_packed_.insert(id);
    ops::infer_node(graph_, id);
  }

  // Which tokens [1, 1, 1, T] a keep mask keeps.
  ValueId packed_keep(ValueId keep) {
    const auto mask = keep_mask_of(graph_, keep);
    return mask && !mask->exact ? pack_keys(keep) : kept_;
  }

  void rewrite_attention(NodeId id) {
    const Node node = graph_.node(id);
    const bool one_query = !has_places(node.outputs[0]);
    const ValueId out = node.outputs[0];
    const SymShape before = shape_of(graph_, out);
    const std::vector<NodeId> users = users_of(graph_, out);
    const std::optional<HidingBias> bias = bias_of(node);
    Node without = node;
    for (size_t i : {kKeep, kKeepQueries})
      if (without.has_input(i)) without.inputs[i] = kNoValue;
    std::vector<ValueId> inputs = operands(without, 4);
    inputs.resize(std::max<size_t>(inputs.size(), kPlaces + 1), kNoValue);
    auto attrs = node.attrs_as<AttentionAttrs>();
    if (bias && bias->by_places == kNoValue) {
      inputs[kBias] = pack_keys(inputs[kBias]);
    } else {
      inputs[kKeep] = bias ? kept_ : packed_keep(node.inputs[kKeep]);
      if (bias) inputs[kBias] = bias->by_places;
      if (bias) attrs.fill = bias->of_mask.fill;
      attrs.bias_in_sequence = node.has_input(kBias);
    }
    if (node.has_input(kKeepQueries)) {
      const ValueId keep = packed_keep(node.inputs[kKeepQueries]);
      inputs[kKeepQueries] = emit_reshape(graph_, keep, {1, 1, tokens_, 1}, {});
    }
    graph_.node(id).attrs = encode(attrs);
    inputs[kPlaces] = places_;
    inputs[kStartsK] = starts_;
    inputs[kStartsQ] = one_query ? ordinals_ : starts_;
    if (one_query) {
      SymShape q = shape_of(graph_, inputs[kQ]);
      std::swap(q[0], q[1]);
      inputs[kQ] = emit_reshape(graph_, inputs[kQ], q, {});
    }
    graph_.set_inputs(id, inputs);
    ops::infer_node(graph_, id);
    if (!one_query) {
      makes_packed_.insert(id);
      return;
    }
    const ValueId by_row = emit_reshape(graph_, out, before, {});
    graph_.value(by_row).name = graph_.value(out).name;
    graph_.value(out).name.clear();
    for (NodeId user : users) {
      for (size_t i = 0; i < graph_.node(user).inputs.size(); ++i)
        if (graph_.node(user).inputs[i] == out) graph_.set_input(user, i, by_row);
    }
  }

  // Readers outside the region.
  void serve_others(NodeId id) {
    const Node maker = graph_.node(id);
    for (ValueId out : maker.outputs) {
      if (out == kNoValue) continue;
      for (NodeId user : users_of(graph_, out)) {
        if (in_region(user) || !is_old(user)) continue;
        if (takes_first_token(graph_.node(user), out)) {
          if (is_live(graph_, user)) take_first(user, out);
          continue;
        }
        if (takes_last_place(graph_.node(user), out)) {
          if (is_live(graph_, user)) take_last(user, out);
          continue;
        }
        if (takes_named_token(graph_.node(user), out)) {
          take_named(user, out);
          continue;
        }
        if (zeroes_padding(graph_.node(user))) {
          graph_.set_inputs(user, {out, mask_.input, places_});
          continue;
        }
        const ValueId whole = unpack(out, maker);
        for (size_t i = 0; i < graph_.node(user).inputs.size(); ++i)
          if (graph_.node(user).inputs[i] == out) graph_.set_input(user, i, whole);
      }
    }
  }
  bool is_old(NodeId id) const { return static_cast<size_t>(id) < first_new_; }

  Graph& graph_;
  const TokenMask mask_;
  const Dim batch_, length_;
  std::map<NodeId, std::vector<Reading>> region_;  // by node: its operands
  Sides sides_ = {};                               // whose padding is left out
  int masked_ = 0;                                 // attentions with this mask
  std::string why_not_;
  const size_t first_new_ = graph_.num_nodes();  // nodes from here on are this pass's

  Dim tokens_;
  ValueId rows_ = kNoValue, positions_ = kNoValue, starts_ = kNoValue, places_ = kNoValue,
          ordinals_ = kNoValue, kept_ = kNoValue, first_ = kNoValue, last_ = kNoValue;
  std::set<NodeId> makes_packed_;
  std::map<ValueId, ValueId> packed_, keys_, by_place_, unpacked_;
  std::map<ValueId, Sides> names_tokens_;                // by index
  std::map<ValueId, std::optional<HidingBias>> biases_;  // of attentions
};

}  // namespace

int unpad(Graph& graph) {
  int found = 0;
  for (const TokenMask& mask : token_masks(graph)) {
    found += Packer(graph, mask).run();
    graph.remove_dead();
    graph.sort();
  }
  return found;
}

}  // namespace vernier::passes
