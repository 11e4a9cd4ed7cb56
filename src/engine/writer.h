// Writing engine files. Contract: docs/engine_format.md. The same plan gives the same bytes.
#pragma once
#include <filesystem>
#include <optional>
#include <vector>

#include "core/limits.h"
#include "plan/plan.h"
#include "vernier/certificate.h"

namespace vernier::engine {

/// The file in memory (weights included), with a certificate where one is given. Throws
/// Error(kInput) when the certificate is not of this engine.
std::vector<std::byte> engine_bytes(const plan::Plan& plan,
                                    const std::optional<Certificate>& certificate = std::nullopt);

/// Writes the engine to `path`, whole or not at all (core/whole_file.h). Weights are streamed, not
/// gathered in memory. Throws Error(kMachine) naming path and bytes needed when it cannot be
/// written, and then leaves what was at `path`; Error(kInput) when `path` is there and not a
/// regular file. `watch` is asked between pieces of the weights.
void write_engine(const std::filesystem::path& path, const plan::Plan& plan,
                  const Watch& watch = Watch());

/// Writes the engine at `path` again, whole or not at all, with this certificate in the place of
/// the one it may have had. Nothing else of the file changes, nor its content hash; sessions on the
/// old file go on. Throws Error(kInput) when the file cannot be opened as an engine, its weights
/// are corrupt, or the certificate is not of this engine; Error(kMachine) as write_engine().
void stamp_certificate(const std::filesystem::path& path, const Certificate& certificate,
                       const Watch& watch = Watch());

}  // namespace vernier::engine
