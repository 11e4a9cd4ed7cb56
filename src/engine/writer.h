// Writing engine files. Contract: docs/engine_format.md. The same plan gives the same bytes.
#pragma once
#include <filesystem>
#include <vector>

#include "plan/plan.h"

namespace vernier::engine {

/// The file in memory (weights included).
std::vector<std::byte> engine_bytes(const plan::Plan& plan);

/// Writes the engine to `path`, whole or not at all: into a file beside it, which is synced and
/// then renamed. Weights are streamed, not gathered in memory. Throws Error(kMachine) naming path
/// and bytes needed when it cannot be written, and then leaves what was at `path`; Error(kInput)
/// when `path` is there and not a regular file.
void write_engine(const std::filesystem::path& path, const plan::Plan& plan);

}  // namespace vernier::engine
