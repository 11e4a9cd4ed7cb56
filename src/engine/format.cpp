// Header and checksums of engine files: see format.h.
#include "engine/format.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/hash.h"

namespace vernier::engine {
namespace {

constexpr size_t kVersionAt = 8, kCountAt = 12, kFileBytesAt = 16, kHashAt = 24, kTableAt = 40;
constexpr size_t kEntryBytes = 32;
constexpr size_t kHeaderChecksumAt = kTableAt + kSections * kEntryBytes;

template <class T>
void put(std::span<std::byte> bytes, size_t at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    bytes[at + i] = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i));
}
template <class T>
T get(std::span<const std::byte> bytes, size_t at) {
  uint64_t bits = 0;
  for (size_t i = 0; i < sizeof(T); ++i) bits |= static_cast<uint64_t>(bytes[at + i]) << (8 * i);
  return static_cast<T>(bits);
}

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInput, what); }
[[noreturn]] void fail_truncated(uint64_t got, uint64_t expected) {
  fail("it is truncated: it has " + std::to_string(got) + " of " + std::to_string(expected) +
       " bytes; copy it again or rebuild it");
}
[[noreturn]] void fail_header(const std::string& what) {
  fail("its header is corrupt (" + what + "); copy the file again or rebuild it");
}

std::vector<std::byte> checksum_bytes(std::span<const uint64_t> checksums) {
  std::vector<std::byte> bytes(checksums.size() * 8);
  for (size_t i = 0; i < checksums.size(); ++i) put(bytes, i * 8, checksums[i]);
  return bytes;
}

void encode_header(const Header& header, std::span<std::byte> bytes) {
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  put(bytes, kVersionAt, kFormatVersion);
  put(bytes, kCountAt, static_cast<uint32_t>(kSections));
  put(bytes, kFileBytesAt, header.file_bytes);
  std::ranges::copy(header.content_hash, bytes.begin() + kHashAt);
  for (size_t i = 0; i < kSections; ++i) {
    const size_t at = kTableAt + i * kEntryBytes;
    put(bytes, at, static_cast<uint64_t>(i + 1));  // kind, 32 bits, and 32 bits of zero
    put(bytes, at + 8, header.sections[i].offset);
    put(bytes, at + 16, header.sections[i].size);
    put(bytes, at + 24, header.sections[i].checksum);
  }
  put(bytes, kHeaderChecksumAt, checksum(bytes.first(kHeaderChecksumAt)));
}

// Sections follow one another; only the weights are aligned.
uint64_t expected_offset(SectionKind kind, uint64_t end_of_previous) {
  return kind == SectionKind::kWeights ? align_up(end_of_previous, kBlobAlignment)
                                       : end_of_previous;
}

void check_magic_and_version(std::span<const std::byte> bytes) {
  if (bytes.empty()) fail("it is empty; rebuild it");
  const size_t known = std::min(bytes.size(), kMagic.size());
  if (std::memcmp(bytes.data(), kMagic.data(), known) != 0) {
    fail(
        "it is not an engine (it does not begin with \"VERNIER\"); make one with "
        "'vernier build MODEL.onnx -o ENGINE.vn'");
  }
  if (bytes.size() < kVersionAt + 4) fail_truncated(bytes.size(), kHeaderBytes);
  const auto version = get<uint32_t>(bytes, kVersionAt);
  if (version > kFormatVersion) {
    fail("it has format version " + std::to_string(version) + ", this program reads " +
         std::to_string(kFormatVersion) + "; update Vernier or rebuild the engine with this one");
  }
  if (version == 0) fail_header("format version 0");
  if (version < kFormatVersion) {
    fail("it has format version " + std::to_string(version) + ", this program reads " +
         std::to_string(kFormatVersion) + "; build it again from its model");
  }
  if (bytes.size() < kHeaderBytes) fail_truncated(bytes.size(), kHeaderBytes);
}

void check_layout(const Header& header, std::span<const std::byte> bytes) {
  uint64_t end = kHeaderBytes;
  for (size_t i = 0; i < kSections; ++i) {
    const auto kind = static_cast<SectionKind>(i + 1);
    const Section& section = header.sections[i];
    if (section.offset != expected_offset(kind, end) || section.offset > header.file_bytes ||
        section.size > header.file_bytes - section.offset) {
      fail_header("section " + name(kind) + " at " + std::to_string(section.offset) + " of " +
                  std::to_string(section.size) + " bytes");
    }
    for (; end < section.offset; ++end) {
      if (bytes[end] != std::byte{0}) {
        fail("it is corrupt at offset " + std::to_string(end) +
             " (padding is not zero); copy the file again or rebuild it");
      }
    }
    end = section.offset + section.size;
  }
  if (end != header.file_bytes) fail_header(std::to_string(end) + " bytes of sections");
  const uint64_t weight_bytes = header.at(SectionKind::kWeights).size;
  if (weight_bytes % kBlobAlignment != 0 ||
      header.at(SectionKind::kWeightChecksums).size != num_chunks(weight_bytes) * 8) {
    fail_header("checksums do not fit " + std::to_string(weight_bytes) + " bytes of weights");
  }
}

}  // namespace

std::string name(SectionKind kind) {
  switch (kind) {
    case SectionKind::kPlan:
      return "plan";
    case SectionKind::kLedger:
      return "ledger";
    case SectionKind::kWeightChecksums:
      return "weight checksums";
    case SectionKind::kWeights:
      return "weights";
    case SectionKind::kRecords:
      return "records";
  }
  return "?";
}

uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}
uint64_t num_chunks(uint64_t weight_bytes) {
  return (weight_bytes + kChunkBytes - 1) / kChunkBytes;
}

std::array<std::byte, 16> content_hash(const Contents& contents) {
  const std::vector<std::byte> checksums = checksum_bytes(contents.weight_checksums);
  std::vector<std::byte> sizes(4 * 8);
  put(sizes, 0, contents.plan.size());
  put(sizes, 8, contents.ledger.size());
  put(sizes, 16, checksums.size());
  put(sizes, 24, contents.weight_bytes);
  Hash128 hash;
  for (std::span<const std::byte> part : {std::span<const std::byte>(sizes), contents.plan,
                                          contents.ledger, std::span<const std::byte>(checksums)}) {
    hash.add(part);
  }
  return hash.digest();
}

std::vector<std::byte> file_head(const Contents& contents) {
  VERNIER_ASSERT(contents.weight_bytes % kBlobAlignment == 0);
  VERNIER_ASSERT(contents.weight_checksums.size() == num_chunks(contents.weight_bytes));
  const std::vector<std::byte> checksums = checksum_bytes(contents.weight_checksums);
  const std::array<std::span<const std::byte>, kSections> parts{
      contents.plan, contents.ledger, checksums, {}, contents.records};
  Header header;
  header.content_hash = content_hash(contents);
  uint64_t end = kHeaderBytes;
  for (size_t i = 0; i < kSections; ++i) {
    const auto kind = static_cast<SectionKind>(i + 1);
    Section& section = header.sections[i];
    section.offset = expected_offset(kind, end);
    const bool weights = kind == SectionKind::kWeights;
    section.size = weights ? contents.weight_bytes : parts[i].size();
    section.checksum = weights ? 0 : checksum(parts[i]);
    end = section.offset + section.size;
  }
  header.file_bytes = end;
  std::vector<std::byte> head(header.at(SectionKind::kWeights).offset);
  encode_header(header, head);
  for (size_t i = 0; i < static_cast<size_t>(SectionKind::kWeights) - 1; ++i)
    std::ranges::copy(parts[i],
                      head.begin() + static_cast<std::ptrdiff_t>(header.sections[i].offset));
  return head;
}

Header read_header(std::span<const std::byte> bytes) {
  check_magic_and_version(bytes);
  if (get<uint64_t>(bytes, kHeaderChecksumAt) != checksum(bytes.first(kHeaderChecksumAt)))
    fail_header("its checksum is wrong");
  Header header;
  header.file_bytes = get<uint64_t>(bytes, kFileBytesAt);
  if (bytes.size() < header.file_bytes) fail_truncated(bytes.size(), header.file_bytes);
  if (bytes.size() > header.file_bytes) {
    fail("it has " + std::to_string(bytes.size() - header.file_bytes) +
         " bytes too many; copy the file again or rebuild it");
  }
  if (get<uint32_t>(bytes, kCountAt) != kSections) fail_header("wrong number of sections");
  std::ranges::copy(bytes.subspan(kHashAt, header.content_hash.size()),
                    header.content_hash.begin());
  for (size_t i = 0; i < kSections; ++i) {
    const size_t at = kTableAt + i * kEntryBytes;
    if (get<uint64_t>(bytes, at) != i + 1) fail_header("unknown section");
    header.sections[i] = {get<uint64_t>(bytes, at + 8), get<uint64_t>(bytes, at + 16),
                          get<uint64_t>(bytes, at + 24)};
  }
  check_layout(header, bytes);
  return header;
}

ChunkChecksums::ChunkChecksums() : state_(XXH3_createState()) { XXH3_64bits_reset(state_); }
ChunkChecksums::~ChunkChecksums() { XXH3_freeState(state_); }

void ChunkChecksums::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min<uint64_t>(bytes.size(), kChunkBytes - filled_));
    XXH3_64bits_update(state_, part.data(), part.size());
    filled_ += part.size();
    bytes = bytes.subspan(part.size());
    if (filled_ == kChunkBytes) {
      checksums_.push_back(XXH3_64bits_digest(state_));
      XXH3_64bits_reset(state_);
      filled_ = 0;
    }
  }
}
std::vector<uint64_t> ChunkChecksums::finish() {
  if (filled_ > 0) checksums_.push_back(XXH3_64bits_digest(state_));
  return std::move(checksums_);
}

}  // namespace vernier::engine
