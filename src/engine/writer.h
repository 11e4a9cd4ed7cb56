// Writing engine files. Contract: docs/engine_format.md. The same plan gives the same bytes.
#pragma once
#include <filesystem>
#include <functional>
#include <vector>

#include "core/limits.h"
#include "engine/codec.h"
#include "plan/plan.h"

namespace vernier::engine {

/// The file in memory (weights included), with records where some are given. Throws Error(kInput)
/// when the certificate is not of this engine.
std::vector<std::byte> engine_bytes(const plan::Plan& plan, const Records& records = {});

/// Writes the engine to `path`, whole or not at all (core/whole_file.h). Weights are streamed, not
/// gathered in memory. Throws Error(kMachine) naming path and bytes needed when it cannot be
/// written, and then leaves what was at `path`; Error(kInput) when `path` is there and not a
/// regular file. `watch` is asked between pieces of the weights. `records_of` is called with the
/// name of the file, complete but for the records that it returns, before it has its own name. The
/// plan is not read any more then.
using RecordsOf = std::function<Records(const std::filesystem::path& written)>;
void write_engine(const std::filesystem::path& path, const plan::Plan& plan,
                  const Watch& watch = Watch(), const RecordsOf& records_of = {});

/// Writes the engine at `path` again, whole or not at all, with this certificate in the place of
/// the one it may have had. Nothing else of the file changes (but records of another version, which
/// are left out), nor its content hash; sessions on the
/// old file go on. Throws Error(kInput) when the file cannot be opened as an engine, its weights
/// are corrupt, or the certificate is not of this engine; Error(kMachine) as write_engine().
void stamp_certificate(const std::filesystem::path& path, const Certificate& certificate,
                       const Watch& watch = Watch());

}  // namespace vernier::engine
