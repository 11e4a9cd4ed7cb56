// The masks of attentions: see token_masks.h.
#include "passes/token_masks.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/attrs.h"
#include "core/token_rows.h"
#include "passes/rewrite.h"
#include "passes/token_reads.h"

namespace vernier::passes {
namespace {

using enum OpKind;

// Of a TokenIndex (its rule); larger numbers and NaN are no ids.
constexpr double kLargestPadding = 0x1p31;

bool is_graph_input(const Graph& graph, ValueId value) {
  return std::ranges::find(graph.inputs, value) != graph.inputs.end();
}

}  // namespace

std::optional<KeepMask> keep_mask_of(const Graph& graph, ValueId value) {
  bool inverted = false;         // so far: true where the input is padding
  std::optional<int64_t> token;  // the only number that is kept
  constexpr int kMostNodes = 16;
  for (int steps = 0; steps < kMostNodes; ++steps) {
    if (is_graph_input(graph, value)) {
      if (rank_of(graph, value) != 2) return std::nullopt;
      if (token && is_ids(graph, value)) return std::nullopt;
      if (token) return KeepMask{{value, *token == 0 ? 1 : 0}, false};
      if (inverted && dtype_of(graph, value) != DType::kBool) return std::nullopt;
      return KeepMask{{value, inverted ? 1 : 0}};
    }
    const Node* n = graph.producer(value);
    if (n == nullptr) return std::nullopt;
    ValueId next = n->inputs[0];
    switch (n->op) {
      case kReshape:
      case kSqueeze:
      case kUnsqueeze:
      case kIdentity:
        break;
      case kCast: {
        const DType from = dtype_of(graph, n->inputs[0]), to = dtype_of(graph, value);
        const bool keeps_zero = (to == DType::kBool && !token) ||
                                (!is_float(from) && !is_small_float(to) &&
                                 (is_float(to) || element_bits(to) >= element_bits(from)));
        if (!keeps_zero) return std::nullopt;  // some number becomes 0, or 0 a number
        break;
      }
      case kNot:
        inverted = !inverted;
        break;
      case kEqual: {
        // Not(Equal(ids, c)): the ids c are padding. Equal(mask, c): the others are.
        std::optional<double> c;
        for (size_t i : {size_t{0}, size_t{1}}) {
          if (c) break;
          c = uniform(graph, n->inputs[i]);
          next = n->inputs[1 - i];
        }
        if (token || !c || !(std::abs(*c) <= kLargestPadding) || *c != std::trunc(*c))
          return std::nullopt;
        const auto number = static_cast<int64_t>(*c);
        if (inverted) {
          if (!is_graph_input(graph, next) || rank_of(graph, next) != 2) return std::nullopt;
          return KeepMask{{next, number}};
        }
        token = number;
        break;
      }
      default:
        return std::nullopt;
    }
    value = next;
  }
  return std::nullopt;
}

std::optional<TokenMask> token_mask_of(const Graph& graph, ValueId value) {
  const std::optional<KeepMask> keep = keep_mask_of(graph, value);
  return keep ? std::optional(keep->mask) : std::nullopt;
}

std::vector<TokenMask> token_masks(const Graph& graph) {
  std::set<TokenMask> masks;
  std::set<ValueId> biases;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != kAttention) continue;
    if (!node.has_input(AttentionAttrs::kKeep)) {
      const bool fresh = node.has_input(AttentionAttrs::kBias) &&
                         biases.insert(node.inputs[AttentionAttrs::kBias]).second;
      if (const auto hides =
              fresh ? hiding_bias(graph, node.inputs[AttentionAttrs::kBias]) : std::nullopt)
        masks.insert(hides->of_mask.mask);
      continue;
    }
    if (const auto mask = token_mask_of(graph, node.inputs[AttentionAttrs::kKeep]))
      if (is_token_mask(dtype_of(graph, mask->input))) masks.insert(*mask);
  }
  return {masks.begin(), masks.end()};
}

}  // namespace vernier::passes
