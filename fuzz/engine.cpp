// Fuzz target: engine files. Wrong bytes are an Error(kInput); an engine that opens is written
// again as the same bytes. Contract: docs/engine_format.md. Input: an engine file; or, so that
// checksums do not stop the fuzzer before the decoder, u32 plan bytes, u32 ledger bytes, u32 weight
// bytes, the plan section, the ledger section, the certificate section (whose engine hash is
// corrected).
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "engine/assemble.h"
#include "engine/codec.h"
#include "engine/reader.h"
#include "engine/writer.h"

namespace {

using vernier::engine::Sections;
using Bytes = std::vector<std::byte>;

void require(bool holds) {
  if (!holds) std::abort();
}

std::shared_ptr<const vernier::engine::EngineFile> open(Bytes bytes) {
  try {
    return vernier::engine::read_engine_bytes(std::move(bytes));
  } catch (const vernier::Error& error) {
    require(error.code() == vernier::ErrorCode::kInput);
    return nullptr;
  }
}

// Reads all weights; false if they do not match their checksums.
bool weights_are_whole(const vernier::engine::EngineFile& file) {
  try {
    check_weights(file);
    return true;
  } catch (const vernier::Error& error) {
    require(error.code() == vernier::ErrorCode::kInput);
    return false;
  }
}

void check_file(const Bytes& bytes) {
  const auto file = open(bytes);
  if (!file || !weights_are_whole(*file) || file->outdated_records) return;
  require(vernier::engine::engine_bytes(file->plan, file->records) == bytes);
}

// The section of records with the hash of this engine, if it can be decoded.
Bytes made_to_fit(const Bytes& section, const std::string& content_hash) {
  try {
    auto records = vernier::engine::decode_records(section);
    if (!records || records->empty()) return section;
    if (records->certificate) records->certificate->engine_hash = content_hash;
    return vernier::engine::encode_records(*records);
  } catch (const vernier::Error& error) {
    require(error.code() == vernier::ErrorCode::kInput);
    return section;
  }
}

void check_sections(std::span<const std::byte> input) {
  std::array<uint32_t, 3> sizes{};
  if (input.size() < sizeof sizes) return;
  std::memcpy(sizes.data(), input.data(), sizeof sizes);
  input = input.subspan(sizeof sizes);
  const auto take = [&input](size_t size) {
    const auto part = input.first(std::min(size, input.size()));
    input = input.subspan(part.size());
    return Bytes(part.begin(), part.end());
  };
  Sections sections;
  sections.plan = take(sizes[0]);
  sections.ledger = take(sizes[1]);
  sections.weights.resize(std::min<size_t>(sizes[2], 1 << 16));
  const auto plain = open(assemble(sections));
  if (!plain) return;
  require(weights_are_whole(*plain));
  require(vernier::engine::encode_plan(plain->plan) == sections.plan);
  require(vernier::engine::encode_ledger(plain->plan) == sections.ledger);
  sections.certificate = made_to_fit(take(input.size()), plain->content_hash);
  const Bytes bytes = assemble(sections);
  const auto file = open(bytes);
  if (!file || file->outdated_records) return;
  require(file->content_hash == plain->content_hash);
  require(vernier::engine::engine_bytes(file->plan, file->records) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  check_file(Bytes(input.begin(), input.end()));
  check_sections(input);
  return 0;
}
