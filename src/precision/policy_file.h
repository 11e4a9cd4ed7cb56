// Precision policies as files: JSON, one format version. Contract: docs/precision.md ("Files").
#pragma once
#include <string>
#include <string_view>

#include "precision/policy.h"

namespace vernier::precision {

/// The policy as JSON text, which load_policy reads back; equal policies give equal bytes. Throws
/// Error(kInput) if a rule's text is not UTF-8.
std::string save_policy(const Policy& policy);

/// Reads a policy file. `file` is for messages. Throws Error(kInput) with the file, the position
/// and what was expected.
Policy load_policy(std::string_view json, const std::string& file);

}  // namespace vernier::precision
