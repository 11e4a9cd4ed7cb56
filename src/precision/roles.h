// The roles and the block of each node of a raised graph. Table: docs/precision.md. Roles depend on
// structure, never on names: positions relative to raised composites and residual sums.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace vernier::precision {

enum class Role : uint8_t {
  kAttention,         ///< any part of a raised Attention
  kAttentionScores,   ///< its product of q and k, scale, masks and bias
  kAttentionSoftmax,  ///< its softmax
  kAttentionContext,  ///< its product of probabilities and v
  kFfnUp,             ///< Linear layers that begin a feed-forward branch, including its gate
  kFfnDown,           ///< the Linear layer that ends it
  kResidual,          ///< Add of a branch to the value that the branch was computed from
  kEmbedding,         ///< what computes the first block's input: lookups, patches, positions, sums
  kNorm,              ///< LayerNorm, RMSNorm, GroupNormalization
  kHead,              ///< what follows the last block, norms excepted
};

/// The name in `role:`, such as "attention.softmax".
std::string_view name(Role role);
/// Inverse of name(); empty when unknown.
std::optional<Role> parse_role(std::string_view text);
/// Every role.
std::span<const Role> all_roles();

/// A set of roles, one bit each.
using Roles = uint32_t;
constexpr Roles bit(Role role) { return Roles{1} << static_cast<unsigned>(role); }

/// Roles and blocks by NodeId (removed nodes: none).
struct Structure {
  std::vector<Roles> roles;  ///< of the node as a whole; an Attention's parts: roles_of()
  std::vector<int> block;    ///< analysis::Layers::of
  int num_blocks = 0;
};
/// Reads the structure of a raised graph.
Structure structure_of(const ir::Graph& raised);

/// Roles of one origin on one node: those of the node or, on an Attention, of the origin's part.
Roles roles_of(const Structure& structure, const ir::Graph& graph, ir::NodeId node,
               const ir::Origin& origin);
/// True if the node's origins are not parts: one ONNX node that is a whole composite.
bool is_whole(const ir::Node& node);

}  // namespace vernier::precision
