// The precision lattice: see numerics.h.
#include "core/numerics.h"

namespace vernier {

bool represents(DType a, DType b) {
  if (a == b) return true;
  switch (a) {
    case DType::kF64:
      return is_float(b);
    case DType::kF32:
      return is_float(b) && b != DType::kF64;
    // tf32 has bf16's exponent and f16's mantissa.
    case DType::kTF32:
      return b == DType::kF16 || b == DType::kBF16 || b == DType::kF8E4M3 || b == DType::kF8E5M2;
    case DType::kF16:
    case DType::kBF16:
      return b == DType::kF8E4M3 || b == DType::kF8E5M2;
    default:
      return false;
  }
}

namespace {
std::string shortfall(const char* what, DType got, const TypeRequest& asked,
                      const std::string& by) {
  if (asked.type == DType::kUndefined) return "";
  if (asked.exact ? got == asked.type : represents(got, asked.type)) return "";
  return std::string(what) + " in " + std::string(name(got)) + ", asked for " +
         (asked.exact ? "exactly " : "at least ") + std::string(name(asked.type)) +
         (by.empty() ? "" : " (" + by + ")");
}
}  // namespace

Support satisfies(const Numerics& got, const Request& asked) {
  std::string reason = shortfall("computes", got.compute, asked.compute, asked.by);
  if (reason.empty()) reason = shortfall("accumulates", got.accumulate, asked.accumulate, asked.by);
  if (reason.empty()) reason = shortfall("stores", got.store, asked.store, asked.by);
  return reason.empty() ? yes() : no(reason);
}

}  // namespace vernier
