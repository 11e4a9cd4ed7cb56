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

std::optional<TokenMask> token_mask_of(const Graph& graph, ValueId value) {
  bool inverted = false;  // so far: true where the input is padding
  constexpr int kMostNodes = 16;
  for (int steps = 0; steps < kMostNodes; ++steps) {
    if (is_graph_input(graph, value)) {
      if (rank_of(graph, value) != 2) return std::nullopt;
      if (inverted && dtype_of(graph, value) != DType::kBool) return std::nullopt;
      return TokenMask{value, inverted ? 1 : 0};
    }
    const Node* n = graph.producer(value);
    if (n == nullptr) return std::nullopt;
    switch (n->op) {
      case kReshape:
      case kSqueeze:
      case kUnsqueeze:
      case kIdentity:
        break;
      case kCast: {
        const DType from = dtype_of(graph, n->inputs[0]), to = dtype_of(graph, value);
        const bool keeps_zero =
            to == DType::kBool ||
            (!is_float(from) && (is_float(to) || size_bytes(to) >= size_bytes(from)));
        if (!keeps_zero) return std::nullopt;  // some number becomes 0
        break;
      }
      case kNot:
        inverted = !inverted;
        break;
      case kEqual: {
        // Not(Equal(ids, c)): the ids c are padding.
        for (size_t i : {size_t{0}, size_t{1}}) {
          const auto c = uniform(graph, n->inputs[i]);
          const ValueId ids = n->inputs[1 - i];
          if (!c || !inverted || !is_graph_input(graph, ids) || rank_of(graph, ids) != 2) continue;
          if (!(std::abs(*c) <= kLargestPadding) || *c != std::trunc(*c)) continue;
          return TokenMask{ids, static_cast<int64_t>(*c)};
        }
        return std::nullopt;
      }
      default:
        return std::nullopt;
    }
    value = n->inputs[0];
  }
  return std::nullopt;
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
