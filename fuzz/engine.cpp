// Fuzz target: engine files. Wrong bytes are an Error(kInput); what opens can be written again and
// is the same. Contract: docs/engine_format.md.
// Input: an engine file; or, so that checksums do not stop the fuzzer before the decoder, u32 plan
// bytes, u32 weight bytes, the plan section, the ledger section.
#include <algorithm>
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

void check_file(const Bytes& bytes) {
  const auto file = open(bytes);
  if (file) open(vernier::engine::engine_bytes(file->plan));
}

void check_sections(std::span<const std::byte> input) {
  uint32_t plan_bytes = 0, weight_bytes = 0;
  if (input.size() < 8) return;
  std::memcpy(&plan_bytes, input.data(), 4);
  std::memcpy(&weight_bytes, input.data() + 4, 4);
  input = input.subspan(8);
  const auto plan = input.first(std::min<size_t>(plan_bytes, input.size()));
  const auto ledger = input.subspan(plan.size());
  const Sections sections{Bytes(plan.begin(), plan.end()),
                          Bytes(ledger.begin(), ledger.end()),
                          Bytes(std::min<size_t>(weight_bytes, 1 << 16)),
                          {}};
  const Bytes bytes = assemble(sections);
  const auto file = open(bytes);
  if (!file) return;
  check_weights(*file);
  require(vernier::engine::encode_plan(file->plan) == sections.plan);
  require(vernier::engine::encode_ledger(file->plan) == sections.ledger);
  require(vernier::engine::engine_bytes(file->plan) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  check_file(Bytes(input.begin(), input.end()));
  check_sections(input);
  return 0;
}
