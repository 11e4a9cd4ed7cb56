// Where things lie in an engine file: header, sections, checksums. Contract: docs/engine_format.md.
// What the plan and ledger sections say is in codec.h.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

struct XXH3_state_s;  // of xxhash.h

namespace vernier::engine {

inline constexpr std::array<char, 8> kMagic{'V', 'E', 'R', 'N', 'I', 'E', 'R', '\0'};
inline constexpr uint32_t kFormatVersion = 16;
/// Of the section of records (certificate, canary), which begins with it. One of another version
/// does not count, and the engine is read all the same: version 1, which had no number, recorded
/// too little, version 2 had no canary.
inline constexpr uint32_t kRecordsVersion = 3;
/// A blob begins at a multiple of this, in the file and so in the mapping: one cache line, the
/// widest vector.
inline constexpr uint64_t kBlobAlignment = 64;
/// Weights carry one checksum for so many bytes.
inline constexpr uint64_t kChunkBytes = 64 * 1024;

/// In the order of the file.
enum class SectionKind : uint32_t {
  kPlan = 1,
  kLedger = 2,
  kWeightChecksums = 3,
  kWeights = 4,
  kRecords = 5,
};
inline constexpr size_t kSections = 5;
/// "plan", "ledger" …
std::string name(SectionKind kind);

struct Section {
  uint64_t offset = 0, size = 0;  ///< in bytes
  uint64_t checksum = 0;          ///< XXH3-64; 0 for the weights, which have a section of them
};

struct Header {
  uint64_t file_bytes = 0;
  std::array<std::byte, 16> content_hash{};
  std::array<Section, kSections> sections;

  const Section& at(SectionKind kind) const { return sections[static_cast<size_t>(kind) - 1]; }
};
/// magic, version, section count, file bytes, hash; five sections; checksum of all before it.
inline constexpr size_t kHeaderBytes = 40 + kSections * 32 + 8;

/// What the header is made from; `weight_bytes` is a multiple of kBlobAlignment.
struct Contents {
  std::span<const std::byte> plan, ledger;
  std::span<const uint64_t> weight_checksums;
  uint64_t weight_bytes = 0;
  std::span<const std::byte> records;
};
/// The file up to its weights: header, plan, ledger, weight checksums, padding. What follows is
/// weight_bytes of weights and the records.
std::vector<std::byte> file_head(const Contents& contents);
/// The inverse for the header. `bytes` is the whole file, of which the header and the padding are
/// read. Throws Error(kInput): no engine, truncated, of another format, or corrupt at which offset.
Header read_header(std::span<const std::byte> bytes);

/// XXH3-64.
uint64_t checksum(std::span<const std::byte> bytes);
/// XXH3-128 of the plan, ledger and weight checksum sections and the size of the weights: of all
/// of the file but the records, since the checksums stand for the weights.
std::array<std::byte, 16> content_hash(const Contents& contents);

constexpr uint64_t align_up(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Checksums of a stream of weights, one per kChunkBytes.
class ChunkChecksums {
 public:
  ChunkChecksums();
  ~ChunkChecksums();
  ChunkChecksums(const ChunkChecksums&) = delete;
  ChunkChecksums& operator=(const ChunkChecksums&) = delete;
  void add(std::span<const std::byte> bytes);
  /// Ends the stream.
  std::vector<uint64_t> finish();

 private:
  XXH3_state_s* state_;
  uint64_t filled_ = 0;  // bytes of the open chunk
  std::vector<uint64_t> checksums_;
};
uint64_t num_chunks(uint64_t weight_bytes);

}  // namespace vernier::engine
