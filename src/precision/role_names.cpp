// Names of roles: see roles.h.
#include <array>

#include "precision/roles.h"

namespace vernier::precision {
namespace {

constexpr std::array kRoles{Role::kAttention,
                            Role::kAttentionScores,
                            Role::kAttentionSoftmax,
                            Role::kAttentionContext,
                            Role::kFfnUp,
                            Role::kFfnDown,
                            Role::kResidual,
                            Role::kEmbedding,
                            Role::kNorm,
                            Role::kHead};
constexpr std::string_view kRoleNames[] = {"attention",
                                           "attention.scores",
                                           "attention.softmax",
                                           "attention.context",
                                           "ffn.up",
                                           "ffn.down",
                                           "residual",
                                           "embedding",
                                           "norm",
                                           "head"};
static_assert(std::size(kRoleNames) == kRoles.size());

}  // namespace

std::string_view name(Role role) { return kRoleNames[static_cast<size_t>(role)]; }

std::optional<Role> parse_role(std::string_view text) {
  for (Role role : kRoles) {
    if (name(role) == text) return role;
  }
  return std::nullopt;
}

std::span<const Role> all_roles() { return kRoles; }

}  // namespace vernier::precision
