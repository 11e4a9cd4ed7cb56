// Precision policies as files: JSON, one format version. Contract: docs/precision.md ("Files").
#pragma once
#include <string>
#include <string_view>

#include "precision/policy.h"

namespace vernier::precision {

/// The policy as JSON text; the same policy always gives the same bytes, which load_policy reads
/// back. Throws Error(kInput) if a rule's text is not UTF-8.
std::string save_policy(const Policy& policy);

/// Reads what save_policy wrote or a user did. `file` is for messages. Throws Error(kInput) with
/// the file, the place in it and what was expected.
Policy load_policy(std::string_view json, const std::string& file);

}  // namespace vernier::precision
