// Engine files put together from sections, with right checksums around whatever the sections hold:
// how tests and the fuzz target get wrong bytes past the checksums. Contract:
// docs/engine_format.md.
#pragma once
#include "engine/format.h"

namespace vernier::engine {

struct Sections {
  std::vector<std::byte> plan, ledger, weights, certificate;
};

inline std::vector<std::byte> assemble(Sections sections) {
  sections.weights.resize(align_up(sections.weights.size(), kBlobAlignment));
  ChunkChecksums chunks;
  chunks.add(sections.weights);
  const std::vector<uint64_t> checksums = chunks.finish();
  std::vector<std::byte> bytes = file_head(
      {sections.plan, sections.ledger, checksums, sections.weights.size(), sections.certificate});
  for (const auto* part : {&sections.weights, &sections.certificate})
    bytes.insert(bytes.end(), part->begin(), part->end());
  return bytes;
}

}  // namespace vernier::engine
