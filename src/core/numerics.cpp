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

namespace {
// The stronger of two wishes for one part; `second_wins` says that it came from b.
TypeRequest stronger(const char* what, const TypeRequest& a, const TypeRequest& b,
                     const Request& first, const Request& second, bool& second_wins) {
  second_wins = false;
  if (b.type == DType::kUndefined) return a;
  if (a.type == DType::kUndefined) {
    second_wins = true;
    return b;
  }
  const auto fits = [](const TypeRequest& chosen, const TypeRequest& other) {
    return other.exact ? chosen.type == other.type : represents(chosen.type, other.type);
  };
  // An exact wish cannot be raised; a floor can.
  if (fits(a, b) && (a.exact || !b.exact)) return a;
  if (fits(b, a) && (b.exact || !a.exact)) {
    second_wins = true;
    return b;
  }
  if (!a.exact && !b.exact) return {DType::kF32, false};  // f16 and bf16: only f32 holds both
  throw Error(ErrorCode::kInput, std::string(what) + " type " + std::string(name(a.type)) + " (" +
                                     first.by + ") and " + std::string(name(b.type)) + " (" +
                                     second.by + ") are asked of parts of one fused node");
}
}  // namespace

Request strongest(const Request& a, const Request& b) {
  bool compute = false, accumulate = false, store = false;
  Request result;
  result.compute = stronger("compute", a.compute, b.compute, a, b, compute);
  result.accumulate = stronger("accumulate", a.accumulate, b.accumulate, a, b, accumulate);
  result.store = stronger("store", a.store, b.store, a, b, store);
  result.by = compute || accumulate || store ? b.by : a.by;
  return result;
}

Support satisfies(const Numerics& got, const Request& asked) {
  std::string reason = shortfall("computes", got.compute, asked.compute, asked.by);
  if (reason.empty()) reason = shortfall("accumulates", got.accumulate, asked.accumulate, asked.by);
  if (reason.empty()) reason = shortfall("stores", got.store, asked.store, asked.by);
  return reason.empty() ? yes() : no(reason);
}

}  // namespace vernier
