// Roles and blocks of a raised graph: see roles.h. The table of definitions: docs/precision.md.
#include "precision/roles.h"

#include <algorithm>

#include "analysis/layers.h"

namespace vernier::precision {
namespace {

Roles roles_at(const ir::Graph& graph, const analysis::Layers& layers, ir::NodeId id) {
  const auto at = static_cast<size_t>(id);
  const OpKind op = graph.node(id).op;
  const bool norm = analysis::is_norm(op);
  Roles roles = 0;
  if (op == OpKind::kAttention) roles |= bit(Role::kAttention);
  if (norm) roles |= bit(Role::kNorm);
  if (layers.is_residual(id)) roles |= bit(Role::kResidual);
  if (layers.ffn_up[at]) roles |= bit(Role::kFfnUp);
  if (layers.ffn_down[at]) roles |= bit(Role::kFfnDown);
  if (layers.before[at] && !norm) roles |= bit(Role::kEmbedding);
  if (layers.behind[at] && !norm) roles |= bit(Role::kHead);
  return roles;
}

Roles roles_of_part(std::string_view part) {
  if (part == "probs") return bit(Role::kAttentionSoftmax);
  if (part == "scores" || part == "q" || part == "k") return bit(Role::kAttentionScores);
  if (part == "context" || part == "v" || part == "out") return bit(Role::kAttentionContext);
  return 0;
}

}  // namespace

Structure structure_of(const ir::Graph& raised) {
  const analysis::Layers layers = analysis::layers_of(raised);
  Structure structure{std::vector<Roles>(raised.num_nodes()), layers.of, layers.count};
  for (ir::NodeId id : raised.order()) structure.roles[id] = roles_at(raised, layers, id);
  return structure;
}

bool is_whole(const ir::Node& node) {
  return std::all_of(node.origins.begin(), node.origins.end(),
                     [](const ir::Origin& o) { return o.part.empty(); });
}

Roles roles_of(const Structure& structure, const ir::Graph& graph, ir::NodeId node,
               const ir::Origin& origin) {
  const Roles roles = structure.roles[node];
  if (graph.node(node).op != OpKind::kAttention) return roles;
  if (!is_whole(graph.node(node))) return roles | roles_of_part(origin.part);
  return roles | bit(Role::kAttentionScores) | bit(Role::kAttentionSoftmax) |
         bit(Role::kAttentionContext);
}

}  // namespace vernier::precision
