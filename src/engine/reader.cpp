// Opening engine files: see reader.h.
#include "engine/reader.h"

#include <cstring>

#include "core/hash.h"
#include "core/mapped_file.h"
#include "engine/codec.h"
#include "engine/format.h"
#include "engine/validate.h"

namespace vernier::engine {
namespace {

// Bytes of a whole file and whoever keeps them valid.
struct SharedBytes {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
  std::shared_ptr<const MappedFile> file = {};
};

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInput, what); }

std::span<const std::byte> section_bytes(std::span<const std::byte> bytes, const Header& header,
                                         SectionKind kind) {
  return bytes.subspan(header.at(kind).offset, header.at(kind).size);
}

std::span<const std::byte> checked_section(std::span<const std::byte> bytes, const Header& header,
                                           SectionKind kind) {
  const auto section = section_bytes(bytes, header, kind);
  if (checksum(section) != header.at(kind).checksum) {
    fail("its " + name(kind) + " section at offset " + std::to_string(header.at(kind).offset) +
         " (" + std::to_string(section.size()) +
         " bytes) is corrupt; copy the file again or rebuild it");
  }
  return section;
}

std::vector<uint64_t> words(std::span<const std::byte> bytes) {
  std::vector<uint64_t> out(bytes.size() / 8);
  for (size_t i = 0; i < bytes.size(); ++i)
    out[i / 8] |= static_cast<uint64_t>(bytes[i]) << (8 * (i % 8));
  return out;
}

// decode(), with the section in front of its error.
template <class Decode>
auto decoded(SectionKind kind, const Header& header, Decode decode) {
  try {
    return decode();
  } catch (const Error& error) {
    fail("its " + name(kind) + " section at offset " + std::to_string(header.at(kind).offset) +
         " cannot be decoded: " + error.what() + "; rebuild it with this version of Vernier");
  }
}

Tensor blob_tensor(const plan::Blob& blob, uint64_t size, const std::shared_ptr<const void>& owner,
                   const std::byte* data) {
  if (!blob.layout.empty()) return {DType::kU8, {static_cast<int64_t>(size)}, owner, data};
  const size_t width = size_bytes(blob.dtype);
  const auto elems = static_cast<uint64_t>(num_elems(blob.shape));
  if (width == 0 || size % width != 0 || size / width != elems) {
    fail(std::to_string(size) + " bytes for an array " + std::string(name(blob.dtype)) +
         str(blob.shape));
  }
  return {blob.dtype, blob.shape, owner, data};
}

// Blobs lie one after the other, each from the next multiple of kBlobAlignment.
void attach_blobs(DecodedPlan& decoded, const std::shared_ptr<const void>& owner,
                  std::span<const std::byte> weights) {
  uint64_t offset = 0;
  for (size_t b = 0; b < decoded.plan.blobs.size(); ++b) {
    plan::Blob& blob = decoded.plan.blobs[b];
    const uint64_t size = decoded.blob_bytes[b];
    if (size > weights.size() - offset) {
      fail("blob " + std::to_string(b) + " of " + std::to_string(size) + " bytes ends after the " +
           std::to_string(weights.size()) + " bytes of weights");
    }
    try {
      blob.bytes = blob_tensor(blob, size, owner, weights.data() + offset);
    } catch (const Error& error) {
      fail("blob " + std::to_string(b) + ": " + error.what());
    }
    offset += align_up(size, kBlobAlignment);
  }
  if (offset != weights.size()) {
    fail(std::to_string(weights.size() - offset) + " bytes of weights belong to no blob");
  }
}

std::shared_ptr<EngineFile> read(const SharedBytes& shared) {
  const std::span<const std::byte> bytes = shared.bytes;
  const Header header = read_header(bytes);
  const auto plan_section = checked_section(bytes, header, SectionKind::kPlan);
  const auto ledger_section = checked_section(bytes, header, SectionKind::kLedger);
  const auto checksums = checked_section(bytes, header, SectionKind::kWeightChecksums);
  const auto records = checked_section(bytes, header, SectionKind::kRecords);
  auto file = std::make_shared<EngineFile>();
  file->format_version = kFormatVersion;
  file->file_bytes = header.file_bytes;
  file->content_hash = hex(header.content_hash);
  file->weights = section_bytes(bytes, header, SectionKind::kWeights);
  file->weights_offset = header.at(SectionKind::kWeights).offset;
  file->weight_checksums = words(checksums);
  if (content_hash({plan_section, ledger_section, file->weight_checksums, file->weights.size(),
                    records}) != header.content_hash) {
    fail("its content does not have the hash in its header; copy the file again or rebuild it");
  }
  decoded(SectionKind::kPlan, header, [&] {
    DecodedPlan plan = decode_plan(plan_section);
    attach_blobs(plan, shared.owner, file->weights);
    file->plan = std::move(plan.plan);
  });
  file->plan.ledger =
      decoded(SectionKind::kLedger, header, [&] { return decode_ledger(ledger_section); });
  decoded(SectionKind::kPlan, header, [&] { check_plan(file->plan); });
  if (!records.empty()) {
    decoded(SectionKind::kRecords, header, [&] {
      const std::optional<Records> found = decode_records(records);
      file->outdated_records = !found;
      if (!found) return;
      check_records(*found, file->content_hash);
      file->records = *found;
    });
  }
  return file;
}

std::shared_ptr<const EngineFile> read_named(const SharedBytes& shared, const std::string& name) {
  try {
    auto file = read(shared);
    file->name = name;
    file->file = shared.file;
    return file;
  } catch (const Error& error) {
    throw Error(error.code(), name + ": " + error.what());
  }
}

// "blob 3 ('encoder.weight')": the first value or step that uses it gives the name.
std::string blob_text(const plan::Plan& plan, size_t blob) {
  const auto index = static_cast<int32_t>(blob);
  std::string used_by;
  for (const plan::PlanValue& value : plan.values)
    if (value.constant == index && used_by.empty()) used_by = value.name;
  for (const plan::Step& step : plan.steps)
    for (const plan::PackedInput& packed : step.packed)
      if (packed.blob == index && used_by.empty()) used_by = step.name;
  return "blob " + std::to_string(blob) + (used_by.empty() ? "" : " ('" + used_by + "')");
}

// The blobs with bytes in [begin, end) of the weights.
std::string blobs_between(const EngineFile& file, uint64_t begin, uint64_t end) {
  std::string text;
  for (size_t b = 0; b < file.plan.blobs.size(); ++b) {
    const Tensor& bytes = file.plan.blobs[b].bytes;
    const auto at = static_cast<uint64_t>(bytes.data() - file.weights.data());
    if (at >= end || at + bytes.bytes() <= begin) continue;
    text += (text.empty() ? "" : ", ") + blob_text(file.plan, b);
  }
  return text.empty() ? "padding" : text;
}

}  // namespace

std::shared_ptr<const EngineFile> read_engine(const std::filesystem::path& path, FileAccess access,
                                              const Watch& watch) {
  const auto file = MappedFile::open(path, access, watch);
  return read_named({file, file->bytes(), file}, "engine '" + path.string() + "'");
}

std::shared_ptr<const EngineFile> read_engine_bytes(std::vector<std::byte> bytes) {
  const Tensor aligned =
      Tensor::from_bytes(DType::kU8, {static_cast<int64_t>(bytes.size())}, bytes);
  bytes = {};
  return read_named({std::make_shared<Tensor>(aligned), aligned.byte_span()}, "engine in memory");
}

void check_weights(const EngineFile& file) {
  for (size_t chunk = 0; chunk < file.weight_checksums.size(); ++chunk) {
    const uint64_t begin = chunk * kChunkBytes;
    const uint64_t size = std::min<uint64_t>(kChunkBytes, file.weights.size() - begin);
    if (checksum(file.weights.subspan(begin, size)) == file.weight_checksums[chunk]) continue;
    const uint64_t offset = file.weights_offset + begin;
    fail(file.name + ": its weights are corrupt between offsets " + std::to_string(offset) +
         " and " + std::to_string(offset + size) + ": " + blobs_between(file, begin, begin + size) +
         "; copy the file again or rebuild it");
  }
}

}  // namespace vernier::engine
