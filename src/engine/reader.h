// Opening engine files. Contract: docs/engine_format.md. The file is mapped; opening reads and
// hashes its header, plan, ledger and list of weight checksums, never the weights.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/mapped_file.h"
#include "engine/codec.h"
#include "plan/plan.h"

namespace vernier::engine {

/// An opened engine. Blob::bytes point into the mapping (or the bytes given), 64-byte aligned, and
/// keep it alive.
struct EngineFile {
  plan::Plan plan;
  std::string content_hash;  ///< in hex; of everything but the records
  uint32_t format_version = 0;
  uint64_t file_bytes = 0;
  Records records;                ///< of this engine
  bool outdated_records = false;  ///< it has some of another version, which do not count

  // What check_weights() needs.
  std::string name;                        ///< for messages: "engine 'path'"
  std::span<const std::byte> weights;      ///< the whole section, in the mapping
  uint64_t weights_offset = 0;             ///< in the file
  std::vector<uint64_t> weight_checksums;  ///< by chunk

  std::shared_ptr<const MappedFile> file;  ///< null: from bytes in memory
};

/// Throws Error(kInput) "engine 'path': …" when the file is not an engine, truncated, corrupt
/// (naming section and offset), of another format, holds a plan that breaks its rules, or a
/// certificate of another engine, each with what to do; "cannot read 'path': …" when there is no
/// such file, with Error(kMachine) when it cannot be opened or mapped. `access`, `watch`: as
/// MappedFile::open() has them.
std::shared_ptr<const EngineFile> read_engine(const std::filesystem::path& path,
                                              FileAccess access = FileAccess::kMapped,
                                              const Watch& watch = {});
/// As read_engine(), from bytes in memory; messages say "engine in memory".
std::shared_ptr<const EngineFile> read_engine_bytes(std::vector<std::byte> bytes);

/// Reads all weights. Throws Error(kInput) naming the first bad 64 KiB by its offset in the file
/// and the blobs in it.
void check_weights(const EngineFile& file);

}  // namespace vernier::engine
