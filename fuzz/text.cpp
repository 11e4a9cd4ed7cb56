// Fuzz target: the text form. Bad text is an Error(kInput); good text prints and parses to the same
// text. Contract: ir/text.h.
#include "ir/text.h"

#include <cstdlib>

#include "ops/infer.h"

namespace {

void check_round_trip(std::string_view text) {
  try {
    const std::string once = vernier::ir::print(*vernier::ir::parse(text));
    if (vernier::ir::print(*vernier::ir::parse(once)) != once) std::abort();
  } catch (const vernier::Error& error) {
    if (error.code() != vernier::ErrorCode::kInput) std::abort();
  }
}

void check_inferred(std::string_view text) {
  try {
    vernier::ir::parse(text, &vernier::ops::infer_node);
  } catch (const vernier::Error& error) {
    if (error.code() != vernier::ErrorCode::kInput) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_round_trip(text);
  check_inferred(text);
  return 0;
}
